"""Write each kind of narrative in both page formats, and as text for the search: one row of `FORMATS` for each kind.

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
    table,
    to_markdown,
    with_range,
)
from trace_tools.presentation.varied import in_words
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
    """A narration on a page, and the page's addresses of images and drawings."""

    narration: Narration
    image: Images
    drawing: Drawing = lambda name, svg: ""
    web: bool = True  # the page may load images and videos from the web
    number: int | None = None  # number of a question whose answer is at the end of the page

    @property
    def identity(self) -> str:
        return f"said-{self.narration.number}"


@dataclass(frozen=True, slots=True)
class Format(Generic[K]):
    """How pages show one kind of narrative."""

    html: Callable[[K, Position], Markup]
    markdown: Callable[[K, Position], str]
    search: Callable[[K], str]
    entry: Literal["text", "table", "figure", "link", "note", "exercise"] = "text"  # kind of its entries in the search
    left_out: str = "characters"  # what the trace leaves out of a long one


def as_html(narration: Narration, image: Images, *, web: bool = True) -> Markup:
    """Return a narration as HTML, with the texts of other runs that differ.

    A page that loads nothing (not `web`) shows names and addresses of images and videos on the web.
    """
    return FORMATS[type(narration.narrative)].html(narration.narrative, Position(narration, image, web=web))


def as_markdown(narration: Narration, image: Images, drawing: Drawing, number: int | None = None) -> str:
    """Return the same as Markdown; a short line mentions other runs that differ.

    `number` is the number of a question whose answer is at the end of the page; without it, the answer is below the
    question, folded.
    """
    text = FORMATS[type(narration.narrative)].markdown(
        narration.narrative, Position(narration, image, drawing, number=number)
    )
    sometimes = ""
    if narration.sometimes:
        variants = "; ".join(
            f"in {runs}: “{escaped(formats.one_line(prose.passages(variant), 300))}”"
            for variant, runs in (narration.narrative.others or ())[:OTHERS]
        )
        counted = narration.sometimes.capitalize()
        sometimes = f"*{counted}; {variants}*" if variants else f"*{counted}.*"
    return joined([text, sometimes, f"*{_left_out(narration)}*" if narration.narrative.left_out else ""])


def _left_out(narration: Narration) -> str:
    """Return how much of the narrative is not in the trace."""
    unit = FORMATS[type(narration.narrative)].left_out
    return "… {n} more {what} are not in the trace".format(n=f"{narration.narrative.left_out or 0:,}", what=unit)


# --- prose ----------------------------------------------------------------------------------------


def _text_html(it: Text, at: Position) -> Markup:
    html = Markup('<div class="prose{}" id="{}">{}{}</div>\n')
    return html.format(
        " takeaway" if at.narration.takeaway else "", at.identity, _prose(it, at), _variants_html(at.narration)
    )


def _note_html(it: Note, at: Position) -> Markup:
    html = '<details class="note" id="{}"><summary>{}</summary><div class="prose">{}</div>{}'
    return Markup(f"{html}</details>\n").format(
        at.identity, "Note for the presenter", _prose(it, at), _variants_html(at.narration)
    )


def _ask_html(it: Ask, at: Position) -> Markup:
    question = Markup('<div class="prose">{}{}</div>').format(_prose(it, at), _variants_html(at.narration))
    return exercises.as_html(it, at.narration.number, question)


def _prose(it: Text | Note | Ask, at: Position) -> Markup:
    anchors = [heading.anchor for heading in at.narration.headings]
    return Markup(prose.to_html(it.text, anchors, at.image, it.varied or (), f"range-{at.narration.number}"))


def _text_markdown(it: Text | Note | Ask, at: Position) -> str:
    return to_markdown(it.text, at.image, it.varied or ())


def _ask_markdown(it: Ask, at: Position) -> str:
    question = _text_markdown(it, at)
    if at.number is None:
        return exercises.as_markdown(it, question)
    return exercises.question_markdown(it, question, f"Question {at.number}.")


def _note_markdown(it: Note, at: Position) -> str:
    return joined(folded("Note for the presenter", [_text_markdown(it, at)]))


# --- references -----------------------------------------------------------------------------------


def _link_html(it: Link, at: Position) -> Markup:
    shown = _cited_html(it, 200)
    shown += Markup("<br>") + Markup(prose.inline_html(it.text)) if it.text else Markup("")
    return Markup('<p class="reference" id="{}">{}</p>{}\n').format(at.identity, shown, _variants_html(at.narration))


def _link_markdown(it: Link, at: Position) -> str:
    return f"- {_cited_markdown(it, 200)}" + (f"  \n  {inline_markdown(it.text)}" if it.text else "")


def _cited_html(it: Link, most: int) -> Markup:
    """Return a reference's title as a link, with its authors and date in at most so many characters."""
    title, url = formats.one_line(it.title or it.url or "a reference", 300), prose.safe_url(it.url or "")
    shown = Markup('<a href="{}" rel="noreferrer">{}</a>').format(url, title) if url else escape(title)
    by = formats.one_line(", ".join(filter(None, (it.authors, it.date))), most)
    return shown + Markup(' <span class="by">{}</span>').format(by) if by else shown


def _cited_markdown(it: Link, most: int) -> str:
    by = ", ".join(formats.one_line(part, most) for part in (it.authors, it.date) if part)
    title = link_markdown(formats.one_line(it.title or it.url or "a reference", 300), it.url)
    return title + (f" ({escaped(by)})" if by else "")


# --- images, videos, drawings ---------------------------------------------------------------------


def _image_html(it: Image, at: Position) -> Markup:
    alt, kept, remote = formats.one_line(it.title or "", 500), at.image(it.url), on_the_web(it.url)
    caption = _caption(it.title)
    if remote:  # if it cannot be loaded, its name and address are shown
        link = '<figcaption class="address"><a href="{}" rel="noreferrer">{}</a></figcaption>'
        caption = Markup(link).format(it.url, formats.short_address(it.url))
        if kept is None and not at.web:
            shown = Markup('<p class="label">{} on the web{}</p>').format(
                it.kind.title(), f": {alt}" if it.title else ""
            )
            return _figure(it, at, shown, caption)
    source = kept or (it.url if remote else None)
    width = Markup(' width="{}"').format(it.width) if it.width else Markup("")
    if isinstance(it, Video):
        caption = caption if remote else Markup("")
        missing = Markup('<p class="label">Video not shown: {} is not a video next to the lecture.</p>')
        shown = Markup('<video src="{}"{} aria-label="{}" controls preload="metadata"></video>').format(
            source, width, alt or "Video"
        )
    else:
        missing = Markup('<p class="label">Image not shown: {} is not an image next to the lecture.</p>')
        lazy = Markup(' loading="lazy"') if kept is None else ""
        shown = Markup('<img src="{}" alt="{}"{}{}>').format(source, alt, width, lazy)
    if source is None:
        shown = missing.format(formats.one_line(it.url or "no path", 120))
    return _figure(it, at, shown, caption)


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


def _plot_html(it: Plot, at: Position) -> Markup:
    drawn = plot.figure(it, f"fig{at.narration.number}")
    if drawn is None:
        return _figure(it, at, Markup('<p class="label">A plot without numbers to draw.</p>'), _caption(it.title))
    if it.svg and not it.narrow:  # of a width that can't be changed
        return _figure(it, at, _scrolled("Figure", Markup(drawn)), _caption(it.title))
    narrow = plot.figure(it, f"fig{at.narration.number}n", plot.NARROW) or ""
    both = Markup('<div class="wide">{}</div><div class="narrow">{}</div>')
    return _figure(it, at, both.format(_scrolled("Figure", Markup(drawn)), Markup(narrow)), _caption(it.title))


def _plot_markdown(it: Plot, at: Position) -> str:
    name = f"fig{at.narration.number}"
    drawn = plot.figure(it, name)
    if drawn is None:
        return "*A plot without numbers to draw.*"
    title = escaped(formats.one_line(it.title or plot.describe(it), 200))
    return f"![{title}]({at.drawing(name, drawn)})" + (f"\n\n*{inline_markdown(it.title)}*" if it.title else "")


def _figure(it: Image | Plot | Table, at: Position, shown: Markup, caption: Markup) -> Markup:
    html = Markup('<figure id="{}">{}{}{}</figure>\n')
    return html.format(at.identity, shown, caption, _variants_html(at.narration))


def _caption(title: str | None) -> Markup:
    return Markup("<figcaption>{}</figcaption>").format(Markup(prose.inline_html(title))) if title else Markup("")


def _scrolled(label: str, shown: Markup) -> Markup:
    return Markup('<div class="scroll" tabindex="0" role="group" aria-label="{}">{}</div>').format(label, shown)


# --- tables ---------------------------------------------------------------------------------------


def _table_html(it: Table, at: Position) -> Markup:
    """Return a table; a cell that varied shows its range on hover and focus."""
    fitting, left_out = _fitting(it, ROWS_HTML)
    right = [' class="right"' if _is_numeric(fitting, column) else "" for column in range(len(fitting.columns))]
    head = Markup("").join(
        Markup(f'<th scope="col"{right[n]}>{prose.inline_html(column)}</th>' if column.strip() else "<td></td>")
        for n, column in enumerate(fitting.columns)
    )
    varied = {(one.row, one.column): (which, one) for which, one in enumerate(fitting.varied or ())}
    texts = _cells(fitting)
    for column in (column for column, is_right in enumerate(right) if is_right):
        having = [row for row in texts if column < len(row)]
        for row, text in zip(having, formats.column([row[column] for row in having]), strict=True):
            row[column] = text
    body = []  # joined at the end, because appending to a str copies it
    for index, cells in enumerate(fitting.rows):
        body.append("<tr>")
        for column, cell in enumerate(cells):
            padded = texts[index][column]
            text = padded.rstrip(formats.FIGURE + formats.POINT)
            shown = str(prose.inline_html(text) if isinstance(cell, str) else escape(text))
            if (index, column) in varied:
                which, one = varied[index, column]
                shown = prose.with_range(shown, in_words(one), f"range-{at.narration.number}-{which}")
            body.append(f"<td{right[column]}>{shown}{padded[len(text) :]}</td>")
        body.append("</tr>\n")
    rows = Markup("".join(body))
    html = Markup("<table><thead><tr>{}</tr></thead>\n<tbody>{}</tbody></table>").format(head, rows)
    caption = _caption(it.title) + (Markup('<p class="label">{}</p>').format(left_out) if left_out else "")
    return _figure(it, at, _scrolled("Table", html), caption)


def _table_markdown(it: Table, at: Position) -> str:
    fitting, left_out = _fitting(it, ROWS_MARKDOWN)
    varied = {(one.row, one.column): one for one in fitting.varied or ()}
    rows = []
    for row, cells in enumerate(_cells(fitting)):
        texts = [(inline_markdown(cell), varied.get((row, column))) for column, cell in enumerate(cells)]
        rows.append([text if one is None else with_range(text, one) for text, one in texts])
    caption = f"\n\n*{inline_markdown(it.title)}*" if it.title else ""
    more = f"\n\n*{left_out}*" if left_out else ""
    return table([inline_markdown(column) for column in fitting.columns], rows) + caption + more


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


# --- other runs ------------------------------------------------------------------------------------


def _variants_html(narration: Narration) -> Markup:
    """Return in how many runs this was emitted, the texts of the other runs, and how much the trace leaves out."""
    counted = (narration.sometimes or "").capitalize()
    label = Markup('<p class="label">{}</p>')
    left_out = label.format(_left_out(narration)) if narration.narrative.left_out else Markup("")
    if not narration.narrative.others:
        return (Markup('<p class="label">{}.</p>').format(counted) if counted else Markup("")) + left_out
    other = Markup('<div class="label">In {}:</div><div>{}</div>')
    variants = Markup("").join(
        other.format(formats.plural(runs, "run"), Markup(prose.to_html(text)))
        for text, runs in narration.narrative.others[:OTHERS]
    )
    opened = Markup('<details class="note others"><summary>{}. Other runs:</summary>{}</details>')
    return opened.format(counted, variants) + left_out


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
    Text: Format(_text_html, _text_markdown, lambda it: prose.passages(it.text)),
    Note: Format(_note_html, _note_markdown, lambda it: prose.passages(it.text), "note"),
    Link: Format(_link_html, _link_markdown, lambda it: _searched(it.title, it.text, it.authors, it.date), "link"),
    Image: Format(_image_html, _image_markdown, lambda it: _searched(it.title), "figure"),
    Video: Format(_image_html, _video_markdown, lambda it: _searched(it.title)),
    Table: Format(_table_html, _table_markdown, _searched_table, "table", "rows"),
    Plot: Format(_plot_html, _plot_markdown, _searched_plot, "figure", "points"),
    Ask: Format(_ask_html, _ask_markdown, lambda it: prose.passages(it.text), "exercise"),
    Explore: Format(
        lambda it, at: explorations.as_html(it, at.narration.number),
        lambda it, at: explorations.as_markdown(it),
        lambda it: _searched(it.title, explorations.sentence(it.exploration, it.text)),
        "figure",
    ),
}
