"""Two things that differ → two texts that differ where they do.

numbers_apart(25276661760, 25276665856, "B")   ("23.540715 GiB", "23.540718 GiB")
texts_apart("a" * 90 + "b", "a" * 90 + "c")    ("…aaaaaaaaaaaab", "…aaaaaaaaaaaac")
"""

from __future__ import annotations

from trace_tools import formats
from trace_tools.schema import Value
from trace_tools.summaries import summary

MOST_DIGITS = 17  # that tell any two floats apart
KEPT = 14  # characters before the first that differs


def numbers_apart(x: int | float, y: int | float, unit: str | None = None) -> tuple[str, str]:
    """Write two numbers with the digits that reports use, or as many more as it takes to tell them apart."""
    for digits in range(4 if unit else 6, MOST_DIGITS + 1):
        a, b = ((formats.quantity(n, unit, digits) if unit else formats.number(n, digits)) for n in (x, y))
        if a != b or x == y:
            return a, b
    exact = (f"{n:,}" if isinstance(n, int) and n.bit_length() < 1_000 else formats.number(n) for n in (x, y))
    a, b = (f"{text} {unit}" if unit else text for text in exact)
    return a, b


def texts_apart(first: str, second: str, limit: int = 80) -> tuple[str, str]:
    """Write two texts in `limit` characters each; what they begin with alike is cut where they would not fit."""
    a, b = (formats.one_line(text, len(text) * 6 + 6) for text in (first, second))
    if a == b and first != second:  # in white space only
        a, b = repr(first), repr(second)
    if max(len(a), len(b)) > limit:
        alike = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        if alike > KEPT + 1:
            a, b = ("…" + text[alike - KEPT :] for text in (a, b))
    return formats.shorten(a, limit), formats.shorten(b, limit)


def values_apart(a: Value, b: Value, limit: int = 80) -> tuple[str, str]:
    """Summarise two values; scalars that differ read so. Inside containers and tensors a detail says where."""
    if not (a.varies or b.varies):
        x, y = a.value, b.value
        if _is_number(a) and _is_number(b) and isinstance(x, (int, float)) and isinstance(y, (int, float)):
            if a.unit == b.unit:
                return numbers_apart(x, y, a.unit)
        elif isinstance(x, str) and isinstance(y, str):
            return texts_apart(repr(formats.visible(x)), repr(formats.visible(y)), limit)
        elif a.text is not None and b.text is not None and a.tensor is None:
            left, right = summary(a, limit), summary(b, limit)
            return (left, right) if left != right else texts_apart(a.text, b.text, limit)
    return summary(a, limit), summary(b, limit)


def _is_number(value: Value) -> bool:
    return value.type in ("int", "float") and not isinstance(value.value, bool)
