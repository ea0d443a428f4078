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
EXAMPLES += ["hostile/00-evil", "notes/00-f", "varied/00-f", "explored/00-f"]
CONTRAST = "color-contrast"  # takes half of axe's time
NARROW_RULES = ["scrollable-region-focusable", "target-size"]  # rules that depend on the width

# The kind of an element is everything that can select its style: the names of its attributes, and the tags, classes and
# roles of the element and its ancestors. The script stores in the page the first element of each new kind that has text
# of its own.
NEW_KINDS = """
const known = new Set(arguments[0]), fresh = new Map();
const named = (one) => one.getAttribute("class")?.replace(/ (goes-on|fits)\\b/g, "");  // both depend on the width
const of = (one) => [one.tagName, named(one), one.getAttribute("role")].join(" ");
for (const one of document.querySelectorAll("body *")) {
  const kind = one.getAttributeNames();
  for (let outer = one; outer !== document.body; outer = outer.parentElement) kind.push(of(outer));
  const name = kind.join(" < ");
  if (!known.has(name) && !fresh.has(name)) fresh.set(name, one);
}
const says = (one) => [...one.childNodes].some((part) => part.nodeType === Node.TEXT_NODE && part.data.trim());
window.fresh = [...fresh.values()].filter(says);
return [...fresh.keys()];
"""

# Wait until scripts have added no element for a third of a second.
UNTIL_SETTLED = """
const done = arguments[0], count = () => document.getElementsByTagName("*").length;
let before = count(), still = 0;
const look = () => {
  still = count() === before ? still + 1 : 0;
  before = count();
  if (still === 10) done(); else setTimeout(look, 33);
};
look();
"""

RUN = """
const [options, among, done] = arguments;
if (among && !window.fresh.length) return done([]);
axe.run(among ? {include: window.fresh} : document, {resultTypes: ["violations"], selectors: false, ...options}).then(
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


def open_unfolded(browser: Any, page: Path, scheme: str) -> None:
    """Show a page with all details open: wide if light, narrow if dark."""
    show(browser, page, WIDE if scheme == "light" else NARROW, scheme)
    browser.set_script_timeout(60)
    browser.execute_async_script(UNTIL_SETTLED)
    browser.execute_script("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    browser.execute_script("document.querySelector('.varied')?.focus()")


def problems(browser: Any, axe: str, options: dict[str, Any] | None = None, *, among_new: bool = False) -> list[Any]:
    """Return the serious and critical problems of the page that is shown."""
    browser.set_script_timeout(60)
    browser.execute_script(axe)
    return list(browser.execute_async_script(RUN, options or {}, among_new))


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES)
def test_example_pages_pass_axe(browser: Any, axe: str, site: Path, page: str) -> None:
    for scheme in ("light", "dark"):
        open_unfolded(browser, site / f"{page}.html", scheme)
        assert problems(browser, axe) == []


def test_search_panel_and_list_of_keys_pass_axe(browser: Any, axe: str, site: Path) -> None:
    for scheme in ("light", "dark"):
        play(browser, site / "golden" / "01-computing.html", size=WIDE, scheme=scheme)
        press(browser, "/")
        browser.switch_to.active_element.send_keys("x")
        until(lambda: ask(browser, "document.querySelector('#search-found a') !== null"))
        assert problems(browser, axe) == []
        browser.switch_to.active_element.send_keys("\ue00c")
        press(browser, "jlQ")
        assert problems(browser, axe) == []
        press(browser, "?")
        assert problems(browser, axe) == []


@pytest.mark.slow
def test_pages_of_the_lecture_pass_axe(browser: Any, axe: str, lecture_site: Path) -> None:
    """Contrast is checked once for each kind of element.

    A page is skipped if it has only known kinds and the same section of another machine was checked.
    """
    checked: set[str] = set()  # kinds of elements, and names of pages
    failed: dict[str, list[Any]] = {}
    for page in sorted(lecture_site.rglob("*.html")):
        open_unfolded(browser, page, "light")
        new_kinds = browser.execute_script(NEW_KINDS, [*checked])
        found: list[Any] = []
        if new_kinds or page.stem not in checked:
            found += problems(browser, axe, {"rules": {CONTRAST: {"enabled": False}}})
        if new_kinds:
            found += problems(browser, axe, {"runOnly": [CONTRAST]}, among_new=True)
            open_unfolded(browser, page, "dark")
            found += problems(browser, axe, {"runOnly": NARROW_RULES})
            assert browser.execute_script(NEW_KINDS, [*checked]) == new_kinds
            found += problems(browser, axe, {"runOnly": [CONTRAST]}, among_new=True)
        if found:
            failed[str(page.relative_to(lecture_site))] = found
        checked |= {*new_kinds, page.stem}
    assert failed == {}
