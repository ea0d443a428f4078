"""A trace and the text that its pages show → what each step was, and where it stands in that text.

    lecture = Lecture(trace, lecture_text)
    lecture.line(step), lecture.code(step)      216, "y = x @ w"
    lecture.execution(step).rates               achieved, beside the machine's roof

Every stage from the trace to its document reads this, and nothing else of the trace.
"""

from __future__ import annotations

from trace_tools.call_tree import Tree
from trace_tools.rendering.document import Execution, Failure, execution
from trace_tools.rendering.staleness import Edition, edition_of
from trace_tools.schema import SourceFile, Step, Trace


class Lecture:
    """One lecture as it ran: its call tree, and for each of its sources the edition that is shown."""

    def __init__(self, trace: Trace, text: str | None = None) -> None:
        """`text` is the first source as it is now. Raises LectureError when a stored source is not Python."""
        self.trace = trace
        self.tree = Tree(trace)
        stored = trace.sources or [SourceFile(trace.run.lecture, "")]  # there is none where a run never began
        self.editions = [edition_of(source, None if place else text) for place, source in enumerate(stored)]
        self._executions: dict[int, Execution] = {}

    def source(self, step: Step) -> int:
        """Return which of the trace's sources a step is in."""
        return self.tree.frames[step.frame].source

    def edition(self, step: Step) -> Edition:
        """Return the text that a step is in."""
        return self.editions[self.source(step)]

    def line(self, step: Step) -> int:
        """Return the line at which a step stands."""
        return self.edition(step).line(step)

    def code(self, step: Step) -> str:
        """Return that line."""
        return self.edition(step).code(self.line(step))

    def execution(self, step: Step) -> Execution:
        """Return a step with its time, its rates and its failure; the calls it made are added where they are shown."""
        if step.id not in self._executions:
            timed_runs = self.trace.run.timed_runs
            self._executions[step.id] = execution(step, self.trace.machine, self.failure(step), timed_runs)
        return self._executions[step.id]

    def failure(self, step: Step) -> Failure | None:
        """Return the exception that left a step, if one did; its line is that of the first source as it is shown."""
        raised = step.raised
        if raised is None:
            return None
        line = raised.origin_line
        if line is not None:
            line = self.editions[0].lines.get(line, line)
        return Failure(raised.type, raised.message, self.tree.caught(step), self.tree.is_origin(step), line)
