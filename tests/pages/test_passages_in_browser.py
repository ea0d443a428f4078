"""A lecture written for edtrace, in a real browser: as compact as in edtrace's viewer, and fit for small screens."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, press, show
from tests.traces import example_trace
from trace_tools.machines.machine import STORED, from_json
from trace_tools.pages.site import render_folder
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.supervisor import Tracer

# Pixels per line in the viewer of CS336's lectures of 2025: 16 px letters, line height 1.5, no margins
LINE_HEIGHT = 24

LINES = """from edtrace import image, text, link
def main():
    many()
    paragraphs()
def many():
    text("## Heading")
    text("One line of prose.")
    text("Another one "), link(title="[article]", url="https://example.org/a")
    text("- an item")
    text("- and "), link(many), link(title="[blog]", url="https://example.org/b")
    text("1. the first")
    text("Some $x^2$ and `code`.")
def paragraphs():
    text("One line."),
    text("The next one.")

    # not shown
    text("- an item")

    text("- of another list")
    image("https://images.invalid/a/square.png")
"""
# The digest is `md5sum` of the image's address
CACHED_IMAGE = "var/files/image-12bae1de9ed78b3de3d6d4fc03ceb32a-https_images_invalid_a_square_png"


@pytest.fixture(scope="module")
def pages(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("course")
    shutil.copytree(Path(__file__).resolve().parents[1] / "lectures", folder, dirs_exist_ok=True)
    (folder / "lines.py").write_text(LINES, encoding="utf-8")
    (folder / CACHED_IMAGE).parent.mkdir(parents=True)
    (folder / CACHED_IMAGE).write_text('<svg xmlns="http://www.w3.org/2000/svg" width="30" height="30"></svg>')
    reference = replace(example_trace(), machine=from_json(Path(environment[STORED]).read_text(encoding="utf-8")))
    for name in ("edtrace_style", "lines"):
        out = folder / "pages" / name
        Tracer(folder / f"{name}.py", out, TraceOptions(device="cpu", draft=True), like=reference).run()
        render_folder(out, folder / f"{name}.py")
    return folder / "pages"


@pytest.mark.slow
def test_lines_are_as_compact_as_in_edtraces_viewer(browser: Any, pages: Path) -> None:
    show(browser, pages / "lines/cpu/00-many.html", WIDE)
    tops = ask(
        browser,
        "[...document.querySelectorAll('.prose.lines :is(p, li)')].map(one => one.getBoundingClientRect().top)",
    )
    assert len(tops) == 6, "each is on its own line"
    gaps = [below - above for above, below in pairwise(tops)]
    # One line has a formula, which is taller
    assert max(gaps) <= LINE_HEIGHT + 2 and sum(gaps) / len(gaps) <= LINE_HEIGHT + 1


def test_blank_lines_start_paragraphs_and_images_use_the_cached_copy(browser: Any, pages: Path) -> None:
    show(browser, pages / "lines/cpu/01-paragraphs.html", WIDE)
    lines = "[...document.querySelectorAll('.prose.lines :is(p, li)')].map(one => one.getBoundingClientRect().top)"
    gaps = [below - above for above, below in pairwise(ask(browser, lines))]
    assert len(gaps) == 3 and gaps[0] <= LINE_HEIGHT + 2 and min(gaps[1:]) >= 1.4 * LINE_HEIGHT
    image = "document.querySelector('figure img')"
    assert ask(browser, f"{image}.complete && {image}.naturalWidth") == 30
    policy = ask(browser, "document.querySelector('meta[http-equiv=Content-Security-Policy]').content")
    assert "images.invalid" not in policy
    assert "](<figures/square-" in (pages / "lines/cpu/01-paragraphs.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("page", ["index", "00-bisection", "01-costs", "02-pictures"])
def test_pages_fit_the_window_and_obey_their_content_policy(
    browser: Any, pages: Path, page: str, size: tuple[int, int]
) -> None:
    show(browser, pages / f"edtrace_style/cpu/{page}.html", size)
    assert ask(browser, "document.documentElement.scrollWidth") <= size[0]
    refused = [
        entry["message"] for entry in browser.get_log("browser") if "Content Security Policy" in entry["message"]
    ]
    assert refused == []


def test_references_and_abstracts_can_be_unfolded(browser: Any, pages: Path) -> None:
    show(browser, pages / "edtrace_style/cpu/00-bisection.html")
    height = "document.querySelector('.references li details p').offsetHeight"
    assert not ask(browser, "document.querySelector('.references').open")
    ask(browser, "document.querySelectorAll('.references, .references details').forEach(one => { one.open = true; })")
    assert ask(browser, height) > 0
    hover = ask(browser, "document.querySelector('.prose.lines a[title]').title")
    assert hover.startswith("What Every Programmer Should Know. Ada Example, Bo Sample (An Institute), 1991-03-01.")


def test_passages_can_be_stepped_through_and_shown_as_slides(browser: Any, pages: Path) -> None:
    show(browser, pages / "lines/cpu/00-many.html")
    for _ in range(3):
        press(browser, "l")
    assert ask(browser, "document.querySelector('.prose.current, .prose .current, .current') !== null")
    press(browser, "P")
    for _ in range(4):
        press(browser, "l")
    severe = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert severe == []
