"""Messages at the end of a run, for invented traces; `tests/tracing/test_tracer.py` checks those of real runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.cases_in_one import each
from tests.messages import says
from tests.pretend_gpu import pretend_gpu
from tests.traces import example_trace
from trace_tools.analysis.outcome import (
    is_run_loaded,
    load_text,
    loaded_passes,
    noise_text,
    others_share,
    problems,
    violations,
    where_time_went,
)
from trace_tools.pages.content.compose import make_document
from trace_tools.trace.model import Claim, Meters, Peak, Process, Raised, Run, Step, Trace, Value


def with_first_step(**changes: object) -> Trace:
    """Return a complete trace without claims, errors and values, except for the changes to its first step."""
    trace = example_trace()
    events = [replace(e, claim=None, raised=None, values=None) if isinstance(e, Step) else e for e in trace.steps]
    position = next(n for n, event in enumerate(events) if isinstance(event, Step))
    events[position] = replace(events[position], **changes)
    return replace(trace, run=replace(trace.run, complete=True, ended="complete"), steps=events)


def test_each_problem_is_one_line() -> None:
    assert problems(with_first_step()) == []
    failed = with_first_step(claim=Claim("x == 1", False, message="x is 2", failed_runs=["pass 1, warm"]))
    [line] = problems(failed)
    assert "claim failed: x == 1" in line and "x is 2" in line and line.endswith("(pass 1, warm)")
    [line] = problems(with_first_step(values=[("x.y", Value("error", text="AttributeError: y"))]))
    assert line.startswith("lecture.py:") and line.endswith("@inspect x.y: AttributeError: y")
    assert problems(failed, Path("talks"))[0].startswith("talks/lecture.py:")
    partial = with_first_step(raised=Raised("ValueError", "no"))
    partial = replace(partial, run=replace(partial.run, complete=False, ended="ValueError: no"))
    incomplete, raised = problems(partial)
    assert incomplete == "incomplete: ValueError: no" and raised.endswith(": ValueError: no")
    escaped = with_first_step(values=[("x", Value(type="error", text="a\x1b[2J\x9b\nb"))])
    escaped = replace(escaped, run=replace(escaped.run, complete=False, ended="gone\x1b]0;title\x07"))
    ended, inspected = problems(escaped)
    assert ended == r"incomplete: gone\u001b]0;title\u0007" and r"a\u001b[2J\u009b b" in inspected


def test_noise_of_the_machine_is_described() -> None:
    """Under load, a machine is not quiet even if the times differ little."""

    def timed(*ns: int) -> Trace:
        trace = example_trace()
        steps = [replace(e, host_ns=list(ns), device_ns=None) if isinstance(e, Step) else e for e in trace.steps]
        return replace(trace, steps=steps)

    steady = timed(1_000_000, 1_020_000, 980_000)
    assert says(noise_text(steady), "quiet", "± 2.0%")
    assert says(noise_text(timed(1_000_000, 1_500_000, 1_000_000)), "noisy", "± 25%")
    loaded = [replace(LOADED, other_cores=0.6), replace(LOADED, name="pass 2")]
    text = str(noise_text(replace(steady, run=replace(steady.run, processes=loaded))))
    assert "quiet" not in text and "0.97 cores in pass 2" in text and "± 2.0%" in text
    assert noise_text(timed(1_000, 2_000, 3_000)) is None  # too short to be judged
    assert noise_text(timed(1_000_000)) is None  # one pass


def test_time_of_passes_is_summed_and_short_parts_are_omitted() -> None:
    seconds = [("pass 1", 2.04), ("pass 2", 1.0), ("survey", 0.2), ("describe", 0.04), ("pages", 0.5)]
    line = where_time_went(example_trace(), seconds)[0]
    assert says(line, "time 3.8 s: 2 passes 3.0 s", "0.2 s", "pages 0.5 s") and "looking" not in line
    assert where_time_went(example_trace(), [("pass 1", 0.04)]) == []


DATASHEET = [Peak("float32", 60e12, "a datasheet"), Peak("memory", 4e12, "a datasheet")]


def on_gpu(**changes: object) -> Trace:
    """Return a trace of a GPU whose first step is annotated and has `changes`; other steps have no measurements."""
    trace = pretend_gpu(example_trace())
    first = next(event for event in trace.steps if isinstance(event, Step))
    changed = Step(first.id, first.frame, first.statement, first.line, annotated=True, **changes)  # type: ignore[arg-type]
    others = [replace(e, device_ns=None, meters=None, measured=None) if isinstance(e, Step) else e for e in trace.steps]
    steps = [changed if isinstance(event, Step) and event.id == first.id else event for event in others]
    return replace(trace, machine=replace(trace.machine, peaks=DATASHEET), steps=steps)


METERS = Meters(flops=10**6, bytes_read=10, bytes_written=10, live_bytes=400, dtype="float32")
CONSISTENT = {
    "host_ns": [1_000_000, 1_000_000, 1_000_000],
    "device_ns": [900_000, 1_040_000, 900_000],
    "allocated_bytes": 512,
    "meters": METERS,
}


def test_a_consistent_trace_has_no_violations() -> None:
    assert violations(on_gpu(**CONSISTENT)) == []
    assert violations(example_trace()) == []


@each(
    ("changes", "message"),
    [
        ({"device_ns": [900_000, 2_000_000]}, "took longer on the device than on the host, which waited for it"),
        ({"allocated_bytes": 100}, "ended with less memory allocated than their tensors hold"),
        ({"meters": replace(METERS, flops=10**12)}, "had a rate that is too high"),
    ],
)
def test_impossible_measurements_are_violations(changes: dict[str, object], message: str) -> None:
    [line] = violations(on_gpu(**{**CONSISTENT, **changes}))
    assert line.startswith(f"1 annotated step {message}: worst at line ")


@each(
    ("name", "ratio", "is_violation"),
    [
        ("Pretend GPU", 1.03, False),
        ("Pretend GPU", 1.10, True),
        ("NVIDIA GeForce RTX 4090", 1.13, False),  # at 2.85 GHz, not the datasheet's 2.52
        ("NVIDIA GeForce RTX 4090", 1.30, True),
        ("NVIDIA GeForce RTX 4090", 1.5e-5, True),  # alone, and the step reaches 120% of it
    ],
)
def test_a_measured_peak_far_above_the_datasheet_is_a_violation(name: str, ratio: float, is_violation: bool) -> None:
    trace = on_gpu(**CONSISTENT)
    measured = Peak("float32", ratio * 60e12, "measured", measured=True)
    machine = replace(trace.machine, name=name, peaks=[*DATASHEET[ratio < 1 :], measured])
    assert len(violations(replace(trace, machine=machine))) == is_violation


def test_the_index_shows_violations() -> None:
    document = make_document(on_gpu(**{**CONSISTENT, "allocated_bytes": 100}))
    assert [notice.kind for notice in document.notices].count("doubtful") == 1


def run(*processes: Process) -> Run:
    """Return a run with these processes, one per pass."""
    return replace(example_trace().run, processes=[*processes], passes=len(processes))


LOADED, IDLE = Process("pass 1", "complete", other_cores=0.97), Process("pass 2", "complete", other_cores=0.02)


def test_a_run_is_loaded_if_half_of_its_timed_processes_were() -> None:
    assert is_run_loaded(run(LOADED, IDLE)) and not is_run_loaded(run(LOADED, IDLE, replace(IDLE, name="pass 3")))
    assert not is_run_loaded(run(replace(LOADED, name="survey"))) and not is_run_loaded(run())
    assert not is_run_loaded(run(Process("pass 1", "complete"))), "the system does not report it"
    assert load_text(IDLE) is None


def test_the_share_of_other_processes_is_that_of_a_typical_pass() -> None:
    def share(*processes: Process) -> float:
        trace = example_trace()
        return others_share(replace(trace, run=run(*processes), machine=replace(trace.machine, cores=2)))

    assert share(LOADED, IDLE, replace(LOADED, name="survey"), replace(LOADED, other_cores=0.4)) == 0.2
    assert share() == 0


def test_durations_are_assigned_to_passes_if_none_is_missing() -> None:
    idle, loaded = replace(IDLE, name="pass 1"), replace(LOADED, name="pass 2")
    three_passes = run(idle, loaded, replace(idle, name="pass 3"))
    assert loaded_passes(three_passes, 3) == [False, True, False]
    assert loaded_passes(three_passes, 2) == [True, True]  # it is unknown which pass has no duration
    assert loaded_passes(run(idle, idle, idle), 2) == [False, False]
