"""Attribution of findings: the cause in a chain is the first and innermost finding.

Findings that may follow from an edit or a count are listed after it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, INSERTED, LECTURE, at, differ, made, measuring, noisy, slower, with_steps
from tests.diff.report_cases import html_of, markdown_of, terminal_of
from trace_tools.diff.difference import Subject
from trace_tools.diff.judge.between import Choices
from trace_tools.diff.report.difference_report import headline
from trace_tools.diff.report.entries import entries, leads
from trace_tools.trace.model import Meters, Step, Trace, Value


def test_slow_statement_is_the_cause_of_its_slow_caller() -> None:
    def outer(step: Step) -> Step:
        return replace(step, host_ns=[ns + 400_000 for ns in step.host_ns or []]) if step.line == 3 else step

    slow = with_steps(with_steps(made(1), slower(20, line=12)), outer)
    base = with_steps(made(0), outer)
    difference = differ(base, with_steps(slow, slower(1.5, line=3)))
    rows = {row.step.line: row for row in difference.rows if any(time.matters for time in row.times)}
    assert rows[3].times[0].cause == rows[12].number and [e.line for e in entries(difference, "time")] == [12]


def test_memory_leak_is_reported_once() -> None:
    def leaking(step: Step) -> Step:
        ends_before = step.line in (1, 4, 5, 8, 13)  # definitions, and statements that run before y exists
        leaked = 0 if ends_before else 4096
        return replace(step, meters=Meters(0, 0, 0, 1024 + leaked, 2048 + leaked))

    difference = differ(
        with_steps(made(0), lambda s: replace(s, meters=Meters(0, 0, 0, 1024, 2048))), with_steps(made(0), leaking)
    )
    assert {(e.name, e.line) for e in entries(difference, "memory")} == {
        ("live tensor bytes", 6),
        ("peak tensor bytes", 6),
    }


def test_longer_loop_is_reported_once() -> None:
    a, b = traced(LECTURE), traced(LECTURE.replace("range(20)", "range(25)"))
    listed = entries(differ(a, b), "steps")
    assert [(e.name, e.a, e.b, e.line) for e in listed] == [("executions", "21", "26", 10)]
    assert listed[0].follows >= 5


def test_slow_call_follows_from_several_slow_statements() -> None:
    def outer(step: Step) -> Step:
        return replace(step, host_ns=[ns + 200_000 for ns in step.host_ns or []]) if step.line == 2 else step

    def slowed(trace: Trace, factor: float) -> Trace:
        long = with_steps(trace, lambda s: slower(10 * factor, s.line)(s) if s.line in (5, 6) else s)
        return with_steps(long, lambda s: slower(factor, 2)(outer(s)))

    listed = entries(differ(slowed(made(0), 1.0), slowed(made(1), 1.5)), "time")
    assert [e.line for e in listed] == [5, 6] or [e.line for e in listed] == [6, 5]
    assert sum(e.follows for e in listed) == 1


def test_new_statement_is_the_cause_of_a_slower_call() -> None:
    def timed(step: Step) -> Step:
        text = INSERTED.splitlines()[step.line - 1].strip()
        return slower({"sum(range(9))": 6.0, "total += work(i)": 7.0}.get(text, 1.0), step.line)(step)

    a = noisy(traced(LECTURE, machine=CPU), 0)
    a = with_steps(a, lambda s: slower(1.01 if s.line == 11 else 1.0, s.line)(s))
    difference = differ(a, with_steps(noisy(traced(INSERTED, machine=CPU), 1), timed))
    (entry,) = entries(difference, "time")
    assert (INSERTED.splitlines()[entry.line - 1], entry.finding.verdict, entry.a) == (
        "    sum(range(9))",
        "only in B",
        None,
    )
    assert entry.executions == 20 and entry.follows >= 20
    (step,) = entries(difference, "steps")
    assert step.line == entry.line and step.b and step.b.endswith("µs")


def test_memory_growth_is_attributed_to_the_new_statement() -> None:
    def holding(step: Step) -> Step:
        held_bytes = 4096 * (step.line == 14 or step.line > 14)
        return replace(step, meters=Meters(0, 0, 0, 1024 + held_bytes, 1024 + held_bytes))

    a = with_steps(traced("x = 1\n" * 12 + "y = 2\nz = 3\n"), lambda s: replace(s, meters=Meters(0, 0, 0, 1024, 1024)))
    b = with_steps(traced("x = 1\n" * 12 + "y = 2\nnew = 5\nz = 3\n"), holding)
    listed = entries(differ(a, b), "memory")
    assert [(e.name, e.line) for e in listed] == [("live tensor bytes", 14)] and listed[0].follows == 2


def test_flops_of_a_new_statement_are_listed_only_without_the_statement() -> None:
    def computing(step: Step) -> Step:
        line = INSERTED.splitlines()[step.line - 1].strip()
        flops = {"sum(range(9))": 5, "total += work(i)": 5, "second()": 100}.get(line, 0)
        return replace(step, meters=Meters(flops, 0, 0, 0, 0))

    a = with_steps(traced(LECTURE), lambda s: replace(s, meters=Meters(0, 0, 0, 0, 0)))
    b = with_steps(traced(INSERTED), computing)
    assert entries(differ(a, b), "flops") == [] and differ(a, b).matters
    [entry] = entries(differ(a, b, Choices(aspects=frozenset({"flops"}))), "flops")
    assert (entry.name, INSERTED.splitlines()[entry.line - 1].strip()) == ("FLOPs", "sum(range(9))")


def test_peak_memory_is_attributed_to_the_new_statement() -> None:
    def peaking(step: Step) -> Step:
        line = INSERTED.splitlines()[step.line - 1].strip()
        peak = 9_000 if line in ("sum(range(9))", "second()", "total += work(i)") else 2_000
        return replace(step, meters=Meters(0, 0, 0, 1_000, peak))

    a = with_steps(traced(LECTURE), lambda s: replace(s, meters=Meters(0, 0, 0, 1_000, 2_000)))
    listed = entries(differ(a, with_steps(traced(INSERTED), peaking)), "memory")
    assert {(e.name, INSERTED.splitlines()[e.line - 1].strip()) for e in listed} == {
        ("peak tensor bytes", "sum(range(9))")
    }


# --- origins --------------------------------------------------------------------------------------


def test_changed_flops_are_reported_if_times_do_not_differ() -> None:
    difference = differ(measuring(3e-6, flops=1_000_000), measuring(3e-6, flops=1_500_000))
    [entry] = entries(difference, "flops")
    assert difference.matters and entry.finding.subject == Subject("measured", 0, "flops") and entry.a == "1 MFLOP"


EDITED = LECTURE.replace("range(20)", "range(30)")


def counted(source: str, rounds: int) -> Trace:
    """Return a trace whose values, FLOPs and bytes after the loop depend on its number of rounds."""

    def observed(step: Step) -> Step:
        if step.line == 12:  # done = [total]
            values = [("total", Value("int", rounds * (rounds + 1))), ("done", Value("int", 3 * rounds))]
            return replace(step, values=values, meters=Meters(10 * rounds, 8, 8, 100 * rounds, 200 * rounds))
        return replace(step, meters=Meters(10 * rounds, 8, 8, 1, 1)) if step.line == 3 else step

    return with_steps(traced(source, machine=CPU), observed)


@pytest.mark.slow
def test_edited_loop_is_listed_before_its_consequences() -> None:
    difference = differ(counted(LECTURE, 20), counted(EDITED, 30))
    [lead] = leads(difference)
    assert (lead.word, lead.line) == ("edited", 10)
    assert (lead.a, lead.b) == ("for i in range(20):", "for i in range(30):")
    assert lead.detail == "executions 21 → 31" and lead.follows >= 4
    assert difference.matters
    text = terminal_of(difference)
    assert text.index("for i in range(30):") < text.index("total changed")
    assert headline(difference).startswith("Differences that matter: 1 edited statement")
    assert "may follow from line 10" in " ".join(text.split())
    consequences = [e for aspect in ("values", "memory", "flops") for e in entries(difference, aspect)]  # type: ignore[arg-type]
    assert {e.after_lines for e in consequences} == {(10,)}  # and all of them are listed
    assert {e.name for e in consequences} >= {"total", "done", "live tensor bytes", "FLOPs"}
    for report in (markdown_of(difference), html_of(difference)):
        assert report.index("Possible causes of other differences") < report.index("may follow from line 10")


def test_longer_loop_without_an_edit_is_listed_first() -> None:
    text = "def main():\n    work()\ndef work():\n    for i in numbers:\n        a = i + 1\n    b = a * 2\nmain()\n"
    a, b = (
        with_steps(traced(f"numbers = range({n})\n{text}"), at(7, values=[("b", Value("int", 2 * n))])) for n in (3, 5)
    )
    same = [replace(trace, sources=a.sources) for trace in (a, b)]
    [lead] = leads(differ(*same))
    assert (lead.name, lead.a, lead.b, lead.line) == ("executions", "4", "6", 5)
    [value] = entries(differ(*same), "values")
    assert (value.name, value.after_lines) == ("b", (5,))


def test_each_of_several_edits_may_explain_a_later_difference() -> None:
    def valued(source: str, n: int) -> Trace:
        return with_steps(traced(source), at(12, values=[("done", Value("int", n))]))

    edited = LECTURE.replace("total = 0", "total = 1").replace("total += work(i)", "total += work(i) + 1")
    difference = differ(valued(LECTURE, 1), valued(edited, 2))
    assert [lead.line for lead in leads(difference)] == [9, 11]
    assert [e.after_lines for e in entries(difference, "values")] == [(9, 11)]
    assert "may follow from line 9 or 11" in " ".join(terminal_of(difference).split())


def test_edit_explains_no_earlier_or_unrelated_differences() -> None:
    def valued(source: str, n: int) -> Trace:
        def change(step: Step) -> Step:
            name = {6: "y", 10: "total"}.get(step.line)
            return replace(step, values=[(name, Value("int", n))]) if name else step

        return with_steps(traced(source), change)

    edited = LECTURE.replace("done = [total]", "done = [total, 1]")
    difference = differ(valued(LECTURE, 1), valued(edited, 5))
    assert [(e.name, e.after_lines) for e in entries(difference, "values")] == [("y", ()), ("total", ())]
    assert leads(difference) == [] and difference.matters


PROSE = """\
from trace_tools import ask, text
def main():
    work()
def explain(words):
    text(words)
def work():
    text("A sentence.")
    explain("Words.")
    ask("2 + 2?", 4)
    for line in ["one", "two"]:
        text(line)
    n = 3
    y = n + 1
main()
"""


def test_prose_is_never_a_cause_nor_a_difference() -> None:
    prose = [
        ("import ask, text", "import ask, note, text"),
        ("A sentence.", "Another sentence."),
        ('    text("A sentence.")\n', ""),
        ("    n = 3\n", '    text("More.")\n    n = 3\n'),
        ("Words.", "Other words."),
        ("text(words)", "text(words + '!')"),
        ("2 + 2?", "How much is 2 + 2?"),
        ('"two"]', '"two", "three"]'),
    ]

    def valued(source: str, y: int) -> Trace:
        line = source.splitlines().index("    y = n + 1") + 1
        return with_steps(traced(source, machine=CPU), at(line, values=[("y", Value("int", y))]))

    for change in prose:
        edited = PROSE.replace(*change)
        assert edited != PROSE
        for y, value in ((4, []), (5, [("y", ())])):
            difference = differ(valued(PROSE, 4), valued(edited, y))
            assert leads(difference) == [] and difference.matters == bool(value), change
            assert [(e.name, e.after_lines) for e in entries(difference, "values")] == value, change
    caused = differ(valued(PROSE, 4), valued(PROSE.replace("n = 3", "n = 4").replace("Words.", "Other words."), 5))
    assert [(lead.line, lead.word) for lead in leads(caused)] == [(12, "edited")]


def test_only_edited_constants_and_arguments_explain_other_sections() -> None:
    def valued(source: str, n: int) -> Trace:
        def change(step: Step) -> Step:
            is_done = source.splitlines()[step.line - 1].strip() == "done = [total]"
            return replace(step, values=[("done", Value("int", n))]) if is_done else step

        return with_steps(traced(source), change)

    with_second_call = LECTURE.replace("    first()\n    second()", "    first()\n    first()\n    second()")
    assert [e.after_lines for e in entries(differ(valued(LECTURE, 1), valued(with_second_call, 2)), "values")] == [()]
    with_constant = "SIZE = 1\n" + LECTURE
    difference = differ(valued(with_constant, 1), valued(with_constant.replace("SIZE = 1", "SIZE = 2"), 2))
    assert [e.after_lines for e in entries(difference, "values")] == [(1,)]
    optional = LECTURE.replace("def second():", "def second(n=1):")
    passed = differ(valued(optional, 1), valued(optional.replace("    second()\n", "    second(2)\n"), 2))
    assert [e.after_lines for e in entries(passed, "values")] == [(3,)]


def test_an_edit_without_consequences_does_not_matter() -> None:
    difference = differ(traced(LECTURE), traced(LECTURE.replace("y = x + 1", "y = 1 + x")))
    assert not difference.matters and leads(difference) == []


def test_terminal_never_truncates_the_differing_part() -> None:
    long = "a" * 200
    values = [[(f"model.{long}.x", Value("str", long + end))] for end in ("one", "two")]
    a, b = (with_steps(made(0), at(6, values=v)) for v in values)
    for width in (40, 80, 120):
        text = "".join(line.strip() for line in terminal_of(differ(a, b), width).splitlines())
        assert "aone'" in text and "atwo'" in text
