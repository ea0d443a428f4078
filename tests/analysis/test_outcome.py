"""Messages at the end of a run; `tests/tracing/test_supervisor.py` reads those of real runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.messages import says
from tests.pretend_gpu import pretend_gpu
from tests.traces import example_trace
from trace_tools.analysis.outcome import (
    is_loaded,
    is_run_loaded,
    load_average_of,
    load_text,
    loaded_passes,
    loads_text,
    noise_text,
    problems,
    violations,
    where_time_went,
)
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.overview import document_notices
from trace_tools.trace.model import Claim, Meters, Peak, Process, Raised, Run, Step, Trace, Value


def with_first_step(**changes: object) -> Trace:
    trace = example_trace()
    plain = [replace(e, claim=None, raised=None, values=None) if isinstance(e, Step) else e for e in trace.steps]
    position = next(n for n, event in enumerate(plain) if isinstance(event, Step))
    plain[position] = replace(plain[position], **changes)
    return replace(trace, run=replace(trace.run, complete=True, ended="complete"), steps=plain)


def test_each_problem_is_one_line() -> None:
    assert problems(with_first_step()) == []
    failed = with_first_step(claim=Claim("x == 1", False, message="x is 2", failed_runs=["pass 1, warm"]))
    [line] = problems(failed)
    assert "claim failed: x == 1" in line and "x is 2" in line and line.endswith("(pass 1, warm)")
    [line] = problems(with_first_step(values=[("x.y", Value("error", text="AttributeError: y"))]))
    assert line.endswith("@inspect x.y: AttributeError: y")
    partial = with_first_step(raised=Raised("ValueError", "no"))
    partial = replace(partial, run=replace(partial.run, complete=False, ended="ValueError: no"))
    assert problems(partial)[0] == "incomplete: ValueError: no"


def test_control_characters_of_a_trace_are_escaped() -> None:
    trace = with_first_step(values=[("x", Value(type="error", text="a\x1b[2J\x9b\nb"))])
    trace = replace(trace, run=replace(trace.run, complete=False, ended="gone\x1b]0;title\x07"))
    lines = problems(trace)
    assert lines[0] == r"incomplete: gone\u001b]0;title\u0007"
    assert r"a\u001b[2J\u009b b" in lines[1] and len(lines[1].splitlines()) == 1


def test_noise_of_the_machine_is_described() -> None:
    def timed(*ns: int) -> Trace:
        trace = example_trace()
        steps = [replace(e, host_ns=list(ns), device_ns=None) if isinstance(e, Step) else e for e in trace.steps]
        return replace(trace, steps=steps)

    assert str(noise_text(timed(1_000_000, 1_020_000, 980_000))).startswith("quiet: times differ by ± 2.0%")
    assert str(noise_text(timed(1_000_000, 1_500_000, 1_000_000))).startswith("noisy: times differ by ± 25%")
    steady = timed(1_000_000, 1_020_000, 980_000)
    load = "load average 2.2 on 2 cores: more tasks were running than there are cores"
    busy = [Process("pass 2", "complete", notes=[load])]
    text = str(noise_text(replace(steady, run=replace(steady.run, processes=busy))))
    assert "quiet" not in text and "load average 2.2 on 2 cores in pass 2" in text and "± 2.0%" in text
    assert noise_text(timed(1_000, 2_000, 3_000)) is None  # too short to be judged
    assert noise_text(timed(1_000_000)) is None  # one pass


def test_time_of_passes_is_summed_and_short_parts_are_omitted() -> None:
    seconds = [("pass 1", 2.04), ("pass 2", 1.0), ("metering", 0.2), ("shaken", 0.04), ("pages", 0.5)]
    assert says(where_time_went(example_trace(), seconds)[0], "time: 2 passes 3.0 s", "0.2 s", "pages 0.5 s")
    assert where_time_went(example_trace(), [("pass 1", 0.04)]) == []


SHEET = [Peak("float32", 60e12, "a datasheet"), Peak("memory", 4e12, "a datasheet")]


def on_gpu(**changes: object) -> Trace:
    """A GPU's trace with one annotated step, which has `changes`."""
    trace = pretend_gpu(example_trace())
    step = next(event for event in trace.steps if isinstance(event, Step))
    plain = Step(step.id, step.frame, step.statement, step.line, annotated=True, **changes)  # type: ignore[arg-type]
    others = [replace(e, device_ns=None, meters=None, measured=None) if isinstance(e, Step) else e for e in trace.steps]
    steps = [plain if isinstance(event, Step) and event.id == step.id else event for event in others]
    return replace(trace, machine=replace(trace.machine, peaks=SHEET), steps=steps)


METERS = Meters(flops=10**6, bytes_read=10, bytes_written=10, live_bytes=400, dtype="float32")
RIGHT = {
    "host_ns": [1_000_000, 1_000_000, 1_000_000],
    "device_ns": [900_000, 1_040_000, 900_000],
    "allocated_bytes": 512,
    "meters": METERS,
}


def test_a_consistent_trace_has_no_violations() -> None:
    assert violations(on_gpu(**RIGHT)) == []
    assert violations(example_trace()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device_ns": [900_000, 2_000_000]}, "took longer on the device than on the host, which waited for it"),
        ({"allocated_bytes": 100}, "ended with less memory allocated than their tensors hold"),
        ({"meters": replace(METERS, flops=10**12)}, "had a rate that is too high"),
    ],
)
def test_impossible_measurements_are_violations(changes: dict[str, object], message: str) -> None:
    [line] = violations(on_gpu(**{**RIGHT, **changes}))
    assert line.startswith(f"1 annotated step {message}: worst at line ")


def test_a_measured_peak_far_above_the_datasheet_is_a_violation() -> None:
    card, gamer = "Pretend GPU", "NVIDIA GeForce RTX 4090"
    slice_ = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    for name, times, is_doubted in (
        (card, 1.03, False),
        (card, 1.10, True),
        (gamer, 1.13, False),  # 2.85 GHz, the datasheet assumes 2.52
        (gamer, 1.30, True),
        (slice_, 1.08, False),  # 1.98 GHz, where the datasheet's peak is at 1.83
    ):
        trace = on_gpu(**RIGHT)
        measured = Peak("float32", times * 60e12, "measured", measured=True)
        machine = replace(trace.machine, name=name, peaks=[*SHEET, measured])
        line = f"the measured float32 peak is {times:.2f} times the datasheet's"
        assert violations(replace(trace, machine=machine)) == ([line] if is_doubted else [])


def test_the_index_shows_violations(tmp_path: Path) -> None:
    document = make_document(on_gpu(**{**RIGHT, "allocated_bytes": 100}))
    assert [notice.kind for notice in document_notices(document)].count("doubtful") == 1


NOTE = "load average 2.2 on 2 cores: more tasks were running than there are cores"


def run(*processes: Process) -> Run:
    return replace(example_trace().run, processes=[*processes], passes=len(processes))


def test_cpu_time_of_others_counts_before_a_load_average() -> None:
    own_threads = Process("pass 1", "complete", notes=[NOTE], other_cores=0.02)
    assert not is_loaded(own_threads) and load_text(own_threads) is None
    assert is_loaded(Process("pass 1", "complete", other_cores=0.97))  # a load average lags by a minute
    older = Process("pass 1", "complete", notes=["a governor", NOTE, NOTE.replace("2.2", "2.4")])
    assert is_loaded(older) and load_text(older) == "load average 2.4 on 2 cores"
    assert not is_loaded(Process("pass 1", "complete"))


def test_a_run_is_loaded_if_half_of_its_timed_processes_were() -> None:
    busy, calm = Process("pass 1", "complete", notes=[NOTE]), Process("pass 2", "complete")
    assert is_run_loaded(run(busy, calm)) and not is_run_loaded(run(busy, calm, replace(calm, name="pass 3")))
    assert not is_run_loaded(run(replace(busy, name="metering"))) and not is_run_loaded(run())
    assert load_average_of(run(busy, replace(busy, name="pass 2"))) == 1.1
    assert load_average_of(run(replace(busy, other_cores=0.0))) == load_average_of(run()) == 0
    assert loads_text(run(calm)) is None
    heavier = replace(busy, name="pass 3", notes=[NOTE.replace("2.2", "3.1")])
    assert says(loads_text(run(busy, calm, heavier)), "load average 3.1", "2 cores", "pass 3")


def test_durations_are_assigned_to_passes_if_none_is_missing() -> None:
    three = run(
        Process("pass 1", "complete"), Process("pass 2", "complete", notes=[NOTE]), Process("pass 3", "complete")
    )
    assert loaded_passes(three, 3) == [False, True, False]
    assert loaded_passes(three, 2) == [True, True]  # the missing one is unknown
    assert loaded_passes(run(*[Process("pass 1", "complete")] * 3), 2) == [False, False]
