"""Attribution of findings: the cause in a chain is the first and innermost finding.

Findings that may follow from an edit or a count are listed after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, INSERTED, LECTURE, at, differ, ints, made, measuring, noisy, slower, with_steps
from tests.diff.report_cases import html_of, markdown_of, terminal_of
from trace_tools.diff.difference import ASPECTS, Aspect, Difference, Subject
from trace_tools.diff.judge.between import Choices
from trace_tools.diff.report.difference_report import headline
from trace_tools.diff.report.entries import entries, leads
from trace_tools.trace.model import Meters, Step, Trace


def observed(source: str, fields: Callable[[str], dict[str, Any]]) -> Trace:
    """Trace a program; `fields` returns those of a step by the code of its line."""
    codes = [line.partition("  #")[0].strip() for line in source.splitlines()]
    return with_steps(traced(source, machine=CPU), lambda step: replace(step, **fields(codes[step.line - 1])))


def valued(source: str, n: int, code: str = "done =", name: str = "done") -> Trace:
    """Trace a program in which the value of one statement depends on n."""
    return observed(source, lambda c: {"values": ints(**{name: n})} if c.startswith(code) else {})


def compared(a: Trace, b: Trace) -> Difference:
    """Compare all but times."""
    return differ(a, b, Choices(aspects=frozenset(ASPECTS) - {"time"}))


# --- times ----------------------------------------------------------------------------------------


def longer(trace: Trace, line: int, ns: int) -> Trace:
    def change(step: Step) -> Step:
        return replace(step, host_ns=[n + ns for n in step.host_ns or []]) if step.line == line else step

    return with_steps(trace, change)


def test_slow_statement_is_the_cause_of_its_slow_caller() -> None:
    slow = longer(with_steps(made(1), slower(20, line=12)), 3, 400_000)
    difference = differ(longer(made(0), 3, 400_000), with_steps(slow, slower(1.5, line=3)))
    rows = {row.step.line: row for row in difference.rows if any(time.matters for time in row.times)}
    assert rows[3].times[0].cause == rows[12].number and [e.line for e in entries(difference, "time")] == [12]


def test_slow_call_follows_from_several_slow_statements() -> None:
    def slowed(trace: Trace, factor: float) -> Trace:
        long = with_steps(trace, lambda s: slower({5: 30, 6: 10}.get(s.line, 1 / factor) * factor, s.line)(s))
        return with_steps(longer(long, 2, 200_000), slower(factor, 2))

    listed = entries(differ(slowed(made(0), 1.0), slowed(made(1), 1.5)), "time")
    assert {e.line: e.follows for e in listed} == {5: 1, 6: 0}


def test_new_statement_is_the_cause_of_a_slower_call() -> None:
    def timed(step: Step) -> Step:
        text = INSERTED.splitlines()[step.line - 1].strip()
        return slower({"sum(range(9))": 6.0, "total += work(i)": 7.0}.get(text, 1.0), step.line)(step)

    a = with_steps(noisy(traced(LECTURE, machine=CPU), 0), slower(1.01, 11))
    difference = differ(a, with_steps(noisy(traced(INSERTED, machine=CPU), 1), timed))
    (entry,) = entries(difference, "time")
    assert (INSERTED.splitlines()[entry.line - 1].strip(), entry.finding.verdict) == ("sum(range(9))", "only in B")
    assert entry.a is None and entry.executions == 20 and entry.follows >= 20
    (step,) = entries(difference, "steps")
    assert step.line == entry.line and step.b and step.b.endswith("µs")


# --- counts ---------------------------------------------------------------------------------------

MANY = "x = 1\n" * 12 + "y = 2\nz = 3\n"
OTHER = MANY.replace("z = 3", "new = 5\nz = 3")
BEFORE_Y = ("def main():", "def first():", "x = 1", "def second():", "def work(i):")
NEW_AND_CALLS = ("sum(range(9))", "total += work(i)", "second()")


Counts = tuple[int, int, int]  # FLOPs, live bytes, peak bytes


def metered(source: str, usual: Counts, codes: dict[str, Counts]) -> Trace:
    """Trace a program whose statements have these counts."""

    def fields(code: str) -> dict[str, Any]:
        flops, live, peak = codes.get(code, usual)
        return {"meters": Meters(flops, 0, 0, live, peak)}

    return observed(source, fields)


def listed(difference: Difference, aspect: Aspect) -> set[tuple[str, str, int]]:
    """Return name, code and number of consequences of each entry."""
    codes = [line.partition("  #")[0].strip() for line in difference.b.trace.source.text.splitlines()]
    return {(e.name, codes[e.line - 1], e.follows) for e in entries(difference, aspect)}


def test_memory_is_attributed_to_the_first_and_innermost_statement() -> None:
    leak = metered(LECTURE, (0, 5120, 6144), dict.fromkeys(BEFORE_Y, (0, 1024, 2048)))
    leaking = compared(metered(LECTURE, (0, 1024, 2048), {}), leak)
    assert listed(leaking, "memory") == {(f"{what} tensor bytes", "y = x + 1", 214) for what in ("live", "peak")}
    growth = metered(OTHER, (0, 1024, 1024), dict.fromkeys(("new = 5", "z = 3"), (0, 5120, 5120)))
    growing = compared(metered(MANY, (0, 1024, 1024), {}), growth)
    assert listed(growing, "memory") == {("live tensor bytes", "new = 5", 2)}
    peak = metered(INSERTED, (0, 1000, 2000), dict.fromkeys(NEW_AND_CALLS, (0, 1000, 9000)))
    peaking = compared(metered(LECTURE, (0, 1000, 2000), {}), peak)
    assert listed(peaking, "memory") == {("peak tensor bytes", "sum(range(9))", 21)}


def test_flops_of_a_new_statement_are_listed_only_without_the_statement() -> None:
    new = metered(INSERTED, (0, 0, 0), dict(zip(NEW_AND_CALLS, ((5, 0, 0), (5, 0, 0), (100, 0, 0)), strict=True)))
    sides = metered(LECTURE, (0, 0, 0), {}), new
    assert compared(*sides).matters and listed(compared(*sides), "flops") == set()
    only_flops = differ(*sides, Choices(aspects=frozenset({"flops"})))
    assert listed(only_flops, "flops") == {("FLOPs", "sum(range(9))", 21)}


def test_changed_flops_are_reported_if_times_do_not_differ() -> None:
    difference = differ(measuring(3e-6, flops=1_000_000), measuring(3e-6, flops=1_500_000))
    [entry] = entries(difference, "flops")
    assert difference.matters and entry.finding.subject == Subject("measured", 0, "flops") and entry.a == "1 MFLOP"


# --- edits and longer loops -----------------------------------------------------------------------

EDITED = LECTURE.replace("range(20)", "range(30)")


def counted(source: str, rounds: int) -> Trace:
    """Return a trace whose values, FLOPs and bytes after the loop depend on its number of rounds."""

    def fields(code: str) -> dict[str, Any]:
        if code == "done = [total]":
            values = ints(total=rounds * (rounds + 1), done=3 * rounds)
            return {"values": values, "meters": Meters(10 * rounds, 8, 8, 100 * rounds, 200 * rounds)}
        return {"meters": Meters(10 * rounds, 8, 8, 1, 1)} if code == "second()" else {}

    return observed(source, fields)


def test_edited_loop_is_listed_before_its_consequences() -> None:
    difference = compared(counted(LECTURE, 20), counted(EDITED, 30))
    [lead] = leads(difference)
    assert (lead.word, lead.line) == ("edited", 10)
    assert (lead.a, lead.b) == ("for i in range(20):", "for i in range(30):")
    assert lead.detail == "executions 21 → 31" and lead.follows >= 4
    assert difference.matters and headline(difference).startswith("Differences that matter: 1 edited statement")
    consequences = [e for aspect in ("values", "memory", "flops") for e in entries(difference, aspect)]  # type: ignore[arg-type]
    assert {e.after_lines for e in consequences} == {(10,)}  # and all of them are listed
    assert {e.name for e in consequences} >= {"total", "done", "live tensor bytes", "FLOPs"}
    text = terminal_of(difference)
    assert text.index("for i in range(30):") < text.index("total changed")
    for report in (" ".join(text.split()), markdown_of(difference), html_of(difference)):
        assert report.index("Possible causes of other differences") < report.index("may follow from line 10")


def test_longer_loop_is_reported_once_and_before_what_may_follow() -> None:
    listed = entries(compared(traced(LECTURE), traced(LECTURE.replace("range(20)", "range(25)"))), "steps")
    assert [(e.name, e.a, e.b, e.line) for e in listed] == [("executions", "21", "26", 10)]
    assert listed[0].follows >= 5
    text = "def main():\n    work()\ndef work():\n    for i in numbers:\n        a = i + 1\n    b = a * 2\nmain()\n"
    three, five = (with_steps(traced(f"numbers = range({n})\n{text}"), at(7, values=ints(b=2 * n))) for n in (3, 5))
    without_an_edit = compared(three, replace(five, source=three.source))
    [lead] = leads(without_an_edit)
    assert (lead.name, lead.a, lead.b, lead.line) == ("executions", "4", "6", 5)
    assert [(e.name, e.after_lines) for e in entries(without_an_edit, "values")] == [("b", (5,))]


CONSTANT, OPTIONAL = "SIZE = 1\n" + LECTURE, LECTURE.replace("def second():", "def second(n=1):")


@pytest.mark.parametrize(
    ("source", "edits", "after_lines"),
    [
        (LECTURE, [("total = 0", "total = 1"), ("total += work(i)", "total += work(i) + 1")], (9, 11)),
        (LECTURE, [("    second()", "    first()\n    second()")], ()),  # another section
        (CONSTANT, [("SIZE = 1", "SIZE = 2")], (1,)),
        (OPTIONAL, [("    second()\n", "    second(2)\n")], (3,)),
    ],
)
def test_edits_before_a_difference_may_explain_it(
    source: str, edits: list[tuple[str, str]], after_lines: tuple[int, ...]
) -> None:
    edited = source
    for edit in edits:
        edited = edited.replace(*edit)
    difference = compared(valued(source, 1), valued(edited, 2))
    assert [e.after_lines for e in entries(difference, "values")] == [after_lines]
    assert tuple(lead.line for lead in leads(difference)) == after_lines
    lines = " or ".join(map(str, after_lines))
    assert (f"may follow from line {lines}" in " ".join(terminal_of(difference).split())) == bool(after_lines)


def test_edit_explains_no_earlier_or_unrelated_differences() -> None:
    def two_values(source: str, n: int) -> Trace:
        names = {"y = x + 1": "y", "for i in range(20):": "total"}
        return observed(source, lambda code: {"values": ints(**{names[code]: n})} if code in names else {})

    edited = LECTURE.replace("done = [total]", "done = [total, 1]")
    difference = compared(two_values(LECTURE, 1), two_values(edited, 5))
    assert [(e.name, e.after_lines) for e in entries(difference, "values")] == [("y", ()), ("total", ())]
    assert leads(difference) == [] and difference.matters
    harmless = compared(traced(LECTURE), traced(LECTURE.replace("y = x + 1", "y = 1 + x")))
    assert leads(harmless) == [] and not harmless.matters


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


@pytest.mark.parametrize(
    "edit",
    [
        ("import ask, text", "import ask, note, text"),
        ("A sentence.", "Another sentence."),
        ('    text("A sentence.")\n', ""),
        ("    n = 3\n", '    text("More.")\n    n = 3\n'),
        ("Words.", "Other words."),
        ("text(words)", "text(words + '!')"),
        ("2 + 2?", "How much is 2 + 2?"),
        ('"two"]', '"two", "three"]'),
    ],
)
def test_prose_is_never_a_cause_nor_a_difference(edit: tuple[str, str]) -> None:
    edited = PROSE.replace(*edit)
    assert edited != PROSE
    difference = compared(valued(PROSE, 4, "y =", "y"), valued(edited, 5, "y =", "y"))
    assert leads(difference) == []
    assert [(f.aspect, f.subject.expression) for row in difference.rows for f in row.findings if f.matters] == [
        ("values", "y")
    ]
    assert [(e.name, e.after_lines) for e in entries(difference, "values")] == [("y", ())]
    caused = compared(valued(PROSE, 4, "y =", "y"), valued(edited.replace("n = 3", "n = 4"), 5, "y =", "y"))
    assert [lead.word for lead in leads(caused)] == ["edited"]
