"""Write each kind of narrative in both page formats, and as text for the search: a row of `FORMATS` for each kind, and
its macro in `narratives.html.j2`.

    as_html(narration, image)                  Markup('<div class="prose" id="said-3">…</div>')
    as_markdown(narration, image, drawing)     "A product of $(B, D)$ and …"
    FORMATS[Table].search(table)               "Rates optimiser · rate · sgd · adam"

`image` maps an image's address to its address for the page, or None; `drawing` takes a figure's name and SVG and
returns its address for the page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from html import unescape
from itertools import chain, islice
from typing import Any, Generic, Literal, TypeVar

from markupsafe import Markup, escape

from trace_tools.pages import exercises, explorations
from trace_tools.pages.document import Narration
from trace_tools.presentation import prose
from trace_tools.presentation.charts import plot
from trace_tools.presentation.markdown_text import escape as escaped
from trace_tools.presentation.markdown_text import (
    folded,
    inline_markdown,
    joined,
    link_markdown,
    range_of,
    table,
    to_markdown,
)
from trace_tools.presentation.page_shell import environment
from trace_tools.presentation.varied import in_words, with_range
from trace_tools.trace.model import Ask, Explore, Image, Link, NarrativeKind, Note, Plot, Scalar, Table, Text, Video
from trace_tools.util import formats

ROWS_HTML, ROWS_MARKDOWN, COLUMNS, CELLS = 500, 200, 60, 6_000  # most rows, columns and cells of a table
OTHERS = 12  # most texts of other runs that are listed
# a number in a table that the lecture formatted itself
NUMBER = re.compile(r"[-−+~≈<>≤≥×]?\s?\d[\d,.]*(e[-+]?\d+)?\s?[%×]?")
_HOST = re.compile(r"https?://[a-z0-9.-]+(:\d+)?(?=[/?#]|$)", re.IGNORECASE)  # in the form for a content policy
NO_NUMBER = (None, "", "-", "–", "—")

Images = Callable[[str], str | None]
Drawing = Callable[[str, str], str]
K = TypeVar("K", bound=NarrativeKind)


@dataclass(frozen=True, slots=True)
class Position:
    """A narration on a page, and the page's addresses of images and drawings; also the parts of its kind that need more
    than the template's filters.
    """

    narration: Narration
    image: Images
    drawing: Drawing = lambda name, svg: ""
    web: bool = True  # the page may load images and videos from the web
    number: int = 1  # number of a question, whose answer is at the end of a Markdown page

    @property
    def identity(self) -> str:
        return f"said-{self.narration.number}"

    @property
    def others(self) -> list[tuple[str, int]]:
        """The texts of other runs that are shown, each with the number of these runs."""
        return (self.narration.narrative.others or [])[:OTHERS]

    @property
    def left_out(self) -> str:
        """How much of the narrative is not in the trace, or ""."""
        it = self.narration.narrative
        return f"… {it.left_out:,} more {FORMATS[type(it)].left_out} are not in the trace" if it.left_out else ""

    @property
    def prose(self) -> Markup:
        """The text, with anchors of its headings and the ranges of its numbers."""
        it = self.narration.narrative
        assert isinstance(it, Text | Note | Ask)
        anchors = [heading.anchor for heading in self.narration.headings]
        return Markup(prose.to_html(it.text, anchors, self.image, it.varied or (), f"range-{self.narration.number}"))

    @property
    def file(self) -> tuple[str | None, bool, str]:
        """The page's address of an image or video, whether it is on the web, and its address there in short."""
        it: Any = self.narration.narrative
        return self.image(it.url), on_the_web(it.url), formats.short_address(it.url)

    @property
    def table(self) -> TableCells:
        """A table's cells; one that varied shows its range on hover and focus."""
        it: Any = self.narration.narrative
        fitting, left_out = _fitting(it, ROWS_HTML)
        right = {column for column in range(len(fitting.columns)) if _is_numeric(fitting, column)}
        texts = _cells(fitting)
        for column in right:
            having = [row for row in texts if column < len(row)]
            for row, text in zip(having, formats.column([row[column] for row in having]), strict=True):
                row[column] = text
        varied = {(one.row, one.column): (which, one) for which, one in enumerate(fitting.varied or ())}
        rows: list[list[Markup]] = []
        for index, cells in enumerate(fitting.rows):
            written: list[Markup] = []
            for column, cell in enumerate(cells):
                padded = texts[index][column]
                text = padded.rstrip(formats.FIGURE + formats.POINT)
                shown = str(prose.inline_html(text) if isinstance(cell, str) else escape(text))
                if (index, column) in varied:
                    which, one = varied[index, column]
                    shown = with_range(shown, in_words(one), f"range-{self.narration.number}-{which}")
                written.append(Markup(shown + padded[len(text) :]))
            rows.append(written)
        return TableCells(fitting.columns, right, rows, left_out)

    @property
    def drawings(self) -> tuple[Markup, Markup | None]:
        """A plot, and the same for a phone; None if its width can't be changed."""
        it: Any = self.narration.narrative
        name = f"fig{self.narration.number}"
        wide = Markup(plot.figure(it, name) or "")
        return wide, None if it.svg and not it.narrow else Markup(plot.figure(it, f"{name}n", plot.NARROW) or "")

    @property
    def cited(self) -> tuple[str, str | None, str]:
        """The title of a reference, its address if it is safe, its authors and date."""
        it: Any = self.narration.narrative
        title, url = (
            formats.one_line(it.title or it.url or "a reference", 300),
            prose.linked.get(prose.safe_url)(it.url or ""),
        )
        return title, url, formats.one_line(", ".join(filter(None, (it.authors, it.date))), 200)

    @property
    def exercise(self) -> exercises.Exercise:
        it: Any = self.narration.narrative
        return exercises.Exercise(it)

    @property
    def explored(self) -> tuple[Markup, explorations.Tables]:
        """The sentence of a figure with inputs, and its tables."""
        it: Any = self.narration.narrative
        return explorations.sentence_html(it), explorations.tables(it.exploration)


@dataclass(frozen=True, slots=True)
class TableCells:
    """A table for a page."""

    columns: list[str]
    right: set[int]  # columns of numbers
    rows: list[list[Markup]]
    left_out: str


@dataclass(frozen=True, slots=True)
class Format(Generic[K]):
    """How pages show one kind of narrative; its HTML is the macro of its name in `narratives.html.j2`."""

    markdown: Callable[[K, Position], str]
    search: Callable[[K], str]
    entry: Literal["text", "table", "figure", "link", "note", "exercise"] = "text"  # kind of its entries in the search
    left_out: str = "characters"  # what the trace leaves out of a long one


@lru_cache(maxsize=1)
def _macros() -> Any:
    return environment().get_template("narratives.html.j2").module


def as_html(narration: Narration, image: Images, *, web: bool = True) -> Markup:
    """Return a narration as HTML, with the texts of other runs that differ.

    A page that loads nothing (not `web`) shows names and addresses of images and videos on the web.
    """
    macro = getattr(_macros(), narration.narrative.kind)
    return Markup(macro(narration.narrative, Position(narration, image, web=web)))


def as_markdown(narration: Narration, image: Images, drawing: Drawing, number: int = 1) -> str:
    """Return the same as Markdown; a short line mentions other runs that differ.

    `number` is the number of a question, whose answer is at the end of the page.
    """
    at = Position(narration, image, drawing, number=number)
    text = FORMATS[type(narration.narrative)].markdown(narration.narrative, at)
    sometimes = ""
    if narration.sometimes:
        variants = "; ".join(
            f"in {runs}: “{escaped(formats.one_line(prose.passages(variant), 300))}”" for variant, runs in at.others
        )
        counted = narration.sometimes.capitalize()
        sometimes = f"*{counted}; {variants}*" if variants else f"*{counted}.*"
    return joined([text, sometimes, f"*{at.left_out}*" if at.left_out else ""])


# --- as Markdown ----------------------------------------------------------------------------------


def _text_markdown(it: Text | Note | Ask, at: Position) -> str:
    return to_markdown(it.text, at.image, it.varied or ())


def _ask_markdown(it: Ask, at: Position) -> str:
    return at.exercise.question_markdown(_text_markdown(it, at), at.number)


def _note_markdown(it: Note, at: Position) -> str:
    return joined(folded("Note for the presenter", [_text_markdown(it, at)]))


def _link_markdown(it: Link, at: Position) -> str:
    title, _, _ = at.cited
    by = ", ".join(formats.one_line(part, 200) for part in (it.authors, it.date) if part)
    shown = link_markdown(title, it.url) + (f" ({escaped(by)})" if by else "")
    return f"- {shown}" + (f"  \n  {inline_markdown(it.text)}" if it.text else "")


def _image_markdown(it: Image, at: Position) -> str:
    if on_the_web(it.url):
        return f"![{escaped(it.title or it.kind)}](<{at.image(it.url) or it.url}>)"
    source = at.image(it.url)
    return f"![{escaped(it.title or '')}]({source})" if source else f"*Image not shown: {escaped(it.url)}*"


def _video_markdown(it: Video, at: Position) -> str:
    if on_the_web(it.url):
        return link_markdown(f"Video: {it.title or it.kind}", at.image(it.url) or it.url)
    source, name = at.image(it.url), formats.one_line(it.title or it.url, 300)
    return link_markdown(f"Video: {name}", source) if source else f"*Video not shown: {escaped(name)}*"


def on_the_web(url: str) -> bool:
    """Return whether an image or video is on the web, at an address that is safe in a page."""
    return prose.safe_url(url) is not None and _HOST.match(url) is not None


def _plot_markdown(it: Plot, at: Position) -> str:
    name = f"fig{at.narration.number}"
    drawn = plot.figure(it, name)
    if drawn is None:
        return "*A plot without numbers to draw.*"
    title = escaped(formats.one_line(it.title or plot.describe(it), 200))
    return f"![{title}]({at.drawing(name, drawn)})" + (f"\n\n*{inline_markdown(it.title)}*" if it.title else "")


def _table_markdown(it: Table, at: Position) -> str:
    fitting, left_out = _fitting(it, ROWS_MARKDOWN)
    varied = {(one.row, one.column): one for one in fitting.varied or ()}
    rows = []
    for row, cells in enumerate(_cells(fitting)):
        texts = [(inline_markdown(cell), varied.get((row, column))) for column, cell in enumerate(cells)]
        rows.append([text if one is None else f"{text} {range_of(one)}" for text, one in texts])
    caption = f"\n\n*{inline_markdown(it.title)}*" if it.title else ""
    more = f"\n\n*{left_out}*" if left_out else ""
    return table([inline_markdown(column) for column in fitting.columns], rows) + caption + more


# --- tables ---------------------------------------------------------------------------------------


def _in_one_prefix(it: Table) -> Table:
    """Return a table whose columns of rates, seconds or FLOP have one prefix each: "rate, FLOP/s" becomes GFLOP/s."""
    columns, factors = list(it.columns), dict[int, float]()
    for column, label in enumerate(columns):
        cells = [row[column] for row in it.rows if column < len(row) and row[column] not in NO_NUMBER]
        numbers = [cell for cell in cells if isinstance(cell, (int, float)) and not isinstance(cell, bool)]
        if len(numbers) == len(cells):
            columns[column], factors[column] = formats.column_unit(label, numbers)

    def scaled(cell: Scalar, column: int | None) -> Scalar:
        factor = factors.get(column, 1) if column is not None else 1
        return cell if factor == 1 or isinstance(cell, str) or not cell else cell / factor

    rows = [[scaled(cell, column) for column, cell in enumerate(row)] for row in it.rows]
    varied = [
        replace(
            one,
            samples=[scaled(cell, one.column) for cell in one.samples],
            cold_samples=one.cold_samples and [scaled(cell, one.column) for cell in one.cold_samples],
        )
        for one in it.varied or ()
    ]
    return replace(it, columns=columns, rows=rows, varied=varied or it.varied)


def _fitting(it: Table, most: int) -> tuple[Table, str]:
    """Return as much of a table as fits on a page, and a note on the rest, or ""."""
    it = _in_one_prefix(it)
    columns, rows = it.columns, it.rows
    wide = min(len(columns), COLUMNS)
    high = min(len(rows), most, CELLS // max(wide, 1))
    if (wide, high) == (len(columns), len(rows)):
        return it, ""
    counted = ((len(rows), high, "rows"), (len(columns), wide, "columns"))
    left_out = [
        f"{shown} of {total} {name} shown; the trace has all." for total, shown, name in counted if total > shown
    ]
    return replace(it, columns=columns[:wide], rows=[row[:wide] for row in rows[:high]]), " ".join(left_out)


def _cells(it: Table) -> list[list[str]]:
    """Return the cells of a table as texts; numbers of a column get the same decimals if these suit all."""

    def text_of(cell: Scalar) -> str:
        if isinstance(cell, str):
            return cell
        return "–" if cell is None else formats.number(cell).removesuffix(".0")  # a whole one is 5, even next to 5.25

    texts = [[text_of(cell) for cell in cells] for cells in it.rows]
    for column in range(len(it.columns)):
        cells = [(at, row[column]) for at, row in enumerate(it.rows) if column < len(row)]
        real = [(at, cell) for at, cell in cells if isinstance(cell, int | float) and not isinstance(cell, bool)]
        rows, numbers = [at for at, _ in real], [cell for _, cell in real]
        if any(number != int(number) for number in numbers if math.isfinite(number)):
            aligned = formats.aligned(numbers, digits=4, least=3) or []
            for at, text in zip(rows, aligned, strict=False):
                texts[at][column] = text
    return texts


def _is_numeric(it: Table, column: int) -> bool:
    """Return whether a column holds numbers, which are right-aligned; a dash counts as a missing number."""
    cells = [row[column] for row in it.rows if column < len(row)]
    present = [cell for cell in cells if cell not in NO_NUMBER]
    return bool(present) and all(isinstance(cell, (int, float)) or NUMBER.fullmatch(str(cell)) for cell in present)


# --- text for the search, and all kinds -----------------------------------------------------------


def _searched(title: str | None, *parts: str | None) -> str:
    return f"{prose.readable_text(title or '')} {' '.join(filter(None, parts))}"


def _searched_table(it: Table) -> str:
    cells = islice(chain(it.columns, *it.rows), CELLS)
    return _searched(it.title, " · ".join(prose.readable_text(cell) for cell in cells if isinstance(cell, str)))


def _searched_plot(it: Plot) -> str:
    names = (series.name for series in it.series)
    drawn = map(unescape, re.findall(r"<text[^>]*>([^<]+)</text>", it.svg or ""))
    return _searched(it.title, " · ".join(filter(None, dict.fromkeys((it.x_label, it.y_label, *names, *drawn)))))


FORMATS: Mapping[type[NarrativeKind], Format[Any]] = {
    Text: Format(_text_markdown, lambda it: prose.passages(it.text)),
    Note: Format(_note_markdown, lambda it: prose.passages(it.text), "note"),
    Link: Format(_link_markdown, lambda it: _searched(it.title, it.text, it.authors, it.date), "link"),
    Image: Format(_image_markdown, lambda it: _searched(it.title), "figure"),
    Video: Format(_video_markdown, lambda it: _searched(it.title)),
    Table: Format(_table_markdown, _searched_table, "table", "rows"),
    Plot: Format(_plot_markdown, _searched_plot, "figure", "points"),
    Ask: Format(_ask_markdown, lambda it: prose.passages(it.text), "exercise"),
    Explore: Format(
        lambda it, at: explorations.as_markdown(it),
        lambda it: _searched(it.title, explorations.sentence(it.exploration, it.text)),
        "figure",
    ),
}
