"""Differences between two traces: planted changes are listed, options apply, invalid input is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.diff.plain_tracing import traced
from tests.diff.planted import SLOW_LINE, at, differ, made, slower, tensor, with_steps
from tests.diff.report_cases import terminal_of
from tests.messages import says
from tests.traces import example_trace
from trace_tools.diff.difference import Aspect, Difference
from trace_tools.diff.judge.between import Choices
from trace_tools.diff.report.difference_report import headline
from trace_tools.diff.report.entries import ORDER, entries
from trace_tools.errors import UsageError
from trace_tools.trace.model import Claim, Meters, Raised, Step


def first_entry(difference: Difference) -> tuple[Aspect, str, int]:
    """Return the aspect, name and line of the first entry of the report."""
    first = next(listed[0] for aspect in ORDER if (listed := entries(difference, aspect)))
    return first.finding.aspect, first.name, first.line


def test_trace_does_not_differ_from_itself() -> None:
    for trace in (made(0), example_trace()):
        difference = differ(trace, trace)
        assert not difference.matters and headline(difference) == "No differences"


def test_two_runs_with_the_same_noise_do_not_differ() -> None:
    difference = differ(made(0), made(1))
    assert not difference.matters
    assert difference.times.judged > 60 and difference.times.different == 0


PLANTED: list[tuple[str, Callable[[Step], Step], tuple[Aspect, str, int]]] = [
    ("value", at(6, values=[("y", tensor(elements=[1.0, 2.0, 3.5, 4.0]))]), ("values", "y", 6)),
    ("stride", at(6, values=[("y", tensor(strides=[1, 2], contiguous=False))]), ("values", "y", 6)),
    ("nan", at(6, values=[("y", tensor(elements=[1.0, math.nan, 3.0, 4.0]))]), ("values", "y", 6)),
    ("dtype", at(6, values=[("y", tensor(dtype="bfloat16"))]), ("values", "y", 6)),
    ("memory", at(7, meters=Meters(0, 16, 0, 1_049_600, 1_049_600)), ("memory", "live tensor bytes", 7)),
    ("flops", at(6, meters=Meters(16, 16, 16, 1024, 2048)), ("flops", "FLOPs", 6)),
    ("claim", at(7, claim=Claim("y == 2", False, failed_runs=["pass 1, warm"])), ("claims", "y == 2", 7)),
    ("exception", at(12, raised=Raised("ValueError", "no")), ("steps", "raised", 12)),
    ("slowdown", slower(1.2), ("time", "1.2× slower", SLOW_LINE)),
]


@pytest.mark.parametrize(("name", "change", "expected"), PLANTED, ids=[name for name, _, _ in PLANTED])
def test_planted_change_is_the_only_one_listed(
    name: str, change: Callable[[Step], Step], expected: tuple[Aspect, str, int]
) -> None:
    a = made(0)
    difference = differ(a, with_steps(made(0) if name != "slowdown" else made(1), change))
    assert difference.matters
    aspect, entry_name, line = first_entry(difference)
    assert (aspect, line) == (expected[0], expected[2])
    if aspect != "time":
        assert entry_name == expected[1]
    assert all(not entries(difference, other) for other in ORDER if other != aspect)


def test_traces_limited_to_one_section_are_compared() -> None:
    a, b = traced("x = 1\ny = 2\nz = 3\n"), traced("x = 1\nz = 3\n")
    sections_only = [replace(t, run=replace(t.run, only="first", complete=False)) for t in (a, b)]
    assert differ(*sections_only).matters
    assert not differ(a, sections_only[1]).matters


def test_only_and_ignore_options_exclude_findings() -> None:
    b = with_steps(made(0), at(6, values=[("y", tensor(elements=[0.0] * 4))]))
    assert differ(made(0), b).matters
    assert not differ(made(0), b, Choices(aspects=frozenset({"time"}))).matters
    for pattern in ("y", "fir*"):
        difference = differ(made(0), b, Choices(ignored=(pattern,)))
        assert not difference.matters and pattern in difference.ignored


def test_unrelated_lectures_are_refused() -> None:
    a, b = made(0), traced("import math\nfor k in range(99):\n    q = math.sin(k)\n")
    with pytest.raises(UsageError, match=r"different lectures"):
        differ(a, b)


def test_a_trace_without_steps_is_refused() -> None:
    with pytest.raises(UsageError, match=r"b\.yaml: has no steps"):
        differ(made(0), replace(made(0), steps=[]))


def test_partial_trace_is_compared_up_to_its_end() -> None:
    a = made(0)
    cut = replace(a, steps=a.steps[:12], run=replace(a.run, complete=False, ended="killed by SIGKILL"))
    difference = differ(a, cut)
    assert not difference.matters
    assert "B is partial: killed by SIGKILL" in terminal_of(difference)
    assert any(says(f.detail, "B", "partial", "ended before") for _, f in difference.findings("steps"))
    for end in range(4, len(a.steps)):  # also before a call, whose steps A alone has
        listed = entries(differ(a, replace(cut, steps=a.steps[:end])), "steps")
        assert [e.finding.verdict for e in listed] == [], end
