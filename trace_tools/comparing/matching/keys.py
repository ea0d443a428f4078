"""The steps of any number of traces → keys under which the same step of each is found.

    keys = [keyed_steps(trace) for trace in traces]
    keys[0].keys() & keys[1].keys()         steps that both have

A key says what a step is, not where it stands: the calls that led to it, the text of its statement, the
execution. So a line inserted elsewhere changes no key; a statement that was edited is another step. (The diff
aligns two traces and follows edits, `align`; side by side, many machines have run the same lecture.)
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass

from trace_tools.call_tree import Tree
from trace_tools.errors import LectureError
from trace_tools.schema import Frame, SourceFile, Step, Trace
from trace_tools.statements import parse_source

CallPath = tuple[tuple[str, int, int], ...]  # from the module inwards: function, execution of its caller, n-th call


@dataclass(frozen=True, slots=True)
class StepKey:
    """What makes a step the same in several traces."""

    calls: CallPath
    text: str  # of the statement; of a compound one, its header
    occurrence: int  # among the statements of its function that read the same
    execution: int


@dataclass(frozen=True, slots=True)
class KeyedStep:
    """A step with what a reader knows it by."""

    step: Step
    function: str
    code: str  # its first line
    section: bool  # it called a section


def keyed_steps(trace: Trace) -> dict[StepKey, KeyedStep]:
    """Return every step of a trace by its key, in the order of execution."""
    texts = [_statements(source) for source in trace.sources]
    steps = {event.id: event for event in trace.steps if isinstance(event, Step)}
    frames = {event.frame: event for event in trace.steps if isinstance(event, Frame)}
    paths = _paths(frames, steps)
    callers = {step.id for step, _ in Tree(trace).section_calls()}
    found: dict[StepKey, KeyedStep] = {}
    for step in sorted(steps.values(), key=lambda step: step.id):
        frame = frames.get(step.frame)
        if frame is None or frame.source >= len(texts):
            continue
        text, occurrence, code = texts[frame.source].get(step.statement, ("", step.statement, ""))
        key = StepKey(paths[step.frame], text, occurrence, step.execution)
        found[key] = KeyedStep(step, frame.function, code, step.id in callers)
    return found


def _paths(frames: dict[int, Frame], steps: dict[int, Step]) -> dict[int, CallPath]:
    """Return the calls that lead to each frame; a frame stands after its parent in a trace."""
    paths: dict[int, CallPath] = {}
    nth: Counter[tuple[CallPath, str, int]] = Counter()
    for number, frame in frames.items():
        caller = steps.get(frame.of) if frame.of is not None else None
        above = paths.get(caller.frame, ()) if caller is not None else ()
        execution = caller.execution if caller is not None else 0
        place = (above, frame.function, execution)
        nth[place] += 1
        paths[number] = (*above, (frame.function, execution, nth[place]))
    return paths


def _statements(source: SourceFile) -> dict[int, tuple[str, int, str]]:
    """Return, by its number, each statement's text, its occurrence in its function, and its first line."""
    try:
        parsed = parse_source(source.text, source.path)
    except LectureError:  # another Python's syntax: then only numbers are left to go by
        return {}
    lines = source.text.splitlines()
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for statement in parsed.statements:
        text = _header(statement.node)
        code = _first_line(statement.node, lines[statement.line - 1])
        found[statement.number] = (text, seen[statement.function, text], code)
        seen[statement.function, text] += 1
    return found


def _first_line(node: ast.stmt, line: str) -> str:
    """Return a statement's first line without the comment behind it."""
    end = node.end_col_offset if node.end_lineno == node.lineno else None
    return line.encode()[:end].decode().strip()


def _header(node: ast.stmt) -> str:
    """Return a statement's code without comments and layout; of a compound one, only what it evaluates itself."""
    inner = {"body", "orelse", "finalbody", "handlers", "cases"}
    parts = {name: value for name, value in ast.iter_fields(node) if name not in inner}
    return f"{type(node).__name__} " + " ".join(_written(value) for value in parts.values())


def _written(value: object) -> str:
    if isinstance(value, ast.AST):
        return ast.unparse(value)
    if isinstance(value, list):
        return ", ".join(_written(item) for item in value)
    return "" if value is None else str(value)
