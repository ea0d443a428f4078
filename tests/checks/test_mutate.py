"""Planting faults in a tiny lecture whose claims are known to be strong or weak."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks import mutate

LECTURE = '''"""A tiny lecture"""

from trace_tools import plot, text


def main() -> None:
    strong()
    weak()


def strong() -> None:
    """Strong"""
    area_by_sides()


def area_by_sides() -> None:
    area = 3 * side()
    assert area == 21
    shown = 11 * 13
    text(f"{shown}")
    plot({"x": [17]}, x=[23 * 29])  # @hide


def side() -> int:
    return 5 + 2


def weak() -> None:
    """Weak"""
    volume()  # @deeper


def volume() -> None:
    sides = [2, 3]
    sides.reverse()
    weight = 2.5 * sides[0] * sides[1]
    assert weight > 0
    n = 2
    while n < 4:
        n += 2
    assert n == 4
'''


@pytest.fixture
def lecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mutate.Lecture:
    monkeypatch.setattr(mutate, "PATIENCE_S", 3)
    path = tmp_path / "tiny.py"
    path.write_text(LECTURE, encoding="utf-8")
    return mutate.Lecture(path)


def test_strong_claims_catch_every_fault_in_code_that_they_depend_on(lecture: mutate.Lecture) -> None:
    changes = {fault.change for fault in lecture.faults("strong")}
    assert changes == {"3 * side() → 3 / side()", "3 → 4", "5 + 2 → 5 - 2", "5 → 6", "2 → 3"}
    assert [*mutate.judged(lecture, "strong").values()] == [True] * 5


@pytest.mark.slow
def test_weak_claims_are_noticed_and_endless_faults_stopped(lecture: mutate.Lecture) -> None:
    assert "n += 2 → n -= 2" in {fault.change for fault in lecture.faults("weak")}
    changes = {fault.change for fault, caught in mutate.judged(lecture, "weak").items() if not caught}
    assert {"sides.reverse() → left out", "2.5 → 3.75"} <= changes and "n += 2 → n -= 2" not in changes
