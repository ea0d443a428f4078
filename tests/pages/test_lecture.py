from __future__ import annotations

from dataclasses import replace

from tests.pages.lectures import LECTURE, failing, lecture
from trace_tools.pages.content.lecture import lecture_of
from trace_tools.trace.model import Raised, Step, Trace


def steps(trace: Trace) -> list[Step]:
    return [event for event in trace.steps if isinstance(event, Step)]


def test_steps_have_the_line_numbers_of_the_edited_text() -> None:
    trace = lecture().trace()
    changed = LECTURE.replace('    text("Hello.")\n', '    text(\n        "More.")\n')
    before, after = lecture_of(trace), lecture_of(trace, changed)
    edited = LECTURE.splitlines().index('    text("Hello.")') + 1
    for step in steps(trace):
        assert LECTURE.splitlines()[before.lines[step.id] - 1].strip().startswith(before.code(step))
        assert (before.code(step) == after.code(step) or step.line == edited) and before.code(step)
        assert after.lines[step.id] - before.lines[step.id] == (step.line > edited)


def test_failures_have_the_line_numbers_of_the_edited_text() -> None:
    line = LECTURE.splitlines().index('    raise ValueError("no")') + 1
    recording = failing()
    origin = next(index for index, event in reversed([*enumerate(recording.events)]) if isinstance(event, Step))
    recording.events[origin] = raised = replace(
        recording.events[origin], raised=Raised("ValueError", "no", origin_line=line)
    )
    edited = lecture_of(recording.trace(), "# one line more\n" + LECTURE)
    failure = edited.executions[raised.id].failure
    assert failure is not None and failure.origin and failure.line == line + 1
    assert [step_id for step_id, execution in edited.executions.items() if step_id != execution.step.id] == []


def test_a_trace_without_sources_has_no_lines() -> None:
    empty = lecture_of(replace(lecture().trace(), sources=[], steps=[]))
    assert [edition.source.lines for edition in empty.editions] == [()]
