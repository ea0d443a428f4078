"""The cases of the battery, run again on the cached library in one process; each build runs them, too."""

from __future__ import annotations

import sys

from tests.emulated_cuda.battery import CASES
from tests.emulated_cuda.build import environment, run


def test_every_case_passes(emulated: None) -> None:
    # a fault of another process must have no effect in this one
    variables = environment("emulated,emulated", faults="pass-1/launch:1")
    done = run([sys.executable, "-m", "tests.emulated_cuda.battery"], {**variables, "OMP_NUM_THREADS": "1"})
    assert done.stdout.splitlines() == [f"ok {name}" for name in CASES], done.stderr
