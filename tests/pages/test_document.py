from __future__ import annotations

import pytest

from tests.pages.recording import Recording
from tests.pages.test_compose import blocks_of, failing, lecture, number
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import (
    Anchors,
    Call,
    CodeLine,
    CodeRow,
    execution,
    first_trouble,
    in_runs,
    rows_shown,
    said_in_runs,
    salient,
    stretches,
    visible,
)
from trace_tools.trace.model import Claim, Machine, Run, Step, Text, Value

CPU = Machine("A processor", "cpu", "cpu")


def judged(*held: bool) -> list[Step]:
    return [Step(n, 0, 0, 1, n + 1, claim=Claim("x", outcome)) for n, outcome in enumerate(held)]


def test_first_last_and_first_failing_executions_are_shown() -> None:
    held = [True] * 20
    for index in (3, 4, 5, 6, 7, 8):
        held[index] = False
    shown = salient([execution(step, CPU) for step in judged(*held)])
    assert [e.step.id for e in shown] == [0, 3, 4, 5, 6, 19]
    assert len(salient([execution(step, CPU) for step in judged(True, True)])) == 2


def test_the_last_shown_execution_has_values_if_any() -> None:
    inspected = [Step(n, 0, 0, 1, n + 1, values=[("i", Value("int", n))] if n < 10 else None) for n in range(11)]
    assert [e.step.id for e in salient([execution(step, CPU) for step in inspected])] == [0, 9]
    assert [e.step.id for e in salient([execution(Step(n, 0, 0, 1, n + 1), CPU) for n in range(4)])] == [0, 3]


@pytest.mark.parametrize(("runs", "words"), [(None, None), (4, "ran in 4 of 6 runs")])
def test_the_share_of_runs_is_put_into_words(runs: int | None, words: str | None) -> None:
    assert in_runs("ran", runs, 6) == words
    assert execution(Step(0, 0, 0, 1, runs=runs), CPU, timed_runs=6).sometimes == words


def test_runs_with_other_texts_are_counted() -> None:
    narrative = Text(text="Fast.", others=[("Slow.", 2)])
    assert said_in_runs(narrative, Step(0, 0, 0, 1), 6) == "this is the text of 4 of 6 runs"
    assert said_in_runs(narrative, Step(0, 0, 0, 1), None) == "this is the text of most runs"
    assert said_in_runs(Text(text=""), Step(0, 0, 0, 1), 6) is None


def test_a_call_begins_with_its_definition() -> None:
    [section] = make_document(lecture().trace()).sections
    [call] = [b for b in blocks_of(section.blocks) if isinstance(b, Call) and b.name == "helper"]
    [listing] = call.blocks
    assert [row.lines[0].text.strip() for row in listing.rows][:2] == ["def helper(a):", "b = a + 1"]  # type: ignore[union-attr]
    assert not call.has_narrative and any(b.has_narrative for b in section.blocks if isinstance(b, Call))


def test_a_repeated_call_does_not_repeat_its_code() -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    g()\n    g()\n\ndef g():\n    return 1\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    for _ in range(2):
        recording.step(recording.call(f, "g()", "g"), "return 1")
    [section] = make_document(recording.trace()).sections
    assert [b.shown for b in blocks_of(section.blocks) if isinstance(b, Call)] == ["folded", "named"]
    assert [row.line for row in rows_shown(section.blocks)].count(9) == 1
    assert sum(isinstance(block, Call) for block in visible(section.blocks)) == 2


def test_anchors_locate_steps_lines_and_narrative() -> None:
    [section] = make_document(lecture().trace()).sections
    anchors = Anchors(section.blocks)
    rows = {row.anchor: row for row in rows_shown(section.blocks)}
    for step, anchor in anchors.rows.items():
        assert step in [e.step.id for e in rows[anchor].executions]
    for (_, line), anchor in anchors.lines.items():
        assert line in [code_line.number for code_line in rows[anchor].lines]
    assert {anchors.fallbacks[step] for _, step in anchors.narrations} >= {"said-1", "said-2"}
    assert set(anchors.narration_only.values()) == {f"said-{n}" for n, _ in anchors.narrations}


def test_the_first_trouble_is_where_the_exception_was_raised() -> None:
    run = Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ValueError")
    document = make_document(failing().trace(run=run))
    assert first_trouble(document.sections[0].blocks) is None
    anchor = first_trouble(document.sections[1].blocks)
    [row] = [row for row in rows_shown(document.sections[1].blocks) if row.anchor == anchor]
    assert row.lines[0].text.strip() == 'raise ValueError("no")'


def test_an_execution_has_the_values_of_its_step() -> None:
    assert not execution(Step(0, 0, 0, 1), CPU).values
    values: list[tuple[str, Value]] = [("x", number(1))]
    assert execution(Step(0, 0, 0, 1, values=values), CPU).values == values


def test_three_rows_that_did_not_run_are_folded() -> None:
    def row(text: str, ran: bool) -> CodeRow:
        return CodeRow((CodeLine(0, 1, text),), text, ran=ran)

    rows = [row("x", True), row("a", False), row("# why", True), row("b", False), row("c", False), row("# y", True)]
    folded = [(unrun, [r.anchor for r in stretch]) for unrun, stretch in stretches(rows)]
    assert folded == [(False, ["x"]), (True, ["a", "# why", "b", "c"]), (False, ["# y"])]
    assert stretches(rows[:4]) == [(False, rows[:4])]
