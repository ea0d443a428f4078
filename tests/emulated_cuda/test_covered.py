"""Lines for a GPU, and those of them that did not run, tested with small sources."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.emulated_cuda import covered


@each(
    ("source", "lines"),
    [
        ("if gpu is not None:\n    a()\nelse:\n    b()\n", {2}),
        ("if gpu is None:\n    a()\nelse:\n    b()\n", {4}),
        ("if device == 'cpu':\n    a()\n", set()),
        ("def f(gpu: Accelerator | None, x: int):\n    a()\n    return x\ndef g(x: int):\n    a()\n", {2, 3}),
        ("class Accelerator:\n    def f(self):\n        a()\nclass Other:\n    x = 1\n", {2, 3}),
    ],
)
def test_lines_for_a_gpu(source: str, lines: set[int]) -> None:
    assert set(covered._for_a_gpu(ast.parse(source))) == lines


def test_lines_that_ran_once_are_not_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lecture = tmp_path / "lecture.py"
    lecture.write_text(
        "import sys\nif sys.argv[1] == 'a':\n    print(1)\nelif sys.argv[1] == 'b':\n    print(2)\nelse:\n    x = 3\n"
    )
    for name in "ab":
        options = [f"--data-file={tmp_path / f'lecture-{name}.coverage'}", f"--include={lecture}"]
        subprocess.run([sys.executable, "-m", "coverage", "run", *options, str(lecture), name], check=True)
    assert [*covered._missed_in_lecture(tmp_path, lecture)] == ["lecture.py:7: x = 3"]
