"""The cases of the battery, run again on the cached library in one process; each build runs them, too."""

from __future__ import annotations

import sys

import pytest

from tests.cases_in_one import each
from tests.emulated_cuda import battery
from tests.emulated_cuda.build import environment, run


@pytest.fixture(scope="session")
def lines(emulated: None) -> dict[str, str]:
    """Return the battery's line for each case."""
    # a fault of another process must have no effect in this one
    variables = environment("emulated,emulated", faults="metering/launch:1")
    done = run([sys.executable, "-m", "tests.emulated_cuda.battery"], {**variables, "OMP_NUM_THREADS": "1"})
    output = [line for line in done.stdout.splitlines() if line]
    return {line.removeprefix("ok ").split(",")[0]: line for line in output} or {"no output": done.stderr}


@each("name", battery.CASES)
def test_case(name: str, lines: dict[str, str]) -> None:
    assert lines.get(name, f"{name} was not run: {lines}") == f"ok {name}"
