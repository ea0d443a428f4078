"""Runs are matched as trees: what the base did tells the story, the rest are its samples."""

from __future__ import annotations

from typing import Any

from trace_tools.schema import Frame, Step
from trace_tools.statements import ParsedSource, parse_source
from trace_tools.tracing.instrument import Instrumented, instrument
from trace_tools.tracing.merge import Runs, events
from trace_tools.tracing.runs import COMPLETE, Draft, FrameDraft, RunRecord

SOURCE = """def main():
    for i in range(2):
        x = f(i)
    assert x == 1
def f(i):
    return i
"""


def program() -> tuple[ParsedSource, Instrumented]:
    source = parse_source(SOURCE, "lecture.py")
    return source, instrument(source)


def run(name: str, ns: int, *, iterations: int = 2, x: int = 1, shift: int = 0, held: bool = True) -> RunRecord:
    """What a recorder writes of SOURCE; `shift` gives every step and frame another number."""
    made = RunRecord(name, status=COMPLETE)
    numbers = iter(range(shift, 1000))
    frames = iter(range(shift, 1000))

    def frame(function: int, of: int | None) -> int:
        number = next(frames)
        made.frames[number] = FrameDraft(number, function, of, None)
        return number

    def step(of: int, statement: int, execution: int = 1, **content: Any) -> int:
        number = next(numbers)
        made.steps[number] = Draft(number, of, statement, execution, ns=ns, **content)
        return number

    main = frame(0, None)
    for n in range(1, iterations + 1):
        step(main, 1, n)
        calling = step(main, 2, n, values=[["x", None, {"type": "int", "value": n - 1}]])
        step(frame(4, calling), 5)
    step(main, 1, iterations + 1)
    step(main, 3, claim=[3, held, [{"type": "int", "value": x}, {"type": "int", "value": 1}]])
    return made


def merged(*timed: RunRecord, metered: RunRecord | None = None, other_device_seed: bool = False) -> list[Any]:
    source, instrumented = program()
    runs = Runs.of(timed, metered, other_device_seed=other_device_seed)
    return events(runs, instrumented, source, frozenset({2}))


def steps(made: list[Any]) -> list[Step]:
    return [event for event in made if isinstance(event, Step)]


def test_samples_come_from_the_same_steps() -> None:
    made = merged(
        run("pass 1, cold", 10), run("pass 1, warm", 5), run("pass 2, cold", 12, shift=300), run("pass 2, warm", 6)
    )
    assert [step.cold_ns for step in steps(made)] == [[10, 12]] * 8
    assert [step.host_ns for step in steps(made)] == [[5, 6]] * 8
    frames = [event for event in made if isinstance(event, Frame)]
    assert [(frame.function, frame.of) for frame in frames] == [("main", None), ("f", 1), ("f", 4)]
    assert [(step.id, step.line, step.execution) for step in steps(made)][:4] == [
        (0, 2, 1),
        (1, 3, 1),
        (2, 6, 1),
        (3, 2, 2),
    ]


def test_what_another_run_did_beside_is_left_out() -> None:
    made = merged(run("pass 1, cold", 10), run("pass 2, cold", 12, iterations=5))
    assert [step.cold_ns for step in steps(made)] == [[10, 12]] * 8
    made = merged(run("pass 1, cold", 10, iterations=3), run("pass 2, cold", 12))
    assert [step.cold_ns for step in steps(made) if step.statement == 2] == [[10, 12], [10, 12], [10]]


def test_claims_are_judged_in_every_run() -> None:
    (claim,) = [
        s.claim for s in steps(merged(run("pass 1, cold", 1), run("pass 1, warm", 1, x=2, held=False))) if s.claim
    ]
    assert not claim.held and claim.failed_runs == ["pass 1, warm"]
    (x, one) = claim.sides
    assert x[0] == "x" and x[1].varies and x[1].samples == [1, 2] and not one[1].varies


def test_the_meters_say_when_they_have_no_counterpart() -> None:
    metered = run("metering, cold", 0, iterations=1)
    for step in metered.steps.values():
        step.meters = {"flops": 8, "operators": [["aten.mm", 1]], "uncounted": []}
    made = merged(run("pass 1, cold", 10), metered=metered)
    first, second = [step.meters for step in steps(made) if step.statement == 2]
    assert first and first.flops == 8 and first.uncounted is None
    assert second and second.flops is None and second.why == "no counterpart in the metering process"


def test_a_value_that_follows_the_device_seed() -> None:
    metered = run("metering, cold", 0)
    next(s for s in metered.steps.values() if s.values).values[0][2]["value"] = 99
    values = [
        s.values[0][1]
        for s in steps(merged(run("pass 1, cold", 1), metered=metered, other_device_seed=True))
        if s.values
    ]
    assert [value.device_random for value in values] == [True, False]
    values = [s.values[0][1] for s in steps(merged(run("pass 1, cold", 1), metered=metered)) if s.values]
    assert not any(value.device_random for value in values)
