"""Pages of reports: they allow what is theirs, every link leads somewhere, nothing gets out."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import pytest
from rich.console import Console

from tests.diff.report_cases import LECTURE, between, hostile, html_of, planted, recorded
from tests.diff.test_compare import side_by_side
from tests.pages.hostile import hostile_trace
from tests.pretend_gpu import pretend_gpu
from trace_tools.diff.difference import Difference
from trace_tools.diff.report.comparison_report import report_of
from trace_tools.diff.report.html import html
from trace_tools.diff.report.markdown import markdown
from trace_tools.diff.report.terminal import terminal


def beside_gpu() -> Difference:
    cpu = recorded()
    return between(cpu, pretend_gpu(cpu))


@cache
def page_of(make: Callable[[], Difference]) -> str:
    return html_of(make())


def tags(page: str) -> list[tuple[str, str | None]]:
    """Return every attribute of a page, as the standard library's parser reads it."""
    found: list[tuple[str, str | None]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.extend(attributes)  # type: ignore[method-assign]
    parser.feed(page)
    return found


def test_edited_lines_stand_side_by_side() -> None:
    page = html_of(between(recorded(), recorded(text=LECTURE.replace("total = 7", "total = 8"), total=8)))
    lines = re.findall(r'class="l (minus|plus)">.*?<code>(.*?)</code>', page)
    assert [(mark, re.sub("<[^>]+>", "", code)) for mark, code in lines] == [
        ("minus", "total = 7"),
        ("plus", "total = 8"),
    ]


@pytest.mark.parametrize("make", [planted, hostile])
def test_a_page_allows_its_own_style_and_script_and_nothing_else(make: Callable[[], Difference]) -> None:
    page = page_of(make)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        [inner] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        allowed = re.search(rf"{rule} ([^;]+)", policy[1].replace("&#39;", "'"))
        assert allowed is not None and allowed[1] == f"'sha256-{digest}'"
    attributes = tags(page)
    assert not [name for name, _ in attributes if name.startswith("on") or name == "style"]
    links = [value or "" for name, value in attributes if name in ("href", "src", "action")]
    assert all(link.startswith("#") or link.startswith("data:image/svg+xml,") for link in links)


@pytest.mark.parametrize("make", [planted, beside_gpu])
def test_every_link_of_a_page_leads_somewhere(make: Callable[[], Difference]) -> None:
    page = page_of(make)
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_hostile_traces_give_pages_in_which_nothing_runs() -> None:
    hostile = hostile_trace()
    other = replace(hostile, machine=replace(hostile.machine, slug='" onload="window.pwned=1'))
    found = side_by_side(hostile, other)
    page = html(report_of(found, "html"))
    assert re.findall(r"<script\b", page) == ["<script"]
    names: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: names.extend(n for n, _ in attributes)  # type: ignore[method-assign]
    parser.feed(page)
    assert not [name for name in names if name.startswith("on") or name == "style"]
    text = markdown(report_of(found, "md"))
    assert not re.search(r"(?<!\\)<(?!br>|/?details>|/?summary>)", re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text))
    Console(file=io.StringIO(), width=100).print(terminal(report_of(found, "terminal", everything=True)))
