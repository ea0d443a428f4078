"""Possible changes of a node of a syntax tree: another constant, another operator, other arguments.

list(changes_of(ast.parse("2 + 3", mode="eval").body))      [("operator", <BinOp>, <function that makes it 2 - 3>)]
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

# kind, node, function that returns the changed node (and may modify its argument)
Change = tuple[str, ast.AST, Callable[[ast.AST], ast.AST]]

KEYWORDS = frozenset(
    {"device", "strict", "check", "map_location"}
)  # changes of these have no effect, at least without a GPU
SYMMETRIC = frozenset({"allclose", "equal", "isclose", "max", "min", "mse_loss", "transpose", "zip"})
SYMMETRIC |= {"apart", "same_bits", "shares_storage"}  # functions of the lecture
LARGE = 1000  # adding 1 to a larger number hardly changes it

_OTHER_OPERATOR: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_OTHER_COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def changes_of(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Constant(value=bool() | int() | float()):
            yield "constant", node, _other_constant
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _OTHER_OPERATOR:
            yield "operator", node, _other_operator
        case ast.Compare(ops=[op, *_]) if type(op) in _OTHER_COMPARISON:
            yield "operator", node, _other_comparison
        case ast.BoolOp():
            yield "operator", node, _other_junction
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield "operator", node, lambda unary: unary.operand  # type: ignore[attr-defined]
        case ast.Call():
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", None)
            starred = any(isinstance(argument, ast.Starred) for argument in node.args[:2])
            if len(node.args) >= 2 and not starred and name not in SYMMETRIC:
                yield "argument", node, _swapped
            for keyword in node.keywords:
                if keyword.arg not in KEYWORDS:
                    yield "argument", node, _without(keyword.arg)


def _other_constant(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Constant)
    value = node.value
    if isinstance(value, bool):
        new_value: object = not value
    elif isinstance(value, int):
        new_value = value + 1 if abs(value) < LARGE else value * 3 // 2
    else:
        new_value = float(value) * 1.5 or 1.0
    return ast.copy_location(ast.Constant(new_value), node)


def _other_operator(node: ast.AST) -> ast.AST:
    assert isinstance(node, (ast.BinOp, ast.AugAssign))
    node.op = _OTHER_OPERATOR[type(node.op)]()
    return node


def _other_comparison(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    node.ops[0] = _OTHER_COMPARISON[type(node.ops[0])]()
    return node


def _other_junction(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
    return node


def _swapped(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)
    node.args[:2] = node.args[1::-1]
    return node


def _without(argument: str | None) -> Callable[[ast.AST], ast.AST]:
    def drop(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.Call)
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != argument]
        return node

    return drop
