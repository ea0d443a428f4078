"""Differences for tests of the reports: with planted changes, with hostile text, of two kinds of devices."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

from rich.console import Console

from tests.diff.planted import CPU, at, differ, ints, made, tensor, with_steps
from tests.pages.hostile import PWNED, hostile_trace
from tests.pretend_gpu import pretend_gpu
from trace_tools.diff.difference import Difference, Side
from trace_tools.diff.judge.between import difference_between
from trace_tools.diff.report.difference_report import report_of
from trace_tools.presentation.report import html, markdown, terminal
from trace_tools.trace.model import Claim, Meters, Peak, Step, Trace, Value

PEAKS = [Peak("float32", 1e11, "a datasheet"), Peak("memory", 1e10, "a datasheet")]


def recorded(**changes: Any) -> Trace:
    """Return a trace whose annotated step takes long enough for a rate; `changes` are fields of its machine."""
    long = at(6, host_ns=[10**6, 10**6 + 900, 10**6 + 500], meters=Meters(600, 48, 24, 4_096, 8_192))
    return with_steps(made(0, machine=replace(CPU, **({"peaks": PEAKS} | changes))), long)


def planted() -> Difference:
    """Return a difference with a flipped claim, two changed values, and a higher peak memory."""
    a = with_steps(recorded(), at(11, annotated=True, values=ints(total=7)))
    b = with_steps(a, at(7, claim=Claim("y == 2", False)))
    b = with_steps(b, at(11, annotated=True, values=ints(total=8)))
    meters, values = Meters(600, 48, 24, 4_096, 3 * 8_192), [("y", tensor(strides=[1, 2], contiguous=False))]
    return differ(a, with_steps(b, at(6, meters=meters, values=values)))


def cpu_and_gpu() -> Difference:
    return differ(recorded(), pretend_gpu(recorded()))


def hostile() -> Difference:
    """Return the difference of two traces in which every text attempts an injection and every value differs."""
    trace = hostile_trace()
    other = replace(
        trace,
        title=PWNED + "2",
        machine=replace(trace.machine, name=PWNED + "2"),
        steps=[_altered(event) for event in trace.steps],
    )
    return difference_between(Side(PWNED, trace, PWNED), Side(PWNED + "2", other, PWNED + "2"))


def _altered(event: Any) -> Any:
    if not isinstance(event, Step):
        return event
    values = [(name, Value("str", f"{PWNED}{n}")) for n, (name, _) in enumerate(event.values or [])]
    claim = None if event.claim is None else replace(event.claim, held=not event.claim.held)
    return replace(event, values=values or None, claim=claim, stdout=PWNED, warnings=[PWNED])


def markdown_of(difference: Difference) -> str:
    return markdown(report_of(difference, "md"))


def html_of(difference: Difference) -> str:
    return html(report_of(difference, "html"))


def terminal_of(difference: Difference, width: int = 110, *, everything: bool = False) -> str:
    text = StringIO()
    Console(file=text, width=width).print(terminal(report_of(difference, "terminal", everything=everything)))
    return text.getvalue()
