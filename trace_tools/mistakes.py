"""What can be told of a lecture's mistakes from its source alone: nothing of it is run.

    for mistake in mistakes(Path("lecture.py")):      # in order of their lines
        print(mistake)                                # lecture.py:12: `@inpsect` …; did you mean `@inspect`?

Directives are read as for a trace, all of them. Of the calls of a lecture's words, the arguments are held against the
words' signatures; a call whose arguments are literals is made, with nobody listening, so that the word itself says what
is wrong with them.
"""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Iterator
from pathlib import Path

from trace_tools import narrative
from trace_tools.directives import parse_directives
from trace_tools.errors import LectureError
from trace_tools.imports import OURS
from trace_tools.statements import ParsedSource, read_source, sections

TOOLS = ("count", "device", "measure", "peak_bandwidth", "peak_flops")  # what a lecture imports besides its words


def mistakes(path: Path) -> list[LectureError]:
    """Return what is wrong in a lecture, in order of the lines. Raises LectureError where it is no Python."""
    source = read_source(path)
    found: list[LectureError] = []
    parse_directives(source, found)
    try:
        refuse_without_main(source)
        if not sections(source):
            line = source.function("main")
            told = "`main` calls no function of the lecture; expected one call for each section"
            found.append(LectureError(path, line.line if line else None, told))
    except LectureError as error:
        found.append(error)
    found += _wrong_calls(source)
    return sorted(found, key=lambda error: error.line or 0)


def refuse_without_main(source: ParsedSource) -> None:
    """Raise LectureError where a source defines no `main`."""
    if source.function("main") is None:
        told = "defines no function `main`; expected `def main():`, which runs the lecture"
        raise LectureError(source.path, 1, told)


def _wrong_calls(source: ParsedSource) -> Iterator[LectureError]:
    """Yield what is imported and isn't there, and calls of words that could only fail."""
    words: dict[str, str] = {}  # by the name that the lecture has for it, where that means nothing else
    bound = {node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name) and not _is_read(node)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module == OURS and not node.level:
            for alias in node.names:
                if alias.name in narrative.VOCABULARY:
                    if (name := alias.asname or alias.name) not in bound:
                        words[name] = alias.name
                elif not _is_there(alias.name):
                    near = difflib.get_close_matches(alias.name, [*narrative.VOCABULARY, *TOOLS], 1)
                    hint = f"; did you mean `{near[0]}`?" if near else ""
                    yield LectureError(source.path, node.lineno, f"{OURS} has no `{alias.name}`{hint}")
    for node in ast.walk(source.tree):
        word = _word(node.func, words) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and word and (why := _why_it_fails(word, node)) is not None:
            yield LectureError(source.path, node.lineno, why)


def _is_there(name: str) -> bool:
    beside = Path(__file__).with_name(name)
    return name == "*" or name in TOOLS or beside.is_dir() or beside.with_suffix(".py").is_file()


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _word(called: ast.expr, words: dict[str, str]) -> str | None:
    """Return which of the vocabulary's words is called."""
    match called:
        case ast.Name(id=name):
            return words.get(name)
        case ast.Attribute(value=ast.Name(id="trace_tools"), attr=name) if name in narrative.VOCABULARY:
            return name
    return None


def _why_it_fails(word: str, call: ast.Call) -> str | None:
    """Say why a call of a word can only fail; None where it may be right."""
    function = getattr(narrative, word)
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    names = [keyword.arg for keyword in call.keywords]
    signature = inspect.signature(function)
    bind = signature.bind_partial if starred or None in names else signature.bind
    try:
        bind(*([None] * (0 if starred else len(call.args))), **{name: None for name in names if name is not None})
    except TypeError as error:
        return f"{word}: {error}"
    try:
        arguments = [ast.literal_eval(argument) for argument in call.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # no literals: only a run can tell
        return None
    if starred or None in names:
        return None
    try:
        function(*arguments, **named)
    except (TypeError, ValueError) as error:
        text = str(error)
        return text if text.startswith(f"{word}:") else f"{word}: {text}"
    return None
