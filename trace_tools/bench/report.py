"""Add the rounds and their results to the report of a difference, in words and as data."""

from __future__ import annotations

from typing import Any

from trace_tools.bench.rounds import BenchResult
from trace_tools.util import formats


def summary(benched: BenchResult) -> list[str]:
    """Return the introduction of the report: how it was measured, what could be detected, and the slow functions."""
    judged = benched.judged
    text = f"{formats.plural(benched.rounds, 'round')} of A and B in turn, {benched.seconds:.0f} s: {benched.ended}"
    if judged.would_find is None or judged.noise is None:
        return [f"{text}; TIME NOT JUDGED: {judged.difference.time_not_judged}", *benched.dropped]
    text += f"; noise {formats.percent(judged.noise)}; would have found {formats.ratio(judged.would_find)}× in half of "
    text += "what takes 5% of the run or more"
    lines = [text]
    for f in judged.functions:
        low, high = f.interval
        change = f"× {formats.ratio(f.ratio)} ({formats.ratio(low)} to {formats.ratio(high)})"
        times = f"{formats.duration(f.a_ns)} → {formats.duration(f.b_ns)}"
        missed = "" if f.verdict in ("slower", "faster") else f"; would have found {formats.ratio(f.would_find)}×"
        lines.append(f"{formats.one_line(f.function, 60)}: {times}, {change}, {f.verdict}{missed}")
    return [*lines, *benched.dropped]


def plain_rounds(benched: BenchResult) -> dict[str, Any]:
    """Return the rounds as data for scripts; ratios are B / A."""
    judged = benched.judged
    return {
        "rounds": benched.rounds,
        "seconds": round(benched.seconds, 3),
        "ended": benched.ended,
        "dropped": list(benched.dropped),
        "noise": judged.noise,
        "would_find": judged.would_find,
        "functions": [
            {
                "function": f.function,
                "a_ns": f.a_ns,
                "b_ns": f.b_ns,
                "ratio": f.ratio,
                "interval": list(f.interval),
                "verdict": f.verdict,
                "would_find": f.would_find,
            }
            for f in judged.functions
        ],
    }
