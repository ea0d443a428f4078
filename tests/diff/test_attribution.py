"""Of a chain of findings one is the cause: where it began, and innermost.

What follows from a setting stands under it; what may follow from an edit or a count comes after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, INSERTED, LECTURE, at, differ, made, measuring, noisy, slower, with_steps
from tests.diff.report_cases import html_of, markdown_of, terminal_of
from trace_tools.diff.difference import Subject
from trace_tools.diff.report.difference_report import headline, repeated
from trace_tools.diff.report.entries import entries, leads
from trace_tools.trace.model import Claim, Meters, Process, Step, Trace, Value


def test_a_slower_call_names_its_slower_statement_as_cause() -> None:
    def outer(step: Step) -> Step:
        return replace(step, host_ns=[ns + 400_000 for ns in step.host_ns or []]) if step.line == 3 else step

    slow = with_steps(with_steps(made(1), slower(20, line=12)), outer)
    base = with_steps(made(0), outer)
    difference = differ(base, with_steps(slow, slower(1.5, line=3)))
    rows = {row.step.line: row for row in difference.rows if row.time and row.time.matters}
    assert rows[3].time and rows[12].time
    assert rows[3].time.cause == rows[12].number and [e.line for e in entries(difference, "time")] == [12]


def test_a_leak_is_reported_once() -> None:
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


def test_a_longer_loop_is_reported_once() -> None:
    a, b = traced(LECTURE), traced(LECTURE.replace("range(20)", "range(25)"))
    found = entries(differ(a, b), "steps")
    assert [(e.name, e.a, e.b, e.line) for e in found] == [("executions", "21", "26", 10)]
    assert found[0].follows >= 5


def test_a_slower_call_follows_from_several_statements() -> None:
    def outer(step: Step) -> Step:
        return replace(step, host_ns=[ns + 200_000 for ns in step.host_ns or []]) if step.line == 2 else step

    def both(trace: Trace, factor: float) -> Trace:
        long = with_steps(trace, lambda s: slower(10 * factor, s.line)(s) if s.line in (5, 6) else s)
        return with_steps(long, lambda s: slower(factor, 2)(outer(s)))

    found = entries(differ(both(made(0), 1.0), both(made(1), 1.5)), "time")
    assert [e.line for e in found] == [5, 6] or [e.line for e in found] == [6, 5]
    assert sum(e.follows for e in found) == 1


def test_a_slower_call_names_its_new_statement() -> None:
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


def test_more_bytes_are_attributed_to_the_new_statement() -> None:
    def holding(step: Step) -> Step:
        held = 4096 * (step.line == 14 or step.line > 14)
        return replace(step, meters=Meters(0, 0, 0, 1024 + held, 1024 + held))

    a = with_steps(traced("x = 1\n" * 12 + "y = 2\nz = 3\n"), lambda s: replace(s, meters=Meters(0, 0, 0, 1024, 1024)))
    b = with_steps(traced("x = 1\n" * 12 + "y = 2\nnew = 5\nz = 3\n"), holding)
    found = entries(differ(a, b), "memory")
    assert [(e.name, e.line) for e in found] == [("live tensor bytes", 14)] and found[0].follows == 2


def test_a_higher_peak_is_attributed_to_the_new_statement() -> None:
    def peaking(step: Step) -> Step:
        line = INSERTED.splitlines()[step.line - 1].strip()
        peak = 9_000 if line in ("sum(range(9))", "second()", "total += work(i)") else 2_000
        return replace(step, meters=Meters(0, 0, 0, 1_000, peak))

    a = with_steps(traced(LECTURE), lambda s: replace(s, meters=Meters(0, 0, 0, 1_000, 2_000)))
    found = entries(differ(a, with_steps(traced(INSERTED), peaking)), "memory")
    assert {(e.name, INSERTED.splitlines()[e.line - 1].strip()) for e in found} == {
        ("peak tensor bytes", "sum(range(9))")
    }


# --- origins --------------------------------------------------------------------------------------


def test_a_grown_count_leads_without_judged_times() -> None:
    a, b = measuring(3e-6, flops=1_000_000), measuring(3e-6, flops=1_500_000)
    difference = differ(a, b)
    [entry] = entries(difference, "flops")
    assert difference.matters and entry.subject == Subject("measured", 0, "flops") and entry.a == "1 MFLOP"
    busy = [Process(f"pass {n}", "complete", notes=["load average 3.9 on 2 cores: much"]) for n in (1, 2, 3)]
    unjudged = differ(a, replace(b, run=replace(b.run, processes=busy)))
    assert "50% more FLOPs; times too noisy. TIME NOT JUDGED: the machine was busy" in headline(unjudged)
    assert "times too noisy" in (entries(unjudged, "flops")[0].detail or "")


def test_a_time_that_grew_with_its_count_follows_it() -> None:
    difference = differ(measuring(3e-6, flops=10**6), measuring(6e-6, flops=2 * 10**6))
    [lead] = leads(difference)
    assert (lead.subject, lead.follows) == (Subject("measured", 0, "flops"), 1)
    assert [(e.verdict, e.after_line) for e in entries(difference, "time")] == [("slower", 6)]
    faster = differ(measuring(6e-6, flops=10**6), measuring(3e-6, flops=2 * 10**6))
    assert leads(faster) == [] and [e.after_line for e in entries(faster, "time")] == [None]


EDITED = LECTURE.replace("range(20)", "range(30)")


def counted(source: str, rounds: int) -> Trace:
    """Return a trace of the lecture with what a longer loop changes: values, FLOPs and bytes after it."""

    def observed(step: Step) -> Step:
        if step.line == 12:  # done = [total]
            values = [("total", Value("int", rounds * (rounds + 1))), ("done", Value("int", 3 * rounds))]
            return replace(step, values=values, meters=Meters(10 * rounds, 8, 8, 100 * rounds, 200 * rounds))
        return replace(step, meters=Meters(10 * rounds, 8, 8, 1, 1)) if step.line == 3 else step

    return with_steps(traced(source, machine=CPU), observed)


@pytest.mark.slow
def test_the_edit_of_a_loop_leads_and_consequences_follow() -> None:
    difference = differ(counted(LECTURE, 20), counted(EDITED, 30))
    [lead] = leads(difference)
    assert (lead.verdict, lead.line) == ("edited", 10)
    assert (lead.a, lead.b) == ("for i in range(20):", "for i in range(30):")
    assert lead.detail == "executions 21 → 31" and lead.follows >= 4
    assert difference.matters
    text = terminal_of(difference)
    assert text.index("for i in range(30):") < text.index("total changed")
    assert headline(difference).startswith("Differences that matter: 1 edited statement")
    assert "may follow from line 10" in " ".join(text.split())
    every = [e for aspect in ("values", "memory", "flops") for e in entries(difference, aspect)]  # type: ignore[arg-type]
    assert {e.after_line for e in every} == {10}  # and none of them is hidden
    assert {e.name for e in every} >= {"total", "done", "live tensor bytes", "FLOPs"}
    for report in (markdown_of(difference), html_of(difference)):
        assert report.index("Possible causes of other differences") < report.index("may follow from line 10")


def test_a_loop_that_ran_longer_without_an_edit_leads() -> None:
    text = "def main():\n    work()\ndef work():\n    for i in numbers:\n        a = i + 1\n    b = a * 2\nmain()\n"
    a, b = (
        with_steps(traced(f"numbers = range({n})\n{text}"), at(7, values=[("b", Value("int", 2 * n))])) for n in (3, 5)
    )
    same = [replace(trace, sources=a.sources) for trace in (a, b)]
    [lead] = leads(differ(*same))
    assert (lead.name, lead.a, lead.b, lead.line) == ("executions", "4", "6", 5)
    [value] = entries(differ(*same), "values")
    assert (value.name, value.after_line) == ("b", 5)


def test_an_edit_explains_only_later_steps_of_its_section() -> None:
    def valued(source: str, n: int) -> Trace:
        def change(step: Step) -> Step:
            of = {6: "y", 10: "total"}.get(step.line)
            return replace(step, values=[(of, Value("int", n))]) if of else step

        return with_steps(traced(source), change)

    edited = LECTURE.replace("done = [total]", "done = [total, 1]")
    difference = differ(valued(LECTURE, 1), valued(edited, 5))
    assert [(e.name, e.after_line) for e in entries(difference, "values")] == [("y", None), ("total", None)]
    assert leads(difference) == [] and difference.matters


def test_changed_arguments_explain_a_section_and_new_calls_do_not() -> None:
    def valued(source: str, n: int) -> Trace:
        def change(step: Step) -> Step:
            is_done = source.splitlines()[step.line - 1].strip() == "done = [total]"
            return replace(step, values=[("done", Value("int", n))]) if is_done else step

        return with_steps(traced(source), change)

    more = LECTURE.replace("    first()\n    second()", "    first()\n    first()\n    second()")
    assert [e.after_line for e in entries(differ(valued(LECTURE, 1), valued(more, 2)), "values")] == [None]
    size = "SIZE = 1\n" + LECTURE
    edited = differ(valued(size, 1), valued(size.replace("SIZE = 1", "SIZE = 2"), 2))
    assert [e.after_line for e in entries(edited, "values")] == [1]
    taking = LECTURE.replace("def second():", "def second(n=1):")
    handed = differ(valued(taking, 1), valued(taking.replace("    second()\n", "    second(2)\n"), 2))
    assert [e.after_line for e in entries(handed, "values")] == [3]


def test_claims_come_before_counts() -> None:
    def changed(n: int, held: bool) -> Trace:
        trace = with_steps(made(0), at(6, values=[("x", Value("int", n))]))
        trace = with_steps(trace, at(12, values=[("p", Value("int", n))]))
        trace = with_steps(trace, at(10, values=[("q", Value("int", n))]))
        return with_steps(trace, at(7, claim=Claim("y == 2", held, failed_runs=["pass 1, warm"])))

    text = markdown_of(differ(changed(1, True), changed(5, False)))
    titles = [f"#### {title}" for title in ("Claims", "Possible causes of other differences", "Values")]
    assert sorted(titles, key=text.index) == titles


def test_an_edit_without_consequences_does_not_matter() -> None:
    difference = differ(traced(LECTURE), traced(LECTURE.replace("y = x + 1", "y = 1 + x")))
    assert not difference.matters and leads(difference) == []


def test_a_doubled_count_leads_and_its_doubled_values_follow() -> None:
    def doubled(factor: int) -> Trace:
        def change(step: Step) -> Step:
            if step.line != 12:
                return step
            values = [("flops", Value("int", 64 * factor, unit="FLOP")), ("share", Value("float", 0.5))]
            return replace(step, values=values, meters=Meters(64 * factor, 8, 8, 1, 1))

        return with_steps(made(0), change)

    difference = differ(doubled(1), doubled(2))
    assert difference.matters
    [lead] = leads(difference)
    assert (lead.aspect, lead.name, lead.a, lead.b) == ("flops", "FLOPs", "64 FLOP", "128 FLOP")
    assert [(e.name, e.after_line) for e in entries(difference, "values")] == [("flops", 12)]


def read_back(line: int, *values: tuple[str, Value]) -> Callable[[Trace], Trace]:
    return lambda trace: with_steps(trace, at(line, values=list(values)))


def test_a_value_that_repeats_a_setting_is_no_difference() -> None:
    def on(threads: int, ram: int) -> Trace:
        machine = replace(CPU, threads=threads, ram_bytes=ram)
        values = [("torch.get_num_threads()", Value("int", threads)), ("ram", Value("int", ram, unit="B"))]
        return read_back(6, *values)(made(0, machine=machine))

    difference = differ(on(2, 25_276_661_760), on(1, 25_276_665_856))
    assert not difference.matters
    assert [[place.split(" in ")[0] for place in places] for places in repeated(difference)] == [
        ["torch.get_num_threads()"],
        ["ram"],
    ]
    assert entries(difference, "values") == []
    text = " ".join(terminal_of(difference).split())
    assert "threads 2 → 1 (therefore: torch.get_num_threads() in line 6)" in text
    said = re.search(r"ram (23\.\d+) GiB → (23\.\d+) GiB", text)
    assert said is not None and said[1] != said[2] and float(said[1]) == pytest.approx(25_276_661_760 / 2**30)


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("layers", Value("int", 2), Value("int", 1)),  # as many as threads, and nothing says that it is they
        ("threads", Value("int", 1), Value("int", 2)),  # the other way round
        ("threads", Value("int", 2), Value("int", 3)),
        ("threads", Value("float", 2.0), Value("float", 1.0)),
        ("threads", Value("bool", True), Value("bool", False)),
    ],
)
def test_a_value_that_resembles_a_setting_matters(name: str, a: Value, b: Value) -> None:
    one, two = (made(0, machine=replace(CPU, threads=n)) for n in (2, 1))
    difference = differ(read_back(6, (name, a))(one), read_back(6, (name, b))(two))
    assert difference.matters and [e.name for e in entries(difference, "values")] == [name]


def test_values_that_repeat_a_version_follow_from_it() -> None:
    def with_torch(version: str, threads: int) -> Trace:
        trace = replace(made(0, machine=replace(CPU, threads=threads)), versions=[("torch", version)])
        trace = with_steps(trace, at(6, values=[("v", Value("str", version)), ("threads", Value("int", threads))]))
        return with_steps(trace, at(7, values=[("workers", Value("int", threads))]))

    difference = differ(with_torch("2.12.0", 2), with_torch("2.13.0", 1))
    assert not difference.matters
    assert repeated(difference)[1] and sum(map(len, repeated(difference))) == 3


def test_the_terminal_shows_the_differing_part_of_long_values() -> None:
    long = "a" * 200
    values = [[(f"model.{long}.x", Value("str", long + end))] for end in ("one", "two")]
    a, b = (with_steps(made(0), at(6, values=v)) for v in values)
    for width in (40, 80, 120):
        text = "".join(line.strip() for line in terminal_of(differ(a, b), width).splitlines())
        assert "aone'" in text and "atwo'" in text
