"""Summarise a recorded value in one line, and list the details of a closer view.

summary(Value("tensor", tensor=Tensor("float32", [4, 4], "cpu", bytes=64, …)))  "f32[4, 4] · 64 B"
summary(Value("float", value=6.3e24, unit="FLOP"))                              "6.3e24 FLOP"
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice, product

from trace_tools.trace.model import LARGEST_FLOAT, Claim, Element, Step, Tensor, Value
from trace_tools.util import formats

LINE = 96  # characters of a summary
WHOLE = 4_000  # characters of a value shown in full in its details
LEFT_OUT_IN_WORDS = {  # `model.LeftOut.what`
    "stdout": "more characters that were printed",
    "narrative": "more calls of the lecture's vocabulary",
    "warnings": "more warnings",
    "measured": "more measurements",
}
BOTH = 24  # longest side of a claim that is written twice although both sides are equal
INLINE_ELEMENTS = 6  # most elements of a one-dimensional tensor next to its shape
GRIDS, GRID_ROWS, GRID_COLUMNS = 8, 16, 12
SMALL_SIDE = 8  # rows and columns of a small matrix; a player shows its elements next to its name
FRAME_ROWS, FRAME_COLUMNS = 5, 8  # the part of a frame that is shown

_OPERATORS: dict[type[ast.cmpop], str] = {
    **{ast.Eq: "==", ast.NotEq: "≠", ast.Lt: "<", ast.LtE: "≤", ast.Gt: ">", ast.GtE: "≥"},
    **{ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"},
}
_STRICT = frozenset({"≠", "<", ">"})
_BRACKETS = {"list": ("[", "]"), "tuple": ("(", ")"), "set": ("{", "}"), "dict": ("{", "}")}


def calls_left_out(calls: int, function: str, beyond: str) -> str:
    """Report how many calls of a function a run did not keep."""
    return f"{calls:,} further calls of {function}, beyond {beyond}"


def left_out(steps: Iterable[Step]) -> Counter[str]:
    """Count the output of steps beyond the kept part, by the phrase that names it."""
    counts: Counter[str] = Counter()
    for step in steps:
        for part in step.left_out or ():
            counts[LEFT_OUT_IN_WORDS.get(part.what, "more")] += part.count
    return +counts


def summary(value: Value, limit: int = LINE) -> str:
    """Describe a value and its variation in one line."""
    return formats.one_line(" · ".join([_range_or_text(value, limit), *_marks(value)]), limit)


def _range_or_text(value: Value, limit: int) -> str:
    """Write the smallest and largest of a varying number's samples, 0.31 … 0.35; other values unchanged."""
    samples = value.samples or [] if value.varies else []
    numbers = [s for s in samples if isinstance(s, (int, float)) and not isinstance(s, bool)]
    if not numbers or len(numbers) < len(samples) or not all(abs(n) < LARGEST_FLOAT for n in numbers):
        return _text(value, limit)
    ends = min(numbers), max(numbers)
    digits, decimal = formats.digits_apart(*ends), formats.is_decimal(ends)
    texts = (formats.quantity(n, value.unit, digits, decimal=decimal) for n in ends)
    return " … ".join(dict.fromkeys(texts if value.unit else (formats.number(n, digits) for n in ends)))


def _marks(value: Value) -> list[str]:
    marks = ["varies"] * value.varies
    return [*marks, value.note] if value.note and value.type != "error" else marks


def _text(value: Value, limit: int, unit: str | None = None, *, inside: bool = False) -> str:
    """Write a value; the numbers inside a container have its unit."""
    unit = unit if inside else value.unit
    if is_frame(value):  # its shape, and the names and dtypes of as many columns as fit
        rows, width = frame_shape(value)
        shape = f"{width} columns" if rows is None else f"{rows:,} × {width:,}"
        text = f"{value.type} {shape}"
        columns = [f"{_name(name)} {_dtype_of(column)}" for name, column in value.entries or []]
        kept = [end for end in accumulate(len(column) + 2 for column in columns) if len(text) + end + 4 <= limit]
        more = [] if len(kept) == width else ["…"]
        return text + (" · " + ", ".join([*columns[: len(kept)], *more]) if kept else "")
    if value.tensor is not None:
        labels, elements = value.labels or [], value.tensor.elements
        if elements is None or len(value.tensor.shape) != 1 or not 0 < len(labels) <= INLINE_ELEMENTS:
            return tensor_summary(value.tensor)
        # a short series with an index of its own, as a mapping: f64[2] = {people: 170429, area: 109.4}
        texts = zip(labels, _aligned(elements, 1), strict=False)
        pairs = ", ".join(f"{_name(label)}: {text}" for label, text in texts)
        return f"{formats.dtype(value.tensor.dtype)}{formats.shape(value.tensor.shape)} = {{{pairs}}}"
    if value.type == "none":
        return "None"
    if value.type == "error":
        return formats.one_line(value.text or "could not be evaluated", limit)
    if isinstance(value.value, str):
        length = value.length or 0
        quoted = repr(value.value[:limit]).replace("\\\\u", "\\u")
        cut = len(value.value) > limit or length > len(value.value)
        return f"{formats.shorten(quoted, limit - 24)} ({length or len(value.value):,} characters)" if cut else quoted
    if isinstance(value.value, bool):
        return str(value.value)
    if isinstance(value.value, (int, float)):
        if inside and unit is None:
            return formats.number(value.value).replace(",", "_")  # as in Python, because a comma separates entries
        return formats.quantity(value.value, unit)
    if value.items is not None or value.entries is not None:
        return _container(value, limit, unit)
    text = f"<{value.type}>" if value.text is None else formats.shown_repr(value.type, value.text)
    return formats.one_line(text, limit)


def _container(value: Value, limit: int, unit: str | None) -> str:
    """Write the entries that fit; the outermost level of a shortened container shows the number of entries."""
    # if the first field is None, the field `why` explains it, as in a `Count` without operators
    entries = value.entries or [] if value.type != "dict" else []
    reasons = [item.value for key, item in entries if key.value == "why" and isinstance(item.value, str)]
    if reasons and entries[0][1].type == "none":
        return formats.one_line(f"{value.type}: {reasons[0]}", limit)
    opening, closing = _BRACKETS.get(value.type, (f"{value.type}(", ")"))
    parts = [_text(item, limit // 2, unit, inside=True) for item in value.items or []]
    for key, item in value.entries or []:
        name = f"{_text(key, limit // 2, inside=True)}: " if value.type == "dict" else f"{_name(key)}="
        parts.append(name + _text(item, limit // 2, unit, inside=True))
    length = value.length if value.length is not None else len(parts)
    used = list(accumulate(len(part) + 2 for part in parts))  # characters up to each
    complete = len(parts) == length and (not used or used[-1] <= limit)
    if not complete:  # at least the first entry, if it is short
        parts = [*(part for part, end in zip(parts, used, strict=True) if end <= max(limit - 28, 12)), "…"]
    comma = "," if value.type == "tuple" and length == 1 and complete else ""
    text = opening + ", ".join(parts) + comma + closing
    size = formats.plural(length, "field") if _has_fields(value) else f"{length:,} entries"
    return text if complete or limit < LINE // 3 else f"{text} ({size})"


def _has_fields(value: Value) -> bool:
    """Return whether the entries of a value are fields of an object; the entries of a mapping come with a length."""
    return value.entries is not None and value.length is None and value.type != "dict"


def _name(key: Value) -> str:
    """Return the name of a field or a column, without quotes."""
    return formats.one_line(key.value, 40) if isinstance(key.value, str) else _text(key, 40)


# --- frames and series ---


def is_frame(value: Value) -> bool:
    """Return whether a value is a DataFrame of pandas or polars; only these have columns and record their number."""
    return value.type.endswith("DataFrame") and value.length is not None and value.entries is not None


def frame_shape(value: Value) -> tuple[int | None, int]:
    """Return the numbers of rows and columns of a frame; rows are None if no column is known."""
    columns = [column for _, column in value.entries or []]
    return next((_rows_of(column) for column in columns), None), value.length or 0


def _rows_of(column: Value) -> int | None:
    return column.tensor.shape[0] if column.tensor is not None and column.tensor.shape else column.length


def _dtype_of(column: Value) -> str:
    if column.tensor is not None:
        return formats.dtype(column.tensor.dtype)
    dtype = (column.note or "").partition(";")[0]
    return dtype.removeprefix("dtype ") if dtype.startswith("dtype ") else "?"


@dataclass(frozen=True, slots=True)
class ElementGrid:
    """Rows of texts under a label; the first `heads` of them, and then the first cell of each row, are headings."""

    label: str
    rows: list[list[str]]
    heads: int = 0


def tables(value: Value) -> list[ElementGrid]:
    """Return the elements for a closer view of a value, such as a frame's first rows or a tensor's matrices."""
    rows = frame_grid(value)
    if rows is not None:
        return [ElementGrid("", rows, 2 if is_frame(value) else 1)]
    if value.tensor is None or not value.tensor.shape:
        return []
    alone = len(value.tensor.shape) == 1 and len(value.tensor.elements or ()) <= INLINE_ELEMENTS
    if alone and value.tensor.elements is not None:  # the line shows them
        return []
    return [ElementGrid(label, rows) for label, rows in grids(value.tensor)]


def frame_grid(value: Value) -> list[list[str]] | None:
    """Return the first rows of a frame, or of a series with an index, below names and dtypes; None without rows."""
    if is_frame(value):
        columns = [(_name(name), column) for name, column in value.entries or []]
    elif value.labels and (value.tensor is not None or value.items is not None):
        columns = [("", value)]
    else:
        return None
    width = value.length if is_frame(value) else 1
    shown = columns[:FRAME_COLUMNS]
    cells = [_column_texts(column) for _, column in shown]
    high, rows = max(map(len, cells), default=0), _rows_of(shown[0][1]) if shown else 0
    if not high:
        return None
    labels = [_name(label) for label in value.labels or []] if value.labels is not None else map(str, range(high))
    more = ["…"] if (width or 0) > len(shown) else []
    grid = [["", *(name for name, _ in shown), *more]] if is_frame(value) else []
    grid.append(["", *(_dtype_of(column) for _, column in shown), *more])
    grid += [
        [label, *(column[row] if row < len(column) else "" for column in cells), *more]
        for row, label in zip(range(high), labels, strict=False)
    ]
    return [*grid, ["⋮"] * len(grid[0])] if (rows or 0) > high else grid


def _column_texts(column: Value) -> list[str]:
    """Return the first elements of a column as texts."""
    if column.tensor is not None:
        elements = column.tensor.elements if column.tensor.elements is not None else column.tensor.corner or []
        if column.tensor.dtype.startswith("datetime64"):
            return _times([str(e) for e in elements[:FRAME_ROWS]])
        return _aligned(elements[:FRAME_ROWS], 1)
    items = column.items or []
    texts = (item.value if isinstance(item.value, str) else _text(item, 40) for item in items[:FRAME_ROWS])
    empty = (item.type == "none" for item in items)
    return ["–" if none else formats.one_line(text, 40) for none, text in zip(empty, texts, strict=False)]


def _times(texts: Sequence[str]) -> list[str]:
    """Write the dates of a column, with the time of day only if any time is not midnight, and no empty fractions."""
    for ending in (r"T00:00(:00(\.0+)?)?$", r"\.0+$"):
        if all(re.search(ending, text) for text in texts if text != "NaT"):
            texts = [re.sub(ending, "", text) for text in texts]
    return [text.replace("T", " ") if text != "NaT" else text for text in texts]


def tensor_summary(tensor: Tensor) -> str:
    """Write dtype and shape, the elements if they are very few, and unusual properties."""
    text = formats.dtype(tensor.dtype) + formats.shape(tensor.shape)
    elements = tensor.elements
    if elements is not None and not tensor.shape and elements:
        text = f"{element(elements[0])} {text}"
    elif elements is not None and len(tensor.shape) == 1 and len(elements) <= INLINE_ELEMENTS:
        days = tensor.dtype.startswith("datetime64")
        shown = _times([str(e) for e in elements]) if days else [element(e) for e in elements]
        text += f" = [{', '.join(shown)}]"
    extra = []
    if tensor.strides is not None and tensor.contiguous is False:
        extra.append(f"strides ({formats.sizes(tensor.strides)})")
    if tensor.layout != "strided":
        extra.append(tensor.layout)
    if tensor.bytes is not None and tensor.bytes >= 64:
        extra.append(formats.byte_size(tensor.bytes))
    return " · ".join([text, *extra])


def element(value: Element) -> str:
    """Write one element: integers in full, floats to 4 significant digits, complex as a+bj."""
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
    if not recorded or sizes is None:
        return []
    outer, (rows, columns), whole = sizes[:-2], [1, 1, *sizes][-2:], [1, 1, *tensor.shape][-2:]
    shown_rows, shown_columns = min(rows, GRID_ROWS), min(columns, GRID_COLUMNS)
    more = ["…"] if shown_columns < whole[1] else []
    result = []
    for count, index in enumerate(islice(product(*map(range, outer)), GRIDS)):
        starts = (columns * (count * rows + row) for row in range(shown_rows))
        texts = _aligned([e for at in starts for e in recorded[at : at + shown_columns]], shown_columns)
        grid = [texts[at : at + shown_columns] + more for at in range(0, len(texts), shown_columns)]
        if shown_rows < whole[0]:
            grid.append(["⋮"] * len(grid[0]))
        result.append((f"[{formats.sizes(index)}, :, :]" if outer else "", grid))
    return result


def is_small(value: Value) -> bool:
    """Return whether a value is a matrix small enough to show all its elements, or a frame that shows its rows."""
    if is_frame(value):
        return frame_grid(value) is not None
    tensor = value.tensor
    if tensor is None or tensor.elements is None or len(tensor.shape) != 2:
        return False
    return all(0 < size <= SMALL_SIDE for size in tensor.shape)


def _aligned(elements: Sequence[Element], columns: int) -> list[str]:
    """Write the elements of a grid row by row, real numbers with the same decimals.

    If the sizes differ too much for that, each column has its own decimals, or powers of ten.
    """
    numbers = [e for e in elements if isinstance(e, (int, float)) and not isinstance(e, bool)]
    if len(numbers) < len(elements) or not any(isinstance(e, float) for e in numbers):
        return [element(e) for e in elements]
    texts = formats.aligned(numbers, 3 if columns > 1 else 5)  # of a matrix, or of data
    if texts is None and columns > 1:
        by_column = [_aligned(elements[index::columns], 1) for index in range(columns)]
        return [by_column[index % columns][index // columns] for index in range(len(elements))]
    if texts is None:
        return [formats.tidy_exponents(f"{e:.3e}") if e and abs(e) < 1e308 else element(e) for e in numbers]
    whole = all("." not in text for text in texts)  # "3." marks a float
    return [text.replace(",", "") + "." * (whole and math.isfinite(e)) for text, e in zip(texts, numbers, strict=True)]


def facts(value: Value) -> list[tuple[str, str]]:
    """Return the details for a closer view of a value, as (name, text)."""
    details: list[tuple[str, str]] = []
    if value.tensor is not None:
        details += _tensor_facts(value.tensor)
    if is_frame(value):
        columns_text = [f"{_name(name)} {_dtype_of(column)}" for name, column in (value.entries or [])[:40]]
        rows, columns = frame_shape(value)
        details.append(("rows", "unknown" if rows is None else f"{rows:,}"))
        details.append((f"{columns:,} columns", ", ".join(columns_text)))
    if isinstance(value.value, str) and len(repr(value.value)) > LINE - 24:
        details.append(("text", formats.shorten(value.value, WHOLE)))
    elif value.text is not None and (value.tensor is not None or len(value.text) > LINE - 24):
        details.append(("text", formats.shorten(value.text, WHOLE)))
    for name, samples in (("samples", value.samples), ("first runs", value.cold_samples)):
        if samples:
            texts = (
                formats.number(sample, 6)
                if isinstance(sample, (int, float)) and not isinstance(sample, bool)
                else formats.one_line(repr(sample)[:200], 60)
                for sample in samples[:40]
            )
            details.append((name, ", ".join(texts)))
    in_full = summary(value, 10**6) if (value.items or value.entries) and not is_frame(value) else ""
    if "…" in in_full or len(in_full) > LINE:  # the entries, because the line could not hold them
        keyed = [(_name(key) if _has_fields(value) else _text(key, 40), item) for key, item in value.entries or []]
        numbered = [(f"[{index}]", item) for index, item in enumerate(value.items or [])]
        details += [(formats.one_line(name, 40), summary(item)) for name, item in (keyed + numbered)[:40]]
    return details


def side_text(value: Value) -> str:
    """Write a side of a failed claim as in its line, and to the last digit if that adds information."""
    text, exact = summary(value), _exactly(value)
    return f"{text} (exactly {exact})" if exact is not None and exact != text.replace(",", "") else text


def _exactly(value: Value) -> str | None:
    """Write a value to its last digit, if it is a number."""
    number = value.value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    if isinstance(number, int) and number.bit_length() > 1_000:
        return f"an integer of {number.bit_length():,} bits"
    return repr(number)


def _tensor_facts(tensor: Tensor) -> list[tuple[str, str]]:
    rows = [("dtype", tensor.dtype), ("shape", formats.shape(tensor.shape))]
    if tensor.strides is not None:
        order = "" if tensor.contiguous is None else " (contiguous)" if tensor.contiguous else " (not contiguous)"
        rows.append(("strides", f"({formats.sizes(tensor.strides)}){order}"))
    if tensor.offset:
        rows.append(("offset", str(tensor.offset)))
    if tensor.bytes is not None:
        rows.append(("size", f"{formats.byte_size(tensor.bytes)} ({tensor.bytes:,} bytes)"))
    if tensor.storage is not None:
        size = f", {formats.byte_size(tensor.storage_bytes)}" if tensor.storage_bytes is not None else ""
        rows.append(("storage", tensor.storage + size))
    rows.append(("device", tensor.device))
    if tensor.requires_grad:
        rows.append(("requires_grad", "True"))
    stats = tensor.statistics
    if stats is None:
        return rows
    if stats.min is not None and stats.max is not None:
        most = max([1, *(stats.histogram or ())])
        bins = "".join("▁▂▃▄▅▆▇█"[7 * count // most] for count in stats.histogram or "") or "…"
        rows.append(("range", f"{formats.number(stats.min, 4)} {bins} {formats.number(stats.max, 4)}"))
    if stats.mean is not None:
        deviation = f", standard deviation {formats.number(stats.std, 4)}" if stats.std is not None else ""
        rows.append(("mean", formats.number(stats.mean, 4) + deviation))
    odd = [f"{count:,} {name}" for name in ("nan", "inf", "zero") if (count := getattr(stats, name))]
    return [*rows, ("among them", ", ".join(odd))] if odd else rows


def claim_summary(claim: Claim, limit: int = LINE) -> str:
    """Write both sides of a claim, then notes about them: `9.1 … 10.1 > 1 · varies`.

    A claim of another form is written part by part: `a = 1, b = 2`.
    """
    operators, values = comparison(claim.source), [value for _, value in claim.sides]
    is_comparison = bool(operators) and len(values) == len(operators) + 1
    texts = [formats.one_line(_range_or_text(value, limit // 2), limit // 2) for value in values]
    for at, value in enumerate(values):
        if claim.held and isinstance(value.value, float) and not (value.varies or value.unit):
            texts[at] = formats.three_digits(value.value)
    for at in range(len(texts) - 1):  # 3 < 3.00002: to the last digit where fewer don't show that the sides differ
        if texts[at] == texts[at + 1] and (not claim.held or (is_comparison and operators[at] in _STRICT)):
            texts[at : at + 2] = [_exactly(value) or texts[at] for value in values[at : at + 2]]
    if operators == ["=="] and is_comparison and texts[0] == texts[1] and len(texts[0]) > BOTH:
        line = f"both {_range_or_text(values[0], limit - 8)}"
    elif is_comparison:
        line = texts[0] + "".join(f" {op} {side}" for op, side in zip(operators, texts[1:], strict=True))
    else:
        named = zip(claim.sides, texts, strict=True)
        line = ", ".join(f"{formats.one_line(name, 40)} = {text}" for (name, _), text in named)
    marks = dict.fromkeys(mark for value in values for mark in _marks(value))
    return formats.one_line(" · ".join([line, *marks]), limit)


def tells_nothing_new(claim: Claim) -> bool:
    """Return whether the text of a claim that held shows its values: `x == 6` was 6, `x.is_contiguous()` was true."""
    ordered = {"<", "<=", ">", ">="}.intersection(comparison(claim.source))
    return claim.held and (not ordered or claim_summary(claim) in ("", claim.source))


@lru_cache(maxsize=4096)  # each claim appears on a page, in Markdown, next to other machines
def comparison(source: str) -> list[str]:
    """Return the operators if the claim is a single comparison, with any number of operands."""
    try:
        node = ast.parse(source.strip(), mode="eval").body if len(source) < 2_000 else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [_OPERATORS[type(op)] for op in node.ops] if isinstance(node, ast.Compare) else []
