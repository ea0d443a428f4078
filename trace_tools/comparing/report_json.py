"""A Difference → JSON for scripts.

    {
      "format": "trace_tools difference", "version": 1,
      "matters": true,                          whether anything differs that matters (exit code 1)
      "a": {"name", "title", "machine", "device", "started", "passes", "complete"}, "b": the same of B,
      "same_machine": true, "same_source": false,
      "settings": [{"group": "setting|version|machine|source", "name", "a", "b"}],
      "functions": [{"a", "b", "how": "edited|renamed|moved|only in A|only in B", "similarity",
                     "variables": {"old": "new"}}],
      "notes": ["…"], "left_out": ["…"],
      "counts": [{"aspect", "verdict", "count"}],         "same" included
      "tolerances": [{"dtype", "relative", "absolute"}],
      "times": {"judged", "different", "statements", "not_judged": {why: count}, "a_processes", "b_processes",
                "noise", "drift", "detectable", "passes_for_20_percent"},
      "findings": [{
          "aspect": "claims|values|time|memory|flops|steps|output", "verdict", "matters",
          "row", "function", "path", "line", "execution", "a_step", "b_step",   null where a side has none
          "name", "a", "b", "detail",                     text, as the reports show it
          "size",                                         relative difference, bytes or FLOPs; null: no number
          "cause",                                        the row that explains this one, or null
          of times: "clock", "a_ns", "b_ns", "ratio", "a_share", "b_share", "roof", "why",
                    and of all "executions" of its statement that were judged together:
                    "overall", "interval": [low, high], "p", "adjusted_p", "detectable"
      }]
    }

Findings stand in the lecture's order; what is the same is only counted. Numbers are finite or null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from trace_tools.comparing.difference import Difference, Row, Side, TimeFinding

FORMAT, VERSION = "trace_tools difference", 1


def difference_json(difference: Difference) -> str:
    """Return the difference as JSON text; the same difference gives the same text."""
    return json.dumps(plain_difference(difference), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def plain_difference(difference: Difference) -> dict[str, Any]:
    """Return the difference as plain data, as this module's docstring lays it out."""
    times = difference.times
    return {
        "format": FORMAT,
        "version": VERSION,
        "matters": difference.matters,
        "a": _side(difference.a),
        "b": _side(difference.b),
        "same_machine": difference.same_machine,
        "same_source": difference.same_source,
        "settings": [{"group": s.group, "name": s.name, "a": s.a, "b": s.b} for s in difference.settings],
        "functions": [
            {"a": f.a, "b": f.b, "how": f.how, "similarity": f.similarity, "variables": dict(f.variables)}
            for f in difference.functions
        ],
        "notes": list(difference.notes),
        "left_out": list(difference.ignored),
        "counts": [{"aspect": a, "verdict": v, "count": n} for a, v, n in difference.counts],
        "tolerances": [
            {"dtype": t.dtype, "relative": t.relative, "absolute": t.absolute} for t in difference.tolerances
        ],
        "times": {
            "judged": times.judged,
            "different": times.different,
            "statements": times.statements,
            "not_judged": dict(times.not_judged),
            "a_processes": times.a_processes,
            "b_processes": times.b_processes,
            "noise": _finite(times.noise),
            "drift": _finite(times.drift),
            "detectable": _finite(times.detectable),
            "passes_for_20_percent": times.passes_for_20_percent,
        },
        "findings": list(_findings(difference)),
    }


def _side(side: Side) -> dict[str, Any]:
    trace = side.trace
    return {
        "name": side.name,
        "title": trace.title,
        "machine": trace.machine.name,
        "device": trace.machine.device,
        "started": trace.run.started,
        "passes": trace.run.passes,
        "complete": trace.run.complete,
    }


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _findings(difference: Difference) -> Iterator[dict[str, Any]]:
    for row in difference.rows:
        if not row.findings and row.time is None:
            continue
        place = _place(difference, row)
        for f in row.findings:
            found = {"aspect": f.aspect, "verdict": f.verdict, "matters": f.matters, **place}
            texts = {"name": f.name, "a": f.a, "b": f.b, "detail": f.detail}
            yield {**found, **texts, "size": _finite(f.size), "cause": f.cause}
        if row.time is not None:
            yield _time(row.time, place)


def _place(difference: Difference, row: Row) -> dict[str, Any]:
    pair = difference.frames[row.frame]
    side, frame = (difference.a, pair.a) if row.b is None else (difference.b, pair.b)
    return {
        "row": row.number,
        "function": difference.function_of(row),
        "path": side.trace.sources[frame.source].path if frame else None,
        "line": row.step.line,
        "execution": row.step.execution,
        "a_step": None if row.a is None else row.a.id,
        "b_step": None if row.b is None else row.b.id,
    }


def _time(time: TimeFinding, place: dict[str, Any]) -> dict[str, Any]:
    return {
        "aspect": "time",
        "verdict": time.verdict,
        "matters": time.matters,
        **place,
        "name": "time",
        "clock": time.clock,
        "a_ns": time.a_ns,
        "b_ns": time.b_ns,
        "ratio": _finite(time.ratio),
        "executions": time.executions,
        "overall": _finite(time.overall),
        "interval": None if time.interval is None else [_finite(end) for end in time.interval],
        "p": time.p,
        "adjusted_p": time.adjusted_p,
        "detectable": _finite(time.detectable),
        "a_share": time.a_share,
        "b_share": time.b_share,
        "roof": time.roof,
        "why": time.why,
        "cause": time.cause,
    }
