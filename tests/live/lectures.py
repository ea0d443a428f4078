"""A lecture of two sections and a trace written by hand, so that it can be served without being traced first."""

from __future__ import annotations

from pathlib import Path

from tests.pages.recording import Recording
from trace_tools.trace import trace_file
from trace_tools.trace.model import Text, Trace, Value

PARAGRAPHS = 30

LECTURE = (
    '''\
from trace_tools import text


def main():
    first()
    second()


def first():
    """The first section"""
'''
    + "".join(f'    text("Paragraph {n} says something.")\n' for n in range(PARAGRAPHS))
    + '''\
    x = 1  # @inspect x
    y = x + 1  # @inspect y
    assert y == 2


def second():
    """The second section"""
    z = helper(3)  # @inspect z


def helper(n):
    return n + 1
'''
)


def trace_of_lecture() -> Trace:
    """Return a trace of the unchanged lecture."""
    recording = Recording(LECTURE)
    main = recording.frame("main")
    first = recording.call(main, "first()", "first")
    for n in range(PARAGRAPHS):
        recording.step(first, f'text("Paragraph {n} ', narrative=[Text(text=f"Paragraph {n} says something.")])
    recording.step(first, "x = 1", values=[("x", Value("int", 1))], annotated=True, host_ns=[1000])
    recording.step(first, "y = x", values=[("y", Value("int", 2))], annotated=True, host_ns=[1000])
    second = recording.call(main, "second()", "second")
    z = recording.step(second, "z = helper", values=[("z", Value("int", 4))], annotated=True, host_ns=[1000])
    recording.step(recording.frame("helper", z), "return n", host_ns=[1000])
    return recording.trace()


def write_lecture(folder: Path) -> Path:
    """Write the lecture, and its trace to the folder in which `serve` looks for it; return the lecture's path."""
    (folder / ".serve" / "cpu").mkdir(parents=True)
    trace_file.write(trace_of_lecture(), folder / ".serve" / "cpu" / "trace.yaml")
    lecture = folder / "lecture.py"
    lecture.write_text(LECTURE)
    return lecture
