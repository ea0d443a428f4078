"""The results of planting faults in sections, and their report; people write reasons into its last columns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.checks.faults import Fault

ITSELF = "*a fact about Python or torch: only a change to the claim itself makes it fail*"

HEAD = """# Faults planted in the lecture

`python -m tests.checks.mutate [SECTION …]` changes the core of `lecture.py` in one place at a time (a constant, an
operator, an argument, a call or a line left out), runs the section again, and notes whether a claim failed or anything
was raised. Code that only feeds prose, tables and plots is left alone, and so is code that did not run here: what
needs a GPU, on a machine without one. What two sections use is changed in the first of them.

Below is what no claim noticed, and which claims no such fault made fail, but one within them did. A reason written into
the last column stays there until its line changes.

"""
COLUMNS = [
    "section", "claims", "faults", "planted", "caught", "survived", "of them unexplained",
    "claims never failed", "of them unexplained",
]  # fmt: skip


@dataclass
class Judged:
    """The results of one section's faults."""

    section: str
    possible: int  # number of possible faults outside of claims
    unsteady: set[int]  # lines of claims that failed without any fault
    claims: list[ast.Assert]  # claims that run on this machine
    not_run: int  # number of other claims
    survived: list[Fault] = field(default_factory=list)
    planted: int = 0
    failed: set[int] = field(default_factory=set)  # lines of claims that a fault outside of them made fail
    failed_by_own: set[int] = field(default_factory=set)  # lines of claims that a fault inside them made fail

    def note(self, fault: Fault, failed: set[int], error: str | None) -> None:
        """Record how the section ended with a fault."""
        failed = failed - self.unsteady
        if fault.in_claim:
            self.failed_by_own |= failed
            return
        self.planted += 1
        self.failed |= failed
        if not failed and error is None:
            self.survived.append(fault)

    def never_failed(self) -> set[int]:
        """Return the lines of claims that no fault outside of them made fail."""
        return {claim.lineno for claim in self.claims} - self.failed

    def one_line(self) -> str:
        caught = self.planted - len(self.survived)
        return (
            f"{self.section}: {caught} of {self.planted} faults caught ({self.possible} possible), "
            f"{len(self.never_failed())} of {len(self.claims)} claims never failed"
        )


def report(judged: Sequence[Judged], reasons: dict[tuple[str, str], str], path: Path) -> tuple[str, int]:
    """Return the report and the number of its rows without a reason.

    Sections that were not judged now are taken from the earlier report at `path`.
    """
    chapters = _chapters(path)
    unexplained = 0
    for section in judged:
        chapter, row = _chapter(section, reasons)
        chapters[section.section] = (row, chapter)
        unexplained += int(row[6]) + int(row[8])
    rows = [row for row, _ in chapters.values()]
    return HEAD + _table(COLUMNS, rows) + "".join(f"\n## {n}\n{c}" for n, (_, c) in chapters.items()), unexplained


def read_reasons(path: Path) -> dict[tuple[str, str], str]:
    """Return the last columns of an earlier report, by section and the cells that identify the fault or claim.

    Line numbers do not count, because lines may move.
    """
    return {
        (name, _key(cells[1:-1])): cells[-1]
        for name, (_, chapter) in _chapters(path).items()
        for cells in _rows(chapter)
        if cells[-1]
    }


def _chapter(judged: Judged, reasons: dict[tuple[str, str], str]) -> tuple[str, list[str]]:
    """Return a section's chapter and its row in the summary."""
    survivors = []
    for fault in sorted(judged.survived, key=lambda f: (f.line, f.number, f.kind)):
        change = f"`{_code(fault.before)}` → `{_code(fault.after)}`" if fault.kind != "line" else "left out"
        survivors.append([str(fault.line), f"`{_code(fault.text)}`", change, ""])
    idle = []
    for claim in judged.claims:
        if claim.lineno in judged.never_failed():
            by_rule = ITSELF if claim.lineno in judged.failed_by_own else ""
            idle.append([str(claim.lineno), f"`{_code(ast.unparse(claim.test))}`", by_rule])
    for cells in (*survivors, *idle):
        cells[-1] = reasons.get((judged.section, _key(cells[1:-1])), "") or cells[-1]
    text = ""
    if judged.unsteady:
        lines = sorted(judged.unsteady)
        text += f"\nThese fail without any fault, when measured briefly or run in part, and do not count: {lines}.\n"
    if judged.not_run:
        text += f"\n{judged.not_run} claims did not run on the machine this was made on.\n"
    if survivors:
        text += "\n" + _table(["line", "a fault in", "that no claim caught", "why"], survivors)
    if idle:
        text += "\n" + _table(["line", "a claim that no fault made fail", "why"], idle)
    counts = [
        len(judged.claims), judged.possible, judged.planted, judged.planted - len(survivors),
        len(survivors), sum(not cells[-1] for cells in survivors), len(idle), sum(not cells[-1] for cells in idle),
    ]  # fmt: skip
    return text, [judged.section, *map(str, counts)]


def _chapters(path: Path) -> dict[str, tuple[list[str], str]]:
    """Return an earlier report as a dict from section to (row of the summary, chapter)."""
    if not path.exists():
        return {}
    head, *chapters = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    rows = {cells[0]: cells for cells in _rows(head)}
    sections = [chapter.partition("\n")[::2] for chapter in chapters]
    return {name: (rows[name], text.rstrip("\n") + "\n") for name, text in sections if name in rows}


def _rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row of each table, without headers and rules."""
    lines = text.splitlines()
    for above, line in zip(["", *lines], lines, strict=False):
        if line.startswith("|") and not line.startswith("| ---") and above.startswith("|"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _code(text: str) -> str:
    """Return code in one line, escaped for a table cell."""
    line = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return line if len(line) <= 110 else line[:107] + "…"


def _key(cells: Sequence[str]) -> str:
    return " | ".join(cells)
