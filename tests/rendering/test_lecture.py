from __future__ import annotations

from dataclasses import replace

from tests.rendering.test_compose import LECTURE, failing, lecture
from trace_tools.rendering.lecture import Lecture
from trace_tools.schema import Raised, Step, Trace


def steps(trace: Trace) -> list[Step]:
    return [event for event in trace.steps if isinstance(event, Step)]


def test_a_step_stands_at_its_line_of_the_text_that_is_shown() -> None:
    trace = lecture().trace()
    changed = LECTURE.replace('    text("Hello.")\n', '    text("Hello.")\n    text("More.")\n')
    before, after = Lecture(trace), Lecture(trace, changed)
    edited = LECTURE.splitlines().index('    text("Hello.")') + 1
    for step in steps(trace):
        assert LECTURE.splitlines()[before.line(step) - 1].strip().startswith(before.code(step))
        assert before.code(step) == after.code(step) and before.code(step)
        assert after.line(step) - before.line(step) == (step.line > edited)


def test_prose_that_was_taken_out_stands_where_it_stood() -> None:
    trace = lecture().trace()
    [said] = [step for step in steps(trace) if step.narrative and step.narrative[0].text == "Hello."]
    shown = Lecture(trace, LECTURE.replace('    text("Hello.")\n', ""))
    assert shown.edition(said).statement(said) is None and shown.line(said) == said.line


def test_an_execution_is_made_once_with_its_failure_where_the_text_now_has_it() -> None:
    line = LECTURE.splitlines().index('    raise ValueError("no")') + 1
    origin = steps(failing().trace())[-1]
    raised = replace(origin, raised=Raised("ValueError", "no", origin_line=line))
    told = Lecture(failing().trace(), "# one line more\n" + LECTURE)
    assert told.execution(raised) is told.execution(raised)
    failure = told.execution(raised).failure
    assert failure is not None and failure.origin and failure.line == line + 1
    assert told.failure(steps(told.trace)[0]) is None


def test_a_run_that_never_began_has_an_empty_text() -> None:
    told = Lecture(replace(lecture().trace(), sources=[], steps=[]))
    assert [edition.source.lines for edition in told.editions] == [()]
