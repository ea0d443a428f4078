r"""Define the vocabularies for lectures: their modules, their calls, and the kind of narrative of each call.

    BORROWED["edtrace"]["system_text"]                             "text": the kind of narrative that it makes
    narrative_calls(parse_source("from edtrace import text\ntext('a'), text('b')\n", "l.py"))      {1: "text"}

The recorder and the page layout both use this table. Functions of the lecture that call the vocabulary are recognised
by their run instead (`narrating`), so that their time is not counted as the lecture's work.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

from trace_tools.errors import LectureError
from trace_tools.lecture import vocabulary
from trace_tools.source.statements import ParsedSource, Statement, calls_on_a_line, parse_source
from trace_tools.trace.model import SourceFile, Step
from trace_tools.trace.tree import Tree

OURS = "trace_tools"


_OURS = {word: "text" if word == "decide" else word for word in vocabulary.VOCABULARY}
_EDTRACE = {
    "text": "text",
    "system_text": "text",
    "note": "note",
    "link": "link",
    "image": "image",
    "video": "video",
    "plot": "table",  # of its data
    "graph": "text",
}
# The modules of another tool: edtrace, and the module in the folder of CS336's lectures that it was made from.
BORROWED: Mapping[str, Mapping[str, str]] = dict.fromkeys(("edtrace", "edtrace.execute_util", "execute_util"), _EDTRACE)


def borrows(parsed: ParsedSource) -> bool:
    """Return whether a source imports another tool's words."""
    for statement in parsed.statements:
        match statement.node:
            case ast.ImportFrom(module=str(module), names=names, level=0):
                if not BORROWED.keys().isdisjoint({module, *(f"{module}.{alias.name}" for alias in names)}):
                    return True
            case ast.Import(names=names) if any(alias.name in BORROWED for alias in names):
                return True
    return False


def uses_words(parsed: ParsedSource) -> bool:
    """Return whether a source imports `trace_tools`, calls from its modules, or another tool's vocabulary."""
    for statement in parsed.statements:
        match statement.node:
            case ast.Import(names=names) if any(alias.name == OURS for alias in names):
                return True
            case ast.ImportFrom(module=str(module), names=names, level=0) if not _is_borrowed(module):
                if module == OURS or any(alias.name in _OURS for alias in names):
                    return True
    return borrows(parsed)


def narrative_calls(parsed: ParsedSource) -> dict[int, str]:
    """Return the statements that only make narrative calls, with the kind of the first call."""
    return {number: kind for number, (kind, _) in words_called(parsed).items()}


def words_called(parsed: ParsedSource) -> dict[int, tuple[str, bool]]:
    """Return the statements that only make narrative calls, with the kind of the first call and whether it is another
    tool's.

    Several calls on a line, `text(…), link(…)`, are one such statement. Only names imported from a vocabulary count;
    the lecture's own function named `text` is code.
    """
    words = _Words(parsed)
    called = ((s.number, [words.of(call) for call in calls_on_a_line(s.node)]) for s in parsed.statements)
    return {number: some[0] for number, some in called if some and some[0] is not None and all(some)}


def emitting_functions(parsed: ParsedSource) -> frozenset[str]:
    """Return the functions that only pass their arguments to another tool's words: `def article(url): link(url=url)`.

    They are used like the words, so they get no probes: what they emit belongs to the line that calls them.
    """
    return frozenset(_Words(parsed).functions)


class _Words:
    """The names in a source that are narrative calls."""

    def __init__(self, parsed: ParsedSource) -> None:
        self.names: dict[str, tuple[str, bool]] = {}  # the lecture's name for the call → kind, another tool's
        self.modules: dict[str, str] = {}  # the lecture's name for the module → the module
        self.functions: set[str] = set()
        for statement in parsed.statements:
            node = statement.node
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                words_in_module = self._words_of(node.module)
                for alias in node.names:
                    own = alias.asname or alias.name
                    if alias.name == "*":
                        self.names |= {
                            name: (kind, _is_borrowed(node.module)) for name, kind in words_in_module.items()
                        }
                    elif alias.name in words_in_module:
                        self.names[own] = words_in_module[alias.name], _is_borrowed(node.module)
                    elif self._words_of(f"{node.module}.{alias.name}"):
                        self.modules[own] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Import):
                self.modules |= {a.asname or a.name: a.name for a in node.names if self._words_of(a.name)}
        for node in parsed.tree.body:
            if isinstance(node, ast.FunctionDef) and ast.unparse(node.args) and self._only_emits(node):
                self.functions.add(node.name)
                self.names[node.name] = ("text", True)

    def _words_of(self, module: str) -> Mapping[str, str]:
        """Return the narrative calls of a module. Ours may be imported from any module of the package."""
        return BORROWED.get(module, {}) if _is_borrowed(module) else _OURS

    def _only_emits(self, node: ast.FunctionDef) -> bool:
        body = node.body[ast.get_docstring(node, clean=False) is not None :]
        values = [child.value if isinstance(child, ast.Return) else None for child in body]
        calls = [
            [value] if isinstance(value, ast.Call) else calls_on_a_line(child)
            for child, value in zip(body, values, strict=True)
        ]
        return bool(body) and all(some and all((self.of(one) or ("", False))[1] for one in some) for some in calls)

    def of(self, call: ast.Call) -> tuple[str, bool] | None:
        """Return the kind of narrative of a call and whether it is another tool's; None for other calls."""
        match call.func:
            case ast.Name(name):
                return self.names.get(name)
            case ast.Attribute(ast.Name() | ast.Attribute() as of, name):
                module = self.modules.get(ast.unparse(of), "")
                kind = self._words_of(module).get(name)
                return None if kind is None else (kind, _is_borrowed(module))
        return None


def is_a_line_of_calls(node: ast.stmt) -> bool:
    """Return whether a statement only makes calls: `f(…)`, `f(…), g(…)` or `return f(…)`."""
    return bool(calls_on_a_line(node)) or (isinstance(node, ast.Return) and isinstance(node.value, ast.Call))


def _is_borrowed(module: str) -> bool:
    return module.split(".")[0] != OURS


# --- statements that only narrate -----------------------------------------------------------------

StatementKey = tuple[int, int]  # source, number of the statement
COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
NO_WORK = (ast.Pass, ast.Break, ast.Continue)


def narrating_in(tree: Tree) -> frozenset[StatementKey]:
    """Return these statements of a trace, using the sources in the trace."""
    return narrating(tree, [*map(parsed_or_none, tree.trace.sources)])


@lru_cache(maxsize=8)  # traces that are compared usually ran the same source
def parsed_or_none(source: SourceFile) -> ParsedSource | None:
    """Return the parsed source of a trace; None for the syntax of another Python version."""
    try:
        return parse_source(source.text, source.path)
    except LectureError:
        return None


def narrating(tree: Tree, sources: Sequence[ParsedSource | None]) -> frozenset[StatementKey]:
    """Return the statements that only call the vocabulary, by source and number.

    Calls of functions that contain only such statements also count, as do compound statements that contain only these.
    `sources` are the parsed sources of the trace, or None for a source that cannot be parsed.
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
