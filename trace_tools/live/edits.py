"""Find the files whose saves matter, and choose what to trace again after a save.

    dependencies_of(source, folder)     # Dependencies(modules=(Path("shapes.py"),), images=(Path("images/loss.png"),))
    section_to_trace(SourceFile("lecture.py", old), parse_source(new, "lecture.py"))    # "matmul", or None

A section can be traced alone if only its own functions changed and no other code that `main` runs calls them. Its
random numbers still differ from a run of the whole lecture, and other sections may receive its functions as arguments.
Therefore the whole lecture is traced afterwards. Modules and images are found in the source, without running it; files
that a lecture opens are not found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trace_tools.source.statements import FUNCTIONS, ParsedSource, bare_call, reached, sections
from trace_tools.source.versions import changed_functions
from trace_tools.trace.model import MAIN, SourceFile

TOOLS = "trace_tools"  # may be in the lecture's folder; edits of it are not followed


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Files in a lecture's folder that it uses, in order; an image may not exist yet."""

    modules: tuple[Path, ...] = ()
    images: tuple[Path, ...] = ()


def dependencies_of(source: ParsedSource, folder: Path) -> Dependencies:
    """Return the modules in its folder that a lecture imports, directly or indirectly, and the images that it shows."""
    images: set[Path] = set()
    for statement in source.statements:
        match statement.node:
            case ast.Expr(ast.Call(ast.Name("image") | ast.Attribute(attr="image"), [ast.Constant(str(path)), *_])):
                images.add(folder / path)
    modules: set[Path] = set()
    waiting: list[list[ast.AST]] = [[statement.node for statement in source.statements]]
    while waiting:
        for module in _imported(waiting.pop(), folder):
            if module not in modules and module != folder / Path(source.path).name:
                modules.add(module)
                with suppress(OSError, SyntaxError, ValueError):  # the run will report the error
                    waiting.append([*ast.walk(ast.parse(module.read_bytes()))])
    return Dependencies(tuple(sorted(modules)), tuple(sorted(images)))


def _imported(nodes: Iterable[ast.AST], folder: Path) -> Iterator[Path]:
    """Yield the files in the lecture's folder that an import may execute, either a module or all of a package."""
    for node in nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module] if node.module else [alias.name for alias in node.names]
        for top in {name.split(".")[0] for name in names} - {TOOLS}:
            if (folder / top / "__init__.py").is_file():
                yield from (folder / top).rglob("*.py")
            elif (folder / f"{top}.py").is_file():
                yield folder / f"{top}.py"


def section_to_trace(traced: SourceFile, current: ParsedSource, main: str = MAIN) -> str | None:
    """Return the only section that the changed code can affect; None if there may be others.

    `main` is the function that calls the sections. Raises LectureError if the traced text is not valid Python.
    """
    changed = changed_functions(traced, current.text)
    if not changed or main in changed:
        return None
    definitions: dict[str, list[ast.AST]] = {}  # functions and classes of the module, by name
    elsewhere: list[ast.AST] = []  # code that the module executes itself, and expressions that definitions evaluate
    for node in current.tree.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            definitions.setdefault(node.name, []).append(node)
        if isinstance(node, FUNCTIONS):
            elsewhere += [*node.decorator_list, node.args]
        elif not isinstance(node, ast.If) or "__main__" not in ast.dump(node.test):
            elsewhere.append(node)
    section_names = sections(current, main)
    for statement in current.statements:  # what `main` executes besides bare calls of sections, and their arguments
        if statement.function == main and bare_call(statement.node) in section_names:
            assert isinstance(statement.node, ast.Expr) and isinstance(statement.node.value, ast.Call)
            elsewhere += [*statement.node.value.args, *statement.node.value.keywords]
        elif statement.function == main:  # only the header of a loop or branch: its body is visited separately
            elsewhere += [node for node in ast.iter_child_nodes(statement.node) if not isinstance(node, ast.stmt)]
    calls = {name: frozenset(_called(nodes)) for name, nodes in definitions.items()}
    reachable = {name: reached([name], calls) for name in section_names}
    affected = [name for name in section_names if changed & reachable[name]]
    if len(affected) != 1 or changed & reached([*_called(elsewhere)], calls):
        return None
    # A function that binds a module-level name shares it with other functions.
    own = (node for name in reachable[affected[0]] for node in definitions.get(name, ()))
    shares = any(isinstance(inner, ast.Global) for node in own for inner in ast.walk(node))
    return None if shares else affected[0]


def _called(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that these trees call."""
    for tree in nodes:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield node.func.id
