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
from typing import Any

from trace_tools import formats
from trace_tools.comparing.difference import Verdict
from trace_tools.comparing.judging.elements import Numbers, compare_numbers, percent_text, relative_difference
from trace_tools.comparing.judging.tolerance import Tolerances
from trace_tools.comparing.wording import numbers_apart, values_apart
from trace_tools.file_format.structure import to_plain
from trace_tools.schema import Tensor, Value
from trace_tools.summaries import summary

SHOWN = 80  # characters of a side in a detail
CLOCK = "it follows from a clock: it was another once clocks were scaled"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of a value, where exactly, and how large the difference is relative to it."""

    verdict: Verdict
    detail: str | None = None
    size: float = 0.0


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
        return Judgement("varies", _varied(a, b))
    found = _judge(a, b, context)
    if (a.clock or b.clock) and found.verdict != "same":
        return Judgement("varies", CLOCK)
    if (a.device_random or b.device_random) and found.verdict in ("changed", "rounding"):
        structure = _structure_of_random(a, b, context)
        return structure or Judgement("random", "it follows from the device's generator")
    return found


def _varied(a: Value, b: Value) -> str:
    sides = [name for name, value in (("A", a), ("B", b)) if value.varies]
    return f"between the runs of {' and of '.join(sides)}"


def _structure_of_random(a: Value, b: Value, context: Context) -> Judgement | None:
    """Random are a tensor's elements, and perhaps its sizes; not its dtype or how it lies in memory."""
    if a.tensor is None or b.tensor is None:
        return None
    if a.tensor.shape != b.tensor.shape and len(a.tensor.shape) == len(b.tensor.shape):
        return None
    metadata = list(_metadata(a.tensor, b.tensor, context))
    return Judgement("changed", "; ".join(metadata), math.inf) if metadata else None


def _judge(a: Value, b: Value, context: Context) -> Judgement:
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
        return Judgement("changed", f"type {a.type} → {b.type}", relative_difference(x, y))
    if x == y or (x != x and y != y):
        return SAME
    size = relative_difference(x, y)
    detail = f"{' → '.join(numbers_apart(x, y, a.unit))}{percent_text(size)}"
    if a.type == "float" and context.is_close(x, y, python_float_dtype(x, y)):
        return Judgement("rounding", f"{detail}, within {python_float_dtype(x, y)}'s tolerance", size)
    return Judgement("changed", detail, size)


def python_float_dtype(x: float, y: float) -> str:
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
    return f"({', '.join(map(str, numbers))}{',' if len(numbers) == 1 else ''})"


def _judge_elements(a: Tensor, b: Tensor, context: Context) -> Judgement:
    """Compare what was recorded of the elements: all of them, or a corner and statistics."""
    pairs = Numbers(a.dtype if a.dtype == b.dtype else max(a.dtype, b.dtype), context.is_close)
    if a.elements is not None and b.elements is not None:
        found = compare_numbers(a.elements, b.elements, a.shape, pairs)
    elif a.corner is not None and b.corner is not None and a.corner_shape == b.corner_shape:
        found = compare_numbers(a.corner, b.corner, a.corner_shape or [], pairs)
    else:
        found = None
    verdict: Verdict = "same" if found is None else found.verdict
    detail, size = (None, 0.0) if found is None else (found.detail, found.size)
    if verdict != "changed" and a.statistics is not None and b.statistics is not None:
        counted = pairs.compare_statistics(a.statistics, b.statistics)
        if ORDER.index(counted.verdict) > ORDER.index(verdict):
            return Judgement(counted.verdict, counted.detail, counted.size)
    return Judgement(verdict, detail, size)


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
        if ORDER.index(found.verdict) > ORDER.index(worst.verdict):
            worst = Judgement(found.verdict, f"{_short(name)}: {found.detail}" if found.detail else None, found.size)
    return worst


def _parts(value: Value) -> Iterator[tuple[str, Value]]:
    """Yield a container's items by name; a set's in an order of their own, because it has none."""
    items = value.items or []
    if value.type in ("set", "frozenset"):
        items = sorted(items, key=_plain)
    yield from ((f"[{place}]", item) for place, item in enumerate(items))
    yield from ((summary(key, SHOWN), item) for key, item in value.entries or [])


def _plain(value: Value) -> str:
    plain: dict[str, Any] = to_plain(value)
    return json.dumps(plain, sort_keys=True)
