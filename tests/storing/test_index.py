"""What the index knows of a trace, against figures worked out by hand and the diff's own matching."""

from __future__ import annotations

import random
from pathlib import Path

from tests.comparing.planted import INSERTED, made
from tests.comparing.report_cases import LECTURE
from tests.rendering.recording import Recording
from tests.storing.kept import EDITED, LONGER, ran, written
from trace_tools.schema import Machine
from trace_tools.storing.index import times_of
from trace_tools.storing.store import Store


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
    assert found[y] == (100_000, 99_000, 101_000, 1)
    assert found[z] == (100_000, 99_000, 101_000, 2)


def test_a_section_in_which_something_was_measured_has_its_own_time_and_nothing_else_has() -> None:
    """As `compare` has it: there the time of such a section is all that it took."""
    made = Recording(LECTURE)
    main = made.frame("main", made.step(made.frame("<module>"), "def main"))
    first = made.frame("first", made.step(main, "first()", host_ns=[5_000_000, 7_000_000, 6_000_000], harness=True))
    made.step(first, "x = ", host_ns=[900_000] * 3, harness=True)
    found = times_of(made.trace(machine=Machine("A processor", "a", "cpu")))
    assert [tuple(times) for times in found.values()] == [(6_000_000, 5_000_000, 7_000_000, 1)]


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


def test_a_lecture_that_was_run_is_followed_through_an_inserted_line(tmp_path: Path) -> None:
    from tests.comparing.plain_tracing import traced

    with Store.create(tmp_path / "store") as store:
        store.add(written(made(0), tmp_path))
        store.add(written(traced(INSERTED), tmp_path, "inserted.yaml"))
        rows = store.index.execute(
            "SELECT code, line FROM statements WHERE text = 'b = a * 2' ORDER BY code"
        ).fetchall()
        ages = store.index.execute("SELECT DISTINCT lineage FROM statements WHERE text = 'b = a * 2'").fetchall()
    assert rows == [(1, 15), (2, 16)] and len(ages) == 1
