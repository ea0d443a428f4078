r"""Define the vocabularies for lectures: their modules, their calls, and the kind of narrative of each call.

    VOCABULARIES["edtrace"].modules["edtrace"]["system_text"]      "text": the kind of narrative that it makes
    narrative_calls(parse_source("from edtrace import text\ntext('a'), text('b')\n", "l.py"))      {1: "text"}
    detected({"execute_util", "torch"})                            ("cs336",)
    used(parse_source("import edtrace\n", "l.py"))                ("edtrace",)

The recorder and the page layout both use this table. Functions of the lecture that call the vocabulary are recognised
by their run instead (`narrating`), so that their time is not counted as the lecture's work.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from trace_tools.errors import LectureError
from trace_tools.lecture import vocabulary
from trace_tools.source.statements import ParsedSource, Statement, calls_on_a_line, parse_source
from trace_tools.trace.model import SourceFile, Step
from trace_tools.trace.tree import Tree

OURS = "trace_tools"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The modules of a vocabulary; for each module, its calls and the kind of narrative that each makes."""

    name: str
    modules: Mapping[str, Mapping[str, str]]
    helpers: frozenset[str] = frozenset()  # modules that come with these and have no narrative calls
    sign: str | None = None  # a name that only lectures of this vocabulary use, if its module names are common

    @property
    def names(self) -> frozenset[str]:
        """All modules of the vocabulary."""
        return frozenset(self.modules) | self.helpers


_OURS = {word: "text" if word == "decide" else word for word in vocabulary.VOCABULARY}
_EDTRACE = {
    "text": "text",
    "system_text": "text",
    "note": "note",
    "link": "link",
    "image": "image",
    "video": "video",
    "plot": "plot",  # or a table of its data, if it cannot be drawn
    "graph": "plot",
}
_CS336_2024 = {"note": "text", "see": "link", "image": "image"}

VOCABULARIES: Mapping[str, Vocabulary] = {
    one.name: one
    for one in (
        Vocabulary(OURS, {OURS: _OURS, f"{OURS}.narrative": _OURS}),
        Vocabulary(
            "edtrace",
            {"edtrace": _EDTRACE, "edtrace.execute_util": _EDTRACE},
            frozenset({"edtrace.reference", "edtrace.arxiv_util", "edtrace.file_util"}),
        ),
        # Modules in the folder of the lectures of Stanford's course CS336 in 2025; edtrace was made from them.
        Vocabulary("cs336", {"execute_util": _EDTRACE}, frozenset({"reference", "arxiv_util", "file_util"})),
        # In 2024 each lecture ended with `init_content("lecture_02-content.js")` and a call of `lecture_02()`.
        Vocabulary("cs336-2024", {"util": _CS336_2024}, sign="init_content"),
    )
}
BORROWED = tuple(name for name in VOCABULARIES if name != OURS)  # vocabularies of other tools


def detected(imported: Collection[str]) -> tuple[str, ...]:
    """Return the other tools' vocabularies that a lecture uses, by the modules that it imports."""
    borrowed = (VOCABULARIES[name] for name in BORROWED)
    return tuple(one.name for one in borrowed if one.sign is None and not one.modules.keys().isdisjoint(imported))


def used(parsed: ParsedSource) -> tuple[str, ...]:
    """Return the other tools' vocabularies that a source uses, by its own imports and names."""
    imported: set[str] = set()
    for statement in parsed.statements:
        match statement.node:
            case ast.ImportFrom(module=str(module), names=names, level=0):
                imported |= {module, *(f"{module}.{alias.name}" for alias in names)}
            case ast.Import(names=names):
                imported |= {alias.name for alias in names}
    signed = [one for one in VOCABULARIES.values() if one.sign and not one.modules.keys().isdisjoint(imported)]
    names_in_it = {node.id for node in ast.walk(parsed.tree) if isinstance(node, ast.Name)} if signed else set()
    return (*detected(imported), *(one.name for one in signed if one.sign in names_in_it))


def uses_words(parsed: ParsedSource) -> bool:
    """Return whether a source imports `trace_tools`, calls from its modules, or another tool's vocabulary."""
    for statement in parsed.statements:
        match statement.node:
            case ast.Import(names=names) if any(alias.name == OURS for alias in names):
                return True
            case ast.ImportFrom(module=str(module), names=names, level=0) if not _is_borrowed(module):
                if module == OURS or any(alias.name in _OURS for alias in names):
                    return True
    return bool(used(parsed))


def narrative_calls(parsed: ParsedSource) -> dict[int, str]:
    """Return the statements that only make narrative calls, with the kind of the first call."""
    return {number: kind for number, (kind, _) in words_called(parsed).items()}


def words_called(parsed: ParsedSource) -> dict[int, tuple[str, bool]]:
    """Return the statements that only make narrative calls, with the kind of the first call and whether it is another
    tool's.

    Several calls on a line, `text(…), link(…)`, are one such statement. Only names imported from a vocabulary count;
    the lecture's own function named `text` is code.
    """
    borrowed = {module: words for name in used(parsed) for module, words in VOCABULARIES[name].modules.items()}
    words: dict[str, tuple[str, bool]] = {}  # by the lecture's name for the call
    modules: dict[str, str] = {}  # by the lecture's name for the module

    def words_of(module: str) -> Mapping[str, str]:
        """Return the narrative calls of a module. Ours may be imported from any module of the package."""
        return borrowed.get(module, {}) if _is_borrowed(module) else _OURS

    for statement in parsed.statements:
        node = statement.node
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            words_in_module = words_of(node.module)
            for alias in node.names:
                if alias.name == "*":
                    words |= {name: (kind, _is_borrowed(node.module)) for name, kind in words_in_module.items()}
                elif alias.name in words_in_module:
                    words[alias.asname or alias.name] = words_in_module[alias.name], _is_borrowed(node.module)
                elif words_of(f"{node.module}.{alias.name}"):
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names if words_of(alias.name)}

    def word(call: ast.Call) -> tuple[str, bool] | None:
        match call.func:
            case ast.Name(name):
                return words.get(name)
            case ast.Attribute(ast.Name() | ast.Attribute() as of, name):
                module = modules.get(ast.unparse(of), "")
                kind = words_of(module).get(name)
                return None if kind is None else (kind, _is_borrowed(module))
        return None

    calls: dict[int, tuple[str, bool]] = {}
    for statement in parsed.statements:
        called = [word(call) for call in calls_on_a_line(statement.node)]
        if called and called[0] is not None and all(called):
            calls[statement.number] = called[0]
    return calls


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
    return narrating(tree, [*map(_parsed, tree.trace.sources)])


@lru_cache(maxsize=8)  # traces that are compared usually ran the same source
def _parsed(source: SourceFile) -> ParsedSource | None:
    try:
        return parse_source(source.text, source.path)
    except LectureError:  # the syntax of another Python version
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
