"""A Difference → JSON for scripts.

    {
      "format": "trace_tools difference", "version": 1,
      "matters": true,                          whether anything differs that matters (exit code 1)
      "a": {"name", "title", "machine", "device", "started", "passes", "complete"}, "b": the same of B,
      "same_machine": true, "same_source": false,
      "time_not_judged": "why", or null         times were asked for, and none could be judged (exit code 3, if not 1)
      "settings": [{"group": "setting|version|machine|source", "name", "a", "b",
                    "repeated": ["where the lecture repeats it"]}],
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
          "subject": {
              "kind": "value|argument|claim|side|counter|measured|executions|step|raised|printed|warnings|told|time",
              "index",                                    its place among those of its kind in the step
              "expression", "function"},                  whole, as the source has it; the function whose argument it is
          "name", "a", "b", "detail",                     text, as the reports show it
          "size",                                         relative difference, bytes or FLOPs; null: no number
          "cause",                                        the row that says the same, or null
          "origin",                                       the row of an edit or a count it may follow from, or null
          "setting",                                      the name of the setting that it repeats, or null
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

from trace_tools.comparing.difference import Difference, Side, StepPair, Subject, TimeFinding
from trace_tools.comparing.reports.difference_report import repeated
from trace_tools.comparing.wording import setting_sides, sides_text, subject_text

FORMAT, VERSION = "trace_tools difference", 1


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
        "same_source": difference.same_source,
        "time_not_judged": difference.time_not_judged,
        "settings": list(_settings(difference)),
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
        **more,
    }
    return json.dumps(plain, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


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


def _settings(difference: Difference) -> Iterator[dict[str, Any]]:
    for s, places in zip(difference.settings, repeated(difference), strict=True):
        a, b = setting_sides(s)
        yield {"group": s.group, "name": s.name, "a": a, "b": b, "repeated": places}


def _subject(subject: Subject) -> dict[str, Any]:
    return {
        "kind": subject.kind,
        "index": subject.index,
        "expression": subject.expression,
        "function": subject.function,
    }


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _findings(difference: Difference) -> Iterator[dict[str, Any]]:
    for row in difference.rows:
        if not row.findings and not row.times:
            continue
        place = _place(difference, row)
        for f in row.findings:
            found = {"aspect": f.aspect, "verdict": f.verdict, "matters": f.matters, **place}
            a, b = sides_text(f)
            texts = {"subject": _subject(f.subject), "name": subject_text(f.subject), "a": a, "b": b}
            setting = None if f.setting is None else difference.settings[f.setting].name
            because = {"cause": f.cause, "origin": f.origin, "setting": setting}
            yield {**found, **texts, "detail": f.detail, "size": _finite(f.size), **because}
        yield from (_time(time, place) for time in row.times)


def _place(difference: Difference, row: StepPair) -> dict[str, Any]:
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
        "subject": _subject(time.subject),
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
        "origin": time.origin,
    }
