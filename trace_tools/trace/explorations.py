r"""The figure of an `explore` with its formula, a function of plain arithmetic that a page computes in JavaScript.

    def run(parameters, tokens):
        return {"flops": 6 * parameters * tokens}

    formula = formula_of(run)       parameters ("parameters", "tokens"), results ("flops",)
    formula.text                    "def run(parameters, tokens):\n    return (6 * parameters * tokens,)"
    javascript([formula.text])      "[(() => {const run_ = (parameters_, tokens_) => {…};return run_;})()]"
    places("In {days}. {fits?It fits.|It does not.}")    ["In ", ("days",), ". ", ("fits", ["It fits."], […])]

A formula is the source of the function and of the functions that it calls, with the module's numbers filled in. Only
the code in `_SIGNS` and `_CALLS`, assignments, `if` and `return` are allowed, so that no formula of a trace can do
anything else in a page. Numbers are floats in JavaScript: whole numbers are exact up to 2⁵³, and a division by zero
gives Infinity, which pages show as "no result".
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal

from trace_tools.trace.records import Struct

Scale = Literal["linear", "log"]


class Input(Struct, frozen=True):
    """A number that a reader may change."""

    name: str  # of the function's parameter
    label: str
    value: float  # the lecture's number
    low: float
    high: float
    scale: Scale  # of its slider
    whole: bool = False  # only whole numbers
    unit: str | None = None


class Menu(Struct, frozen=True):
    """Named rows of numbers, such as machines. The lecture uses the first row, and a reader can choose any."""

    label: str
    columns: list[Input]  # the numbers of a row; a reader may type a row within their limits
    rows: list[tuple[str, list[float]]]
    own: bool = False  # whether a reader may type a row


class Result(Struct, frozen=True):
    """A named result of the function, called with the lecture's numbers."""

    name: str
    label: str
    value: bool | float
    unit: str | None = None


class Exploration(Struct, frozen=True):
    """A function of the lecture that a reader can call with other numbers, and how its results are drawn."""

    name: str  # of the function
    formula: str  # the text of its `Formula`
    parameters: list[str]  # the names of inputs and of columns of menus, in the function's order
    inputs: list[Input]
    menus: list[Menu]
    results: list[Result]  # in the order of the formula's results
    stack: list[str] | None = None  # results that are drawn as a stack
    limit: str | None = None  # a result, or a parameter, that their sum is compared with
    curve: tuple[str, str] | None = None  # an input across, a result upwards
    across: str | None = None  # a menu with its other rows drawn as well


# --- the sentence, and whether all parts fit together ---------------------------------------------

_NAME = r"[^{}?|]*"
_PLACE = re.compile(rf"\{{({_NAME})(?:\?((?:[^{{}}|]|\{{{_NAME}\}})*+)\|((?:[^{{}}]|\{{{_NAME}\}})*+))?\}}")

Parts = list["str | tuple[str] | tuple[str, Parts, Parts]"]


def places(text: str) -> Parts:
    """Return the parts of a sentence of `explore`: texts, (name,), and (result, parts if true, parts if false).

    Raises ValueError for braces that are not closed, or a choice inside a choice.
    """
    parts: Parts = []
    at = 0
    for place in (*_PLACE.finditer(text), None):
        before = text[at : place.start() if place else None]
        if "{" in before:
            raise ValueError("the sentence: a { has no }, or begins a choice inside another")
        if before:
            parts.append(before)
        if place is not None:
            name, then, otherwise = place.groups()
            parts.append((name,) if then is None else (name, places(then), places(otherwise)))
            at = place.end()
    return parts


def check(figure: Exploration, sentence: str) -> None:
    """Raise ValueError for the first mistake: without one, a page can show the figure and run its formula."""
    for menu in figure.menus:
        if not menu.rows:
            raise ValueError(f"{menu.label} has no rows")
        for row, numbers in menu.rows:
            if len(numbers) != len(menu.columns) or not all(map(math.isfinite, numbers)):
                raise ValueError(f"{row} has {numbers}; expected {len(menu.columns)} finite numbers")
    inputs = [*figure.inputs, *(column for menu in figure.menus for column in menu.columns)]
    taken, returned = shape_of(figure.formula)
    names = [number.name for number in inputs]
    if sorted(names) != sorted(figure.parameters) or taken != len(names):
        listed = ", ".join(figure.parameters)
        raise ValueError(f"found numbers for {', '.join(names)}; expected one for each parameter, {listed}")
    if returned != len(figure.results):
        raise ValueError(f"found {len(figure.results)} results; expected {returned}, as the formula returns")
    for number in inputs:
        if not -math.inf < number.low <= number.value <= number.high < math.inf or number.low == number.high:
            limits = f"expected a number from {number.low:g} to {number.high:g}"
            raise ValueError(f"{number.name} is {number.value:g}; {limits}")
        if number.scale == "log" and number.low <= 0:
            raise ValueError(f"{number.name} has the scale log from {number.low:g}; expected more than 0")
    if not all(math.isfinite(result.value) for result in figure.results):
        found = {result.name: result.value for result in figure.results}
        raise ValueError(f"found the results {found}; expected finite numbers")
    _check_names(figure, sentence)


def _check_names(figure: Exploration, sentence: str) -> None:
    """Raise ValueError if the sentence or the drawing uses a name that the figure doesn't have."""
    truths = [result.name for result in figure.results if isinstance(result.value, bool)]
    numbers = [result.name for result in figure.results if result.name not in truths]
    menus, inputs = {menu.label for menu in figure.menus}, {number.name for number in figure.inputs}
    known = {*truths, *numbers, *figure.parameters, *menus}

    def used(parts: Parts) -> Iterator[tuple[str, bool]]:
        for name, *branches in (part for part in parts if not isinstance(part, str)):
            yield name, bool(branches)
            for branch in branches:
                yield from used(branch)

    for name, is_choice in used(places(sentence)):
        if name not in known:
            raise ValueError(f"the sentence uses {name}; expected one of {', '.join(sorted(known))}")
        if is_choice and name not in truths:
            raise ValueError(f"the sentence chooses by {name}; expected a result that is true or false")
    for name in figure.stack or ():
        if name not in numbers:
            raise ValueError(f"the stack has {name}; expected results that are numbers: {', '.join(numbers)}")
    if figure.limit is not None and (figure.limit not in {*numbers, *figure.parameters} or not figure.stack):
        raise ValueError(f"the limit is {figure.limit}; expected a number, and a stack to compare it with")
    if figure.curve is not None and (figure.curve[0] not in inputs or figure.curve[1] not in numbers or figure.stack):
        drawn = ", ".join(figure.curve)
        raise ValueError(f"the curve is {drawn}; expected an input and a result, without a stack")
    if figure.across is not None and figure.across not in menus:
        raise ValueError(f"across is {figure.across}; expected a menu")


# --- the formula ----------------------------------------------------------------------------------

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
    returned = [node.value for node in ast.walk(main) if isinstance(node, ast.Return)]
    dicts = [value for value in returned if isinstance(value, ast.Dict)]
    names = {tuple(ast.literal_eval(key) for key in value.keys if key) for value in dicts}
    if len(names) != 1 or len(dicts) < len(returned):
        raise NotArithmetic(main, "expected a dict with the same results from each return")
    functions = [_tupled(node) for node in parts.values()]
    _script(functions)  # raises for anything that is not arithmetic, with the line of the lecture
    text = "\n".join(map(ast.unparse, functions))
    return Formula(tuple(parameter.arg for parameter in main.args.args), names.pop(), text)


def javascript(formulas: Sequence[str]) -> str:
    """Return a JavaScript list of the formulas' functions, which return lists of results.

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
        expected = "expected a plain function of the lecture that does not call itself"
        raise NotArithmetic(None, f"{function!r:.80}: {expected}")
    try:
        node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, SyntaxError):
        node = None
    if not isinstance(node, ast.FunctionDef):
        raise NotArithmetic(None, f"{function.__name__}: its source can't be found; expected a def")
    ast.increment_lineno(node, function.__code__.co_firstlineno - 1)
    # `scale = 2 * x` is a variable, though the lecture may have a function `scale`
    own = function.__code__.co_varnames
    for name in sorted({part.id for part in ast.walk(node) if isinstance(part, ast.Name)} - {*own}):
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
        for parameter in node.args.args:
            parameter.annotation = None
        self.generic_visit(node)
        return node


def _tupled(node: ast.FunctionDef) -> ast.FunctionDef:
    for part in ast.walk(node):
        if isinstance(part, ast.Return) and isinstance(part.value, ast.Dict):
            part.value = ast.Tuple(part.value.values, ast.Load())
    return node


def _parsed(text: str) -> list[ast.FunctionDef]:
    try:
        nodes = ast.parse(text).body
    except (SyntaxError, ValueError):
        nodes = []
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    if not functions or len(functions) < len(nodes):
        raise NotArithmetic(None, "found no functions of plain arithmetic")
    return functions


def _script(functions: Sequence[ast.FunctionDef]) -> str:
    """Return an expression that evaluates to the last of these functions."""
    script = "".join(map(_function, functions))
    known = {*_CALLS, *(node.name for node in functions)}
    for call in (part for node in functions for part in ast.walk(node) if isinstance(part, ast.Call)):
        if (getattr(call.func, "attr", None) or getattr(call.func, "id", "")) not in known:
            raise NotArithmetic(call, f"expected {', '.join(_CALLS)}, or a function of plain arithmetic")
    return f"(() => {{{script}return {functions[-1].name}_;}})()"


def _function(node: ast.FunctionDef) -> str:
    given = node.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults or node.decorator_list:
        raise NotArithmetic(node, "expected plain parameters without defaults")
    names = [parameter.arg for parameter in given.args]
    local = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} - {*names}
    let = f"let {', '.join(f'{name}_' for name in sorted(local))};" if local else ""
    parameters = ", ".join(f"{name}_" for name in names)
    return f"const {node.name}_ = ({parameters}) => {{{let}{''.join(map(_statement, node.body))}}};"


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
    raise NotArithmetic(node, f"expected + - * / **, comparisons, {', '.join(_CALLS)}, or a function of the lecture")
