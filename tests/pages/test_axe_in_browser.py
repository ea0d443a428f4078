"""Every page, light and dark, as axe-core judges it: nothing serious, nothing critical.

axe-core comes from the npm registry and is no part of this repository: `AXE_CORE` names its `axe.min.js`, or it
lies in `node_modules` here (`npm install --no-save axe-core`). `.ci/run` installs it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, press, show
from tests.pages.explored import explored_lecture
from tests.pages.hostile import hostile_trace
from tests.pages.test_compose import LECTURE, failing, lecture
from tests.pages.test_ranks_in_browser import of_ranks
from tests.presentation.test_varied_in_browser import varied_lecture
from trace_tools.pages.site import SiteTrace, render_site

REPOSITORY = Path(__file__).resolve().parents[2]
REAL = sorted((REPOSITORY / "rendered").glob("**/*.html"))
EXAMPLES = [
    "index",
    "plain/index",
    "plain/setup",
    "plain/00-first",
    "failing/index",
    "failing/01-second",
    "hostile/00-evil",
    "varied/00-f",
    "explored/00-f",
    "ranked/01-alone",
    "ranked/00-sums",
]

CONTRAST = "color-contrast"  # half of the time that axe takes
NARROW_TOO = ["scrollable-region-focusable", "target-size"]  # what depends on width

# An element's kind is what may choose its style: its attributes' names, and of itself and all it is in the name, class
# and role. Of each kind that is not known the first element is kept in the page, if it has text of its own.
NEW = """
const known = new Set(arguments[0]), fresh = new Map();
const named = (one) => one.getAttribute("class")?.replace(/ (goes-on|fits)\\b/g, "");  // both follow the width
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

# Until what scripts add after the first paint is there: nothing more for a third of a second.
SETTLED = """
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
    """The text of axe-core; the test is skipped where there is none."""
    path = Path(os.environ.get("AXE_CORE", REPOSITORY / "node_modules" / "axe-core" / "axe.min.js"))
    if not path.is_file():
        pytest.skip("axe-core is not installed: set AXE_CORE, or npm install --no-save axe-core")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(axe: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("axe")
    traces = {"plain": lecture().trace(), "failing": failing().trace(), "hostile": hostile_trace()}
    render_site([SiteTrace(t, name, None if name == "hostile" else LECTURE) for name, t in traces.items()], out)
    render_site([SiteTrace(varied_lecture(), "varied")], out)
    render_site([SiteTrace(explored_lecture(), "explored", None)], out)
    render_site([SiteTrace(of_ranks(9), "ranked")], out)
    return out


def open_wholly(browser: Any, page: Path, scheme: str) -> None:
    """Show a page with everything on it opened: wide when light, narrow when dark."""
    show(browser, page, WIDE if scheme == "light" else NARROW, scheme)
    browser.set_script_timeout(60)
    browser.execute_async_script(SETTLED)
    browser.execute_script("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    browser.execute_script("document.querySelector('.varied')?.focus()")


def problems(browser: Any, axe: str, options: dict[str, Any] | None = None, *, among_new: bool = False) -> list[Any]:
    """Return what is serious on the page that is shown."""
    browser.set_script_timeout(60)
    browser.execute_script(axe)
    return list(browser.execute_async_script(RUN, options or {}, among_new))


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES)
def test_nothing_serious_on_an_example(browser: Any, axe: str, site: Path, page: str) -> None:
    for scheme in ("light", "dark"):
        open_wholly(browser, site / f"{page}.html", scheme)
        assert problems(browser, axe) == []


def test_nothing_serious_in_the_search_the_keys_and_the_panel(browser: Any, axe: str, site: Path) -> None:
    for scheme in ("light", "dark"):
        show(browser, site / "plain" / "00-first.html", WIDE, scheme)
        press(browser, "/")
        browser.switch_to.active_element.send_keys("x")
        browser.implicitly_wait(5)
        browser.find_element("css selector", "#search-found a")
        assert problems(browser, axe) == []
        browser.switch_to.active_element.send_keys("\ue00c")
        browser.find_element("css selector", "#player:not([hidden])")
        browser.implicitly_wait(0)
        press(browser, "jlQ")
        assert problems(browser, axe) == []
        press(browser, "?")
        assert problems(browser, axe) == []


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_nothing_serious_in_the_lecture_hall_and_the_presenters_window(
    browser: Any, axe: str, site: Path, size: tuple[int, int]
) -> None:
    browser.implicitly_wait(5)
    for scheme in ("light", "dark"):
        show(browser, site / "plain" / "00-first.html", size, scheme, at="#hall")
        browser.find_element("id", "hall")
        for _ in range(8):
            press(browser, "\ue014\ue014")
            assert problems(browser, axe) == []
        show(browser, site / "plain" / "00-first.html", size, scheme, at="#presenter")
        browser.find_element("id", "presenter")
        assert problems(browser, axe) == []
    browser.implicitly_wait(0)


@pytest.fixture(scope="module")
def known() -> set[str]:
    """The kinds of elements that were judged, and the names of pages."""
    return set()


@pytest.mark.slow
@pytest.mark.parametrize("page", REAL, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_nothing_serious_on_a_real_page(browser: Any, axe: str, page: Path, known: set[str]) -> None:
    """What follows from style is judged of each kind of element once; the rest of each page.

    A page without new kinds, of a section that was judged with another machine's numbers, is the same to axe.
    """
    open_wholly(browser, page, "light")
    new = browser.execute_script(NEW, [*known])
    if new or page.stem not in known:
        assert problems(browser, axe, {"rules": {CONTRAST: {"enabled": False}}}) == []
    if new:
        assert problems(browser, axe, {"runOnly": [CONTRAST]}, among_new=True) == []
        open_wholly(browser, page, "dark")
        assert problems(browser, axe, {"runOnly": NARROW_TOO}) == []
        assert browser.execute_script(NEW, [*known]) == new
        assert problems(browser, axe, {"runOnly": [CONTRAST]}, among_new=True) == []
    known |= {*new, page.stem}
