"""What is kept of a machine that was measured; whether a trace asks for it is `test_trace`'s."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trace_tools.machines import surveys
from trace_tools.schema import Machine, Peak

VERSIONS = [("torch", "2.13.0")]
MEASURED = Machine(
    "A card",
    "a-card",
    "cuda",
    cores=2,
    peaks=[Peak("float32", 2e13, "datasheet"), Peak("float32", 1.5e13, "measured: best of 9", measured=True)],
)
DESCRIBED = replace(MEASURED, peaks=MEASURED.peaks[:1])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_what_was_measured_comes_back_with_its_date() -> None:
    assert surveys.recalled(DESCRIBED, VERSIONS) is None
    surveys.remember(MEASURED, VERSIONS)
    (peak,) = surveys.recalled(DESCRIBED, VERSIONS) or []
    assert (peak.per_second, peak.measured) == (1.5e13, True) and peak.source.startswith("measured: best of 9, on 2")
    assert surveys.are_recalled(replace(MEASURED, peaks=[peak])) and not surveys.are_recalled(MEASURED)


@pytest.mark.parametrize(
    ("machine", "versions"),
    [
        (replace(DESCRIBED, cores=4), VERSIONS),
        (replace(DESCRIBED, driver="580.1"), VERSIONS),
        (replace(DESCRIBED, peaks=[Peak("float32", 3e13, "datasheet")]), VERSIONS),
        (DESCRIBED, [("torch", "2.13.1")]),
    ],
)
def test_of_a_machine_that_has_changed_nothing_is_known(machine: Machine, versions: list[tuple[str, str]]) -> None:
    surveys.remember(MEASURED, VERSIONS)
    assert surveys.recalled(machine, versions) is None


def test_nothing_is_kept_of_an_emulated_machine(cache: Path) -> None:
    surveys.remember(replace(MEASURED, emulated=True), VERSIONS)
    assert not list(cache.rglob("*.json"))


def test_a_cache_that_cannot_serve_is_passed_over(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    surveys.remember(MEASURED, VERSIONS)
    (kept,) = cache.rglob("*.json")
    for wrong in ("", "{}", "[]", kept.read_text()[:-9], kept.read_text().replace(", on 2", ", off 2")):
        kept.write_text(wrong)
        assert surveys.recalled(DESCRIBED, VERSIONS) is None
    (cache / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "file"))
    surveys.remember(MEASURED, VERSIONS)
    assert surveys.recalled(DESCRIBED, VERSIONS) is None


def test_the_identity_of_the_computer_is_not_written(cache: Path) -> None:
    surveys.remember(MEASURED, VERSIONS)
    (kept,) = cache.rglob("*.json")
    identity = surveys._identity()
    assert identity and identity not in kept.read_text() + kept.name
