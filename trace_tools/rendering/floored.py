"""A section's lines → what other machines could do them in at best, as one block of text beside its page.

    floors_block(section, document, ceilings())     "eNq1W…", for `floors.js`; "" where no line has a floor

Beside each time stands a floor of the same execution, or the one call that it measured, under the ceiling of the machine
that a reader chose. The texts are made here: what a floor is and how it is said has one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trace_tools import formats
from trace_tools.floors import Ceiling, fit_in_words, floor_in_words, floor_of, in_tf32
from trace_tools.rendering.document import Document, Section, rows_shown
from trace_tools.rendering.packing import packed
from trace_tools.rendering.remarks import timed, worth_saying


def floors_block(section: Section, document: Document, machines: Sequence[Ceiling]) -> str:
    """Return, for each machine, its name, what is known of it, and the floors of the lines that have a time."""
    spoken = {row.anchor: timed(row) for row in rows_shown(section.blocks)}
    steps = {anchor: it.step for anchor, it in spoken.items() if it is not None and worth_saying(it)}
    told = []
    for machine in machines:
        ceiling = replace(machine, tf32=in_tf32(document.machine))
        floors = [floor_of(step, ceiling) for step in steps.values()]
        texts = [
            floor_in_words(floor) if floor.seconds is not None else floor.why if "peak" in (floor.why or "") else None
            for floor in floors
        ]
        told.append([ceiling.name.removeprefix("NVIDIA "), _about(ceiling, document), texts])
    if not any(text for _, _, texts in told for text in texts):
        return ""
    return packed({"anchors": list(steps), "machines": told})


def _about(ceiling: Ceiling, document: Document) -> str:
    """Say where the figures are from, and whether the lecture would fit."""
    rate = formats.quantity(ceiling.bytes_per_second, "B/s", 4)
    fit = fit_in_words(document.live_bytes, ceiling)
    return f"Floors from the datasheet, with {rate}: nothing was measured there. Would the lecture fit? {fit}."
