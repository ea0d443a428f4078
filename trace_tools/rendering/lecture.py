"""A trace and the text that its pages show → what each step was, and where it stands in that text.

    lecture = lecture_of(trace, lecture_text)
    lecture.lines[step.id], lecture.code(step)      216, "y = x @ w"
    lecture.executions[step.id].rates               achieved, beside the machine's roof

Every later stage on the way to the document reads this, and nothing else of the trace.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from trace_tools.call_tree import Tree
from trace_tools.layout import with_narrative
from trace_tools.rendering.document import Execution, Failure, execution
from trace_tools.rendering.passages import telling
from trace_tools.rendering.staleness import Edition, edition_of
from trace_tools.schema import Frame, SourceFile, Step, Trace
from trace_tools.statements import FUNCTIONS, MODULE, Statement, qualified_name


@dataclass(frozen=True, slots=True)
class Lecture:
    """One lecture as it ran, laid beside the text that is shown of it."""

    trace: Trace
    tree: Tree
    editions: tuple[Edition, ...]  # by source
    executions: Mapping[int, Execution]  # by step; the calls that it made are added where they are shown
    lines: Mapping[int, int]  # by step: where it stands in the text
    definitions: Mapping[int, Statement | None]  # by frame: the `def` in the text; None for the module
    helpers: frozenset[str] = frozenset()  # functions that only tell the reader what they are given
    defined: Mapping[str, int] = field(default_factory=dict)  # of what can be linked to: qualified name → line

    def source(self, step: Step) -> int:
        """Return which of the sources a step is in."""
        return self.tree.frames[step.frame].source

    def module(self, frame: Frame) -> str:
        """Return the name of the module in which a called function is; "" for the lecture itself."""
        if not frame.source:
            return ""
        parts = PurePosixPath(self.trace.sources[frame.source].path).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def edition(self, step: Step) -> Edition:
        """Return the text that a step is in."""
        return self.editions[self.source(step)]

    def code(self, step: Step) -> str:
        """Return the line at which a step stands."""
        return self.edition(step).code(self.lines[step.id])


def lecture_of(trace: Trace, text: str | None = None) -> Lecture:
    """Lay a trace beside its text; `text` is the first source as it is now.

    Raises LectureError when a stored source is not Python.
    """
    tree = Tree(trace)
    stored = trace.sources or [SourceFile(trace.run.lecture, "")]  # there is none where a run never began
    editions = tuple(edition_of(source, None if place else text) for place, source in enumerate(stored))
    executions: dict[int, Execution] = {}
    lines: dict[int, int] = {}
    definitions: dict[int, Statement | None] = {}

    def line_now(line: int | None) -> int | None:
        return line if line is None else editions[0].lines.get(line, line)

    for frame in tree.frames.values():
        edition, steps = editions[frame.source], tree.steps_of(frame.frame)
        first = edition.statement(steps[0]) if steps else None
        if frame.function == MODULE:
            definitions[frame.frame] = None
        elif first is not None:  # by what it executed, for a name can have several definitions
            definitions[frame.frame] = edition.source.enclosing(first.number)
        else:
            definitions[frame.frame] = edition.source.parsed.function(frame.function)
        for step in steps:
            failure = None
            if step.raised is not None:
                raised = step.raised
                failure = Failure(
                    raised.type,
                    raised.message,
                    caught=tree.caught(step),
                    origin=tree.is_origin(step),
                    line=line_now(raised.origin_line),
                    survived=tree.survived(step),
                    waited_line=line_now(raised.waited_line),
                )
            executions[step.id] = execution(step, trace.machine, failure, trace.run.timed_runs, trace.run.ranks)
            lines[step.id] = edition.line(step)
    helpers, told = telling(tree, editions[0].source.parsed, editions[0].shown)
    if told:
        own = editions[0]
        editions = (replace(own, source=with_narrative(own.source, told)), *editions[1:])
    statements = editions[0].source.parsed.statements if told else ()
    defined = {qualified_name(s): s.line for s in statements if isinstance(s.node, (*FUNCTIONS, ast.ClassDef))}
    return Lecture(trace, tree, editions, executions, lines, definitions, helpers, defined)
