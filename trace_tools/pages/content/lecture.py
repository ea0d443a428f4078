"""Match a trace with the text of its pages: the execution of each step, and its line in the text.

    lecture = lecture_of(trace, lecture_text)
    lecture.line(step), lecture.code(step)      216, "y = x @ w"
    lecture.execution(step).rates               achieved rates, with the machine's roofline

The later stages read this instead of the trace.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trace_tools.errors import LectureError
from trace_tools.pages.content.shown_source import ShownSource, shown_source
from trace_tools.pages.document import Execution, Failure
from trace_tools.source.cells import Cell
from trace_tools.source.layout import with_narrative
from trace_tools.source.statements import FUNCTIONS, Statement, title_and_rest
from trace_tools.source.vocabularies import is_a_line_of_calls, narrating
from trace_tools.trace.model import MODULE, Note, Step, Text, Trace
from trace_tools.trace.tree import Tree
from trace_tools.util import formats


@dataclass(frozen=True, slots=True)
class Lecture:
    """A lecture's run, matched with the text to show."""

    trace: Trace
    tree: Tree
    edition: ShownSource  # its text
    definitions: Mapping[int, Statement | None]  # by frame: the `def` in the text; None for the module
    narrating: frozenset[int] = frozenset()  # statements of the trace that only make narrative calls

    def titled(self, definition: Statement | None, function: str) -> tuple[str, str]:
        """Return a function's title, which is the first line of its docstring or its name as words, and the rest."""
        node = definition.node if definition is not None else None
        doc = f"{node.title}\n{node.summary}" if isinstance(node, Cell) else None
        doc = ast.get_docstring(node) if isinstance(node, FUNCTIONS) else doc
        return title_and_rest(doc) if doc else (formats.readable(function.rpartition(".")[2]), "")

    def line(self, step: Step) -> int:
        """Return a step's line in the text."""
        return self.edition.statement(step).line

    def code(self, step: Step) -> str:
        """Return a step's line of code."""
        return self.edition.code(self.line(step))

    def execution(self, step: Step) -> Execution:
        """Return the execution of a step; its calls are added where they are shown."""
        return Execution(step, self.trace.machine, self.failure(step), self.trace.run.timed_runs)

    def failure(self, step: Step) -> Failure | None:
        """Return the exception that left a step."""
        raised, tree, lines = step.raised, self.tree, self.edition.lines
        if raised is None:
            return None
        origin, waited = (line and lines.get(line, line) for line in (raised.origin_line, raised.waited_line))
        caught, survived = tree.caught(step), tree.survived(step)
        return Failure(raised.type, raised.message, caught, tree.is_origin(step), origin, survived, waited)


def lecture_of(trace: Trace, text: str | None = None) -> Lecture:
    """Match a trace with its text; `text` is the current text of its lecture.

    Raises LectureError if the stored source is not valid Python, or has fewer statements than the trace refers to.
    """
    edition = shown_source(trace.source, text)
    trace = _reworded(trace, edition.reworded)
    tree = Tree(trace)
    last, count = max((step.statement for step in tree.by_id.values()), default=0), len(edition.source.parsed.numbered)
    if last >= count and tree.by_id:
        raise LectureError(trace.source.path, None, f"the trace refers to statement {last}; found 0 to {count - 1}")
    definitions: dict[int, Statement | None] = {}

    for frame in tree.frames.values():
        steps = tree.steps_of(frame.frame)
        first = edition.statement(steps[0]) if steps else None
        caller = tree.by_id.get(frame.of) if frame.of is not None else None
        outer = edition.statement(caller) if caller is not None and caller.frame in tree.mains else None
        if outer is not None and isinstance(outer.node, Cell):
            definitions[frame.frame] = outer
        elif frame.function == MODULE:
            definitions[frame.frame] = None
        elif first is not None:  # by executed code, because a name may have several definitions
            definitions[frame.frame] = edition.source.enclosing(first.number)
        else:
            definitions[frame.frame] = edition.source.parsed.functions.get(frame.function)
    edition = replace(edition, source=with_narrative(edition.source, _emitting(tree, edition)))
    return Lecture(trace, tree, edition, definitions, narrating(trace.source))


def _emitting(tree: Tree, edition: ShownSource) -> set[int]:
    """Return the statements that only call functions from elsewhere which emit narrative: `show_link(url)`."""
    emits: dict[int, bool] = {}  # in all executions
    for frame in tree.frames.values():
        for step in tree.steps_of(frame.frame):
            observed = step.values or step.claim or step.stdout or step.raised or tree.calls(step.id)
            emits[step.statement] = emits.get(step.statement, True) and bool(step.narrative) and not observed
    statements = edition.source.parsed.statements
    return {number for number, only in emits.items() if only and is_a_line_of_calls(statements[number].node)}


def _reworded(trace: Trace, reworded: Mapping[int, str]) -> Trace:
    """Return a trace with the words of the current text, by statement."""
    steps = list(trace.steps)
    for index, step in enumerate(steps if reworded else ()):
        if isinstance(step, Step) and step.narrative and step.statement in reworded:
            words = reworded[step.statement]
            narrative = [replace(one, text=words) if isinstance(one, Text | Note) else one for one in step.narrative]
            steps[index] = replace(step, narrative=narrative)
    return replace(trace, steps=steps)
