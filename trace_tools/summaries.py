"""A recorded value → one line that says what it was, and the parts a closer look shows.

summary(Value("tensor", tensor=Tensor("float32", [4, 4], "cpu", bytes=64, …)))  "f32[4, 4] · 64 B"
summary(Value("float", value=6.3e24, unit="FLOP"))                              "6.3e24 FLOP"
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice, product

from trace_tools import formats, shapes
from trace_tools.file_format.structure import LARGEST_FLOAT
from trace_tools.schema import Claim, Element, Scalar, Tensor, Value

LINE = 96  # characters of a summary
WHOLE = 4_000  # characters of a value shown in full in its details
NOT_KEPT = "not kept: the run has too many values"  # the note of a value that is only its type and its shape
LEFT_OUT_IN_WORDS = {  # `schema.LeftOut.what`
    "stdout": "more characters that were printed",
    "narrative": "more calls of the lecture's vocabulary",
    "warnings": "more warnings",
    "measured": "more measurements",
    "claim": "more claims that failed in calls that were not recorded",
}
BOTH = 24  # characters of a side that need not be written twice
INLINE_ELEMENTS = 6  # of a one-dimensional tensor, beside its shape
GRIDS, GRID_ROWS, GRID_COLUMNS = 8, 16, 12
SMALL_SIDE = 8  # rows and columns of a matrix whose elements are shown without being asked for

_OPERATORS: dict[type[ast.cmpop], str] = {
    **{ast.Eq: "==", ast.NotEq: "≠", ast.Lt: "<", ast.LtE: "≤", ast.Gt: ">", ast.GtE: "≥"},
    **{ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"},
}
_STRICT = frozenset({"≠", "<", ">"})
_BRACKETS = {"list": ("[", "]"), "tuple": ("(", ")"), "set": ("{", "}"), "dict": ("{", "}")}


def summary(value: Value, limit: int = LINE) -> str:
    """Say in one line what a value was, and how it varied."""
    return formats.one_line(" · ".join([_range_or_text(value, limit), *_marks(value)]), limit)


def _range_or_text(value: Value, limit: int) -> str:
    found = _range(value.samples, value.unit) if value.varies and value.samples else None
    return found or _what(value, limit)


def _marks(value: Value) -> list[str]:
    known = (("varies", value.varies), ("follows from a clock", value.clock), ("device-random", value.device_random))
    marks = [mark for mark, on in known if on]
    return [*marks, value.note] if value.note and value.type != "error" else marks


@dataclass(frozen=True, slots=True)
class _Inside:
    """What a container says of the numbers in it: their unit, and whether its bytes count in powers of ten."""

    unit: str | None
    decimal: bool


def _what(value: Value, limit: int, inside: _Inside | None = None) -> str:
    if value.tensor is not None:
        return tensor_summary(value.tensor)
    if value.type == "none":
        return "None"
    if value.type == "error":
        return formats.one_line(value.text or "could not be evaluated", limit)
    if isinstance(value.value, str):
        return _string(value.value, value.length or 0, limit)
    if isinstance(value.value, bool):
        return formats.number(value.value)
    if isinstance(value.value, (int, float)):
        if inside is None or inside.unit is not None:
            unit, decimal = (value.unit, None) if inside is None else (inside.unit, inside.decimal)
            return formats.quantity(value.value, unit, decimal=decimal)
        return formats.number(value.value).replace(",", "_")  # as in Python: a comma there is between two entries
    if value.items is not None or value.entries is not None:
        if inside is None:
            counts = [*_numbers(value)] if value.unit in formats.BYTE_UNITS else []
            inside = _Inside(value.unit, formats.is_decimal(counts))
        return _container(value, limit, inside)
    text = f"<{value.type}>" if value.text is None else formats.spoken(value.type, value.text)
    return formats.one_line(text, limit)


def _string(text: str, length: int, limit: int) -> str:
    quoted = repr(formats.visible(text[:limit])).replace("\\\\u", "\\u")
    cut = len(text) > limit or length > len(text)
    return f"{formats.shorten(quoted, limit - 24)} ({length or len(text):,} characters)" if cut else quoted


def _numbers(value: Value) -> Iterator[int | float]:
    """Yield the numbers in a container, however deep."""
    if isinstance(value.value, (int, float)):
        yield value.value
    for item in [*(value.items or []), *(item for _, item in value.entries or [])]:
        yield from _numbers(item)


def _container(value: Value, limit: int, inside: _Inside) -> str:
    """Write the entries that fit; one that is cut short says at the outermost level how many there are."""
    if (why := _why_empty(value)) is not None:
        return formats.one_line(f"{value.type}: {why}", limit)
    opening, closing = _BRACKETS.get(value.type, (f"{formats.one_line(value.type, 30)}(", ")"))
    parts = list(_parts(value, limit // 2, inside))
    length = value.length if value.length is not None else len(parts)
    used = list(accumulate(len(part) + 2 for part in parts))  # characters up to each
    whole = len(parts) == length and (not used or used[-1] <= limit)
    if not whole:  # the first one at least, if it is short
        parts = [*(part for part, end in zip(parts, used, strict=True) if end <= max(limit - 28, 12)), "…"]
    comma = "," if value.type == "tuple" and length == 1 and whole else ""
    text = opening + ", ".join(parts) + comma + closing
    return text if whole or limit < LINE // 3 else f"{text} ({length:,} entries)"


def _why_empty(value: Value) -> str | None:
    """Return the reason where an object's first field is None and its field `why` says why: a `Count` of nothing."""
    entries = value.entries or [] if value.type != "dict" else []
    reasons = [item.value for key, item in entries if key.value == "why" and isinstance(item.value, str)]
    return reasons[0] if reasons and entries[0][1].type == "none" else None


def _parts(value: Value, limit: int, inside: _Inside) -> Iterator[str]:
    for item in value.items or []:
        yield _what(item, limit, inside)
    equals = ": " if value.type == "dict" else "="
    for key, item in value.entries or []:
        name = _what(key, limit, _Inside(None, False))
        yield f"{name if value.type == 'dict' else name.strip(chr(39))}{equals}{_what(item, limit, inside)}"


def _range(samples: Sequence[Scalar], unit: str | None) -> str | None:
    """Write the smallest and largest of a varying number's samples: 0.31 … 0.35."""
    numbers = [s for s in samples if isinstance(s, (int, float)) and not isinstance(s, bool)]
    if not numbers or len(numbers) < len(samples) or not all(abs(n) < LARGEST_FLOAT for n in numbers):
        return None
    least, most = min(numbers), max(numbers)
    digits = formats.digits_apart(least, most)
    decimal = formats.is_decimal((least, most))
    ends = (
        formats.quantity(n, unit, digits, decimal=decimal) if unit else formats.number(n, digits) for n in (least, most)
    )
    return " … ".join(dict.fromkeys(ends))


def tensor_summary(tensor: Tensor) -> str:
    """Write dtype and shape, the elements when they are very few, and what is out of the ordinary."""
    text = formats.dtype(tensor.dtype) + formats.shape(tensor.shape)
    elements = tensor.elements
    if elements is not None and not tensor.shape and elements:
        text = f"{element(elements[0])} {text}"
    elif elements is not None and len(tensor.shape) == 1 and len(elements) <= INLINE_ELEMENTS:
        text += " = [" + ", ".join(element(e) for e in elements) + "]"
    extra = []
    if tensor.strides is not None and tensor.contiguous is False:
        extra.append(f"strides ({formats.sizes(tensor.strides)})")
    if tensor.layout != "strided":
        extra.append(tensor.layout)
    if tensor.bytes is not None and tensor.bytes >= 64:
        extra.append(formats.byte_size(tensor.bytes))
    return " · ".join([text, *extra])


def element(value: Element) -> str:
    """Write one element: integers as they are, floats to 4 significant digits, complex as a+bj."""
    if isinstance(value, list):
        return f"{element(value[0])}{'' if value[1] < 0 else '+'}{element(value[1])}j"
    if value is None:
        return "–"
    if isinstance(value, str):
        return formats.one_line(value, 24)
    if isinstance(value, float) and math.isfinite(value) and value == int(value) and abs(value) < 1e6:
        return f"{int(value)}." if value or math.copysign(1, value) > 0 else "-0."
    return formats.number(value, 4).replace(",", "")


def grids(tensor: Tensor) -> list[tuple[str, list[list[str]]]]:
    """Return the recorded elements as rows of text, one grid per matrix: ("[0, :, :]", rows).

    A dimension that is cut short ends in "…". A tensor of rank 0 or 1 is one row.
    """
    recorded = tensor.elements if tensor.elements is not None else tensor.corner
    sizes = tensor.shape if tensor.elements is not None else tensor.corner_shape
    if not recorded or sizes is None or shapes.count(sizes, len(recorded)) != len(recorded):
        return []
    lead, rows, columns = sizes[:-2], sizes[-2] if len(sizes) > 1 else 1, sizes[-1] if sizes else 1
    result = []
    for count, index in enumerate(islice(product(*map(range, lead)), GRIDS)):
        label = f"[{formats.sizes(index)}, :, :]" if lead else ""
        start = count * rows * columns
        result.append((label, _grid(tensor, recorded[start : start + rows * columns], rows, columns)))
    return result


def is_small(value: Value) -> bool:
    """Whether a value is a matrix so small that its elements are shown at once."""
    tensor = value.tensor
    if tensor is None or tensor.elements is None or len(tensor.shape) != 2:
        return False
    return 0 < tensor.shape[0] <= SMALL_SIDE and 0 < tensor.shape[1] <= SMALL_SIDE


def _grid(tensor: Tensor, elements: Sequence[Element], rows: int, columns: int) -> list[list[str]]:
    shown_rows, shown_columns = min(rows, GRID_ROWS), min(columns, GRID_COLUMNS)
    whole_rows = tensor.shape[-2] if len(tensor.shape) > 1 else 1
    whole_columns = tensor.shape[-1] if tensor.shape else 1
    grid = [
        [element(e) for e in elements[row * columns : row * columns + shown_columns]]
        + (["…"] if shown_columns < whole_columns else [])
        for row in range(shown_rows)
    ]
    if shown_rows < whole_rows:
        grid.append(["⋮"] * (shown_columns + (shown_columns < whole_columns)))
    return grid


def facts(value: Value) -> list[tuple[str, str]]:
    """Return what a closer look at a value shows, as (name, text)."""
    found: list[tuple[str, str]] = []
    if value.tensor is not None:
        found += _tensor_facts(value.tensor)
    exact = _exactly(value)
    if isinstance(value.value, str) and len(repr(value.value)) > LINE - 24:
        found.append(("text", formats.visible(formats.shorten(value.value, WHOLE))))
    elif exact is not None:
        if exact != summary(value):
            found.append(("exactly", exact + (f" {value.unit}" if value.unit else "")))
    elif value.text is not None and len(value.text) > LINE - 24:
        found.append(("text", formats.visible(formats.shorten(value.text, WHOLE))))
    for name, samples in (("samples", value.samples), ("first runs", value.cold_samples)):
        if samples:
            found.append((name, ", ".join(_sample(s) for s in samples[:40])))
    if value.items or value.entries:
        found += _entries(value)
    return found


def side_text(value: Value) -> str:
    """Write one side of a claim that failed: as a line shows it, and to the last digit where that says more."""
    text, exact = summary(value), _exactly(value)
    return f"{text} (exactly {exact})" if exact is not None and exact != text.replace(",", "") else text


def _exactly(value: Value) -> str | None:
    """Write a number to its last digit; None where there is none."""
    number = value.value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    if isinstance(number, int) and number.bit_length() > 1_000:
        return f"an integer of {number.bit_length():,} bits"
    return repr(number)


def _sample(sample: Scalar) -> str:
    if isinstance(sample, (int, float)) and not isinstance(sample, bool):
        return formats.number(sample, 6)
    return formats.one_line(repr(sample)[:200], 60)


def _entries(value: Value) -> list[tuple[str, str]]:
    """List a container's entries when its summary could not hold them."""
    whole = summary(value, 10**6)
    if "…" not in whole and len(whole) <= LINE:
        return []
    keyed = [(_what(key, 40), item) for key, item in value.entries or []]
    numbered = [(f"[{place}]", item) for place, item in enumerate(value.items or [])]
    return [(formats.one_line(name, 40), summary(item)) for name, item in (keyed + numbered)[:40]]


def _tensor_facts(tensor: Tensor) -> list[tuple[str, str]]:
    found = [("dtype", formats.visible(formats.shorten(tensor.dtype, 40))), ("shape", formats.shape(tensor.shape))]
    if tensor.strides is not None:
        order = "" if tensor.contiguous is None else " (contiguous)" if tensor.contiguous else " (not contiguous)"
        found.append(("strides", f"({formats.sizes(tensor.strides)}){order}"))
    if tensor.offset:
        found.append(("offset", str(tensor.offset)))
    if tensor.bytes is not None:
        found.append(("size", f"{formats.byte_size(tensor.bytes)} ({tensor.bytes:,} bytes)"))
    if tensor.storage is not None:
        size = f", {formats.byte_size(tensor.storage_bytes)}" if tensor.storage_bytes is not None else ""
        found.append(("storage", formats.one_line(tensor.storage, 30) + size))
    found.append(("device", formats.one_line(tensor.device, 30)))
    if tensor.requires_grad:
        found.append(("requires_grad", "True"))
    stats = tensor.statistics
    if stats is None:
        return found
    if stats.min is not None and stats.max is not None:
        found.append(("range", f"{formats.number(stats.min, 4)} … {formats.number(stats.max, 4)}"))
    if stats.mean is not None:
        deviation = f", standard deviation {formats.number(stats.std, 4)}" if stats.std is not None else ""
        found.append(("mean", formats.number(stats.mean, 4) + deviation))
    odd = [f"{count:,} {name}" for name in ("nan", "inf", "zero") if (count := getattr(stats, name))]
    return [*found, ("among them", ", ".join(odd))] if odd else found


def claim_summary(claim: Claim, limit: int = LINE) -> str:
    """Write both sides of a claim as they were: `6.0 == 6.0`; a claim of another form, part by part."""
    operators = _comparison(claim.source)
    sides = [summary(value, limit // 2) for _, value in claim.sides]
    if not claim.held and len(sides) == 2 and sides[0] == sides[1]:  # they differ where four digits don't show it
        sides = [_exactly(value) or side for (_, value), side in zip(claim.sides, sides, strict=True)]
        return formats.one_line(f" {operators[0] if operators else 'and'} ".join(sides), limit)
    if operators and len(sides) == len(operators) + 1:
        if operators == ["=="] and sides[0] == sides[1] and len(sides[0]) > BOTH:
            return formats.one_line(f"both {summary(claim.sides[0][1], limit - 8)}", limit)
        # The comparison as it was, and behind it what is to be said of its sides: `9.1 … 10.1 > 1 · varies`.
        told = [formats.one_line(_range_or_text(value, limit // 2), limit // 2) for _, value in claim.sides]
        for place, op in enumerate(operators):  # 3 < 3.00002: to the last digit where fewer don't show it
            if op in _STRICT and told[place] == told[place + 1]:
                ends = slice(place, place + 2)
                told[ends] = [_exactly(value) or told[place] for _, value in claim.sides[ends]]
        first, *others = told
        line = first + "".join(f" {op} {side}" for op, side in zip(operators, others, strict=True))
        marks = dict.fromkeys(mark for _, value in claim.sides for mark in _marks(value))
        return formats.one_line(" · ".join([line, *marks]), limit)
    named = [f"{formats.one_line(name, 40)} = {side}" for (name, _), side in zip(claim.sides, sides, strict=True)]
    return formats.one_line(", ".join(named), limit)


def tells_nothing_new(claim: Claim) -> bool:
    """Whether a claim that held says all that its sides were: `x == 6` was 6, `x.is_contiguous()` was true."""
    ordered = {"<", "<=", ">", ">="}.intersection(_comparison(claim.source))
    return claim.held and (not ordered or claim_summary(claim) in ("", claim.source))


@lru_cache(maxsize=4096)  # each claim is written on a page, in Markdown, beside other machines
def _comparison(source: str) -> list[str]:
    """Return the operators when the claim is one comparison, however long its chain."""
    try:
        node = ast.parse(source.strip(), mode="eval").body if len(source) < 2_000 else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [_OPERATORS[type(op)] for op in node.ops] if isinstance(node, ast.Compare) else []
