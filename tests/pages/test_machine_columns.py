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
from trace_tools.pages.machine_columns import Listed, beside
from trace_tools.trace.model import Claim, Measured, Meters, Step, Trace, Value


def columns(trace: Trace, other: Trace) -> dict[str, Column]:
    """Return the column of `other` for each section of `trace`."""
    sections = make_document(trace).sections
    columns_of_other, _ = beside(Side("here", trace), Side("there", other), [*map(Listed.of, sections)], [])
    return {section.function: columns_of_other.columns[section.slug] for section in sections}


def cell(trace: Trace, other: Trace, line: int) -> ColumnCell:
    """Return the cell of `other` at a line of `trace`."""
    cells = {a: c for column in columns(trace, other).values() for a, c in column.cells.items()}
    return next(cell for anchor, cell in cells.items() if anchor.endswith(f"L{line}"))


def texts(cell: ColumnCell) -> list[tuple[str, str | None, str, bool]]:
    return [(entry.kind, entry.text, entry.note, entry.differs) for entry in cell.entries]


def test_equal_traces_have_no_differences() -> None:
    by_section = columns(made(0), made(1))
    assert all(column.differing == 0 and not column.notes for column in by_section.values())
    assert ("value", None, "", False) in texts(by_section["first"].cells["L6"])
    assert texts(by_section["first"].cells["L7"]) == [("held", None, "", False)]


def test_a_different_value_is_written_as_on_a_page() -> None:
    other = with_steps(made(1), at(6, values=[("y", tensor(shape=[4], strides=[1]))]))
    assert ("value", "f32[4] = [1., 2., 3., 4.]", "", True) in texts(cell(made(0), other, 6))
    assert sum(column.differing for column in columns(made(0), other).values()) == 1


def test_differences_that_the_text_hides_are_noted() -> None:
    other = with_steps(made(1), at(6, values=[("y", tensor(elements=[1.0, 2.0, 3.0, 9.0]))]))
    assert ("value", None, "details differ", True) in texts(cell(made(0), other, 6))


def test_noise_is_not_a_difference() -> None:
    rounded = with_steps(made(1), at(6, values=[("y", tensor(elements=[1.0, 2.0, 3.0, 4.0000005]))]))
    varying = with_steps(made(1), at(6, values=[("y", Value("float", 0.5, varies=True, samples=[0.4, 0.5]))]))
    for other in (rounded, varying):
        assert not cell(made(0), other, 6).differs
    assert ("value", "0.4 … 0.5 · varies", "", False) in texts(cell(made(0), varying, 6))


def test_a_claim_that_fails_in_the_other_trace_differs() -> None:
    sides = [("y", Value("int", 3)), ("2", Value("int", 2))]
    other = with_steps(made(1), at(7, claim=Claim("y == 2", False, sides)))
    assert ("failed", "3 == 2", "", True) in texts(cell(made(0), other, 7))


def test_different_memory_is_shown_with_this_pages_value() -> None:
    other = with_steps(made(1), at(6, meters=Meters(8, 16, 16, 1024, 4096)))
    memory_cell = cell(made(0), other, 6)
    assert ("memory", "peak 4 KiB", "here 2 KiB", True) in texts(memory_cell)


def slowed(trace: Trace, line: int, factor: float) -> Trace:
    """Return the trace with a line that took 100 ms, times the factor."""
    noise = random.Random(line)

    def change(step: Step) -> Step:
        samples = [round(100e6 * factor * noise.lognormvariate(0, 0.01)) for _ in step.host_ns or ()]
        return replace(step, host_ns=samples, annotated=True) if step.line == line else step

    return with_steps(trace, change)


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "note"), [(2.0, "2× slower"), (0.5, "2× faster")])
def test_times_on_one_machine_are_judged_in_both_directions(factor: float, note: str) -> None:
    trace, changed = slowed(made(0), SLOW_LINE, 1.0), slowed(made(1), SLOW_LINE, factor)
    for one, other, expected in (
        (trace, changed, note),
        (changed, trace, {"2× slower": "2× faster"}.get(note, "2× slower")),
    ):
        [time] = [entry for entry in cell(one, other, SLOW_LINE).entries if entry.kind == "time"]
        assert time.differs and time.note.replace("1.9", "2").replace("2.1", "2") == expected


def test_times_on_another_machine_are_ratios_not_differences() -> None:
    trace = slowed(made(0), 6, 1.0)
    [time] = [entry for entry in cell(trace, pretend_gpu(trace), 6).entries if entry.kind == "time"]
    assert not time.differs
    took_ns = 6_000  # the launch; 32 bytes and 8 FLOPs add nothing
    factor = float(time.note.split("×")[0].replace(",", ""))
    assert time.note.endswith("× faster") and factor == pytest.approx(100e6 / took_ns, rel=0.1)


def test_a_line_that_did_not_run_elsewhere_is_reported() -> None:
    other = made(1)
    removed = {step.id for step in other.steps if isinstance(step, Step) and step.line == 6}
    other = replace(other, steps=[e for e in other.steps if not (isinstance(e, Step) and e.id in removed)])
    assert texts(cell(made(0), other, 6)) == [("absent", "did not run there", "", True)]


def test_an_edited_lecture_is_aligned_and_reported() -> None:
    from tests.diff.planted import LECTURE

    edited = traced(LECTURE.replace("def first():\n", "def first():\n    fresh = 0\n"), machine=CPU)
    by_section = columns(made(0), edited)
    assert all("source is different" in column.notes[0] for column in by_section.values())
    assert any(anchor == "L6" for anchor in by_section["first"].cells)


def test_an_unrelated_lecture_has_no_cells() -> None:
    unrelated = traced("def main():\n    other()\ndef other():\n    q = [1]\n    r = q + q\nmain()\n", machine=CPU)
    by_section = columns(made(0), unrelated)
    assert all(not column.cells and "this page" in column.notes[-1] for column in by_section.values())
    empty = columns(made(0), replace(unrelated, steps=[]))
    assert all(not column.cells and "another lecture" in column.notes[0] for column in empty.values())


def test_each_measurement_of_a_line_is_compared() -> None:
    def measuring(first: float, second: float) -> Trace:
        calls = [Measured([s, 1.01 * s, s / 1.01]) for s in (first, second)]
        times = {"host_ns": [4 * 10**8] * 3, "annotated": True, "harness": True}
        return with_steps(made(0), at(6, measured=calls, **times))

    measured_cell = cell(measuring(3e-6, 5e-5), measuring(3e-6, 1e-4), 6)
    assert [(e.name, e.text, e.note, e.differs) for e in measured_cell.entries if e.kind == "time"] == [
        ("measurement 1", "3 µs", "≈", False),
        ("measurement 2", "100 µs", "2× slower", True),
    ]
