"""Differences for tests of the reports: with planted changes, with hostile text, of two kinds of devices."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

from rich.console import Console

from tests.pages.hostile import PWNED, hostile_trace
from tests.pages.recording import Recording, matrix
from tests.pretend_gpu import pretend_gpu
from trace_tools.diff.difference import Difference, Side
from trace_tools.diff.judge.between import difference_between
from trace_tools.diff.report.difference_report import report_of
from trace_tools.presentation.report import html, markdown, terminal
from trace_tools.trace.model import Claim, Machine, Meters, Peak, Step, Trace, Value

LECTURE = '''\
"""A lecture"""


def main():
    first()
    second()


def first():
    """Tensors and their strides"""
    x = make()  # @inspect x
    y = x.t()  # @inspect y.stride()
    assert y.shape == (2, 3)
    total = 7  # @inspect total [FLOP]


def make():
    return torch.ones(3, 2)


def second():
    """A loop"""
    for i in range(40):
        z = i * 2  # @inspect z
'''
PEAKS = [Peak("float32", 1e11, "a datasheet"), Peak("memory", 1e10, "a datasheet")]


def recorded(**changes: Any) -> Trace:
    """Return a trace of the lecture; `changes` are strides, held, peak, z, text or machine."""
    recording = Recording(changes.get("text", LECTURE))
    main = recording.frame("main", recording.step(recording.frame("<module>"), "def main"))
    first = recording.frame("first", recording.step(main, "first()", host_ns=[10**7] * 3))
    meters = Meters(flops=600, bytes_read=48, bytes_written=24, live_bytes=4_096, peak_bytes=changes.get("peak", 8_192))
    ns, made = [10**6, 10**6 + 900, 10**6 + 500], Meters(live_bytes=24, peak_bytes=24)
    call = recording.step(first, "x = ", annotated=True, host_ns=ns, values=[("x", matrix(3, 2))], meters=meters)
    recording.step(recording.frame("make", call), "return", host_ns=[2_000, 2_010, 2_020], meters=made)
    strides = Value("str", changes.get("strides", "(1, 2)"))
    recording.step(first, "y = ", annotated=True, host_ns=[3_000, 3_010, 3_020], values=[("y.stride()", strides)])
    sides = [(side, Value("str", "[2, 3]")) for side in ("y.shape", "(2, 3)")]
    recording.step(first, "assert", claim=Claim("y.shape == (2, 3)", changes.get("held", True), sides))
    recording.step(first, "total", annotated=True, values=[("total", Value("int", 7, unit="FLOP"))])
    second = recording.frame("second", recording.step(main, "second()", host_ns=[10**6] * 3))
    for i in range(40):
        recording.step(second, "z = ", annotated=True, values=[("z", Value("int", changes.get("z", {}).get(i, 2 * i)))])
    return recording.trace(machine=changes.get("machine", Machine("A processor", "cpu", "cpu", peaks=PEAKS)))


def between(a: Trace, b: Trace) -> Difference:
    return difference_between(Side("a.yaml", a), Side("b.yaml", b))


def planted() -> Difference:
    """Return a difference with a flipped claim, two changed values, and a higher peak memory."""
    return between(recorded(), recorded(strides="(3, 1)", held=False, peak=3 * 8_192, z={20: -1}))


def cpu_and_gpu() -> Difference:
    return between(recorded(), pretend_gpu(recorded()))


def hostile() -> Difference:
    """Return the difference of two traces in which every text attempts an injection and every value differs."""
    trace = hostile_trace()
    other = replace(
        trace,
        title=PWNED + "2",
        machine=replace(trace.machine, slug=PWNED, name=PWNED + "2"),
        steps=[_altered(event) for event in trace.steps],
    )
    return difference_between(Side(PWNED, trace), Side(PWNED + "2", other))


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
