"""Write a Difference as JSON for scripts.

    {
      "format": "trace_tools difference", "version": 2,
      "matters": true,                          whether any difference matters (exit code 1)
      "a": {"name", "title", "machine", "device", "started", "passes", "complete"}, "b": the same for B,
      "same_machine": true, "same_source": false,
      "time_not_judged": "why", or null         if times were requested but could not be judged (exit code 3, if not 1)
      "settings": [{"group": "setting|version|machine|source", "name", "a", "b",
                    "repeated": ["position that repeats it"]}],
      "functions": [{"a", "b", "how": "edited|renamed|moved|only in A|only in B", "similarity",
                     "variables": {"old": "new"}}],
      "notes": ["…"], "left_out": ["…"],
      "counts": [{"aspect", "verdict", "count"}],         "same" included
      "tolerances": [{"dtype", "relative", "absolute"}],
      "times": {"judged", "different", "statements", "not_judged": {why: count}, "a_processes", "b_processes",
                "noise", "drift", "detectable", "passes_for_20_percent"},
      "findings": [{
          "aspect": "claims|values|time|memory|flops|steps|output",
          "verdict": "same|noise|changed|only in A|only in B|not judged|ratio", "matters",
          "row", "function", "path", "line", "execution", "a_step", "b_step",   null if a side lacks it
          "subject": {
              "kind": "value|argument|claim|side|counter|measured|executions|step|raised|printed|warnings|told|time|
                       launch",
              "index",                                    its index within its kind in the step
              "expression", "function"},                  in full, as in the source; the function of an argument
          "name", "a", "b", "detail",                     text, as the reports show it
          "size",                                         relative difference, bytes or FLOPs; null: no number
          "cause",                                        the row with the same difference, or null
          "origin",                                       the row of an edit or a loop it may follow from, or null
          "setting",                                      the name of the setting that it repeats, or null
          of times: "a_ns", "b_ns", "ratio", "clock", "a_share", "b_share", "roof",
                    and of all "executions" of its statement that were judged together:
                    "overall", "interval": [low, high], "p", "adjusted_p", "detectable"
      }]
    }

Findings are in the lecture's order, one per line; equal observations are only counted. Numbers are finite or null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from trace_tools.diff.difference import Difference, Finding, Side
from trace_tools.diff.report.difference_report import repeated
from trace_tools.diff.wording import setting_sides, sides_text, subject_text

FORMAT, VERSION = "trace_tools difference", 2


def difference_json(difference: Difference, **more: Any) -> str:
    """Return the difference as JSON text, with `more` fields at its end; the same difference gives the same text."""
    times = difference.times
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "matters": difference.matters,
        "a": _side(difference.a),
        "b": _side(difference.b),
        "same_machine": difference.same_machine,
        "same_source": difference.matching.same,
        "time_not_judged": difference.time_not_judged,
        "settings": [
            {"group": s.group, "name": s.name, **dict(zip("ab", setting_sides(s), strict=True)), "repeated": positions}
            for s, positions in zip(difference.settings, repeated(difference), strict=True)
        ],
        "functions": [{**asdict(f), "variables": dict(f.variables)} for f in difference.matching.functions],
        "notes": list(difference.notes),
        "left_out": list(difference.ignored),
        "counts": [{"aspect": a, "verdict": v, "count": n} for a, v, n in difference.counts],
        "tolerances": [asdict(tolerance) for tolerance in difference.tolerances],
        "times": {
            **_fields(times, "judged", "different", "statements"),
            "not_judged": dict(times.not_judged),
            **_fields(times, "a_processes", "b_processes", "noise", "drift", "detectable", "passes_for_20_percent"),
        },
        "findings": [],
        **more,
    }
    # Findings are written one by one: as plain data, a hundred thousand take ten times the memory of their lines, and
    # with an indent `json` writes them in Python. JSON strings contain no line breaks, so the empty list is found.
    before, after = _text(plain, indent=1).split('\n "findings": []', 1)
    listed = [text for finding in _findings(difference) for text in (",", "\n  ", _text(finding))][1:]
    return "".join([before, '\n "findings": [', *listed, "\n ]" if listed else "]", after, "\n"])


def _text(plain: dict[str, Any], indent: int | None = None) -> str:
    return json.dumps(plain, ensure_ascii=False, indent=indent, allow_nan=False)


def _side(side: Side) -> dict[str, Any]:
    machine = {"machine": side.trace.machine.name, "device": side.trace.machine.device}
    run = _fields(side.trace.run, "started", "passes", "complete")
    return {"name": side.name, "title": side.trace.title, **machine, **run}


def _fields(of: object, *names: str) -> dict[str, Any]:
    """Return fields by their names; null for a number that is not finite."""
    values = {name: getattr(of, name) for name in names}
    return {n: None if isinstance(value, float) and not math.isfinite(value) else value for n, value in values.items()}


def _findings(difference: Difference) -> Iterator[dict[str, Any]]:
    for row in difference.rows:
        pair = difference.frames[row.frame]
        side, frame = (difference.a, pair.a) if row.b is None else (difference.b, pair.b)
        position = {
            "row": row.number,
            "function": difference.function_of(row),
            "path": side.trace.sources[frame.source].path if frame else None,
            "line": row.step.line,
            "execution": row.step.execution,
            "a_step": None if row.a is None else row.a.id,
            "b_step": None if row.b is None else row.b.id,
        }
        for f in row.findings:
            a, b = sides_text(f)
            yield {
                **_fields(f, "aspect", "verdict", "matters"),
                **position,
                "subject": _fields(f.subject, "kind", "index", "expression", "function"),
                "name": subject_text(f.subject),
                "a": a,
                "b": b,
                **_fields(f, "detail", "size", "cause", "origin"),
                "setting": None if f.setting is None else difference.settings[f.setting].name,
                **(_time(f) if f.aspect == "time" else {}),
            }


def _time(f: Finding) -> dict[str, Any]:
    of = f.durations
    names = "clock", "a_share", "b_share", "roof", "executions", "overall", "p", "adjusted_p", "detectable"
    interval = None if of.interval is None else [end if math.isfinite(end) else None for end in of.interval]
    return {"a_ns": f.a, "b_ns": f.b, **_fields(f, "ratio"), **_fields(of, *names), "interval": interval}
