"""Two recorded values → whether they are the same, the same but for rounding, random, varying, or changed.

    judge(Value("int", 48), Value("int", 96), context)  # Judgement("changed", "48 → 96", size=1.0)

What is exact is compared exactly: types, dtypes, shapes, strides, integers, text. Floating-point numbers
have their dtype's tolerance. Elements that follow from a device's generator are never called changed, and
values that vary between the passes of one trace, or follow from a clock, in nothing at all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from trace_tools import formats
from trace_tools.comparing.difference import Verdict
from trace_tools.comparing.judging.tolerance import Tolerances
from trace_tools.comparing.wording import numbers_apart, values_apart
from trace_tools.file_format.structure import to_plain
from trace_tools.schema import Element, Statistics, Tensor, Value
from trace_tools.summaries import NOT_KEPT, element, summary

SHOWN = 80  # characters of a side in a detail
CLOCK = "it follows from a clock: it was another once clocks were scaled"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of a value, or of many numbers; where exactly, and how large the largest relative difference is."""

    verdict: Verdict
    detail: str | None = None
    size: float = 0.0

    def is_graver(self, other: Judgement) -> bool:
        """Whether it is the one to tell of two parts of a value."""
        return ORDER.index(self.verdict) > ORDER.index(other.verdict)


SAME = Judgement("same")
ORDER: tuple[Verdict, ...] = ("same", "rounding", "varies", "random", "changed")  # of parts, from mild to grave


@dataclass(slots=True)
class Context:
    """What judging a value needs to know of the two traces."""

    tolerances: Tolerances = field(default_factory=Tolerances)
    devices: tuple[str, str] = ("cpu", "cpu")  # of the machines
    used: set[str] = field(default_factory=set)  # dtypes whose tolerance was needed

    def is_close(self, a: float, b: float, dtype: str) -> bool:
        """Whether two different numbers are the same but for rounding, noting that it was asked."""
        self.used.add(dtype)
        return self.tolerances.close(a, b, dtype)


def judge(a: Value, b: Value, context: Context) -> Judgement:
    """Compare one expression's value in A with that in B."""
    if a == b:
        return Judgement("varies") if a.varies else SAME
    if a.varies or b.varies:
        sides = [name for name, value in (("A", a), ("B", b)) if value.varies]
        return Judgement("varies", f"between the runs of {' and of '.join(sides)}")
    found = _judge(a, b, context)
    if (a.clock or b.clock) and found.verdict != "same":
        return Judgement("varies", CLOCK)
    if (a.device_random or b.device_random) and found.verdict in ("changed", "rounding"):
        return _judge_random(a, b, context)
    return found


def _judge_random(a: Value, b: Value, context: Context) -> Judgement:
    """Random are a tensor's elements, and perhaps its sizes; not its dtype or how it lies in memory."""
    x, y = a.tensor, b.tensor
    if x is not None and y is not None and (x.shape == y.shape or len(x.shape) != len(y.shape)):
        metadata = list(_metadata(x, y, context))
        if metadata:
            return Judgement("changed", "; ".join(metadata), math.inf)
    return Judgement("random", "it follows from the device's generator")


def _judge(a: Value, b: Value, context: Context) -> Judgement:
    if NOT_KEPT in (a.note, b.note) and a.type == b.type and a.tensor is None:
        return SAME  # as far as anybody knows; of a tensor there is more
    if a.type in ("int", "float") and b.type in ("int", "float"):
        return _judge_numbers(a, b, context)
    if a.type != b.type:
        return Judgement("changed", f"type {_short(a.type)} → {_short(b.type)}", math.inf)
    if a.tensor is not None and b.tensor is not None:
        return _judge_tensors(a.tensor, b.tensor, context)
    if a.items is not None or a.entries is not None or b.items is not None or b.entries is not None:
        return _judge_containers(a, b, context)
    if (a.value, a.text, a.length) == (b.value, b.text, b.length):
        return SAME  # only a note differs
    return Judgement("changed", " → ".join(values_apart(a, b, SHOWN)), math.inf)


def _short(text: str) -> str:
    return formats.one_line(text, SHOWN)


# --- numbers --------------------------------------------------------------------------------------


def _judge_numbers(a: Value, b: Value, context: Context) -> Judgement:
    x, y = a.value, b.value
    if x is None or y is None or isinstance(x, str) or isinstance(y, str):
        return SAME if x == y else Judgement("changed", "too long to be recorded", math.inf)
    if a.type != b.type:
        return Judgement("changed", f"type {a.type} → {b.type}", _relative(x, y))
    if x == y or (x != x and y != y):
        return SAME
    size = _relative(x, y)
    detail = f"{' → '.join(numbers_apart(x, y, a.unit))}{_percent(size)}"
    if a.type == "float" and context.is_close(x, y, _float_dtype(x, y)):
        return Judgement("rounding", f"{detail}, within {_float_dtype(x, y)}'s tolerance", size)
    return Judgement("changed", detail, size)


def _float_dtype(x: float, y: float) -> str:
    """Return float32 for two floats that are exactly that, as `.item()` gives them, else float64."""
    return "float32" if all(_is_float32(v) for v in (x, y)) else "float64"


def _is_float32(x: float) -> bool:
    """Whether 24 bits hold the number's digits and 8 its exponent."""
    try:
        if not math.isfinite(x) or x == 0:
            return True
        mantissa, exponent = math.frexp(x)
    except OverflowError:  # an integer beyond the range of floats
        return False
    return -125 <= exponent <= 128 and (mantissa * 2**24).is_integer()


def _relative(x: float, y: float) -> float:
    """Return |y − x| / |x|; infinite when that is no number."""
    try:
        size = abs(y - x) / abs(x)
    except (ZeroDivisionError, OverflowError):
        return math.inf
    return size if math.isfinite(size) else math.inf


def _percent(size: float) -> str:
    """Write a relative difference in brackets; nothing where it says nothing."""
    return f" ({formats.percent(size)})" if math.isfinite(size) and size < 1e6 else ""


# --- tensors --------------------------------------------------------------------------------------


def _judge_tensors(a: Tensor, b: Tensor, context: Context) -> Judgement:
    metadata = list(_metadata(a, b, context))
    numbers = _judge_elements(a, b, context) if a.shape == b.shape else SAME
    if not metadata:
        return numbers
    details = [*metadata, *([numbers.detail] if numbers.detail and numbers.verdict == "changed" else [])]
    return Judgement("changed", "; ".join(details), math.inf)


def _metadata(a: Tensor, b: Tensor, context: Context) -> Iterator[str]:
    if a.dtype != b.dtype:
        yield f"dtype {_short(a.dtype)} → {_short(b.dtype)}"
    if a.shape != b.shape:
        yield f"shape {formats.shape(a.shape)} → {formats.shape(b.shape)}"
    elif a.strides != b.strides and a.strides is not None and b.strides is not None:
        yield f"strides {_tuple(a.strides)} → {_tuple(b.strides)}"
    if a.layout != b.layout:
        yield f"layout {_short(a.layout)} → {_short(b.layout)}"
    if a.offset != b.offset and a.offset is not None and b.offset is not None:
        yield f"storage offset {a.offset} → {b.offset}"
    if a.requires_grad != b.requires_grad:
        yield f"requires_grad {a.requires_grad} → {b.requires_grad}"
    if context.devices[0] == context.devices[1] and a.device != b.device:
        yield f"device {_short(a.device)} → {_short(b.device)}"


def _tuple(numbers: Sequence[int]) -> str:
    return f"({formats.sizes(numbers)}{',' if len(numbers) == 1 else ''})"


def _judge_elements(a: Tensor, b: Tensor, context: Context) -> Judgement:
    """Compare what was recorded of the elements: all of them, or a corner and statistics."""
    dtype = a.dtype if a.dtype == b.dtype else max(a.dtype, b.dtype)
    found = SAME
    if a.elements is not None and b.elements is not None:
        found = _judge_many(a.elements, b.elements, a.shape, dtype, context)
    elif a.corner is not None and b.corner is not None and a.corner_shape == b.corner_shape:
        found = _judge_many(a.corner, b.corner, a.corner_shape or [], dtype, context)
    if found.verdict != "changed" and a.statistics is not None and b.statistics is not None:
        counted = _judge_statistics(a.statistics, b.statistics, dtype, context)
        return counted if counted.is_graver(found) else found
    return found


def _judge_many(
    a: Sequence[Element], b: Sequence[Element], shape: Sequence[int], dtype: str, context: Context
) -> Judgement:
    """Compare elements one by one, in row-major order of `shape`."""
    if len(a) != len(b):
        return Judgement("changed", "another number of elements was recorded", math.inf)
    changed, rounded, worst, at = 0, 0.0, -1.0, 0
    for place, (x, y) in enumerate(zip(a, b, strict=True)):
        verdict, size = _judge_element(x, y, dtype, context)
        if verdict == "changed":
            changed += 1
            if size > worst:
                worst, at = size, place
        elif verdict == "rounding":
            rounded = max(rounded, size)
    if changed:
        x, y = a[at], b[at]
        texts = element(x), element(y)  # as tensors show them, or with the digits in which they differ
        if texts[0] == texts[1]:
            numbers = isinstance(x, (int, float)) and isinstance(y, (int, float))
            texts = numbers_apart(x, y) if numbers else (str(x), str(y))  # type: ignore[arg-type]
        detail = " → ".join(texts) + _percent(worst)
        if len(a) > 1:
            index, rest = list[int](), at
            for length in reversed(shape):
                rest, within = divmod(rest, length)
                index.insert(0, within)
            where = f" at {formats.shape(index)}" if shape else ""
            verb = "differs" if changed == 1 else "differ"
            detail = f"{changed:,} of {len(a):,} elements {verb}, the most{where}: {detail}"
        return Judgement("changed", detail, worst)
    if rounded:
        return Judgement("rounding", f"by {formats.number(rounded, 2)} at most, within {dtype}'s tolerance", rounded)
    return SAME


def _judge_element(a: Element, b: Element, dtype: str, context: Context) -> tuple[Verdict, float]:
    """Compare two elements: the verdict, and the relative difference."""
    if a == b and type(a) is type(b):
        return "same", 0.0
    if isinstance(a, list) and isinstance(b, list):
        parts = [_judge_element(x, y, dtype, context) for x, y in zip(a, b, strict=True)]
        return max((verdict for verdict, _ in parts), key=ORDER.index), max(size for _, size in parts)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        if a == b or (a != a and b != b):
            return "same", 0.0
        return ("rounding" if context.is_close(a, b, dtype) else "changed"), _relative(a, b)
    return "changed", math.inf


def _judge_statistics(a: Statistics, b: Statistics, dtype: str, context: Context) -> Judgement:
    """Compare counts exactly, and extremes, mean and deviation within tolerance of the largest element.

    Sums of many elements round as the largest of them does.
    """
    for name in ("nan", "inf"):
        if getattr(a, name) != getattr(b, name):
            return Judgement("changed", f"{getattr(a, name):,} → {getattr(b, name):,} {name}", math.inf)
    found, largest = SAME, max(abs(a.min or 0), abs(a.max or 0))
    for name in ("min", "max", "mean", "std"):
        x, y = getattr(a, name), getattr(b, name)
        if x is None or y is None:
            continue
        verdict, size = _judge_element(x, y, dtype, context)
        apart = abs(y - x)
        if verdict == "changed" and math.isfinite(apart) and context.is_close(largest, largest + apart, dtype):
            verdict = "rounding"
        if verdict == "changed":
            return Judgement("changed", f"{name} {' → '.join(numbers_apart(x, y))}", size)
        if verdict == "rounding":
            found = Judgement("rounding", f"{name} within tolerance", size)
    if found.verdict == "same" and (a.zero, a.histogram) != (b.zero, b.histogram):
        return Judgement("changed", f"{a.zero:,} → {b.zero:,} zeros" if a.zero != b.zero else "other histogram")
    return found


# --- containers -----------------------------------------------------------------------------------


def _judge_containers(a: Value, b: Value, context: Context) -> Judgement:
    if a.length != b.length:
        return Judgement("changed", f"{a.length} → {b.length} entries", math.inf)
    parts_a, parts_b = list(_parts(a)), list(_parts(b))
    if len(parts_a) != len(parts_b):
        return Judgement("changed", "other entries were recorded", math.inf)
    worst = SAME
    for (name, x), (other, y) in zip(parts_a, parts_b, strict=True):
        if name != other:
            return Judgement("changed", f"key {_short(name)} → {_short(other)}", math.inf)
        found = judge(x, y, context)
        if found.is_graver(worst):
            worst = Judgement(found.verdict, f"{_short(name)}: {found.detail}" if found.detail else None, found.size)
    return worst


def _parts(value: Value) -> Iterator[tuple[str, Value]]:
    """Yield a container's items by name; a set's in an order of their own, because it has none."""
    items = value.items or []
    if value.type in ("set", "frozenset"):
        items = sorted(items, key=lambda item: json.dumps(to_plain(item), sort_keys=True))
    yield from ((f"[{place}]", item) for place, item in enumerate(items))
    yield from ((summary(key, SHOWN), item) for key, item in value.entries or [])
