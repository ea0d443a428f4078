"""Histories of statements: finding a statement, its times in all runs, and detecting planted changes."""

from __future__ import annotations

import math
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.dated_traces import LONGER, trace_of_day, write_trace
from trace_tools.errors import UsageError
from trace_tools.store.history import MISSING, TOO_FEW, changes_in, changes_text, find, histories, history_of
from trace_tools.store.store import Store

pytest.importorskip("ruptures", reason="ruptures is not installed")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store of runs on twelve days and two machines; the h100 is 1.5 times slower from the eighth day on.

    Both machines have another commit from that day on.
    """
    opened = Store.create(tmp_path / "store")
    for day in range(1, 13):
        is_late = day >= 8
        for machine, us in (("h100", 300 if is_late else 200), ("cpu", 900)):
            trace = trace_of_day(day, us + day % 3, machine=machine, commit="c2" if is_late else "c1", text=LONGER)
            opened.add(write_trace(trace, tmp_path))
    return opened


def test_a_statement_is_found_by_line_or_by_code(store: Store) -> None:
    by_line, by_code = find(store, "7"), find(store, "x @ w")
    assert by_line == by_code and (by_line.function, by_line.text) == ("first", "y = x @ w")
    assert find(store, "w = w + 1").line == 6


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("999", "newest version of lecture.py"),
        ("nowhere()", "newest version of lecture.py"),
        ("=", r"statements of lecture.py match \(lines "),
        ("1" * 300, "newest version"),
    ],
)
def test_an_ambiguous_or_unknown_statement_is_reported_in_one_line(store: Store, query: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        find(store, query)
    assert "\n" not in str(raised.value)


def test_lecture_must_be_named_in_a_store_of_several(store: Store, tmp_path: Path) -> None:
    trace = trace_of_day(1)
    store.add(write_trace(replace(trace, run=replace(trace.run, lecture="talk.py")), tmp_path))
    with pytest.raises(UsageError, match=r"lecture.py, talk.py"):
        find(store, "7")
    assert find(store, "6", lecture="talk.py").text == "y = x @ w"


def test_a_history_has_all_runs_of_a_machine_and_their_change(store: Store) -> None:
    history = history_of(store, find(store, "7"), machine="H100")
    assert list(history.series) == ["h100"]
    points = history.series["h100"].points
    assert [round(point.ns / 1_000) for point in points] == [
        (300 if day >= 8 else 200) + day % 3 for day in range(1, 13)
    ]
    [change] = history.series["h100"].changes
    assert (change.at, points[change.at].commit) == (7, "c2") and change.ratio == pytest.approx(1.5, rel=0.02)
    [sentence] = changes_text(history)
    assert sentence.startswith("h100: 1.5× slower from 2026-10-08") and "commit c2" in sentence
    assert not history_of(store, find(store, "7"), machine="cpu").series["cpu"].changes
    with pytest.raises(UsageError, match="no run on a machine with 'tpu' in its name timed it"):
        history_of(store, find(store, "7"), machine="tpu")


def test_only_timed_annotated_statements_have_histories(store: Store) -> None:
    assert [history.statement.text for history in histories(store)] == ["y = x @ w", "z = y + 1"]


@pytest.mark.parametrize(("runs", "reason"), [(5, TOO_FEW), (6, "")])
def test_changes_are_searched_in_six_runs_or_more(tmp_path: Path, runs: int, reason: str) -> None:
    with Store.create(tmp_path / "store") as opened:
        for day in range(1, runs + 1):
            opened.add(write_trace(trace_of_day(day, 200 if day < 3 else 400), tmp_path))
        history = history_of(opened, find(opened, "6"))
    assert history.why_no_changes == reason and len(history.series["a"].changes) == (runs == 6) * 1


def simulated_ns(n: int, noise: float, seed: int, *, factor: float = 1.0, at: int = 0) -> list[float]:
    """Return `n` times of 1 ms with log-normal noise, multiplied by `factor` from index `at` on."""
    generator = random.Random(seed)
    return [1e6 * math.exp(generator.gauss(0, noise)) * (factor if i >= at else 1) for i in range(n)]


@pytest.mark.parametrize(("n", "noise"), [(20, 0.05), (100, 0.02), (100, 0.1)])
def test_planted_changes_are_found_and_noise_is_not(n: int, noise: float) -> None:
    """Noise gives a change in at most 10 of 200 series; at least 180 of 200 changes by 1.3 are found within one run."""
    false_alarms = sum(bool(changes_in(simulated_ns(n, noise, seed))) for seed in range(200))
    assert false_alarms <= 10
    changes_by_seed = [changes_in(simulated_ns(n, noise, seed, factor=1.3, at=n // 2)) for seed in range(200)]
    assert sum(any(abs(change.at - n // 2) <= 1 for change in changes) for changes in changes_by_seed) >= 180


@pytest.mark.parametrize("times", [[], [1.0] * 5, [5.0] * 50, [0.0] * 10, [1e6, 1e-3] * 10])
def test_degenerate_series_are_judged_without_errors(times: list[float]) -> None:
    assert all(0 < change.at < len(times) for change in changes_in(times))


def test_changes_below_a_tenth_are_ignored() -> None:
    assert not changes_in(simulated_ns(60, 0.001, 1, factor=1.08, at=30))
    assert len(changes_in(simulated_ns(60, 0.001, 1, factor=1.12, at=30))) == 1


def test_a_history_without_ruptures_has_no_changes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruptures", None)
    history = history_of(store, find(store, "7"))
    assert history.why_no_changes == MISSING and "pip install" in MISSING
    assert [len(machine.points) for machine in history.series.values()] == [12, 12]
