"""Traces of several ranks are joined into one, from which the trace of each rank can be extracted."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.traces import example_trace
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.trace.model import Claim, Event, Frame, Omitted, Process, RankStep, Step, Trace, Value
from trace_tools.trace.ranks import (
    by_rank,
    disagreeing,
    divided,
    in_words,
    joined,
    of_rank,
    sharing_a_device,
    times,
    whole_runs,
)
from trace_tools.trace.trace_file import dump, load, validate


def trace_of(*events: Event, ranks: int | None = None) -> Trace:
    example = example_trace()
    return replace(example, steps=list(events), run=replace(example.run, ranks=ranks))


def number(n: float) -> Value:
    return Value("float", n)


def joined_trace(*traces: Trace) -> Trace:
    trace = joined(dict(enumerate(traces)))
    return replace(trace, run=replace(trace.run, ranks=len(traces)))


MODULE = Frame(0, "<module>")


def test_equal_values_are_kept_once_and_differences_per_rank() -> None:
    first = trace_of(MODULE, Step(0, 0, 1, 1, values=[("x", number(1)), ("n", number(2))]))
    second = trace_of(MODULE, Step(0, 0, 1, 1, values=[("x", number(7)), ("n", number(2))]), Step(1, 0, 2, 2))
    trace = joined_trace(first, second)
    frame, step, step_of_second = trace.steps
    assert isinstance(frame, Frame) and frame.on is None
    assert isinstance(step, Step) and step.on is None and step.values == [("x", number(1)), ("n", number(2))]
    assert disagreeing(step, 2) == [("x", {0: number(1), 1: number(7)})]
    assert isinstance(step_of_second, Step) and step_of_second.on == [1] and step_of_second.ranks is None


def test_ranks_without_a_trace_have_no_steps() -> None:
    trace = joined({0: trace_of(MODULE, Step(0, 0, 1, 1), ranks=2)})
    assert [event.on for event in trace.steps] == [[0], [0]]


def test_nan_equals_nan_on_another_rank() -> None:
    traces = [trace_of(MODULE, Step(0, 0, 1, 1, values=[("x", number(float("nan")))])) for _ in range(2)]
    _, step = joined_trace(*traces).steps
    assert isinstance(step, Step) and step.ranks is None


def test_times_are_those_of_the_slowest_rank() -> None:
    traces = [trace_of(MODULE, Step(0, 0, 1, 1, host_ns=ns)) for ns in ([10, 40, 20], [30, 20, 20])]
    _, step = joined_trace(*traces).steps
    assert isinstance(step, Step) and step.host_ns == [30, 40, 20]
    assert times(step, 2) == {0: 20, 1: 20}
    assert {rank: own.host_ns for rank, own in by_rank(step, 2).items()} == {0: [10, 40, 20], 1: [30, 20, 20]}


def test_a_claim_that_fails_on_one_rank_has_failed() -> None:
    held, failed = Claim("a == b", held=True), Claim("a == b", held=False, failed_runs=["pass 1, cold"], message="no")
    trace = joined_trace(
        trace_of(MODULE, Step(0, 0, 1, 1, claim=held)), trace_of(MODULE, Step(0, 0, 1, 1, claim=failed))
    )
    _, step = trace.steps
    assert isinstance(step, Step) and step.claim == replace(failed, failed_runs=["pass 1, cold, rank 1"])
    assert by_rank(step, 2)[0].claim == held


def test_steps_of_one_rank_keep_their_position() -> None:
    """The ranks take different branches of an `if` and then execute the same statement."""
    branches = [(2, "left"), (3, "right")]
    traces = [
        trace_of(
            MODULE,
            Step(0, 0, 1, 1),
            Step(1, 0, statement, statement),
            Frame(1, function, of=1),
            Step(2, 1, 5, 5, values=[("x", number(statement))]),
            Omitted(4, 1, 5, 5, 100),
            Step(3, 0, 4, 4),
        )
        for statement, function in branches
    ]
    trace = joined_trace(*traces)
    validate(trace, Path("joined"))
    events = [
        (type(event).__name__, getattr(event, "statement", None) or getattr(event, "function", None), event.on)
        for event in trace.steps
    ]
    assert events == [
        ("Frame", "<module>", None),
        ("Step", 1, None),
        ("Step", 2, [0]),
        ("Frame", "left", [0]),
        ("Step", 5, [0]),
        ("Omitted", 5, [0]),
        ("Step", 3, [1]),
        ("Frame", "right", [1]),
        ("Step", 5, [1]),
        ("Omitted", 5, [1]),
        ("Step", 4, None),
    ]


def random_trace(seed: int) -> Trace:
    """Return events of a call tree in order of execution; the seed decides which statements the rank leaves out."""
    common, own = random.Random(0), random.Random(seed)
    events: list[Event] = [MODULE]
    steps, frames = 0, 1

    def body(frame: int, depth: int) -> None:
        nonlocal steps, frames
        for statement in range(common.randrange(2, 6)):
            calls = common.random() < 0.5 and depth < 4
            for execution in range(1, common.randrange(1, 4) + 1):
                executed = own.random() < 0.8
                step = steps
                if executed:
                    value = number(own.randrange(2))
                    printed = own.choice([None, "a\n"])
                    events.append(Step(step, frame, statement, 1, execution, [own.randrange(9)], values=[("x", value)],
                                       stdout=printed))  # fmt: skip
                    steps += 1
                if calls:
                    state = common.getstate()
                    if executed:
                        called = frames
                        events.append(Frame(called, f"f{statement}", of=step, arguments=[("a", number(own.random()))]))
                        frames += 1
                        body(called, depth + 1)
                    common.setstate(state)
                    common.random()

    body(0, 0)
    return trace_of(*events)


@pytest.mark.slow
@each("seed", range(30))
def test_the_trace_of_each_rank_can_be_extracted(seed: int, tmp_path: Path) -> None:
    traces = [random_trace(seed * 10 + rank) for rank in range(3)]
    trace_of_all = joined_trace(*traces)
    validate(trace_of_all, Path("joined"))
    (tmp_path / "trace.yaml").write_text(dump(trace_of_all))
    assert load(tmp_path / "trace.yaml").trace == trace_of_all
    for rank, trace in enumerate(traces):
        assert numbered(of_rank(trace_of_all, rank)) == numbered(trace)


def numbered(trace: Trace) -> list[Event]:
    """Return events with frames and steps numbered in their order."""
    frames: dict[int, int] = {}
    steps: dict[int, int] = {}
    events: list[Event] = []
    for event in trace.steps:
        if isinstance(event, Frame):
            frames[event.frame] = len(frames)
            of = None if event.of is None else steps[event.of]
            events.append(replace(event, frame=frames[event.frame], of=of))
        elif isinstance(event, Step):
            steps[event.id] = len(steps)
            events.append(replace(event, id=steps[event.id], frame=frames[event.frame]))
        else:
            events.append(replace(event, frame=frames[event.frame]))
    return events


def test_unknown_ranks_are_refused() -> None:
    with pytest.raises(UsageError, match="rank 2: expected 0 to 1"):
        of_rank(trace_of(MODULE, ranks=2), 2)
    with pytest.raises(UsageError, match="without --ranks"):
        of_rank(trace_of(MODULE), 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a/trace.yaml#rank1", ("a/trace.yaml", 1)), ("cpu", ("cpu", None)), ("a#rank", ("a#rank", None))],
)
def test_a_rank_is_split_from_a_file_name(name: str, expected: tuple[str, int | None]) -> None:
    assert divided(name) == expected


@pytest.mark.parametrize(
    ("event", "ranks", "message"),
    [
        (Step(0, 0, 1, 1, on=[2]), 2, r"steps\[1\].on: found 2; expected 0 to 1"),
        (Step(0, 0, 1, 1, on=[1, 0]), 2, r"steps\[1\].on: found ranks that are not in ascending order"),
        (Step(0, 0, 1, 1, ranks=[RankStep(5)]), 2, r"steps\[1\].ranks: found 5"),
        (Step(0, 0, 1, 1, ranks=[RankStep(1, host_ns=[-1])]), 2, r"steps\[1\].ranks\[0\].host_ns\[0\]: .*found int -1"),
        (Step(0, 0, 1, 1, ranks=[RankStep(1)]), None, r"steps\[1\].ranks: found 1"),
        (Step(0, 0, 1, 1), 10**9, r"run.ranks: found 1000000000; expected 1 to 1024"),
    ],
)
def test_invalid_ranks_are_refused(event: Step, ranks: int | None, message: str) -> None:
    with pytest.raises(TraceFileError, match=message):
        validate(trace_of(MODULE, event, ranks=ranks), Path("trace"))


def test_ranks_in_words() -> None:
    assert [in_words(ranks) for ranks in ([1], [0, 2], [3, 0, 1, 2], [0, 2, 3])] == [
        "rank 1",
        "ranks 0, 2",
        "ranks 0 to 3",
        "ranks 0, 2, 3",
    ]


def test_run_times_are_those_of_the_slowest_rank() -> None:
    example = example_trace().run
    processes = [Process(f"pass {n}", "complete", cold_ns=10 * n + r, rank=r) for n in (1, 2) for r in (0, 1)]
    run = replace(example, processes=[*processes, Process("metering", "complete", cold_ns=999, rank=0)])
    assert whole_runs(run, "cold_ns") == [11, 21] and whole_runs(run, "warm_ns") == []


def test_arguments_can_differ_between_ranks() -> None:
    step = Step(0, 0, 1, 1)
    traces = [
        trace_of(MODULE, step, Frame(1, "f", of=0, arguments=[("x", number(n)), ("n", number(2))])) for n in (1, 7)
    ]
    frame = joined_trace(*traces).steps[2]
    assert isinstance(frame, Frame)
    assert disagreeing(frame, 2) == [("x", {0: number(1), 1: number(7)})]
    frame_of_rank = of_rank(joined_trace(*traces), 1).steps[2]
    assert isinstance(frame_of_rank, Frame) and disagreeing(frame_of_rank, 1) == []


def test_values_missing_on_a_rank_count_as_different() -> None:
    traces = [trace_of(MODULE, Step(0, 0, 1, 1, values=[("x", number(1))])), trace_of(MODULE, Step(0, 0, 1, 1))]
    step = joined_trace(*traces).steps[1]
    assert isinstance(step, Step) and disagreeing(step, 2) == [("x", {0: number(1)})]


@pytest.mark.parametrize(
    ("devices", "nodes", "shared"),
    [
        ([0, 1, 2, 3], None, None),
        ([0, 0, 0, 0], None, "ranks 0 to 3"),
        ([1, 2, 1, 3], None, "ranks 0, 2"),
        ([0, 1, 0, 1], ["a", "b"], None),  # each computer has a cuda:0
        ([0, 1, 1, 1], ["a", "b"], "ranks 2, 3"),
        ([None, None, 0, None], None, None),
    ],
)
def test_ranks_that_share_a_device_are_reported(
    devices: list[int | None], nodes: list[str] | None, shared: str | None
) -> None:
    processes = [Process("pass 1", "complete", rank=rank, device_index=device) for rank, device in enumerate(devices)]
    trace = example_trace()
    run = replace(trace.run, ranks=len(devices), nodes=nodes, processes=processes)
    message = sharing_a_device(replace(trace, run=run))
    assert (message is None) == (shared is None)
    assert message is None or (message.startswith(f"{shared} computed") and "set_device" in message)
