"""Data frames and series as arguments of `table` and `plot`, compared with the values in their own libraries."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.lecture.test_vocabulary import narrative_of
from trace_tools import plot, table
from trace_tools.lecture.data_frames import MOST_ROWS, rows_of, series_of

COLUMNS = {"city": ["Ulm", "Bonn", "Kiel"], "people": [126, 336, 246], "area": [118.7, math.inf, 118.65]}


def frames() -> list[Any]:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    return [pandas.DataFrame(COLUMNS), polars.DataFrame(COLUMNS)]


def test_frame_becomes_a_table_or_a_plot() -> None:
    for frame in frames():
        narrative = narrative_of(table, frame)
        assert narrative.columns == list(frame.columns)
        assert narrative.rows == [list(row) for row in zip(*COLUMNS.values(), strict=True)]
        assert narrative_of(table, frame, ["area", "city"]).columns == ["area", "city"]
        assert narrative_of(table, frame["people"]).rows == [[n] for n in COLUMNS["people"]]
        drawn = {series.name: series.y for series in narrative_of(plot, frame).series or []}
        assert drawn == {name: COLUMNS[name] for name in ("people", "area")}
        [series] = narrative_of(plot, frame, x="people").series or []
        assert (series.name, series.x) == ("area", COLUMNS["people"])
        for call, arguments, options in (
            (table, [frame, ["town"]], {}),
            (plot, [frame], {"x": "town"}),
            (plot, [frame["city"]], {}),
        ):
            with pytest.raises(ValueError, match="found"):
                call(*arguments, **options)


def test_index_is_the_first_column_and_x_values() -> None:
    frame = frames()[0].set_index("city")
    assert narrative_of(table, frame).columns == ["city", "people", "area"]
    narrative = narrative_of(plot, frame["people"], style="bars")
    assert (narrative.x_label, narrative.y_label) == ("city", "people")
    assert [(series.x, series.y) for series in narrative.series or []] == [(COLUMNS["city"], COLUMNS["people"])]
    grouped = frames()[0].groupby("city")["people"].sum()
    assert dict(rows_of(grouped)[1]) == dict(grouped)


def test_unusual_frames() -> None:
    pandas = pytest.importorskip("pandas")
    twice = pandas.DataFrame([[1, 2.5]], columns=["a", "a"])
    assert rows_of(twice) == (["a", "a (2)"], [[1, 2.5]], 0)
    missing = pandas.DataFrame(
        {"a": pandas.array([1, None], dtype="Int64"), "t": pandas.to_datetime(["2026-01-01", None])}
    )
    assert [row[0] for row in rows_of(missing)[1]] == [1, None] and rows_of(missing)[1][1][1] is None
    assert series_of(missing, None)[1] == {"a": [1, None]}
    days, hours = (
        pandas.DataFrame({"t": pandas.to_datetime(["2026-01-01", end], format="ISO8601")})
        for end in ("2026-01-02", "2026-01-02T09")
    )
    assert [str(row[0]) for row in rows_of(days)[1]] == ["2026-01-01", "2026-01-02"]
    assert [str(row[0]) for row in rows_of(hours)[1]] == ["2026-01-01 00:00:00", "2026-01-02 09:00:00"]
    assert rows_of(pandas.DataFrame()) == ([], [], 0)
    _, rows, left_out = rows_of(pandas.DataFrame({"a": range(MOST_ROWS + 7)}))
    assert (len(rows), left_out) == (MOST_ROWS, 7)
    assert narrative_of(table, pandas.DataFrame({"a": range(MOST_ROWS + 7)})).left_out == 7
