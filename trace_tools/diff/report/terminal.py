"""Show a report on a terminal, in colour if supported.

Console().print(terminal(report))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from trace_tools.diff.report.report import Content, Grid, Part, Phrase, Report
from trace_tools.util import formats

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
    title = [Text(formats.one_line(report.lecture, 100), style="bold")] if report.lecture else []
    return Group(*title, *_written(report.parts))


def _written(parts: Sequence[Content]) -> Iterator[Text | Table]:
    for part in parts:
        if isinstance(part, Part):
            first, *rest = part.parts
            if isinstance(first, Grid) and first.kind == "changes":
                yield _changes(first)
            elif isinstance(first, Phrase):  # the part's meaning is shown next to its title
                yield Text.assemble((part.title, "bold underline"), (f"  {first.text}", "dim"))
                yield from _written(rest)
            else:
                yield Text(part.title, style="bold underline")
                yield from _written(part.parts)
        elif isinstance(part, Phrase):
            name = ("Note  ", "bold") if part.style == "note" else ""
            yield Text.assemble(name, (part.text, STYLES.get(part.style, "")), overflow="fold")
        elif isinstance(part, Grid):
            yield from _grid(part)
            if part.rest:
                yield _cut(Text(f"  {part.rest}", style="dim"))


def _changes(grid: Grid) -> Text:
    """Write all changes on one line: Settings  version: torch 2.12.0 → 2.13.0; machine: threads 2 → 1; 3 more."""
    changes = []
    for what, a, b, *more in grid.rows:
        left, right = a.text or a.code, b.text or b.code
        change = left if left == right else f"{left} → {right}"
        named = (f"{m.text} {column}" for m, column in zip(more, grid.columns[3:], strict=True) if m.text)
        changes.append(" ".join(text for text in (what.text, change, what.soft, *named) if text))
    return Text.assemble((f"{grid.name}  ", "bold"), "; ".join([*changes, *([grid.rest] if grid.rest else [])]))


def _grid(grid: Grid) -> Iterator[Text | Table]:
    if grid.kind == "list":
        yield from (Text(phrase.text, style="dim") for [phrase] in grid.rows)
    elif grid.kind == "sides":
        for [side] in grid.rows:
            changes = " · ".join(text for text in (side.code, side.soft) if text)
            yield Text.assemble((f"{side.text}  ", "bold"), changes)
    elif grid.kind == "leads":
        for where, what, a, b, how in grid.rows:
            yield _cut(Text.assemble("  ", (where.text, "bold"), f" {where.soft}  ", (where.code, "dim")))
            change = "" if a.text == b.text == "–" else f"{a.text} → {b.text}"
            if change and how.soft.startswith(change):
                change = ""
            changes = "; ".join(text for text in (change, how.soft) if text)
            name, verdict = f"    {what.code} " if what.code else "    ", (how.text, STYLES.get(how.style, ""))
            yield Text.assemble(name, verdict, f"  {changes}" if changes else "", overflow="fold")
    elif grid.rows:
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        for index, column in enumerate(grid.columns):
            first = index == 0
            table.add_column(Text(column), justify="left" if first else "right", overflow="ellipsis", no_wrap=first)
        for head, *cells in grid.rows:
            row = [Text.assemble(head.text or head.code, (f"  {head.soft}" if head.soft else "", "dim not bold"))]
            for cell in cells:
                best, ratio = ("● ", "green") if cell.style == "best" else ("", ""), (f"  {cell.ratio}", "dim not bold")
                row.append(Text.assemble(best, cell.text, *([ratio] if cell.ratio else [])))
                if cell.style == "floor":
                    row[-1].stylize("dim italic not bold")
            table.add_row(*row, style="bold" if head.style == "strong" else None)
        yield table


def _cut(text: Text) -> Text:
    """Shorten context to one line; differences are never cut."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
