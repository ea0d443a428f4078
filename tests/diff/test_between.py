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
from trace_tools.diff.difference import Aspect
from trace_tools.diff.report.difference_report import headline
from trace_tools.diff.report.entries import ORDER, entries
from trace_tools.errors import UsageError
from trace_tools.trace.model import Claim, Frame, Meters, Raised, Step


def test_equal_traces_and_runs_with_the_same_noise_do_not_differ() -> None:
    for trace in (made(0), example_trace()):
        difference = differ(trace, trace)
        assert not difference.matters and headline(difference) == "No differences"
    difference = differ(made(0), made(1))
    assert not difference.matters and difference.times.judged > 60 and difference.times.different == 0


@pytest.mark.parametrize(
    ("change", "aspect", "name", "line"),
    [
        (at(6, values=[("y", tensor(elements=[1.0, 2.0, 3.5, 4.0]))]), "values", "y", 6),
        (at(6, values=[("y", tensor(strides=[1, 2], contiguous=False))]), "values", "y", 6),
        (at(6, values=[("y", tensor(elements=[1.0, math.nan, 3.0, 4.0]))]), "values", "y", 6),
        (at(6, values=[("y", tensor(dtype="bfloat16"))]), "values", "y", 6),
        (at(7, meters=Meters(0, 16, 0, 1_049_600, 1_049_600)), "memory", "live tensor bytes", 7),
        (at(6, meters=Meters(16, 16, 16, 1024, 2048)), "flops", "FLOPs", 6),
        (at(7, claim=Claim("y == 2", False, failed_runs=["pass 1, warm"])), "claims", "y == 2", 7),
        (at(12, raised=Raised("ValueError", "no")), "steps", "raised", 12),
        (slower(1.2), "time", "× slower", SLOW_LINE),
    ],
)
def test_planted_change_is_the_only_one_listed(
    change: Callable[[Step], Step], aspect: Aspect, name: str, line: int
) -> None:
    difference = differ(made(0), with_steps(made(aspect == "time"), change))
    listed = {asked: entries(difference, asked) for asked in ORDER}
    first = listed.pop(aspect)[0]
    assert difference.matters and not any(listed.values())
    assert (first.finding.aspect, first.line) == (aspect, line)
    assert first.name.endswith(name) and (aspect == "time" or first.name == name)


def test_traces_limited_to_one_section_are_compared() -> None:
    a, b = traced("x = 1\ny = 2\nz = 3\n"), traced("x = 1\nz = 3\n")
    sections_only = [replace(t, run=replace(t.run, only="first", complete=False)) for t in (a, b)]
    assert differ(*sections_only).matters
    assert not differ(a, sections_only[1]).matters


def test_unrelated_lectures_and_traces_without_steps_are_refused() -> None:
    with pytest.raises(UsageError, match=r"different lectures"):
        differ(made(0), traced("import math\nfor k in range(99):\n    q = math.sin(k)\n"))
    with pytest.raises(UsageError, match=r"b\.yaml: has no steps"):
        differ(made(0), replace(made(0), steps=[]))


def test_partial_trace_is_compared_up_to_its_end() -> None:
    a = made(0)
    calls = [n for n, event in enumerate(a.steps) if isinstance(event, Frame) and n > 3]
    for end in (12, *calls[:4], calls[3] + 1, calls[-1]):  # also before a call, whose steps A alone has
        cut = replace(a, steps=a.steps[:end], run=replace(a.run, complete=False, ended="killed by SIGKILL"))
        difference = differ(a, cut)
        assert not difference.matters and entries(difference, "steps") == [], end
        assert any(says(f.detail, "B", "partial", "ended before") for _, f in difference.findings("steps"))
    assert "B is partial: killed by SIGKILL" in terminal_of(difference)
