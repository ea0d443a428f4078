from __future__ import annotations

from tests.pages.lectures import blocks_of, failing, first_section, lecture
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
)
from trace_tools.trace.model import Claim, Machine, Run, Step, Text, Value

CPU = Machine("A processor", "cpu", "cpu")


def test_first_last_first_failing_and_last_inspected_executions_are_shown() -> None:
    def shown(steps: list[Step]) -> list[int]:
        return [e.step.id for e in salient([execution(step, CPU) for step in steps])]

    judged = [Step(n, 0, 0, 1, n + 1, claim=Claim("x", not 3 <= n <= 8)) for n in range(20)]
    assert shown(judged) == [0, 3, 4, 5, 6, 19] and shown(judged[:2]) == [0, 1]
    inspected = [Step(n, 0, 0, 1, n + 1, values=[("i", Value("int", n))] if n < 10 else None) for n in range(11)]
    assert shown(inspected) == [0, 9]
    assert shown([Step(n, 0, 0, 1, n + 1) for n in range(4)]) == [0, 3]


def test_the_share_of_runs_is_put_into_words() -> None:
    for runs, words in ((None, None), (4, "ran in 4 of 6 runs")):
        assert in_runs("ran", runs, 6) == execution(Step(0, 0, 0, 1, runs=runs), CPU, timed_runs=6).sometimes == words
    narrative = Text(text="Fast.", others=[("Slow.", 2)])
    assert said_in_runs(narrative, Step(0, 0, 0, 1), 6) == "this is the text of 4 of 6 runs"
    assert said_in_runs(narrative, Step(0, 0, 0, 1), None) == "this is the text of most runs"
    assert said_in_runs(Text(text=""), Step(0, 0, 0, 1), 6) is None


def test_a_call_has_narrative_if_it_said_something() -> None:
    calls = [block for block in blocks_of(first_section(lecture().trace()).blocks) if isinstance(block, Call)]
    assert {call.name: call.has_narrative for call in calls} == {"inner": True, "helper": False}


def test_anchors_locate_steps_lines_and_narrative() -> None:
    section = first_section(lecture().trace())
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
    first, second = make_document(failing().trace(run=run)).sections
    assert first_trouble(first.blocks) is None
    [row] = [row for row in rows_shown(second.blocks) if row.anchor == first_trouble(second.blocks)]
    assert row.lines[0].text.strip() == 'raise ValueError("no")'


def test_three_rows_that_did_not_run_are_folded() -> None:
    def row(text: str, ran: bool) -> CodeRow:
        return CodeRow((CodeLine(0, 1, text),), text, ran=ran)

    rows = [row("x", True), row("a", False), row("# why", True), row("b", False), row("c", False), row("# y", True)]
    folded = [(unrun, [r.anchor for r in stretch]) for unrun, stretch in stretches(rows)]
    assert folded == [(False, ["x"]), (True, ["a", "# why", "b", "c"]), (False, ["# y"])]
    assert stretches(rows[:4]) == [(False, rows[:4])]
