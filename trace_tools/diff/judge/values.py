"""Judge whether two recorded values are the same, equal except for rounding, random, varying, or changed.

    tolerances = Tolerances.parse(["bfloat16=0.05"])
    tolerances.of("float32")                            # Tolerance("float32", 1.3e-06, 1e-05)
    judge(Value("int", 48), Value("int", 96), Context(tolerances))  # Judgement("changed", "48 → 96", size=1.0)

Types, dtypes, shapes, strides, integers and text are compared exactly, floating-point numbers within their dtype's
tolerance. Values that vary between the passes of one trace are never reported as different.

The minimum tolerances are the table of `torch.testing.assert_close` (torch 2.13, `torch/testing/_comparison.py`),
without importing torch; a wider relative tolerance can be set.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from trace_tools.analysis.summaries import element, summary
from trace_tools.describing.storage_labels import ADDRESS
from trace_tools.diff.difference import ROUNDING, VARIES, Tolerance, Verdict
from trace_tools.diff.wording import numbers_apart, values_apart
from trace_tools.errors import UsageError
from trace_tools.trace.model import Element, Statistics, Tensor, Value
from trace_tools.trace.records import to_plain
from trace_tools.util import formats

LEAST_TOLERANCES: Mapping[str, tuple[float, float]] = MappingProxyType(  # dtype → (relative, absolute)
    {
        "float16": (1e-3, 1e-5),
        "bfloat16": (1.6e-2, 1e-5),
        "float32": (1.3e-6, 1e-5),
        "float64": (1e-7, 1e-7),
        "complex32": (1e-3, 1e-5),
        "complex64": (1.3e-6, 1e-5),
        "complex128": (1e-7, 1e-7),
        "quint8": (1.3e-6, 1e-5),
        "quint2x4": (1.3e-6, 1e-5),
        "quint4x2": (1.3e-6, 1e-5),
        "qint8": (1.3e-6, 1e-5),
        "qint32": (1.3e-6, 1e-5),
    }
)
INEXACT = ("float", "bfloat", "complex", "q")  # prefixes of the dtypes that a tolerance can apply to


@dataclass(frozen=True, slots=True)
class Tolerances:
    """The minimum tolerances and wider relative ones by dtype; "" applies to every inexact dtype."""

    wider: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Tolerances:
        """Parse `1e-3` (for every floating dtype) and `bfloat16=0.05`. Raises UsageError for anything else."""
        wider = {}
        for text in texts:
            dtype, _, number = text.rpartition("=")
            try:
                relative = float(number)
            except ValueError:
                relative = math.nan
            if not 0 <= relative < 1 or (dtype and not dtype.startswith(INEXACT)):
                raise UsageError(f"--tolerance {text[:60]}: expected 0 ≤ number < 1, as in 1e-3 or bfloat16=0.05")
            wider[dtype] = relative
        return cls(wider)

    def of(self, dtype: str) -> Tolerance:
        """Return the tolerance of a dtype; zero for dtypes without rounding."""
        relative, absolute = LEAST_TOLERANCES.get(dtype, (0.0, 0.0))
        if dtype.startswith(INEXACT):
            relative = max(relative, self.wider.get(dtype, self.wider.get("", 0.0)))
        return Tolerance(dtype, relative, absolute)

    def close(self, a: float, b: float, dtype: str) -> bool:
        """Return whether a different number is within tolerance, which nan and infinities never are."""
        tolerance = self.of(dtype)
        try:
            if not (math.isfinite(a) and math.isfinite(b)):
                return False
            return abs(b - a) <= tolerance.absolute + tolerance.relative * abs(a)
        except OverflowError:  # an integer beyond the range of floats
            return False


# --- the judgement --------------------------------------------------------------------------------


SHOWN = 80  # characters of a side in a detail


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a value or on many numbers, with the details and the largest relative difference."""

    verdict: Verdict
    detail: str | None = None
    size: float = 0.0

    def is_graver(self, other: Judgement) -> bool:
        """Return whether this judgement, rather than the other, represents a value that has both."""
        return ORDER.index(self.verdict) > ORDER.index(other.verdict)


SAME = Judgement("same")
ORDER: tuple[Verdict, ...] = ("same", "noise", "changed")  # from mild to grave


@dataclass(slots=True)
class Context:
    """The facts about the two traces that judging a value needs."""

    tolerances: Tolerances = field(default_factory=Tolerances)
    devices: tuple[str, str] = ("cpu", "cpu")  # device types of the two machines
    used: set[str] = field(default_factory=set)  # dtypes that needed a tolerance
    # the rates that each trace measured as peaks of one machine: another measurement gives another rate
    peaks: tuple[Mapping[float, str], Mapping[float, str]] = ({}, {})  # rate → name

    def is_close(self, a: float, b: float, dtype: str) -> bool:
        """Return whether two different numbers are equal except for rounding, and record the dtype as used."""
        self.used.add(dtype)
        return self.tolerances.close(a, b, dtype)


def judge(a: Value, b: Value, context: Context) -> Judgement:
    """Compare one expression's value in A with that in B."""
    if a == b:
        return Judgement("noise", VARIES) if a.varies else SAME
    if a.varies or b.varies:
        sides = [name for name, value in (("A", a), ("B", b)) if value.varies]
        return Judgement("noise", f"{VARIES}: between the runs of {' and of '.join(sides)}")
    return _judge(a, b, context)


def _judge(a: Value, b: Value, context: Context) -> Judgement:
    if a.type in ("int", "float") and b.type in ("int", "float"):
        return _judge_numbers(a, b, context)
    if a.type != b.type:
        return Judgement("changed", f"type {_short(a.type)} → {_short(b.type)}", math.inf)
    if a.labels != b.labels and not any("without its index" in (value.note or "") for value in (a, b)):  # unread
        if a.labels is None or b.labels is None or len(a.labels) != len(b.labels):
            return Judgement("changed", "its row labels differ", math.inf)
        pairs = enumerate(zip(a.labels, b.labels, strict=True))
        row, (x, y) = next((row, pair) for row, pair in pairs if pair[0] != pair[1])
        return Judgement("changed", f"label of row {row}: {summary(x, SHOWN)} → {summary(y, SHOWN)}", math.inf)
    if a.tensor is not None and b.tensor is not None:
        return _judge_tensors(a.tensor, b.tensor, context)
    if a.items is not None or a.entries is not None or b.items is not None or b.entries is not None:
        return _judge_containers(a, b, context)
    if a.length == b.length and alike((a.value, a.text), (b.value, b.text)):
        return SAME  # only a note differs, or an address
    if a.type == "complex" and a.text is not None and b.text is not None:
        with suppress(ValueError):  # a trace that another program wrote
            if complex(a.text) == complex(b.text):  # a part is 0.0 in one and -0.0 in the other
                return SAME
    return Judgement("changed", " → ".join(values_apart(a, b, SHOWN)), math.inf)


def _short(text: str) -> str:
    return formats.one_line(text, SHOWN)


# --- addresses ------------------------------------------------------------------------------------

# 0x7f3a5c0012d0, 139888000176848, 139,888,000,176,848
_ADDRESS = re.compile(r"\b0[xX]0{0,4}[0-9a-fA-F]{9,12}\b|\b\d{14,15}\b|\b\d{2,3}(?:,\d{3}){4}\b")
_ADDRESSES = range(2**46, 2**48)  # where Linux maps libraries, heap and stack
_ROUND = 1024  # large counts are nearly always multiples of it, such as 2⁴⁷ or 1.4 · 10¹⁴, and addresses rarely
_APART = 2**44  # most bytes between the same thing in two processes


def is_address(value: Value) -> bool:
    """Return whether a value is an integer that the recorder knew as an address, which it labels."""
    return value.type == "int" and (value.text or "").startswith(ADDRESS)


def alike(a: object, b: object) -> bool:
    """Return whether two texts, or data with texts, are equal but for addresses, which differ between processes."""
    if a == b:
        return True
    x, y = (side if isinstance(side, str) else json.dumps(to_plain(side), sort_keys=True) for side in (a, b))
    if _ADDRESS.sub("", x) != _ADDRESS.sub("", y):
        return False
    for one, other in zip(_ADDRESS.findall(x), _ADDRESS.findall(y), strict=True):
        m, n = (int(text.replace(",", ""), 16 if "x" in text.lower() else 10) for text in (one, other))
        in_hex = "x" in one.lower() and "x" in other.lower()
        as_addresses = all(number in _ADDRESSES and number % 8 == 0 and number % _ROUND for number in (m, n))
        if m != n and not (in_hex or (as_addresses and abs(m - n) < _APART)):
            return False
    return True


# --- numbers --------------------------------------------------------------------------------------


def _judge_numbers(a: Value, b: Value, context: Context) -> Judgement:
    x, y = a.value, b.value
    if x is None and y is None and (a.text == b.text or (is_address(a) and is_address(b))):
        return SAME
    if x is None or y is None or isinstance(x, str) or isinstance(y, str):
        return Judgement("changed", " → ".join(values_apart(a, b, SHOWN)), math.inf)
    if a.type != b.type:
        return Judgement("changed", f"type {a.type} → {b.type}", _relative(x, y))
    if x == y or (x != x and y != y):
        return SAME
    size = _relative(x, y)
    detail = f"{' → '.join(numbers_apart(x, y, a.unit))}{_percent(size)}"
    if context.peaks[0].get(x, x) == context.peaks[1].get(y, y):
        return Judgement("noise", f"{VARIES}: a peak that each trace measured", size)
    if a.type == "float" and context.is_close(x, y, _float_dtype(x, y)):
        return Judgement("noise", f"{ROUNDING}: {detail}, within {_float_dtype(x, y)}'s tolerance", size)
    return Judgement("changed", detail, size)


def _float_dtype(x: float, y: float) -> str:
    """Return float32 if both floats are exactly representable in it, as those from `.item()` are, else float64.

    A float32 has 24 bits for its digits and 8 for its exponent.
    """
    for number in (x, y):
        try:
            if not math.isfinite(number) or number == 0:
                continue
            mantissa, exponent = math.frexp(number)
        except OverflowError:  # an integer beyond the range of floats
            return "float64"
        if not -125 <= exponent <= 128 or not (mantissa * 2**24).is_integer():
            return "float64"
    return "float32"


def _relative(x: float, y: float) -> float:
    """Return |y − x| / |x|; infinite if the result is not a number."""
    try:
        size = abs(y - x) / abs(x)
    except (ZeroDivisionError, OverflowError):
        return math.inf
    return size if math.isfinite(size) else math.inf


def _percent(size: float) -> str:
    """Format a relative difference in brackets; "" if it carries no information."""
    return f" ({formats.percent(size)})" if math.isfinite(size) and size < 1e6 else ""


# --- tensors --------------------------------------------------------------------------------------


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


def _judge_tensors(a: Tensor, b: Tensor, context: Context) -> Judgement:
    """Compare the metadata and the recorded elements: all of them, or a corner and statistics."""
    dtype = a.dtype if a.dtype == b.dtype else max(a.dtype, b.dtype)
    judgement = SAME
    if a.shape == b.shape:
        if a.elements is not None and b.elements is not None:
            judgement = _judge_many(a.elements, b.elements, a.shape, dtype, context)
        elif a.corner is not None and b.corner is not None and a.corner_shape == b.corner_shape:
            judgement = _judge_many(a.corner, b.corner, a.corner_shape or [], dtype, context)
        if judgement.verdict != "changed" and a.statistics is not None and b.statistics is not None:
            of_statistics = _judge_statistics(a.statistics, b.statistics, dtype, context)
            judgement = of_statistics if of_statistics.is_graver(judgement) else judgement
    metadata = list(_metadata(a, b, context))
    if not metadata:
        return judgement
    details = [*metadata, *([judgement.detail] if judgement.detail and judgement.verdict == "changed" else [])]
    return Judgement("changed", "; ".join(details), math.inf)


def _judge_many(
    a: Sequence[Element], b: Sequence[Element], shape: Sequence[int], dtype: str, context: Context
) -> Judgement:
    """Compare elements one by one, in row-major order of `shape`."""
    if len(a) != len(b):
        return Judgement("changed", "different numbers of elements were recorded", math.inf)
    changed, rounded, worst, position = 0, 0.0, -1.0, 0
    for number, (x, y) in enumerate(zip(a, b, strict=True)):
        verdict, size = _judge_element(x, y, dtype, context)
        if verdict == "changed":
            changed += 1
            if size > worst:
                worst, position = size, number
        elif verdict == "noise":
            rounded = max(rounded, size)
    if changed:
        x, y = a[position], b[position]
        texts = element(x), element(y)  # written as in tensors, or with the digits that differ
        if texts[0] == texts[1]:
            numbers = isinstance(x, (int, float)) and isinstance(y, (int, float))
            texts = numbers_apart(x, y) if numbers else (str(x), str(y))  # type: ignore[arg-type]
        detail = " → ".join(texts) + _percent(worst)
        if len(a) > 1:
            index, quotient = list[int](), position
            for length in reversed(shape):
                quotient, remainder = divmod(quotient, length)
                index.insert(0, remainder)
            where = f" at {formats.shape(index)}" if shape else ""
            verb = "differs" if changed == 1 else "differ"
            detail = f"{changed:,} of {len(a):,} elements {verb}, by the most{where}: {detail}"
        return Judgement("changed", detail, worst)
    if rounded:
        detail = f"{ROUNDING}: by {formats.number(rounded, 2)} at most, within {dtype}'s tolerance"
        return Judgement("noise", detail, rounded)
    return SAME


def _judge_element(a: Element, b: Element, dtype: str, context: Context) -> tuple[Verdict, float]:
    """Compare two elements; return the verdict and the relative difference."""
    if a == b and type(a) is type(b):
        return "same", 0.0
    if isinstance(a, list) and isinstance(b, list):
        parts = [_judge_element(x, y, dtype, context) for x, y in zip(a, b, strict=True)]
        return max((verdict for verdict, _ in parts), key=ORDER.index), max(size for _, size in parts)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        if a == b or (a != a and b != b):
            return "same", 0.0
        return ("noise" if context.is_close(a, b, dtype) else "changed"), _relative(a, b)
    return "changed", math.inf


def _judge_statistics(a: Statistics, b: Statistics, dtype: str, context: Context) -> Judgement:
    """Compare counts exactly, and extremes, mean and deviation within tolerance of the largest element.

    Sums of many elements round as the largest of them does.
    """
    for name in ("nan", "inf"):
        if getattr(a, name) != getattr(b, name):
            return Judgement("changed", f"{getattr(a, name):,} → {getattr(b, name):,} {name}", math.inf)
    judgement, largest = SAME, max(abs(a.min or 0), abs(a.max or 0))
    for name in ("min", "max", "mean", "std"):
        x, y = getattr(a, name), getattr(b, name)
        if x is None or y is None:
            continue
        verdict, size = _judge_element(x, y, dtype, context)
        distance = abs(y - x)
        if verdict == "changed" and math.isfinite(distance) and context.is_close(largest, largest + distance, dtype):
            verdict = "noise"
        if verdict == "changed":
            return Judgement("changed", f"{name} {' → '.join(numbers_apart(x, y))}", size)
        if verdict == "noise" and size:
            judgement = Judgement("noise", f"{ROUNDING}: {name} within tolerance", size)
    if judgement.verdict == "same" and (a.zero, a.histogram) != (b.zero, b.histogram):
        return Judgement("changed", f"{a.zero:,} → {b.zero:,} zeros" if a.zero != b.zero else "the histograms differ")
    return judgement


# --- containers -----------------------------------------------------------------------------------


def _judge_containers(a: Value, b: Value, context: Context) -> Judgement:
    if a.length != b.length:
        return Judgement("changed", f"{a.length} → {b.length} entries", math.inf)
    parts_a, parts_b = list(_parts(a)), list(_parts(b))
    if len(parts_a) != len(parts_b):
        noun = "fields" if a.length is None else "entries"
        return Judgement("changed", f"different numbers of {noun} were recorded", math.inf)
    worst = SAME
    for (name, x), (other, y) in zip(parts_a, parts_b, strict=True):
        if not alike(name, other):
            return Judgement("changed", f"key {_short(name)} → {_short(other)}", math.inf)
        judgement = judge(x, y, context)
        if judgement.is_graver(worst):
            detail = judgement.detail if judgement.verdict == "noise" else f"{_short(name)}: {judgement.detail or ''}"
            worst = replace(judgement, detail=detail)
    return worst


def _parts(value: Value) -> Iterator[tuple[str, Value]]:
    """Yield a container's items by name, and a set's in sorted order, because sets are unordered."""
    items = value.items or []
    if value.type in ("set", "frozenset"):
        items = sorted(items, key=lambda item: json.dumps(to_plain(item), sort_keys=True))
    yield from ((f"[{index}]", item) for index, item in enumerate(items))
    yield from ((ADDRESS if is_address(key) else summary(key, SHOWN), item) for key, item in value.entries or [])
