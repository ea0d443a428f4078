"""Write a Difference as JSON for scripts: its records as msgspec writes them; diff/README.md names the keys.

Findings are in the lecture's order, one per line; equal observations are only counted. Numbers are finite or null.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from trace_tools.diff.difference import Difference, Side
from trace_tools.diff.wording import subject_text

FORMAT, VERSION = "trace_tools difference", 3


def difference_json(difference: Difference) -> str:
    """Return the difference as JSON text; the same difference gives the same text."""
    summary = {
        "format": FORMAT,
        "version": VERSION,
        "matters": difference.matters,
        "a": _side(difference.a),
        "b": _side(difference.b),
        "same_machine": difference.same_machine,
        "time_not_judged": difference.time_not_judged,
        "settings": difference.settings,
        "functions": difference.matching.functions,
        "notes": difference.notes,
        "ignored": difference.ignored,
        "counts": difference.counts,
        "tolerances": difference.tolerances,
        "times": difference.times,
    }
    # Findings are encoded one by one: as plain data, 100,000 take ten times the memory of their lines.
    lines = ",\n".join(msgspec.json.encode(finding).decode() for finding in _findings(difference))
    head = msgspec.json.format(msgspec.json.encode(summary), indent=1).decode()
    return f'{head.removesuffix("}").rstrip()},\n "findings": [\n{lines}\n ]\n}}\n'


def _side(side: Side) -> dict[str, Any]:
    run, machine = side.trace.run, side.trace.machine
    return {
        "name": side.name,
        "title": side.trace.title,
        "machine": machine.name,
        "device": machine.device,
        "started": run.started,
        "passes": run.passes,
        "complete": run.complete,
    }


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
        for finding in row.findings:
            yield {**position, "name": subject_text(finding.subject), **msgspec.to_builtins(finding)}
