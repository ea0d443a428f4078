"""Match a trace with the text of its pages: the execution of each step, and its line in the text.

    lecture = lecture_of(trace, lecture_text)
    lecture.lines[step.id], lecture.code(step)      216, "y = x @ w"
    lecture.executions[step.id].rates               achieved rates, with the machine's roofline

The later stages read this instead of the trace.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from trace_tools.pages.content.shown_source import ShownSource, shown_source
from trace_tools.pages.document import Execution, Failure, execution
from trace_tools.source.cells import Cell
from trace_tools.source.layout import with_narrative
from trace_tools.source.statements import FUNCTIONS, Statement, title_and_rest
from trace_tools.source.vocabularies import is_a_line_of_calls, narrating
from trace_tools.trace.model import MODULE, Frame, Note, SourceFile, Step, Text, Trace
from trace_tools.trace.tree import Tree
from trace_tools.util import formats


@dataclass(frozen=True, slots=True)
class Lecture:
    """A lecture's run, matched with the text to show."""

    trace: Trace
    tree: Tree
    editions: tuple[ShownSource, ...]  # by source
    executions: Mapping[int, Execution]  # by step; its calls are added where they are shown
    lines: Mapping[int, int]  # by step: its line in the text
    definitions: Mapping[int, Statement | None]  # by frame: the `def` in the text; None for the module
    narrating: frozenset[tuple[int, int]] = frozenset()  # (source, statement of the trace): narrative calls only

    def titled(self, definition: Statement | None, function: str) -> tuple[str, str]:
        """Return a function's title, which is the first line of its docstring or its name as words, and the rest."""
        node = definition.node if definition is not None else None
        doc = f"{node.title}\n{node.summary}" if isinstance(node, Cell) else None
        doc = ast.get_docstring(node) if isinstance(node, FUNCTIONS) else doc
        return title_and_rest(doc) if doc else (formats.readable(function.rpartition(".")[2]), "")

    def source(self, step: Step) -> int:
        """Return the index of a step's source."""
        return self.tree.frames[step.frame].source

    def name(self, frame: Frame) -> str:
        """Return the name of a called function in the lecture's notation: with its module, if it has another one."""
        if not frame.source:
            return frame.function
        parts = PurePosixPath(self.trace.sources[frame.source].path).with_suffix("").parts
        return ".".join([*(parts[:-1] if parts[-1] == "__init__" else parts), frame.function])

    def edition(self, step: Step) -> ShownSource:
        """Return the text that contains a step."""
        return self.editions[self.source(step)]

    def code(self, step: Step) -> str:
        """Return a step's line of code."""
        return self.edition(step).code(self.lines[step.id])


def lecture_of(trace: Trace, text: str | None = None) -> Lecture:
    """Match a trace with its text; `text` is the current text of the first source.

    Raises LectureError if a stored source is not valid Python.
    """
    stored = trace.sources or [SourceFile(trace.run.lecture, "")]  # a run that never began has none
    editions = tuple(shown_source(source, None if index else text) for index, source in enumerate(stored))
    trace = _reworded(trace, editions[0].reworded)
    tree = Tree(trace)
    executions: dict[int, Execution] = {}
    lines: dict[int, int] = {}
    definitions: dict[int, Statement | None] = {}

    def line_now(line: int | None) -> int | None:
        return line if line is None else editions[0].lines.get(line, line)

    for frame in tree.frames.values():
        edition, steps = editions[frame.source], tree.steps_of(frame.frame)
        first = edition.statement(steps[0]) if steps else None
        caller = tree.by_id.get(frame.of) if frame.of is not None else None
        outer = editions[0].statement(caller) if caller is not None and caller.frame in tree.mains else None
        if outer is not None and isinstance(outer.node, Cell):
            definitions[frame.frame] = outer
        elif frame.function == MODULE:
            definitions[frame.frame] = None
        elif first is not None:  # by executed code, because a name may have several definitions
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
            executions[step.id] = execution(step, trace.machine, failure, trace.run.timed_runs)
            lines[step.id] = edition.statement(step).line
    own = editions[0]
    editions = (replace(own, source=with_narrative(own.source, _emitting(tree, own))), *editions[1:])
    return Lecture(trace, tree, editions, executions, lines, definitions, narrating(stored))


def _emitting(tree: Tree, edition: ShownSource) -> set[int]:
    """Return the statements that only call functions from elsewhere which emit narrative: `show_link(url)`."""
    emits: dict[int, bool] = {}  # in all executions
    for frame in tree.frames.values():
        for step in tree.steps_of(frame.frame) if not frame.source else ():
            observed = step.values or step.claim or step.stdout or step.raised or tree.calls(step.id)
            emits[step.statement] = emits.get(step.statement, True) and bool(step.narrative) and not observed
    statements = edition.source.parsed.statements
    return {number for number, only in emits.items() if only and is_a_line_of_calls(statements[number].node)}


def _reworded(trace: Trace, reworded: Mapping[int, str]) -> Trace:
    """Return a trace with the words of the current text, by statement of the lecture."""
    own = {frame.frame for frame in trace.steps if isinstance(frame, Frame) and not frame.source}
    steps = list(trace.steps)
    for index, step in enumerate(steps if reworded else ()):
        if isinstance(step, Step) and step.frame in own and step.narrative and step.statement in reworded:
            words = reworded[step.statement]
            narrative = [replace(one, text=words) if isinstance(one, Text | Note) else one for one in step.narrative]
            steps[index] = replace(step, narrative=narrative)
    return replace(trace, steps=steps)
