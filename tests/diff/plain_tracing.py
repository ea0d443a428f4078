"""Trace programs with `sys.settrace`, independently of the project's tracer, for tests of alignment.

A program has one statement on each line. Each line event becomes a step, each call of a function a frame.
"""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

from tests.traces import example_trace
from trace_tools.diff.align.align import Aligned
from trace_tools.diff.align.align import align as align_trees
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import Event, Frame, Run, SourceFile, Step, Trace
from trace_tools.trace.tree import Tree

PATH = "lecture.py"


def traced(source: str, **changes: Any) -> Trace:
    """Run a program and return its trace with invented times."""
    recorder = _Recorder(source)
    program = compile(source, PATH, "exec")
    before = sys.gettrace()
    sys.settrace(recorder.called)
    try:
        exec(program, {"__name__": "lecture"})
    finally:
        sys.settrace(before)
    run = Run(PATH, "2025-01-31T12:00:00Z", seed=0, passes=3, limit=100, complete=True)
    settings: dict[str, Any] = {"run": run, "source": SourceFile(PATH, source), "steps": recorder.events} | changes
    return example_trace(**settings)


class _Recorder:
    def __init__(self, source: str) -> None:
        self.statements = {s.line: s.number for s in parse_source(source, PATH).statements}
        self.events: list[Event] = []
        self.frames: dict[FrameType, int] = {}
        self.last: dict[FrameType, int] = {}  # the current step of each frame
        self.executions: Counter[tuple[int, int]] = Counter()

    def called(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != PATH:
            return None
        name = frame.f_code.co_qualname.replace(".<locals>", "")
        if (name.endswith(">") and name != "<module>") or frame.f_code.co_name[0].isupper():
            return None  # a comprehension, or the body of a class
        number = self.frames[frame] = len(self.frames)
        caller_step = self.last.get(frame.f_back) if frame.f_back is not None else None
        self.events.append(Frame(number, name, of=caller_step))
        return self.line

    def line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and frame.f_lineno in self.statements:
            number, statement = self.frames[frame], self.statements[frame.f_lineno]
            self.executions[number, statement] += 1
            step = self.executions.total() - 1
            execution = self.executions[number, statement]
            self.events.append(Step(step, number, statement, frame.f_lineno, execution, [5000, 5100, 5050]))
            self.last[frame] = step
        return self.line


def align(a: Trace, b: Trace) -> Aligned:
    """Align the call trees of two traces."""
    return align_trees(Tree(a), Tree(b))


def lines(aligned: Aligned) -> set[tuple[int | None, int | None]]:
    """Return the pairs of lines that were matched at least once, and the lines without any match."""
    pairs = {(row.a and row.a.line, row.b and row.b.line) for row in aligned.rows}
    in_a, in_b = ({pair[side] for pair in pairs if all(pair)} for side in (0, 1))
    return {(a, b) for a, b in pairs if (a and b) or (a and a not in in_a) or (b and b not in in_b)}
