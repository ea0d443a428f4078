"""Find the pieces of a notebook that can move to the top of a lecture without changing what it does.

    hoisted([imports, definition_of_f, "x = f(1)", definition_of_g])      the imports, f and g

Imports and definitions before all other code keep their order. A later function or class can move only if no earlier
code mentions it, it is bound once, and creating it runs no code: decorators, calls and imports may depend on earlier
code.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Collection, Sequence

from trace_tools.notebooks.cell_code import Piece
from trace_tools.source.statements import FUNCTIONS
from trace_tools.trace.model import MAIN

_PURE = (ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.UnaryOp, ast.expr_context, ast.unaryop)
_TYPE = (*_PURE, ast.Attribute, ast.Subscript, ast.Slice, ast.BinOp, ast.BitOr)
_ACCESSORS = frozenset({"property", "staticmethod", "classmethod"})
_BUILTINS = frozenset(dir(builtins))
_MAKES_CLASSES = re.compile(r"__init_subclass__|__set_name__|metaclass")


def hoisted(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces that can move to the top of the file, in order."""
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
        elif not is_wild and (name := _movable(piece, bound, names, patched)) and name not in mentioned:
            moved.append(piece)
            names.add(name)
        else:
            leading = False
            mentioned |= piece.used | piece.bound
    return moved


def _movable(piece: Piece, bound: Counter[str], names: Collection[str], patched: Collection[str]) -> str | None:
    """Return the name that a piece defines, if the definition can be executed at another time; else None."""
    node = piece.definition
    if node is None or bound[node.name] != 1 or node.name in _BUILTINS:
        return None
    is_pure = _is_pure_class if isinstance(node, ast.ClassDef) else _is_pure_function
    return node.name if is_pure(node, names, patched) else None


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
