"""Write a whole lecture as one HTML file that loads nothing, to send or to archive.

    one_file(placed(load(path), path, None, None))      "<!doctype html>…"

The file has all sections: text, code, margin notes with folded details, figures, questions and figures with inputs.
Parts that need other files are omitted: the player, other machines, and the search (browsers search one
page themselves).
"""

from __future__ import annotations

from trace_tools.pages.html import HtmlWriter, SiteContext
from trace_tools.pages.pictures import read_picture
from trace_tools.pages.site import SiteTrace
from trace_tools.util.interpreter import collector_paused


@collector_paused()
def one_file(one: SiteTrace) -> str:
    """Return the page. Raises LectureError if a stored source is not valid Python."""
    site = SiteContext(
        machines=lambda section: (),
        picture=lambda address: read_picture(one.lecture_folder, address),
        home="#text",
        has_trace=False,
        alone=True,
    )
    return HtmlWriter(one.document, site).single_page()
