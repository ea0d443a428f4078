"""Format findings for reports, with the subject, and both sides as texts that show their difference.

subject_text(finding.subject)                  "y.stride()"
sides_text(finding)                            ("(4, 1)", "(1, 4)")
numbers_apart(25276661760, 25276665856, "B")   ("23.540715 GiB", "23.540718 GiB")
texts_apart("a" * 90 + "b", "a" * 90 + "c")    ("…aaaaaaaaaaaab", "…aaaaaaaaaaaac")
"""

from __future__ import annotations

from typing import TypeGuard

from trace_tools.analysis.summaries import claim_summary, summary
from trace_tools.diff.difference import Finding, Observation, SettingChange, Subject
from trace_tools.trace.model import Claim, Raised, Value
from trace_tools.util import formats

NAME = 80  # characters of a subject
SIDE = 80  # most characters of a side
MOST_DIGITS = 17  # enough to distinguish any two floats
KEPT = 14  # characters before the first difference

COUNTS: dict[str, tuple[str, str]] = {  # field → (name, unit)
    "flops": ("FLOPs", "FLOP"),
    "bytes_read": ("bytes read", "B"),
    "bytes_written": ("bytes written", "B"),
    "live_bytes": ("live tensor bytes", "B"),
    "peak_bytes": ("peak tensor bytes", "B"),
    "allocated_bytes": ("allocated bytes", "B"),
}


def subject_text(subject: Subject, limit: int = NAME) -> str:
    """Name the subject of a finding; a shortened name gets its index, to distinguish it from similar ones."""
    if subject.kind in ("counter", "measured"):
        name = COUNTS.get(subject.expression, (subject.expression or "time",))[0]
        one_call = f"{name} of one call, measurement {subject.index + 1}"
        return one_call if subject.kind == "measured" else name
    if subject.kind == "step":
        return subject.expression or "a step"
    if subject.kind in ("executions", "raised", "printed", "warnings", "time"):
        return subject.kind
    if subject.kind == "launch":
        return "launch time"
    text = f"{subject.function}({subject.expression})" if subject.kind == "argument" else subject.expression
    line = formats.one_line(text, len(text) * 6 + 6)
    if len(line) <= limit:
        return line
    suffix = f" #{subject.index + 1}"
    return formats.shorten(line, limit - len(suffix)) + suffix


def word_of(finding: Finding) -> str:
    """Name a verdict for readers, such as slower or faster for a time, or that a claim flipped."""
    if finding.verdict == "noise":
        return (finding.detail or finding.verdict).partition(":")[0]
    if finding.verdict == "changed" and finding.aspect == "time":
        return "slower" if (finding.durations.overall or 1.0) > 1 else "faster"
    return "claim flipped" if finding.verdict == "changed" and finding.subject.kind == "claim" else finding.verdict


def sides_text(finding: Finding, limit: int = SIDE) -> tuple[str | None, str | None]:
    """Format both sides with the digits and characters that show their difference; None for a missing side."""
    a, b, subject = finding.a, finding.b, finding.subject
    if isinstance(a, Value) and isinstance(b, Value):
        return values_apart(a, b, limit)
    unit = COUNTS[subject.expression][1] if subject.expression in COUNTS else None
    if subject.kind in ("counter", "measured") and isinstance(a, int) and isinstance(b, int):
        return numbers_apart(a, b, unit)

    def text(side: Observation) -> str | None:
        if side is None:
            return None
        if isinstance(side, Value):
            return summary(side, limit)
        if isinstance(side, Claim):
            return f"{'held' if side.held else 'failed'}: {claim_summary(side, limit - 10)}"
        if isinstance(side, Raised):
            return f"{side.type}: {side.message}"
        if not _is_number(side):
            return str(side)
        if subject.kind == "step":
            return formats.duration(side)
        return formats.quantity(side, unit) if unit else formats.number(side)

    text_a, text_b = text(a), text(b)
    if text_a is not None and text_b is not None:
        return texts_apart(text_a, text_b, limit)
    return text_a and formats.one_line(text_a, limit), text_b and formats.one_line(text_b, limit)


def setting_sides(setting: SettingChange) -> tuple[str | None, str | None]:
    """Format both sides of a setting; None for a missing side."""
    a, b, unit = setting.a, setting.b, setting.unit
    texts: tuple[str | None, str | None]
    if _is_number(a) and _is_number(b):
        texts = numbers_apart(a, b, unit)
    elif isinstance(a, str) and isinstance(b, str):
        texts = texts_apart(a, b, 120)
    else:
        written = (formats.quantity(n, unit) if unit and _is_number(n) else n for n in (a, b))
        text_a, text_b = (None if side is None else formats.one_line(str(side), 120) for side in written)
        texts = text_a, text_b
    text_a, text_b = (
        f"{text}, measured" if text and is_measured else text
        for text, is_measured in zip(texts, setting.measured, strict=True)
    )
    return text_a, text_b


def _is_number(it: object) -> TypeGuard[int | float]:
    return isinstance(it, (int, float)) and not isinstance(it, bool)


def numbers_apart(x: int | float, y: int | float, unit: str | None = None) -> tuple[str, str]:
    """Format two numbers with the usual digits, or with as many more as needed to distinguish them."""
    for digits in range(4 if unit else 6, MOST_DIGITS + 1):
        a, b = ((formats.quantity(n, unit, digits) if unit else formats.number(n, digits)) for n in (x, y))
        if a != b or x == y:
            return a, b
    exact = (f"{n:,}" if isinstance(n, int) and n.bit_length() < 1_000 else formats.number(n) for n in (x, y))
    a, b = (f"{text} {unit}" if unit else text for text in exact)
    return a, b


def texts_apart(first: str, second: str, limit: int = 80) -> tuple[str, str]:
    """Shorten two texts to `limit` characters each; a common beginning is cut if they do not fit."""
    a, b = (formats.one_line(text, len(text) * 6 + 6) for text in (first, second))
    if a == b and first != second:  # they differ in white space only
        a, b = repr(first), repr(second)
    if max(len(a), len(b)) > limit:
        alike = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        if alike > KEPT + 1:
            a, b = ("…" + text[alike - KEPT :] for text in (a, b))
    return formats.shorten(a, limit), formats.shorten(b, limit)


def values_apart(a: Value, b: Value, limit: int = 80) -> tuple[str, str]:
    """Summarise two values so that different scalars read differently. For containers and tensors, a detail names
    the position.
    """
    if not (a.varies or b.varies):
        x, y = a.value, b.value
        if {a.type, b.type} <= {"int", "float"} and _is_number(x) and _is_number(y):
            if a.unit == b.unit:
                return numbers_apart(x, y, a.unit)
        elif isinstance(x, str) and isinstance(y, str):
            return texts_apart(repr(x), repr(y), limit)
        elif a.text is not None and b.text is not None and a.tensor is None:
            text_a, text_b = summary(a, limit), summary(b, limit)
            return (text_a, text_b) if text_a != text_b else texts_apart(a.text, b.text, limit)
    return summary(a, limit), summary(b, limit)
