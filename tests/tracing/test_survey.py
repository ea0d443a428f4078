"""The process that measures the machine; `test_tracer` tests how a trace uses the result."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from trace_tools.machines.machine import from_json


@pytest.mark.parametrize("limit_bytes", [10, 1 << 20])
def test_full_disk_is_reported_in_one_line(limit_bytes: int, environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    completed = subprocess.run(
        [sys.executable, "-m", "trace_tools.tracing.survey", str(path), "cpu", "measure"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes)),
    )
    if limit_bytes == 10:
        assert (completed.returncode, completed.stderr) == (2, f"{path}: can't be written: File too large\n")
        assert not list(tmp_path.iterdir())
    else:
        assert (completed.returncode, completed.stderr) == (0, "")
        assert from_json(path.read_text(encoding="utf-8")).device == "cpu"
