"""What the HTML reports share: templates that escape everything, and a policy that allows only what is in them.

    render("compare.html.j2", page=Home("../index.html"), comparison=comparison, …)     "<!doctype html>…"

They stand on the pages' own base template, stylesheet and script, and add theirs.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from trace_tools import rendering
from trace_tools.comparing.compare_text import line_place, line_text, ratio_text
from trace_tools.rendering import formats, prose
from trace_tools.rendering.html import Assets

HERE = Path(__file__).parent
PAGES = Path(rendering.__file__).parent


@dataclass(frozen=True, slots=True)
class Home:
    """What the base template asks of a page: where its title leads."""

    home: str


def render(template: str, **values: Any) -> str:
    """Return a page that needs nothing but itself."""
    return _environment().get_template(template).render(assets=_assets(), **values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader([HERE / "templates", PAGES / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "line": formats.one_line,
        "plain": prose.plain_text,
        "inline": lambda text: Markup(prose.inline_html(text)),
        "plural": formats.plural,
        "ratio": ratio_text,
        "place": line_place,
        "shown": line_text,
    }
    return environment


@lru_cache(maxsize=1)
def _assets() -> Assets:
    """Read the pages' style and script with the reports' own after them."""
    css, js = (
        "\n".join(path.read_text(encoding="utf-8") for path in (PAGES / "static" / pages, HERE / "static" / reports))
        for pages, reports in (("page.css", "comparing.css"), ("page.js", "comparing.js"))
    )
    allowed = f"script-src '{_hash(js)}'; style-src '{_hash(css)}'; img-src 'self' data:"
    return Assets(Markup(css), Markup(js), f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
