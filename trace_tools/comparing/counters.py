"""FLOPs, bytes moved, live and peak memory of one execution on both sides → findings.

Counts agree exactly where device type, torch version and operators are the same; where they don't, the
operators that differ are named. Tensor bytes are exact too. What the caching allocator holds is not: it
rounds each tensor up to 512 bytes, and a large one may take up to 1 MiB more of the block it is put in
(`c10/cuda/CUDACachingAllocator.cpp`: kMinBlockSize, kSmallSize).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from trace_tools.comparing.difference import Aspect, Finding, Verdict
from trace_tools.rendering import formats
from trace_tools.schema import Meters, Step

ROUNDED_BYTES = 2**20  # that a block may be larger than what was asked for
NAMED = 4  # operators in one detail

_COUNTED: tuple[tuple[str, str, Aspect, str], ...] = (  # field, name, aspect, unit
    ("flops", "FLOPs", "flops", "FLOP"),
    ("bytes_read", "bytes read", "flops", "B"),
    ("bytes_written", "bytes written", "flops", "B"),
    ("live_bytes", "live tensor bytes", "memory", "B"),
    ("peak_bytes", "peak tensor bytes", "memory", "B"),
)


def counter_findings(a: Step, b: Step, *, exact: bool) -> Iterator[Finding]:
    """Yield what the counters of two matched steps say, "same" included."""
    if a.meters is not None and b.meters is not None:
        yield from _metered(a.meters, b.meters, exact=exact)
    if a.allocated_bytes is not None and b.allocated_bytes is not None:
        yield _allocated(a, b)


def _metered(a: Meters, b: Meters, *, exact: bool) -> Iterator[Finding]:
    operators = _operators(a, b)
    named = False  # what explains all counts is said with the first
    for field, name, aspect, unit in _COUNTED:
        x, y = getattr(a, field), getattr(b, field)
        if x is None and y is None:
            continue
        if x is None or y is None:
            why = formats.one_line((a if x is None else b).why or "not counted", 80)
            detail = f"no figure in {'A' if x is None else 'B'}: {why}"
            yield Finding(aspect, "not judged", name, _shown(x, unit), _shown(y, unit), detail)
        elif x == y:
            yield Finding(aspect, "same", name)
        elif field == "flops" and set(a.uncounted or ()) != set(b.uncounted or ()):
            yield Finding(aspect, "not judged", name, _shown(x, unit), _shown(y, unit), _uncounted(a, b), False, 0.0)
        else:
            matters = exact or field in ("flops", "live_bytes", "peak_bytes")
            detail = _by(x, y, unit)
            if aspect == "flops" and operators and not named:
                detail, named = f"{detail}: {operators}", True
            yield Finding(aspect, "changed", name, _shown(x, unit), _shown(y, unit), detail, matters, abs(y - x))
    if operators and a.flops == b.flops:
        yield Finding("flops", "changed", "operators", detail=operators, matters=exact)


def _shown(count: int | None, unit: str) -> str | None:
    return None if count is None else formats.quantity(count, unit)


def _by(x: int, y: int, unit: str) -> str:
    share = f" ({formats.percent(abs(y - x) / x)})" if x and abs(y - x) < 100 * x else ""
    return f"{'+' if y > x else '−'}{formats.quantity(abs(y - x), unit)}{share}"


def _operators(a: Meters, b: Meters) -> str | None:
    """Name the operators that one side called more often, those that differ most first."""
    if a.operators is None or b.operators is None:
        return None
    in_a, in_b = _totals(a.operators), _totals(b.operators)
    differing = [name for name in {**in_a, **in_b} if in_a.get(name, 0) != in_b.get(name, 0)]
    differing.sort(key=lambda name: (-abs(in_b.get(name, 0) - in_a.get(name, 0)), name))
    parts = [f"{formats.one_line(n, 60)} × {in_a.get(n, 0)} → {in_b.get(n, 0)}" for n in differing[:NAMED]]
    more = [f"and {len(differing) - NAMED} more"] if len(differing) > NAMED else []
    return ", ".join([*parts, *more]) or None


def _totals(operators: list[tuple[str, int]]) -> Mapping[str, int]:
    totals: dict[str, int] = {}
    for name, count in operators:
        totals[name] = totals.get(name, 0) + count
    return totals


def _uncounted(a: Meters, b: Meters) -> str:
    names = sorted(set(a.uncounted or ()) ^ set(b.uncounted or ()))
    shown = ", ".join(formats.one_line(name, 60) for name in names[:NAMED])
    return f"operators without a FLOP formula on one side only: {shown}"


def _allocated(a: Step, b: Step) -> Finding:
    x, y = a.allocated_bytes or 0, b.allocated_bytes or 0
    if x == y:
        return Finding("memory", "same", "allocated bytes")
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
    sides = formats.byte_size(x), formats.byte_size(y)
    return Finding("memory", verdict, "allocated bytes", *sides, detail, verdict == "changed", min(size, math.inf))
