"""Reports in a browser: links, search, no network access, page width."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.diff.report_cases import between, hostile, html_of, planted, recorded
from tests.pages.browsing import ask, press
from tests.pretend_gpu import pretend_gpu
from trace_tools.diff.compare import compare
from trace_tools.diff.difference import Side
from trace_tools.diff.report.comparison_report import report_of
from trace_tools.diff.report.folder import write_reports
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.presentation.report import html
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
    still = {"name": "prefers-reduced-motion", "value": "reduce"}  # smooth scrolling would move the targets of clicks
    features = [{"name": "prefers-color-scheme", "value": scheme}, still]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(page.as_uri())


@pytest.mark.parametrize("page", PAGES)
def test_page_loads_nothing_and_logs_no_errors(browser: Any, pages: Path, page: str) -> None:
    show(browser, pages / f"{page}.html")
    assert browser.get_log("browser") == []
    assert ask(browser, "window.pwned") is None
    loaded = ask(browser, "performance.getEntriesByType('resource').map(r => r.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []
    assert ask(browser, "document.querySelectorAll('h1').length") == 1


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [1280, 390])
def test_page_is_no_wider_than_its_window(browser: Any, pages: Path, page: str, width: int) -> None:
    show(browser, pages / f"{page}.html", width)
    assert ask(browser, "document.documentElement.scrollWidth") <= width


def test_position_of_a_difference_is_one_line_on_a_phone(browser: Any, pages: Path) -> None:
    show(browser, pages / "planted.html", 390)
    heights = ask(
        browser, "[...document.querySelectorAll('.leads th > span')].map(s => s.getBoundingClientRect().height)"
    )
    assert heights and max(heights) < 30


def test_figures_follow_the_dark_scheme(browser: Any, pages: Path) -> None:
    colour = "getComputedStyle(document.querySelector('figure svg text')).fill"
    show(browser, pages / "gpu.html")
    light = ask(browser, colour)
    show(browser, pages / "gpu.html", scheme="dark")
    assert ask(browser, colour) != light
    assert ask(browser, "document.querySelectorAll('figure svg').length") == 1


@pytest.mark.parametrize(("report", "words"), [("cpu-to-other", "make"), ("index", "make")])
def test_report_in_a_site_searches_rows_and_pages(browser: Any, tmp_path: Path, report: str, words: str) -> None:
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
    page_links = [link for link in links if link.startswith("../cpu/")]
    row_links = [link for link in links if link.startswith("#")]
    assert row_links and page_links and len(row_links) + len(page_links) == len(links)
    assert all((tmp_path / "diff" / link.partition("#")[0]).is_file() for link in page_links)
    browser.find_element("css selector", f"#search-found a[href='{row_links[0]}']").click()
    assert ask(browser, "document.activeElement.id") == row_links[0][1:]
    assert ask(browser, "document.activeElement.checkVisibility()")
    assert browser.get_log("browser") == []


@pytest.fixture(scope="module")
def ten_machines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("many") / "diff"
    cpu = recorded()
    sides = [Side(f"m{n}", replace(cpu, machine=Machine(f"A processor {n}", f"m{n}", "cpu"))) for n in range(10)]
    write_reports(out, compare(sides), None)
    return out / "index.html"


@pytest.mark.parametrize("width", [1280, 390])
def test_ten_machines_fit_a_window(browser: Any, ten_machines: Path, width: int) -> None:
    show(browser, ten_machines, width)
    assert ask(browser, "document.documentElement.scrollWidth") <= width
