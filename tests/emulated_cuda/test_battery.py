"""Run the battery, which each build passes, again on the cached library: one process, one test per case."""

from __future__ import annotations

import sys

import pytest

from tests.cases_in_one import each
from tests.emulated_cuda import battery
from tests.emulated_cuda.build import environment, run


@pytest.fixture(scope="session")
def lines(emulated: None) -> dict[str, str]:
    given = environment(
        "emulated,emulated", faults="metering/launch:1"
    )  # a fault of another process must have no effect here
    done = run([sys.executable, "-m", "tests.emulated_cuda.battery"], {**given, "OMP_NUM_THREADS": "1"})
    printed = [line for line in done.stdout.splitlines() if line]
    return {line.removeprefix("ok ").split(",")[0]: line for line in printed} or {"nothing": done.stderr}


@each("name", battery.CASES)
def test_case(name: str, lines: dict[str, str]) -> None:
    assert lines.get(name, f"{name} was not run: {lines}") == f"ok {name}"
