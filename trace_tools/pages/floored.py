"""Pack the lower bounds of a section's lines on other machines into one block of text for its page.

    floors_block(timed_lines(section), document, ceilings())     "eNq1W…", for `floors.js`; "" if no line has a bound

Each time gets the lower bound of the same work (of one call if it was measured) on the machine that a reader selects.
The texts are made here, so that the script needs no formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trace_tools.analysis.floors import Ceiling, Floor, fit_in_words, floor_in_words, floor_of
from trace_tools.pages.document import Document, Section, rows_shown
from trace_tools.pages.margin import UNLIKE, timed, worth_saying
from trace_tools.presentation.payload import packed
from trace_tools.trace.model import Step
from trace_tools.util import formats


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
