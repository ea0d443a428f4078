"""The index of a store: times of statements, and their lineages through versions of a lecture."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.diff.planted import INSERTED, made
from tests.diff.report_cases import LECTURE
from tests.diff.test_compare import LECTURE as ORIGINAL
from tests.pages.recording import Recording
from tests.store.dated_traces import EDITED, LONGER, RENAMED, REWRITTEN, WITHOUT_Y, trace_of_day, write_trace
from trace_tools.store.history import find, histories, history_of
from trace_tools.store.index import times_of
from trace_tools.store.store import Store
from trace_tools.trace.model import Machine, Trace


def lines_of(store: Store, line: int) -> list[tuple[str, int]]:
    """Return the day of each run and the line in it of the statement at `line` in the newest version."""
    rows = store.index.execute(
        "SELECT runs.started, old.line FROM runs JOIN statements old ON old.code = runs.code WHERE old.lineage ="
        " (SELECT lineage FROM statements WHERE line = ? AND code ="
        " (SELECT code FROM runs ORDER BY started DESC LIMIT 1))"
        " ORDER BY runs.started",
        (line,),
    )
    return [(started[8:10], line) for started, line in rows]


def test_times_are_means_over_the_executions_of_a_pass() -> None:
    trace = trace_of_day(1, us=100)
    *others, second_z, last = trace.steps
    second_z = replace(second_z, host_ns=[2 * ns for ns in second_z.host_ns])
    times = sorted(times_of(replace(trace, steps=[*others, second_z, last])).items())
    y, z = (tuple(ns) for _, ns in times if ns.annotated)
    assert (y, z) == ((100_000, 99_000, 101_000, True), (150_000, 148_500, 151_500, True))


def test_only_the_section_itself_has_a_time_if_it_measures() -> None:
    """As in `compare`, the time of a section includes its measurements; its statements have no time of their own."""
    recording = Recording(LECTURE)
    main = recording.frame("main", recording.step(recording.frame("<module>"), "def main"))
    first = recording.frame(
        "first", recording.step(main, "first()", host_ns=[5_000_000, 7_000_000, 6_000_000], harness=True)
    )
    recording.step(first, "x = ", host_ns=[900_000] * 3, harness=True)
    times = times_of(recording.trace(machine=Machine("A processor", "a", "cpu")))
    assert [tuple(ns) for ns in times.values()] == [(6_000_000, 5_000_000, 7_000_000, False)]


def test_moved_and_edited_statements_keep_their_lineage(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        for day, text in ((1, None), (2, LONGER), (3, EDITED)):
            store.add(write_trace(trace_of_day(day, commit=f"c{day}", **({"text": text} if text else {})), tmp_path))
        assert lines_of(store, 7) == [("01", 6), ("02", 7), ("03", 7)]
        assert lines_of(store, 6) == [("02", 6), ("03", 6)]  # the line that LONGER inserts


def test_the_order_of_adding_runs_does_not_matter(tmp_path: Path) -> None:
    runs = [(1, None), (2, LONGER), (3, EDITED), (4, None)]
    random.Random(3).shuffle(runs)
    with Store.create(tmp_path / "store") as store:
        for day, text in runs:
            store.add(write_trace(trace_of_day(day, **({"text": text} if text else {})), tmp_path))
        expected = [("01", 6), ("02", 7), ("03", 7), ("04", 6)]
        assert lines_of(store, 6) == expected
        store.rebuild()
        assert lines_of(store, 6) == expected


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_removed_statement_continues_when_it_returns(tmp_path: Path, order: tuple[int, ...]) -> None:
    runs = [trace_of_day(1), trace_with_one_time(2, WITHOUT_Y, "z = "), trace_of_day(3, text=LONGER)]
    with Store.create(tmp_path / "store") as store:
        for number in order:
            store.add(write_trace(runs[number], tmp_path))
        assert lines_of(store, 7) == [("01", 6), ("03", 7)]
        assert lines_of(store, 8) == [("01", 7), ("02", 6), ("03", 8)]
        assert len(history_of(store, find(store, "7")).series["a"].points) == 2


def lineages(store: Store) -> list[tuple[object, ...]]:
    """Return a row for each statement of each run: path, source, number, lineage and line."""
    return store.index.execute(
        "SELECT runs.path, statements.source, statements.statement, statements.lineage, statements.line"
        " FROM runs JOIN statements ON statements.code = runs.code ORDER BY 1, 2, 3"
    ).fetchall()


def trace_with_one_time(day: int, text: str, timed: str = "y = ") -> Trace:
    """Return a trace of a source in which only the statement that begins with `timed` and its section ran."""
    recording = Recording(text)
    first = recording.frame("first", recording.step(recording.frame("main"), "first()", host_ns=[10**6]))
    recording.step(first, timed, annotated=True, host_ns=[1_000] * 3)
    trace = recording.trace(machine=Machine("A processor", "a", "cpu"))
    return replace(trace, run=replace(trace.run, started=f"2026-10-{day:02}T12:00:00+00:00"))


@pytest.mark.slow
@each("order", list(permutations(range(4))))
def test_lineages_do_not_depend_on_the_order_of_versions(tmp_path: Path, order: tuple[int, ...]) -> None:
    """The first run of a version may also be removed later."""
    runs = [
        trace_with_one_time(1, ORIGINAL),
        trace_with_one_time(2, REWRITTEN),
        trace_with_one_time(3, RENAMED, "out = "),
        trace_with_one_time(4, REWRITTEN),
    ]
    with Store.create(tmp_path / "store") as store:
        for number in order:
            store.add(write_trace(runs[number], tmp_path))
        before = lineages(store)
        assert lines_of(store, 6) == [("01", 6), ("02", 6), ("03", 6), ("04", 6)]
        store.rebuild()
        assert lineages(store) == before
        (store.folder / store.runs()[1].path).unlink()  # the first of two runs of REWRITTEN
    with Store(tmp_path / "store") as store:
        before = lineages(store)
        store.rebuild()
        assert lineages(store) == before


def test_a_damaged_file_does_not_prevent_adding_others(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        store.add(write_trace(trace_of_day(1), tmp_path))
        path, _ = store.add(write_trace(trace_of_day(2, text=LONGER), tmp_path))
        (tmp_path / "store" / path).write_bytes(b"rotten")
        store.add(write_trace(trace_of_day(3, text=EDITED), tmp_path))
        assert lines_of(store, 7) == [("01", 6), ("03", 7)]
        assert len(store.troubles) == 1 and path in store.troubles[0]


def test_annotations_do_not_depend_on_the_order_of_runs(tmp_path: Path) -> None:
    complete = trace_of_day(2)
    partial = replace(trace_of_day(1), steps=complete.steps[:3])  # ends before the annotated statements
    for name, runs in (("a", (partial, complete)), ("b", (complete, partial))):
        with Store.create(tmp_path / name) as store:
            for trace in runs:
                store.add(write_trace(trace, tmp_path))
            assert [history.statement.text for history in histories(store)] == ["y = x @ w", "z = y + 1"]


def test_a_statement_of_an_executed_program_is_followed_through_an_inserted_line(tmp_path: Path) -> None:
    from tests.diff.plain_tracing import traced

    with Store.create(tmp_path / "store") as store:
        store.add(write_trace(made(0), tmp_path))
        store.add(write_trace(traced(INSERTED), tmp_path, "inserted.yaml"))
        rows = store.index.execute(
            "SELECT code, line FROM statements WHERE text = 'b = a * 2' ORDER BY code"
        ).fetchall()
        distinct = store.index.execute("SELECT DISTINCT lineage FROM statements WHERE text = 'b = a * 2'").fetchall()
    assert rows == [(1, 15), (2, 16)] and len(distinct) == 1
