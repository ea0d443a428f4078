"""Find mistakes in a lecture from its source, without running it.

    for mistake in mistakes(Path("lecture.py")):      # in order of their lines
        print(mistake)                                # lecture.py:12: `@inpsect` …; did you mean `@inspect`?

All directives are parsed as for a trace. Arguments of vocabulary calls are checked against the signatures. A call with
literal arguments is executed without a recorder, so that the function itself reports its error. Further mistakes are a
name that the file never binds, in its code or in an `@inspect`; a directive without its `@`; a section that is never
called; and a text with a name of the file in braces, which was probably meant to be an f-string.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import trace_tools
from trace_tools.errors import LectureError
from trace_tools.lecture import vocabulary
from trace_tools.lecture.vocabulary import why_no_link
from trace_tools.source.directives import has_directives, parse_directives, without_at
from trace_tools.source.imports import OURS
from trace_tools.source.statements import (
    FUNCTIONS,
    ParsedSource,
    bare_call,
    calls_on_a_line,
    not_valid,
    reached,
    read_source,
    sections,
)
from trace_tools.source.vocabularies import narrative_calls, uses_words, words_called
from trace_tools.trace.model import MAIN, MODULE
from trace_tools.util import formats

# further imports of lectures besides the vocabulary
TOOLS = ("count", "device", "measure", "peak_bandwidth", "peak_flops")


# of Markdown, where braces have a meaning of their own
MATH_OR_CODE = re.compile(r"\$\$.*?\$\$|\$[^$]*\$|`[^`]*`", re.DOTALL)
FIELD = re.compile(r"(?<![\w{}^\\])\{([A-Za-z_]\w*)(?:[.\[!:][^{}]*)?\}(?!\})")  # as in an f-string


# For functions that allow judging their arguments separately, a substitute for each argument that only a run knows.
STAND_INS: Mapping[str, Mapping[str, Any]] = {
    "text": {"markdown": ""},
    "note": {"markdown": ""},
    "link": {"url": "https://example.org"},
    "image": {"path": "a.png"},
}
_DISPLAYS: Mapping[type, Callable[[], Any]] = {
    **dict.fromkeys((ast.List, ast.ListComp), list),
    **dict.fromkeys((ast.Dict, ast.DictComp), dict),
    **dict.fromkeys((ast.Set, ast.SetComp), set),
    ast.Tuple: tuple,
}


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def mistakes(path: Path, source: ParsedSource | None = None, main: str = MAIN) -> list[LectureError]:
    """Return the mistakes in a lecture, in order of their lines. Raises LectureError if it is not valid Python.

    Pass `source` if the text was read before, because the file may have changed since. `main` is the name of the
    function that runs the lecture.
    """
    source = source or read_source(path)
    errors: list[LectureError] = []
    directives = parse_directives(source, errors)
    try:
        refuse_uncompilable(source)
    except LectureError as error:
        errors.append(error)
    try:
        if not path.with_name("__init__.py").exists():  # in a package, it depends on how the lecture is started
            refuse_relative_imports(source)
    except LectureError as error:
        errors.append(error)
    try:
        refuse_without_main(source, main)
        if not sections(source, main):
            line = source.function(main)
            text = f"`{main}` calls no function of the lecture; expected a call for each section"
            errors.append(LectureError(path, line.line if line else None, text))
    except LectureError as error:
        errors.append(error)
    if (why := why_no_name(path)) is not None:
        errors.append(LectureError(path, 1, why))
    names = _names(source.tree)
    errors += _wrong_calls(source, names)
    if names is not None:
        errors += _unbound_names(source)
        errors += _uncalled_sections(source, main)
        for number, text in without_at(source, names):
            errors.append(LectureError(path, number, f"`# {text}` has no effect; did you mean `# @{text}`?"))
    errors += _wrong_borrowed_calls(source)
    for directive in directives:
        for one in directive.inspected:
            read = [node.id for node in ast.walk(one.node) if isinstance(node, ast.Name) and not one.is_return]
            if missing := [name for name in read if names is not None and name not in names]:
                why = f"`@inspect {one.source}`: nothing here is named `{missing[0]}`{_near(missing[0], names or ())}"
                errors.append(LectureError(source.path, directive.line, why))
            if one.unit is not None and (unit := formats.near_unit(one.unit)) is not None:
                why = f"`[{one.unit}]` is shown literally, without prefixes; did you mean `[{unit}]`?"
                errors.append(LectureError(source.path, directive.line, why))
    return sorted(errors, key=lambda error: error.line or 0)


def is_lecture(source: ParsedSource, main: str = MAIN) -> bool:
    """Return whether a module looks like a lecture, with a `main`, a directive, or an import of the vocabulary."""
    return source.function(main) is not None or uses_words(source) or has_directives(source)


def why_no_name(path: Path) -> str | None:
    """Return why a file's name cannot be used for a lecture, or None if it can."""
    if path.stem in sys.stdlib_module_names:
        return f"has the name of Python's own module `{path.stem}` and would replace it; rename the file"
    return None


def refuse_uncompilable(source: ParsedSource) -> None:
    """Raise LectureError for code that parses but does not compile, such as `return` outside a function."""
    try:
        with warnings.catch_warnings(action="ignore"):  # the run shows them
            compile(source.tree, source.path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise LectureError(source.path, error.lineno, not_valid(error)) from None
    except (RecursionError, MemoryError, ValueError):  # the run reports its own limits
        return


def refuse_without_main(source: ParsedSource, main: str = MAIN) -> None:
    """Raise LectureError if a source defines no function `main` that can be called without arguments."""
    expected = f"expected `def {main}():`, which runs the lecture"
    definition = source.function(main)
    if definition is None or definition.function != MODULE:
        # The likeliest first: the functions that `if __name__ == "__main__":` calls, then the one with the file's name.
        under = [node for node in source.tree.body if isinstance(node, ast.If) and "__main__" in ast.dump(node.test)]
        called = [bare_call(inner) for node in under for inner in node.body]
        hint = ""
        for name in (*reversed(called), Path(source.path).stem):
            candidate = source.function(name) if name not in (None, main) else None
            node = candidate.node if candidate is not None and candidate.function == MODULE else None
            if isinstance(node, ast.FunctionDef) and not _needed(node):
                hint = f", or `--main {node.name}`"
                break
        raise LectureError(source.path, 1, f"defines no function `{main}`; {expected}{hint}")
    node = definition.node
    assert isinstance(node, FUNCTIONS)
    if node.decorator_list:  # the decorator decides which function runs
        return
    if needed := _needed(node):
        names = ", ".join(f"`{name}`" for name in needed)
        raise LectureError(source.path, definition.line, f"`{main}` needs {names}, but gets no arguments; {expected}")
    if isinstance(node, ast.AsyncFunctionDef):
        why = f"`{main}` is `async`, so a plain call does not run it; {expected}, with `asyncio.run(…)` in it"
        raise LectureError(source.path, definition.line, why)


def _needed(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the parameters without a default."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    needed = positional[: len(positional) - len(given.defaults)]
    needed += [one for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    return [one.arg for one in needed]


def refuse_relative_imports(source: ParsedSource) -> None:
    """Raise LectureError if a lecture outside a package uses relative imports at module level."""
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
                expected = f"in a package; run `trace-tools trace -m {'.'.join(parts)}` in the folder above it"
            else:
                absolute = f"from {node.module} import {names}" if node.module else f"import {names}"
                expected = f"only for the modules of a package; expected `{absolute}` for a file next to the lecture"
            raise LectureError(source.path, node.lineno, f"`from {dots} import {names}` is {expected}")


def _names(tree: ast.Module) -> frozenset[str] | None:
    """Return all names that a module binds anywhere, or None if they cannot be known."""
    names = _known_to_python()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(names=aliases) if any(alias.name == "*" for alias in aliases):
                return None
            case ast.Call(func=ast.Name(id="exec" | "globals" | "setattr")):
                return None
            case ast.Call(func=ast.Name(id="vars" | "locals" | "dir"), args=[]):
                return None
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules") | ast.alias(name="builtins"):
                return None
        names |= _bound_by(node)
    return names


def _known_to_python() -> frozenset[str]:
    of_modules = {"__name__", "__file__", "__doc__", "__spec__", "__package__", "__loader__", "__builtins__"}
    return frozenset({*vars(builtins), *of_modules, "__annotations__", "__class__", "__module__", "__qualname__"})


def _bound_by(node: ast.AST) -> set[str]:
    """Return the names that this node itself binds in its scope."""
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()):
            return {node.id}
        case ast.alias():
            return {node.asname or node.name.partition(".")[0]}
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return {node.name or ""}
        case ast.MatchMapping():
            return {node.rest or ""}
        case ast.arg():
            return {node.arg}
        case ast.Global():
            return {*node.names}
    is_parameter = type(node).__name__ in ("TypeVar", "ParamSpec", "TypeVarTuple")  # from Python 3.12 on
    return {vars(node)["name"]} if is_parameter else set()


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, *_COMPREHENSIONS)


def _unbound_names(source: ParsedSource) -> Iterator[LectureError]:
    """Yield an error for the first use of each name that is bound neither in its scope nor in one around it.

    Annotations are left out, because most are never evaluated, and so is code whose errors the lecture may catch.
    """
    errors: dict[str, LectureError] = {}

    def bound_in(scope: ast.AST) -> Iterator[str]:
        """Yield the names that a scope binds, and those of its parameters; inner scopes bind their own."""
        waiting = [*ast.iter_child_nodes(scope)]
        while waiting:
            node = waiting.pop()
            yield from _bound_by(node)
            if not isinstance(node, _SCOPES):
                waiting += ast.iter_child_nodes(node)
            elif isinstance(node, _COMPREHENSIONS):  # `:=` in it binds in the scope around it
                inner = (part.target for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
                waiting += inner

    def visit(node: ast.AST, known: frozenset[str]) -> None:
        if isinstance(node, _SCOPES):
            known |= {*bound_in(node)}
        elif isinstance(node, (ast.Try, ast.TryStar)) and node.handlers:
            known |= {part.id for inner in node.body for part in ast.walk(inner) if isinstance(part, ast.Name)}
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            manager = " ".join(ast.unparse(item) for item in node.items)
            if "NameError" in manager or "Exception" in manager:
                return
        elif isinstance(node, ast.Name) and node.id not in known and node.id not in errors:
            hint = _near(node.id, known)
            text = f"`{node.id}` is not defined{hint}"
            if node.id in {*vocabulary.VOCABULARY, *TOOLS}:
                text = f"`{node.id}` is not imported; expected `from {OURS} import {node.id}`"
            errors[node.id] = LectureError(source.path, node.lineno, text)
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        visit(child, known)

    shared = {name for node in ast.walk(source.tree) if isinstance(node, ast.Global) for name in node.names}
    visit(source.tree, _known_to_python() | shared | {*bound_in(source.tree)})
    yield from errors.values()


def _uncalled_sections(source: ParsedSource, main: str) -> Iterator[LectureError]:
    """Yield an error for each function with narrative calls and without parameters that nothing in the file names."""
    functions = {node.name: node for node in source.tree.body if isinstance(node, FUNCTIONS)}
    if main not in functions:
        return

    def read_in(*nodes: ast.AST) -> set[str]:
        parts = [part for node in nodes for part in ast.walk(node)]
        texts = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
        return texts | {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}

    uses = {name: read_in(node) for name, node in functions.items()}
    others = [node for node in source.tree.body if not isinstance(node, FUNCTIONS)]
    called = reached([main, *read_in(*others)], uses)
    telling = {source.statements[number].function for number in narrative_calls(source)}
    for name, node in functions.items():
        if name in telling and name not in called and not node.decorator_list and not _needed(node):
            why = f"section `{name}` is never called; expected a call in `{main}`"
            yield LectureError(source.path, node.lineno, why)


def _near(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(names), 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def _wrong_calls(source: ParsedSource, names: frozenset[str] | None) -> Iterator[LectureError]:
    """Yield errors for imports that do not exist, and for calls that cannot do as intended."""
    words = _words(source)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module == OURS and not node.level:
            for alias in node.names:
                part = Path(trace_tools.__file__).with_name(alias.name)
                exists = alias.name in ("*", *vocabulary.VOCABULARY, *dir(trace_tools)) or part.is_dir()
                if not exists and not part.with_suffix(".py").is_file():
                    hint = _near(alias.name, [*vocabulary.VOCABULARY, *TOOLS])
                    yield LectureError(source.path, node.lineno, f"{OURS} has no `{alias.name}`{hint}")
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        if word := _word(node.func, words):
            why = _why_it_fails(word, node) or _why_not_meant(word, node, source, names)
            if why is not None:
                yield LectureError(source.path, node.lineno, why)
        elif ast.unparse(node.func) == "plt.show" and names is not None and "plt" in names:
            yield LectureError(source.path, node.lineno, "plt.show() does nothing here; expected plot(plt.gcf())")


def _wrong_borrowed_calls(source: ParsedSource) -> Iterator[LectureError]:
    """Yield errors for calls of another tool's vocabulary with an invalid address, path or style."""
    borrowed = [number for number, (_, theirs) in words_called(source).items() if theirs]
    for call in (call for number in borrowed for call in calls_on_a_line(source.statements[number].node)):
        word = ast.unparse(call.func).rpartition(".")[2]
        first, second = (
            part.value if isinstance(part, ast.Constant) else None for part in (*call.args, None, None)[:2]
        )
        why = None
        if isinstance(second, str) and word in ("link", "text", "image", "video"):
            why = f"{word}: found {second[:80]!r} as the style; expected a dict of CSS properties"
            why += ", or link(title=…, url=…)" if word == "link" else ""
        elif word == "link" and isinstance(first, str) and (wrong := why_no_link(first)) is not None:
            why = f"{word}: {wrong}"
        elif word in ("image", "video") and isinstance(first, str) and _is_missing(first, call.args[0], source):
            why = f"{word}: {first!r} does not exist; expected a file next to the lecture, or an address"
        if why is not None:
            yield LectureError(source.path, call.lineno, why)


def refuse_failing_calls(source: ParsedSource) -> None:
    """Raise LectureError at the first vocabulary call that must fail, unless the lecture may catch the error."""
    words = _words(source)
    if not words and OURS not in source.text:
        return
    failing = [
        (node.lineno, why)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and (word := _word(node.func, words)) and (why := _why_it_fails(word, node))
    ]
    guarded: set[int] = set()  # lines
    for statement in source.statements if failing else ():
        node = statement.node
        catches = isinstance(node, (ast.Try, ast.TryStar)) and node.handlers
        if catches or isinstance(node, (ast.With, ast.AsyncWith)):
            body: list[ast.stmt] = node.body  # type: ignore[attr-defined]
            guarded |= {*range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1)}
    for line, why in sorted(failing):
        if line not in guarded:
            raise LectureError(source.path, line, why)


def _words(source: ParsedSource) -> dict[str, str]:
    """Return the imported vocabulary calls by their local names, without names that the lecture rebinds."""
    words: dict[str, str] = {}
    bound: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            ours = isinstance(node, ast.ImportFrom) and node.module == OURS and not node.level
            for alias in node.names:
                if ours and alias.name in vocabulary.VOCABULARY:
                    words[alias.asname or alias.name] = alias.name
                else:
                    bound.add(alias.asname or alias.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    for statement in source.statements:
        is_method = statement.parent is not None and isinstance(source.statements[statement.parent].node, ast.ClassDef)
        if isinstance(statement.node, (*FUNCTIONS, ast.ClassDef)) and not is_method:
            bound.add(statement.node.name)
    return {name: word for name, word in words.items() if name not in bound}


def _word(called: ast.expr, words: dict[str, str]) -> str | None:
    """Return the vocabulary call that an expression refers to, or None."""
    match called:
        case ast.Name(id=name):
            return words.get(name)
        case ast.Attribute(value=ast.Name(id="trace_tools"), attr=name) if name in vocabulary.VOCABULARY:
            return name
    return None


def _why_not_meant(word: str, call: ast.Call, source: ParsedSource, names: frozenset[str] | None) -> str | None:
    """Return the probable mistake in a call that would run, or None."""
    first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    if not isinstance(first, str):
        return None
    if word in vocabulary.PROSE:
        for field in FIELD.finditer(MATH_OR_CODE.sub("", first)):
            if names is not None and field[1] in names and not hasattr(builtins, field[1]):
                return f'{word}: `{field[0]}` is shown literally; expected an f before the string: {word}(f"…")'
    if word == "image" and _is_missing(first, call.args[0], source):
        return f"image: {first!r} does not exist; expected a file next to the lecture"
    return None


def _is_missing(path: str, node: ast.expr, source: ParsedSource) -> bool:
    """Return whether a call names a file that is not in the lecture's folder and that the lecture does not write."""
    if path.startswith(("http://", "https://")) or Path(source.path).parent.joinpath(path).exists():
        return False
    constants = (other for other in ast.walk(source.tree) if isinstance(other, ast.Constant) and other is not node)
    return not any(isinstance(other.value, str) and other.value.endswith(Path(path).name) for other in constants)


def _why_it_fails(word: str, call: ast.Call) -> str | None:
    """Return why a call must fail, or None if it may succeed.

    The function is called with the values of the arguments, as far as the source shows them.
    """
    function, signature = getattr(vocabulary, word), _signature(word)
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    names = [keyword.arg for keyword in call.keywords]
    bind = signature.bind_partial if starred or None in names else signature.bind
    try:
        bind(*([None] * (0 if starred else len(call.args))), **{name: None for name in names if name is not None})
    except TypeError as error:
        return f"{word}: {error}"
    if starred or None in names:
        return None
    given = signature.bind(*call.args, **{str(keyword.arg): keyword.value for keyword in call.keywords})
    values: dict[str, Any] = {}
    for name, node in given.arguments.items():
        try:
            values[name] = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            if word not in STAND_INS:  # only a run can decide
                return None
            if type(node) in _DISPLAYS:
                values[name] = _DISPLAYS[type(node)]()  # empty, for `[x]`
    given = signature.bind_partial()
    given.arguments |= {**STAND_INS.get(word, {}), **values}
    try:
        function(*given.args, **given.kwargs)
    except (TypeError, ValueError) as error:
        text = str(error)
        return text if text.startswith(f"{word}:") else f"{word}: {text}"
    return None


@cache
def _signature(word: str) -> inspect.Signature:
    return inspect.signature(getattr(vocabulary, word))
