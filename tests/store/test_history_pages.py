"""Pages of histories: their text, and their layout in a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, ask, show
from tests.store.dated_traces import LONGER, trace_of_day, write_trace
from trace_tools.store.history import MADE_HERE, TOO_FEW, Change, find, histories, history_files, history_of, report_of
from trace_tools.store.store import Store
from trace_tools.trace.model import Machine
from trace_tools.util.files import update_folder


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the pages of two statements with 28 runs on each of two machines; b is slower from day 21 on."""
    folder = tmp_path_factory.mktemp("histories")
    with Store.create(folder / "store") as store:
        for day in range(1, 29):
            for machine, us in (("a", 200), ("b<script>", 400 if day > 20 else 300)):
                trace = trace_of_day(day, us, machine="b" if "<" in machine else machine, text=LONGER)
                trace = replace(trace, machine=Machine(machine, trace.machine.slug, "cpu"))
                store.add(write_trace(trace, folder))
        all_histories = histories(store)
    update_folder(folder / "pages", history_files(all_histories), MADE_HERE)
    return folder / "pages"


def test_all_statements_have_pages_linked_from_the_list(pages: Path) -> None:
    text = (pages / "index.html").read_text()
    links = re.findall(r'<a href="(\d[^"]+)"', text)
    assert sorted(links) == sorted(path.name for path in pages.glob("[0-9]*.html")) and len(links) == 2
    assert all(MADE_HERE.fullmatch(path.name) for path in pages.glob("*.html"))
    assert "b: 1.33× slower from 2026-10-21" in text or "ruptures" in text  # the pages say if it is missing


def test_a_page_lists_all_runs_newest_first(pages: Path) -> None:
    text = next(pages.glob("*-y-*.html")).read_text()
    rows = re.findall(r'<th scope="row">(2026-10-\d\d) 12:00', text)
    assert len(rows) == 56 and rows == sorted(rows, reverse=True)


def test_changes_are_marked_in_the_figure_and_the_table(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        for day in range(1, 7):
            store.add(write_trace(trace_of_day(day, 200 if day < 4 else 400), tmp_path))
        history = history_of(store, find(store, "6"))
    changed = replace(history.series["a"], changes=(Change(3, 200_000, 400_000),))
    report = report_of(replace(history, series={"a": changed}, why_no_changes=""))
    text = str(report)
    assert "a: 2× slower from 2026-10-04" in text and "from here on 2× the time before" in text
    assert "changed here" in text


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_the_axis_of_a_few_runs_has_one_label_per_run(tmp_path: Path, runs: int) -> None:
    with Store.create(tmp_path / "store") as store:
        for day in range(1, runs + 1):
            store.add(write_trace(trace_of_day(day), tmp_path))
        text = str(report_of(history_of(store, find(store, "6"))))
    labels = re.findall(r">([\d.]+)</text>", text)
    assert labels == [str(run) for run in range(1, runs + 1)]
    assert TOO_FEW in text and "changed by 10%" not in text


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 900), NARROW])
def test_pages_fit_the_window_and_load_no_resources(
    browser: Any, pages: Path, size: tuple[int, int], scheme: str
) -> None:
    for page in pages.glob("*.html"):
        show(browser, page, size, scheme)
        assert ask(browser, "document.documentElement.scrollWidth") <= size[0]
        assert (
            ask(browser, "performance.getEntriesByType('resource').filter(r => !r.name.startsWith('data:')).length")
            == 0
        )
        assert browser.get_log("browser") == []
