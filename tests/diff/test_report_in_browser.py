"""The reports as a browser shows them: filters, jumping, links, nothing loaded, nothing too wide."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.diff.report_cases import between, hostile, html_of, planted, recorded
from tests.pages.browsing import ask, press, until
from tests.pretend_gpu import pretend_gpu
from trace_tools.diff.compare import compare
from trace_tools.diff.difference import Side
from trace_tools.diff.report import difference_report
from trace_tools.diff.report.comparison_report import report_of
from trace_tools.diff.report.folder import write_reports
from trace_tools.diff.report.report import html
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Machine

PAGES = ("planted", "gpu", "hostile", "compare")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reports")
    cpu = recorded()
    other = replace(cpu, machine=Machine("Another processor", "other", "cpu"))
    comparison = compare([Side("a", cpu), Side("b", other)])
    texts = {
        "planted": html_of(planted()),
        "gpu": html_of(between(cpu, pretend_gpu(cpu))),
        "hostile": html_of(hostile()),
        "compare": html(report_of(comparison, "html")),
    }
    for name, text in texts.items():
        (out / f"{name}.html").write_text(text, encoding="utf-8")
    return out


def show(browser: Any, page: Path, width: int = 1280, scheme: str = "light") -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    still = {"name": "prefers-reduced-motion", "value": "reduce"}  # no smooth scrolling under a click
    features = [{"name": "prefers-color-scheme", "value": scheme}, still]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(page.as_uri())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_only_its_script_without_messages(browser: Any, pages: Path, page: str) -> None:
    show(browser, pages / f"{page}.html")
    assert browser.get_log("browser") == []
    assert ask(browser, "window.pwned") is None
    loaded = ask(browser, "performance.getEntriesByType('resource').map(r => r.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []
    assert ask(browser, "document.querySelectorAll('h1').length") == 1


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [1280, 390])
def test_a_page_is_no_wider_than_its_window(browser: Any, pages: Path, page: str, width: int) -> None:
    show(browser, pages / f"{page}.html", width)
    assert ask(browser, "document.documentElement.scrollWidth") <= width


def test_n_and_p_move_between_differences(browser: Any, pages: Path) -> None:
    show(browser, pages / "planted.html")
    mattering = ask(browser, "[...document.querySelectorAll('.execution:has(.obs.l2)')].map(e => e.id)")
    assert len(mattering) == 4
    seen = []
    for _ in range(5):
        press(browser, "n")
        seen.append(ask(browser, "document.querySelector('.execution.current').id"))
    assert seen == [*mattering, mattering[0]]
    press(browser, "p")
    assert ask(browser, "document.querySelector('.execution.current').id") == mattering[-1]
    box = ask(browser, "document.querySelector('.execution.current').getBoundingClientRect().toJSON()")
    assert 0 < box["top"] < 900
    assert ask(browser, "location.hash") == f"#{mattering[-1]}"
    assert browser.find_element("css selector", ".filters output").text == "4 of 4"


def test_filters_select_rows(browser: Any, pages: Path) -> None:
    show(browser, pages / "planted.html")
    shown = (
        "[...document.querySelectorAll('.obs')].filter(o => o.checkVisibility())"
        ".map(o => o.dataset.aspect + o.dataset.level)"
    )
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    everything = ask(browser, shown)
    assert any(it.endswith("0") for it in everything)
    browser.find_element("css selector", "[name=least][value='2']").click()
    assert sorted(set(ask(browser, shown))) == ["claims2", "memory2", "values2"]
    browser.find_element("css selector", "[name=aspect][value=values]").click()
    assert sorted(set(ask(browser, shown))) == ["claims2", "memory2"]
    press(browser, "n")
    assert ask(browser, "document.querySelector('.execution.current .obs:not([data-off]) .badge').checkVisibility()")
    browser.find_element("css selector", "[name=aspect][value=values]").click()
    browser.find_element("css selector", "[name=least][value='0']").click()
    assert ask(browser, shown) == everything


def test_links_show_their_row_despite_filters(browser: Any, pages: Path) -> None:
    show(browser, pages / "planted.html")
    browser.execute_script("document.querySelector('#along').open = true")
    browser.find_element("css selector", "[name=aspect][value=claims]").click()
    link = browser.find_element("css selector", ".leads a")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", link)  # not under the bar
    link.click()
    row = ask(browser, "document.querySelector(location.hash)")
    assert row.is_displayed() and "claim flipped" in row.text


def test_links_of_the_summary_open_folds(browser: Any, pages: Path) -> None:
    show(browser, pages / "compare.html")
    assert ask(browser, "[...document.querySelectorAll('details.whole')].every(d => !d.open)")
    said = ask(browser, "[...document.querySelectorAll('#words + ul li')].map(li => li.querySelector('a').hash)")
    assert "#machines" in said
    for at in range(len(said)):
        browser.execute_script(f"document.querySelectorAll('#words + ul a')[{at}].click()")
        assert ask(browser, "document.getElementById(location.hash.slice(1)).checkVisibility()")
        inside = "document.getElementById(location.hash.slice(1)).closest('details')"
        assert ask(browser, f"!{inside} || {inside}.open")


def test_rows_are_found_in_all_tables_and_the_query_is_in_the_address(browser: Any, pages: Path) -> None:
    show(browser, pages / "compare.html")
    rows = "[...document.querySelectorAll('main table:is(.index, .side) tbody tr')]"
    every = ask(browser, f"{rows}.map(row => row.textContent)")
    word = sorted(every[-1].split(), key=len)[-1].lower()
    box = browser.find_element("css selector", ".finder input")
    box.send_keys(word)

    def found() -> list[str]:
        return ask(browser, f"{rows}.filter(row => row.checkVisibility()).map(row => row.textContent)")  # type: ignore[no-any-return]

    shown = found()
    assert shown == [text for text in every if word in text.lower()] and len(shown) > 0
    assert browser.find_element("css selector", ".finder output").text == f"{len(shown)} of {len(every)}"
    browser.refresh()
    assert "rows=" in browser.current_url and found() == shown
    box = browser.find_element("css selector", ".finder input")
    box.clear()
    box.send_keys("x\b")  # as a reader empties it
    assert ask(browser, f"{rows}.every(row => !row.hidden)") and "rows=" not in browser.current_url


def test_a_small_page_has_the_lines_of_a_large_one(browser: Any, tmp_path: Path) -> None:
    report = difference_report.report_of(planted(), "html")
    texts = {"large": html(report), "small": html(report, small=True)}
    says = "[...document.querySelectorAll('.execution')].map(it => it.textContent.trim())"
    for name, text in texts.items():
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    show(browser, tmp_path / "large.html")
    lines = ask(browser, says)
    show(browser, tmp_path / "small.html")
    until(lambda: bool(ask(browser, f"{says}.length")))
    assert ask(browser, says) == lines
    press(browser, "n")
    assert ask(browser, "document.querySelector('.execution.current .obs.l2') !== null")


def test_both_sides_are_side_by_side_or_below_the_code(browser: Any, pages: Path) -> None:
    box = "document.querySelector('{}').getBoundingClientRect().toJSON()"
    line, side = ".place.l2 .code", ".place.l2 .sides"
    show(browser, pages / "planted.html")
    browser.execute_script("document.querySelector('#along').open = true")
    code, sides = ask(browser, box.format(line)), ask(browser, box.format(side))
    assert sides["left"] >= code["right"] - 1
    a, b = (ask(browser, box.format(f".obs.l2 .side.{letter}")) for letter in "ab")
    assert b["left"] >= a["right"] and abs(a["top"] - b["top"]) < 1
    show(browser, pages / "planted.html", 390)
    browser.execute_script("document.querySelector('#along').open = true")
    code, sides = ask(browser, box.format(line)), ask(browser, box.format(side))
    assert sides["top"] >= code["bottom"] - 1


def test_figures_follow_the_dark_scheme(browser: Any, pages: Path) -> None:
    colour = "getComputedStyle(document.querySelector('figure svg text')).fill"
    show(browser, pages / "gpu.html")
    light = ask(browser, colour)
    show(browser, pages / "gpu.html", scheme="dark")
    assert ask(browser, colour) != light
    assert ask(browser, "document.querySelectorAll('figure svg').length") == 3


def test_printed_reports_have_no_filters(browser: Any, pages: Path) -> None:
    show(browser, pages / "planted.html", 720)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not browser.find_element("css selector", ".filters").is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize(("report", "words"), [("cpu-to-other", "total = 7"), ("index", "timing total")])
def test_a_report_in_a_site_searches_rows_and_pages(browser: Any, tmp_path: Path, report: str, words: str) -> None:
    cpu = recorded()
    other = replace(cpu, machine=Machine("Another processor", "other", "cpu"))
    render_site([SiteTrace(cpu, "cpu")], tmp_path)
    write_reports(
        tmp_path / "diff", compare([Side("cpu/trace.yaml", cpu, label="cpu"), Side("b", other)]), "../index.html"
    )
    show(browser, tmp_path / "diff" / f"{report}.html")
    browser.implicitly_wait(5)
    press(browser, "/")
    browser.find_element("id", "search-for").send_keys(words)
    browser.find_element("css selector", "#search-found a .kind")
    browser.implicitly_wait(0)
    links = ask(browser, "[...document.querySelectorAll('#search-found a')].map(link => link.getAttribute('href'))")
    pages = [link for link in links if link.startswith("../cpu/")]
    rows = [link for link in links if link.startswith("#")]
    assert rows and pages and len(rows) + len(pages) == len(links)
    assert all((tmp_path / "diff" / link.partition("#")[0]).is_file() for link in pages)
    browser.find_element("css selector", f"#search-found a[href='{rows[0]}']").click()
    assert ask(browser, "document.activeElement.id") == rows[0][1:]
    assert ask(browser, "document.activeElement.checkVisibility()")
    assert browser.get_log("browser") == []


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("many") / "diff"
    cpu = recorded()
    sides = [Side(f"m{n}", replace(cpu, machine=Machine(f"A processor {n}", f"m{n}", "cpu"))) for n in range(10)]
    write_reports(out, compare(sides), None)
    return out / "index.html"


HEADS = (
    "[...document.querySelector('table.side').querySelectorAll('thead th')].slice(1)"
    ".filter(e => e.checkVisibility()).map(e => e.textContent.split(' ')[0])"
)


@pytest.mark.slow
def test_machines_are_chosen_by_keyboard_and_kept_in_the_address(browser: Any, many: Path) -> None:
    show(browser, many)
    assert len(ask(browser, HEADS)) == 10
    for n in range(2, 10):
        browser.execute_script("document.querySelectorAll('.chooser input')[arguments[0]].focus()", n)
        browser.switch_to.active_element.send_keys(" ")
    assert ask(browser, HEADS) == ["m0", "m1"]
    rows = ask(browser, "[...document.querySelectorAll('[data-of=machines] tbody tr')].map(e => e.checkVisibility())")
    assert rows == [True, True] + [False] * 8
    address = browser.current_url
    assert address.startswith(many.as_uri()) and address.endswith("?machines=m0,m1")
    browser.get("about:blank")
    browser.get(f"{address}#sections")
    assert ask(browser, HEADS) == ["m0", "m1"]
    assert ask(browser, "document.querySelector('.chooser output').textContent").startswith("2 of 10")
    browser.find_element("css selector", ".chooser button").send_keys(" ")
    assert len(ask(browser, HEADS)) == 10 and "machines=" not in browser.current_url
    assert browser.get_log("browser") == []


def test_one_machine_always_stays_and_unknown_ones_are_skipped(browser: Any, many: Path) -> None:
    browser.get(f"{many.as_uri()}?machines=m3,nobody")
    assert ask(browser, HEADS) == ["m3"]
    browser.find_element("css selector", ".chooser input[value=m3]").click()
    assert ask(browser, HEADS) == ["m3"]


@pytest.mark.parametrize("width", [1280, 390])
def test_ten_machines_fit_a_window_and_two_need_no_chooser(browser: Any, many: Path, pages: Path, width: int) -> None:
    show(browser, many, width)
    assert ask(browser, "document.documentElement.scrollWidth") <= width
    show(browser, pages / "compare.html", width)
    assert ask(browser, "document.querySelector('.chooser')") is None


def test_printed_wide_tables_are_whole_below_their_heading(browser: Any, many: Path) -> None:
    pypdf = pytest.importorskip("pypdf", reason="it reads PDFs")
    show(browser, many)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"]
    sheets = pypdf.PdfReader(io.BytesIO(base64.b64decode(printed))).pages
    [wide] = [sheet for sheet in sheets if sheet.mediabox.width > sheet.mediabox.height]
    assert {"Sections", "m0", "m9"} <= set(wide.extract_text().split())
