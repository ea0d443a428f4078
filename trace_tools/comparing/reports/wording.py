"""A finding → how reports write it: what it is about, and what both sides were.

subject_text(finding.subject)     "y.stride()"
sides_text(finding)               ("(4, 1)", "(1, 4)")
"""

from __future__ import annotations

from trace_tools import formats
from trace_tools.comparing.apart import numbers_apart, texts_apart, values_apart
from trace_tools.comparing.difference import Finding, Observation, Setting, Subject
from trace_tools.schema import Claim, Raised, Value
from trace_tools.summaries import claim_summary, summary

NAME = 80  # characters of what a finding is about
SIDE = 80  # of a side

COUNTED: dict[str, tuple[str, str]] = {  # field → what it is called, unit
    "flops": ("FLOPs", "FLOP"),
    "bytes_read": ("bytes read", "B"),
    "bytes_written": ("bytes written", "B"),
    "live_bytes": ("live tensor bytes", "B"),
    "peak_bytes": ("peak tensor bytes", "B"),
    "allocated_bytes": ("allocated bytes", "B"),
}


def subject_text(subject: Subject, limit: int = NAME) -> str:
    """Name what a finding is about; where a name has to be cut, its place tells it from others that begin alike."""
    if subject.kind in ("counter", "measured"):
        name = COUNTED.get(subject.expression, (subject.expression or "time",))[0]
        return f"{name} of one call, measurement {subject.index + 1}" if subject.kind == "measured" else name
    if subject.kind == "step":
        return subject.expression or "a step"
    if subject.kind in ("executions", "raised", "printed", "warnings", "time"):
        return subject.kind
    text = f"{subject.function}({subject.expression})" if subject.kind == "argument" else subject.expression
    whole = formats.one_line(text, len(text) * 6 + 6)
    if len(whole) <= limit:
        return whole
    place = f" #{subject.index + 1}"
    return formats.shorten(whole, limit - len(place)) + place


def sides_text(finding: Finding, limit: int = SIDE) -> tuple[str | None, str | None]:
    """Write what both sides were, in the digits and characters in which they differ; None where a side has none."""
    a, b = finding.a, finding.b
    if isinstance(a, Value) and isinstance(b, Value):
        return values_apart(a, b, limit)
    if finding.subject.kind in ("counter", "measured") and isinstance(a, int) and isinstance(b, int):
        return numbers_apart(a, b, _unit(finding.subject))
    left, right = (None if side is None else _side(side, finding.subject, limit) for side in (a, b))
    if left is None or right is None:
        return (None if left is None else formats.one_line(left, limit)), (
            None if right is None else formats.one_line(right, limit)
        )
    return texts_apart(left, right, limit)


def _unit(subject: Subject) -> str | None:
    return COUNTED[subject.expression][1] if subject.expression in COUNTED else None


def _side(side: Observation, subject: Subject, limit: int) -> str:
    if isinstance(side, Value):
        return summary(side, limit)
    if isinstance(side, Claim):
        return f"{'held' if side.held else 'failed'}: {claim_summary(side, limit - 10)}"
    if isinstance(side, Raised):
        return f"{side.type}: {side.message}"
    if isinstance(side, (int, float)) and not isinstance(side, bool):
        if subject.kind == "step":
            return formats.duration(side)
        unit = _unit(subject)
        return formats.quantity(side, unit) if unit else formats.number(side)
    return str(side)


def setting_sides(setting: Setting) -> tuple[str | None, str | None]:
    """Write both sides of a setting."""
    a, b = setting.a, setting.b
    numbers = isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool)
    if numbers and not isinstance(b, bool) and isinstance(a, (int, float)) and isinstance(b, (int, float)):
        texts: tuple[str | None, str | None] = numbers_apart(a, b, setting.unit)
    elif isinstance(a, str) and isinstance(b, str):
        texts = texts_apart(a, b, 120)
    else:
        texts = _setting_side(a, setting.unit), _setting_side(b, setting.unit)
    left, right = (
        f"{text}, measured" if text is not None and measured else text
        for text, measured in zip(texts, setting.measured, strict=True)
    )
    return left, right


def _setting_side(side: Observation, unit: str | None) -> str | None:
    if side is None:
        return None
    if unit is not None and isinstance(side, (int, float)):
        return formats.quantity(side, unit)
    return formats.one_line(str(side), 120)


def setting_text(setting: Setting) -> str:
    """Write a setting that differs: torch 2.12.0 → 2.13.0."""
    a, b = setting_sides(setting)
    return f"{formats.one_line(setting.name, 60)} {a or '(none)'} → {b or '(none)'}"
