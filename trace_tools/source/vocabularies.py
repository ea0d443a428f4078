r"""Find the calls of our vocabulary, and of other tools' words, in a source.

    narrative_calls(parse_source("from edtrace import text\ntext('a'), text('b')\n", "l.py"))      {1: "text"}

The recorder and the page layout both use this.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import lru_cache

from trace_tools.errors import LectureError
from trace_tools.lecture import vocabulary
from trace_tools.source.statements import CLAUSES, ParsedSource, Statement, calls_on_a_line, parse_source
from trace_tools.trace.model import SourceFile

OURS = "trace_tools"

_EDTRACE = frozenset({"text", "system_text", "note", "link", "image", "video", "plot", "graph"})
# The modules of another tool: edtrace, and the module in the folder of CS336's lectures that it was made from.
BORROWED: Mapping[str, frozenset[str]] = dict.fromkeys(("edtrace", "edtrace.execute_util", "execute_util"), _EDTRACE)
OUR_WORDS: Mapping[str, frozenset[str]] = dict.fromkeys((OURS, f"{OURS}.lecture.vocabulary"), vocabulary.VOCABULARY)

_WORDS = {**OUR_WORDS, **BORROWED}

COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)  # functions and classes are code


def borrows(parsed: ParsedSource) -> bool:
    """Return whether a source imports another tool's words."""
    return bool(words_of(parsed, BORROWED))


def uses_words(parsed: ParsedSource) -> bool:
    """Return whether a source imports from `trace_tools`, or the words of another tool."""
    imports = (one.node for one in parsed.statements if isinstance(one.node, ast.ImportFrom))
    return any(node.module == OURS for node in imports) or bool(words_of(parsed))


def narrative_calls(parsed: ParsedSource) -> dict[int, str]:
    """Return the statements that only make narrative calls, with the first word that each calls.

    Several calls on a line, `text(…), link(…)`, are one such statement. Only names imported from a vocabulary count;
    the lecture's own function named `text` is code.
    """
    names = words_of(parsed) | {name: name for name in emitting_functions(parsed)}
    lines = [one for one in parsed.statements if _only_calls(one.node, names)]
    return {one.number: names[ast.unparse(calls_on_a_line(one.node)[0].func)] for one in lines}


def with_compounds(parsed: ParsedSource, narrative: Collection[int], inspected: Collection[int] = ()) -> set[int]:
    """Return these statements and the compound statements that contain only these, except inspected ones.

    A bare `return` behind such statements belongs to them.
    """
    narrative, inner = set(narrative), defaultdict[int | None, list[Statement]](list)
    for statement in reversed(parsed.statements):
        if statement.number not in inspected and isinstance(statement.node, COMPOUND):
            body = inner[statement.number]
            emits = any(one.number in narrative for one in body)
            code = (one.node for one in body if one.number not in narrative)
            ends = (isinstance(n, ast.Pass) or (isinstance(n, ast.Return) and not n.value and emits) for n in code)
            if body and all(ends):
                narrative |= {statement.number, *(one.number for one in body)}
        inner[statement.parent].append(statement)
    return narrative


def emitting_functions(parsed: ParsedSource) -> frozenset[str]:
    """Return the functions that only pass their arguments to another tool's words: `def article(url): link(url=url)`.

    They are used like the words, so they get no probes. Their output belongs to the line that calls them.
    """
    return _passing_on(parsed, {*words_of(parsed, BORROWED)})


def _passing_on(parsed: ParsedSource, names: set[str]) -> frozenset[str]:
    """Return the functions with parameters that only make these calls."""
    functions: set[str] = set()
    for node in parsed.tree.body if names else ():
        if isinstance(node, ast.FunctionDef) and ast.unparse(node.args):
            body = node.body[ast.get_docstring(node, clean=False) is not None :]
            lines = [ast.Expr(one.value) if isinstance(one, ast.Return) and one.value else one for one in body]
            if body and all(_only_calls(one, names | functions) for one in lines):
                functions.add(node.name)
    return frozenset(functions)


def _only_calls(node: ast.stmt, names: Collection[str]) -> bool:
    calls = calls_on_a_line(node)
    return bool(calls) and all(ast.unparse(call.func) in names for call in calls)


def words_of(parsed: ParsedSource, vocabularies: Mapping[str, frozenset[str]] = _WORDS) -> dict[str, str]:
    """Return the names by which a source calls words, "text" or "t.text" after `import edtrace as t`, with the word."""
    names: dict[str, str] = {}

    def of_module(module: str, prefix: str = "") -> dict[str, str]:
        return {f"{prefix}{word}": word for word in vocabularies.get(module, ())}

    for statement in parsed.statements:
        match statement.node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    names |= of_module(alias.name, f"{alias.asname or alias.name}.")
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                words = of_module(module)
                for alias in aliases:
                    own = alias.asname or alias.name
                    names |= words if alias.name == "*" else of_module(f"{module}.{alias.name}", f"{own}.")
                    names |= {own: words[alias.name]} if alias.name in words else {}
    return names


def is_a_line_of_calls(node: ast.stmt) -> bool:
    """Return whether a statement only makes calls: `f(…)`, `f(…), g(…)` or `return f(…)`."""
    return bool(calls_on_a_line(node)) or (isinstance(node, ast.Return) and isinstance(node.value, ast.Call))


@lru_cache(maxsize=8)  # traces that are compared usually ran the same source
def parsed_or_none(source: SourceFile) -> ParsedSource | None:
    """Return the parsed source of a trace, if it is valid in this Python version."""
    try:
        return parse_source(source.text, source.path)
    except LectureError:
        return None


def narrating(source: SourceFile) -> frozenset[int]:
    """Return the statements of a trace that only make narrative calls, or import them, by number.

    So do functions that only pass their arguments to such calls, and compound statements that only contain such calls
    and have no call in their header. Their time is not the lecture's work.
    """
    if (parsed := parsed_or_none(source)) is None:
        return frozenset()
    names = {*words_of(parsed)}
    names |= _passing_on(parsed, names)
    lines = {one.number for one in parsed.statements if _only_calls(one.node, names)}
    imports = [(one.number, one.node) for one in parsed.statements if isinstance(one.node, ast.ImportFrom)]
    lines |= {number for number, node in imports if (node.module or "").split(".")[0] == OURS}

    def calls_in_header(node: ast.stmt) -> bool:
        header = (child for child in ast.iter_child_nodes(node) if not isinstance(child, (ast.stmt, *CLAUSES)))
        return any(isinstance(part, ast.Call) for one in header for part in ast.walk(one))

    found, nodes = with_compounds(parsed, lines), parsed.statements
    return frozenset(number for number in found if number in lines or not calls_in_header(nodes[number].node))
