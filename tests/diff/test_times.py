"""Verdicts on durations: statements are judged over processes, measured functions by the time of one call.

A slower side whose own first or unloaded runs were as fast is not called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, MANY, SLOW_LINE, differ, made, measuring, noisy, slower, with_steps
from tests.diff.report_cases import terminal_of
from trace_tools.diff.difference import Difference, Finding, Subject
from trace_tools.diff.judge.times import HARNESS, LOADED, NARRATES, SMALL, UNLIKE
from trace_tools.diff.report.entries import entries
from trace_tools.diff.wording import word_of
from trace_tools.trace.model import Peak, Process, Step, Trace

SLOW = slower(1.5)
FIRST = Subject("measured", 0)
UNDETECTED = "no difference detected"


def times(difference: Difference, line: int = SLOW_LINE) -> list[Finding]:
    return [time for row in difference.rows if row.step.line == line for time in row.times]


def verdicts(difference: Difference, line: int = 6) -> list[tuple[Subject, str, str | None]]:
    return [(t.subject, word_of(t), t.detail if t.verdict == "not judged" else None) for t in times(difference, line)]


def during(trace: Trace, *processes: Process) -> Trace:
    return replace(trace, run=replace(trace.run, processes=[*processes]))


def test_executions_of_a_statement_are_tested_together() -> None:
    difference = differ(made(0), with_steps(made(1), SLOW))
    (entry,) = entries(difference, "time")
    assert entry.executions == 20 and difference.function_of(entry.row) == "work"
    assert 1.45 < float(entry.name.split("×")[0]) < 1.55
    slow = [time for row in difference.rows for time in row.times if time.matters]
    assert slow == times(difference) and len(slow) == 20 and {time.durations.executions for time in slow} == {20}
    assert len({time.durations.p for time in slow}) == 1
    assert len({time.ratio for time in slow}) == 20  # each execution has its own ratio, and all share one p-value
    assert difference.times.different == 20 and difference.times.statements < 20 < difference.times.judged


def test_negligible_statement_is_not_judged() -> None:
    def rescaled(step: Step) -> Step:
        factor = {3: 2000, 14: 0.2, 15: 0.2, 16: 0.2}.get(step.line, 1.0)
        return slower(factor, step.line)(step)

    a, b = with_steps(made(0), rescaled), with_steps(with_steps(made(1), rescaled), slower(3.0, 16))
    assert [word_of(time) for time in times(differ(a, b), 16)] == ["slower"] * 20
    with_long_statement = differ(with_steps(a, slower(100.0, 3)), with_steps(b, slower(100.0, 3)))
    assert {time.detail for time in times(with_long_statement, 16)} == {SMALL}
    assert with_long_statement.times.not_judged[0][0] == SMALL


@pytest.mark.parametrize(("other_cores", "threads", "called"), [(0.0, 2, False), (0.0, 1, True), (0.6, 2, False)])
def test_common_slowdown_is_attributed_to_the_machine(other_cores: float, threads: int, called: bool) -> None:
    factor = 1.6 if other_cores else 1.09
    a, b = traced(MANY, machine=CPU), traced(MANY, machine=replace(CPU, threads=threads))
    a, b = noisy(a, 0), with_steps(noisy(b, 1), lambda s: slower(factor if s.line != 9 else 1.3 * factor, s.line)(s))
    difference = differ(a, during(b, Process("pass 1", "complete", other_cores=other_cores)))
    slower_lines = {e.line for e in entries(difference, "time")}
    if other_cores:  # load slows some steps more than others, so steps that are slower only under load are not called
        assert slower_lines == set()
    else:
        assert (9 in slower_lines) and (difference.times.drift == 1 if called else slower_lines == {9})
    if not called:
        assert difference.times.drift == pytest.approx(factor, rel=0.01)
        assert "attributed to the machine" in " ".join(terminal_of(difference).split())


def test_times_of_a_busy_machine_are_not_judged() -> None:
    busy, quiet = Process("pass 2", "complete", other_cores=1.6), [Process(f"pass {n}", "complete") for n in (1, 3)]
    b = with_steps(made(1), SLOW)
    difference = differ(made(0), during(b, busy))
    assert not difference.matters and difference.times.judged == 0
    assert {why for why, _ in difference.times.not_judged} == {LOADED}
    for others in ([replace(busy, name="survey")], [busy, *quiet]):  # load outside the passes, or in one of three
        assert differ(made(0), during(b, *others)).matters


def test_times_of_narrative_calls_are_not_judged() -> None:
    source = "from trace_tools import text\ntext('a')\nx = 1\n"
    a, b = (noisy(traced(source, machine=CPU), seed) for seed in (0, 1))
    difference = differ(a, with_steps(b, slower(50.0, 2)))
    assert not difference.matters and (NARRATES, 2) in difference.times.not_judged  # the call and the import


def test_launch_and_compilation_times_are_not_judged() -> None:
    gpu = replace(CPU, device="cuda")
    a, b = made(0), with_steps(made(1), slower(9.0))
    difference = differ(replace(a, machine=gpu), replace(b, machine=gpu))
    assert difference.times.judged == 1 and difference.times.different == 0  # the one annotated step
    assert differ(a, with_steps(b, lambda s: replace(s, compiled=True))).times.judged == 0


def test_times_across_machines_are_ratios_with_intervals() -> None:
    other = replace(with_steps(made(1), slower(3.0)), machine=replace(CPU, name="Another processor"))
    difference = differ(made(0), other)
    assert not difference.matters and len(times(difference)) == 20
    for time in times(difference):
        assert time.verdict == "ratio" and time.ratio and time.durations.interval
        assert time.durations.interval[0] < time.ratio < time.durations.interval[1] and 2.7 < time.ratio < 3.3
    assert "Another processor" in terminal_of(difference)


# --- measured functions, launches -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([3e-6], [4.5e-6], [(FIRST, "slower", None)]),
        ([3e-6, 5e-5], [3e-6, 1e-4], [(FIRST, UNDETECTED, None), (Subject("measured", 1), "slower", None)]),
        ([3e-6], [3e-6, 3e-6], [(Subject("time"), "not judged", UNLIKE)]),
    ],
)
def test_each_measured_function_has_its_own_verdict(a: list[float], b: list[float], expected: object) -> None:
    difference = differ(measuring(*a), measuring(*b))
    assert verdicts(difference) == expected
    for entry in entries(difference, "time"):
        second = entry.finding.subject.index == 1
        assert entry.line == 6 and ("measurement 2" in (entry.detail or "")) == second
        assert (entry.name, entry.a, entry.b) == (
            ("2× slower", "50 µs", "100 µs") if second else ("1.5× slower", "3 µs", "4.5 µs")
        )


def test_harness_time_is_neither_judged_nor_shown() -> None:
    difference = differ(measuring(3e-6), measuring(3e-6, harness_factor=2.0))
    assert not difference.matters
    assert verdicts(difference, 2) == [(Subject("time"), "not judged", HARNESS)]
    everything = entries(difference, "time", everything=True)
    assert [(e.a, e.b) for e in everything if e.detail == HARNESS] == [(None, None)]
    text = terminal_of(difference, everything=True)
    assert "400 ms" not in text and "800 ms" not in text


def test_roof_shares_are_those_of_one_call() -> None:
    machine = replace(CPU, peaks=[Peak("float32", 1e12, "a datasheet")])
    [time] = times(differ(*(measuring(s, flops=1_000_000, machine=machine) for s in (4e-6, 8e-6))), 6)
    assert time.durations.roof == "float32"
    assert (time.durations.a_share, time.durations.b_share) == pytest.approx((0.25, 0.125), rel=0.02)


@pytest.mark.parametrize(
    ("launch", "device", "other", "expected"),
    [
        (1.5, 1, {}, {"time": UNDETECTED, "launch": "slower"}),
        (1, 1.5, {}, {"time": "slower", "launch": UNDETECTED}),
        (1, 1, {"name": "Another processor"}, {"time": "ratio", "launch": "ratio"}),
    ],
)
def test_launch_and_device_times_have_separate_verdicts(
    launch: float, device: float, other: dict[str, Any], expected: dict[str, str]
) -> None:
    """The launch can be more than half of a step's time, so the report states which of the two changed."""

    def on_device(trace: Trace, launch: float, device: float) -> Trace:
        def timed(step: Step) -> Step:
            launch_ns, device_ns = ([round(factor * n) for n in step.host_ns or []] for factor in (launch, 3 * device))
            return replace(step, annotated=True, launch_ns=launch_ns, device_ns=device_ns)

        timed_trace = with_steps(trace, lambda step: timed(step) if step.line in (SLOW_LINE, 10) else step)
        return replace(timed_trace, machine=replace(CPU, device="cuda"))

    b = on_device(made(1), launch, device)
    difference = differ(on_device(made(0), 1, 1), replace(b, machine=replace(b.machine, **other)))
    assert {subject.kind: word for subject, word, _ in verdicts(difference, SLOW_LINE)} == expected


# --- a side's own runs ----------------------------------------------------------------------------


def test_slower_side_whose_own_first_runs_were_as_fast_is_not_called() -> None:
    """As observed for a product on two threads: 0.6 ms, or 14 ms if its second thread must be woken."""

    def with_first_runs(trace: Trace, factors: Sequence[float]) -> Trace:
        def first_ns(line: int) -> list[int]:
            return [round(10_000 * factor) for factor in (factors if line == SLOW_LINE else [1.0] * 3)]

        return with_steps(trace, lambda step: replace(step, cold_ns=first_ns(step.line)))

    a, b = made(0), with_steps(made(1), slower(10.0))
    called = differ(with_first_runs(a, [1.0, 1.0, 9.0]), with_first_runs(b, [9.0, 9.5, 9.2]))
    assert any(time.matters for time in times(called))
    excused = differ(with_first_runs(a, [1.0, 1.0, 1.1]), with_first_runs(b, [9.0, 9.5, 1.1]))
    assert not excused.matters and excused.times.different == 0 and excused.time_not_judged is None
    assert {word_of(time) for time in times(excused)} == {UNDETECTED}


def test_slower_side_under_load_does_not_matter() -> None:
    b, calm_note = with_steps(made(1), slower(3.0)), ["load average 2.1 on 2 cores: its own"]
    loaded = [Process(f"pass {n}", "complete", other_cores=0.97) for n in (1, 2, 3)]
    calm = [Process(f"pass {n}", "complete", notes=calm_note, other_cores=0.02) for n in (1, 2, 3)]
    assert not differ(made(0), during(b, *loaded)).matters and differ(made(0), during(b, *calm)).matters
    assert not differ(during(b, *loaded), made(0)).matters  # A is slower, but under load
    assert differ(during(made(0), *loaded), b).matters  # B is slower without load
