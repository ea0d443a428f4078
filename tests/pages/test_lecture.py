from __future__ import annotations

from dataclasses import replace

from tests.pages.test_compose import LECTURE, failing, lecture
from trace_tools.pages.content.lecture import lecture_of
from trace_tools.trace.model import Raised, Step, Trace


def steps(trace: Trace) -> list[Step]:
    return [event for event in trace.steps if isinstance(event, Step)]


def test_a_step_stands_at_its_line_of_the_text_that_is_shown() -> None:
    trace = lecture().trace()
    changed = LECTURE.replace('    text("Hello.")\n', '    text("Hello.")\n    text("More.")\n')
    before, after = lecture_of(trace), lecture_of(trace, changed)
    edited = LECTURE.splitlines().index('    text("Hello.")') + 1
    for step in steps(trace):
        assert LECTURE.splitlines()[before.lines[step.id] - 1].strip().startswith(before.code(step))
        assert before.code(step) == after.code(step) and before.code(step)
        assert after.lines[step.id] - before.lines[step.id] == (step.line > edited)


def test_prose_that_was_taken_out_stands_where_it_stood() -> None:
    trace = lecture().trace()
    [said] = [step for step in steps(trace) if step.narrative and step.narrative[0].text == "Hello."]
    shown = lecture_of(trace, LECTURE.replace('    text("Hello.")\n', ""))
    assert shown.edition(said).statement(said) is None and shown.lines[said.id] == said.line


def test_an_execution_has_its_failure_where_the_text_now_has_it() -> None:
    line = LECTURE.splitlines().index('    raise ValueError("no")') + 1
    made = failing()
    origin = next(place for place, event in reversed([*enumerate(made.events)]) if isinstance(event, Step))
    made.events[origin] = raised = replace(made.events[origin], raised=Raised("ValueError", "no", origin_line=line))
    told = lecture_of(made.trace(), "# one line more\n" + LECTURE)
    failure = told.executions[raised.id].failure
    assert failure is not None and failure.origin and failure.line == line + 1
    assert [one for one, execution in told.executions.items() if one != execution.step.id] == []


def test_a_run_that_never_began_has_an_empty_text() -> None:
    told = lecture_of(replace(lecture().trace(), sources=[], steps=[]))
    assert [edition.source.lines for edition in told.editions] == [()]
