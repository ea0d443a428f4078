"""The lecture's vocabulary: what it tells its reader, recorded when a trace is being made.

Each call makes one `Narrative` and hands it to whoever is listening; when nobody is (a plain
`python lecture.py`) it does nothing.

    text("Matrices multiply in $2BDK$ FLOPs.")
    link("https://arxiv.org/abs/1910.02054", title="ZeRO", authors="Rajbhandari et al.", date="2019")
"""

from __future__ import annotations

import base64
import datetime
import gc
import io
import math
import os
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import wraps
from pathlib import PurePath
from types import FrameType, ModuleType
from typing import Any, ParamSpec, TypeVar

from trace_tools import arithmetic
from trace_tools.explorations import LONGEST_NAME, MOST_ROWS, why_unexplorable
from trace_tools.files import why_not_inside
from trace_tools.garbage import collector_paused
from trace_tools.schema import Answer, Choice, Exploration, Input, Menu, Narrative, Result, Scalar, Series

Listener = Callable[[Narrative], None]
Pause = Callable[[], AbstractContextManager[None]]
P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["ask", "decide", "explore", "image", "link", "note", "plot", "table", "text"]

VOCABULARY = frozenset(__all__)
NEEDS: Mapping[str, tuple[str, ...]] = {  # kind of narrative → the fields it can't be without
    "text": ("text",),
    "note": ("text",),
    "link": (),  # the url, unless it flows: then its label may be all there is
    "image": ("url",),
    "video": ("url",),
    "table": ("columns", "rows"),
    "plot": ("series",),
    "ask": ("text", "answer"),
    "explore": ("text", "exploration"),
}
PROSE = frozenset({"text", "note", "ask"})  # kinds whose `text` is Markdown, with numbers that may vary
SCALES = ("linear", "log")
STYLES = ("line", "points", "bars", "stacked", "steps")
WIDTH = re.compile(r"0*[1-9]\d{0,4}|0*[1-9]\d{0,2}(\.\d+)?%")  # of an image: pixels, or a share of the text's
FIGURES = {  # what something has that is no figure → how to plot it
    "gcf": "plot(plt.gcf())",
    "get_figure": "plot(ax.get_figure())",
    "columns": "plot({name: df[name] for name in df.columns})",
    "__len__": 'plot({"y": values})',
}
ANSWERS = ("above", "below", "undecided")
LOGARITHMIC = 1000  # a slider that goes from a number to so many times it is logarithmic
NEAR = 0.01  # a number that is asked for is right within this of the answer, relative to it
STICKS_OUT = 0.02  # inches that a label may reach out of its figure before that gets a larger box

MADE_BYTES = 1 << 20  # of an image that the lecture itself makes: it is kept in the trace
MEDIA = {"png": "png", "jpg": "jpeg", "jpeg": "jpeg", "gif": "gif", "webp": "webp", "svg": "svg+xml"}

_listeners: list[tuple[Listener, Pause]] = []


@contextmanager
def listening(listener: Listener, pause: Pause = nullcontext) -> Iterator[None]:
    """Hand every narrative call made inside the `with` block, in any thread, to `listener`.

    Each call happens inside a `pause()`: what it takes to draw a figure is not the lecture's time.
    """
    entry = (listener, pause)
    _listeners.append(entry)
    try:
        yield
    finally:
        _listeners.remove(entry)


def aside(word: Callable[P, R]) -> Callable[P, R]:
    """Make a function of the vocabulary take none of the lecture's time."""

    @wraps(word)
    def said(*args: P.args, **kwargs: P.kwargs) -> R:
        with ExitStack() as stack:
            for _, pause in _listeners:
                stack.enter_context(pause())
            return word(*args, **kwargs)

    return said


@aside
def text(markdown: str) -> None:
    """Show a paragraph of Markdown, `$math$` included. Raises TypeError for what is no text."""
    tell(Narrative("text", text=_text("text", "the argument", markdown)))


@aside
def decide(
    value: float | Sequence[float],
    *,
    above: str,
    below: str,
    undecided: str,
    than: float | tuple[float, float] = 1.0,
) -> None:
    """Show the paragraph that all samples of a measured number agree on, or `undecided` where they don't.

    `above` is shown where the number was more than `than` in every timed run of the trace, `below` where it was less
    in every one; `than` may be a pair (low, high) between which neither is meant. `value` is this run's number, or
    its samples: then the middle half of them has to agree. A sentence about time that is chosen with `if` is the
    opinion of one run.
    """
    samples = [float(v) for v in value] if isinstance(value, Sequence) else [float(value)]
    if len(samples) > 1:
        first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
        samples = [first, third]
    low, high = than if isinstance(than, tuple) else (than, than)
    choice = decided(Choice(float(low), float(high), samples, sentences=[str(above), str(below), str(undecided)]))
    tell(Narrative("text", text=sentence(choice), choice=choice))


def decided(choice: Choice) -> Choice:
    """Fill in what the samples say."""
    if all(sample > choice.high for sample in choice.samples):
        return replace(choice, answer=ANSWERS[0])
    return replace(choice, answer=ANSWERS[1 if all(sample < choice.low for sample in choice.samples) else 2])


def sentence(choice: Choice) -> str:
    """Return the sentence that fits the answer."""
    return (choice.sentences or [""] * 3)[ANSWERS.index(choice.answer or ANSWERS[2])]


@aside
def note(markdown: str) -> None:
    """Show Markdown to the presenter, not to the reader. Raises TypeError for what is no text."""
    tell(Narrative("note", text=_text("note", "the argument", markdown)))


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
    """Ask the reader something that the lecture knows the answer to, having computed it.

    A number is right within `within` of `answer`, relative to it (0: exactly); with `choices` the answer is one of
    them; a text without choices is there to compare one's own with. `question`, `hint` and `why` are Markdown.
    `slips` maps wrong answers that are often given to a sentence that says what went wrong.

    Raises TypeError for an answer that is neither a number nor a text, ValueError for one that is not finite or none
    of the choices, and for a `within` below 0.
    """
    value = _answer("answer", answer)
    texts = None if choices is None else _texts("ask", "choices", choices)
    if texts is not None:
        value = str(value)
        if value not in texts:
            raise ValueError(
                f"ask: the answer is {value!r}; expected one of the choices, {', '.join(map(repr, texts))}"
            )
    if not (isinstance(within, (int, float)) and within >= 0):
        raise ValueError(f"ask: within is {_shown(within)}; expected 0 or more, relative to the answer")
    known = []
    for wrong, sentence in (slips or {}).items():
        slip = _answer("a slip", wrong)
        if texts is not None and str(slip) not in texts:
            raise ValueError(f"ask: a slip is {slip!r}; expected one of the choices, {', '.join(map(repr, texts))}")
        known.append((slip if texts is None else str(slip), _text("ask", "a slip's sentence", sentence)))
    found = Answer(
        value,
        unit=_text_or_none("ask", "unit", unit),
        within=None if isinstance(value, str) else float(within),
        choices=texts,
        hint=_text_or_none("ask", "hint", hint),
        why=_text_or_none("ask", "why", why),
        slips=known or None,
    )
    tell(Narrative("ask", text=_text("ask", "question", question), answer=found))


def _answer(name: str, value: Any) -> int | float | str:
    """Return a number, or a text. Raises TypeError, ValueError."""
    plain = _scalar(value) if hasattr(value, "item") else value
    if isinstance(plain, bool) or not isinstance(plain, (int, float, str)):
        raise TypeError(f"ask: {name} is a {type(value).__name__}; expected a number or a text")
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ValueError(f"ask: {name} is {plain}; expected a finite number")
    if isinstance(plain, int):
        str(plain)  # raises ValueError for one of more digits than Python writes
    return plain


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

    `function` computes a dict of named results by plain arithmetic (see `arithmetic`); it is called here with the
    lecture's numbers, each as a float. `inputs` has for each of its parameters the lecture's number and the least and
    the most that a reader may set; where the lecture's is an int, only whole ones. `menus` has for the others rows of
    numbers by name: {"GPU": {"H100": {"peak": 989.5e12, …}, …}}. The lecture takes the first row, and what a row has
    beyond the parameters is passed over; unless all numbers are ints, readers can type a row of their own.

    `says` is a sentence: in the place of {days} stands that result, or that parameter, with its unit, of {GPU} the row
    of that menu, and {fits?It fits.|It does not.} is the first if the result is true, else the second. Either `stack`
    names results that are drawn on one another, beside `limit`, a result or a parameter; or `curve` names an input
    across and a result upwards. With `across`, a menu, its other rows are drawn as well. `names` and `units` are those
    of parameters and results; a unit as in `@inspect`, "%" or none.

    Raises ValueError for a function that is no such arithmetic, naming the line, and for what does not fit to it,
    TypeError for what is no number where one is meant.
    """
    called = _exploration(function, inputs, menus or {}, names or {}, units or {})
    given = {one.name: one.value for one in called.inputs}
    for menu in called.menus:
        given |= zip((one.name for one in menu.columns), menu.rows[0][1], strict=True)
    found = function(**given)
    drawn = {"stack": stack, "limit": limit, "curve": curve, "across": across}
    _tell_explored(called, found, says, title, names or {}, units or {}, drawn)


@aside
def _exploration(
    function: Callable[..., Any],
    inputs: Mapping[str, tuple[float, float, float]],
    menus: Mapping[str, Mapping[str, Mapping[str, float]]],
    names: Mapping[str, str],
    units: Mapping[str, str],
) -> Exploration:
    """Return what can be said before the function is called."""
    try:
        formula = arithmetic.formula_of(function)
    except arithmetic.NotArithmetic as error:
        raise ValueError(f"explore: {error}") from None

    def made(name: str, value: float, low: float, high: float, *, whole: bool) -> Input:
        value, low, high = (_finite(name, number) for number in (value, low, high))
        if not low <= value <= high or low == high:
            raise ValueError(f"explore: {name} is {value:g}; expected it from {low:g} to {high:g}")
        scale = SCALES[low > 0 and high / low >= LOGARITHMIC]
        unit = _text_or_none("explore", name, units.get(name))
        return Input(_short(name), _label(name, names), value, low, high, scale, whole, unit)

    found = []
    for name, limits in inputs.items():
        if not isinstance(limits, tuple) or len(limits) != 3:
            raise TypeError(f"explore: {name} is {_shown(limits)}; expected (number, least, most)")
        found.append(made(name, *limits, whole=isinstance(limits[0], int)))
    chosen = [_menu(label, rows, formula.parameters, made) for label, rows in menus.items()]
    known = [one.name for one in (*found, *(column for menu in chosen for column in menu.columns))]
    if sorted(known) != sorted(formula.parameters):
        listed = ", ".join(formula.parameters)
        raise ValueError(f"explore: found numbers for {', '.join(known)}; expected one for each parameter, {listed}")
    return Exploration(_short(function.__name__), formula.text, list(formula.parameters), found, chosen, [])


def _menu(
    label: str, rows: Mapping[str, Mapping[str, float]], parameters: Sequence[str], made: Callable[..., Input]
) -> Menu:
    """Return rows of numbers; a reader may type a row of their own, up to a hundred times beyond these."""
    if not 1 <= len(rows) <= MOST_ROWS:
        raise ValueError(f"explore: {label} has {len(rows)} rows; expected 1 to {MOST_ROWS}")
    first = next(iter(rows.values()))
    columns, numbers = [name for name in first if name in parameters], []
    for row, given in rows.items():
        if missing := [name for name in columns if name not in given]:
            raise ValueError(f"explore: {row} has no {missing[0]}; expected the same numbers in each row of {label}")
        numbers.append((_short(row), [_finite(name, given[name]) for name in columns]))
    whole = all(isinstance(given[name], int) for given in rows.values() for name in columns)
    limits = [(min(column), max(column)) for column in zip(*(row for _, row in numbers), strict=True)]
    inputs = [
        made(name, first[name], max(low / 100, 0.0) if low >= 0 else 100 * low, 100 * max(high, 1e-9), whole=whole)
        for name, (low, high) in zip(columns, limits, strict=True)
    ]
    return Menu(_short(label), inputs, numbers, own=not whole)


@aside
def _tell_explored(
    called: Exploration,
    found: Mapping[str, Any],
    says: str,
    title: str | None,
    names: Mapping[str, str],
    units: Mapping[str, str],
    drawn: Mapping[str, Any],
) -> None:
    results = []
    for name, value in found.items():
        number = value if isinstance(value, bool) else _finite(name, value)
        unit = _text_or_none("explore", name, units.get(name))
        results.append(Result(_short(name), _label(name, names), number, unit))
    stack = None if drawn["stack"] is None else _texts("explore", "stack", drawn["stack"])
    curve = None if drawn["curve"] is None else tuple(_texts("explore", "curve", drawn["curve"]))
    told = replace(called, results=results, **{**drawn, "stack": stack, "curve": curve})
    text = _text("explore", "says", says)
    if wrong := why_unexplorable(told, text):
        raise ValueError(f"explore: {wrong}")
    tell(Narrative("explore", text=text, title=_text_or_none("explore", "title", title), exploration=told))


def _label(name: str, names: Mapping[str, str]) -> str:
    """Return what a parameter or a result is called where it is shown."""
    return _short(names[name]) if name in names else name.replace("_", " ")


def _short(name: object) -> str:
    text = _text("explore", "a name", name)
    if len(text) > LONGEST_NAME:
        raise ValueError(f"explore: a name has {len(text):,} characters; expected at most {LONGEST_NAME}")
    return text


def _finite(name: str, value: Any) -> float:
    """Return a number as a float. Raises TypeError, ValueError."""
    plain = _scalar(value) if hasattr(value, "item") else value
    if isinstance(plain, bool) or not isinstance(plain, (int, float)):
        raise TypeError(f"explore: {name} is {_shown(plain)}; expected a number")
    try:
        number = float(plain)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"explore: {name} is {number}; expected a finite number")
    return number


@aside
def link(
    url: str,
    title: str | None = None,
    *,
    authors: str | Sequence[str] | None = None,
    date: str | int | datetime.date | None = None,
    description: str | None = None,
) -> None:
    """Show a reference. Raises TypeError for what is no text where text is meant."""
    names = authors if authors is None or isinstance(authors, str) else ", ".join(_texts("link", "authors", authors))
    tell(
        Narrative(
            "link",
            url=_text("link", "url", url),
            title=_text_or_none("link", "title", title),
            authors=names,
            date=None if date is None else str(date),
            text=_text_or_none("link", "description", description),
        )
    )


@aside
def image(path: str | PurePath, alt: str = "", *, width: int | str | None = None) -> None:
    """Show an image file that lies beside the lecture; `width` in pixels, or as a share of the text's: "50%".

    Raises ValueError for a path that leads elsewhere and for a width that is none.
    """
    if hasattr(path, "savefig"):
        raise TypeError(f"image: path is a {type(path).__name__}; expected a file's path, or `plot(figure)`")
    why = why_not_inside(_text("image", "path", path))
    if why:
        raise ValueError(f"image: {why}")
    wide = _scalar(width)  # NumPy's numbers are numbers, too
    if wide is not None and (isinstance(wide, float) or not WIDTH.fullmatch(str(wide))):
        raise ValueError(f"image: width is {_shown(width)}; expected pixels above 0, or a percentage such as '50%'")
    tell(Narrative("image", url=str(path), title=_text("image", "alt", alt), width=wide))


@aside
def table(rows: Sequence[Sequence[Any]], columns: Sequence[str] = (), *, title: str | None = None) -> None:
    """Show a table; every row has one cell per column. Raises ValueError when one has not, or is no row of cells.

    Without columns there are no cells: what is wrong with the rows is more worth saying than that these are missing.
    """
    if isinstance(rows, Mapping):
        raise ValueError("table: found a dict; expected a list of rows, as in table(list(d.items()), ['key', 'value'])")
    if hasattr(rows, "columns") and hasattr(rows, "to_numpy"):  # pandas, polars: what iterates over it sees its columns
        hint = "as in table(df.to_numpy(), list(df.columns))"
        raise ValueError(f"table: found a {type(rows).__name__}; expected a list of rows, {hint}")
    for number, row in enumerate(rows):
        if isinstance(row, Mapping):
            hint = "as in table([list(row.values()) for row in rows], list(rows[0]))"
            raise ValueError(f"table: row {number} is {_shown(row)}; expected a list of its cells, {hint}")
        if isinstance(row, (str, bytes)) or not isinstance(row, Iterable):
            raise ValueError(f"table: row {number} is {_shown(row)}; expected a list of its cells")
    cells = [[_scalar(cell) for cell in row] for row in rows]
    names = _texts("table", "columns", columns)
    for number, row in enumerate(cells):
        if len(row) != len(names):
            expected = str(len(names)) if names else "the columns' names as well, as in table(rows, ['a', 'b'])"
            raise ValueError(f"table: row {number} has {len(row)} cells; expected {expected}")
    tell(Narrative("table", title=_text_or_none("table", "title", title), columns=names, rows=cells))


@aside
def plot(
    figure: Any,
    *,
    title: str | None = None,
    x: Sequence[Any] | None = None,
    x_label: str | None = None,
    y_label: str | None = None,
    x_scale: str = "linear",
    y_scale: str = "linear",
    style: str = "line",
) -> None:
    """Show a figure, keeping its numbers.

    `figure` is a mapping from series name to y values (drawn against `x`, or against 0, 1, 2 …),
    a mapping from series name to a pair (x values, y values), or a matplotlib `Figure`.
    `style` is "line", "points", "bars", "stacked" (bars on one another) or "steps"; scales are "linear" or "log".
    Of several series of points, a curve joins those that sample a function: few, in order along x, and not picked
    from the places of another.
    Raises ValueError for another of these, for series of unequal length and for a stack on a logarithmic scale or of
    numbers below 0, TypeError for another kind of figure.
    """
    for name, value, choices in (("x_scale", x_scale, SCALES), ("y_scale", y_scale, SCALES), ("style", style, STYLES)):
        if value not in choices:
            raise ValueError(f"plot: {name} is {_shown(value)}; expected one of {', '.join(choices)}")
    if isinstance(figure, Mapping):
        series = [_series(str(name), y, x, style) for name, y in figure.items()]
        svg = None
        if style == "stacked":
            _check_stacked(series, y_scale)
    elif hasattr(figure, "get_axes") and hasattr(figure, "savefig"):
        series = _series_of(figure)
        svg = _svg_of(figure)
    else:
        hint = next((f": `{how}`" for has, how in FIGURES.items() if hasattr(figure, has)), "")
        expected = f"expected {{name: values}} or a matplotlib Figure{hint}"
        raise TypeError(f"plot: found {_shown_kind(figure)}; {expected}")
    tell(
        Narrative(
            "plot",
            title=_text_or_none("plot", "title", title),
            x_label=_text_or_none("plot", "x_label", x_label),
            y_label=_text_or_none("plot", "y_label", y_label),
            x_scale=x_scale,
            y_scale=y_scale,
            series=series,
            svg=svg,
        )
    )


def _shown_kind(value: object) -> str:
    return f"the module {value.__name__}" if isinstance(value, ModuleType) else type(value).__name__


def _shown(value: object) -> str:
    """Return a wrong argument as an error shows it: the same in every process, without an object's address."""
    return repr(value) if isinstance(value, (bool, int, float, str)) else f"a {type(value).__name__}"


def _text(word: str, name: str, value: object) -> str:
    """Return text; numbers and paths as people write them. Raises TypeError for anything else."""
    if isinstance(value, (str, int, float, PurePath)):
        return str(value)
    raise TypeError(f"{word}: {name} is a {type(value).__name__}; expected text")


def _text_or_none(word: str, name: str, value: object) -> str | None:
    return None if value is None else _text(word, name, value)


def _texts(word: str, name: str, values: object) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{word}: {name} is a {type(values).__name__}; expected a list of texts")
    return [_text(word, f"{name}[{number}]", value) for number, value in enumerate(values)]


def as_data(path: str) -> str:
    """Return an image that the lecture itself has made as an address that holds it: its file goes with the run.

    Raises ValueError for what is too large to be kept in a trace, or no image by its name.
    """
    media, size = MEDIA.get(PurePath(path).suffix[1:].lower()), os.path.getsize(path)
    if media is None or size > MADE_BYTES:
        why = f"{size:,} bytes; at most {MADE_BYTES:,} are kept" if media else "of an unknown kind"
        raise ValueError(f"{path} was made by the lecture and is {why}")
    with open(path, "rb") as file:
        return f"data:image/{media};base64,{base64.b64encode(file.read()).decode('ascii')}"


def tell(narrative: Narrative) -> None:
    """Hand a narrative to whoever is listening: for words of other vocabularies."""
    for listener, _ in list(_listeners):
        listener(narrative)


def _series(name: str, y: Any, x: Sequence[Any] | None, style: str) -> Series:
    if isinstance(y, tuple) and len(y) == 2 and hasattr(y[0], "__len__"):
        x, y = y
    if isinstance(y, str) or not hasattr(y, "__iter__"):
        raise TypeError(f"plot: series {name!r} is a {type(y).__name__}; expected a sequence of numbers")
    heights = [_scalar(v) for v in y]
    places = list(range(len(heights))) if x is None else [_scalar(v) for v in x]
    if len(places) != len(heights):
        raise ValueError(f"plot: series {name!r} has {len(places)} x values and {len(heights)} y values")
    return Series(name=name, x=list(places), y=heights, style=style)


def _check_stacked(series: Sequence[Series], y_scale: str) -> None:
    if y_scale == "log":
        raise ValueError("plot: bars are stacked on a logarithmic scale, where sums are no heights; expected 'linear'")
    for one in series:
        for y in one.y:
            if isinstance(y, (int, float)) and y < 0:
                raise ValueError(f"plot: series {one.name!r} has {y} in a stack; expected 0 or more")


def _series_of(figure: Any) -> list[Series]:
    """Return the lines of a matplotlib figure as plain numbers; those without a label are numbered."""
    lines = [line for axes in figure.get_axes() for line in axes.get_lines()]
    labels = [str(line.get_label()) for line in lines]  # one that begins with "_" is matplotlib's own
    names = [f"line {number}" if label.startswith("_") else label for number, label in enumerate(labels, 1)]
    found = zip(names, lines, strict=True)
    return [_series(name, list(line.get_ydata()), list(line.get_xdata()), "line") for name, line in found]


def _svg_of(figure: Any) -> str:
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "trace", "svg.fonttype": "none"}), collector_paused():
        figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches=_box_of(figure))
        _release_callers()
    return out.getvalue()


def _box_of(figure: Any) -> Any:
    """Return the box, in inches, that holds a label or legend which sticks out of the figure; None where none does."""
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()  # a layout engine moves labels only then
    width, height = figure.get_size_inches()
    drawn = figure.get_tightbbox()
    if -min(drawn.x0, drawn.y0, width - drawn.x1, height - drawn.y1) < STICKS_OUT:
        return None
    return Bbox.union([Bbox([[0, 0], [width, height]]), drawn.padded(STICKS_OUT)])


def _release_callers() -> None:
    """Clear the frames that matplotlib's parser of labels has left in cycles. Each keeps all its callers alive:
    the lecture's frames, and so its tensors, until the collector runs. It must not have run since the drawing began.
    """
    here = sys._getframe(1)
    for frame in gc.get_objects(generation=0):
        if isinstance(frame, FrameType) and "pyparsing" in frame.f_code.co_filename:
            caller = frame.f_back
            while caller not in (None, here):
                caller = caller.f_back if caller else None
            if caller is here:
                frame.clear()


def _scalar(cell: Any) -> Scalar:
    """Return `cell` as a plain number or text (a 0-d tensor or NumPy scalar by its `item()`).

    Raises ValueError for an int of more digits than Python writes.
    """
    if hasattr(cell, "item"):
        cell = cell.item()
    if isinstance(cell, int):
        str(cell)
    return cell if cell is None or isinstance(cell, (bool, int, float, str)) else str(cell)
