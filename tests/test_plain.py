"""A lecture as plain Python: what it prints, as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LECTURE = '''
from math import sqrt

from trace_tools import plain, text


def main():
    first()
    second(3)
    first()
    sqrt(4)


def first():
    """The first

    More words.
    """
    text("told to nobody")
    helper()


def helper():
    """No section"""


def second(n):
    print(n)
    assert second.__name__ == "second"


if __name__ == "__main__":
    plain.run(main)
    print([f.__closure__ for f in (first, second)])
'''


def test_a_line_for_each_section_and_what_the_lecture_prints(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(LECTURE, encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["0 The first", "1 second", "3", "2 The first", "[None, None]"]


def test_an_error_leaves_the_functions_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(LECTURE.replace("print(n)", "raise ValueError(n)"), encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["0 The first", "1 second"]
    assert done.stderr.endswith("ValueError: 3\n") and "second" in done.stderr
