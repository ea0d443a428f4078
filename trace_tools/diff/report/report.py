"""Represent a report as a small tree: built once from a difference or a comparison, and written by each format.

    Report("PyTorch", ": 2 machines side by side", (
        Phrase("3 annotated steps matched on all 2 machines."),
        Part("Time", (Phrase("Median over the passes, warm."), Grid("side", ("", "cpu", "gpu"), …)), anchor="time_s"),
    ))

`difference_report` and `comparison_report` choose words, order and amount for a format; `terminal`, `markdown` and
`html` write all parts that they can show (not figures or a listing on a terminal).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from trace_tools.diff.report.listing import Listing

Form = Literal["terminal", "md", "html"]
Content: TypeAlias = "Phrase | Grid | Chart | Part | Listing"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A paragraph, a list item, or a cell; empty fields are not written."""

    text: str = ""
    code: str = ""  # a line of source, or a name in it
    soft: str = ""  # a quiet addition such as a position, a function or a consequence
    ratio: str = ""  # to the base: "× 0.31"
    style: str = ""  # "headline bad|ok", "note", "foot"; of a cell "best", "worst", "floor", "right", "missing" …
    link: str = ""  # target of the text


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of cells. Formats that can fold show the rows in `folded` on demand; `rest` counts omitted rows.

    The kind of rows decides the layout: "sides" (each trace: letter, name, text), "list" (one phrase each), "changes"
    (settings and versions, A, B), "leads" (position, subject, A, B, difference), "side" (a figure for each machine),
    "index" (any other table).
    """

    kind: Literal["sides", "list", "changes", "leads", "side", "index"]
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Phrase]]
    name: str = ""  # for readers who cannot see the table
    folded: Sequence[Sequence[Phrase]] = ()
    summary: str = ""  # of the folded rows
    rest: str = ""
    unmeasured: int = 0  # number of its last columns that are about machines that were not traced


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure as SVG, with its file name and caption."""

    name: str
    title: str
    svg: str


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
