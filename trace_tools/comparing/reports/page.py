"""What the HTML reports share: the base of the pages (`rendering.page_base`), and what the reports add to it.

render("compare.html.j2", page=Home("../index.html"), comparison=comparison, …)     "<!doctype html>…"
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment

from trace_tools.comparing.reports.compare_text import line_place, line_text, ratio_text
from trace_tools.rendering import page_base
from trace_tools.rendering.page_base import Assets

HERE = Path(__file__).parent
PAGES = page_base.HERE


@dataclass(frozen=True, slots=True)
class Home:
    """What the base template asks of a page: where its title leads."""

    home: str


def render(template: str, **values: Any) -> str:
    """Return a page that needs nothing but itself."""
    return _environment().get_template(template).render(assets=_assets(), **values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = page_base.environment(HERE / "templates", PAGES / "templates")
    environment.filters |= {"ratio": ratio_text, "place": line_place, "shown": line_text}
    return environment


@lru_cache(maxsize=1)
def _assets() -> Assets:
    """Read the pages' style and script with the reports' own after them."""
    css, js = (
        "\n".join(path.read_text(encoding="utf-8") for path in (PAGES / "static" / pages, HERE / "static" / reports))
        for pages, reports in (("page.css", "comparing.css"), ("page.js", "comparing.js"))
    )
    return page_base.allowed(css, js)
