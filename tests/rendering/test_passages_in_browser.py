"""A lecture in edtrace's words, in a real browser: as dense as in edtrace's own viewer, and whole on a small screen."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.rendering.browsing import NARROW, WIDE, ask, press, show
from tests.traces import example_trace
from trace_tools.machines.machine import STORED, from_json
from trace_tools.publishing.site import render_folder
from trace_tools.tracing.tracer import Request, Tracer

THEIRS = 24  # pixels of a line: the viewer of CS336's lectures of 2025 has 16 px letters, 1.5 lines high, no margins

LINES = """from edtrace import text, link
def main():
    many()
def many():
    text("## Heading")
    text("One line of prose.")
    text("Another one "), link(title="[article]", url="https://example.org/a")
    text("- an item")
    text("- and "), link(many), link(title="[blog]", url="https://example.org/b")
    text("1. the first")
    text("Some $x^2$ and `code`.")
"""


@pytest.fixture(scope="module")
def pages(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("course")
    shutil.copytree(Path(__file__).resolve().parents[1] / "lectures", folder, dirs_exist_ok=True)
    (folder / "lines.py").write_text(LINES, encoding="utf-8")
    known = replace(example_trace(), machine=from_json(Path(environment[STORED]).read_text(encoding="utf-8")))
    for name in ("edtrace_style", "lines"):
        out = folder / "pages" / name
        Tracer(Request(folder / f"{name}.py", out, "cpu", 1, like=known, draft=True)).run()
        render_folder(out, folder / f"{name}.py")
    return folder / "pages"


def test_a_line_takes_no_more_room_than_in_their_viewer(browser: Any, pages: Path) -> None:
    show(browser, pages / "lines/cpu/00-many.html", WIDE)
    tops = ask(
        browser,
        "[...document.querySelectorAll('.prose.lines :is(p, li)')].map(one => one.getBoundingClientRect().top)",
    )
    assert len(tops) == 6, "each on a line of its own"
    gaps = [below - above for above, below in pairwise(tops)]
    assert max(gaps) <= THEIRS + 2 and sum(gaps) / len(gaps) <= THEIRS + 1  # one has a formula, which is higher


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("page", ["index", "00-bisection", "01-costs", "02-pictures"])
def test_its_pages_stay_within_the_window_and_obey_their_policy(
    browser: Any, pages: Path, page: str, size: tuple[int, int]
) -> None:
    show(browser, pages / f"edtrace_style/cpu/{page}.html", size)
    assert ask(browser, "document.documentElement.scrollWidth") <= size[0]
    refused = [
        entry["message"] for entry in browser.get_log("browser") if "Content Security Policy" in entry["message"]
    ]
    assert refused == []


def test_references_open_and_abstracts_in_them(browser: Any, pages: Path) -> None:
    show(browser, pages / "edtrace_style/cpu/00-bisection.html")
    height = "document.querySelector('.references li details p').offsetHeight"
    assert not ask(browser, "document.querySelector('.references').open")
    ask(browser, "document.querySelectorAll('.references, .references details').forEach(one => { one.open = true; })")
    assert ask(browser, height) > 0
    hover = ask(browser, "document.querySelector('.prose.lines a[title]').title")
    assert hover.startswith("What Every Programmer Should Know. Ada Example, Bo Sample (An Institute), 1991-03-01.")


def test_it_can_be_stepped_through_and_shown_in_the_hall(browser: Any, pages: Path) -> None:
    """Each line of a passage is a step, and all of it is what is current; in the hall it is one place."""
    show(browser, pages / "lines/cpu/00-many.html")
    for _ in range(3):
        press(browser, "l")
    assert ask(browser, "document.querySelector('.prose.current, .prose .current, .current') !== null")
    press(browser, "P")
    for _ in range(4):
        press(browser, "l")
    severe = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert severe == []
