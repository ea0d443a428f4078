"""axe-core finds no serious or critical problem on any page, light or dark.

axe-core comes from the npm registry and is not part of this repository. `AXE_CORE` names its `axe.min.js`; the default
is the one in `node_modules` here (`npm install --no-save axe-core`). `.ci/run` installs it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, play, press, show, until
from tests.programs import missing

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = ["index", "golden/index", "golden/setup", "golden/00-telling", "golden/01-computing", "failing/01-second"]
EXAMPLES += ["hostile/00-evil", "notes/00-f", "varied/00-f", "explored/00-f", "whole"]

RUN = """
const [options, done] = arguments;
axe.run(document, {resultTypes: ["violations"], selectors: false, ...options}).then(
  (found) => done(found.violations.filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => [one.id, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))])),
  (error) => done([["axe itself", [String(error)]]]));
"""


@pytest.fixture(scope="module")
def axe() -> str:
    """Return the text of axe-core; skip the test if it is not installed."""
    path = Path(os.environ.get("AXE_CORE", REPOSITORY / "node_modules" / "axe-core" / "axe.min.js"))
    if not path.is_file():
        missing("axe-core is not installed: set AXE_CORE, or npm install --no-save axe-core")
    return path.read_text(encoding="utf-8")


def problems(browser: Any, axe: str, **options: Any) -> list[Any]:
    """Return the serious and critical problems of the page that is shown."""
    browser.set_script_timeout(60)
    browser.execute_script(axe)
    return list(browser.execute_async_script(RUN, options))


def problems_of(browser: Any, axe: str, page: Path, scheme: str, **options: Any) -> list[Any]:
    """Return the problems of a page with all details open: wide if light, narrow if dark."""
    show(browser, page, WIDE if scheme == "light" else NARROW, scheme)
    browser.execute_async_script("setTimeout(arguments[0], 500)")  # until scripts have added what they add
    browser.execute_script("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    browser.execute_script("document.querySelector('.varied')?.focus()")
    return problems(browser, axe, **options)


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES)
def test_example_pages_pass_axe(browser: Any, axe: str, site: Path, page: str) -> None:
    for scheme in ("light", "dark"):
        assert problems_of(browser, axe, site / f"{page}.html", scheme) == []


@pytest.mark.slow
def test_pages_of_the_lecture_pass_axe(browser: Any, axe: str, lecture_site: Path) -> None:
    """Contrast, which takes half of axe's time, is checked on the examples, and on the reports that they lack."""
    without_contrast = {"rules": {"color-contrast": {"enabled": False}}}
    failed = {}
    for page in sorted(lecture_site.rglob("*.html")):
        options = {} if page.parent.name == "diff" else without_contrast
        failed[page.name] = problems_of(browser, axe, page, "light", **options)
    assert {name: found for name, found in failed.items() if found} == {}


def test_search_panel_and_list_of_keys_pass_axe(browser: Any, axe: str, site: Path) -> None:
    for scheme in ("light", "dark"):
        play(browser, site / "golden" / "01-computing.html", size=WIDE, scheme=scheme)
        press(browser, "/")
        browser.switch_to.active_element.send_keys("x")
        until(lambda: ask(browser, "document.querySelector('#search-found a') !== null"))
        assert problems(browser, axe) == []
        browser.switch_to.active_element.send_keys("\ue00c")
        for keys in ("jl", "?"):
            press(browser, keys)
            assert problems(browser, axe) == []
