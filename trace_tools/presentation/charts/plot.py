"""Plot numbers of a lecture by matplotlib: lines, points, bars (grouped or stacked), steps.

    figure(narrative, "fig3")     '<svg role="img" aria-label="Loss. …" …>', also for the lecture's own drawing

A number that is not finite, or not positive on a logarithmic axis, leaves a gap. Equal numbers give equal bytes with
the same version of matplotlib.
"""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from trace_tools.presentation.charts import svg
from trace_tools.presentation.prose import readable_text
from trace_tools.trace.model import Plot, Scalar
from trace_tools.util import formats

WIDTH, NARROW, HEIGHT = 640.0, 342.0, 330.0  # pixels; NARROW fits on a phone
SERIES = 12  # most series, because more could not be distinguished
LABELLED_BARS = 12
STACK = 110.0  # largest width of a stack of bars
BESIDE = 56.0  # room for a number of a stack
MARKED = 10  # a line with more values has about so many marks
LARGEST = 1e300  # largest number that is drawn; an axis extends beyond it, and floats end at 1.8e308
INCH = 1 / 96  # of a pixel
# Words stay words, which readers select and pages find. The same numbers give the same ids.
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "plot",
    "text.parse_math": False,
    "font.size": 8.25,  # points: 11 pixels
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.edgecolor": svg.SOFT,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": svg.SOFT,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "ytick.left": False,
    "legend.frameon": False,
    "legend.handlelength": 1.5,
    "legend.columnspacing": 1,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
    "lines.markeredgecolor": "white",
    "axes.titlesize": 9,
}
MARKERS = "os^D"
# Width of a letter relative to its size, for DejaVu Sans, the widest font of the pages.
LETTER = 0.62
UNLIKE = dict.fromkeys(" .,:;'|!()[]-/·Iijlfrt", 0.39) | dict.fromkeys("mwMW@%…→←↓=+×<>−≈", 0.95)
UNLIKE |= dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ", 0.72)
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

_Series = tuple[str, str, tuple[Scalar, ...], tuple[Scalar, ...]]  # name, style, positions, heights


def figure(record: Plot, prefix: str, width: float = WIDTH) -> str | None:
    """Return a plot of the lecture as safe inline SVG whose ids begin with `prefix`; None if it has no numbers.

    A plot that another tool drew has its own width, and may have a second drawing for a phone.
    """
    if record.svg:
        source = record.narrow if record.narrow and width <= NARROW else record.svg
    elif any(math.isfinite(height(y)) for series in record.series for y in series.y):
        series = tuple((s.name, s.style, tuple(s.x), tuple(s.y)) for s in record.series[:SERIES])
        labels, log = (record.x_label or "", record.y_label or ""), (record.x_scale == "log", record.y_scale == "log")
        source = _drawn(series, labels, log, width)
    else:
        return None
    title = record.title or " against ".join(label for label in (record.y_label, record.x_label) if label) or "Figure"
    return svg.clean(source, prefix, f"{readable_text(title)}. {describe(record)}")


def describe(record: Plot) -> str:
    """Describe a plot in words, for readers who cannot see it."""
    if record.text and not record.series:  # a matplotlib figure, which has a description
        return record.text
    labels = {"across": record.x_label, "up": record.y_label}
    axes = [f"{name}: {readable_text(label)}" for name, label in labels.items() if label]
    parts = [", ".join(axes)] if axes else []
    for series in record.series[:SERIES]:
        heights = [y for y in map(height, series.y) if math.isfinite(y)]
        if heights:
            unit = formats.unit_of(record.y_label or "")
            decimal = record.y_scale == "log" or formats.is_decimal(heights)
            low, high = (_text(end, unit=unit, decimal=decimal) for end in (min(heights), max(heights)))
            ends = f"of {low}" if low == high else f"from {low} to {high}"
            parts.append(f"{readable_text(series.name)}: {formats.plural(len(series.y), 'value')} {ends}")
    return ". ".join(parts) + "." if parts else "A drawing."


def width_of(text: str, size: float) -> float:
    """Return an upper estimate of a text's width."""
    return size * sum(UNLIKE.get(letter, LETTER) for letter in text)


def height(value: Scalar) -> float:
    """Return a number to plot; nan if it is not finite or too large for the axis."""
    return float(value) if isinstance(value, (int, float)) and abs(value) <= LARGEST else math.nan


@lru_cache(maxsize=256)  # Markdown and HTML show the same drawing, and machines share those that are computed
def _drawn(series: tuple[_Series, ...], labels: tuple[str, str], log: tuple[bool, bool], width: float) -> str:
    """Draw series as SVG; a unit that a label names moves to the numbers, with a prefix."""
    import matplotlib  # takes half a second, and many pages have no plot
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    heights = [y for *_, ys in series for y in map(height, ys) if math.isfinite(y)]
    across = list(dict.fromkeys(x for *_, xs, _ in series for x in xs))
    with_bars = any(style in ("bars", "stacked") for _, style, *_ in series)
    names = across if with_bars or any(isinstance(x, str) for x in across) else []
    log_x, log_y = log[0] and not names and any(height(x) > 0 for x in across), log[1] and max(heights) > 0
    x_unit, unit = None if names else formats.unit_of(labels[0]), formats.unit_of(labels[1])
    decimal = log_y or formats.is_decimal(heights)
    # heights in MiB have ticks at 20 and 40 MiB; in bytes, at 19.07 and 38.15 MiB
    binary = unit in formats.BYTE_UNITS and not decimal
    factor = next((factor for factor, _ in formats.IEC if binary and max(map(abs, heights)) >= factor), 1)

    def write(value: float, digits: int = 4) -> str:
        return _text(value * factor, digits, unit=unit, decimal=decimal)

    with matplotlib.rc_context(STYLE):
        drawing = Figure((width * INCH, HEIGHT * INCH))
        axes: Any = drawing.subplots()
        axes.set_xlabel("" if x_unit else formats.one_line(labels[0], int(width / 8)))
        axes.set_title("" if unit else formats.one_line(labels[1], int(width / 8)), loc="left")
        if log_x:
            axes.set_xscale("log", nonpositive="mask")
        if log_y:
            axes.set_yscale("log", nonpositive="clip" if with_bars else "mask")
        room = (width - 50) / max(len(names), 1)  # pixels of a name
        _draw(axes, series, names, room, factor, write)
        if with_bars and not log_y:
            axes.margins(y=0.1)
        count, whole = 4 if width <= NARROW else 6, all(height(x).is_integer() for x in across)
        for axis, is_log, locator, text in (
            (axes.xaxis, log_x, MaxNLocator(count, steps=[1, 2, 5, 10], integer=whole), partial(_text, unit=x_unit)),
            (axes.yaxis, log_y, MaxNLocator(6, steps=[1, 2, 5, 10]), write),
        ):
            low, high = axis.get_view_interval()
            log_locator = LogLocator(subs=(1,) if high > 100 * low else (1, 2, 5), numticks=count)
            axis.set_major_locator(log_locator if is_log else locator)
            axis.set_major_formatter(lambda value, _, text=text: text(value, digits=3))
            axis.set_minor_locator(NullLocator())
        words: list[str] = []
        if names:
            stride = -(-len(names) // LABELLED_BARS)
            letters = max(int(2 * room * stride / 7), 4)
            words = [formats.one_line(str(x), letters) for x in names[::stride]]
            if 2 * max(map(len, words)) > letters:  # every other name a line lower
                words = ["\n" * (number % 2) + name for number, name in enumerate(words)]
            axes.set_xticks(range(0, len(names), stride), words)
            axes.set_xlim(-0.5, len(names) - 0.5)
        rows = 0
        if len(series) > 1:
            letters = sum(len(name) for name, *_ in series)
            rows = math.ceil((40 * len(series) + 7 * letters) / width)
            drawing.legend(loc="upper left", ncols=math.ceil(len(series) / rows), borderaxespad=0)
        # Margins by our own estimates, because matplotlib's layouts draw everything twice, which takes 40 ms more.
        left = max((width_of(write(tick, digits=3), 11) for tick in axes.get_yticks()), default=0) + 10
        top = 10 + 20 * bool(axes.get_title("left")) + 18 * rows
        bottom = 22 + 14 * any("\n" in word for word in words) + 18 * bool(axes.get_xlabel())
        drawing.subplots_adjust(left / width, bottom / HEIGHT, 1 - 16 / width, 1 - top / HEIGHT)
        out = io.StringIO()
        drawing.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return out.getvalue()


def _draw(
    axes: Any, series: tuple[_Series, ...], names: list[Scalar], room: float, factor: float, write: Callable[..., str]
) -> None:
    """Draw series, their heights divided by `factor`, with the numbers of few bars; a name has `room` pixels."""
    stack = min(0.7, STACK / room)
    tops: dict[float, float] = defaultdict(float)
    heights = [y / factor for *_, ys in series for y in map(height, ys) if math.isfinite(y)]
    grouped = [number for number, (_, style, *_) in enumerate(series) if style == "bars"]
    for number, (name, style, xs, ys) in enumerate(series):
        x = [float(names.index(at)) for at in xs] if names else [height(at) for at in xs]
        y = [height(value) / factor for value in ys]
        look = {"color": svg.PALETTE[number % len(svg.PALETTE)], "label": name}
        if style == "stacked":
            axes.bar(x, y, stack, [tops[at] for at in x], **look)
            for at, part in zip(x, y, strict=True):
                middle = at + stack / 2, tops[at] + part / 2
                if room * (1 - stack) / 2 > BESIDE and part > 0.05 * max(heights):
                    axes.annotate(write(part), middle, (4, 0), textcoords="offset points", va="center")
                tops[at] += part if math.isfinite(part) else 0
        elif style == "bars":
            wide = 0.7 / len(grouped)
            bars = axes.bar([at + (grouped.index(number) + 0.5) * wide - 0.35 for at in x], y, wide, **look)
            if len(heights) <= LABELLED_BARS:
                axes.bar_label(bars, [write(part) if math.isfinite(part) else "" for part in y], padding=2)
        else:
            line = "none" if style == "points" else "-" if number < len(svg.PALETTE) else "--"
            mark = "" if style == "steps" else MARKERS[number % len(MARKERS)]
            drawn = "steps-post" if style == "steps" else "default"
            every = 1 if style == "points" else max(len(x) // MARKED, 1)  # a line stays without its marks
            axes.plot(x, y, linestyle=line, marker=mark, markevery=every, drawstyle=drawn, **look)
    for at, top in tops.items():
        total = write(top) if room > BESIDE else write(top).partition(" ")[0]  # the axis has the unit
        axes.annotate(total, (at, top), (0, 3), textcoords="offset points", ha="center")


def _text(value: float, digits: int = 4, *, unit: str | None, decimal: bool | None = None) -> str:
    """Format a number with its unit, whole numbers without decimals."""
    if unit is not None:
        return formats.quantity(value, unit, digits, decimal=decimal) if value else "0"
    power = round(math.log10(abs(value))) if value else 0
    if not -4 < power < 5 and math.isclose(value, 10.0**power):
        return f"10{str(power).translate(RAISED)}"
    return formats.number(int(value) if value.is_integer() and abs(value) < 1e6 else value, digits)
