"""Histories: which statement is meant, what it took, and change points against planted ones."""

from __future__ import annotations

import math
import random
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, ask, show
from tests.store.kept import LONGER, ran, written
from trace_tools.errors import UsageError
from trace_tools.store.history import (
    MADE_HERE,
    MISSING,
    TOO_FEW,
    Change,
    changes_in,
    changes_text,
    find,
    histories,
    history_files,
    history_of,
    report_of,
)
from trace_tools.store.store import Store
from trace_tools.trace.model import Machine
from trace_tools.util.files import update_folder

pytest.importorskip("ruptures", reason="ruptures is not installed")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Twelve days on two machines; one of them is 1.5 times slower from the eighth on, with another commit."""
    opened = Store.create(tmp_path / "store")
    for day in range(1, 13):
        late = day >= 8
        for machine, us in (("h100", 300 if late else 200), ("cpu", 900)):
            trace = ran(day, us + day % 3, machine=machine, commit="c2" if late else "c1", text=LONGER)
            opened.add(written(trace, tmp_path))
    return opened


def test_a_statement_is_named_by_its_line_or_by_its_code(store: Store) -> None:
    by_line, by_code = find(store, "7"), find(store, "x @ w")
    assert by_line == by_code and (by_line.function, by_line.text) == ("first", "y = x @ w")
    assert find(store, "w = w + 1").line == 6


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("999", "newest version of lecture.py"),
        ("nowhere()", "newest version of lecture.py"),
        ("=", r"statements of lecture.py match \(lines "),
        ("1" * 300, "newest version"),
    ],
)
def test_what_names_none_or_several_is_one_line(store: Store, wanted: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        find(store, wanted)
    assert "\n" not in str(raised.value)


def test_of_several_lectures_one_has_to_be_named(store: Store, tmp_path: Path) -> None:
    other = ran(1)
    store.add(written(replace(other, run=replace(other.run, lecture="talk.py")), tmp_path))
    with pytest.raises(UsageError, match=r"lecture.py, talk.py"):
        find(store, "7")
    assert find(store, "6", lecture="talk.py").text == "y = x @ w"


def test_all_runs_of_one_kind_of_machine_are_there_with_their_change(store: Store) -> None:
    found = history_of(store, find(store, "7"), machine="H100")
    assert list(found.series) == ["h100"]
    points = found.series["h100"].points
    assert [round(point.ns / 1_000) for point in points] == [
        (300 if day >= 8 else 200) + day % 3 for day in range(1, 13)
    ]
    [change] = found.series["h100"].changes
    assert (change.at, points[change.at].commit) == (7, "c2") and change.ratio == pytest.approx(1.5, rel=0.02)
    [sentence] = changes_text(found)
    assert sentence.startswith("h100: 1.5× slower from 2026-10-08") and "commit c2" in sentence
    assert not history_of(store, find(store, "7"), machine="cpu").series["cpu"].changes
    with pytest.raises(UsageError, match="no run on a machine with 'tpu' in its name timed it"):
        history_of(store, find(store, "7"), machine="tpu")


def test_all_annotated_statements_that_were_timed_have_a_history(store: Store) -> None:
    assert [one.statement.text for one in histories(store)] == ["y = x @ w", "z = y + 1"]


@pytest.mark.parametrize(("runs", "said"), [(5, TOO_FEW), (6, "")])
def test_of_a_few_runs_it_is_not_said_that_nothing_changed(tmp_path: Path, runs: int, said: str) -> None:
    with Store.create(tmp_path / "store") as opened:
        for day in range(1, runs + 1):
            opened.add(written(ran(day, 200 if day < 3 else 400), tmp_path))
        found = history_of(opened, find(opened, "6"))
    assert found.why_no_changes == said and len(found.series["a"].changes) == (runs == 6) * 1


def series(n: int, noise: float, seed: int, *, factor: float = 1.0, at: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [1e6 * math.exp(draw.gauss(0, noise)) * (factor if i >= at else 1) for i in range(n)]


@pytest.mark.parametrize(("n", "noise"), [(20, 0.05), (100, 0.02), (100, 0.1)])
def test_noise_is_hardly_ever_a_change_and_a_planted_one_nearly_always(n: int, noise: float) -> None:
    spurious = sum(bool(changes_in(series(n, noise, seed))) for seed in range(200))
    assert spurious <= 10  # of 200
    planted = [changes_in(series(n, noise, seed, factor=1.3, at=n // 2)) for seed in range(200)]
    assert sum(any(abs(change.at - n // 2) <= 1 for change in found) for found in planted) >= 180


@pytest.mark.parametrize("times", [[], [1.0] * 5, [5.0] * 50, [0.0] * 10, [1e6, 1e-3] * 10])
def test_odd_series_have_an_answer(times: list[float]) -> None:
    assert all(0 < change.at < len(times) for change in changes_in(times))


def test_a_change_of_less_than_a_tenth_is_none() -> None:
    assert not changes_in(series(60, 0.001, 1, factor=1.08, at=30))
    assert len(changes_in(series(60, 0.001, 1, factor=1.12, at=30))) == 1


def test_without_ruptures_all_but_the_changes_is_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruptures", None)
    found = history_of(store, find(store, "7"))
    assert found.why_no_changes == MISSING and "pip install" in MISSING
    assert [len(one.points) for one in found.series.values()] == [12, 12]


# --- Pages of histories, read by a stock parser of HTML and shown by a browser --------------------


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("histories")
    with Store.create(folder / "store") as store:
        for day in range(1, 29):
            for machine, us in (("a", 200), ("b<script>", 400 if day > 20 else 300)):
                one = ran(day, us, machine="b" if "<" in machine else machine, text=LONGER)
                one = replace(one, machine=Machine(machine, one.machine.slug, "cpu"))
                store.add(written(one, folder))
        found = histories(store)
    update_folder(folder / "pages", history_files(found), MADE_HERE)
    return folder / "pages"


def test_each_statement_has_a_page_that_the_list_leads_to(pages: Path) -> None:
    text = (pages / "index.html").read_text()
    linked = re.findall(r'<a href="(\d[^"]+)"', text)
    assert sorted(linked) == sorted(path.name for path in pages.glob("[0-9]*.html")) and len(linked) == 2
    assert all(MADE_HERE.fullmatch(path.name) for path in pages.glob("*.html"))
    assert "b: 1.33× slower from 2026-10-21" in text or "ruptures" in text


def test_a_page_holds_every_run_the_newest_first(pages: Path) -> None:
    text = next(pages.glob("*-y-*.html")).read_text()
    rows = re.findall(r'<th scope="row">(2026-10-\d\d) 12:00', text)
    assert len(rows) == 56 and rows == sorted(rows, reverse=True)


def test_a_change_is_marked_in_the_figure_and_in_its_row(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        for day in range(1, 7):
            store.add(written(ran(day, 200 if day < 4 else 400), tmp_path))
        found = history_of(store, find(store, "6"))
    changed = replace(found.series["a"], changes=(Change(3, 200_000, 400_000),))
    report = report_of(replace(found, series={"a": changed}, why_no_changes=""))
    text = str(report)
    assert "a: 2× slower from 2026-10-04" in text and "from here on 2 of the time before" in text
    assert "changed here" in text


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_of_a_few_runs_the_figure_counts_whole_ones(tmp_path: Path, runs: int) -> None:
    with Store.create(tmp_path / "store") as store:
        for day in range(1, runs + 1):
            store.add(written(ran(day), tmp_path))
        text = str(report_of(history_of(store, find(store, "6"))))
    marks = re.findall(r">([\d.]+)</text>", text)
    assert marks == [str(run) for run in range(1, runs + 1)]
    assert TOO_FEW in text and "changed by 10%" not in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 900), NARROW])
def test_a_page_fits_its_window_and_loads_nothing(
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
