"""Write a small trace by hand: a source, and the steps executed in it.

recording = Recording("def main():\\n    x = 1\\n")
main = recording.frame("main")
recording.step(main, "x = 1", values=[("x", Value("int", 1))])
recording.trace()
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from textwrap import indent
from typing import Any

from trace_tools.source.statements import Statement, parse_source
from trace_tools.trace.model import Event, Frame, Machine, Omitted, Run, SourceFile, Step, Tensor, Trace, Value


class Recording:
    """Collects events; a statement is named by the beginning of its first line."""

    def __init__(self, text: str, path: str = "lecture.py") -> None:
        self.text = text
        self.path = path
        self.events: list[Event] = []
        self._parsed = parse_source(text, path)
        self._lines = text.splitlines()
        self._ids = iter(range(10**6))
        self._frames = iter(range(10**6))
        self._executions: Counter[tuple[int, int]] = Counter()

    @property
    def steps(self) -> int:
        """Number of steps so far."""
        return sum(self._executions.values())

    def frame(self, function: str, of: int | None = None, **more: Any) -> int:
        """Open a frame, called by step `of`."""
        number = next(self._frames)
        self.events.append(Frame(number, function, of, **more))
        return number

    def step(self, frame: int, code: str, **more: Any) -> int:
        """Execute the first statement that begins with `code` in a frame; return the step's id."""
        statement = self.statement(code)
        self._executions[frame, statement.number] += 1
        execution = more.pop("execution", self._executions[frame, statement.number])
        step = Step(next(self._ids), frame, statement.number, statement.line, execution, **more)
        self.events.append(step)
        return step.id

    def omit(self, frame: int, code: str, count: int, host_ns: int) -> None:
        """Leave out `count` executions of a statement."""
        statement = self.statement(code)
        self.events.append(Omitted(count, frame, statement.number, statement.line, host_ns))

    def call(self, frame: int, code: str, function: str, **more: Any) -> int:
        """Execute a statement that calls a lecture function; return the frame of the call."""
        return self.frame(function, self.step(frame, code), **more)

    def statement(self, code: str) -> Statement:
        """Return the first statement whose line begins with `code`."""
        return next(s for s in self._parsed.statements if self._lines[s.line - 1].strip().startswith(code))

    def trace(self, **changes: Any) -> Trace:
        """Return the trace; `changes` replace its fields."""
        trace = Trace(
            title="A lecture",
            run=Run("lecture.py", "2025-01-31T12:00:00Z", 0, 3, 100, complete=True),
            machine=Machine("A processor", "cpu", "cpu"),
            versions=[("torch", "2.13.0")],
            source=SourceFile(self.path, self.text),
            steps=self.events,
        )
        return replace(trace, **changes)


def of_section(body: str, more: str = "", title: str = "") -> tuple[Recording, int]:
    """Return a recording of a lecture whose `main` calls `f`, and the frame of that call.

    `body` is the text of `f`, which begins in line 5 (in line 6 below a title); `more` defines other functions.
    """
    inner = indent((f'"""{title}"""\n' if title else "") + body, "    ")
    recording = Recording(f"def main():\n    f()\n\ndef f():\n{inner}\n\n{more}")
    return recording, recording.call(recording.frame("main"), "f()", "f")


def matrix(rows: int, columns: int, storage: str = "A", **more: Any) -> Value:
    """Return a small float32 matrix 0, 1, 2 … as a value."""
    elements: list[Any] = [float(n) for n in range(rows * columns)]
    layout: dict[str, Any] = {"bytes": 4 * rows * columns, "strides": [columns, 1], "contiguous": True}
    tensor = Tensor("float32", [rows, columns], "cpu", storage=storage, elements=elements, **(layout | more))
    return Value("tensor", tensor=tensor)
