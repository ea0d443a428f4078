r"""Divide the Python of a code cell into pieces that can be moved into a function with global names.

    [*pieces("import os\nx: int = 3\nx", "notes.ipynb", "cell 1")]      three pieces
    in_function("x: int = 3")                                            "x = 3  # x: int"
    hoisted([imports, definition_of_f, "x = f(1)", definition_of_g])     the imports, f and g
    Figures.of(pieces)                      the names of pyplot, and the functions of the notebook that draw
    show("figure", "plot")                  the loop that replaces `plt.show()` and ends cells that draw without it

`if __name__ == "__main__":` is always true in a notebook, so its body replaces it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import symtable
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

from trace_tools.errors import LectureError
from trace_tools.notebooks.magics import lines_inside_strings
from trace_tools.source.statements import FUNCTIONS, not_valid, parse_source
from trace_tools.trace.model import MAIN

_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
_STARTS = re.compile(r"""if\s+__name__\s*==\s*(['"])__main__\1\s*:""")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Statements of a cell on shared lines, usually one statement, with the comments above them."""

    nodes: tuple[ast.stmt, ...]
    text: str
    where: str  # the cell, in messages
    is_spaced: bool = False  # a blank line precedes it
    is_async: bool = False
    shown: str | None = None  # the expression whose value the cell shows, if this is its last statement
    bound: frozenset[str] = frozenset()  # names that it binds in the module, including in functions
    used: frozenset[str] = frozenset()  # names of the module that it reads, including in functions

    @property
    def imports(self) -> bool:
        """Return whether it consists of imports only."""
        return bool(self.nodes) and all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in self.nodes)

    @property
    def star(self) -> bool:
        """Return whether it has a star import, whose names only a run knows."""
        return any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in _own(self.nodes))

    @property
    def future(self) -> bool:
        """Return whether it is `from __future__ import …`, which belongs at the top of a file."""
        return any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in self.nodes)

    @property
    def definition(self) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None:
        """The function or class that it defines, if it does only that."""
        node = self.nodes[0] if len(self.nodes) == 1 else None
        return node if isinstance(node, _DEFINITIONS) else None


def pieces(text: str, path: str, where: str) -> Iterator[Piece]:
    """Yield the pieces of a cell's Python. Raises LectureError, naming the cell, for invalid Python."""
    cell = f"{path}: {where}"
    text = _without_start(text, cell)
    nodes = parse_source(text, cell).tree.body
    try:
        _code(text, cell)
    except (SyntaxError, ValueError) as error:
        raise LectureError(cell, getattr(error, "lineno", None), not_valid(error)) from None
    groups: list[list[ast.stmt]] = []  # of statements that share a line: `a; b`
    for node in nodes:
        if groups and node.lineno <= max(one.end_lineno or one.lineno for one in groups[-1]):
            groups[-1].append(node)
        else:
            groups.append([node])
    lines, at = text.split("\n"), 0
    for index, group in enumerate(groups):
        is_last = index + 1 == len(groups)
        shown = None  # a cell shows the value of its last statement, unless a semicolon follows
        if is_last and isinstance(last := group[-1], ast.Expr) and not isinstance(last.value, ast.Constant):
            after = lines[(last.end_lineno or 1) - 1].encode()[last.end_col_offset or 0 :]
            shown = None if after.lstrip().startswith(b";") else ast.unparse(last.value)
        end = len(lines) if is_last else max(node.end_lineno or node.lineno for node in group)
        is_spaced = bool(at) and not lines[at].strip()
        own = "\n".join(lines[at:end]).strip("\n")
        table = symtable.symtable(own, cell, "exec")
        yield Piece(
            tuple(group),
            own,
            where,
            is_spaced,
            bool(_code(own, cell).co_flags & inspect.CO_COROUTINE),
            shown,
            frozenset(_bound(table)),
            frozenset(_used(table)),
        )
        at = end
    if not nodes and text.strip():
        yield Piece((), text.strip("\n"), where)


def _code(text: str, cell: str) -> CodeType:
    code: CodeType = compile(text, cell, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


# --- names ----------------------------------------------------------------------------------------


def _bound(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names of the module that a piece binds or deletes, including in its functions."""
    for symbol in table.get_symbols():
        changes = symbol.is_assigned() or symbol.is_imported()
        if changes and (table.get_type() == "module" or symbol.is_declared_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _bound(child)


def _used(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names of the module that a piece reads."""
    yield from (symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and symbol.is_global())
    for child in table.get_children():
        yield from _used(child)


def _own(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes that module-level code executes, recursively."""
    for node in nodes:
        yield node
        if not isinstance(node, (*_DEFINITIONS, ast.Lambda)):
            yield from _own([*ast.iter_child_nodes(node)])


# --- code that is not allowed in a function -------------------------------------------------------


def in_function(text: str) -> str:
    """Return a piece's text for a function that declares all of the piece's names as global.

    The annotation of a name becomes a comment, a `global` statement becomes a string, a star import is executed in the
    module's namespace, and calls that use the caller's namespace receive that one.
    """
    content = text.encode()
    begins = [0]
    for line in content.split(b"\n"):
        begins.append(begins[-1] + len(line) + 1)

    def begin(node: ast.AST) -> int:
        return begins[node.lineno - 1] + int(node.col_offset)  # type: ignore[attr-defined]

    def end(node: ast.AST) -> int:
        return begins[node.end_lineno - 1] + int(node.end_col_offset)  # type: ignore[attr-defined]

    edits: list[tuple[int, int, str]] = []
    nodes = [*_own(ast.parse(text).body)]
    annotations = {id(part) for node in nodes if isinstance(node, ast.AnnAssign) for part in ast.walk(node.annotation)}
    for node in nodes:
        if id(node) in annotations:
            continue
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            annotation = f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"
            if node.value is None:
                edits.append((begin(node), end(node), repr(annotation)))
                continue
            edits.append((begin(node), content.index(b"=", end(node.annotation)), f"{node.target.id} "))
            if not content[end(node) :].split(b"\n")[0].strip():
                edits.append((end(node), end(node), f"  # {annotation}"))
        elif isinstance(node, ast.Global):
            edits.append((begin(node), end(node), repr(ast.unparse(node))))
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            edits.append((begin(node), end(node), f"exec({ast.unparse(node)!r}, globals())"))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            match node.func.id, node.args:
                case "exec" | "eval", [argument] if not isinstance(argument, (ast.Starred, ast.GeneratorExp)):
                    comma = "" if b"," in content[end(argument) : end(node)] else ","
                    edits.append((end(node) - 1, end(node) - 1, f"{comma} globals()"))
                case "locals" | "vars", []:
                    edits.append((begin(node), end(node), "globals()"))
                case "dir", []:
                    edits.append((begin(node), end(node), "sorted(globals())"))
    for first, last, new in sorted(edits, reverse=True):
        content = content[:first] + new.encode() + content[last:]
    return content.decode()


def _without_start(text: str, cell: str) -> str:
    """Replace `if __name__ == "__main__":` by its body, which always runs in a notebook."""
    lines = text.split("\n")
    for node in reversed(parse_source(text, cell).tree.body):
        if not isinstance(node, ast.If) or not _STARTS.match(ast.unparse(node)):
            continue
        first = node.body[0]
        begin = min([first.lineno, *(one.lineno for one in getattr(first, "decorator_list", []))]) - 1
        verbatim = lines_inside_strings(text)
        indent = lines[begin][: len(lines[begin]) - len(lines[begin].lstrip())]
        body = [n for n in range(begin, node.body[-1].end_lineno or 0) if lines[n].strip() and n not in verbatim]
        if node.orelse or begin < node.lineno or not all(lines[n].startswith(indent) for n in body):
            line = lines[node.test.lineno - 1].encode()
            changed = line[: node.test.col_offset] + b"True" + line[node.test.end_col_offset :]
            lines[node.test.lineno - 1] = changed.decode()
        else:
            for n in body:
                lines[n] = lines[n].removeprefix(indent)
            lines[node.lineno - 1 : begin] = [one.strip() for one in lines[node.lineno : begin]]
    return "\n".join(lines)


# --- pieces that can move to the top --------------------------------------------------------------

_PURE = (ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.UnaryOp, ast.expr_context, ast.unaryop)
_TYPE = (*_PURE, ast.Attribute, ast.Subscript, ast.Slice, ast.BinOp, ast.BitOr)
_ACCESSORS = frozenset({"property", "staticmethod", "classmethod"})
_BUILTINS = frozenset(dir(builtins))
_MAKES_CLASSES = re.compile(r"__init_subclass__|__set_name__|metaclass")


def hoisted(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces that can move to the top of the lecture without changing what it does, in order.

    Imports and definitions before all other code keep their order. A later function or class can move only if no
    earlier code mentions it, it is bound once, and creating it runs no code: decorators, calls and imports may depend
    on earlier code.
    """
    bound = Counter(name for piece in pieces for name in piece.bound)
    patched = {
        node.attr
        for piece in pieces
        for part in piece.nodes
        for node in ast.walk(part)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    }
    uses_main = any(MAIN in piece.used for piece in pieces) and not bound[MAIN]
    # Code that patches attributes by name, or runs when a class is created, may depend on the order.
    is_wild = any("setattr" in piece.used or _MAKES_CLASSES.search(piece.text) for piece in pieces)
    moved: list[Piece] = []
    names = {*_BUILTINS} - bound.keys()
    mentioned: set[str] = set()
    leading = True
    for piece in pieces:
        if piece.future:
            moved.append(piece)
        elif not piece.nodes:
            pass
        elif MAIN in piece.bound or (piece.star and (uses_main or not leading)):
            leading, is_wild = False, is_wild or piece.star
            mentioned |= piece.used | piece.bound
        elif leading and (piece.imports or piece.definition is not None):
            moved.append(piece)
            is_wild = is_wild or piece.star
            names |= {name for name in piece.bound if bound[name] == 1}
        elif (
            not is_wild
            and (node := piece.definition) is not None
            and bound[node.name] == 1
            and node.name not in {*_BUILTINS, *mentioned}
            and (_is_pure_class if isinstance(node, ast.ClassDef) else _is_pure_function)(node, names, patched)
        ):
            moved.append(piece)
            names.add(node.name)
        else:
            leading = False
            mentioned |= piece.used | piece.bound
    return moved


def _is_pure_function(node: ast.stmt, names: Collection[str], patched: Collection[str]) -> bool:
    """Return whether creating a function evaluates only constants, known names, and types."""
    if not isinstance(node, FUNCTIONS):
        return False
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    types = [one.annotation for one in every if one is not None and one.annotation is not None]
    types += [node.returns] if node.returns is not None else []
    defaults = [default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None]
    return (
        all(isinstance(one, ast.Name) and one.id in _ACCESSORS & {*names} for one in node.decorator_list)
        and all(_is_of(one, _PURE, names, patched) for one in defaults)
        and all(_is_of(one, _TYPE, names, patched) for one in types)
        and not getattr(node, "type_params", None)
    )


def _is_pure_class(node: ast.stmt, names: Collection[str], patched: Collection[str]) -> bool:
    if not isinstance(node, ast.ClassDef) or node.decorator_list or node.keywords or getattr(node, "type_params", None):
        return False
    if not all(_is_of(base, _TYPE, names, patched) for base in node.bases):
        return False
    parts = (part for statement in node.body for part in ast.walk(statement))
    stored = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    defined = {part.name for part in node.body if isinstance(part, (*FUNCTIONS, ast.ClassDef))}
    inside = {*names} - stored - defined
    for part in node.body:
        match part:
            case ast.Pass() | ast.Expr(ast.Constant()):
                continue
            case ast.Assign(targets=[ast.Name()], value=value) if _is_of(value, _PURE, inside, patched):
                continue
            case ast.AnnAssign(ast.Name(), annotation, value) if _is_of(annotation, _TYPE, inside, patched):
                if value is None or _is_of(value, _PURE, inside, patched):
                    continue
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if part.name != "__init_subclass__" and _is_pure_function(part, inside, patched):
                    continue
        return False
    return True


def _is_of(node: ast.expr, kinds: tuple[type[ast.AST], ...], names: Collection[str], patched: Collection[str]) -> bool:
    """Return whether an expression contains only nodes of these kinds, known names, and unassigned attributes."""
    for part in ast.walk(node):
        if not isinstance(part, kinds):
            return False
        if isinstance(part, ast.Name) and part.id not in names:
            return False
        if isinstance(part, ast.Attribute) and part.attr in patched:
            return False
    return True


# --- figures of matplotlib: a notebook shows the open ones at a cell's end and closes them ----------

OPEN = "open_figures"
_METHODS = frozenset({"bar", "boxplot", "hist", "imshow", "plot", "scatter"})  # methods of pandas and of axes that draw
# Functions of pyplot that make no figure.
_SETTINGS = frozenset({"close", "get_cmap", "ioff", "ion", "rc", "rcParams", "set_cmap", "style", "switch_backend"})


@dataclass(frozen=True, slots=True)
class Figures:
    """How a notebook draws."""

    pyplot: frozenset[str]  # the notebook's names for matplotlib.pyplot
    drawing: frozenset[str]  # these names, seaborn's, and the functions that use them

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> Figures:
        """Return how the pieces of a notebook draw."""
        imported: dict[str, str] = {}  # the notebook's name of a module → the module
        for node in (part for piece in pieces for one in piece.nodes for part in ast.walk(one)):
            if isinstance(node, ast.Import):
                imported |= {alias.asname: alias.name for alias in node.names if alias.asname}
            elif isinstance(node, ast.ImportFrom):
                imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        pyplot = {name for name, module in imported.items() if module == "matplotlib.pyplot"}
        drawing = pyplot | {name for name, module in imported.items() if module.split(".")[0] == "seaborn"}
        while True:
            more = {p.definition.name for p in pieces if p.definition is not None and p.used & drawing} - drawing
            if not more:
                return cls(frozenset(pyplot), frozenset(drawing) if pyplot else frozenset())
            drawing |= more

    def drawn(self, piece: Piece) -> bool:
        """Whether figures may be open after a piece."""
        if not self.pyplot or piece.definition is not None:
            return False
        for node in (part for one in piece.nodes for part in ast.walk(one)):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
                return True
            names = ast.unparse(node.func).split(".")
            if names[0] in self.drawing and not (names[0] in self.pyplot and names[1:2] and names[1] in _SETTINGS):
                return True
        return False


def without_show(text: str, pyplot: frozenset[str], shown: str) -> str:
    """Return code that runs `shown` in place of pyplot's `show()`, which has no effect without a window."""
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "show"))) if name in pyplot:
                line = lines[node.lineno - 1]
                after = line.encode()[node.end_col_offset or 0 :].decode()
                is_alone = not line.encode()[: node.col_offset].strip() and after.lstrip()[:1] in ("", "#")
                if node.lineno == node.end_lineno and is_alone:
                    indent = " " * node.col_offset
                    lines[node.lineno - 1] = "\n".join(indent + one for one in shown.split("\n")) + after
    return "\n".join(lines)


def show(variable: str, plot: str) -> str:
    """Return the statement that shows the open figures on the page."""
    return f"for {variable} in {OPEN}():\n    {plot}({variable})"


def helper(pyplot: str) -> str:
    """Return the function that gives a lecture its open figures."""
    return f'''def {OPEN}():
    """Return the open figures and close them, as a notebook does at the end of a cell."""
    figures = [{pyplot}.figure(number) for number in {pyplot}.get_fignums()]
    {pyplot}.close("all")
    return figures
'''
