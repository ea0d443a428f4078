"""Format numbers, durations and sizes as short text.

    quantity(6.3e24, "FLOP")      "6.3e24 FLOP"
    quantity(2415919104, "B")     "2.25 GiB"
    duration(11_200_000)          "11.2 ms"
    spread([11_200_000, 11_290_000, 11_210_000])  "11.2 ms ± 0.4%"

Numbers are rounded, to four digits by default. Exact numbers belong in the details of a value.
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
RATES = {"byte/s": "B/s", "bytes/s": "B/s"}  # spelling of these units after a prefix
TIMES = ((86_400e9, "days"), (3_600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))
SPREAD = "Times are medians over the passes, ± half their range."  # as `spread` writes them

_WORD_AT_END, _WORD_AT_START = re.compile(r"[\w.'-]+\Z"), re.compile(r"[\w.'-]")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\uffff]")
_CONTROLS = re.compile(r"(\r|\x08+|\x1b\[[0-9;?]*[A-Za-z])")  # of a terminal

_KINDS = {"float": "f", "bfloat": "bf", "complex": "c", "int": "i", "uint": "u"}
_DTYPES = {f"{name}{bits}": f"{short}{bits}" for name, short in _KINDS.items() for bits in (8, 16, 32, 64, 128)}
_DTYPES |= {"float8_e4m3fn": "f8 e4m3", "float8_e5m2": "f8 e5m2"}


def visible(text: str) -> str:
    """Write control characters, and those that reorder text, as escapes."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def on_terminal(text: str) -> str:
    r"""Return the visible text that a terminal shows: progress bars (`\r`, `ESC[2K`) overwrite their own line."""
    lines = []
    for line in text.split("\n"):
        shown, at = "", 0
        for part in _CONTROLS.split(line):
            if part == "\r":
                at = 0
            elif part[:1] == "\b":
                at = max(0, at - len(part))
            elif part[:1] == "\x1b":  # erases all, or to the end; colours and other codes change no text
                shown = "" if part == "\x1b[2K" else shown[:at] if part[-1] == "K" else shown
            else:
                shown, at = shown[:at].ljust(at) + part + shown[at + len(part) :], at + len(part)
        lines.append(shown)
    return visible("\n".join(lines))


def shorten(text: str, limit: int) -> str:
    """Cut `text` to `limit` characters, between two words if possible, and end it with an ellipsis."""
    if len(text) <= limit:
        return text
    kept = text[: max(0, limit - 1)]
    if _WORD_AT_END.search(kept) and _WORD_AT_START.match(text, len(kept)):
        whole_words = _WORD_AT_END.sub("", kept).rstrip()
        kept = whole_words if len(whole_words) >= limit // 2 else kept
    return kept.rstrip() + "…"


def one_line(text: str, limit: int) -> str:
    """Return the visible text on one line of at most `limit` characters."""
    return shorten(visible(" ".join(text[: 4 * limit + 100].split())), limit)


def number(value: bool | int | float, digits: int = 4) -> str:
    """Format a number without a unit: integers exactly if they fit, floats to `digits` significant digits.

    All digits before the decimal point are written below ten million; from 10,000 on, thousands are separated. A whole
    float ends in ".0" (6.0) unless it has no room for decimals (3118).
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
        decimals = max(digits - len(str(int(abs(value)))), 0)
        text = f"{value:,.{decimals}f}" if abs(value) >= 9_999.5 else f"{value:.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return text + ".0" if "." not in text and (decimals or value == int(value)) else text
    text = tidy_exponents(f"{value:.{digits}g}")
    return text if any(mark in text for mark in ".e") else text + ".0"


def aligned(values: Sequence[int | float], digits: int = 5) -> list[str] | None:
    """Format numbers with the same number of decimals: ["0.50", "12.25"]; None if that would lose too much.

    The largest number has so many `digits`, or up to seven if the smallest positive number would otherwise become 0.
    Decimals that are 0 in all numbers are dropped: whole numbers give ["3", "12"].
    """
    sizes = [abs(value) for value in values if value and abs(value) < math.inf]  # also integers that no float can hold
    most = max(sizes, default=1)
    if not 1e-4 <= most < 1e7:
        return None
    before = math.floor(math.log10(most)) + 1
    decimals = max(digits - before, int(before <= 6)) if before > 0 else min(digits, 4) - before
    while any(round(size * 10**decimals) < 1 and round(size, decimals) != size for size in sizes):
        if max(before, 0) + decimals >= 7:
            return None
        decimals += 1
    while decimals and all(round(size, decimals - 1) == round(size, decimals) for size in sizes):
        decimals -= 1
    comma = "," if most >= 10_000 else ""
    return [f"{value:{comma}.{decimals}f}" for value in values]


def _scientific(value: int, digits: int) -> str:
    """Format an integer of any size, even beyond the range of floats, as `d.ddde+n`."""
    if value.bit_length() >= 10_000:
        return f"an integer of {value.bit_length():,} bits"
    text = str(abs(round(value, digits - len(str(abs(value))))))
    mantissa = text[0] + "." + text[1:digits].rstrip("0")
    return ("-" if value < 0 else "") + mantissa.rstrip(".") + f"e+{len(text) - 1}"


def tidy_exponents(text: str) -> str:
    """Write each `6.3e+24` in a text as `6.3e24` and `1e-08` as `1e-8`."""
    return re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)e(?:\+|(-)|)0*(\d+)\b", r"\1e\2\3", text, flags=re.ASCII)


def digits_apart(least: float, most: float) -> int:
    """Return how many significant digits distinguish two numbers, plus one: at least 3, at most 6."""
    size = max(abs(least), abs(most))
    if not size or least == most:
        return 4
    return max(3, min(6, math.ceil(-math.log10((most - least) / size)) + 2))


def quantity(value: int | float, unit: str | None, digits: int = 4, *, decimal: bool | None = None) -> str:
    """Format a number with its unit, with a prefix if the unit takes one: IEC for bytes, SI for rates and counts.

    `decimal` chooses between 2.25 GiB and 2.416 GB; None lets `is_decimal` decide.
    """
    if unit is None:
        return number(value)
    if abs(value) >= 1e300 or value != value:  # nan, inf, and integers beyond a float's range
        return f"{number(value)} {unit}"
    if unit in BYTE_UNITS:
        return byte_size(value, digits, decimal=decimal)
    if unit in ("s", "seconds"):
        return duration(value * 1e9, digits)
    unit = RATES.get(unit, unit)
    if unit in SI_UNITS and abs(value) < 1e21:  # beyond are no prefixes
        return _scaled(value, SI, digits, unit)
    if isinstance(value, int):
        return f"{number(value, digits)} {unit}"
    if 1e4 <= abs(value) < 1e15:
        return f"{value:,.0f} {unit}"
    return f"{tidy_exponents(f'{value:.{digits}g}')} {unit}"


def unit_of(label: str) -> str | None:
    """Return the unit in an axis label if it takes prefixes: "bytes / s" is "bytes/s"."""
    unit = label.replace(" ", "")
    return unit if unit in SI_UNITS | BYTE_UNITS | {"s", "seconds"} else None


def column_unit(label: str, values: Sequence[int | float]) -> tuple[str, float]:
    """Return a column's label with a prefix for its median, and the prefix's factor: ("rate, GFLOP/s", 1e9).

    The label must end in the unit or be the unit: a rate, seconds, or FLOP ("FLOPs" is a count and stays exact). Other
    labels are unchanged.
    """
    name, comma, unit = label.rpartition(", ")
    sizes = sorted(abs(value) for value in values if value and abs(value) < math.inf)
    if unit == "s":
        prefixes: Sequence[tuple[float, str]] = [(factor / 1e9, prefixed) for factor, prefixed in TIMES[3:]]
    elif unit in SI_UNITS and (unit.endswith("/s") or unit == "FLOP"):
        prefixes = [(factor, prefix + RATES.get(unit, unit)) for factor, prefix in SI] + [(1, unit)]
    else:
        return label, 1
    middle = sizes[len(sizes) // 2] if sizes else 1
    factor, prefixed = next((pair for pair in prefixes if middle >= pair[0]), prefixes[-1])
    return name + comma + prefixed, factor


def byte_size(count: int | float, digits: int = 4, *, decimal: bool | None = None) -> str:
    """Format a number of bytes: 2.25 GiB; with an SI prefix only if that is exact and IEC is not: 80 GB."""
    return _scaled(count, SI if (is_decimal([count], digits) if decimal is None else decimal) else IEC, digits, "B")


def is_decimal(counts: Iterable[int | float], digits: int = 4) -> bool:
    """Return whether numbers of bytes are powers of ten: half or more are exact with SI prefixes, none with IEC."""
    parts = [count for count in counts if count]
    exact = [sum(_is_exact(count, prefixes, digits) for count in parts) for prefixes in (SI, IEC)]
    return bool(parts) and 2 * exact[0] >= len(parts) and not exact[1]


def _is_exact(count: int | float, prefixes: Sequence[tuple[float, str]], digits: int) -> bool:
    """Return whether `digits` digits with the prefix state `count` exactly; False beyond the range of floats.

    640 GB is also exactly 625,000,000 KiB, but nobody writes that.
    """
    factor = next((factor for factor, _ in prefixes if factor <= abs(count) < 1e300), None)
    return factor is not None and float(f"{count / factor:.{digits}g}") * factor == count


def _scaled(value: int | float, prefixes: Sequence[tuple[float, str]], digits: int, unit: str) -> str:
    for factor, prefix in prefixes:
        if float(f"{abs(value) / factor:.{digits}g}") >= 1:
            return f"{_digits(value / factor, digits)} {prefix}{unit}"
    return f"{_digits(float(value), digits)} {unit}"


def _digits(value: float, digits: int) -> str:
    """Format `digits` significant digits, without an exponent up to four digits before the point."""
    return f"{value:.0f}" if 10**digits <= abs(value) < 10_000 else tidy_exponents(f"{value:.{digits}g}")


def duration(nanoseconds: float, digits: int = 3) -> str:
    """Format a duration with a suitable unit: 11.2 ms, 143.9 days."""
    for factor, unit in TIMES:
        if float(f"{abs(nanoseconds) / factor:.{digits}g}") >= 1:
            text = f"{_digits(nanoseconds / factor, max(digits, 4) if unit == 'days' else digits)} {unit}"
            return "1 day" if text == "1 days" else text
    return f"{_digits(float(nanoseconds), digits)} ns"


def spread(samples_ns: Sequence[int]) -> str:
    """Format the median of several durations and half their range relative to it: 11.2 ms ± 0.4%."""
    middle = statistics.median(samples_ns)
    text = duration(middle)
    return text if len(samples_ns) < 2 or not middle else f"{text} ± {percent(half_range(samples_ns))}"


def half_range(samples: Sequence[float]) -> float:
    """Return half the range of several numbers, relative to their median."""
    middle = abs(statistics.median(samples))
    return (max(samples) - min(samples)) / 2 / middle if middle else 0.0


def three_digits(value: int | float) -> str:
    """Format a ratio, or a number of a table, to three significant digits: 0.314, 1.21, 3150. Whole ones stay exact."""
    is_whole = isinstance(value, int) or value.is_integer() or not math.isfinite(value)
    return number(value if is_whole else float(f"{value:.3g}"), 3).removesuffix(".0")


def percent(share: float) -> str:
    """Format a fraction as a percentage: 0.4%, 12%, 230%."""
    value = 100 * share
    return f"{value:.0f}%" if value >= 9.95 else f"{value:.1f}%" if value >= 0.095 else "< 0.1%" if value else "0%"


def dtype(name: str) -> str:
    """Abbreviate a dtype if a common abbreviation exists: float32 → f32."""
    return _DTYPES.get(name, name)


def shape(numbers: Sequence[int]) -> str:
    """Format a tensor's sizes in brackets: [4, 4]."""
    return f"[{sizes(numbers)}]"


def sizes(numbers: Sequence[int]) -> str:
    """Format sizes or strides: "4, 4"."""
    return ", ".join(map(str, numbers))


def shown_repr(kind: str, text: str) -> str:
    """Format a repr as pages show it: a shape in brackets, a device or class by its name."""
    if kind == "Size" and (match := re.fullmatch(r"torch\.Size\((\[[\d, ]*\])\)", text)):
        return match[1]
    if kind == "device" and (match := re.fullmatch(r"device\(type='(\w+)'(?:, index=(\d+))?\)", text)):
        return match[1] + (f":{match[2]}" if match[2] else "")
    match = re.fullmatch(r"<class '(.+)'>", text)
    return match[1] if match else text


def plural(count: int, noun: str) -> str:
    """Format a count with its noun: 1 claim, 2 claims."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def readable(name: str) -> str:
    """Return a Python name as words: "train_a_Model" is "Train a Model", "computeMFU" "Compute MFU"."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-zA-Z])", " ", name)
    words = " ".join(re.sub(r"[_-]+", " ", spaced).split())
    return words[:1].upper() + words[1:] or name


def short_address(url: str) -> str:
    """Shorten an address for a text: arXiv:2005.14165, or the host and the end of the path, example.org/…/paper.pdf."""
    if paper := re.match(r"https?://(?:www\.)?arxiv\.org/\w+/(\d{4}\.\d{4,5})", url):
        return f"arXiv:{paper[1]}"
    host, *folders = re.split("[?#]", url.partition("://")[2])[0].rstrip("/").split("/")
    return "/".join([host.removeprefix("www."), *["…"][: len(folders) - 1], *folders[-1:]]) if host else url
