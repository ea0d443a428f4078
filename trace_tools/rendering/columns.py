"""What other machines made of a section's lines → one block of text beside its page.

    there = ColumnCell((ColumnEntry("time", "", "", "0.4 ms", "28× faster"),))
    block = columns_block([Column("NVIDIA H200", {"L216": there})])
    block.text                  "eNq1W…", for `machines.js`
    block.complete              False: only lines that differ are in it, the budget holds no more

What is the same there as here has no text: the page has it already. The same columns give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from trace_tools.rendering.packing import packed

BUDGET = 60_000  # characters of base64

Kind = Literal["value", "held", "failed", "time", "memory", "absent", "other"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # by number in the block


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """One thing about a line on another machine, beside what it was here."""

    kind: Kind
    name: str  # of the expression
    label: str  # the execution it is about, where there are several
    text: str | None  # None: the same as here
    note: str = ""  # how it compares: "3.1× slower", "varies"
    differs: bool = False  # and that is no noise


@dataclass(frozen=True, slots=True)
class ColumnCell:
    """What another machine made of one line."""

    entries: tuple[ColumnEntry, ...]
    line: int = 0  # of the source

    @property
    def differs(self) -> bool:
        """Whether anything here is another result, not noise."""
        return any(entry.differs for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Column:
    """One other machine beside a section; `cells` are by the anchor of the line."""

    name: str
    cells: Mapping[str, ColumnCell]
    notes: tuple[str, ...] = ()  # the source is another there, nothing matches

    @property
    def differing(self) -> int:
        """How many lines differ."""
        return sum(cell.differs for cell in self.cells.values())


@dataclass(frozen=True, slots=True)
class ColumnsBlock:
    """All columns of a section as the script beside its page carries them."""

    text: str
    columns: tuple[Column, ...]
    complete: bool = True


NOTHING = ColumnsBlock("", ())


def columns_block(columns: Sequence[Column], budget: int = BUDGET) -> ColumnsBlock:
    """Return the block of a section, of at most `budget` characters: if need be, with what differs only."""
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
    """Yield the lines that differ: their number, and what was there."""
    for cell in column.cells.values():
        told = []
        for entry in cell.entries:
            label, note = f"{entry.label}:" if entry.label else "", f"({entry.note})" if entry.note else ""
            if entry.differs:
                told.append(" ".join(part for part in (label, entry.name, entry.text, note) if part))
        if told:
            yield cell.line, " · ".join(told)


def _packed(columns: Sequence[Column]) -> str:
    def plain(entry: ColumnEntry) -> list[Any]:
        kind, differs = KINDS.index(entry.kind), int(entry.differs)
        return [kind, entry.label, entry.name, entry.text, entry.note, differs]

    cells = [
        [[anchor, [plain(entry) for entry in cell.entries]] for anchor, cell in column.cells.items()]
        for column in columns
    ]
    return packed({"columns": cells})
