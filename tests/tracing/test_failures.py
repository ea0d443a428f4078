"""The tools fail while they trace: each test traces with a copy of the tools in which a line raises."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trace_tools
from trace_tools.trace.file import load

LECTURE = """\
def main():
    section()

def section():
    x = 1
    y = 2
    print("done")
"""


def broken(folder: Path, module: str, before: str, mistake: str) -> Path:
    """Return a folder with a copy of the tools; in one module, `mistake` is inserted before the text `before`."""
    shutil.copytree(Path(trace_tools.__file__).parent, folder / "trace_tools")
    path = folder / "trace_tools" / module
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    indent = before[: len(before) - len(before.lstrip())]
    lines = "".join(f"{indent}{line}\n" for line in mistake.splitlines())
    path.write_text(text.replace(before, lines + before), encoding="utf-8")
    return folder


MERGING, RECORDER = "tracing/merge/merging.py", "tracing/recorder/recorder.py"
STEPS = "    steps = events(runs)"
IN_CHILD = "import sys\nif 'trace_tools.cli' not in sys.modules: raise RuntimeError('mistaken')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "before", "mistake", "kind", "is_partial"),
    [
        ("tracing/recorder/claims.py", "from trace_tools.describing", IN_CHILD, "RuntimeError", False),
        ("tracing/worker.py", "            recorder.namespace = {}", "raise SystemExit(0)", "SystemExit", True),
        ("tracing/worker.py", "        source = parse_source(", "raise SystemExit('mistaken')", "SystemExit", False),
        (RECORDER, "        gone = self.ca", "if number > 1: raise TypeError('mistaken')", "TypeError", True),
        (MERGING, STEPS, "raise SystemExit(0)", "SystemExit", False),
        (MERGING, STEPS, "raise KeyError('mistaken')", "KeyError", False),
    ],
    ids=["import", "exit after lecture", "exit before lecture", "probe", "exit in merging", "merging"],
)
def test_a_failure_of_the_tools_is_reported_with_its_traceback(
    tmp_path: Path, module: str, before: str, mistake: str, kind: str, *, is_partial: bool
) -> None:
    (tmp_path / "talk.py").write_text(LECTURE, encoding="utf-8")
    copy = broken(tmp_path / "copy", module, before, mistake)
    command = [sys.executable, "-m", "trace_tools", "trace", str(tmp_path / "talk.py"), "--passes", "1"]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    completed = subprocess.run(command, cwd=copy, capture_output=True, text=True, env=environment)
    assert completed.returncode == 70, completed.stderr
    assert "trace-tools failed" in completed.stderr
    assert "exited with" not in completed.stderr and "Traceback" not in completed.stderr
    [traceback_file] = (tmp_path / "rendered").rglob("*.traceback")
    text = traceback_file.read_text()
    assert text.startswith("Traceback (most recent call last)") and text.rstrip().splitlines()[-1].startswith(kind)
    assert str(traceback_file.parent) in completed.stderr
    if kind in ("TypeError", "KeyError"):
        assert list(traceback_file.parent.glob("*.journal"))
    runs = [load(path).trace.run for path in (tmp_path / "rendered").rglob("trace.yaml")]
    assert [(run.complete, run.ended.startswith(f"trace-tools failed: {kind}")) for run in runs] == [
        (False, True)
    ] * is_partial
