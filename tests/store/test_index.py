"""What the index knows of a trace, against figures worked out by hand and the diff's own matching."""

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
from tests.store.kept import EDITED, LONGER, RENAMED, REWRITTEN, WITHOUT, ran, written
from trace_tools.store.history import find, histories, history_of
from trace_tools.store.index import times_of
from trace_tools.store.store import Store
from trace_tools.trace.model import Machine, Trace


def lines_of(store: Store, line: int) -> list[tuple[str, int]]:
    """Return where the statement at a line of the newest version stood in each run."""
    rows = store.index.execute(
        "SELECT runs.started, old.line FROM runs JOIN statements old ON old.code = runs.code WHERE old.lineage ="
        " (SELECT lineage FROM statements WHERE line = ? AND code ="
        " (SELECT code FROM runs ORDER BY started DESC LIMIT 1))"
        " ORDER BY runs.started",
        (line,),
    )
    return [(started[8:10], line) for started, line in rows]


def test_times_are_means_over_executions_of_each_pass() -> None:
    found = {place: tuple(times) for place, times in times_of(ran(1, us=100)).items()}
    y, z = (place for place, times in sorted(found.items()) if times[0] == 100_000)
    assert found[y] == found[z] == (100_000, 99_000, 101_000, True)


def test_a_section_in_which_something_was_measured_has_its_own_time_and_nothing_else_has() -> None:
    """As `compare` has it: there the time of such a section is all that it took."""
    made = Recording(LECTURE)
    main = made.frame("main", made.step(made.frame("<module>"), "def main"))
    first = made.frame("first", made.step(main, "first()", host_ns=[5_000_000, 7_000_000, 6_000_000], harness=True))
    made.step(first, "x = ", host_ns=[900_000] * 3, harness=True)
    found = times_of(made.trace(machine=Machine("A processor", "a", "cpu")))
    assert [tuple(times) for times in found.values()] == [(6_000_000, 5_000_000, 7_000_000, False)]


def test_a_statement_is_followed_where_it_moved_and_was_edited(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        for day, text in ((1, None), (2, LONGER), (3, EDITED)):
            store.add(written(ran(day, commit=f"c{day}", **({"text": text} if text else {})), tmp_path))
        assert lines_of(store, 7) == [("01", 6), ("02", 7), ("03", 7)]
        assert lines_of(store, 6) == [("02", 6), ("03", 6)]  # the line that was put in


def test_the_order_of_adding_does_not_matter(tmp_path: Path) -> None:
    runs = [(1, None), (2, LONGER), (3, EDITED), (4, None)]
    random.Random(3).shuffle(runs)
    with Store.create(tmp_path / "store") as store:
        for day, text in runs:
            store.add(written(ran(day, **({"text": text} if text else {})), tmp_path))
        expected = [("01", 6), ("02", 7), ("03", 7), ("04", 6)]
        assert lines_of(store, 6) == expected
        store.rebuild()
        assert lines_of(store, 6) == expected


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_statement_that_was_away_goes_on_where_it_ended(tmp_path: Path, order: tuple[int, ...]) -> None:
    runs = [ran(1), recorded(2, WITHOUT, "z = "), ran(3, text=LONGER)]
    with Store.create(tmp_path / "store") as store:
        for number in order:
            store.add(written(runs[number], tmp_path))
        assert lines_of(store, 7) == [("01", 6), ("03", 7)]
        assert lines_of(store, 8) == [("01", 7), ("02", 6), ("03", 8)]
        assert len(history_of(store, find(store, "7")).series["a"].points) == 2


def kept(store: Store) -> list[tuple[object, ...]]:
    """Return which statement has which lineage in which run."""
    return store.index.execute(
        "SELECT runs.path, statements.source, statements.statement, statements.lineage, statements.line"
        " FROM runs JOIN statements ON statements.code = runs.code ORDER BY 1, 2, 3"
    ).fetchall()


def recorded(day: int, text: str, timed: str = "y = ") -> Trace:
    """Return the run of a day of a text that has other statements; one of them was timed."""
    made = Recording(text)
    first = made.frame("first", made.step(made.frame("main"), "first()", host_ns=[10**6]))
    made.step(first, timed, annotated=True, host_ns=[1_000] * 3)
    one = made.trace(machine=Machine("A processor", "a", "cpu"))
    return replace(one, run=replace(one.run, started=f"2026-10-{day:02}T12:00:00+00:00"))


@pytest.mark.slow
@each("order", list(permutations(range(4))))
def test_a_version_that_comes_late_has_the_lineage_that_it_has_after_a_rebuild(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    runs = [recorded(1, ORIGINAL), recorded(2, REWRITTEN), recorded(3, RENAMED, "out = "), recorded(4, REWRITTEN)]
    with Store.create(tmp_path / "store") as store:
        for number in order:
            store.add(written(runs[number], tmp_path))
        found = kept(store)
        assert lines_of(store, 6) == [("01", 6), ("02", 6), ("03", 6), ("04", 6)]
        store.rebuild()
        assert kept(store) == found
        (store.folder / store.runs()[1].path).unlink()  # the first run of a version: it stands elsewhere now
    with Store(tmp_path / "store") as store:
        found = kept(store)
        store.rebuild()
        assert kept(store) == found


def test_a_file_that_was_damaged_since_does_not_keep_others_out(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        store.add(written(ran(1), tmp_path))
        place, _ = store.add(written(ran(2, text=LONGER), tmp_path))
        (tmp_path / "store" / place).write_bytes(b"rotten")
        store.add(written(ran(3, text=EDITED), tmp_path))
        assert lines_of(store, 7) == [("01", 6), ("03", 7)]
        assert len(store.troubles) == 1 and place in store.troubles[0]


def test_what_is_annotated_does_not_depend_on_which_run_came_first(tmp_path: Path) -> None:
    whole = ran(2)
    partial = replace(ran(1), steps=whole.steps[:3])
    for name, runs in (("a", (partial, whole)), ("b", (whole, partial))):
        with Store.create(tmp_path / name) as store:
            for one in runs:
                store.add(written(one, tmp_path))
            assert [one.statement.text for one in histories(store)] == ["y = x @ w", "z = y + 1"]


def test_a_lecture_that_was_run_is_followed_through_an_inserted_line(tmp_path: Path) -> None:
    from tests.diff.plain_tracing import traced

    with Store.create(tmp_path / "store") as store:
        store.add(written(made(0), tmp_path))
        store.add(written(traced(INSERTED), tmp_path, "inserted.yaml"))
        rows = store.index.execute(
            "SELECT code, line FROM statements WHERE text = 'b = a * 2' ORDER BY code"
        ).fetchall()
        ages = store.index.execute("SELECT DISTINCT lineage FROM statements WHERE text = 'b = a * 2'").fetchall()
    assert rows == [(1, 15), (2, 16)] and len(ages) == 1
