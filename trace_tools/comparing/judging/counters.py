"""FLOPs, bytes moved, live and peak memory of one execution on both sides → findings.

Counts agree exactly where device type, torch version and operators are the same; where they don't, the
operators that differ are named. Tensor bytes are exact too. What the caching allocator holds is not: it
rounds each tensor up to 512 bytes, and a large one may take up to 1 MiB more of the block it is put in
(`c10/cuda/CUDACachingAllocator.cpp`: kMinBlockSize, kSmallSize).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trace_tools import formats
from trace_tools.comparing.difference import Aspect, Finding, Subject, Verdict
from trace_tools.schema import Measured, Meters, Step

ROUNDED_BYTES = 2**20  # that a block may be larger than what was asked for
NAMED = 4  # operators in one detail

_ASPECTS: dict[str, Aspect] = {
    "flops": "flops",
    "bytes_read": "flops",
    "bytes_written": "flops",
    "live_bytes": "memory",
    "peak_bytes": "memory",
}


def counter_findings(a: Step, b: Step, *, exact: bool) -> Iterator[Finding]:
    """Yield what the counters of two matched steps say, "same" included; `exact`: all counts have to agree."""
    if a.meters is not None and b.meters is not None:
        operators = _operators(a.meters, b.meters)
        yield from _counted(a.meters, b.meters, Subject("counter"), operators, exact=exact)
        if operators and a.meters.flops == b.meters.flops:
            subject = Subject("counter", expression="operators")
            yield Finding("flops", "changed", subject, detail=operators, matters=exact)
    if a.allocated_bytes is not None and b.allocated_bytes is not None:
        yield _allocated(a, b)
    if len(a.measured or ()) == len(b.measured or ()):  # what one call of a function that was measured did
        for place, calls in enumerate(zip(a.measured or (), b.measured or (), strict=True)):
            yield from _counted(*calls, Subject("measured", place), None, exact=exact)


def _counted(
    a: Meters | Measured, b: Meters | Measured, of: Subject, operators: str | None, *, exact: bool
) -> Iterator[Finding]:
    """Compare counts field by field; the operators explain all of them, and are named with the first."""
    unlike = set(getattr(a, "uncounted", None) or ()) ^ set(getattr(b, "uncounted", None) or ())
    for field, aspect in _ASPECTS.items():
        subject = Subject(of.kind, of.index, field)
        x, y = getattr(a, field, None), getattr(b, field, None)
        if x is None and y is None:
            continue
        if x is None or y is None:
            yield Finding(aspect, "not judged", subject, x, y, _no_figure(a, b, x))
        elif x == y:
            yield Finding(aspect, "same", subject)
        elif field == "flops" and unlike:
            shown = ", ".join(formats.one_line(name, 60) for name in sorted(unlike)[:NAMED])
            detail = f"operators without a FLOP formula on one side only: {shown}"
            yield Finding(aspect, "not judged", subject, x, y, detail)
        else:
            detail = _by(x, y, "FLOP" if field == "flops" else "B")
            if aspect == "flops" and operators:
                detail, operators = f"{detail}: {operators}", None
            matters = exact or field == "flops" or aspect == "memory"
            yield Finding(aspect, "changed", subject, x, y, detail, matters, abs(y - x))


def _no_figure(a: Meters | Measured, b: Meters | Measured, in_a: int | None) -> str:
    why = formats.one_line((a if in_a is None else b).why or "not counted", 80)
    return f"no figure in {'A' if in_a is None else 'B'}: {why}"


def _by(x: int, y: int, unit: str) -> str:
    share = f" ({formats.percent(abs(y - x) / x)})" if x and abs(y - x) < 100 * x else ""
    return f"{'+' if y > x else '−'}{formats.quantity(abs(y - x), unit)}{share}"


def _operators(a: Meters, b: Meters) -> str | None:
    """Name the operators that one side called more often, those that differ most first."""
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
        verdict, detail = "rounding", f"{detail}: the allocator's, for the same tensors"
    elif tensors == 0:
        detail += ", with the same tensors alive: workspaces, or blocks that don't fit"
    size = float(abs(y - x)) if verdict == "changed" else 0.0
    return Finding("memory", verdict, subject, x, y, detail, verdict == "changed", size)
