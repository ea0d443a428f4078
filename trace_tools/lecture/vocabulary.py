"""The vocabulary of lectures: calls that show something to the reader, recorded in a trace.

Each call makes one `Narrative` and passes it to the listener. Without a listener (`python lecture.py`) it does nothing;
`plain.run` listens and prints the texts. Wrong arguments raise a ValueError or a TypeError, with and without a
listener: a lecture that runs can be traced.

    text("Matrices multiply in $2BDK$ FLOPs.")
    link("https://arxiv.org/abs/1910.02054", title="ZeRO", authors="Rajbhandari et al.", date="2019")
"""

from __future__ import annotations

import datetime
import gc
import io
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import wraps
from pathlib import PurePath
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

import msgspec

from trace_tools.lecture import data_frames
from trace_tools.trace.explorations import Exploration, Input, Menu, NotArithmetic, Result, Scale, formula_of
from trace_tools.trace.model import (
    Answer,
    Ask,
    Choice,
    Explore,
    Image,
    Link,
    Narrative,
    Note,
    Plot,
    Scalar,
    Series,
    Style,
    Table,
    Text,
)
from trace_tools.trace.records import to_plain
from trace_tools.util.interpreter import collector_paused

Listener = Callable[[Narrative], None]
Pause = Callable[[], AbstractContextManager[None]]
P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["ask", "decide", "explore", "image", "link", "note", "plot", "table", "text"]

VOCABULARY = frozenset(__all__)
PROSE = frozenset({"text", "note", "ask"})  # kinds whose `text` is Markdown, with numbers that may vary
ANSWERS = ("above", "below", "undecided", "equal")
LOGARITHMIC = 1000  # a slider whose range spans at least this factor is logarithmic
NEAR = 0.01  # relative error allowed in a reader's numeric answer
PAGE, PHONE = 10.0, 3.55  # inches: the widths for which a figure is drawn
STICKS_OUT = 0.02  # inches that a label may extend beyond its figure before the figure gets a larger box

# An address on the web or of mail, or a relative path: neither a title nor a word
_ADDRESS = re.compile(r"https?://[^\s/]|mailto:|(?!www\.|//|[a-z][a-z0-9+.-]*:)\S*[./#?]\S*$", re.IGNORECASE)

_listeners: list[tuple[Listener, Pause, bool]] = []


@contextmanager
def listening(listener: Listener, pause: Pause = nullcontext, *, draws: bool = True) -> Iterator[None]:
    """Pass every narrative call made inside the `with` block, in any thread, to `listener`.

    Each call runs inside a `pause()`, so that the time to draw a figure does not count as the lecture's. A listener
    without `draws` gets figures without their SVG.
    """
    entry = (listener, pause, draws)
    _listeners.append(entry)
    try:
        yield
    finally:
        _listeners.remove(entry)


def aside(word: Callable[P, R]) -> Callable[P, R]:
    """Exclude a vocabulary function from the lecture's time."""

    @wraps(word)
    def paused(*args: P.args, **kwargs: P.kwargs) -> R:
        with ExitStack() as stack:
            for _, pause, _ in _listeners:
                stack.enter_context(pause())
            return word(*args, **kwargs)

    return paused


@aside
def text(markdown: str) -> None:
    """Show a paragraph of Markdown, with `$math$`."""
    emit(Text(text=markdown))


@aside
def decide(
    value: float | Sequence[float],
    *,
    above: str,
    below: str,
    undecided: str,
    equal: str | None = None,
    than: float | tuple[float, float] = 1.0,
) -> None:
    """Show the paragraph that all samples of a measured number agree on, or `undecided` if they do not agree.

    `above` is shown if the number was more than `than` in every timed run of the trace, `below` if it was less in every
    one. `than` may be a pair (low, high); `equal` is shown if the number was between them in every run. `value` is this
    run's number, or its samples: then the middle half of them must agree. A sentence about time that is chosen with
    `if` is the opinion of one run.

    Raises ValueError for a pair without `equal`.
    """
    if isinstance(than, tuple) and equal is None:
        raise ValueError("decide: than is a pair, but no text says what lies between; expected equal='…'")
    samples = [float(v) for v in value] if isinstance(value, Sequence) else [float(value)]
    if len(samples) > 1:
        first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
        samples = [first, third]
    low, high = than if isinstance(than, tuple) else (than, than)
    sentences = [str(text) for text in (above, below, undecided, undecided if equal is None else equal)]
    choice = decided(Choice(float(low), float(high), samples, sentences=sentences))
    emit(Text(text=sentences[ANSWERS.index(choice.answer or "undecided")], choice=choice))


def decided(choice: Choice) -> Choice:
    """Fill in the answer that the samples give."""
    answer = "undecided"
    if all(sample > choice.high for sample in choice.samples):
        answer = "above"
    elif all(sample < choice.low for sample in choice.samples):
        answer = "below"
    elif all(choice.low <= sample <= choice.high for sample in choice.samples):
        answer = "equal"
    return replace(choice, answer=answer)


@aside
def note(markdown: str) -> None:
    """Show Markdown to the presenter, not to the reader."""
    emit(Note(text=markdown))


@aside
def ask(
    question: str,
    answer: float | str,
    *,
    unit: str | None = None,
    within: float = NEAR,
    choices: Sequence[str] | None = None,
    hint: str | None = None,
    why: str | None = None,
    slips: Mapping[Any, str] | None = None,
) -> None:
    """Ask the reader a question that the lecture itself answers.

    A number is right within `within` of `answer`, relative to it (0: exactly). `choices` must include the answer. A
    text without choices is shown for comparison. `question`, `hint` and `why` are Markdown. `slips` maps frequent wrong
    answers to a sentence that explains the mistake.
    """
    offered = None if choices is None else [str(choice) for choice in choices]

    def plain(given: Any) -> Any:
        return str(given) if offered is not None else given.item() if hasattr(given, "item") else given

    value = plain(answer)
    explained = [(plain(wrong), mistake) for wrong, mistake in (slips or {}).items()]
    tolerance = None if isinstance(value, str) else within
    emit(Ask(text=question, answer=Answer(value, unit, tolerance, offered, hint, why, explained or None)))


def explore(
    function: Callable[..., Mapping[str, Any]],
    says: str,
    *,
    inputs: Mapping[str, tuple[float, float, float]],
    menus: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None,
    title: str | None = None,
    names: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    stack: Sequence[str] | None = None,
    limit: str | None = None,
    curve: tuple[str, str] | None = None,
    across: str | None = None,
) -> None:
    """Show a function's results, and let the reader call it with other numbers.

    `function` computes a dict of named results by plain arithmetic (see `trace.explorations`). It is called here with
    the lecture's numbers, each as a float. `inputs` gives for each parameter the lecture's number and the least and the
    greatest that a reader may set; if the lecture's number is an int, the reader sets integers. `menus` gives rows of
    numbers by name for the other parameters: {"GPU": {"H100": {"peak": 989.5e12, …}, …}}. The lecture uses the first
    row. Extra numbers in a row are ignored. Readers can enter a row of their own unless all numbers are ints.

    `says` is a sentence with placeholders: {days} is a result or parameter with its unit, {GPU} the selected row of
    that menu, and {fits?It fits.|It does not.} the first text if the result is true, else the second. Either `stack`
    names results drawn on top of each other, next to `limit` (a result or a parameter), or `curve` names an input for
    the x axis and a result for the y axis. With `across`, a menu, its other rows are drawn as well. `names` and `units`
    are for parameters and results; a unit as in `@inspect`, "%" or none.

    Raises ValueError if the function is not such arithmetic, with the line.
    """
    names, units = names or {}, units or {}

    def label(name: str) -> str:
        return names.get(name, name.replace("_", " "))

    def slider(name: str, value: Any, low: Any, high: Any, *, whole: bool) -> Input:
        value, low, high = (_number(name, number) for number in (value, low, high))
        scale: Scale = "log" if low > 0 and high / low >= LOGARITHMIC else "linear"
        return Input(name, label(name), value, low, high, scale, whole, units.get(name))

    @aside
    def before_the_call() -> Exploration:
        try:
            formula = formula_of(function)
        except NotArithmetic as error:
            raise ValueError(f"explore: {error}") from None
        sliders = []
        for name, limits in inputs.items():
            if not isinstance(limits, tuple) or len(limits) != 3:
                raise TypeError(f"explore: {name} is {_shown(limits)}; expected (number, least, most)")
            sliders.append(slider(name, *limits, whole=isinstance(limits[0], int)))
        listed = []
        for menu, rows in (menus or {}).items():
            first = next(iter(rows.values()), {})
            used = [name for name in first if name in formula.parameters]
            for row, numbers in rows.items():
                if missing := [name for name in used if name not in numbers]:
                    expected = f"expected the same numbers in each row of {menu}"
                    raise ValueError(f"explore: {row} has no {missing[0]}; {expected}")
            whole = all(isinstance(numbers[name], int) for numbers in rows.values() for name in used)
            filled = [(str(row), [_number(name, numbers[name]) for name in used]) for row, numbers in rows.items()]
            columns = []
            for place, name in enumerate(used):  # a reader's own row: up to a hundred times the lecture's numbers
                column = [numbers[place] for _, numbers in filled]
                low, high = min(column), 100 * max(*column, 1e-9)
                columns.append(slider(name, first[name], low / 100 if low >= 0 else 100 * low, high, whole=whole))
            listed.append(Menu(str(menu), columns, filled, own=not whole))
        return Exploration(function.__name__, formula.text, list(formula.parameters), sliders, listed, [])

    called = before_the_call()
    given = {one.name: one.value for one in called.inputs}
    for menu in called.menus:
        given |= {one.name: one.value for one in menu.columns}
    answers = function(**given)  # the lecture's own code: its time counts

    @aside
    def after_the_call() -> None:
        results = []
        for name, value in answers.items():
            number = value if isinstance(value, bool) else _number(name, value)
            results.append(Result(name, label(name), number, units.get(name)))
        stacked = None if stack is None else list(stack)
        shown = replace(called, results=results, stack=stacked, limit=limit, curve=curve, across=across)
        emit(Explore(text=says, title=title, exploration=shown))

    after_the_call()


@aside
def link(
    url: str,
    title: str | None = None,
    *,
    authors: str | Sequence[str] | None = None,
    date: str | int | datetime.date | None = None,
    description: str | None = None,
) -> None:
    """Show a reference. Raises ValueError for an invalid address."""
    if not _ADDRESS.match(str(url).strip()):
        expected = "expected an address, as in 'https://example.org', and then the title"
        raise ValueError(f"link: found {str(url)[:80]!r}; {expected}")
    names = authors if authors is None or isinstance(authors, str) else ", ".join(map(str, authors))
    date = None if date is None else str(date)
    emit(Link(url=str(url), title=title, authors=names, date=date, text=description))


@aside
def image(path: str | PurePath, alt: str = "", *, width: int | str | None = None) -> None:
    """Show an image file from the lecture's folder; `width` in pixels, or as a share of the text's: "50%"."""
    pixels: Any = _scalar(width)  # NumPy's numbers are accepted
    emit(Image(url=str(path), title=alt, width=pixels))


@aside
def table(rows: Any, columns: Sequence[str] = (), *, title: str | None = None) -> None:
    """Show a DataFrame, a Series, or a list of rows with one cell per column, as a table.

    For a DataFrame, `columns` selects the columns to show.
    """
    left_out = 0
    if data_frames.is_data(rows):
        columns, rows, left_out = data_frames.rows_of(rows, columns)
    for number, row in enumerate(rows):
        if isinstance(row, (str, bytes, Mapping)) or not isinstance(row, Iterable):
            raise ValueError(f"table: row {number} is {_shown(row)}; expected a list of its cells")
    cells = [[_scalar(cell) for cell in row] for row in rows]
    if cells and not columns:
        raise ValueError("table: found no names of columns; expected them as in table(rows, ['a', 'b'])")
    emit(Table(title=title, columns=[str(name) for name in columns], rows=cells, left_out=left_out or None))


@aside
def plot(
    figure: Any,
    *,
    title: str | None = None,
    x: Sequence[Any] | str | None = None,
    x_label: str | None = None,
    y_label: str | None = None,
    x_scale: Scale = "linear",
    y_scale: Scale = "linear",
    style: Style = "line",
) -> None:
    """Show a figure and record its numbers.

    `figure` is a mapping from series name to y values (drawn against `x`, or against 0, 1, 2 …), a mapping from series
    name to a pair (x values, y values), a Series, a DataFrame, or a matplotlib `Figure`. For a DataFrame, all numeric
    columns are drawn against its index or the column that `x` names. A matplotlib figure keeps its layout and
    scrolls where it is wider than the screen; a function from a width in inches to a `Figure` is called twice, for a
    page and for a phone, and each shows the drawing that fits it. `style` is "line", "points", "bars", "stacked"
    (bars on top of each other) or "steps"; scales are "linear" or "log".

    Raises ValueError for a stack on a logarithmic scale or with negative numbers; TypeError for another kind of figure.
    """
    narrow = None
    if isinstance(figure, FunctionType):  # a figure of any width
        narrow = _svg_of(figure(PHONE))
        figure = figure(PAGE)
    if data_frames.is_data(figure):
        labels, figure, label = data_frames.series_of(figure, x if isinstance(x, str) else None)
        x, x_label = labels if x is None or isinstance(x, str) else x, x_label or label
        y_label = y_label or (next(iter(figure)) if len(figure) == 1 else None)
    if isinstance(figure, Mapping):
        series = [_series(str(name), y, x, style) for name, y in figure.items()]
        svg = None
        heights = [y for one in series for y in one.y if isinstance(y, (int, float))]
        if style == "stacked" and (y_scale == "log" or min(heights, default=0) < 0):
            raise ValueError("plot: a stack needs y_scale='linear' and numbers of 0 or more")
    elif hasattr(figure, "get_axes") and hasattr(figure, "savefig"):
        series = _series_of(figure)
        svg = _svg_of(figure)
    else:
        expected = "expected {name: values}, or a matplotlib Figure such as plt.gcf()"
        raise TypeError(f"plot: found {type(figure).__name__}; {expected}")
    emit(
        Plot(
            title=title,
            x_label=x_label,
            y_label=y_label,
            x_scale=x_scale,
            y_scale=y_scale,
            series=series,
            svg=svg,
            narrow=narrow if narrow != svg else None,
        )
    )


def _shown(value: object) -> str:
    """Format a wrong argument for an error message, without an object's address, which differs between processes."""
    return repr(value) if isinstance(value, (bool, int, float, str)) else f"a {type(value).__name__}"


def emit(narrative: Narrative) -> None:
    """Check a narrative as if a file held it, and pass it to the listener. Raises ValueError; TypeError for objects."""
    try:
        msgspec.convert(to_plain(narrative), type(narrative))
    except ValueError as error:
        raise ValueError(f"{narrative.kind}: {error}") from None
    except TypeError as error:
        raise TypeError(f"{narrative.kind}: {error}") from None
    for listener, *_ in list(_listeners):
        listener(narrative)


def _series(name: str, y: Any, x: Sequence[Any] | str | None, style: Style) -> Series:
    if isinstance(y, tuple) and len(y) == 2 and hasattr(y[0], "__len__"):
        x, y = y
    if isinstance(y, str) or not hasattr(y, "__iter__"):
        raise TypeError(f"plot: series {name!r} is a {type(y).__name__}; expected a sequence of numbers")
    heights = [_scalar(v) for v in y]
    return Series(name, list(range(len(heights))) if x is None else [_scalar(v) for v in x], heights, style)


def _series_of(figure: Any) -> list[Series]:
    """Return the lines of a matplotlib figure as plain numbers; unlabelled lines are numbered."""
    lines = [line for axes in figure.get_axes() for line in axes.get_lines()]
    labels = [str(line.get_label()) for line in lines]  # labels that begin with "_" are matplotlib's own
    names = [f"line {number}" if label.startswith("_") else label for number, label in enumerate(labels, 1)]
    series = zip(names, lines, strict=True)
    return [_series(name, list(line.get_ydata()), list(line.get_xdata()), "line") for name, line in series]


def _svg_of(figure: Any) -> str | None:
    if not any(draws for *_, draws in _listeners):
        return None
    import matplotlib
    from matplotlib.transforms import Bbox

    out = io.StringIO()
    # The same figure gives the same bytes in each run, because texts are compared between runs: ids without random
    # numbers, no date. Words stay words, which pages can search and select.
    with matplotlib.rc_context({"svg.hashsalt": "trace", "svg.fonttype": "none"}), collector_paused():
        figure.draw_without_rendering()  # a layout engine moves labels only then
        width, height = figure.get_size_inches()
        drawn = figure.get_tightbbox()
        is_inside = -min(drawn.x0, drawn.y0, width - drawn.x1, height - drawn.y1) < STICKS_OUT
        # a larger box, in inches, if labels or legends are beyond the figure's edge
        box = None if is_inside else Bbox.union([Bbox([[0, 0], [width, height]]), drawn.padded(STICKS_OUT)])
        figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches=box)
        # matplotlib's parser of labels (pyparsing) leaves cycles of frames, from which the lecture's frames and
        # tensors can be reached: they would count in the peaks of later steps. While the collector is paused, all of
        # them are in the youngest generation.
        gc.collect(0)
    return out.getvalue()


def _number(name: str, value: Any) -> float:
    plain = _scalar(value)
    if isinstance(plain, bool) or not isinstance(plain, (int, float)):
        raise TypeError(f"explore: {name} is {_shown(value)}; expected a number")
    return float(plain)


def _scalar(cell: Any) -> Scalar:
    """Return `cell` as a plain number or text (a 0-d tensor or NumPy scalar by its `item()`).

    Raises ValueError for an int of more digits than Python writes.
    """
    if hasattr(cell, "item"):
        cell = cell.item()
    if isinstance(cell, int):
        str(cell)
    return cell if cell is None or isinstance(cell, (bool, int, float, str)) else str(cell)
