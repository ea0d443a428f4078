"""A report → an HTML page that needs nothing but itself, on the base of the pages (`rendering.page_base`).

html(report, home="../index.html")     "<!doctype html>…"
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment

from trace_tools.comparing.difference import ASPECTS
from trace_tools.comparing.reports.listing import Listing
from trace_tools.comparing.reports.report import Chart, Part, Phrase, Report
from trace_tools.rendering import page_base
from trace_tools.rendering.page_base import Assets

HERE = Path(__file__).parent
PAGES = page_base.HERE


def html(report: Report, home: str | None = None) -> str:
    """Return the page; `home` is the index of the site it belongs to."""
    page = {"home": home or "#text"}
    return (
        _environment()
        .get_template("report.html.j2")
        .render(assets=_assets(), page=page, report=report, aspects=ASPECTS)
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = page_base.environment(HERE / "templates", PAGES / "templates")
    for kind in (Chart, Listing, Part, Phrase):
        environment.tests[kind.__name__.lower()] = _test(kind)
    return environment


def _test(kind: type) -> Callable[[object], bool]:
    return lambda part: isinstance(part, kind)


@lru_cache(maxsize=1)
def _assets() -> Assets:
    """Read the pages' style and script with the reports' own after them."""
    css, js = (
        "\n".join(path.read_text(encoding="utf-8") for path in (PAGES / "static" / pages, HERE / "static" / reports))
        for pages, reports in (("page.css", "comparing.css"), ("page.js", "comparing.js"))
    )
    return page_base.allowed(css, js)
