"""Pack what scripts show next to a page's lines: this machine's results, for other machines' pages, and lower bounds.

    results_block(section)      "eNq1W…", for `machines.js`, which also loads that of another machine

Of each line that ran: a key (a checksum of its code, and its turn among equal lines of the page), its anchor, its time
in nanoseconds, and its results. Nothing depends on other machines: the script matches lines by their keys, so that what
was not edited matches wherever it is.

    floors_block(timed_lines(section), known_machines())     "eNq1W…", for `compare.js`; "" if no line has a bound

Each time gets the lower bound of the same work (of one call if it was measured) on the machine that a reader selects.
The texts are made here, so that the script needs no formulas.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trace_tools.analysis.rates import Floor, floor_in_words, floor_of
from trace_tools.machines.peaks import KnownMachine
from trace_tools.pages.document import Section, rows_shown
from trace_tools.pages.margin import UNLIKE, worth_saying
from trace_tools.presentation.page_shell import packed
from trace_tools.trace.model import Step
from trace_tools.util import formats

RESULTS = ("value", "error", "held", "failed", "caught", "time")  # kinds of notes that other machines' pages show


def results_block(section: Section) -> str:
    """Return the lines of a section that ran, with what its page shows next to them."""
    turns: Counter[int] = Counter()
    lines: list[list[Any]] = []
    for row in rows_shown(section.blocks):
        if not row.lines or not (row.executions or row.arguments):
            continue
        code = zlib.crc32("\n".join(line.text.strip() for line in row.lines).encode("utf-8", "surrogatepass"))
        turns[code] += 1
        ns = row.typical.median_ns if row.typical is not None else None
        notes = [[n.kind, n.label, n.name, n.text] for n in row.beside if n.kind in RESULTS]
        lines.append([f"{code}:{turns[code]}", row.anchor, ns, notes])
    return packed(lines)


def timed_lines(section: Section) -> dict[str, list[Step]]:
    """Return the executions of each timed line, by its anchor."""
    steps: dict[str, list[Step]] = {}
    for row in rows_shown(section.blocks):
        if row.typical is not None and worth_saying(row.typical):
            steps[row.anchor] = [e.step for e in row.executions if e.step.meters or e.step.measured]
    return steps


def floors_block(lines: Mapping[str, Sequence[Step]], machines: Sequence[KnownMachine]) -> str:
    """Return for each machine its name, a note, and the lower bounds of the lines of a page; "" without any bound."""
    bounds = []
    for machine in machines:
        name = machine.names[0].removeprefix("NVIDIA ")
        bandwidth = formats.quantity(machine.bytes_per_second, "B/s", 4)
        about = f"Lower bounds from the datasheet ({bandwidth}), not measured."
        floors = ([floor_of(step, machine) for step in executions] for executions in lines.values())
        bounds.append([name, about, [_text([floor for floor in each if floor is not None], name) for each in floors]])
    return packed({"anchors": list(lines), "machines": bounds}) if any(any(texts) for *_, texts in bounds) else ""


def _text(floors: Sequence[Floor], name: str) -> str | None:
    """Return the lower bound of a line's executions, as a range if they differ, or which peak the machine lacks."""
    bounded = sorted((floor for floor in floors if floor.seconds is not None), key=lambda floor: floor.seconds or 0.0)
    if not bounded:
        return f"no {floors[0].roof} peak of {name} is known" if floors else None
    least, most = bounded[0], bounded[-1]
    if (most.seconds or 0.0) > UNLIKE * (least.seconds or 0.0):
        return f"{floor_in_words(least)}, to {floor_in_words(most, '')}"
    return floor_in_words(bounded[len(bounded) // 2])
