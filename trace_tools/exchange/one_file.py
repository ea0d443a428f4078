"""A trace → its whole lecture as one HTML file, which loads nothing: to send, to keep, to print.

    one_file(placed(load(path), path, None, None))      "<!doctype html>…"

It is what the pages say, one section below the other: text, code, what stands beside lines with what is folded there,
figures, questions and figures with fields that answer. What needs other files is left out: the player, the lecture
hall, other machines, the search (a browser's own finds everything in one page).
"""

from __future__ import annotations

from trace_tools.garbage import collector_paused
from trace_tools.publishing.site import SiteTrace
from trace_tools.rendering.html import HtmlWriter, Surroundings
from trace_tools.rendering.pictures import read_picture


@collector_paused()
def one_file(one: SiteTrace) -> str:
    """Return the page. Raises LectureError when a stored source is not Python."""
    place = Surroundings(
        machines=lambda section: (),
        picture=lambda address: read_picture(one.lecture_folder, address),
        home="#text",
        has_trace=False,
        alone=True,
        notices=tuple(one.notices),
    )
    return HtmlWriter(one.document, place).whole()
