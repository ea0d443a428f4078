from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, SLOW_LINE, at, made, tensor, with_steps
from tests.pretend_gpu import pretend_gpu
from trace_tools.diff.difference import Side
from trace_tools.pages.columns import Column, ColumnCell
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.machine_columns import Listed, beside, column, counterparts_of_ranks
from trace_tools.trace.model import Claim, Measured, Meters, Step, Trace, Value
from trace_tools.trace.ranks import joined


def columns(here: Trace, there: Trace) -> dict[str, Column]:
    """Return what stands beside each section of `here`."""
    sections = make_document(here).sections
    in_there, _ = beside(Side("here", here), Side("there", there), [*map(Listed.of, sections)], [])
    return {section.function: in_there.columns[section.slug] for section in sections}


def cell(here: Trace, there: Trace, line: int) -> ColumnCell:
    """Return what stands beside a line of `here`, which is in one of its sections."""
    cells = {a: c for found in columns(here, there).values() for a, c in found.cells.items()}
    return next(found for anchor, found in cells.items() if anchor.endswith(f"L{line}"))


def texts(found: ColumnCell) -> list[tuple[str, str | None, str, bool]]:
    return [(entry.kind, entry.text, entry.note, entry.differs) for entry in found.entries]


def test_what_is_the_same_has_no_text_and_no_line_differs() -> None:
    found = columns(made(0), made(1))
    assert all(one.differing == 0 and not one.notes for one in found.values())
    assert ("value", None, "", False) in texts(found["first"].cells["L6"])
    assert texts(found["first"].cells["L7"]) == [("held", None, "", False)]


def test_another_value_differs_and_reads_as_the_page_would_say_it() -> None:
    other = with_steps(made(1), at(6, values=[("y", tensor(shape=[4], strides=[1]))]))
    assert ("value", "f32[4] = [1., 2., 3., 4.]", "", True) in texts(cell(made(0), other, 6))
    assert sum(found.differing for found in columns(made(0), other).values()) == 1


def test_a_difference_that_the_line_does_not_show_is_said() -> None:
    other = with_steps(made(1), at(6, values=[("y", tensor(elements=[1.0, 2.0, 3.0, 9.0]))]))
    assert ("value", None, "details differ", True) in texts(cell(made(0), other, 6))


def test_noise_is_no_difference() -> None:
    rounded = with_steps(made(1), at(6, values=[("y", tensor(elements=[1.0, 2.0, 3.0, 4.0000005]))]))
    drawn = with_steps(
        made(1), at(6, values=[("y", replace(tensor(elements=[7.0, 2.0, 3.0, 4.0]), device_random=True))])
    )
    varying = with_steps(made(1), at(6, values=[("y", Value("float", 0.5, varies=True, samples=[0.4, 0.5]))]))
    for other in (rounded, drawn, varying):
        assert not cell(made(0), other, 6).differs
    assert ("value", "0.4 … 0.5 · varies", "", False) in texts(cell(made(0), varying, 6))


def test_a_claim_that_failed_there_differs() -> None:
    sides = [("y", Value("int", 3)), ("2", Value("int", 2))]
    other = with_steps(made(1), at(7, claim=Claim("y == 2", False, sides)))
    assert ("failed", "3 == 2", "", True) in texts(cell(made(0), other, 7))


def test_memory_stands_where_it_was_asked_for_and_says_what_it_was_here() -> None:
    other = with_steps(made(1), at(6, meters=Meters(8, 16, 16, 1024, 4096)))
    found = cell(made(0), other, 6)
    assert ("memory", "peak 4 KiB", "here 2 KiB", True) in texts(found)


def slowed(trace: Trace, line: int, factor: float) -> Trace:
    """Return the trace with a line that took 100 ms, times the factor."""
    noise = random.Random(line)

    def change(step: Step) -> Step:
        samples = [round(100e6 * factor * noise.lognormvariate(0, 0.01)) for _ in step.host_ns or ()]
        return replace(step, host_ns=samples, annotated=True) if step.line == line else step

    return with_steps(trace, change)


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "note"), [(2.0, "2× slower"), (0.5, "2× faster")])
def test_time_on_one_machine_is_judged_from_both_sides(factor: float, note: str) -> None:
    here, there = slowed(made(0), SLOW_LINE, 1.0), slowed(made(1), SLOW_LINE, factor)
    for one, other, expected in ((here, there, note), (there, here, {"2× slower": "2× faster"}.get(note, "2× slower"))):
        [time] = [entry for entry in cell(one, other, SLOW_LINE).entries if entry.kind == "time"]
        assert time.differs and time.note.replace("1.9", "2").replace("2.1", "2") == expected


def test_time_on_another_machine_is_a_ratio_and_no_difference() -> None:
    here = slowed(made(0), 6, 1.0)
    [time] = [entry for entry in cell(here, pretend_gpu(here), 6).entries if entry.kind == "time"]
    assert not time.differs
    took_ns = 6_000  # a launch: 32 bytes and 8 FLOPs take no time
    factor = float(time.note.split("×")[0].replace(",", ""))
    assert time.note.endswith("× faster") and factor == pytest.approx(100e6 / took_ns, rel=0.1)


def test_a_line_that_did_not_run_there_says_so() -> None:
    other = made(1)
    gone = {step.id for step in other.steps if isinstance(step, Step) and step.line == 6}
    other = replace(other, steps=[e for e in other.steps if not (isinstance(e, Step) and e.id in gone)])
    assert texts(cell(made(0), other, 6)) == [("absent", "did not run there", "", True)]


def test_an_edited_lecture_is_aligned_and_announced() -> None:
    from tests.diff.planted import LECTURE

    edited = traced(LECTURE.replace("def first():\n", "def first():\n    fresh = 0\n"), machine=CPU)
    found = columns(made(0), edited)
    assert all("source is different" in beside.notes[0] for beside in found.values())
    assert any(anchor == "L6" for anchor in found["first"].cells)


def test_another_lecture_has_nothing_to_say() -> None:
    stranger = traced("def main():\n    other()\ndef other():\n    q = [1]\n    r = q + q\nmain()\n", machine=CPU)
    found = columns(made(0), stranger)
    assert all(not beside.cells and "this page" in beside.notes[-1] for beside in found.values())
    empty = columns(made(0), replace(stranger, steps=[]))
    assert all(not beside.cells and "another lecture" in beside.notes[0] for beside in empty.values())


def test_of_several_measurements_each_says_how_one_call_compares() -> None:
    def measuring(first: float, second: float) -> Trace:
        calls = [Measured([s, 1.01 * s, s / 1.01]) for s in (first, second)]
        times = {"host_ns": [4 * 10**8] * 3, "annotated": True, "harness": True}
        return with_steps(made(0), at(6, measured=calls, **times))

    found = cell(measuring(3e-6, 5e-5), measuring(3e-6, 1e-4), 6)
    assert [(e.name, e.text, e.note, e.differs) for e in found.entries if e.kind == "time"] == [
        ("measurement 1", "3 µs", "≈", False),
        ("measurement 2", "100 µs", "2× slower", True),
    ]


def test_each_rank_of_a_trace_has_a_column() -> None:
    """What a rank had otherwise differs from what the page says of all; what all had reads the same."""
    other = with_steps(made(0), at(6, values=[("y", tensor(elements=[9.0, 2.0, 3.0, 4.0]))]))
    trace = joined({0: made(0), 1: other})
    trace = replace(trace, run=replace(trace.run, ranks=2))
    first, second = counterparts_of_ranks(trace)
    assert (first.name, second.name) == ("rank 0", "rank 1")
    sections = make_document(trace).sections
    assert sum(column(Listed.of(section), first).differing for section in sections) == 0
    assert sum(column(Listed.of(section), second).differing for section in sections) == 1


def test_a_trace_of_no_ranks_has_no_such_columns() -> None:
    assert counterparts_of_ranks(made(0)) == []
