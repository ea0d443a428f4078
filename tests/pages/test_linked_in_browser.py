"""Pointing at an element highlights related ones: cells and tensors of a storage, a line and its marks in figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from tests.pages.browsing import ask, show
from tests.pages.recording import Recording
from trace_tools.describing.values import Describer
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Value

OVER = "arguments[0].dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render a page with three views of one storage and two of another."""
    describer = Describer()
    x = torch.arange(6.0).view(2, 3)
    views = {"x": x, "x.t()": x.t(), "x[:, 1:]": x[:, 1:], "y": torch.arange(6.0).view(2, 3)}
    views["y again"] = views["y"].view(3, 2)
    recording = Recording("def main():\n    f()\n\ndef f():\n    x = 1\n    y = 2\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    values = [(name, msgspec.convert(describer.describe(view), Value)) for name, view in views.items()]
    recording.step(f, "x = 1", values=values[:3], host_ns=[2_000_000])
    recording.step(f, "y = 2", values=values[3:], host_ns=[1_000_000])
    out = tmp_path_factory.mktemp("linked")
    render_site([SiteTrace(recording.trace(), "cpu")], out)
    return out / "cpu" / "00-f.html"


def lit(browser: Any) -> list[str]:
    return ask(browser, "[...document.querySelectorAll('.lit')].map(one => one.textContent)")  # type: ignore[no-any-return]


def test_a_cell_is_highlighted_in_every_view_of_its_storage(browser: Any, page: Path) -> None:
    """torch gives the expected cells: each number is in one place of the storage, and at most once in each view."""
    show(browser, page)
    x = torch.arange(6.0).view(2, 3)
    cells = ask(browser, "[...document.querySelectorAll('.gridbox td')].slice(0, 6)")
    for cell, number in zip(cells, x.flatten().tolist(), strict=True):
        browser.execute_script(OVER, cell)
        views = 2 + int((x[:, 1:] == number).any())
        assert lit(browser) == [f"{number:.0f}."] * views
    browser.execute_script(OVER, browser.find_element("css selector", "h1"))
    assert lit(browser) == []


def test_only_tensors_of_the_same_storage_are_highlighted(browser: Any, page: Path) -> None:
    show(browser, page)
    labels = ask(browser, "[...document.querySelectorAll('.storage')]")
    names = [label.get_property("textContent").strip() for label in labels]
    assert len(set(names)) == 2
    browser.execute_script(OVER, labels[-1])
    assert [text.strip() for text in lit(browser)] == [names[-1]] * names.count(names[-1])


def test_a_line_and_its_marks_highlight_each_other(browser: Any, page: Path) -> None:
    show(browser, page)
    links = "document.querySelectorAll('.drawn svg a[href*=\"#L\"]')"
    link = ask(browser, f"[...{links}].find(link => link.textContent.includes('x = 1'))")
    browser.execute_script(OVER, link)
    assert [text.strip().startswith("x = 1") for text in lit(browser)] == [True]
    row = browser.find_element("css selector", ".row.lit")
    browser.execute_script(OVER, row)
    assert any("x = 1" in text for text in lit(browser))
