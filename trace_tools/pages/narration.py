"""Write each kind of narrative in both page formats, and as text for the search: a row of `FORMATS` for each kind, and
its macro in `narratives.html.j2`. Also how long a page takes to read.

    as_html(narration, image)                  Markup('<div class="prose" id="said-3">…</div>')
    as_markdown(narration, image, drawing)     "A product of $(B, D)$ and …"
    FORMATS[Table].search(table)               "Rates optimiser · rate · sgd · adam"
    reading_minutes(section.blocks)            6, its core; with deeper=True: 3, its folded parts

`image` maps an image's address to its address for the page, or None; `drawing` takes a figure's name and SVG and
returns its address for the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import unescape
from itertools import chain, islice
from typing import Any, Generic, Literal, TypeVar

from markupsafe import Markup, escape

from trace_tools.pages import exercises, explorations
from trace_tools.pages.document import Block, Call, CodeListing, Narration
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
from trace_tools.trace.model import (
    Ask,
    Explore,
    Image,
    Link,
    NarrativeKind,
    Note,
    Plot,
    Scalar,
    Table,
    Text,
    Varied,
    Video,
)
from trace_tools.util import formats

ROWS_HTML, ROWS_MARKDOWN, COLUMNS, CELLS = 500, 200, 60, 6_000  # most rows, columns and cells of a table
# a number in a table that the lecture formatted itself
NUMBER = re.compile(r"[-−+~≈<>≤≥×]?\s?\d[\d,.]*(e[-+]?\d+)?\s?[%×]?")
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
    def remarks(self) -> list[str]:
        """In how many runs it was emitted, if not in all, and how much of it is not in the trace."""
        it, sometimes = self.narration.narrative, self.narration.sometimes
        more = f"… {it.left_out:,} more {FORMATS[type(it)].left_out} are not in the trace" if it.left_out else ""
        return list(filter(None, (sometimes and f"{sometimes.capitalize()}.", more)))

    @property
    def prose(self) -> Markup:
        """The text, with anchors of its headings and the ranges of its numbers."""
        it = self.narration.narrative
        assert isinstance(it, Text | Note | Ask)
        anchors = [heading.anchor for heading in self.narration.headings]
        return Markup(prose.to_html(it.text, anchors, self.image, it.varied or (), f"range-{self.narration.number}"))

    @property
    def table(self) -> Cells:
        """A table's cells as HTML; one that varied shows its range on hover and focus."""
        it: Any = self.narration.narrative
        table = _cells(it, ROWS_HTML)

        def written(cell: str, column: int) -> str:
            return str(escape(cell)) if column in table.right else prose.inline_html(cell)

        rows = [[written(cell, column) for column, cell in enumerate(row)] for row in table.rows]
        for which, one in enumerate(table.varied):
            identity = f"range-{self.narration.number}-{which}"
            row, column = rows[one.row or 0], one.column or 0
            row[column] = with_range(row[column], in_words(one), identity)
        return replace(table, rows=[list(map(Markup, row)) for row in rows])

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
        title, url = it.title or it.url or "a reference", it.url or ""
        by = ", ".join(filter(None, (it.authors, it.date)))
        return title, prose.linked.get(prose.safe_url)(url), by


@dataclass(frozen=True, slots=True)
class Format(Generic[K]):
    """How pages show one kind of narrative; its HTML is the macro of its name in `narratives.html.j2`."""

    markdown: Callable[[K, Position], str]
    search: Callable[[K], str]
    entry: Literal["text", "table", "figure", "link", "note", "exercise"] = "text"  # kind of its entries in the search
    left_out: str = "characters"  # what the trace leaves out of a long one


@lru_cache(maxsize=1)
def _macros() -> Any:
    templates = environment()
    templates.globals |= {"explorations": explorations, "exercise_of": exercises.Exercise}
    return templates.get_template("narratives.html.j2").module


def as_html(narration: Narration, image: Images, *, web: bool = True) -> Markup:
    """Return a narration as HTML.

    A page that loads nothing (not `web`) shows names and addresses of images and videos on the web.
    """
    macro = getattr(_macros(), narration.narrative.kind)
    return Markup(macro(narration.narrative, Position(narration, image, web=web)))


def as_markdown(narration: Narration, image: Images, drawing: Drawing, number: int = 1) -> str:
    """Return the same as Markdown; `number` is that of a question, whose answer is at the end of the page."""
    at = Position(narration, image, drawing, number=number)
    text = FORMATS[type(narration.narrative)].markdown(narration.narrative, at)
    return joined([text, *(f"*{remark}*" for remark in at.remarks)])


# --- as Markdown ----------------------------------------------------------------------------------


def _text_markdown(it: Text | Note | Ask, at: Position) -> str:
    return to_markdown(it.text, at.image, it.varied or ())


def _link_markdown(it: Link, at: Position) -> str:
    title, _, by = at.cited
    shown = link_markdown(title, it.url) + (f" ({escaped(by)})" if by else "")
    return f"- {shown}" + (f"  \n  {inline_markdown(it.text)}" if it.text else "")


def _file_markdown(it: Image, at: Position) -> str:
    """Return an image, or a link to a video."""
    web = prose.on_the_web(it.url)
    source, name = at.image(it.url) or (it.url if web else None), it.title or (it.kind if web else "")
    if source is None:
        return f"*{it.kind.capitalize()} not shown: {escaped(name or it.url)}*"
    if it.kind == "video":
        return link_markdown(f"Video: {name or it.url}", source)
    alt = escaped(prose.readable_text(name))
    return f"![{alt}](<{source}>)" if web else f"![{alt}]({source})"


def _plot_markdown(it: Plot, at: Position) -> str:
    name = f"fig{at.narration.number}"
    drawn = plot.figure(it, name)
    if drawn is None:
        return "*A plot without numbers to draw.*"
    title = escaped(prose.readable_text(it.title) if it.title else plot.describe(it))
    return f"![{title}]({at.drawing(name, drawn)})" + (f"\n\n*{inline_markdown(it.title)}*" if it.title else "")


def _table_markdown(it: Table, at: Position) -> str:
    shown = _cells(it, ROWS_MARKDOWN)
    rows = [list(map(inline_markdown, row)) for row in shown.rows]
    for one in shown.varied:
        rows[one.row or 0][one.column or 0] += f" {range_of(one)}"
    caption = f"*{inline_markdown(it.title)}*" if it.title else ""
    more = f"*{shown.left_out}*" if shown.left_out else ""
    return joined([table([inline_markdown(column) for column in shown.columns], rows), caption, more])


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cells:
    """A table for a page: as much as fits, its numbers as texts."""

    columns: list[str]
    rows: list[list[str]]
    right: set[int]  # columns of numbers
    varied: list[Varied]  # cells that varied
    left_out: str  # a note on the rest


def _cells(it: Table, most: int) -> Cells:
    """Return a table of at most so many rows.

    A column of rates, seconds or FLOP has one prefix: "rate, FLOP/s" becomes GFLOP/s.
    """
    wide = min(len(it.columns), COLUMNS)
    high = min(len(it.rows), most, CELLS // max(wide, 1))
    counted = ((len(it.rows), high, "rows"), (len(it.columns), wide, "columns"))
    left_out = [f"{shown} of {all_} {name} shown; the trace has all." for all_, shown, name in counted if all_ > shown]
    rows = [row[:wide] for row in it.rows[:high]]
    varied = [one for one in it.varied or () if (one.row or 0) < high and (one.column or 0) < wide]
    texts = [[_text(cell) for cell in row] for row in rows]
    columns, right = it.columns[:wide], set()
    for column, label in enumerate(columns):
        cells = {at: row[column] for at, row in enumerate(rows) if column < len(row) and row[column] not in NO_NUMBER}
        numbers = {
            at: cell for at, cell in cells.items() if isinstance(cell, int | float) and not isinstance(cell, bool)
        }
        if cells and all(at in numbers or NUMBER.fullmatch(str(cell)) for at, cell in cells.items()):
            right.add(column)
        if numbers.keys() == cells.keys():
            columns[column], factor = formats.column_unit(label, list(numbers.values()))
            numbers = {at: cell / factor if cell and factor != 1 else cell for at, cell in numbers.items()}
            varied = [_scaled(one, factor) if one.column == column and factor != 1 else one for one in varied]
        for at, number in numbers.items():
            texts[at][column] = _text(number)
    return Cells(columns, texts, right, varied, " ".join(left_out))


def _text(cell: Scalar) -> str:
    if isinstance(cell, str):
        return cell
    return "–" if cell is None else formats.three_digits(cell)


def _scaled(one: Varied, factor: float) -> Varied:
    def scaled(samples: list[Scalar]) -> list[Scalar]:
        return [sample / factor if sample and not isinstance(sample, str) else sample for sample in samples]

    return replace(one, samples=scaled(one.samples), cold_samples=one.cold_samples and scaled(one.cold_samples))


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
    Note: Format(
        lambda it, at: joined(folded("Note for the presenter", [_text_markdown(it, at)])),
        lambda it: prose.passages(it.text),
        "note",
    ),
    Link: Format(_link_markdown, lambda it: _searched(it.title, it.text, it.authors, it.date), "link"),
    Image: Format(_file_markdown, lambda it: _searched(it.title), "figure"),
    Video: Format(_file_markdown, lambda it: _searched(it.title)),
    Table: Format(_table_markdown, _searched_table, "table", "rows"),
    Plot: Format(_plot_markdown, _searched_plot, "figure", "points"),
    Ask: Format(
        lambda it, at: exercises.Exercise(it).question_markdown(_text_markdown(it, at), at.number),
        lambda it: prose.passages(it.text),
        "exercise",
    ),
    Explore: Format(
        lambda it, at: explorations.as_markdown(it),
        lambda it: _searched(it.title, explorations.sentence(it.exploration, it.text)),
        "figure",
    ),
}


# --- how long a page takes to read ----------------------------------------------------------------

# A lecture's prose is read slower than a novel: adults read English non-fiction at 238 words a minute (the mean of 190
# studies in Brysbaert, "How many words do we read per minute?", Journal of Memory and Language 109, 2019). The times of
# a line of code and of a question are estimates of ours.
WORDS_A_MINUTE, LINE_S, QUESTION_S = 200, 2, 40
_WORD = re.compile(r"[^\W_][\w.%’'-]*")


def reading_minutes(blocks: Sequence[Block], *, deeper: bool = False) -> int:
    """Return the reading time of a page: of its core, with `deeper` of its folded parts.

    The result is in minutes, rounded. Folded content (answers, called functions, lines that did not run), links and
    observations beside code are left out.
    """
    minutes = sum(_minutes(block) for block, in_deeper in _parts(blocks) if in_deeper is deeper)
    return max(round(minutes), 1) if minutes else 0


def _parts(blocks: Sequence[Block], in_deeper: bool = False) -> Iterator[tuple[Block, bool]]:
    """Yield the open blocks of a page, each with whether it is in a deeper part."""
    for block in blocks:
        if isinstance(block, Call) and block.shown == "part":
            yield Narration(Text(text=block.title), 0), in_deeper
            yield from _parts(block.blocks, in_deeper or block.deeper)
        else:
            yield block, in_deeper


def _minutes(block: Block) -> float:
    if isinstance(block, Narration):
        it = block.narrative
        text = "" if isinstance(it, Link | Note) else FORMATS[type(it)].search(it)
        return len(_WORD.findall(text)) / WORDS_A_MINUTE + isinstance(it, Ask) * QUESTION_S / 60
    if isinstance(block, CodeListing):
        lines = (line for row in block.rows if row.ran for line in row.lines)
        return sum(bool(line.text.strip()) for line in lines) * LINE_S / 60
    return 0.0
