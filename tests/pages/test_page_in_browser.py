"""Pages in a browser: loaded files, layout, colours, keyboard, print, phones, and the single file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.pages.browsing import (
    NARROW,
    WIDE,
    ask,
    boxes,
    drag,
    forget,
    note_beside_code,
    on_paper,
    play,
    press,
    resize,
    show,
    until,
    without_scripts,
)
from tests.pages.conftest import VARIED_NUMBERS
from tests.pages.test_site import first_page
from trace_tools.pages.site import SiteTrace, render_site

ENTER, ESCAPE, TAB = "\ue007", "\ue00c", "\ue004"
SHEET = (720, 1000)  # about A4
WIDTH = "document.documentElement.scrollWidth"
PAGES = ["index", "golden/index", "golden/setup", "golden/00-telling", "golden/01-computing", "failing/01-second"]
PAGES += ["hostile/index", "hostile/00-evil", "notes/00-f", "varied/00-f", "explored/00-f", "whole", "hostile-whole"]

CONTROLS = "button, input, select, textarea, dialog, form, fieldset, [role=button], [role=combobox], summary"
OFFERED = f"[...document.querySelectorAll('{CONTROLS}')].filter(part => part.checkVisibility())"
UNFOLDS = "part.matches('summary') && part.parentElement.textContent.trim() !== part.textContent.trim()"
UNREACHABLE = """[...document.querySelectorAll('a[href], audio, video, [onclick], CONTROLS')].filter(part =>
    part.checkVisibility({visibilityProperty: true}) && part.tabIndex < 0).map(part => part.outerHTML)""".replace(
    "CONTROLS", CONTROLS.replace("dialog, form, fieldset, ", "")
)
UNSCROLLABLE = """[...document.querySelectorAll('main *')].filter(part => part.checkVisibility()
    && /auto|scroll/.test(getComputedStyle(part).overflowX) && part.scrollWidth > part.clientWidth
    && part.tabIndex < 0 && !part.querySelector('a, button, [tabindex]')).map(part => part.outerHTML)"""
INJECTED = """const s = document.createElement('script'); s.textContent = 'window.pwned = 1'; document.body.append(s);
    document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.pwned = 1">');"""


def requested(browser: Any) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [url for url in urls if not url.startswith("data:")]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_loads_its_own_files_fits_a_phone_and_needs_no_mouse(browser: Any, site: Path, page: str) -> None:
    html = site / f"{page}.html"
    scripts = [html.with_suffix(".js"), html.with_name("section.js")] if re.match(r"\d\d-", html.name) else []
    scripts += [site / "machines.js"] * (html.parent != site)
    show(browser, html, NARROW)
    urls: list[str] = []

    def all_requested() -> bool:  # the log may arrive after the page
        urls.extend(requested(browser))
        return len(urls) > len(scripts)

    until(all_requested)
    assert urls == [path.as_uri() for path in (html, *scripts)]
    assert browser.get_log("browser") == []
    assert ask(browser, "window.pwned") is None
    assert ask(browser, "document.scripts.length") == 1 + len(scripts)
    assert ask(browser, WIDTH) <= NARROW[0]
    for size in (NARROW, WIDE):
        resize(browser, size)
        assert ask(browser, UNREACHABLE) == [] and ask(browser, UNSCROLLABLE) == []
    assert ask(browser, "getComputedStyle(document.querySelector('.bar')).position") == "sticky"  # the style applies
    browser.execute_script(INJECTED)
    assert ask(browser, "window.pwned") is None
    assert "Content Security Policy" in browser.get_log("browser")[0]["message"].replace("-", " ")
    assert ask(browser, f"{OFFERED}.some(part => part.id === 'theme')")
    with without_scripts(browser):
        show(browser, html)
        assert ask(browser, f"{OFFERED}.filter(part => !({UNFOLDS})).map(part => part.outerHTML)") == []
        drawings = "[...document.querySelectorAll('main figure .wide svg')].filter(it => it.checkVisibility())"
        assert all(ask(browser, f"{drawings}.map(it => it.children.length > 0 && it.clientWidth > 100)"))


def test_a_section_is_read_with_mouse_and_keyboard(browser: Any, site: Path) -> None:
    page = site / "golden" / "01-computing.html"
    play(browser, page)
    code, beside = note_beside_code(browser)
    assert beside["left"] >= code["right"] - 1 and abs(beside["top"] - code["top"]) < 1
    row = ask(browser, "document.querySelector('.row:has(.value)').id")
    facts = "document.querySelector('details.value .facts').checkVisibility()"
    assert not ask(browser, facts)
    browser.find_element("css selector", "details.value > summary").send_keys("\n")
    assert ask(browser, facts)
    browser.execute_script("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    browser.find_elements("css selector", ".listing .copy")[-1].send_keys(ENTER)
    until(lambda: ask(browser, "window.copied") is not None)
    copied = ask(browser, "window.copied").splitlines()
    assert "assert work.flops == 2 * 256**3" in copied and not [line for line in copied if "33,554,432" in line]
    assert ask(browser, "document.querySelector('body > p[role=status]:not([id])').textContent").startswith("Copied ")
    assert ask(browser, "document.getElementById('panel').hidden")  # a click on the button does not select the line

    browser.execute_script(f"document.querySelector('#{row} code').dispatchEvent(new PointerEvent('pointerover', "
                           "{bubbles: true}))")  # fmt: skip
    number = browser.find_element("css selector", f"#{row} a.n")
    assert number.get_attribute("href").endswith(f"01-computing.html#{row}")
    assert number.accessible_name == f"Line {row[1:]}"
    drag(browser, browser.find_element("css selector", f"#{row} code"), 0, 30)
    assert ask(browser, f"getComputedStyle(document.querySelector('#{row} .beside')).userSelect") == "none"
    inner = ask(browser, "document.querySelector('details.called .row').id")
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = false)")
    browser.execute_script(f"location.hash = '#{inner}'")
    until(lambda: ask(browser, f"document.querySelector('#{inner}:target').checkVisibility()"))

    show(browser, site / "golden" / "00-telling.html")
    assert ask(browser, "document.querySelector('.math math').getBoundingClientRect().height") >= 10
    assert ask(browser, "document.querySelector('math').namespaceURI").endswith("MathML")
    show(browser, site / "failing" / "01-second.html")
    browser.find_element("css selector", ".notice.failed a").click()
    assert browser.find_element("css selector", ".row:target + .under .failure").is_displayed()


def test_pages_follow_the_system_and_the_reader(browser: Any, site: Path) -> None:
    page = site / "golden" / "01-computing.html"
    ground = "getComputedStyle(document.body).backgroundColor"
    show(browser, page, scheme="dark")
    dark = ask(browser, ground)
    show(browser, page)
    light = ask(browser, ground)
    for expected in (dark, light):
        browser.find_element("id", "theme").click()
        assert ask(browser, ground) == expected != (light if expected == dark else dark)
    forget(browser)
    scroll = "getComputedStyle(document.documentElement).scrollBehavior"
    for wanted, behaviour in (("no-preference", "smooth"), ("reduce", "auto")):
        features = [{"name": "prefers-reduced-motion", "value": wanted}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
        assert ask(browser, scroll) == behaviour
    moving = "[...document.querySelectorAll('*')].filter(part => getComputedStyle(part).transitionDuration !== '0s')"
    assert ask(browser, f"{moving}.length") == 0
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_the_text_is_within_ten_tab_stops(browser: Any, site: Path) -> None:
    play(browser, site / "golden" / "01-computing.html")
    press(browser, TAB)
    assert ask(browser, "document.activeElement.textContent") == "Skip to the text"
    assert ask(browser, "document.activeElement.getBoundingClientRect().left") >= 0
    stops = 1
    while not ask(browser, "document.activeElement.closest('main') !== null"):
        browser.switch_to.active_element.send_keys(TAB)
        stops += 1
        assert stops <= 10
    contents, main = boxes(browser, ".contents, main", ordered=True)
    assert contents["left"] < main["left"]  # on the screen, the contents come first


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_text_stays_in_its_place_while_a_page_loads_slowly(browser: Any, site: Path, size: tuple[int, int]) -> None:
    sums = "list => { for (const { value } of list.getEntries()) window.shift = (window.shift ?? 0) + value }"
    observing = {"source": f"new PerformanceObserver({sums}).observe({{ type: 'layout-shift', buffered: true }})"}
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", observing)
    browser.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": 4})
    try:
        play(browser, site / "golden" / "01-computing.html", size=size)
        assert ask(browser, "window.shift ?? 0") < 0.05
    finally:
        browser.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": 1})
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_print_has_notes_in_the_margin_but_no_controls(browser: Any, site: Path) -> None:
    play(browser, site / "golden" / "01-computing.html", size=SHEET, scheme="dark")
    press(browser, "jj")
    with on_paper(browser):
        chrome = ".bar, .contents, .panel, .player, .copy, #search-open, .permalink, nav, dialog, #step-done"
        assert ask(browser, f"[...document.querySelectorAll('{chrome}')].every(part => !part.checkVisibility())")
        assert ask(browser, "getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert ask(browser, "getComputedStyle(document.querySelector('.row.current')).boxShadow") == "none"
        code, beside = note_beside_code(browser)
        assert beside["left"] >= code["right"] - 1
        parts = "[...document.querySelectorAll('.code > code, .beside, .under pre')]"
        cut = f"{parts}.filter(part => part.scrollWidth > part.clientWidth + 1)"
        assert ask(browser, f"{cut}.length") == 0  # no line of code ends at the edge of the sheet
    with on_paper(browser):
        folds = "[...document.querySelectorAll('details:is(.called, .deeper):not([open])')]"
        assert not ask(browser, f"{folds}.some(box => box.checkVisibility())")


def test_figures_and_notes_on_a_phone(browser: Any, site: Path) -> None:
    page = site / "golden" / "01-computing.html"
    show(browser, page, NARROW, at="#figures")  # the anchor opens the folded figures
    rows = "[...document.querySelectorAll('.bars li')].map(row => row.getBoundingClientRect())"
    until(lambda: bool(ask(browser, f"{rows}.some(row => row.width)")))
    assert {(row["left"], row["width"]) for row in ask(browser, rows)} == {(16, NARROW[0] - 32)}
    code, beside = note_beside_code(browser)
    assert beside["top"] >= code["bottom"] - 1 and beside["width"] > 300
    for size, width in ((WIDE, 640), (NARROW, 342)):  # each plot has a narrow and a wide drawing
        show(browser, site / "golden" / "00-telling.html", size)
        plots = [box for box in boxes(browser, "figure > :is(.wide, .narrow) svg") if box["width"]]
        assert [round(box["width"]) for box in plots] == [width] and plots[0]["right"] <= size[0]


@pytest.mark.slow
@pytest.mark.parametrize("at", ["row", "figure"])
def test_an_address_scrolls_to_the_same_place_on_loading(browser: Any, site: Path, at: str) -> None:
    page = site / "golden" / "01-computing.html"
    show(browser, page)
    anchor = ask(browser, f"[...document.querySelectorAll('main > .listing .{at}[id], main {at}[id]')].at(-1).id")
    show(browser, page, (1280, 300), at=f"#{anchor}")
    browser.execute_async_script("setTimeout(arguments[0], 500)")
    top = f"document.getElementById('{anchor}').getBoundingClientRect().top"
    landed = ask(browser, top)
    browser.execute_script(
        "document.documentElement.className = 'settled'; scrollTo({ top: 0, behavior: 'instant' }); location.hash = ''"
    )
    browser.execute_script(f"location.hash = '#{anchor}'")
    until(lambda: landed == pytest.approx(ask(browser, top), abs=2))


# --- notes beside lines ---

CUT = """[...document.querySelectorAll('.beside')].filter(box => {
    const last = Math.max(...[...box.querySelectorAll(':scope > .o')].map(one => one.getBoundingClientRect().bottom));
    return last > box.getBoundingClientRect().bottom + 1 }).length"""
ROW = "[...document.querySelectorAll('.row')].find(row => row.innerText.includes(arguments[0]))"
OVER = "arguments[0].dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"
LIT = "[...document.querySelectorAll('.lit')].map(one => one.textContent.trim())"


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_notes_are_readable_and_claims_take_no_line(browser: Any, site: Path, size: tuple[int, int]) -> None:
    show(browser, site / "notes" / "00-f.html", size)
    assert ask(browser, CUT) == 0
    lines = f"Math.round(({ROW}).querySelector('.beside').getBoundingClientRect().height / 24)"
    assert ask(browser, lines, "assert total < 1") == 1  # both values and the sign share a line
    last = "[...document.querySelectorAll('.row')].at(-1)"
    assert ask(browser, f"{last}.offsetHeight === {last}.querySelector('.code').offsetHeight")
    wrapped = f"parseFloat(getComputedStyle(({ROW}).querySelector('code')).textIndent)"
    assert ask(browser, wrapped, "previous_total") < -16
    wide = f"({ROW}).querySelector('.code').offsetWidth === document.querySelector('.listing').clientWidth"
    assert ask(browser, wide, "for step in")  # a line without notes also uses the margin
    if size == WIDE:
        with on_paper(browser):
            assert ask(browser, CUT) == 0
        with without_scripts(browser):
            show(browser, site / "notes" / "00-f.html")
            assert ask(browser, CUT) == 0


def test_elements_are_shown_and_highlight_those_of_the_same_storage(browser: Any, site: Path) -> None:
    """torch gives the expected cells: each number is in one place of the storage, and at most once in each view."""
    show(browser, site / "notes" / "00-f.html")
    cells = "[...one.rows].map(row => [...row.cells].map(cell => cell.textContent))"
    grids = f"[...document.querySelectorAll('.grid')].filter(one => one.checkVisibility()).map(one => {cells})"
    [frame] = ask(browser, grids)  # the only value of its line, and small
    browser.execute_script("document.querySelectorAll('details.grids').forEach(it => { it.open = true; })")
    matrix, *_ = ask(browser, grids)
    assert matrix == [["0.", "1.", "2."], ["3.", "4.", "5."]]
    rows = [[str(n), x, x] for n, x in enumerate(["0.50", "1.25", "2.00"])]
    assert frame == [["", "height", "width"], ["", "f64", "f64"], *rows]
    x = torch.arange(6.0).view(2, 3)
    shown = ask(browser, "[...document.querySelectorAll('.gridbox td')].slice(0, 6)")
    for cell, number in zip(shown, x.flatten().tolist(), strict=True):
        browser.execute_script(OVER, cell)
        assert ask(browser, LIT) == [f"{number:.0f}."] * (2 + int((x[:, 1:] == number).any()))
    browser.execute_script(OVER, browser.find_element("css selector", "h1"))
    assert ask(browser, LIT) == []
    labels = ask(browser, "[...document.querySelectorAll('.storage')]")
    browser.execute_script(OVER, labels[0])
    assert len(labels) == 3 and ask(browser, LIT) == [labels[0].text.strip()] * 3
    marks = "document.querySelectorAll('.drawn a[href*=\"#L\"]')"
    mark = ask(browser, f"[...{marks}].find(mark => mark.textContent.includes('x2 = 2'))")
    browser.execute_script(OVER, mark)
    assert ask(browser, "[...document.querySelectorAll('.lit code')].map(it => it.textContent)") == ["x2 = 2"]
    browser.execute_script(OVER, browser.find_element("css selector", ".row.lit"))
    assert any("x2 = 2" in text for text in ask(browser, LIT))
    browser.execute_script("document.querySelectorAll('details.value').forEach(it => { it.open = true; })")


# --- numbers that varied ---

TIPS = "[...document.querySelectorAll('[role=tooltip]')].filter(tip => tip.checkVisibility())"


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, (1251, 800), (1000, 800), NARROW])
def test_ranges_of_focused_numbers_fit_the_window(browser: Any, site: Path, size: tuple[int, int]) -> None:
    show(browser, site / "varied" / "00-f.html", size)
    assert ask(browser, f"{TIPS}.length") == 0
    numbers = ask(browser, "[...document.querySelectorAll('.varied')]")
    assert len(numbers) == len(VARIED_NUMBERS) + 3
    for number in numbers:
        browser.execute_script("arguments[0].focus()", number)
        [box] = ask(browser, f"{TIPS}.map(tip => tip.getBoundingClientRect().toJSON())")
        assert box["left"] >= 0 and box["right"] <= size[0] and box["top"] >= 0 and box["bottom"] <= size[1]
        assert ask(browser, WIDTH) <= size[0]
        middle = (box["left"] + box["right"]) / 2, (box["top"] + box["bottom"]) / 2
        assert ask(browser, f"document.elementFromPoint(...arguments) === {TIPS}[0]", *middle)
    press(browser, ESCAPE)
    assert ask(browser, f"{TIPS}.length") == 0


def test_mouse_and_touch_show_the_range_without_scripts(browser: Any, site: Path) -> None:
    with without_scripts(browser):
        show(browser, site / "varied" / "00-f.html")
        number = browser.find_element("css selector", ".prose .varied")
        point = {"x": number.rect["x"] + 2, "y": number.rect["y"] + 5}
        tip = browser.find_element("css selector", ".prose [role=tooltip]")
        for where, shown in ((None, False), (point, True), ({"x": 1, "y": 1}, False)):
            if where:
                browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", **where})
            assert tip.is_displayed() is shown
        for kind, touches in (("touchStart", [point]), ("touchEnd", [])):
            browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
        assert tip.is_displayed() and tip.text == "1.5 … 9.7 in 3 warm runs; first runs: 88"


# --- the first page, and the single file ---


def test_the_first_page_leads_back_and_shows_summaries(browser: Any, tmp_path: Path) -> None:
    render_site([SiteTrace(first_page().trace(), "cpu")], tmp_path)
    index, section = tmp_path / "index.html", tmp_path / "cpu" / "01-measuring.html"
    again, summary = "document.getElementById('again')", "document.querySelector('.toc div.words').checkVisibility()"
    show(browser, index)
    forget(browser)
    for opened in (index, section, index):  # a section opened without scrolling was not read
        show(browser, opened)
    assert ask(browser, f"{again}.hidden")
    show(browser, section, (1280, 240))
    browser.execute_async_script("""const done = arguments[0];
        requestAnimationFrame(() => requestAnimationFrame(() => {
            addEventListener("scroll", () => requestAnimationFrame(done), { once: true });
            scrollTo({ top: 120, behavior: "instant" });
        }))""")
    show(browser, index, (390, 400))
    assert ask(browser, f"{again}.getAttribute('href')") == "cpu/01-measuring.html"
    assert ask(browser, f"{again}.textContent") == "Continue with 1 Measuring" and not ask(browser, summary)
    browser.execute_script("document.querySelector('.paths a:last-child').click()")
    until(lambda: ask(browser, summary))


def test_a_single_file_has_working_links_questions_and_calculators(browser: Any, site: Path) -> None:
    show(browser, site / "whole.html")
    link = "document.querySelector(\"[id='00-first'] a[href='#1--same-heading']\")"
    browser.execute_script(f"{link}.click()")
    until(lambda: abs(boxes(browser, "[id='1--same-heading']")[0]["top"] - 64) < 40)
    current_entry = "[...document.querySelectorAll('.contents [aria-current]')].map((it) => it.getAttribute('href'))"
    until(lambda: ask(browser, current_entry) == ["#01-second"])
    visible = "[...document.querySelectorAll('.contents ul a')].filter((it) => it.checkVisibility())"
    assert ask(browser, f"{visible}.map((it) => it.hash)") == ["#1--same-heading"]
    for number in range(2):  # both sections have the same questions and figures, which are judged separately
        question = f"document.querySelectorAll('.ask')[{2 * number}]"
        answer = f"{question}.querySelector('input').value = '4 MB'; {question}.querySelector('button').click()"
        browser.execute_script(answer)
        assert ask(browser, f"{question}.classList.contains('right')")
        browser.execute_script(f"document.querySelectorAll('.ask')[{2 * number + 1}].querySelector('input').click()")
        figure = f"document.querySelectorAll('.explore')[{2 * number}]"
        before = ask(browser, f"{figure}.querySelector('.answer').textContent")
        change = f"const field = {figure}.querySelector('[id$=-gpus]'); field.value = '2';"
        browser.execute_script(f"{change} field.dispatchEvent(new Event('input'))")
        assert ask(browser, f"{figure}.querySelector('.answer').textContent") != before
    assert ask(browser, "[...document.querySelectorAll('.ask [type=radio]')].filter((it) => it.checked).length") == 2
    folded_id = ask(browser, "document.querySelector('.called').id")
    show(browser, site / "whole.html", at=f"#{folded_id}")
    assert ask(browser, "document.querySelector('.called').open")
    forget(browser)
