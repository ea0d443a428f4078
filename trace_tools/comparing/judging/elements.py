"""Two lists of a tensor's elements, or two statistics of them → how many differ, and where the most.

compare_numbers([1.0, 2.0], [1.0, 2.5], [2], Numbers("float32", close))
# Compared("changed", "1 of 2 elements differ, the most at [1]: 2. → 2.5 (25%)", 0.25)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.comparing.difference import Verdict
from trace_tools.comparing.wording import numbers_apart
from trace_tools.schema import Element, Statistics
from trace_tools.summaries import element


@dataclass(frozen=True, slots=True)
class Compared:
    """A verdict on many numbers; `size` is the largest relative difference."""

    verdict: Verdict
    detail: str | None = None
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class Numbers:
    """How to compare numbers of one dtype: `close(a, b, dtype)` says whether they differ by rounding only."""

    dtype: str
    close: Callable[[float, float, str], bool]

    def judge(self, a: Element, b: Element) -> tuple[Verdict, float]:
        """Compare two elements: the verdict, and the relative difference."""
        if a == b and type(a) is type(b):
            return "same", 0.0
        if isinstance(a, list) and isinstance(b, list):
            parts = [self.judge(x, y) for x, y in zip(a, b, strict=True)]
            verdicts = {verdict for verdict, _ in parts}
            worst: Verdict = "changed" if "changed" in verdicts else "rounding" if "rounding" in verdicts else "same"
            return worst, max(size for _, size in parts)
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            if a == b or (a != a and b != b):
                return "same", 0.0
            return ("rounding" if self.close(a, b, self.dtype) else "changed"), relative_difference(a, b)
        return "changed", math.inf

    def compare_statistics(self, a: Statistics, b: Statistics) -> Compared:
        """Compare counts exactly, and extremes, mean and deviation within tolerance of the largest element."""
        for name in ("nan", "inf"):
            if getattr(a, name) != getattr(b, name):
                return Compared("changed", f"{getattr(a, name):,} → {getattr(b, name):,} {name}", math.inf)
        found = Compared("same")
        for name in ("min", "max", "mean", "std"):
            x, y = getattr(a, name), getattr(b, name)
            if x is None or y is None:
                continue
            verdict, size = self._judge_statistic(x, y, a)
            if verdict == "changed":
                return Compared("changed", f"{name} {' → '.join(numbers_apart(x, y))}", size)
            if verdict == "rounding":
                found = Compared("rounding", f"{name} within tolerance", size)
        if found.verdict == "same" and (a.zero, a.histogram) != (b.zero, b.histogram):
            return Compared("changed", f"{a.zero:,} → {b.zero:,} zeros" if a.zero != b.zero else "other histogram", 0.0)
        return found

    def _judge_statistic(self, x: float, y: float, whole: Statistics) -> tuple[Verdict, float]:
        """Sums of many elements round as the largest of them does."""
        verdict, size = self.judge(x, y)
        largest = max(abs(whole.min or 0), abs(whole.max or 0))
        if verdict == "changed" and math.isfinite(y - x) and self.close(largest, largest + abs(y - x), self.dtype):
            return "rounding", size
        return verdict, size


def compare_numbers(a: Sequence[Element], b: Sequence[Element], shape: Sequence[int], numbers: Numbers) -> Compared:
    """Compare elements one by one, in row-major order of `shape`."""
    if len(a) != len(b):
        return Compared("changed", "another number of elements was recorded", math.inf)
    changed, rounded = 0, 0.0
    worst, at = -1.0, 0
    for place, (x, y) in enumerate(zip(a, b, strict=True)):
        verdict, size = numbers.judge(x, y)
        if verdict == "changed":
            changed += 1
            if size > worst:
                worst, at = size, place
        elif verdict == "rounding":
            rounded = max(rounded, size)
    if changed:
        return Compared("changed", _detail(changed, (a, b), at, shape) + percent_text(worst), worst)
    if rounded:
        return Compared(
            "rounding", f"by {formats.number(rounded, 2)} at most, within {numbers.dtype}'s tolerance", rounded
        )
    return Compared("same")


def _detail(count: int, sides: tuple[Sequence[Element], Sequence[Element]], at: int, shape: Sequence[int]) -> str:
    total = len(sides[0])
    where = f" at {_index(at, shape)}" if shape else ""
    change = " → ".join(_apart(sides[0][at], sides[1][at]))
    if total == 1:
        return change
    verb = "differs" if count == 1 else "differ"
    return f"{count:,} of {total:,} elements {verb}, the most{where}: {change}"


def _apart(a: Element, b: Element) -> tuple[str, str]:
    """Write two elements as tensors show them, or with the digits in which they differ."""
    texts = element(a), element(b)
    if texts[0] == texts[1] and isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return numbers_apart(a, b)
    return texts if texts[0] != texts[1] else (str(a), str(b))


def percent_text(size: float) -> str:
    """Write a relative difference in brackets; nothing where it says nothing."""
    return f" ({formats.percent(size)})" if math.isfinite(size) and size < 1e6 else ""


def _index(place: int, shape: Sequence[int]) -> str:
    index: list[int] = []
    for size in reversed(shape):
        place, within = divmod(place, size)
        index.insert(0, within)
    return formats.shape(index)


def relative_difference(x: float, y: float) -> float:
    """Return |y − x| / |x|; infinite when that is no number."""
    try:
        size = abs(y - x) / abs(x)
    except (ZeroDivisionError, OverflowError):
        return math.inf
    return size if math.isfinite(size) else math.inf
