"""What a report says, as a small tree: made once from a difference or a comparison, written once by each form.

    Report("PyTorch", ": 2 machines side by side", (
        Phrase("3 annotated steps matched on all 2 machines."),
        Part("Time", (Phrase("Median over the passes, warm."), Grid("side", ("", "cpu", "gpu"), …)), anchor="time_s"),
    ))

`difference_report` and `comparison_report` choose words, order and how much a form has room for; `terminal`,
`markdown` and `html` write whatever they are given. A form passes over what it can't show: figures, a listing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from trace_tools.comparing.reports.listing import Listing

Form = Literal["terminal", "md", "html"]
Content: TypeAlias = "Phrase | Grid | Chart | Part | Listing"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A paragraph, an item of a list, or what stands in a cell; empty fields are not written."""

    text: str = ""
    code: str = ""  # a line of source, or a name in it
    soft: str = ""  # said beside it: a place, a function, what follows from it
    ratio: str = ""  # to the base: "× 0.31"
    style: str = ""  # "headline bad|ok", "note", "foot"; of a cell "best", "worst", "floor", "right", "missing" …
    link: str = ""  # where the text leads


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of cells. A form that folds shows the rows in `folded` on request; `rest` says what is shown nowhere.

    What kind of rows they are decides how a form lays them out: "sides" (what each trace is: letter, name, text),
    "list" (one phrase each), "changes" (what was set, installed or written, A, B), "leads" (where, what, A, B, how
    it differs), "side" (a figure for each machine), "index" (any other table).
    """

    kind: Literal["sides", "list", "changes", "leads", "side", "index"]
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Phrase]]
    name: str = ""  # for who can't see the table
    folded: Sequence[Sequence[Phrase]] = ()
    summary: str = ""  # of what is folded
    rest: str = ""
    unmeasured: int = 0  # of its last columns: they say what is known of machines that were not traced


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure as SVG: what its file is called, what stands under it."""

    name: str
    title: str
    svg: str


@dataclass(frozen=True, slots=True)
class Part:
    """A heading and what stands under it."""

    title: str
    parts: Sequence[Content]
    anchor: str = ""
    folded: bool = False  # where a form folds


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report."""

    lecture: str  # its title, in Markdown as the author wrote it
    title: str  # goes after that
    parts: Sequence[Content]
    sides: tuple[str, ...] = ()  # the names of the two traces that it is about
