"""What can be told of a lecture's mistakes from its source alone: nothing of it is run.

    for mistake in mistakes(Path("lecture.py")):      # in order of their lines
        print(mistake)                                # lecture.py:12: `@inpsect` …; did you mean `@inspect`?

Directives are read as for a trace, all of them. Of the calls of a lecture's words, the arguments are held against the
words' signatures; a call whose arguments are literals is made, with nobody listening, so that the word itself says what
is wrong with them. Names that the file gives to nothing can't be inspected, and a text in which one of its names stands
in braces was meant to be an f-string.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from trace_tools import formats, narrative
from trace_tools.directives import Directive, parse_directives
from trace_tools.errors import LectureError
from trace_tools.imports import OURS
from trace_tools.statements import MAIN, ParsedSource, not_valid, read_source, sections

TOOLS = ("count", "device", "measure", "peak_bandwidth", "peak_flops")  # what a lecture imports besides its words


MATH_OR_CODE = re.compile(r"\$\$.*?\$\$|\$[^$]*\$|`[^`]*`", re.DOTALL)  # of Markdown, where braces are its own
FIELD = re.compile(r"(?<![\w{}^\\])\{([A-Za-z_]\w*)(?:[.\[!:][^{}]*)?\}(?!\})")  # as an f-string has it


def mistakes(path: Path, source: ParsedSource | None = None) -> list[LectureError]:
    """Return what is wrong in a lecture, in order of the lines. Raises LectureError where it is no Python.

    `source` is its text where that was read before: the file may be another by now.
    """
    source = source or read_source(path)
    found: list[LectureError] = []
    directives = parse_directives(source, found)
    try:
        refuse_uncompilable(source)
    except LectureError as error:
        found.append(error)
    try:
        if not path.with_name("__init__.py").exists():  # in a package, it depends on how the lecture is run
            refuse_relative_imports(source)
    except LectureError as error:
        found.append(error)
    try:
        refuse_without_main(source)
        if not sections(source):
            line = source.function("main")
            told = "`main` calls no function of the lecture; expected one call for each section"
            found.append(LectureError(path, line.line if line else None, told))
    except LectureError as error:
        found.append(error)
    if (why := why_no_name(path)) is not None:
        found.append(LectureError(path, 1, why))
    known = _names(source.tree)
    found += _wrong_calls(source, known)
    found += _wrong_inspections(source, directives, known)
    return sorted(found, key=lambda error: error.line or 0)


def why_no_name(path: Path) -> str | None:
    """Say why a file's name is none for a lecture, whatever is in it; None where it is one."""
    if path.stem in sys.stdlib_module_names:
        return f"is named like Python's own module `{path.stem}`, which nothing run beside it could import any more"
    return None


def refuse_uncompilable(source: ParsedSource) -> None:
    """Raise LectureError at what Python parses, and refuses all the same: `return` outside a function, say."""
    try:
        with warnings.catch_warnings(action="ignore"):  # the run gives them
            compile(source.tree, source.path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise LectureError(source.path, error.lineno, not_valid(error)) from None
    except (RecursionError, MemoryError, ValueError):  # the run says what it can't do
        return


def refuse_without_main(source: ParsedSource) -> None:
    """Raise LectureError where a source defines no `main` that can be called as it is."""
    expected = "expected `def main():`, which runs the lecture"
    main = source.function(MAIN)
    if main is None:
        raise LectureError(source.path, 1, f"defines no function `main`; {expected}")
    assert isinstance(main.node, (ast.FunctionDef, ast.AsyncFunctionDef))
    if main.node.decorator_list:  # what is called is what that makes of it
        return
    given = main.node.args
    positional = [*given.posonlyargs, *given.args]
    needed = positional[: len(positional) - len(given.defaults)]
    needed += [one for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    if needed:
        names = ", ".join(f"`{one.arg}`" for one in needed)
        raise LectureError(source.path, main.line, f"`main` needs {names}, which nobody gives it; {expected}")
    if isinstance(main.node, ast.AsyncFunctionDef):
        told = "`main` is `async`, and calling it runs nothing; expected `def main():`, with `asyncio.run(…)` in it"
        raise LectureError(source.path, main.line, told)


def refuse_relative_imports(source: ParsedSource) -> None:
    """Raise LectureError where a lecture that is no part of a package imports as one, when it is loaded."""
    for node in source.tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            path = Path(source.path).resolve()
            names = ", ".join(alias.name for alias in node.names)
            dots = "." * node.level + (node.module or "")
            if path.with_name("__init__.py").exists():
                parts = [path.stem]
                for folder in path.parents:
                    if not (folder / "__init__.py").exists():
                        break
                    parts.insert(0, folder.name)
                expected = f"in a package: expected `trace -m {'.'.join(parts)}`, in the folder above it"
            else:
                absolute = f"from {node.module} import {names}" if node.module else f"import {names}"
                expected = f"for the modules of a package; what lies beside a lecture: `{absolute}`"
            raise LectureError(source.path, node.lineno, f"`from {dots} import {names}` is {expected}")


def _names(tree: ast.Module) -> frozenset[str] | None:
    """Return all names that a module gives to anything, anywhere in it; None where they can't be known."""
    found = {*vars(builtins), "__name__", "__file__", "__doc__", "__class__"}
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
            case ast.Import() | ast.ImportFrom():
                if any(alias.name == "*" for alias in node.names):
                    return None
                found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
            case ast.Call(func=ast.Name(id="exec" | "globals" | "setattr")):
                return None
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
                found.add(node.name or "")
            case ast.MatchMapping():
                found.add(node.rest or "")
            case ast.arg():
                found.add(node.arg)
            case ast.Global():
                found |= {*node.names}
    return frozenset(found)


def _wrong_inspections(
    source: ParsedSource, directives: Sequence[Directive], known: frozenset[str] | None
) -> Iterator[LectureError]:
    """Yield names that the file gives to nothing, and units that are nearly known."""
    for directive in directives:
        for one in directive.inspected:
            names = [node.id for node in ast.walk(one.node) if isinstance(node, ast.Name)]
            if missing := [name for name in names if known is not None and name not in known]:
                told = f"`@inspect {one.source}`: nothing here is named `{missing[0]}`{_near(missing[0], known or ())}"
                yield LectureError(source.path, directive.line, told)
            if one.unit is not None and (unit := formats.near_unit(one.unit)) is not None:
                told = f"`[{one.unit}]` is shown as it stands, without prefixes; did you mean `[{unit}]`?"
                yield LectureError(source.path, directive.line, told)


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def _wrong_calls(source: ParsedSource, known: frozenset[str] | None) -> Iterator[LectureError]:
    """Yield what is imported and isn't there, words that are not imported, and calls that can't do what they should."""
    words: dict[str, str] = {}  # by the name that the lecture has for it, where that means nothing else
    bound = {node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name) and not _is_read(node)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module == OURS and not node.level:
            for alias in node.names:
                if alias.name in narrative.VOCABULARY:
                    if (name := alias.asname or alias.name) not in bound:
                        words[name] = alias.name
                elif not _is_there(alias.name):
                    hint = _near(alias.name, [*narrative.VOCABULARY, *TOOLS])
                    yield LectureError(source.path, node.lineno, f"{OURS} has no `{alias.name}`{hint}")
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        if word := _word(node.func, words):
            why = _why_it_fails(word, node) or _why_not_meant(word, node, source, known)
            if why is not None:
                yield LectureError(source.path, node.lineno, why)
        elif ast.unparse(node.func) == "plt.show" and known is not None and "plt" in known:
            yield LectureError(source.path, node.lineno, "plt.show() shows nothing on a page; expected plot(plt.gcf())")
        elif (name := ast.unparse(node.func)) in {*narrative.VOCABULARY, *TOOLS} and name not in (known or {name}):
            told = f"`{name}` is not imported; expected `from {OURS} import {name}`"
            yield LectureError(source.path, node.lineno, told)


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


def _why_not_meant(word: str, call: ast.Call, source: ParsedSource, known: frozenset[str] | None) -> str | None:
    """Say what a call that runs most likely was meant to do; None where it may be right."""
    first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    if not isinstance(first, str):
        return None
    if word in narrative.PROSE:
        for field in FIELD.finditer(MATH_OR_CODE.sub("", first)):
            if known is not None and field[1] in known and not hasattr(builtins, field[1]):
                return f'{word}: `{field[0]}` is shown as it stands; expected an f before the string: {word}(f"…")'
    if word == "image":
        constants = [node for node in ast.walk(source.tree) if isinstance(node, ast.Constant)]
        others = [node.value for node in constants if isinstance(node.value, str) and node is not call.args[0]]
        made = any(text.endswith(Path(first).name) for text in others)  # by the lecture itself
        if not made and not Path(source.path).parent.joinpath(first).exists():
            return f"image: {first!r} is not there; expected a file beside the lecture"
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
