"""Pages in a browser: loaded files, layout, colours, print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, forget, show, until
from tests.pages.hostile import hostile_trace
from tests.pages.lectures import failing, lecture
from tests.pages.recording import Recording
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Claim, Note, Plot, Run, Series, Step, Tensor, Text, Value


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render a plain, a failing and a hostile lecture."""
    out = tmp_path_factory.mktemp("site")
    plain = lecture()
    narratives = [
        Text(text="# A heading\n\nMath: $\\frac{1}{2}$. " + "long" * 200),
        Note(text="N."),
    ]
    frame = next(event.frame for event in plain.events if isinstance(event, Step) and event.line == 20)
    plain.step(frame, "secret", narrative=narratives)
    run = Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ValueError at line 61")
    traces = [("plain", plain.trace()), ("failing", failing().trace(run=run)), ("hostile", hostile_trace())]
    render_site([SiteTrace(trace, name) for name, trace in traces], out)
    return out


PAGES = ["index", "plain/index", "plain/00-first", "failing/01-second", "hostile/index", "hostile/00-evil"]


@pytest.mark.parametrize("page", PAGES)
def test_pages_load_only_their_own_scripts(browser: Any, site: Path, page: str) -> None:
    html = site / f"{page}.html"
    scripts = [html.with_suffix(".js"), html.with_name("section.js")] if re.match(r"\d\d-", html.name) else []
    scripts += [site / "machines.js"] * (html.parent != site)
    show(browser, html)
    requested: list[str] = []

    def all_requested() -> bool:  # the log may arrive after the page
        messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
        urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        requested.extend(url for url in urls if not url.startswith("data:"))
        return len(requested) > len(scripts)

    until(all_requested)
    assert requested == [path.as_uri() for path in (html, *scripts)]
    assert browser.get_log("browser") == []
    assert ask(browser, "window.pwned") is None
    assert ask(browser, "document.scripts.length") == 1 + len(scripts)
    assert ask(browser, "getComputedStyle(document.querySelector('.bar')).position") == "sticky"  # the style applies


def test_injected_scripts_do_not_run(browser: Any, site: Path) -> None:
    show(browser, site / "plain" / "00-first.html")
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.pwned = 1'; document.body.append(s);"
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned = 1\">');"
    )
    assert ask(browser, "window.pwned") is None
    assert "Content Security Policy" in browser.get_log("browser")[0]["message"].replace("-", " ")


@pytest.mark.parametrize("page", PAGES)
def test_a_narrow_page_does_not_scroll_sideways(browser: Any, site: Path, page: str) -> None:
    show(browser, site / f"{page}.html", NARROW)
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]


def boxes(browser: Any, row: str) -> tuple[dict[str, float], dict[str, float]]:
    find = "const r = document.getElementById(arguments[0]);"
    script = (
        f"(() => {{ {find} return [r.children[0], r.children[1]].map(c => c.getBoundingClientRect().toJSON()) }})()"
    )
    code, beside = browser.execute_script(f"return {script.replace('arguments[0]', repr(row))}")
    return code, beside


def test_observations_are_beside_lines_or_below_when_narrow(browser: Any, site: Path) -> None:
    show(browser, site / "plain" / "00-first.html")
    row = ask(browser, "document.querySelector('.row:has(.value)').id")
    code, beside = boxes(browser, row)
    assert beside["left"] >= code["right"] - 1 and abs(beside["top"] - code["top"]) < 1
    show(browser, site / "plain" / "00-first.html", NARROW)
    code, beside = boxes(browser, row)
    assert beside["top"] >= code["bottom"] - 1 and beside["width"] > 300


def test_dark_mode_follows_the_system_and_the_button(browser: Any, site: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    show(browser, site / "plain" / "00-first.html", scheme="dark")
    dark = ask(browser, ground)
    show(browser, site / "plain" / "00-first.html")
    light = ask(browser, ground)
    assert light != dark
    browser.find_element("id", "theme").click()
    assert ask(browser, ground) == dark
    browser.find_element("id", "theme").click()
    assert ask(browser, ground) == light
    forget(browser)


def test_an_address_opens_the_folds_around_its_target(browser: Any, site: Path) -> None:
    show(browser, site / "plain" / "00-first.html")
    inner = ask(browser, "document.querySelector('details.called .row').id")
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = false)")
    browser.execute_script(f"location.hash = '#{inner}'")
    browser.implicitly_wait(1)
    assert browser.find_element("css selector", f"#{inner}:target").is_displayed()
    browser.implicitly_wait(0)


def test_details_of_a_value_open_from_the_keyboard(browser: Any, site: Path) -> None:
    show(browser, site / "plain" / "00-first.html")
    summary = browser.find_element("css selector", "details.value > summary")
    assert not browser.find_element("css selector", "details.value .facts").is_displayed()
    summary.send_keys("\n")
    assert browser.find_element("css selector", "details.value .facts").is_displayed()


def test_a_page_without_its_scripts_can_be_read(browser: Any, site: Path, tmp_path: Path) -> None:
    alone = tmp_path / "00-first.html"
    alone.write_bytes((site / "plain" / "00-first.html").read_bytes())
    show(browser, alone)
    assert ask(browser, "document.querySelector('.o.value').checkVisibility()")
    assert not ask(browser, "document.getElementById('player').checkVisibility()")
    assert {entry["message"].split()[-1] for entry in browser.get_log("browser")} == {"net::ERR_FILE_NOT_FOUND"}


def test_formulas_are_rendered_as_mathml(browser: Any, site: Path) -> None:
    show(browser, site / "plain" / "00-first.html")
    box = ask(browser, "document.querySelector('mfrac').getBoundingClientRect().toJSON()")
    assert box["height"] > 15 and ask(browser, "document.querySelector('mfrac').namespaceURI").endswith("MathML")


def test_a_failure_is_visible_and_linked(browser: Any, site: Path) -> None:
    show(browser, site / "failing" / "01-second.html")
    notice = browser.find_element("css selector", ".notice.failed")
    assert notice.is_displayed() and "ended in this section with ValueError" in notice.text
    notice.find_element("tag name", "a").click()
    assert browser.find_element("css selector", ".row:target + .under .failure").is_displayed()


def test_print_has_notes_in_the_margin_but_no_navigation(browser: Any, site: Path) -> None:
    show(browser, site / "plain" / "00-first.html", (720, 1000))  # about a sheet of A4
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    for selector in (".bar", ".contents"):
        assert not browser.find_element("css selector", selector).is_displayed()
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert ask(browser, "[...document.querySelectorAll('details.called')].every(d => d.open)")
    row = ask(browser, "document.querySelector('.row:has(.value)').id")
    code, beside = boxes(browser, row)
    assert beside["left"] >= code["right"] - 1  # notes stay in the margin on paper
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.slow
@pytest.mark.parametrize("at", ["row", "figure"])
def test_an_address_scrolls_to_the_same_place_on_loading(browser: Any, site: Path, at: str) -> None:
    page = site / "plain" / "00-first.html"
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


def test_figures_on_phones_keep_their_size_and_scroll(browser: Any, site: Path) -> None:
    show(browser, site / "plain" / "00-first.html", NARROW, at="#figures")  # the anchor opens the folded figures
    browser.execute_async_script("setTimeout(arguments[0], 500)")
    size = "parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a"
    sizes = ask(browser, f"[...document.querySelectorAll('.scroll > svg text')].map(text => {size})")
    assert sizes and min(sizes) >= 10.95  # pixels
    box = "document.querySelector('.drawn .scroll')"
    assert ask(browser, f"{box}.matches('.goes-on')")
    browser.execute_script(f"{box}.scrollLeft = 10000")
    browser.execute_async_script("setTimeout(arguments[0], 200)")
    assert not ask(browser, f"{box}.matches('.goes-on')")


def test_a_plot_fits_on_a_phone(browser: Any, tmp_path: Path) -> None:
    recording = Recording("from trace_tools import plot\ndef main():\n    f()\ndef f():\n    plot({})\n")
    series = [Series("a", [1, 2, 3], [1.0, 4.0, 9.0], "line"), Series("b", [1, 2, 3], [3.0, 2.0, 1.0], "line")]
    recording.step(
        recording.call(recording.frame("main"), "f()", "f"), "plot({", narrative=[Plot(title="Both", series=series)]
    )
    render_site([SiteTrace(recording.trace(), "cpu")], tmp_path)
    shown = "[...document.querySelectorAll('main figure svg')].filter(it => it.checkVisibility())"
    for size, width in ((WIDE, 640), (NARROW, 342)):
        show(browser, tmp_path / "cpu" / "00-f.html", size)
        boxes = ask(browser, f"{shown}.map(it => it.getBoundingClientRect().toJSON())")
        assert [round(box["width"]) for box in boxes] == [width] and boxes[0]["right"] <= size[0]


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_wide_drawings_beside_a_line_scroll(browser: Any, tmp_path: Path, size: tuple[int, int]) -> None:
    recording = Recording("def main():\n    part()\n\n\ndef part():\n    x = torch.arange(32)  # @inspect x\n")
    elements = [float(n) for n in range(32)]
    x = Tensor("float32", [4, 8], "cpu", 128, [8, 1], storage="A", storage_bytes=128, elements=elements)
    recording.step(recording.call(recording.frame("main"), "part()", "part"), "x = torch.arange(32)", annotated=True,
              values=[("x", Value("tensor", tensor=x))])  # fmt: skip
    render_site([SiteTrace(recording.trace(), "cells")], tmp_path)
    show(browser, next((tmp_path / "cells").glob("00-*.html")), size)
    browser.implicitly_wait(5)
    browser.find_element("css selector", "details.value > summary").click()
    box = browser.find_element("css selector", ".drawnbox.goes-on")
    browser.implicitly_wait(0)
    assert ask(browser, "arguments[0].scrollWidth > arguments[0].clientWidth", box)
    assert "gradient" in box.value_of_css_property("mask-image")
    browser.execute_script("arguments[0].scrollLeft = 10000", box)
    browser.execute_async_script("setTimeout(arguments[0], 200)")
    assert not ask(browser, "arguments[0].matches('.goes-on')", box)


NARROW_COLUMN = """\
def main():
    part()


def part():
    for step in range(3):
        total = previous_total * the_share_that_is_left + gradient_of_this_step + a_last_term_that_is_long * 2
    assert total < 1 and half == 2  # @inspect total half
    assert total
"""


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_held_claims_take_no_line_and_wrapped_code_is_indented(
    browser: Any, tmp_path: Path, size: tuple[int, int]
) -> None:
    recording = Recording(NARROW_COLUMN)
    part = recording.call(recording.frame("main"), "part()", "part")
    recording.step(part, "total =", values=[("total", Value("int", 0))])
    held = Claim("total < 1 and half == 2", True, [])
    recording.step(part, "assert total < 1", values=[("total", Value("int", 0)), ("half", Value("int", 2))], claim=held)
    recording.step(part, "assert total", claim=Claim("total", True, []))
    render_site([SiteTrace(recording.trace(), "cpu")], tmp_path)
    show(browser, tmp_path / "cpu" / "00-part.html", size)
    row = "[...document.querySelectorAll('.row')].find(row => row.innerText.includes(arguments[0]))"
    lines = f"Math.round(({row}).querySelector('.beside').getBoundingClientRect().height / 24)"
    assert ask(browser, lines, "half == 2") == 1  # both values and the sign share a line
    last = "[...document.querySelectorAll('.row')].at(-1)"
    assert ask(browser, f"{last}.offsetHeight === {last}.querySelector('.code').offsetHeight")
    code = f"({row}).querySelector('code')"
    starts = (  # the left edge of each line of code as it is wrapped
        "((code) => { const range = document.createRange(), found = new Map();"
        " const walk = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);"
        " while (walk.nextNode()) for (let at = 0; at < walk.currentNode.length; at++) {"
        "  if (walk.currentNode.data[at] === ' ') continue;"
        "  range.setStart(walk.currentNode, at); range.setEnd(walk.currentNode, at + 1);"
        "  const box = range.getBoundingClientRect(), line = Math.round(box.top / 24);"
        "  found.set(line, Math.min(found.get(line) ?? Infinity, box.left)); }"
        f" return [...found.values()]; }})({code})"
    )
    first, *rest = ask(browser, starts, "previous_total")
    assert rest and min(rest) > first + 16
    wide = f"({row}).querySelector('.code').offsetWidth === document.querySelector('.listing').clientWidth"
    assert ask(browser, wide, "for step in")  # a line without notes also uses the margin
