"""Of a chain of findings one is the cause: where it began, and innermost."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, INSERTED, LECTURE, differ, made, noisy, slower, with_steps
from trace_tools.diff.report.entries import entries
from trace_tools.trace.model import Meters, Step, Trace


def test_the_call_around_a_slow_statement_names_it_as_its_cause() -> None:
    def outer(step: Step) -> Step:
        return replace(step, host_ns=[ns + 400_000 for ns in step.host_ns or []]) if step.line == 3 else step

    slow = with_steps(with_steps(made(1), slower(20, line=12)), outer)
    base = with_steps(made(0), outer)
    difference = differ(base, with_steps(slow, slower(1.5, line=3)))
    rows = {row.step.line: row for row in difference.rows if row.time and row.time.matters}
    assert rows[3].time and rows[12].time
    assert rows[3].time.cause == rows[12].number and [e.line for e in entries(difference, "time")] == [12]


def test_a_leak_is_told_once() -> None:
    def leaking(step: Step) -> Step:
        ends_before = step.line in (1, 4, 5, 8, 13)  # definitions, and what runs before y is made
        held = 0 if ends_before else 4096
        return replace(step, meters=Meters(0, 0, 0, 1024 + held, 2048 + held))

    difference = differ(
        with_steps(made(0), lambda s: replace(s, meters=Meters(0, 0, 0, 1024, 2048))), with_steps(made(0), leaking)
    )
    assert {(e.name, e.line) for e in entries(difference, "memory")} == {
        ("live tensor bytes", 6),
        ("peak tensor bytes", 6),
    }


def test_a_longer_loop_is_told_once() -> None:
    a, b = traced(LECTURE), traced(LECTURE.replace("range(20)", "range(25)"))
    found = entries(differ(a, b), "steps")
    assert [(e.name, e.a, e.b, e.line) for e in found] == [("executions", "21", "26", 10)]
    assert found[0].follows >= 5


def test_a_call_follows_from_the_statements_in_it_together() -> None:
    def outer(step: Step) -> Step:
        return replace(step, host_ns=[ns + 200_000 for ns in step.host_ns or []]) if step.line == 2 else step

    def both(trace: Trace, factor: float) -> Trace:
        long = with_steps(trace, lambda s: slower(10 * factor, s.line)(s) if s.line in (5, 6) else s)
        return with_steps(long, lambda s: slower(factor, 2)(outer(s)))

    found = entries(differ(both(made(0), 1.0), both(made(1), 1.5)), "time")
    assert [e.line for e in found] == [5, 6] or [e.line for e in found] == [6, 5]
    assert sum(e.follows for e in found) == 1


def test_a_call_that_got_slower_names_the_statement_that_is_new_in_it() -> None:
    def timed(step: Step) -> Step:
        text = INSERTED.splitlines()[step.line - 1].strip()
        return slower({"sum(range(9))": 6.0, "total += work(i)": 7.0}.get(text, 1.0), step.line)(step)

    a = noisy(traced(LECTURE, machine=CPU), 0)
    a = with_steps(a, lambda s: slower(1.01 if s.line == 11 else 1.0, s.line)(s))
    difference = differ(a, with_steps(noisy(traced(INSERTED, machine=CPU), 1), timed))
    (entry,) = entries(difference, "time")
    assert (INSERTED.splitlines()[entry.line - 1], entry.verdict, entry.a) == ("    sum(range(9))", "only in B", None)
    assert entry.executions == 20 and entry.follows >= 20 and entry.level == 2
    (step,) = entries(difference, "steps")
    assert step.line == entry.line and step.b and step.b.endswith("µs")


def test_bytes_begin_at_the_statement_that_is_new() -> None:
    def holding(step: Step) -> Step:
        held = 4096 * (step.line == 14 or step.line > 14)
        return replace(step, meters=Meters(0, 0, 0, 1024 + held, 1024 + held))

    a = with_steps(traced("x = 1\n" * 12 + "y = 2\nz = 3\n"), lambda s: replace(s, meters=Meters(0, 0, 0, 1024, 1024)))
    b = with_steps(traced("x = 1\n" * 12 + "y = 2\nnew = 5\nz = 3\n"), holding)
    found = entries(differ(a, b), "memory")
    assert [(e.name, e.line) for e in found] == [("live tensor bytes", 14)] and found[0].follows == 2


def test_a_calls_peak_is_that_of_the_statement_that_is_new_in_it() -> None:
    def peaking(step: Step) -> Step:
        line = INSERTED.splitlines()[step.line - 1].strip()
        peak = 9_000 if line in ("sum(range(9))", "second()", "total += work(i)") else 2_000
        return replace(step, meters=Meters(0, 0, 0, 1_000, peak))

    a = with_steps(traced(LECTURE), lambda s: replace(s, meters=Meters(0, 0, 0, 1_000, 2_000)))
    found = entries(differ(a, with_steps(traced(INSERTED), peaking)), "memory")
    assert {(e.name, INSERTED.splitlines()[e.line - 1].strip()) for e in found} == {
        ("peak tensor bytes", "sum(range(9))")
    }
