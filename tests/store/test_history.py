"""Histories of statements: the statement, its times, and change points compared with planted ones."""

from __future__ import annotations

import math
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.kept import LONGER, ran, written
from trace_tools.errors import UsageError
from trace_tools.store.history import MISSING, TOO_FEW, changes_in, changes_text, find, histories, history_of
from trace_tools.store.store import Store

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


def test_with_several_lectures_one_must_be_named(store: Store, tmp_path: Path) -> None:
    other = ran(1)
    store.add(written(replace(other, run=replace(other.run, lecture="talk.py")), tmp_path))
    with pytest.raises(UsageError, match=r"lecture.py, talk.py"):
        find(store, "7")
    assert find(store, "6", lecture="talk.py").text == "y = x @ w"


def test_a_history_has_the_runs_of_a_machine_and_their_change(store: Store) -> None:
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


def test_timed_annotated_statements_have_histories(store: Store) -> None:
    assert [history.statement.text for history in histories(store)] == ["y = x @ w", "z = y + 1"]


@pytest.mark.parametrize(("runs", "reason"), [(5, TOO_FEW), (6, "")])
def test_too_few_runs_are_not_judged(tmp_path: Path, runs: int, reason: str) -> None:
    with Store.create(tmp_path / "store") as opened:
        for day in range(1, runs + 1):
            opened.add(written(ran(day, 200 if day < 3 else 400), tmp_path))
        history = history_of(opened, find(opened, "6"))
    assert history.why_no_changes == reason and len(history.series["a"].changes) == (runs == 6) * 1


def series(n: int, noise: float, seed: int, *, factor: float = 1.0, at: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [1e6 * math.exp(draw.gauss(0, noise)) * (factor if i >= at else 1) for i in range(n)]


@pytest.mark.parametrize(("n", "noise"), [(20, 0.05), (100, 0.02), (100, 0.1)])
def test_planted_changes_are_found_and_noise_is_not(n: int, noise: float) -> None:
    spurious = sum(bool(changes_in(series(n, noise, seed))) for seed in range(200))
    assert spurious <= 10  # of 200
    planted = [changes_in(series(n, noise, seed, factor=1.3, at=n // 2)) for seed in range(200)]
    assert sum(any(abs(change.at - n // 2) <= 1 for change in changes) for changes in planted) >= 180


@pytest.mark.parametrize("times", [[], [1.0] * 5, [5.0] * 50, [0.0] * 10, [1e6, 1e-3] * 10])
def test_odd_series_are_judged_without_errors(times: list[float]) -> None:
    assert all(0 < change.at < len(times) for change in changes_in(times))


def test_changes_below_a_tenth_are_ignored() -> None:
    assert not changes_in(series(60, 0.001, 1, factor=1.08, at=30))
    assert len(changes_in(series(60, 0.001, 1, factor=1.12, at=30))) == 1


def test_a_history_without_ruptures_has_no_changes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruptures", None)
    history = history_of(store, find(store, "7"))
    assert history.why_no_changes == MISSING and "pip install" in MISSING
    assert [len(series.points) for series in history.series.values()] == [12, 12]
