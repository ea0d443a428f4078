from __future__ import annotations

import importlib
from typing import Any

import numpy
import pytest

from trace_tools.edtrace import vega
from trace_tools.trace.model import Series

ROWS = [{"x": 2, "y": 1.0, "c": "a"}, {"x": 1, "y": 4.0, "c": "b"}, {"x": 3, "y": 9.0, "c": "a"}]
ENCODING = {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}}


@pytest.fixture(autouse=True)
def _without_vl_convert(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "installed" not in request.node.name:
        monkeypatch.setattr(vega, "_converted", lambda spec: None)


def test_a_line_is_drawn_from_left_to_right() -> None:
    (told,) = vega.drawn({"data": {"values": ROWS}, "mark": "line", "encoding": ENCODING, "title": {"text": "T"}})
    assert (told.kind, told.title, told.x_label, told.y_label) == ("plot", "T", "x", "y")
    assert told.series == [Series("y", [1, 2, 3], [4.0, 1.0, 9.0], "line")]


def test_colours_divide_points_and_data_may_be_named() -> None:
    encoding = {**ENCODING, "color": {"field": "c"}, "y": {**ENCODING["y"], "scale": {"type": "log"}, "title": "up"}}
    spec = {"datasets": {"d": ROWS}, "data": {"name": "d"}, "mark": {"type": "circle"}, "encoding": encoding}
    (told,) = vega.drawn(spec)
    assert told.series == [Series("a", [2, 3], [1.0, 9.0], "points"), Series("b", [1], [4.0], "points")]
    assert (told.y_label, told.y_scale, told.x_scale) == ("up", "log", "linear")


def test_what_is_laid_over_it_and_can_not_be_drawn_is_said() -> None:
    layer = [{"mark": "line"}, {"mark": "text"}, {"mark": {"type": "area"}, "encoding": {"y2": {"field": "z"}}}]
    (told,) = vega.drawn({"data": {"values": ROWS}, "encoding": ENCODING, "layer": layer})
    assert told.title == "Figure (drawn without: text, area)" and len(told.series or ()) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"mark": "arc"},
        {"encoding": {**ENCODING, "y": {"aggregate": "mean", "field": "y"}}},
        {"encoding": {"theta": {"field": "y"}}},
        {"transform": [{"filter": "datum.x > 1"}]},
    ],
)
def test_what_is_computed_in_it_is_a_table_of_the_data(changed: dict[str, Any]) -> None:
    (told,) = vega.drawn({"data": {"values": ROWS}, "mark": "bar", "encoding": ENCODING, **changed})
    assert (told.kind, told.columns) == ("table", ["x", "y", "c"])
    assert told.rows == [[2, 1.0, "a"], [1, 4.0, "b"], [3, 9.0, "a"]]


def test_charts_beside_one_another_are_several_and_numbers_of_numpy_are_numbers() -> None:
    one = {"mark": "bar", "encoding": ENCODING}
    rows = [{"x": numpy.float32(1), "y": numpy.int64(2)}]
    found = vega.drawn({"data": {"values": rows}, "hconcat": [one, {**one, "data": {"values": [[1], [2]]}}]})
    assert [told.kind for told in found] == ["plot", "table"]
    assert found[0].series == [Series("y", [1.0], [2], "bars")] and found[1].rows == [["[1]"], ["[2]"]]


def test_data_that_lie_elsewhere_are_named_and_what_is_no_specification_is_refused() -> None:
    (told,) = vega.drawn({"data": {"url": "data.csv"}, "mark": "bar", "encoding": ENCODING})
    assert told.rows == [["data.csv"]]
    with pytest.raises(TypeError, match="found a list; expected a Vega-Lite specification"):
        vega.drawn([1])  # type: ignore[arg-type]


def test_it_is_drawn_as_it_is_where_vl_convert_is_installed() -> None:
    pytest.importorskip("vl_convert", reason="draws Vega-Lite; not installed here")
    (told,) = vega.drawn({"data": {"values": ROWS}, "mark": "arc", "encoding": {"theta": {"field": "y"}}})
    assert told.kind == "plot" and told.svg is not None and told.svg.startswith("<svg")


def test_what_is_installed_may_refuse_a_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def vegalite_to_svg(self, spec: object) -> str:
            raise ValueError("no such mark")

    monkeypatch.setattr(importlib, "import_module", lambda name: Refusing())
    (told,) = vega.drawn({"data": {"values": ROWS}, "mark": "line", "encoding": ENCODING})
    assert told.svg is None and told.series
