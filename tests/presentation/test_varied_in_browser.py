"""Mouse, keyboard and touch show the range of a number that varied, with scripts and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, press, show
from tests.pages.recording import Recording
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Run, Table, Text, Trace, Varied

TEXT = (
    "A long line of prose ends, as it were, at the very edge of its own column: 9.7. Other lines that go on, 12.5 "
    "and 3.25, are *followed by* **14.75** and others, and once more at the edge by numbers: 4.125 4.25 4.375 4.5."
)
NUMBERS = ("9.7", "12.5", "3.25", "14.75", "4.125", "4.25", "4.375", "4.5")
SHOWN = "[...document.querySelectorAll('[role=tooltip]')].filter(tip => tip.checkVisibility())"


def varied_lecture() -> Trace:
    """Return a lecture with a text and a table whose numbers varied; two of six runs have another text."""
    recording = Recording("def main():\n    f()\n\ndef f():\n    text(f'{x}')\n    table(rows)\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    numbers = [Varied([n, "1.5", "2.25"], ["88"], (at := TEXT.index(n)), at + len(n)) for n in NUMBERS]
    recording.step(f, "text", narrative=[Text(text=TEXT, varied=numbers, others=[("Another.", 2)])])
    cells = [Varied([2.5, 3.5, 2.75], [9.5, 9.0, 9.25], row=row, column=1) for row in range(3)]
    rows: Any = [[f"the {n} of several operations, with a long name", 2.5] for n in ("first", "second", "third")]
    table = Table(columns=["operation", "ms"], rows=rows, varied=cells)
    recording.step(f, "table", narrative=[table], runs=4)
    return recording.trace(run=Run("lecture.py", "2025", 0, 3, 100, complete=True, timed_runs=6))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("varied")
    render_site([SiteTrace(varied_lecture(), "cpu")], out)
    return out / "cpu" / "00-f.html"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, (1251, 800), (1000, 800), NARROW])
def test_ranges_of_focused_numbers_fit_the_window(browser: Any, page: Path, size: tuple[int, int], scheme: str) -> None:
    show(browser, page, size, scheme)
    assert ask(browser, f"{SHOWN}.length") == 0
    count = ask(browser, "document.querySelectorAll('.varied').length")
    assert count == len(NUMBERS) + 3
    for n in range(count):
        browser.execute_script("document.querySelectorAll('.varied')[arguments[0]].focus()", n)
        box = ask(browser, f"{SHOWN}.map(tip => tip.getBoundingClientRect().toJSON())")
        assert len(box) == 1 and box[0]["left"] >= 0 and box[0]["right"] <= size[0], n
        assert box[0]["top"] >= 0 and box[0]["bottom"] <= size[1], n
        assert ask(browser, "document.documentElement.scrollWidth") <= size[0]
        middle = "document.elementFromPoint((b.left + b.right) / 2, (b.top + b.bottom) / 2)"
        assert ask(browser, f"(b => {middle})({SHOWN}[0].getBoundingClientRect()) === {SHOWN}[0]"), n
    press(browser, "\ue00c")  # Escape
    assert ask(browser, f"{SHOWN}.length") == 0


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_mouse_and_touch_show_the_range(browser: Any, page: Path, scripts: bool) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    try:
        show(browser, page)
        number = browser.find_element("css selector", ".prose .varied")
        point = {"x": number.rect["x"] + 2, "y": number.rect["y"] + 5}
        tip = browser.find_element("css selector", ".prose [role=tooltip]")
        assert not tip.is_displayed()
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", **point})
        assert tip.is_displayed() and tip.text == "1.5 … 9.7 in 3 warm runs; first runs: 88"
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 1, "y": 1})
        assert not tip.is_displayed()
        for kind in ("touchStart", "touchEnd"):
            touches = [point] if kind == "touchStart" else []
            browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
        assert tip.is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
