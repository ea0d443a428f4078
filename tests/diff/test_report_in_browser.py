"""Reports in a browser: links, search, no network access, page width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.diff.report_cases import cpu_and_gpu, hostile, html_of, planted, recorded
from tests.pages.browsing import NARROW, WIDE, ask, press, show, until
from trace_tools.diff.compare import compare
from trace_tools.diff.difference import Side
from trace_tools.diff.report.comparison_report import write_reports
from trace_tools.pages.site import SiteTrace, render_site


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write reports, and a site with the pages of a lecture and the reports of two and of ten machines."""
    out = tmp_path_factory.mktemp("reports")
    for name, difference in {"planted": planted(), "gpu": cpu_and_gpu(), "hostile": hostile()}.items():
        (out / f"{name}.html").write_text(html_of(difference), encoding="utf-8")
    cpu = recorded()
    render_site([SiteTrace(cpu, "cpu")], out)
    sides = [Side("cpu/trace.yaml", cpu, label="cpu")]
    for n in range(1, 10):
        sides.append(Side(f"m{n}", recorded(name=f"A processor {n}", slug=f"m{n}")))
    write_reports(out / "two", compare(sides[:2]), "../index.html")
    write_reports(out / "ten", compare(sides), None)
    return out


@pytest.mark.parametrize("page", ["planted", "gpu", "hostile", "two/index", "ten/index"])
def test_page_loads_nothing_logs_no_errors_and_fits_its_window(browser: Any, pages: Path, page: str) -> None:
    for size in (WIDE, NARROW):
        show(browser, pages / f"{page}.html", size)
        assert ask(browser, "document.documentElement.scrollWidth") <= size[0]
    assert browser.get_log("browser") == [] and ask(browser, "window.pwned") is None
    assert ask(browser, "document.querySelectorAll('h1').length") == 1
    if "/" not in page:  # those of a site have its search
        loaded = ask(browser, "performance.getEntriesByType('resource').map(r => r.name)")
        assert [name for name in loaded if not name.startswith("data:")] == []


@pytest.mark.parametrize("report", ["cpu-to-m1", "index"])
def test_report_in_a_site_searches_rows_and_pages(browser: Any, pages: Path, report: str) -> None:
    show(browser, pages / "two" / f"{report}.html")
    press(browser, "/")
    browser.find_element("id", "search-for").send_keys("first")
    found = "[...document.querySelectorAll('#search-found a')].map(link => link.getAttribute('href'))"
    until(lambda: bool(ask(browser, "document.querySelector('#search-found a .kind')")))
    links = ask(browser, found)
    page_links = [link for link in links if link.startswith("../cpu/")]
    row_links = [link for link in links if link.startswith("#")]
    assert row_links and page_links and len(row_links) + len(page_links) == len(links)
    assert all((pages / "two" / link.partition("#")[0]).is_file() for link in page_links)
    browser.find_element("css selector", f"#search-found a[href='{row_links[0]}']").click()
    assert ask(browser, "document.activeElement.id") == row_links[0][1:]
    assert ask(browser, "document.activeElement.checkVisibility()")
    assert browser.get_log("browser") == []
