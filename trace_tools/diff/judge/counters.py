"""Compare FLOPs, bytes moved, live and peak memory of one execution.

Counts must agree exactly if device type, torch version and operators are the same; otherwise the differing operators
are named. Tensor bytes are exact as well. The caching allocator's bytes are not exact, because it rounds each tensor up
to 512 bytes, and a large tensor may take up to 1 MiB more of its block (`c10/cuda/CUDACachingAllocator.cpp`:
kMinBlockSize, kSmallSize).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trace_tools.analysis.rates import not_counted
from trace_tools.diff.difference import Aspect, Finding, Subject, Verdict
from trace_tools.trace.model import Counts, Meters, Step
from trace_tools.util import formats

ROUNDED_BYTES = 2**20  # largest excess of a block over the request
NAMED = 4  # most operators in one detail

_ASPECTS: dict[str, Aspect] = {
    "flops": "flops",
    "bytes_read": "flops",
    "bytes_written": "flops",
    "live_bytes": "memory",
    "peak_bytes": "memory",
}


def counter_findings(a: Step, b: Step, *, exact: bool) -> Iterator[Finding]:
    """Yield the findings on the counters of two matched steps, including "same"; `exact`: all counts must agree."""
    if a.meters is not None and b.meters is not None:
        operators = _operators(a.meters, b.meters)
        yield from _counted(a.meters, b.meters, Subject("counter"), operators, exact=exact)
        if operators and a.meters.flops == b.meters.flops:
            subject = Subject("counter", expression="operators")
            yield Finding("flops", "changed", subject, detail=operators, matters=exact)
    if a.allocated_bytes is not None and b.allocated_bytes is not None:
        yield _allocated(a, b)
    if len(a.measured or ()) == len(b.measured or ()):  # counts of one call of each measured function
        for index, calls in enumerate(zip(a.measured or (), b.measured or (), strict=True)):
            yield from _counted(*calls, Subject("measured", index), None, exact=exact)


def _counted(a: Counts, b: Counts, of: Subject, operators: str | None, *, exact: bool) -> Iterator[Finding]:
    """Compare counts field by field; the operators explain all of them and are named with the first."""
    unlike = set(a.uncounted or ()) ^ set(b.uncounted or ())
    for field, aspect in _ASPECTS.items():
        subject = Subject(of.kind, of.index, field)
        x, y = getattr(a, field, None), getattr(b, field, None)
        if x is None and y is None:
            continue
        if x is None or y is None:
            why = formats.one_line((a if x is None else b).why or "not counted", 80)
            yield Finding(aspect, "not judged", subject, x, y, f"no figure in {'A' if x is None else 'B'}: {why}")
        elif x == y:
            yield Finding(aspect, "same", subject)
        elif field == "flops" and unlike:
            shown = ", ".join(formats.one_line(name, 60) for name in sorted(unlike)[:NAMED])
            detail = f"operators without a FLOP formula on one side only: {shown}"
            yield Finding(aspect, "not judged", subject, x, y, detail)
        else:
            detail = _by(x, y, "FLOP" if field == "flops" else "B")
            if field == "flops" and (missing := not_counted(a, NAMED)):
                detail = f"{detail}, at least ({missing})"
            if aspect == "flops" and operators:
                detail, operators = f"{detail}: {operators}", None
            matters = exact or field == "flops" or aspect == "memory"
            yield Finding(aspect, "changed", subject, x, y, detail, matters, abs(y - x))


def _by(x: int, y: int, unit: str) -> str:
    share = f" ({formats.percent(abs(y - x) / x)})" if x and abs(y - x) < 100 * x else ""
    return f"{'+' if y > x else '−'}{formats.quantity(abs(y - x), unit)}{share}"


def _operators(a: Meters, b: Meters) -> str | None:
    """Name the operators that one side called more often, the largest differences first."""
    if a.operators is None or b.operators is None:
        return None
    in_a, in_b = Counter[str](), Counter[str]()
    for totals, calls in ((in_a, a.operators), (in_b, b.operators)):
        for name, count in calls:
            totals[name] += count
    differing = [name for name in {**in_a, **in_b} if in_a[name] != in_b[name]]
    differing.sort(key=lambda name: (-abs(in_b[name] - in_a[name]), name))
    parts = [f"{formats.one_line(n, 60)} × {in_a[n]} → {in_b[n]}" for n in differing[:NAMED]]
    more = [f"and {len(differing) - NAMED} more"] if len(differing) > NAMED else []
    return ", ".join([*parts, *more]) or None


def _allocated(a: Step, b: Step) -> Finding:
    x, y = a.allocated_bytes or 0, b.allocated_bytes or 0
    subject = Subject("counter", expression="allocated_bytes")
    if x == y:
        return Finding("memory", "same", subject)
    live_a, live_b = (None if step.meters is None else step.meters.live_bytes for step in (a, b))
    tensors = None if live_a is None or live_b is None else live_b - live_a
    rest = abs(y - x - (tensors or 0))
    verdict: Verdict = "changed"
    detail = _by(x, y, "B")
    if rest < ROUNDED_BYTES and (tensors == 0 or (tensors is None and abs(y - x) <= 512)):
        verdict, detail = "rounding", f"{detail}; the allocator rounded the same tensors differently"
    elif tensors == 0:
        detail += ", with the same tensors alive: workspaces, or blocks that don't fit"
    size = float(abs(y - x)) if verdict == "changed" else 0.0
    return Finding("memory", verdict, subject, x, y, detail, verdict == "changed", size)
