"""The lines for a GPU in small programs, and the lines that never ran."""

from __future__ import annotations

import ast
import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from coverage.exceptions import CoverageWarning

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


def test_lines_that_ran_once_are_not_missed(tmp_path: Path) -> None:
    """Coverage files are broken if their process was killed while it wrote. The other files are read anyway."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nif sys.argv[1] == 'a':\n    print(1)\nelif sys.argv[1] == 'b':\n    print(2)\nelse:\n    x = 3\n"
    )
    paths = [tmp_path / f"coverage.{name}" for name in ("a", "b", "cut", "empty", "no_tables")]
    for path in paths[:2]:
        options = [f"--data-file={path}", f"--include={program}"]
        subprocess.run([sys.executable, "-m", "coverage", "run", *options, str(program), path.suffix[1:]], check=True)
    paths[2].write_bytes(paths[0].read_bytes()[:2000])
    paths[3].touch()
    with contextlib.closing(sqlite3.connect(paths[4])) as database:
        database.execute("CREATE TABLE coverage_schema (version integer)")
        database.commit()
    with pytest.warns(CoverageWarning) as warnings:
        assert covered._missed(covered._combined(paths), program) == {7}
    assert any("coverage.no_tables" in str(warning.message) for warning in warnings)
