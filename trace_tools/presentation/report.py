r"""Represent a report as a small tree, built once from a difference or a comparison, and write it in each format.

    report = Report("PyTorch", ": 2 machines side by side", (
        Phrase("3 annotated steps matched on all 2 machines."),
        Part("Time", (Phrase("Median over the passes, warm."), Grid("side", ("", "cpu", "gpu"), …)), anchor="time_s"),
    ))
    Console().print(terminal(report))                       # in colour if supported
    markdown(report)                                        # "# PyTorch: 2 machines side by side\n\n3 annotated …"
    html(report, home="../index.html", pages="../cpu/")     # "<!doctype html>…", self-contained

`difference_report` and `comparison_report` choose words, order and amount for a format; the writers write all parts
that they can show (not bars on a terminal).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from jinja2 import Environment
from rich.console import Group
from rich.table import Table
from rich.text import Text

from trace_tools.presentation.markdown_text import code_span, escape, folded, inline_markdown, table
from trace_tools.presentation.page_shell import assets, environment

Form = Literal["terminal", "md", "html"]
Content: TypeAlias = "Phrase | Grid | Bars | Part"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A paragraph, a list item, or a cell; empty fields are not written."""

    text: str = ""
    code: str = ""  # a line of source, or a name in it
    soft: str = ""  # a quiet addition such as a position, a function or a consequence
    ratio: str = ""  # to the base: "× 0.31"
    style: str = ""  # "headline bad|ok", "note", "foot"; of a cell "best", "right", "missing"; "title": in Markdown …
    link: str = ""  # target of the text
    strip: tuple[float, float, float] | None = None  # an interval and a point in it, from 0 to 100, drawn on a page


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of cells. Formats that can fold show the rows in `folded` on demand; `rest` counts omitted rows.

    The kind of rows decides the layout: "sides" (each trace: letter, name, text), "list" (one phrase each), "changes"
    (settings and versions, A, B), "leads" (position, subject, A, B, difference), "timings" (a time on both sides, its
    ratio, a strip), "side" (a figure for each machine), "facts" (name and text), "index" (any other table).
    """

    kind: Literal["sides", "list", "changes", "leads", "timings", "side", "facts", "index"]
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Phrase]]
    name: str = ""  # for readers who cannot see the table
    folded: Sequence[Sequence[Phrase]] = ()
    summary: str = ""  # of the folded rows
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a figure: what it shows, with a quiet addition, a bar, and a number."""

    label: str
    share: float  # of the longest bar
    number: str
    soft: str = ""
    link: str = ""
    depth: int = 0  # it is a part of the last row before with a smaller one
    is_code: bool = True


@dataclass(frozen=True, slots=True)
class Bars:
    """A figure of bars under their finding: rows of text, which fit on a phone; `name` is its anchor's."""

    name: str
    title: str
    rows: Sequence[Bar]
    caption: str


@dataclass(frozen=True, slots=True)
class Part:
    """A heading with its content."""

    title: str
    parts: Sequence[Content]
    anchor: str = ""
    folded: bool = False  # in formats that can fold


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report."""

    lecture: str  # its title, in the author's Markdown
    title: str  # follows it
    parts: Sequence[Content]
    sides: tuple[str, ...] = ()  # the names of the two traces


# --- on a terminal --------------------------------------------------------------------------------


STYLES = {
    "headline bad": "bold red",
    "headline warn": "bold yellow",
    "headline ok": "bold green",
    "note": "yellow",
    "claim flipped": "bold red",
    "changed": "yellow",
    "slower": "red",
    "faster": "green",
    "only in A": "magenta",
    "only in B": "cyan",
    "edited": "yellow",
}


def terminal(report: Report) -> Group:
    """Return the report, to be printed at the width of the terminal."""
    title = [Text(report.lecture, style="bold")] if report.lecture else []
    return Group(*title, *_terminal_parts(report.parts))


def _terminal_parts(parts: Sequence[Content]) -> Iterator[Text | Table]:
    for part in parts:
        if isinstance(part, Part):
            first, *others = part.parts
            if isinstance(first, Grid) and first.kind == "changes":
                # all on one line: Settings  version: torch 2.12.0 → 2.13.0; machine: threads 2 → 1; 3 more
                changes = []
                for subject, a, b, *more in first.rows:
                    text_a, text_b = a.text or a.code, b.text or b.code
                    change = text_a if text_a == text_b else f"{text_a} → {text_b}"
                    named = (f"{m.text} {column}" for m, column in zip(more, first.columns[3:], strict=True) if m.text)
                    changes.append(" ".join(text for text in (subject.text, change, subject.soft, *named) if text))
                listed = "; ".join([*changes, *([first.rest] if first.rest else [])])
                yield Text.assemble((f"{first.name}  ", "bold"), listed)
            elif isinstance(first, Phrase):  # the part's meaning is shown next to its title
                yield Text.assemble((part.title, "bold underline"), (f"  {first.text}", "dim"))
                yield from _terminal_parts(others)
            else:
                yield Text(part.title, style="bold underline")
                yield from _terminal_parts(part.parts)
        elif isinstance(part, Phrase):
            name = ("Note  ", "bold") if part.style == "note" else ""
            yield Text.assemble(name, (part.text, STYLES.get(part.style, "")), overflow="fold")
        elif isinstance(part, Grid):
            yield from _terminal_grid(part)
            if part.rest:
                yield _cut(Text(f"  {part.rest}", style="dim"))


def _terminal_grid(grid: Grid) -> Iterator[Text | Table]:
    if grid.kind == "list":
        yield from (Text(phrase.text, style="dim") for [phrase] in grid.rows)
    elif grid.kind == "sides":
        for [side] in grid.rows:
            changes = " · ".join(text for text in (side.code, side.soft) if text)
            yield Text.assemble((f"{side.text}  ", "bold"), changes)
    elif grid.kind == "leads":
        for position, subject, a, b, how in grid.rows:
            yield _cut(Text.assemble("  ", (position.text, "bold"), f" {position.soft}  ", (position.code, "dim")))
            change = "" if a.text == b.text == "–" else f"{a.text} → {b.text}"
            if change and how.soft.startswith(change):
                change = ""
            changes = "; ".join(text for text in (change, how.soft) if text)
            name, verdict = f"    {subject.code} " if subject.code else "    ", (how.text, STYLES.get(how.style, ""))
            yield Text.assemble(name, verdict, f"  {changes}" if changes else "", overflow="fold")
    elif grid.rows:
        columns = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        for index, column in enumerate(grid.columns):
            first = index == 0
            columns.add_column(Text(column), justify="left" if first else "right", overflow="ellipsis", no_wrap=first)
        for head, *cells in grid.rows:
            row = [Text.assemble(head.text or head.code, (f"  {head.soft}" if head.soft else "", "dim not bold"))]
            for cell in cells:
                best, ratio = ("● ", "green") if cell.style == "best" else ("", ""), (f"  {cell.ratio}", "dim not bold")
                row.append(Text.assemble(best, cell.text, *([ratio] if cell.ratio else [])))
            columns.add_row(*row, style="bold" if head.style == "strong" else None)
        yield columns


def _cut(text: Text) -> Text:
    """Shorten context to one line; differences are never cut."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


# --- as Markdown ----------------------------------------------------------------------------------


MARKDOWN_BAR = 24  # letters of the longest bar


def markdown(report: Report) -> str:
    """Return the report as Markdown."""
    title = (inline_markdown(report.lecture) if report.lecture else "") + escape(report.title)
    blocks = [f"# {title}", *markdown_blocks(report.parts)]
    return "\n\n".join(block.strip("\n") for block in blocks if block) + "\n"


def markdown_blocks(parts: Iterable[Content], level: int = 2) -> Iterator[str]:
    """Yield parts of a report, or of a page, as blocks of Markdown."""
    for part in parts:
        if isinstance(part, Part) and part.folded:
            yield from folded(part.title, markdown_blocks(part.parts, level))
        elif isinstance(part, Part):
            yield f"{'#' * level} {escape(part.title)}"
            yield from markdown_blocks(part.parts, level + 1)
        elif isinstance(part, Bars):
            yield f"{'#' * level} {escape(part.title)}"
            yield table(["", "", ""], [list(_markdown_bar(bar)) for bar in part.rows])
            yield f"*{escape(part.caption)}*"
        elif isinstance(part, Phrase):
            text = _markdown_phrase(part)
            yield f"> {text}" if part.style == "note" else f"**{text}**" if part.style.startswith("headline") else text
        elif isinstance(part, Grid) and part.kind == "list":
            yield "\n".join(f"- {_markdown_phrase(phrase)}" for [phrase] in part.rows)
        elif isinstance(part, Grid) and part.kind == "sides":
            yield "\n".join(f"- {s.text}: {code_span(s.code)}, {escape(s.soft)}" for [s] in part.rows)
        elif isinstance(part, Grid):
            yield _markdown_table(part)
            yield f"*{part.rest}*" if part.rest else ""


def _markdown_bar(bar: Bar) -> Iterator[str]:
    label = code_span(bar.label) if bar.is_code else escape(bar.label)
    yield "&emsp;" * bar.depth + f"{label} {escape(bar.soft)}".strip()
    yield "█" * round(MARKDOWN_BAR * bar.share)
    yield escape(bar.number)


def _markdown_table(grid: Grid) -> str:
    written = [[_markdown_phrase(cell) for cell in row] for row in grid.rows]
    if grid.kind == "leads":
        differs = ["; ".join(text for text in (row[-1].text, row[-1].soft) if text) for row in grid.rows]
        written = [[*row[:-1], escape(how)] for row, how in zip(written, differs, strict=True)]
    return table([escape(column) for column in grid.columns], written)


def _markdown_phrase(phrase: Phrase) -> str:
    """Write a phrase; its soft part follows the text or code."""
    text, code, soft = escape(phrase.text), code_span(phrase.code) if phrase.code else "", escape(phrase.soft)
    if phrase.style == "title":
        text = inline_markdown(phrase.text)
    if phrase.link and phrase.link[0] != "#":  # anchors of a page are not its Markdown's
        return f"[{text}]({phrase.link})" + (f" {code}" if code else "") + (f": {soft}" if soft else "")
    if phrase.style == "missing":
        return text
    if phrase.style == "best":
        text = f"● **{text}**"
    elif phrase.style == "strong" and text:
        text = f"**{text}**"
    if phrase.ratio:
        return f"{text} ({phrase.ratio})"
    if text:
        return " ".join(part for part in (text, soft) if part) + (f"<br>{code}" if code else "")
    return " ".join(part for part in (f"**{code}**" if phrase.style == "strong" else code, soft) if part)


# --- as a page ------------------------------------------------------------------------------------


def html(report: Report, home: str | None = None, pages: str | None = None) -> str:
    """Return the page, on the same base as the pages (`presentation.page_shell`).

    `home` is the index of the site it belongs to, `pages` the folder of pages that it searches.
    """
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            assets=assets("page", "report", beside=pages is not None),
            page={"home": home or "#text"},
            report=report,
            folder=pages,
        )
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return templates_with_reports()


def templates_with_reports() -> Environment:
    """Return the templates, with the tests that those of reports need."""
    templates = environment()
    for kind in (Bars, Part, Phrase):
        templates.tests[kind.__name__.lower()] = lambda part, kind=kind: isinstance(part, kind)
    return templates
