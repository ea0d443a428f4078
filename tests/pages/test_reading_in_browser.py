"""Pages in print, with the keyboard alone, without motion and without scripts; and the sizes of pages."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import ask, forget, press, show, until
from tests.pages.hostile import hostile_trace
from tests.pages.lectures import LECTURE, failing, lecture
from tests.pages.test_site import first_page
from trace_tools.diff.compare import compare
from trace_tools.diff.difference import Side
from trace_tools.diff.report.folder import write_reports
from trace_tools.pages.site import SiteTrace, render_site

pytestmark = pytest.mark.slow

TAB = "\ue004"

SHEET = (720, 1000)  # about A4


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reading")
    traces = {"plain": lecture().trace(), "failing": failing().trace(), "hostile": hostile_trace()}
    render_site([SiteTrace(t, name, None if name == "hostile" else LECTURE) for name, t in traces.items()], out)
    sides = [Side(f"{name}/trace.yaml", traces[name], label=name) for name in ("plain", "failing")]
    write_reports(out / "diff", compare(sides), "../index.html")
    return out


def stepping(browser: Any, page: Path, **options: Any) -> None:
    """Open a page, wait for its player and take two steps."""
    show(browser, page, **options)
    browser.implicitly_wait(5)
    browser.find_element("css selector", "#player:not([hidden])")
    browser.find_element("css selector", ".copy")
    browser.implicitly_wait(0)
    press(browser, "jj")


def test_print_hides_the_player_and_cuts_no_code(browser: Any, site: Path) -> None:
    stepping(browser, site / "plain" / "00-first.html", size=SHEET, scheme="dark")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    chrome = ".bar, .panel, .player, .copy, #search-open, .permalink, nav, dialog, #step-done"
    assert (
        ask(browser, f"[...document.querySelectorAll('{chrome}')].filter(part => part.checkVisibility()).length") == 0
    )
    assert ask(browser, "getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert ask(browser, "getComputedStyle(document.querySelector('.row.current')).boxShadow") == "none"
    parts = "[...document.querySelectorAll('.code > code, .beside, .under pre')]"
    cut = f"{parts}.filter(part => part.scrollWidth > part.clientWidth + 1)"
    assert ask(browser, f"{cut}.length") == 0  # no line of code ends at the edge of the sheet
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_printing_produces_a_pdf_with_calls_closed(browser: Any, site: Path) -> None:
    stepping(browser, site / "plain" / "00-first.html")
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF") and re.findall(rb"/Type\s*/Page\b", pdf)
    folds = "[...document.querySelectorAll('details:is(.called, .deeper):not([open])')]"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not ask(browser, f"{folds}.some(box => box.checkVisibility())")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("page", ["index", "plain/index", "plain/setup", "plain/00-first", "hostile/00-evil"])
def test_all_controls_are_reachable_with_the_tab_key(browser: Any, site: Path, page: str) -> None:
    show(browser, site / f"{page}.html")
    usable = "a[href], button, input, select, textarea, summary, [onclick], [role=button], audio, video"
    script = f"""[...document.querySelectorAll('{usable}')].filter(part =>
        part.checkVisibility({{visibilityProperty: true}}) && part.tabIndex < 0).map(part => part.outerHTML)"""
    assert ask(browser, script) == []
    scrolled = """[...document.querySelectorAll('main *')].filter(part => part.checkVisibility()
        && /auto|scroll/.test(getComputedStyle(part).overflowX) && part.scrollWidth > part.clientWidth
        && part.tabIndex < 0 && !part.querySelector('a, button, [tabindex]')).map(part => part.outerHTML)"""
    assert ask(browser, scrolled) == []


def test_the_first_tab_stop_skips_to_the_text(browser: Any, site: Path) -> None:
    show(browser, site / "plain" / "00-first.html")
    press(browser, "\ue004")
    assert ask(browser, "document.activeElement.textContent") == "Skip to the text"
    assert ask(browser, "document.activeElement.getBoundingClientRect().left") >= 0


def test_the_text_is_within_ten_tab_stops(browser: Any, site: Path) -> None:
    show(browser, site / "plain" / "00-first.html")
    until(lambda: ask(browser, "document.getElementById('theme').hidden") is False)
    stops = 0
    while not ask(browser, "document.activeElement.closest('main') !== null"):
        press(browser, TAB) if not stops else browser.switch_to.active_element.send_keys(TAB)
        stops += 1
        assert stops <= 10
    left = "document.querySelector('{}').getBoundingClientRect().left"
    assert ask(browser, f"{left.format('.contents')} < {left.format('main')}")  # on the screen, the contents come first


def test_reduced_motion_disables_animations(browser: Any, site: Path) -> None:
    show(browser, site / "plain" / "00-first.html")
    scroll = "getComputedStyle(document.documentElement).scrollBehavior"
    for wanted, behaviour in (("no-preference", "smooth"), ("reduce", "auto")):
        features = [{"name": "prefers-reduced-motion", "value": wanted}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
        assert ask(browser, scroll) == behaviour
    moving = "[...document.querySelectorAll('*')].filter(part => getComputedStyle(part).transitionDuration !== '0s')"
    assert ask(browser, f"{moving}.length") == 0
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "index",
        "plain/index",
        "plain/setup",
        "plain/00-first",
        "failing/01-second",
        "diff/index",
        "diff/plain-to-failing",
    ],
)
def test_without_scripts_no_dead_controls_are_shown(browser: Any, site: Path, page: str) -> None:
    controls = "button, input, select, textarea, dialog, form, fieldset, [role=button], [role=combobox], summary"
    offered = f"[...document.querySelectorAll('{controls}')].filter(part => part.checkVisibility())"
    show(browser, site / f"{page}.html")
    assert ask(browser, f"{offered}.some(part => part.id === 'theme')")  # with scripts, there are controls
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, site / f"{page}.html")
        unfolds = "part.matches('summary') && part.parentElement.textContent.trim() !== part.textContent.trim()"
        assert ask(browser, f"{offered}.filter(part => !({unfolds})).map(part => part.outerHTML)") == []
        pictures = "[...document.querySelectorAll('.drawn .scroll')].map(box => box.innerText + box.innerHTML)"
        assert all("<text" in box for box in ask(browser, pictures))
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_first_page_links_to_the_section_last_read(browser: Any, tmp_path: Path) -> None:
    render_site([SiteTrace(first_page().trace(), "cpu")], tmp_path)
    again = "document.getElementById('again')"
    show(browser, tmp_path / "index.html")
    forget(browser)
    show(browser, tmp_path / "index.html")
    assert ask(browser, f"{again}.hidden")
    show(browser, tmp_path / "cpu" / "01-measuring.html")  # opened without scrolling
    show(browser, tmp_path / "index.html")
    assert ask(browser, f"{again}.hidden")
    show(browser, tmp_path / "cpu" / "01-measuring.html", (1280, 240))
    browser.execute_async_script("""const done = arguments[0];
        requestAnimationFrame(() => requestAnimationFrame(() => {
            addEventListener("scroll", () => requestAnimationFrame(done), { once: true });
            scrollTo({ top: 120, behavior: "instant" });
        }))""")
    show(browser, tmp_path / "index.html")
    assert ask(browser, f"{again}.getAttribute('href')") == "cpu/01-measuring.html"
    assert ask(browser, f"{again}.textContent") == "Continue with 1 Measuring"
    assert not ask(browser, "document.querySelector('.toc div.words').checkVisibility()")
    browser.find_element("css selector", ".paths a:last-child").click()
    assert ask(browser, "document.querySelector('.toc div.words').checkVisibility()")


def test_choosing_summaries_keeps_the_scroll_position(browser: Any, tmp_path: Path) -> None:
    render_site([SiteTrace(first_page().trace(), "cpu")], tmp_path)
    show(browser, tmp_path / "index.html", (390, 400))
    choose = """const [done] = arguments, choice = document.querySelector('.paths a:last-child');
    scrollTo({ top: scrollY + choice.getBoundingClientRect().top - 300, behavior: 'instant' });
    const before = scrollY;
    const drawn = (then) => requestAnimationFrame(() => requestAnimationFrame(then));
    addEventListener('hashchange', () => drawn(() => done([before, scrollY])));
    choice.click();"""
    before, after = browser.execute_async_script(choose)
    assert before == after > 0 and ask(browser, "document.querySelector('.toc div.words').checkVisibility()")
