"""Find the statements that only emit narrative, so that their time is not counted as the lecture's work.

    narrating(tree, [parse_source(source.text, source.path) for source in trace.sources])
    # {(0, 4), (0, 9)} for source 0: statement 4 is `text("…")`, and statement 9 calls `intro()`, which only has texts

A direct narrative call is recognised by its code. A function of the lecture that only makes such calls is recognised by
its run.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

from trace_tools.errors import LectureError
from trace_tools.source.statements import ParsedSource, Statement, parse_source
from trace_tools.source.vocabularies import is_a_line_of_calls, narrative_calls
from trace_tools.trace.model import SourceFile, Step
from trace_tools.trace.tree import Tree

StatementKey = tuple[int, int]  # source, number of the statement
COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
NO_WORK = (ast.Pass, ast.Break, ast.Continue)


def narrating_in(tree: Tree) -> frozenset[StatementKey]:
    """Return these statements of a trace, using the sources in the trace."""
    return narrating(tree, [*map(_parsed, tree.trace.sources)])


@lru_cache(maxsize=8)  # traces that are compared usually ran the same source
def _parsed(source: SourceFile) -> ParsedSource | None:
    try:
        return parse_source(source.text, source.path)
    except LectureError:  # the syntax of another Python version
        return None


def narrating(tree: Tree, sources: Sequence[ParsedSource | None]) -> frozenset[StatementKey]:
    """Return the statements that only call the vocabulary, by source and number.

    Calls of functions that only do so count, and so do compound statements that only contain such statements. `sources`
    are the parsed sources of the trace, or None for a source that cannot be parsed.
    """
    parsed = [(source_number, source) for source_number, source in enumerate(sources) if source is not None]
    emitting = {(source_number, number) for source_number, source in parsed for number in narrative_calls(source)}
    if not emitting:
        return frozenset()
    # compound statement → the statements directly inside it
    inside: defaultdict[StatementKey, list[StatementKey]] = defaultdict(list)
    statements: dict[StatementKey, Statement] = {}
    for source_number, source in parsed:
        for statement in source.statements:
            statements[source_number, statement.number] = statement
            outer = source.statements[statement.parent].node if statement.parent is not None else None
            if isinstance(outer, COMPOUND) and not isinstance(statement.node, NO_WORK):
                inside[source_number, statement.parent or 0].append((source_number, statement.number))
    ran: defaultdict[StatementKey, list[Step]] = defaultdict(list)
    # function → the statements that ran in its calls
    functions: defaultdict[tuple[int, str], set[StatementKey]] = defaultdict(set)
    for frame in tree.frames.values():
        for step in tree.steps_of(frame.frame):
            ran[frame.source, step.statement].append(step)
            functions[frame.source, frame.function].add((frame.source, step.statement))

    def only_emits(key: StatementKey) -> bool:
        """Return whether all called functions of the lecture and all statements inside a statement only emit
        narrative.
        """
        statement = statements.get(key)
        steps = ran[key]
        worked = any(step.meters is not None and step.meters.operators for step in steps)
        if statement is None or worked or any(s.values or s.claim or s.measured or s.harness for s in steps):
            return False
        called = {(frame.source, frame.function) for step in steps for frame in tree.calls(step.id)}
        if not all(functions[name] and functions[name] <= emitting for name in called):
            return False
        if inside[key]:
            return all(inner in emitting for inner in inside[key])
        returned = isinstance(statement.node, ast.Return) and all(step.narrative for step in steps)
        return (bool(called) or returned) and is_a_line_of_calls(statement.node)

    waiting = ran.keys() - emitting
    while more := {key for key in waiting if only_emits(key)}:
        emitting |= more
        waiting -= more
    return frozenset(emitting)
