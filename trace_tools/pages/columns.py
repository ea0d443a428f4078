"""Pack other machines' results, or their lower bounds, for the lines of a section into one block of text for its page.

    cell = ColumnCell((ColumnEntry("time", "", "", "0.4 ms", "28× faster"),))
    block = columns_block([Column("NVIDIA H200", {"L216": cell})])
    block.text                  "eNq1W…", for `machines.js`
    block.complete              False: it contains only lines that differ, because of the budget

A result equal to this machine's has no text, because the page has it. Equal columns give equal bytes.

    floors_block(timed_lines(section), document, ceilings())     "eNq1W…", for `floors.js`; "" if no line has a bound

Each time gets the lower bound of the same work (of one call if it was measured) on the machine that a reader selects.
The texts are made here, so that the script needs no formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from trace_tools.analysis.floors import Ceiling, Floor, fit_in_words, floor_in_words, floor_of
from trace_tools.pages.document import Document, Section, rows_shown
from trace_tools.pages.margin import UNLIKE, timed, worth_saying
from trace_tools.presentation.payload import packed
from trace_tools.trace.model import Step
from trace_tools.util import formats

BUDGET = 60_000  # characters of base64

Kind = Literal["value", "held", "failed", "time", "memory", "absent", "other"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # numbered in the block


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """One result for a line on another machine."""

    kind: Kind
    name: str  # the expression
    label: str  # number of the execution, if several
    text: str | None  # None: the same as on this machine
    note: str = ""  # the comparison: "3.1× slower", "varies"
    differs: bool = False  # not just noise


@dataclass(frozen=True, slots=True)
class ColumnCell:
    """The results of another machine for one line."""

    entries: tuple[ColumnEntry, ...]
    line: int = 0  # of the source

    @property
    def differs(self) -> bool:
        """Return whether any result differs by more than noise."""
        return any(entry.differs for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Column:
    """The results of another machine for a section; `cells` are keyed by the line's anchor."""

    name: str
    cells: Mapping[str, ColumnCell]
    notes: tuple[str, ...] = ()  # for example that the source differs and could not be matched

    @property
    def differing(self) -> int:
        """The number of lines that differ."""
        return sum(cell.differs for cell in self.cells.values())


@dataclass(frozen=True, slots=True)
class ColumnsBlock:
    """All columns of a section, packed for the script of its page."""

    text: str
    columns: tuple[Column, ...]
    complete: bool = True


NOTHING = ColumnsBlock("", ())


def columns_block(columns: Sequence[Column], budget: int = BUDGET) -> ColumnsBlock:
    """Return the block of a section in at most `budget` characters, if needed with differing lines only."""
    if not columns:
        return NOTHING
    text = _packed(columns)
    if len(text) <= budget:
        return ColumnsBlock(text, tuple(columns))
    fewer = [
        replace(column, cells={anchor: cell for anchor, cell in column.cells.items() if cell.differs})
        for column in columns
    ]
    text = _packed(fewer)
    while len(text) > budget:
        most = max((len(column.cells) for column in fewer), default=0) * budget // len(text)
        fewer = [replace(column, cells=dict(list(column.cells.items())[:most])) for column in fewer]
        text = _packed(fewer)
    return ColumnsBlock(text, tuple(columns), complete=False)


def differing_lines(column: Column) -> Iterator[tuple[int, str]]:
    """Yield the lines that differ: their number and the other machine's result."""
    for cell in column.cells.values():
        results = []
        for entry in cell.entries:
            label, note = f"{entry.label}:" if entry.label else "", f"({entry.note})" if entry.note else ""
            if entry.differs:
                results.append(" ".join(part for part in (label, entry.name, entry.text, note) if part))
        if results:
            yield cell.line, " · ".join(results)


def _packed(columns: Sequence[Column]) -> str:
    def plain(entry: ColumnEntry) -> list[Any]:
        kind, differs = KINDS.index(entry.kind), int(entry.differs)
        return [kind, entry.label, entry.name, entry.text, entry.note, differs]

    cells = [
        [[anchor, [plain(entry) for entry in cell.entries]] for anchor, cell in column.cells.items()]
        for column in columns
    ]
    return packed({"columns": cells})


def timed_lines(section: Section) -> dict[str, list[Step]]:
    """Return the executions of each timed line, by its anchor."""
    steps: dict[str, list[Step]] = {}
    for row in rows_shown(section.blocks):
        typical = timed(row)
        if typical is not None and worth_saying(typical):
            steps[row.anchor] = [execution.step for execution in row.executions]
    return steps


def floors_block(lines: Mapping[str, Sequence[Step]], document: Document, machines: Sequence[Ceiling]) -> str:
    """Return for each machine its name, its datasheet, and the lower bounds of the lines of a page."""
    bounds = []
    for ceiling in machines:
        texts = [_text([floor_of(step, ceiling) for step in executions]) for executions in lines.values()]
        rate = formats.quantity(ceiling.bytes_per_second, "B/s", 4)
        fit = fit_in_words(document.live_bytes, ceiling)
        about = f"Lower bounds from the datasheet ({rate}), not measured. Would the lecture fit? {fit}."
        bounds.append([ceiling.name.removeprefix("NVIDIA "), about, texts])
    if not any(text for _, _, texts in bounds for text in texts):
        return ""
    return packed({"anchors": list(lines), "machines": bounds})


def _text(floors: Sequence[Floor]) -> str | None:
    """Return the lower bound of a line's executions, as a range if they differ.

    Without a bound, the reason is given if another machine has one: this one has no peak of that dtype.
    """
    bounded = sorted((floor for floor in floors if floor.seconds is not None), key=lambda floor: floor.seconds or 0.0)
    if not bounded:
        return next((floor.why for floor in floors if floor.unknown_peak), None)
    least, most = bounded[0], bounded[-1]
    if (most.seconds or 0.0) > UNLIKE * (least.seconds or 0.0):
        return f"{floor_in_words(least)}, to {floor_in_words(most, '')}"
    return floor_in_words(bounded[len(bounded) // 2])
