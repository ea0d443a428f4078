"""What is kept of a machine that was measured; whether a trace asks for it is `test_trace`'s."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trace_tools.machines import surveys
from trace_tools.trace.model import Machine, Peak

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


def test_what_was_measured_under_a_load_says_so_and_is_not_kept(cache: Path) -> None:
    assert surveys.under_load(MEASURED, None) == surveys.under_load(MEASURED, 0.1) == MEASURED
    loaded = surveys.under_load(MEASURED, 1.9)
    assert loaded.peaks[0] == MEASURED.peaks[0] and "1.9 cores" in loaded.peaks[1].source
    for machine in (loaded, replace(loaded, device="cpu")):
        surveys.remember(machine, VERSIONS)
        assert not list(cache.rglob("*.json"))


def test_nothing_is_kept_of_an_emulated_machine(cache: Path) -> None:
    surveys.remember(replace(MEASURED, emulated=True), VERSIONS)
    assert not list(cache.rglob("*.json"))


@pytest.mark.parametrize(
    ("device", "rate", "side", "kept"),
    [
        ("cuda", 1.5e13, 8192, True),
        ("cuda", 0.5e13, 8192, False),  # a quarter of the datasheet's
        ("cuda", 1.5e13, 2048, False),
        ("cpu", 0.5e13, 512, True),
    ],
)
def test_what_was_measured_of_a_disturbed_gpu_is_not_kept(device: str, rate: float, side: int, kept: bool) -> None:
    peak = Peak("float32", rate, f"measured: best of 9 matmuls, {side}³ each", measured=True)
    described = replace(DESCRIBED, device=device)
    surveys.remember(replace(described, peaks=[*DESCRIBED.peaks, peak]), VERSIONS)
    assert (surveys.recalled(described, VERSIONS) is not None) is kept


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
    identity = next(Path(file).read_text().strip() for file in surveys.IDENTITY if Path(file).exists())
    assert identity and identity not in kept.read_text() + kept.name
