"""Which words tell the reader something, in each vocabulary that a lecture may be written in, and what each tells.

    VOCABULARIES["edtrace"].modules["edtrace"]["system_text"]      "text": the kind of narrative that it makes
    narrative_calls(parse_source("from edtrace import text\\ntext('a'), text('b')\\n", "l.py"))      {1: "text"}
    detected({"execute_util", "torch"})                            ("cs336",)

The recorder and the layout of pages both read this table. That a helper of the lecture's own tells something is no
word's doing: it is known from the run (`rendering.passages`).
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from trace_tools import narrative
from trace_tools.statements import ParsedSource

OURS = "trace_tools"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The modules a lecture imports its words from; in each, the words and the kind of narrative each makes."""

    name: str
    modules: Mapping[str, Mapping[str, str]]
    helpers: frozenset[str] = frozenset()  # modules that come with these, which have no words

    @property
    def names(self) -> frozenset[str]:
        """All modules of the vocabulary."""
        return frozenset(self.modules) | self.helpers


_OURS = {word: "text" if word == "decide" else word for word in narrative.VOCABULARY}
_EDTRACE = {
    "text": "text",
    "system_text": "text",
    "note": "note",
    "link": "link",
    "image": "image",
    "video": "video",
    "plot": "plot",  # or a table of its data, where it can't be drawn
    "graph": "plot",
}

VOCABULARIES: Mapping[str, Vocabulary] = {
    one.name: one
    for one in (
        Vocabulary(OURS, {OURS: _OURS, f"{OURS}.narrative": _OURS}),
        Vocabulary(
            "edtrace",
            {"edtrace": _EDTRACE, "edtrace.execute_util": _EDTRACE},
            frozenset({"edtrace.reference", "edtrace.arxiv_util", "edtrace.file_util"}),
        ),
        # Modules that lie beside the lectures of Stanford's course CS336, of 2025; edtrace was made of them.
        Vocabulary("cs336", {"execute_util": _EDTRACE}, frozenset({"reference", "arxiv_util", "file_util"})),
    )
}
BORROWED = tuple(name for name in VOCABULARIES if name != OURS)  # those of other tools


def detected(imported: Collection[str]) -> tuple[str, ...]:
    """Return which other tools' vocabularies a lecture uses, by the modules that it imports."""
    return tuple(name for name in BORROWED if not VOCABULARIES[name].modules.keys().isdisjoint(imported))


def narrative_calls(parsed: ParsedSource) -> dict[int, str]:
    """Return the statements that do nothing but call words, with the first word that each calls."""
    return {number: word for number, (word, _) in words_called(parsed).items()}


def words_called(parsed: ParsedSource) -> dict[int, tuple[str, bool]]:
    """Return the statements that do nothing but call words: the first one, and whether it is another tool's.

    Several on a line, `text(…), link(…)`, are one such statement. Only what the lecture imported from a vocabulary
    counts: its own function named `text` is code.
    """
    words: dict[str, tuple[str, bool]] = {}  # by the name that the lecture has for it: the word
    modules: dict[str, str] = {}  # by the name that the lecture has for the module
    for statement in parsed.statements:
        node = statement.node
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            known = _words_of(node.module)
            for alias in node.names:
                if alias.name == "*":
                    words |= {name: (name, _is_borrowed(node.module)) for name in known}
                elif alias.name in known:
                    words[alias.asname or alias.name] = alias.name, _is_borrowed(node.module)
                elif _words_of(f"{node.module}.{alias.name}"):
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names if _words_of(alias.name)}

    def word(call: ast.Call) -> tuple[str, bool] | None:
        match call.func:
            case ast.Name(name):
                return words.get(name)
            case ast.Attribute(ast.Name() | ast.Attribute() as of, name):
                module = modules.get(ast.unparse(of), "")
                return (name, _is_borrowed(module)) if name in _words_of(module) else None
        return None

    found: dict[int, tuple[str, bool]] = {}
    for statement in parsed.statements:
        called = [word(call) for call in calls_on_a_line(statement.node)]
        if called and called[0] is not None and all(called):
            found[statement.number] = called[0]
    return found


def calls_on_a_line(node: ast.stmt) -> list[ast.Call]:
    """Return the calls of a statement that is nothing but calls, `f(…)` or `f(…), g(…)`; else none."""
    if not isinstance(node, ast.Expr):
        return []
    parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    calls = [part for part in parts if isinstance(part, ast.Call)]
    return calls if len(calls) == len(parts) else []


def _words_of(module: str) -> Mapping[str, str]:
    """Return the words that a module has. Of ours, any part of the package may be where a lecture has them from."""
    if module.split(".")[0] == OURS:
        return _OURS
    return next((v.modules[module] for v in VOCABULARIES.values() if module in v.modules), {})


def _is_borrowed(module: str) -> bool:
    return module.split(".")[0] != OURS
