"""What the end of a run says of its trace; `tests/tracing/test_supervisor.py` reads it from real runs."""

from __future__ import annotations

from dataclasses import replace

from tests.messages import says
from tests.traces import example_trace
from trace_tools.analysis.outcome import problems, quiet, where_time_went
from trace_tools.trace.model import Claim, Process, Raised, Step, Trace, Value


def with_first_step(**changes: object) -> Trace:
    trace = example_trace()
    plain = [replace(e, claim=None, raised=None, values=None) if isinstance(e, Step) else e for e in trace.steps]
    place = next(n for n, event in enumerate(plain) if isinstance(event, Step))
    plain[place] = replace(plain[place], **changes)
    return replace(trace, run=replace(trace.run, complete=True, ended="complete"), steps=plain)


def test_what_went_wrong_is_a_line_each() -> None:
    assert problems(with_first_step()) == []
    failed = with_first_step(claim=Claim("x == 1", False, message="x is 2", failed_runs=["pass 1, warm"]))
    [line] = problems(failed)
    assert "claim failed: x == 1" in line and "x is 2" in line and line.endswith("(pass 1, warm)")
    [line] = problems(with_first_step(values=[("x.y", Value("error", text="AttributeError: y"))]))
    assert line.endswith("@inspect x.y: AttributeError: y")
    partial = with_first_step(raised=Raised("ValueError", "no"))
    partial = replace(partial, run=replace(partial.run, complete=False, ended="ValueError: no"))
    assert problems(partial)[0] == "incomplete: ValueError: no"


def test_a_strangers_trace_says_nothing_that_a_terminal_obeys() -> None:
    trace = with_first_step(values=[("x", Value(type="error", text="a\x1b[2J\x9b\nb"))])
    trace = replace(trace, run=replace(trace.run, complete=False, ended="gone\x1b]0;title\x07"))
    said = problems(trace)
    assert said[0] == r"incomplete: gone\u001b]0;title\u0007"
    assert r"a\u001b[2J\u009b b" in said[1] and len(said[1].splitlines()) == 1


def test_how_quiet_the_machine_was() -> None:
    def timed(*ns: int) -> Trace:
        trace = example_trace()
        steps = [replace(e, host_ns=list(ns), device_ns=None) if isinstance(e, Step) else e for e in trace.steps]
        return replace(trace, steps=steps)

    assert str(quiet(timed(1_000_000, 1_020_000, 980_000))).startswith("quiet: times differ by ± 2.0%")
    assert str(quiet(timed(1_000_000, 1_500_000, 1_000_000))).startswith("noisy: times differ by ± 25%")
    steady = timed(1_000_000, 1_020_000, 980_000)
    busy = [Process("pass 2", "complete", notes=["load average 2.2 on 2 cores: more was running than they hold"])]
    said = str(quiet(replace(steady, run=replace(steady.run, processes=busy))))
    assert "quiet" not in said and "load average 2.2 on 2 cores in pass 2" in said and "± 2.0%" in said
    assert quiet(timed(1_000, 2_000, 3_000)) is None  # too short to say anything
    assert quiet(timed(1_000_000)) is None  # one pass


def test_where_time_went_adds_up_the_passes_and_leaves_out_what_is_short() -> None:
    seconds = [("pass 1", 2.04), ("pass 2", 1.0), ("metering", 0.2), ("shaken", 0.04), ("pages", 0.5)]
    assert says(where_time_went(example_trace(), seconds)[0], "time: 2 passes 3.0 s", "0.2 s", "pages 0.5 s")
    assert where_time_went(example_trace(), [("pass 1", 0.04)]) == []
