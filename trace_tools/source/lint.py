"""Find mistakes in a lecture from its source, without running it.

    for mistake in mistakes(Path("lecture.py")):      # in order of their lines
        print(mistake)                                # lecture.py:12: unknown directive `@inpsect`; did you mean …

`refuse_what_cannot_run` finds mistakes that stop a trace before it starts. The others concern the tools' own words, and
a run shows them late or never: a wrong directive, an unknown name in an `@inspect`, a call of the vocabulary that does
not fit its signature, a section that is never called. Wrong values are left to the run, because each call explains its
own, and matters of Python to linters.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import symtable
import sys
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from trace_tools.errors import LectureError
from trace_tools.lecture import vocabulary
from trace_tools.source.directives import Directive, parse_directives
from trace_tools.source.statements import (
    FUNCTIONS,
    ParsedSource,
    main_of,
    not_valid,
    qualified_name,
    read_source,
    sections,
    uncalled_main,
)
from trace_tools.source.vocabularies import OUR_WORDS, narrative_calls, uses_words, words_of
from trace_tools.trace.model import MODULE
from trace_tools.util.files import why_not_inside

OF_PYTHON = frozenset(  # names that a module need not bind
    (*dir(builtins), "__file__", "__builtins__", "__annotations__", "__class__", "__module__", "__qualname__")
)
NAMESPACES = frozenset({"exec", "globals", "locals", "vars", "setattr"})  # where they are used, names may be unknown


def mistakes(path: Path, source: ParsedSource | None = None) -> list[LectureError]:
    """Return the mistakes in a lecture, in order of their lines. Raises LectureError if it is not valid Python.

    Pass `source` if the text was read before, because the file may have changed since.
    """
    source = source or read_source(path)
    errors: list[LectureError] = []
    directives = parse_directives(source, errors)
    try:
        refuse_what_cannot_run(source)
        errors += _wrong_names(source, directives)
        main = source.functions.get(main_of(source))
        if main is not None and not sections(source):
            text = f"`{qualified_name(main)}` calls no function of the lecture; expected a call for each section"
            errors.append(LectureError(path, main.line, text))
    except LectureError as error:
        errors.append(error)
    if (why := why_no_name(path)) is not None:
        errors.append(LectureError(path, 1, why))
    errors += _uncalled_sections(source, main_of(source))
    return sorted(errors, key=lambda error: error.line or 0)


def is_lecture(source: ParsedSource) -> bool:
    """Return whether a module looks like a lecture, with a `main`, cells, a directive, or words of the vocabulary."""
    wrong: list[LectureError] = []  # a misspelt directive also counts
    is_divided = main_of(source) != MODULE or bool(source.aside)
    return is_divided or uses_words(source) or bool(parse_directives(source, wrong) or wrong)


def why_no_name(path: Path) -> str | None:
    """Return why a file's name cannot be used for a lecture, if it cannot."""
    if path.stem in sys.stdlib_module_names:
        return f"has the name of Python's own module `{path.stem}` and would replace it; rename the file"
    return None


def refuse_what_cannot_run(source: ParsedSource) -> None:
    """Raise LectureError for a name that no trace can hold, code that does not compile, or a `main` that can't run."""
    if (why := why_not_inside(Path(source.path).name)) is not None:
        raise LectureError(source.path, None, f"can't be a lecture's name: {why}")
    try:
        with warnings.catch_warnings(action="ignore"):  # the run shows them
            compile(source.tree, source.path, "exec", dont_inherit=True)
    except SyntaxError as error:  # code that parses, as `return` in no function
        raise LectureError(source.path, error.lineno, not_valid(error)) from None
    except (RecursionError, MemoryError, ValueError):  # the run reports its own limits
        pass
    main = source.functions.get(uncalled_main(source) or "")
    node = main.node if main is not None else None
    if not isinstance(node, FUNCTIONS) or node.decorator_list:  # the decorator decides what runs
        return
    call = 'expected a call of it under `if __name__ == "__main__":`'
    if _needs_arguments(node):
        raise LectureError(source.path, node.lineno, f"`main` needs arguments, but nothing calls it; {call}")
    if isinstance(node, ast.AsyncFunctionDef):
        call += ", `asyncio.run(…)`"
        raise LectureError(source.path, node.lineno, f"`main` is `async`, but nothing runs it; {call}")


def _needs_arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    given = function.args
    return len(given.posonlyargs) + len(given.args) > len(given.defaults) or None in given.kw_defaults


def _wrong_names(source: ParsedSource, directives: Iterable[Directive]) -> Iterator[LectureError]:
    """Yield errors for wrong uses of the vocabulary, and for unknown names in `@inspect`."""
    scopes = [symtable.symtable(source.text, source.path, "exec")]  # names as Python's compiler resolves them
    for scope in scopes:
        scopes += scope.get_children()
    yield from _wrong_calls(source, scopes)
    nodes = [*ast.walk(source.tree)]
    stars = (node for node in nodes if isinstance(node, ast.ImportFrom) and node.names[0].name == "*")
    if any(stars) or any(isinstance(node, ast.Name) and node.id in NAMESPACES for node in nodes):
        return  # names are bound that the source does not show
    symbols = chain.from_iterable(scope.get_symbols() for scope in scopes)
    bound = {one.get_name() for one in symbols if one.is_assigned() or one.is_imported() or one.is_parameter()}
    bound |= OF_PYTHON
    for directive in directives:
        for one in directive.inspected:
            read = {node.id for node in ast.walk(one.node) if isinstance(node, ast.Name) and not one.is_return}
            if missing := sorted(read - bound):
                why = f"`@inspect {one.source}`: nothing here is named `{missing[0]}`{_near(missing[0], bound)}"
                yield LectureError(source.path, directive.line, why)


def _uncalled_sections(source: ParsedSource, main: str) -> Iterator[LectureError]:
    """Yield an error for each function with narrative calls and without parameters that the file never names again."""
    if source.functions.get(main) is None:
        return
    parts = [*ast.walk(source.tree)]
    named = {part.id for part in parts if isinstance(part, ast.Name)}
    named |= {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    narrating = {source.statements[number].function for number in narrative_calls(source)} - {main, *named}
    for node in (one for one in source.tree.body if isinstance(one, FUNCTIONS) and one.name in narrating):
        if not node.decorator_list and not _needs_arguments(node):
            why = f"section `{node.name}` is never called; expected a call in `{main}`"
            yield LectureError(source.path, node.lineno, why)


def _near(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(names), 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def _wrong_calls(source: ParsedSource, scopes: Iterable[symtable.SymbolTable]) -> Iterator[LectureError]:
    """Yield errors for calls of the vocabulary that do not fit the signature."""
    functions = (one for scope in scopes if scope.get_type() != "class" for one in scope.get_symbols())
    rebound = {one.get_name() for one in functions if one.is_assigned() or one.is_parameter()}
    words = {name: word for name, word in words_of(source, OUR_WORDS).items() if name.split(".")[0] not in rebound}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and (word := words.get(ast.unparse(node.func))) is not None:
            given = {keyword.arg or "**": keyword.value for keyword in node.keywords}
            if "**" not in given and not any(isinstance(one, ast.Starred) for one in node.args):
                try:
                    inspect.signature(getattr(vocabulary, word)).bind(*node.args, **given)
                except TypeError as error:
                    yield LectureError(source.path, node.lineno, f"{word}: {error}")
