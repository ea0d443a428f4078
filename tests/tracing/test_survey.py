"""The process that measures the machine; `test_tracer` tests how a trace uses the result."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path


def test_full_disk_is_reported_in_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    command = [sys.executable, "-m", "trace_tools.tracing.survey", str(path), "cpu", "measure"]
    completed = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)),
    )  # fmt: skip
    assert (completed.returncode, completed.stderr) == (2, f"{path}: can't be written: File too large\n")
    assert not list(tmp_path.iterdir())
