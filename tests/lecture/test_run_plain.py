"""The output of a lecture that runs as plain Python in its own process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trace_tools.lecture import run_plain
from trace_tools.trace.model import Answer, Ask, Image, Link, Plot, Table

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


@pytest.mark.parametrize("raising", [False, True])
def test_section_headings_output_and_exceptions_of_a_plain_run(raising: bool, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(LECTURE.replace("print(n)", "raise ValueError(n)") if raising else LECTURE, encoding="utf-8")
    command, environment = [sys.executable, str(path)], {"PYTHONPATH": str(ROOT)}
    completed = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = [*filter(None, completed.stdout.splitlines())]
    if raising:
        assert lines == ["0 The first", "Words, not for nobody", "1 second"]
        assert completed.stderr.endswith("ValueError: 3\n") and "in second" in completed.stderr
    else:
        *lines, suggestion, last = lines
        assert lines == [
            "0 The first",
            "Words, not for nobody",
            "1 second",
            "3",
            "2 The first",
            "Words, not for nobody",
        ]
        assert (completed.stderr, f"trace {path}" in suggestion, last) == ("", True, "[None, None]")


def test_narratives_are_printed_as_text() -> None:
    narratives = [
        Table(title="T", columns=["a", "long"], rows=[[1, 2.5], ["x", None]]),
        Link(url="https://a.b", title="B", authors="C", date="1999"),
        Link(url="https://a.b"),
        Ask(text="How?", answer=Answer("this", choices=["this", "that"])),
        Plot(title="Growth", series=[]),
        Plot(series=[]),
        Image(url="x.png"),
    ]
    assert [run_plain.as_text(narrative) for narrative in narratives] == [
        "T\na  long\n1  2.5\nx  None",
        "B (C, 1999): https://a.b",
        "https://a.b",
        "Question: How?\n- this\n- that",
        "[plot: Growth]",
        "[plot]",
        "[image: x.png]",
    ]
