r"""Translate a lecture's function of plain arithmetic into a formula for a trace, and the formula into JavaScript.

    def run(parameters, tokens):
        return {"flops": 6 * parameters * tokens}

    formula = formula_of(run)       parameters ("parameters", "tokens"), results ("flops",)
    formula.text                    "def run(parameters, tokens):\n    return (6 * parameters * tokens,)"
    javascript([formula.text])      "(() => {const run_ = (parameters_, tokens_) => {…};return [run_];})()"

A formula is the source of the function and of the functions that it calls, with the module's numbers filled in. Only
the code in `_SIGNS` and `_CALLS`, assignments, `if` and `return` are allowed, so that no formula of a trace can do
anything else in a page. Numbers are floats in JavaScript: whole numbers are exact up to 2⁵³, and a division by zero
gives Infinity, which pages show as "no result".
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

LONGEST = 20_000  # characters of a formula

_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.USub: "-", ast.UAdd: "+", ast.Not: "!",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "===", ast.NotEq: "!==",
    ast.And: "&&", ast.Or: "||",
}  # fmt: skip
_CALLS = {name: f"Math.{name}" for name in ("min", "max", "abs", "floor", "ceil", "sqrt")} | {"float": "Number"}


class NotArithmetic(ValueError):
    """Code that pages cannot compute: `line 12: x ** 2: expected + - * / …`."""

    def __init__(self, node: ast.AST | None, why: str) -> None:
        if isinstance(node, ast.stmt | ast.expr):
            why = f"line {node.lineno}: {ast.unparse(node).partition(chr(10))[0][:80]}: {why}"
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Formula:
    """The parameters and results of a function, in order, and its text."""

    parameters: tuple[str, ...]
    results: tuple[str, ...]
    text: str


def formula_of(function: Callable[..., Any]) -> Formula:
    """Return a function of the lecture as a formula. Raises NotArithmetic, naming the line."""
    parts: dict[str, ast.FunctionDef] = {}
    _gather(function, parts, ())
    main = parts[getattr(function, "__name__", "")]
    keys = [node.value for node in ast.walk(main) if isinstance(node, ast.Return)]
    names = {tuple(ast.literal_eval(key) for key in one.keys if key) for one in keys if isinstance(one, ast.Dict)}
    if len(names) != 1 or not all(isinstance(one, ast.Dict) for one in keys):
        raise NotArithmetic(main, "expected a dict with the same results from each return")
    functions = [_tupled(node) for node in parts.values()]
    _script(functions)  # raises for anything that is not arithmetic, with the line of the lecture
    text = "\n".join(map(ast.unparse, functions))
    return Formula(tuple(one.arg for one in main.args.args), names.pop(), text)


def javascript(formulas: Sequence[str]) -> str:
    """Return a JavaScript expression: a list of the formulas' functions, each of which returns a list of its results.

    Raises NotArithmetic for a text that is not a formula.
    """
    return f"[{', '.join(_script(_parsed(text)) for text in formulas)}]"


def shape_of(text: str) -> tuple[int, int]:
    """Return how many numbers a formula takes, and how many results it has. Raises NotArithmetic."""
    _script(functions := _parsed(text))
    main = functions[-1]
    returned = next(node.value for node in ast.walk(main) if isinstance(node, ast.Return))
    return len(main.args.args), len(returned.elts) if isinstance(returned, ast.Tuple) else 1


def _gather(function: object, parts: dict[str, ast.FunctionDef], callers: tuple[object, ...]) -> None:
    """Add the sources of a function and of all that it calls, callees first, with the module's numbers filled in."""
    if not isinstance(function, FunctionType) or function in callers or function.__code__.co_freevars:
        raise NotArithmetic(
            None, f"{function!r:.80}: expected a plain function of the lecture that does not call itself"
        )
    try:
        node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, SyntaxError):
        node = None
    if not isinstance(node, ast.FunctionDef):
        raise NotArithmetic(None, f"{function.__name__}: its source can't be found; expected a def")
    ast.increment_lineno(node, function.__code__.co_firstlineno - 1)
    # `scale = 2 * x` is a variable, though the lecture may have a function `scale`
    own = function.__code__.co_varnames
    for name in sorted({one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - {*own}):
        if isinstance(value := function.__globals__.get(name), FunctionType):
            _gather(value, parts, (*callers, function))
    parts[function.__name__] = _Filled(function).visit(node)


class _Filled(ast.NodeTransformer):
    """Fills in the module's numbers, and removes annotations, which only people read."""

    def __init__(self, function: FunctionType) -> None:
        self.numbers = {n: v for n, v in function.__globals__.items() if type(v) in (int, float)}
        self.own = set(function.__code__.co_varnames)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        known = node.id in self.numbers and node.id not in self.own
        return ast.copy_location(ast.Constant(self.numbers[node.id]), node) if known else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        return ast.copy_location(ast.Assign([node.target], self.visit(node.value or node.target)), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns, node.body = None, node.body[ast.get_docstring(node) is not None :]
        for one in node.args.args:
            one.annotation = None
        self.generic_visit(node)
        return node


def _tupled(node: ast.FunctionDef) -> ast.FunctionDef:
    for one in ast.walk(node):
        if isinstance(one, ast.Return) and isinstance(one.value, ast.Dict):
            one.value = ast.Tuple(one.value.values, ast.Load())
    return node


def _parsed(text: str) -> list[ast.FunctionDef]:
    try:
        nodes = ast.parse(text).body if len(text) <= LONGEST else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        nodes = []
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    if not functions or len(functions) < len(nodes):
        raise NotArithmetic(None, "found no functions of plain arithmetic")
    return functions


def _script(functions: Sequence[ast.FunctionDef]) -> str:
    """Return an expression whose value is the last of these functions."""
    script = "".join(map(_function, functions))
    known = {*_CALLS, *(node.name for node in functions)}
    for call in (one for node in functions for one in ast.walk(node) if isinstance(one, ast.Call)):
        if (getattr(call.func, "attr", None) or getattr(call.func, "id", "")) not in known:
            raise NotArithmetic(call, f"expected {', '.join(_CALLS)}, or a function of plain arithmetic")
    return f"(() => {{{script}return {functions[-1].name}_;}})()"


def _function(node: ast.FunctionDef) -> str:
    of = node.args
    if of.vararg or of.kwarg or of.kwonlyargs or of.posonlyargs or of.defaults or node.decorator_list:
        raise NotArithmetic(node, "expected plain parameters without defaults")
    names = [one.arg for one in of.args]
    local = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} - {*names}
    let = f"let {', '.join(f'{name}_' for name in sorted(local))};" if local else ""
    parameters = ", ".join(f"{name}_" for name in names)
    try:
        return f"const {node.name}_ = ({parameters}) => {{{let}{''.join(map(_statement, node.body))}}};"
    except RecursionError:
        raise NotArithmetic(None, "nested too deeply") from None


def _statement(node: ast.stmt) -> str:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return f"{name}_ = {_js(value)};"
        case ast.If(test=test, body=body, orelse=orelse):
            return f"if ({_js(test)}) {{{''.join(map(_statement, body))}}} else {{{''.join(map(_statement, orelse))}}}"
        case ast.Return(value=ast.Tuple(elts=values)):
            return f"return [{', '.join(map(_js, values))}];"
        case ast.Return(value=ast.expr() as value):
            return f"return {_js(value)};"
    raise NotArithmetic(node, "expected an assignment to a name, an if, or a return")


def _js(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=bool() as value):
            return "true" if value else "false"
        case ast.Constant(value=int() | float() as value) if math.isfinite(value):
            return repr(float(value))
        case ast.Name(id=name):
            return f"{name}_"
        case ast.UnaryOp(op=op, operand=inner) if type(op) in _SIGNS:
            return f"({_SIGNS[type(op)]}{_js(inner)})"
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return f"Math.pow({_js(left)}, {_js(right)})"
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
            return f"Math.floor({_js(left)} / {_js(right)})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            return f"({_js(left)} {_SIGNS[type(op)]} {_js(right)})"
        case ast.Compare(left=first, ops=ops, comparators=others) if all(type(op) in _SIGNS for op in ops):
            sides = list(map(_js, (first, *others)))
            pairs = zip(sides, ops, sides[1:], strict=False)
            return f"({' && '.join(f'{a} {_SIGNS[type(op)]} {b}' for a, op, b in pairs)})"
        case ast.BoolOp(op=op, values=values):
            return f"({f' {_SIGNS[type(op)]} '.join(map(_js, values))})"
        case ast.IfExp(test=test, body=then, orelse=otherwise):
            return f"({_js(test)} ? {_js(then)} : {_js(otherwise)})"
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="math"), attr=name), args=args, keywords=[]
        ):
            return f"{_CALLS.get(name, f'{name}_')}({', '.join(map(_js, args))})"
    raise NotArithmetic(node, f"expected + - * / // **, comparisons, {', '.join(_CALLS)}, or a function of the lecture")
