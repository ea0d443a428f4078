"""What the pages make of each of the lecture's words, in both forms: a new word needs a case in each.

    as_html(narration, image)                  Markup('<div class="prose" id="said-3">…</div>')
    as_markdown(narration, image, drawing)     "A product of $(B, D)$ and …"

`image` says where the page finds an image of that address, None where there is none; `drawing` takes a figure's name
and SVG and says where the page finds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from markupsafe import Markup, escape

from trace_tools import formats
from trace_tools.citations import short_address
from trace_tools.rendering import exercises, explorations, passages, prose
from trace_tools.rendering.charts import plot
from trace_tools.rendering.document import Narration
from trace_tools.rendering.markdown_text import escape as escaped
from trace_tools.rendering.markdown_text import (
    folded,
    inline_markdown,
    joined,
    link_markdown,
    table,
    to_markdown,
    with_range,
)
from trace_tools.rendering.varied import in_words
from trace_tools.schema import Narrative, Scalar

ROWS_HTML, ROWS_MARKDOWN, COLUMNS, CELLS = 500, 200, 60, 6_000  # of a table
REFERENCES, NOTES = 300, 20  # of a page; lines of one's notes
OTHERS = 12  # texts that other runs said in the place of one
NUMBER = re.compile(r"[-−+~≈<>≤≥×]?\s?\d[\d,.]*(e[-+]?\d+)?\s?[%×]?")  # a table's cell that the lecture wrote itself
_HOST = re.compile(r"https?://[a-z0-9.-]+(:\d+)?(?=[/?#]|$)", re.IGNORECASE)  # as a policy may name it
NO_NUMBER = (None, "", "-", "–", "—")

Images = Callable[[str], str | None]


def as_html(said: Narration, image: Images, *, web: bool = True) -> Markup:
    """Return what stands on the page, with what other runs said in its place.

    Of images and videos on the web, a page that loads nothing (not `web`) has the names and the addresses.
    """
    it = said.narrative
    identity, sometimes, caption = f"said-{said.number}", _others_html(said), Markup("")
    if it.left_out:
        sometimes += Markup('<p class="label">{}</p>').format(_left_out(said))
    if it.title:
        caption = Markup("<figcaption>{}</figcaption>").format(Markup(prose.inline_html(it.title)))
    look = Markup(' class="piece{}"').format(" beside" if said.beside else "") if it.flows else Markup("")
    figure = Markup('<figure id="{}"') + look + Markup(">{}{}{}</figure>\n")
    scroll = Markup('<div class="scroll" tabindex="0" role="group" aria-label="{}">{}</div>')
    match it.kind:
        case "text":
            whole = Markup('<div class="prose{}" id="{}">{}{}</div>\n')
            return whole.format(classes(it), identity, _prose(said, image), sometimes)
        case passages.REFERENCES:
            return _references_html(said, identity)
        case "ask":
            question = Markup('<div class="prose">{}{}</div>').format(_prose(said, image), sometimes)
            return exercises.as_html(said, question)
        case "explore":
            return explorations.as_html(said)
        case "note":
            note = (
                '<details class="note" id="{}"><summary>Note for the presenter</summary><div class="prose">{}</div>{}'
            )
            return Markup(f"{note}</details>\n").format(identity, _prose(said, image), sometimes)
        case "link":
            title, url = formats.one_line(it.title or it.url or "a reference", 300), prose.safe_url(it.url or "")
            shown = Markup('<a href="{}" rel="noreferrer">{}</a>').format(url, title) if url else escape(title)
            by = formats.one_line(", ".join(filter(None, (it.authors, it.date))), 200)
            shown += Markup(' <span class="by">{}</span>').format(by) if by else Markup("")
            shown += Markup("<br>") + Markup(prose.inline_html(it.text)) if it.text else Markup("")
            return Markup('<p class="reference" id="{}">{}</p>{}\n').format(identity, shown, sometimes)
        case "image" | "video" if not web and it.url and on_the_web(it.url):
            shown = Markup('<p class="label">{} on the web{}</p>')
            named = f": {_alt(it)}" if it.title else ""
            return figure.format(identity, shown.format(it.kind.title(), named), _address(it.url), sometimes)
        case "image" if it.url and on_the_web(it.url):  # what is not there where it is read has its name and address
            caption = _address(it.url)
            shown = Markup('<img src="{}" alt="{}"{} loading="lazy">').format(it.url, _alt(it), _width(it))
            return figure.format(identity, shown, caption, sometimes)
        case "video":
            source = it.url if it.url and on_the_web(it.url) else image(it.url or "")
            if source is None:
                missing = formats.one_line(it.url or "no path", 120)
                shown = Markup('<p class="label">Video not shown: {} is no video beside the lecture.</p>')
                return figure.format(identity, shown.format(missing), "", sometimes)
            shown = Markup('<video src="{0}"{1} aria-label="{2}" controls preload="metadata"></video>')
            caption = _address(source) if source == it.url else Markup("")
            return figure.format(identity, shown.format(source, _width(it), _alt(it) or "Video"), caption, sometimes)
        case "image":
            source = image(it.url or "")
            if source is None:
                missing = formats.one_line(it.url or "no path", 120)
                shown = Markup('<p class="label">Image not shown: {} is not an image beside the lecture.</p>')
                return figure.format(identity, shown.format(missing), caption, sometimes)
            width = _width(it)
            caption = Markup("") if it.flows else caption  # its text was made of its file's name
            shown = Markup('<img src="{}" alt="{}"{}>').format(source, formats.one_line(it.title or "", 500), width)
            return figure.format(identity, shown, caption, sometimes)
        case "plot":
            drawn = plot.figure(it, f"fig{said.number}")
            if drawn is None:
                shown = Markup('<p class="label">A plot without numbers to draw.</p>')
            else:
                shown = scroll.format("Figure", Markup(drawn))
            return figure.format(identity, shown, caption, sometimes)
        case _:
            within, left_out = _within(it, ROWS_HTML)
            caption += Markup('<p class="label">{}</p>').format(left_out) if left_out else Markup("")
            shown = scroll.format("Table", _table_html(within, said.number))
            return figure.format(identity, shown, caption, sometimes)


def as_markdown(said: Narration, image: Images, drawing: Callable[[str, str], str]) -> str:
    """Return the same as Markdown; where other runs said something else, a quiet line says so."""
    others = f"*{_others_markdown(said)}*" if said.sometimes else ""
    return joined([_markdown(said, image, drawing), others, f"*{_left_out(said)}*" if said.narrative.left_out else ""])


def _left_out(said: Narration) -> str:
    """Say how much of what was said is not in the trace."""
    what = {"table": "rows", "plot": "points"}.get(said.narrative.kind, "characters")
    return f"… {said.narrative.left_out or 0:,} more {what} are not in the trace"


def _markdown(said: Narration, image: Images, drawing: Callable[[str, str], str]) -> str:
    it = said.narrative
    caption = f"\n\n*{inline_markdown(it.title)}*" if it.title else ""
    match it.kind:
        case "text":
            return to_markdown(it.text or "", image, it.varied or ())
        case "ask":
            return exercises.as_markdown(said, to_markdown(it.text or "", image, it.varied or ()))
        case "explore":
            return explorations.as_markdown(said)
        case "note":
            return joined(folded("Note for the presenter", [to_markdown(it.text or "", image, it.varied or ())]))
        case "link":
            by = ", ".join(formats.one_line(part, 200) for part in (it.authors, it.date) if part)
            text = f"> {link_markdown(formats.one_line(it.title or it.url or 'a reference', 300), it.url)}"
            text += f" ({escaped(by)})" if by else ""
            return text + (f"  \n> {inline_markdown(it.text)}" if it.text else "")
        case passages.REFERENCES:
            return _references_markdown(said)
        case "image" | "video" if it.url and on_the_web(it.url):
            alt = it.title or it.kind
            return f"![{escaped(alt)}](<{it.url}>)" if it.kind == "image" else link_markdown(f"Video: {alt}", it.url)
        case "video":
            source = image(it.url or "")
            name = formats.one_line(it.title or it.url or "", 300)
            return link_markdown(f"Video: {name}", source) if source else f"*Video not shown: {escaped(name)}*"
        case "image":
            source = image(it.url or "")
            return (
                f"![{escaped(it.title or '')}]({source})" if source else f"*Image not shown: {escaped(it.url or '')}*"
            )
        case "plot":
            drawn = plot.figure(it, f"fig{said.number}")
            if drawn is None:
                return "*A plot without numbers to draw.*"
            title = escaped(formats.one_line(it.title or plot.describe(it), 200))
            return f"![{title}]({drawing(f'fig{said.number}', drawn)}){caption}"
        case _:
            within, left_out = _within(it, ROWS_MARKDOWN)
            varied = {(one.row, one.column): one for one in within.varied or ()}
            rows = []
            for row, cells in enumerate(within.rows or []):
                texts = [(_cell_markdown(cell), varied.get((row, column))) for column, cell in enumerate(cells)]
                rows.append([text if one is None else with_range(text, one) for text, one in texts])
            more = f"\n\n*{left_out}*" if left_out else ""
            return table([inline_markdown(column) for column in within.columns or []], rows) + caption + more


LOOKS = {  # of the styles that lectures give, what a page shows: its own colours, which dark mode has, too
    "color": {"red": "red", "green": "green", "blue": "blue", "orange": "orange", "purple": "purple", "gray": "soft"},
    "fontWeight": {"bold": "bold", "bolder": "bold", "600": "bold", "700": "bold"},
    "fontStyle": {"italic": "slanted", "oblique": "slanted"},
    "textAlign": {"center": "centred", "right": "right"},
    "fontFamily": {"monospace": "mono"},
    "textDecoration": {"line-through": "struck", "underline": "underlined"},
}
_LIKE = {
    "grey": "gray",
    "lightgray": "gray",
    "darkgray": "gray",
    "silver": "gray",
    "crimson": "red",
    "darkred": "red",
    "tomato": "red",
    "darkgreen": "green",
    "limegreen": "green",
    "lime": "green",
    "navy": "blue",
    "darkblue": "blue",
    "royalblue": "blue",
    "steelblue": "blue",
    "darkorange": "orange",
    "violet": "purple",
    "magenta": "purple",
}


def classes(it: Narrative) -> str:
    """Return the classes of what another vocabulary said, which looks as its style says as far as pages know that."""
    found = ["lines"] if it.flows else []
    for name, value in it.style or ():
        said = value.strip().lower()
        known = LOOKS.get(re.sub(r"-(\w)", lambda m: m[1].upper(), name), {})
        found += [known[like] for like in (_LIKE.get(said, said),) if like in known]
        if name in ("fontSize", "font-size") and (size := _size(said)) is not None:
            found += ["large"] if size > 1.15 else ["small"] if size < 0.9 else []
        if name in ("border", "backgroundColor", "background-color", "background") and said not in ("none", "0"):
            found.append("framed")
    return "".join(f" {one}" for one in dict.fromkeys(found))


def _size(said: str) -> float | None:
    """Return a size of letters, relative to that of the text."""
    if said in ("small", "smaller", "x-small", "large", "larger", "x-large", "xx-large"):
        return 0.8 if said.startswith(("s", "x-s")) else 1.3
    size = re.fullmatch(r"(\d+(?:\.\d+)?)(px|em|rem|%|pt)?", said)
    return float(size[1]) / {"em": 1, "rem": 1, "%": 100, "pt": 12}.get(size[2] or "px", 16) if size else None


def on_the_web(url: str) -> bool:
    """Whether an image or a video is to be had from elsewhere, by an address that is safe to put in a page."""
    return prose.safe_url(url) is not None and _HOST.match(url) is not None


def _address(url: str) -> Markup:
    """Return where an image or a video is to be had, to stand below it: what is not shown can be gone to."""
    shown = '<figcaption class="address"><a href="{}" rel="noreferrer">{}</a></figcaption>'
    return Markup(shown).format(url, short_address(url))


def _alt(it: Narrative) -> str:
    return formats.one_line(it.title or "", 500)


def _width(it: Narrative) -> Markup:
    return Markup(' width="{}"').format(it.width) if it.width else Markup("")


def _references_html(said: Narration, identity: str) -> Markup:
    """List what a page refers to, abstracts folded."""
    listed = Markup("")
    for it in said.cited[:REFERENCES]:
        url = prose.safe_url(it.url or "")
        title = formats.one_line(it.title or it.url or "", 300)
        shown = Markup('<a href="{}" rel="noreferrer">{}</a>').format(url, title) if url else escape(title)
        by = formats.one_line(", ".join(filter(None, (it.authors, it.date))), 400)
        shown += Markup(' <span class="by">{}</span>').format(by) if by else Markup("")
        if it.notes:
            lines = [formats.one_line(line, 500) for line in it.notes.split("\n")[:NOTES]]
            shown += Markup("<p>{}</p>").format(Markup("<br>").join(lines))
        if it.text:
            abstract = "<details><summary>Abstract</summary><p>{}</p></details>"
            shown += Markup(abstract).format(formats.one_line(it.text, 3_000))
        listed += Markup("<li>{}</li>").format(shown)
    counted = formats.plural(len(said.cited), "reference")
    whole = '<details class="references" id="{}"><summary>{} on this page</summary><ul>{}</ul></details>\n'
    return Markup(whole).format(identity, counted, listed)


def _references_markdown(said: Narration) -> str:
    listed = []
    for it in said.cited[:REFERENCES]:
        by = ", ".join(formats.one_line(part, 400) for part in (it.authors, it.date) if part)
        line = f"- {link_markdown(formats.one_line(it.title or it.url or '', 300), it.url)}"
        line += f" ({escaped(by)})" if by else ""
        line += f": {escaped(formats.one_line(it.notes, 500))}" if it.notes else ""
        if it.text:
            line += f"\n  > {escaped(formats.one_line(it.text, 3_000))}"
        listed.append(line)
    counted = formats.plural(len(said.cited), "reference")
    return joined(folded(f"{counted} on this page", ["\n".join(listed)]))


def _prose(said: Narration, image: Images) -> Markup:
    told, anchors = said.narrative, [heading.anchor for heading in said.headings]
    return Markup(prose.to_html(told.text or "", anchors, image, told.varied or (), f"range-{said.number}"))


def _in_one_prefix(it: Narrative) -> Narrative:
    """Return a table whose columns of rates, seconds or FLOP have one prefix each: "rate, FLOP/s" is in GFLOP/s."""
    columns, factors = list(it.columns or []), dict[int, float]()
    for place, label in enumerate(columns):
        cells = [row[place] for row in it.rows or [] if place < len(row) and row[place] not in NO_NUMBER]
        numbers = [cell for cell in cells if isinstance(cell, (int, float)) and not isinstance(cell, bool)]
        if len(numbers) == len(cells):
            columns[place], factors[place] = formats.column_unit(label, numbers)

    def scaled(cell: Scalar, place: int | None) -> Scalar:
        factor = factors.get(place, 1) if place is not None else 1
        return cell if factor == 1 or isinstance(cell, str) or not cell else cell / factor

    rows = [[scaled(cell, place) for place, cell in enumerate(row)] for row in it.rows or []]
    varied = [
        replace(
            one,
            samples=[scaled(cell, one.column) for cell in one.samples],
            cold_samples=one.cold_samples and [scaled(cell, one.column) for cell in one.cold_samples],
        )
        for one in it.varied or ()
    ]
    return replace(it, columns=columns, rows=rows, varied=varied or it.varied)


def _within(it: Narrative, most: int) -> tuple[Narrative, str]:
    """Return as much of a table as a page has room for, and what to say of the rest; "" where that is all of it."""
    it = _in_one_prefix(it)
    columns, rows = it.columns or [], it.rows or []
    wide = min(len(columns), COLUMNS)
    high = min(len(rows), most, CELLS // max(wide, 1))
    if (wide, high) == (len(columns), len(rows)):
        return it, ""
    counted = ((len(rows), high, "rows"), (len(columns), wide, "columns"))
    left_out = [f"{there} {name} in the trace, {here} of them here." for there, here, name in counted if there > here]
    return replace(it, columns=columns[:wide], rows=[row[:wide] for row in rows[:high]]), " ".join(left_out)


def _table_html(it: Narrative, number: int) -> Markup:
    """Return a table; a cell that varied has its range on hover and focus."""
    right = [' class="right"' if _is_numeric(it, column) else "" for column in range(len(it.columns or []))]
    head = Markup("").join(
        Markup(f'<th scope="col"{right[n]}>{prose.inline_html(column)}</th>' if column.strip() else "<td></td>")
        for n, column in enumerate(it.columns or [])
    )
    varied = {(one.row, one.column): (which, one) for which, one in enumerate(it.varied or ())}
    texts = [[cell if isinstance(cell, str) else _number(cell) for cell in cells] for cells in it.rows or []]
    for column in (column for column, there in enumerate(right) if there):
        having = [row for row in texts if column < len(row)]
        for row, text in zip(having, formats.column([row[column] for row in having]), strict=True):
            row[column] = text
    body = []  # joined at the end: to add to a text copies it
    for place, cells in enumerate(it.rows or []):
        body.append("<tr>")
        for column, cell in enumerate(cells):
            text = texts[place][column]
            shown = str(prose.inline_html(text) if isinstance(cell, str) else escape(text))
            if (place, column) in varied:
                which, one = varied[place, column]
                shown = prose.with_range(shown, in_words(one), f"range-{number}-{which}")
            body.append(f"<td{right[column]}>{shown}</td>")
        body.append("</tr>\n")
    rows = Markup("".join(body))
    return Markup("<table><thead><tr>{}</tr></thead>\n<tbody>{}</tbody></table>").format(head, rows)


def _is_numeric(it: Narrative, column: int) -> bool:
    """Whether a table's column holds numbers, which are set to the right; a dash stands for none."""
    cells = [row[column] for row in it.rows or [] if column < len(row)]
    told = [cell for cell in cells if cell not in NO_NUMBER]
    return bool(told) and all(isinstance(cell, (int, float)) or NUMBER.fullmatch(str(cell)) for cell in told)


def _number(cell: float | None) -> str:
    """Write a number of a table: a whole one is 5, also beside 5.25."""
    return "–" if cell is None else formats.number(cell).removesuffix(".0")


def _cell_markdown(cell: Scalar) -> str:
    return inline_markdown(cell) if isinstance(cell, str) else _number(cell)


def _others_html(said: Narration) -> Markup:
    """Say in how many runs this was said, and what the others said in its place."""
    counted = (said.sometimes or "").capitalize()
    if not said.narrative.others:
        return Markup('<p class="label">{}.</p>').format(counted) if counted else Markup("")
    other = Markup('<div class="label">In {}:</div><div>{}</div>')
    others = Markup("").join(
        other.format(formats.plural(runs, "run"), Markup(prose.to_html(text)))
        for text, runs in said.narrative.others[:OTHERS]
    )
    opened = Markup('<details class="note others"><summary>{}; the others:</summary>{}</details>')
    return opened.format(counted, others)


def _others_markdown(said: Narration) -> str:
    others = "; ".join(
        f"in {runs}: “{escaped(formats.one_line(prose.passages(text), 300))}”"
        for text, runs in (said.narrative.others or ())[:OTHERS]
    )
    counted = (said.sometimes or "").capitalize()
    return f"{counted}; {others}" if others else f"{counted}."
