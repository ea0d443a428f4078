"""Every page, light and dark, as axe-core judges it: nothing serious, nothing critical.

axe-core comes from the npm registry and is no part of this repository: `AXE_CORE` names its `axe.min.js`, or it
lies in `node_modules` here (`npm install --no-save axe-core`). `.ci/run` installs it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.rendering.browsing import NARROW, WIDE, press, show
from tests.rendering.hostile import hostile_trace
from tests.rendering.test_compose import LECTURE, failing, lecture
from tests.rendering.test_varied_in_browser import varied_lecture
from trace_tools.publishing.site import SiteTrace, render_site

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
]

AGAIN = ["color-contrast", "scrollable-region-focusable", "target-size"]  # what depends on scheme and width

# Of each element its name, classes, role and attributes, those of what it is in, and of what that is in.
KINDS = """
const held = (one) => [one.getAttribute("class"), one.getAttribute("role"), ...one.getAttributeNames()];
const of = (one) => one && [one.tagName, ...held(one)].join(" ");
const kind = (one) => [one, one.parentElement, one.parentElement.parentElement].map(of).join(" < ");
return [...new Set([...document.querySelectorAll("body *")].map(kind))];
"""

RUN = """
const done = arguments[1];
axe.run(document, {resultTypes: ["violations"], selectors: false, ...arguments[0]}).then(
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
    return out


def judged(browser: Any, axe: str, page: Path, scheme: str, options: dict[str, Any] | None = None) -> list[Any]:
    """Return what is serious on a page, everything on it opened: wide when light, narrow when dark."""
    show(browser, page, WIDE if scheme == "light" else NARROW, scheme)
    browser.execute_script("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    browser.execute_script("document.querySelector('.varied')?.focus()")
    return problems(browser, axe, options)


def problems(browser: Any, axe: str, options: dict[str, Any] | None = None) -> list[Any]:
    browser.set_script_timeout(60)
    browser.execute_script(axe)
    return list(browser.execute_async_script(RUN, options or {}))


@pytest.mark.parametrize("page", EXAMPLES)
def test_nothing_serious_on_an_example(browser: Any, axe: str, site: Path, page: str) -> None:
    for scheme in ("light", "dark"):
        assert judged(browser, axe, site / f"{page}.html", scheme) == []


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
        press(browser, "jlP")
        assert problems(browser, axe) == []
        press(browser, "?")
        assert problems(browser, axe) == []


@dataclass
class Judged:
    """What real pages had so far."""

    kinds: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def before() -> Judged:
    return Judged()


@pytest.mark.parametrize("page", REAL, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_nothing_serious_on_a_real_page(browser: Any, axe: str, page: Path, before: Judged) -> None:
    """A style is chosen by an element and what it is in, so that dark and narrow pages are judged for new kinds only.

    A page with none, of a section that was judged with another machine's numbers, is the same to axe.
    """
    show(browser, page)
    kinds = set(browser.execute_script(KINDS))
    new = kinds - before.kinds
    if new or page.stem not in before.names:
        assert judged(browser, axe, page, "light") == []
    if new:
        assert judged(browser, axe, page, "dark", {"runOnly": AGAIN}) == []  # the rest is the same
    before.kinds |= kinds
    before.names.add(page.stem)
