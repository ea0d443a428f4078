"""Write a report as a self-contained HTML page, on the same base as the pages (`rendering.page_base`).

html(report, home="../index.html", pages="../cpu/")     "<!doctype html>…"
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from jinja2 import Environment

from trace_tools.diff.difference import ASPECTS
from trace_tools.diff.report.listing import Listing
from trace_tools.diff.report.report import Chart, Part, Phrase, Report
from trace_tools.presentation import page_shell
from trace_tools.presentation.charts.svg import embedded
from trace_tools.presentation.page_shell import Assets
from trace_tools.presentation.payload import packed

HERE = Path(__file__).parent
PAGES = page_shell.HERE


def html(report: Report, home: str | None = None, pages: str | None = None, *, small: bool = False) -> str:
    """Return the page; `home` is the index of the site it belongs to, `pages` the folder of pages that it searches.

    A `small` page has the lines of the lecture deflated, which its script unpacks.
    """
    page = {"home": home or "#text"}
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            assets=_assets(searches=pages is not None),
            page=page,
            report=report,
            aspects=ASPECTS,
            folder=pages,
            small=small,
        )
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = page_shell.environment(HERE / "templates", PAGES / "templates")
    for kind in (Chart, Listing, Part, Phrase):
        environment.tests[kind.__name__.lower()] = lambda part, kind=kind: isinstance(part, kind)
    environment.filters |= {"packed": packed, "embedded": embedded}
    return environment


@lru_cache(maxsize=2)
def _assets(*, searches: bool) -> Assets:
    """Read the pages' style and script with the reports' own after them."""
    shared = page_shell.assets("page", *(["search"] if searches else []))
    own = HERE / "static" / "comparing.css", HERE / "static" / "comparing.js"
    css, js = (
        "\n".join((of_pages, path.read_text(encoding="utf-8")))
        for of_pages, path in zip((shared.css, shared.js), own, strict=True)
    )
    return page_shell.allowed(css, js, beside=searches)
