"""Rounds of two lectures and what they showed → a report: the difference, led by how it was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from typing import Any

from trace_tools import formats
from trace_tools.benching.rounds import BenchResult

WIDTH = 120  # of a terminal report


def summary(benched: BenchResult) -> list[str]:
    """Return what is said before the difference: how it was measured, what could be found, and the slow functions."""
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


def report_of(benched: BenchResult, style: str) -> str:
    difference = benched.judged.difference
    if style == "json":
        from trace_tools.comparing.reports.report_json import plain_difference

        plain = {**plain_difference(difference), "bench": _plain(benched)}
        return json.dumps(plain, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    if style == "terminal":
        from rich.console import Console

        from trace_tools.comparing.reports.terminal import print_report

        text = StringIO()
        print_report(difference, Console(file=text, width=WIDTH, highlight=False))
        return "".join(f"{line}\n" for line in summary(benched)) + text.getvalue()
    noted = replace(difference, notes=(*summary(benched), *difference.notes))
    if style == "md":
        from trace_tools.comparing.reports.report_markdown import difference_markdown

        return difference_markdown(noted)
    from trace_tools.comparing.reports.report_html import difference_html

    return difference_html(noted)


def _plain(benched: BenchResult) -> dict[str, Any]:
    """Return what a script may want besides the difference; ratios are B / A."""
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
