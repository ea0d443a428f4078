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
MERGING = "    steps = events(runs)"
ONLY_IN_CHILD = """\
import sys
if "trace_tools.cli" not in sys.modules:
    raise RuntimeError("mistaken")
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "before", "mistake", "kind", "is_partial"),
    [
        ("tracing/recorder/claims.py", "from trace_tools.describing", ONLY_IN_CHILD, "RuntimeError", False),
        ("tracing/worker.py", "            recorder.namespace = {}", "raise SystemExit(0)", "SystemExit", True),
        (
            "tracing/worker.py",
            "        source = parse_source(",
            "raise SystemExit('mistaken')",
            "SystemExit",
            False,
        ),
        (
            "tracing/recorder/recorder.py",
            "        gone = self.ca",
            "if number > 1: raise TypeError('mistaken')",
            "TypeError",
            True,
        ),
        ("tracing/merge/merging.py", MERGING, "raise SystemExit(0)", "SystemExit", False),
        ("tracing/merge/merging.py", MERGING, "raise KeyError('mistaken')", "KeyError", False),
    ],
    ids=["import", "exit after lecture", "exit before lecture", "probe", "exit in merging", "merging"],
)
def test_a_failure_of_the_tools_is_reported_with_its_traceback(
    tmp_path: Path, module: str, before: str, mistake: str, kind: str, *, is_partial: bool
) -> None:
    (tmp_path / "talk.py").write_text(LECTURE, encoding="utf-8")
    copy = broken(tmp_path / "copy", module, before, mistake)
    completed = subprocess.run(
        [sys.executable, "-m", "trace_tools", "trace", str(tmp_path / "talk.py"), "--passes", "1"],
        cwd=copy, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(copy)},
    )  # fmt: skip
    assert completed.returncode == 70, completed.stderr
    assert (
        "trace-tools failed" in completed.stderr
        and "exited with" not in completed.stderr
        and "Traceback" not in completed.stderr
    )
    [traceback_file] = [path for path in (tmp_path / "rendered").rglob("*.traceback")]
    text = traceback_file.read_text()
    assert text.startswith("Traceback (most recent call last)") and text.rstrip().splitlines()[-1].startswith(kind)
    assert str(traceback_file.parent) in completed.stderr
    if kind in ("TypeError", "KeyError"):
        assert list(traceback_file.parent.glob("*.journal"))
    traces = [*(tmp_path / "rendered").rglob("trace.yaml")]
    assert bool(traces) == is_partial
    for path in traces:
        run = load(path).trace.run
        assert not run.complete and run.ended.startswith(f"trace-tools failed: {kind}")


@pytest.mark.slow
def test_an_exit_of_the_lecture_is_no_failure_of_the_tools(tmp_path: Path) -> None:
    (tmp_path / "talk.py").write_text(LECTURE.replace("y = 2", "import os; os._exit(3)"), encoding="utf-8")
    command = [sys.executable, "-m", "trace_tools", "trace", str(tmp_path / "talk.py"), "--passes", "1"]
    completed = subprocess.run(command, capture_output=True, text=True)
    assert completed.returncode == 1 and "exited with status 3 at line 6" in completed.stderr
    assert "trace-tools failed" not in completed.stderr and not [*(tmp_path / "rendered").rglob("*.traceback")]
