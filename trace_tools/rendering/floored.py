"""A section's lines → what other machines could do them in at best, as one block of text beside its page.

    floors_block(timed_lines(section), document, ceilings())     "eNq1W…", for `floors.js`; "" where no line has a floor

Beside each time stands a floor of the same work, of one call where it was measured, under the ceiling of the machine
that a reader chose. The texts are made here: what a floor is and how it is said has one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_tools import formats
from trace_tools.floors import Ceiling, Floor, fit_in_words, floor_in_words, floor_of
from trace_tools.rendering.document import Document, Section, rows_shown
from trace_tools.rendering.packing import packed
from trace_tools.rendering.remarks import UNLIKE, timed, worth_saying
from trace_tools.schema import Step


def timed_lines(section: Section) -> dict[str, list[Step]]:
    """Return the executions of each line that has a time, by its anchor."""
    steps: dict[str, list[Step]] = {}
    for row in rows_shown(section.blocks):
        spoken = timed(row)
        if spoken is not None and worth_saying(spoken):
            steps[row.anchor] = [execution.step for execution in row.executions]
    return steps


def floors_block(lines: Mapping[str, Sequence[Step]], document: Document, machines: Sequence[Ceiling]) -> str:
    """Return, for each machine, its name, what is known of it, and the floors of the lines of a page."""
    told = []
    for ceiling in machines:
        texts = [_text([floor_of(step, ceiling) for step in executions]) for executions in lines.values()]
        told.append([ceiling.name.removeprefix("NVIDIA "), _about(ceiling, document), texts])
    if not any(text for _, _, texts in told for text in texts):
        return ""
    return packed({"anchors": list(lines), "machines": told})


def _text(floors: Sequence[Floor]) -> str | None:
    """Say the floor of a line's executions, from the least to the most where they did not do the same.

    Where there is none it is said why if another machine has one: it has no peak of that dtype.
    """
    known = sorted((floor for floor in floors if floor.seconds is not None), key=lambda floor: floor.seconds or 0.0)
    if not known:
        return next((floor.why for floor in floors if floor.unknown_peak), None)
    least, most = known[0], known[-1]
    if (most.seconds or 0.0) > UNLIKE * (least.seconds or 0.0):
        return f"{floor_in_words(least)}, to {floor_in_words(most, '')}"
    return floor_in_words(known[len(known) // 2])


def _about(ceiling: Ceiling, document: Document) -> str:
    """Say where the figures are from, and whether the lecture would fit."""
    rate = formats.quantity(ceiling.bytes_per_second, "B/s", 4)
    fit = fit_in_words(document.live_bytes, ceiling)
    return f"Floors from the datasheet, with {rate}: nothing was measured there. Would the lecture fit? {fit}."
