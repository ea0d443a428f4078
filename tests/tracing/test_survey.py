"""The process that measures the machine; `test_supervisor` has what becomes of that."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from trace_tools.machines.machine import from_json


@pytest.mark.parametrize("room", [10, 1 << 20])
def test_a_full_disk_is_one_line(room: int, environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "machine-1.json"
    ran = subprocess.run(
        [sys.executable, "-m", "trace_tools.tracing.survey", str(path), "cpu", "measure"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
    )
    if room == 10:
        assert (ran.returncode, ran.stderr) == (2, f"{path}: can't be written: File too large\n")
        assert not list(tmp_path.iterdir())
    else:
        assert (ran.returncode, ran.stderr) == (0, "")
        assert from_json(path.read_text(encoding="utf-8")).device == "cpu"
