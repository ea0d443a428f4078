"""Numbers, durations and sizes → the short text a reader sees.

    quantity(6.3e24, "FLOP")      "6.3e24 FLOP"
    quantity(2415919104, "B")     "2.25 GiB"
    duration(11_200_000)          "11.2 ms"
    spread([11_200_000, 11_290_000, 11_210_000])  "11.2 ms ± 0.4%"

Everything is rounded to the digits that help, four where nothing else is asked for; exact figures belong in a value's
details.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Sequence

SI = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
IEC = ((2**60, "Ei"), (2**50, "Pi"), (2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))
SI_UNITS = frozenset(
    {"FLOP", "FLOPs", "FLOP/s", "FLOPS", "OP/s", "B/s", "byte/s", "bytes/s", "Hz", "W", "J", "bit", "bit/s", "token/s"}
)
BYTE_UNITS = frozenset({"B", "byte", "bytes"})
RATES = {"byte/s": "B/s", "bytes/s": "B/s"}  # how they are written behind a prefix
TIMES = ((86_400e9, "days"), (3_600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))
_UNITS = SI_UNITS | BYTE_UNITS | {"s", "seconds"}
_SPELLINGS = {"sec": "s", "secs": "s", "second": "s", "bits": "bit", "bytes": "byte", "flops": "flop", "ops": "op"}

DIMENSIONS = 64  # of a tensor, that are written: as many as NumPy has

FIGURE, POINT = "\u2007", "\u2008"  # spaces as wide as a digit and as a point
_DECIMAL = re.compile(r"[-−+~≈<>≤≥×]?\s?\d[\d,]*(\.\d+)?(\s?[%×]?)")

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\uffff]")

_DTYPES = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "complex64": "c64",
    "complex128": "c128",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "float8_e4m3fn": "f8 e4m3",
    "float8_e5m2": "f8 e5m2",
}


def visible(text: str) -> str:
    """Write control characters and those that reorder text as escapes, so that what is read is what is there."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shorten(text: str, limit: int) -> str:
    """Cut `text` to `limit` characters, saying so with an ellipsis."""
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def one_line(text: str, limit: int) -> str:
    """Return the visible text on one line of at most `limit` characters."""
    return shorten(visible(" ".join(text[: 4 * limit + 100].split())), limit)


def number(value: bool | int | float, digits: int = 4) -> str:
    """Write a number without a unit: integers exactly while they fit, floats to `digits` significant digits.

    No digit before the point is left out below ten million, and from 10,000 on thousands are apart. A float that is
    whole says so: 6.0; one that has no room for digits behind the point does not: 3118.
    """
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        if abs(value) >= 10**15:
            return tidy_exponents(_scientific(value, digits))
        return str(value) if abs(value) < 10_000 else f"{value:,}"
    if not math.isfinite(value):
        return str(value)
    if 1 <= abs(value) < 1e7:
        places = max(digits - len(str(int(abs(value)))), 0)
        text = f"{value:,.{places}f}" if abs(value) >= 9_999.5 else f"{value:.{places}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return text + ".0" if "." not in text and (places or value == int(value)) else text
    text = tidy_exponents(f"{value:.{digits}g}")
    return text if any(mark in text for mark in ".e") else text + ".0"


def column(cells: Sequence[str]) -> list[str]:
    """Fill up the texts of a column that is set to the right, so that the points of its numbers stand below each other.

    A column in which something else stands, or powers of ten, is left as it is.
    """
    found = [_DECIMAL.fullmatch(text) for text in cells]
    known = [match for match in found if match]
    if len({match[2] for match in known}) != 1 or any(
        text != "–" for text, m in zip(cells, found, strict=True) if not m
    ):
        return list(cells)
    most = max(len(match[1] or "") for match in known)  # with the point, whose width is its own
    return [
        text + (FIGURE * (most - max(len(m[1] or ""), 1)) + POINT * (not m[1]) if m and most else "")
        for text, m in zip(cells, found, strict=True)
    ]


def _scientific(value: int, digits: int) -> str:
    """Write an integer of any size (it may be beyond a float's range) as `d.ddde+n`."""
    text = str(abs(value)) if value.bit_length() < 10_000 else None
    if text is None:
        return f"an integer of {value.bit_length():,} bits"
    text = str(abs(round(value, digits - len(text))))
    mantissa = text[0] + "." + text[1:digits].rstrip("0")
    return ("-" if value < 0 else "") + mantissa.rstrip(".") + f"e+{len(text) - 1}"


def tidy_exponents(text: str) -> str:
    """Write each `6.3e+24` in a text as `6.3e24` and `1e-08` as `1e-8`."""
    return re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)e(?:\+|(-)|)0*(\d+)\b", r"\1e\2\3", text, flags=re.ASCII)


def digits_apart(least: float, most: float) -> int:
    """Return how many significant digits tell two numbers apart, and one more: 3 at least, 6 at most."""
    size = max(abs(least), abs(most))
    if not size or least == most:
        return 4
    return max(3, min(6, math.ceil(-math.log10((most - least) / size)) + 2))


def quantity(value: int | float, unit: str | None, digits: int = 4, *, decimal: bool | None = None) -> str:
    """Write a number with its unit, with a prefix where the unit takes one: IEC for bytes, SI for rates and counts.

    `decimal` chooses between 2.25 GiB and 2.416 GB; None: the one that `is_decimal` finds in the number itself.
    """
    if unit is None:
        return number(value)
    if abs(value) >= 1e300 or value != value:  # nan, inf, and integers beyond a float's range
        return f"{number(value)} {unit}"
    if unit in BYTE_UNITS:
        return byte_size(value, digits, decimal=decimal)
    if unit in ("s", "seconds"):
        return duration(value * 1e9, digits)
    if unit in SI_UNITS:
        return _prefixed(value, RATES.get(unit, unit), digits)
    if isinstance(value, int):
        return f"{number(value)} {unit}"
    if 1e4 <= abs(value) < 1e15:
        return f"{value:,.0f} {unit}"
    return f"{tidy_exponents(f'{value:.{digits}g}')} {unit}"


def unit_of(label: str) -> str | None:
    """Return the unit that an axis's label names and that takes prefixes: "bytes / s" is in "bytes/s"."""
    unit = label.replace(" ", "")
    return unit if is_unit(unit) else None


def is_unit(unit: str) -> bool:
    """Return whether a unit is one that takes a prefix or is a time's."""
    return unit in _UNITS


def near_unit(unit: str) -> str | None:
    """Return the unit that one was most likely meant to be: "FLOP/s" for "flops/s"; None for all others."""
    known = sorted(_UNITS, key=lambda one: (len(one), one))

    def form(one: str) -> list[str]:
        return [_SPELLINGS.get(part, part) for part in one.casefold().split("/")]

    return None if is_unit(unit) else next((one for one in known if form(one) == form(unit)), None)


def column_unit(label: str, values: Sequence[int | float]) -> tuple[str, float]:
    """Return a column's label with the prefix that suits its median, and what that stands for: ("rate, GFLOP/s", 1e9).

    The label ends in the unit, or is it: a rate, seconds, or FLOP ("FLOPs" is a count, told exactly). Others stay.
    """
    name, comma, unit = label.rpartition(", ")
    sizes = sorted(abs(value) for value in values if value and math.isfinite(value))
    if unit == "s":
        prefixes: Sequence[tuple[float, str]] = [(factor / 1e9, prefixed) for factor, prefixed in TIMES[3:]]
    elif unit in SI_UNITS and (unit.endswith("/s") or unit == "FLOP"):
        prefixes = [(factor, prefix + RATES.get(unit, unit)) for factor, prefix in SI] + [(1, unit)]
    else:
        return label, 1
    middle = sizes[len(sizes) // 2] if sizes else 1
    factor, prefixed = next((it for it in prefixes if middle >= it[0]), prefixes[-1])
    return name + comma + prefixed, factor


def _prefixed(value: int | float, unit: str, digits: int) -> str:
    """Beyond the prefixes that people read (10²¹ and up), powers of ten say it better."""
    size = abs(value)
    if size >= 1e21:
        text = _scientific(value, digits) if isinstance(value, int) else f"{value:.{digits}g}"
        return f"{tidy_exponents(text)} {unit}"
    return _scaled(value, SI, digits, unit)


def byte_size(count: int | float, digits: int = 4, *, decimal: bool | None = None) -> str:
    """Write a number of bytes: 2.25 GiB; with an SI prefix where only that one says it exactly: 80 GB."""
    return _scaled(count, SI if (is_decimal([count], digits) if decimal is None else decimal) else IEC, digits, "B")


def is_decimal(counts: Iterable[int | float], digits: int = 4) -> bool:
    """Whether numbers of bytes were declared in powers of ten: these say half of them exactly, and IEC's none."""
    told = [count for count in counts if count]
    exact = [sum(_is_exact(count, prefixes, digits) for count in told) for prefixes in (SI, IEC)]
    return bool(told) and 2 * exact[0] >= len(told) and not exact[1]


def _is_exact(count: int | float, prefixes: Sequence[tuple[float, str]], digits: int) -> bool:
    """Whether `digits` digits say `count` exactly with the prefix that it is written with; not beyond a float's range.

    640 GB are 625,000,000 KiB, too, which nobody writes.
    """
    factor = next((factor for factor, _ in prefixes if factor <= abs(count) < 1e300), None)
    return factor is not None and float(f"{count / factor:.{digits}g}") * factor == count


def _scaled(value: int | float, prefixes: Sequence[tuple[float, str]], digits: int, unit: str) -> str:
    for factor, prefix in prefixes:
        if float(f"{abs(value) / factor:.{digits}g}") >= 1:
            return f"{_digits(value / factor, digits)} {prefix}{unit}"
    return f"{_digits(float(value), digits)} {unit}"


def _digits(value: float, digits: int) -> str:
    """Write `digits` significant digits, without an exponent for what has four digits before the point."""
    return f"{value:.0f}" if 10**digits <= abs(value) < 10_000 else tidy_exponents(f"{value:.{digits}g}")


def duration(nanoseconds: float, digits: int = 3) -> str:
    """Write a time with the unit that suits it: 11.2 ms, 143.9 days."""
    for factor, unit in TIMES:
        if float(f"{abs(nanoseconds) / factor:.{digits}g}") >= 1:
            text = f"{_digits(nanoseconds / factor, max(digits, 4) if unit == 'days' else digits)} {unit}"
            return "1 day" if text == "1 days" else text
    return f"{_digits(float(nanoseconds), digits)} ns"


def spread(samples_ns: Sequence[int]) -> str:
    """Write the median of several durations and half their range relative to it: 11.2 ms ± 0.4%."""
    middle = statistics.median(samples_ns)
    text = duration(middle)
    return text if len(samples_ns) < 2 or not middle else f"{text} ± {percent(half_range(samples_ns))}"


def half_range(samples_ns: Sequence[int]) -> float:
    """Return half the range of several durations, relative to their median."""
    middle = statistics.median(samples_ns)
    return (max(samples_ns) - min(samples_ns)) / 2 / middle if middle else 0.0


def ratio(value: float) -> str:
    """Write how many times as much something is: 0.314, 1.21, 3,150."""
    if 100 <= value < 1e6:
        return f"{float(f'{value:.3g}'):,.0f}"
    return number(float(value), 3).removesuffix(".0")


def percent(share: float) -> str:
    """Write a fraction as a percentage: 0.4%, 12%, 230%."""
    value = 100 * share
    return f"{value:.0f}%" if value >= 9.95 else f"{value:.1f}%" if value >= 0.095 else "< 0.1%" if value else "0%"


def dtype(name: str) -> str:
    """Abbreviate a dtype's name where there is a common abbreviation: float32 → f32."""
    return _DTYPES.get(name, visible(shorten(name, 30)))


def shape(numbers: Sequence[int]) -> str:
    """Write a tensor's sizes in brackets: [4, 4]."""
    return f"[{sizes(numbers)}]"


def sizes(numbers: Sequence[int]) -> str:
    """Write sizes or strides: "4, 4"; of very many dimensions the first ones, and how many there are."""
    shown = ", ".join(str(number) for number in numbers[:DIMENSIONS])
    return shown if len(numbers) <= DIMENSIONS else f"{shown}, … {len(numbers):,} in all"


def spoken(kind: str, text: str) -> str:
    """Write a repr as the pages write such things: a shape in brackets, a device or class by its name."""
    if kind == "Size" and (found := re.fullmatch(r"torch\.Size\((\[[\d, ]*\])\)", text)):
        return found[1]
    if kind == "device" and (found := re.fullmatch(r"device\(type='(\w+)'(?:, index=(\d+))?\)", text)):
        return found[1] + (f":{found[2]}" if found[2] else "")
    found = re.fullmatch(r"<class '(.+)'>", text)
    return found[1] if found else text


def plural(count: int, noun: str) -> str:
    """Write a count with its noun: 1 claim, 2 claims."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def readable(name: str) -> str:
    """Return a name of Python's in words: "train_a_Model" is "Train a Model", "computeMFU" "Compute MFU"."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-zA-Z])", " ", name)
    words = " ".join(re.sub(r"[_-]+", " ", apart).split())
    return words[:1].upper() + words[1:] or name
