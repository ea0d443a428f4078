"""A lecture of two sections with a trace of it made by hand, so that serving it begins without running anything."""

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
    """What is first"""
'''
    + "".join(f'    text("Paragraph {n} says something.")\n' for n in range(PARAGRAPHS))
    + '''\
    x = 1  # @inspect x
    y = x + 1  # @inspect y
    assert y == 2


def second():
    """What is second"""
    z = helper(3)  # @inspect z


def helper(n):
    return n + 1
'''
)


def traced() -> Trace:
    """Return the trace of the lecture as it stands there."""
    made = Recording(LECTURE)
    main = made.frame("main")
    first = made.call(main, "first()", "first")
    for n in range(PARAGRAPHS):
        made.step(first, f'text("Paragraph {n} ', narrative=[Text(text=f"Paragraph {n} says something.")])
    made.step(first, "x = 1", values=[("x", Value("int", 1))], annotated=True, host_ns=[1000])
    made.step(first, "y = x", values=[("y", Value("int", 2))], annotated=True, host_ns=[1000])
    second = made.call(main, "second()", "second")
    z = made.step(second, "z = helper", values=[("z", Value("int", 4))], annotated=True, host_ns=[1000])
    made.step(made.frame("helper", z), "return n", host_ns=[1000])
    return made.trace()


def write_lecture(folder: Path) -> Path:
    """Write the lecture, and its trace where a served one lies; return the lecture's path."""
    (folder / ".serve" / "cpu").mkdir(parents=True)
    trace_file.write(traced(), folder / ".serve" / "cpu" / "trace.yaml")
    lecture = folder / "lecture.py"
    lecture.write_text(LECTURE)
    return lecture
