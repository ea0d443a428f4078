"""A lecture as plain Python: what it prints, as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trace_tools.lecture import run_plain
from trace_tools.trace.model import Answer, Ask, Link, Plot, Table

ROOT = Path(__file__).resolve().parents[2]
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
    text("Words, not for nobody")
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
    *lines, pages, last = filter(None, done.stdout.splitlines())
    assert lines == ["0 The first", "Words, not for nobody", "1 second", "3", "2 The first", "Words, not for nobody"]
    assert f"trace {path}" in pages and last == "[None, None]"


def test_an_error_leaves_the_functions_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(LECTURE.replace("print(n)", "raise ValueError(n)"), encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert [line for line in done.stdout.splitlines() if line[:1].isdigit()] == ["0 The first", "1 second"]
    assert done.stderr.endswith("ValueError: 3\n") and "second" in done.stderr


def test_each_kind_of_narrative_is_text() -> None:
    shown = [
        Table(title="T", columns=["a", "long"], rows=[[1, 2.5], ["x", None]]),
        Link(url="https://a.b", title="B", authors="C", date="1999"),
        Link(url="https://a.b"),
        Ask(text="How?", answer=Answer("this", choices=["this", "that"])),
        Plot(title="Growth", series=[]),
        Plot(series=[]),
    ]
    assert [run_plain.as_text(one) for one in shown] == [
        "T\na  long\n1  2.5\nx  None",
        "B (C, 1999): https://a.b",
        "https://a.b",
        "Question: How?\n- this\n- that",
        "[figure: Growth]",
        "[figure]",
    ]


@pytest.mark.parametrize(
    ("ending", "named"),
    [("main()", True), ("", True), ("plain.run(main)", False), ("main(); 1 / 0", False), ("del main", False)],
)
def test_a_lecture_that_prints_no_texts_names_its_pages(ending: str, named: bool, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"from trace_tools import plain, text\n\n\ndef main():\n    text('a')\n\n\n{ending}\n")
    done = subprocess.run([sys.executable, str(path)], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert (f"trace {path}" in done.stderr) is named and (named is False or done.stdout == "")
