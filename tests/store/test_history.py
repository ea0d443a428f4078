"""Histories: which statement is meant, what it took, and change points against planted ones."""

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
