r"""Translate a lecture's function of plain arithmetic into a formula for a trace, and the formula into JavaScript.

    def run(parameters, tokens):
        return {"flops": 6 * parameters * tokens}

    formula = formula_of(run)       parameters ("parameters", "tokens"), results ("flops",)
    formula.text                    "def f0(v0, v1):\n    return (6 * v0 * v1,)"
    javascript([formula.text])      "(() => {…const f0 = (v0, v1) => {return [6.0*v0*v1];};return [f0];})()"

A formula is plain Python with generated names, so that it contains no data of a machine or a person. It uses only the
part of Python that means the same in JavaScript, to the last bit: arithmetic of floats (+ - * /), comparisons, `and`,
`or`, `not`, `if`, assignments to local names, `min`, `max`, `abs`, `float`, `math.floor`, `ceil` and `sqrt`, numbers of
the module, and calls of other such functions. If Python raises (a division by zero), JavaScript throws. Other code is
refused, because it has no counterpart or only an approximate counterpart: the last digit of `**` may differ, and
products of whole numbers are unlimited in Python but exact only up to 2⁵³ in JavaScript.

A script contains only digits, operators and generated names of a formula.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Literal

from trace_tools.util import formats

LONGEST = 20_000  # characters of a formula
MOST = 5_000  # limit of expressions in a formula; a function counts again for each kind of arguments

Kind = Literal["whole", "float", "bool"]  # Python's int, float and bool

# Python's min, max, floor and ceil, and its errors; the code that shows results catches the exceptions.
_PRELUDE = """const no = () => { throw new RangeError("no such number"); };
const over = (a, b) => (b === 0 ? no() : a / b);
const least = (a, b) => (b < a ? b : a);
const most = (a, b) => (b > a ? b : a);
const floor = (x) => (Number.isFinite(x) ? Math.floor(x) + 0 : no());
const ceil = (x) => (Number.isFinite(x) ? Math.ceil(x) + 0 : no());
const root = (x) => (x < 0 ? no() : Math.sqrt(x));
"""

_FOLDED: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
_SIGNS: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "===", ast.NotEq: "!==",
    ast.And: "&&", ast.Or: "||",
}  # fmt: skip
_INSTEAD: Mapping[type[ast.AST], str] = {
    ast.Pow: "its last digit may differ in JavaScript: write a product",
    ast.FloorDiv: "write math.floor(a / b)",
    ast.Mod: "its result for negative numbers differs in JavaScript: write a - b * math.floor(a / b)",
}
_HERE = ("min", "max", "abs", "float")
_OF_MATH = {"floor": "floor", "ceil": "ceil", "sqrt": "root"}


class NotArithmetic(ValueError):
    """Code without an exact counterpart in JavaScript: `line 12: x ** 2: its last digit may differ …`."""

    def __init__(self, node: ast.AST | None, why: str) -> None:
        if isinstance(node, ast.FunctionDef):
            why = f"line {node.lineno}: {formats.one_line(node.name, 80)}: {why}"
        elif isinstance(node, (ast.expr, ast.stmt)):
            why = f"line {node.lineno}: {formats.one_line(ast.unparse(node).partition(chr(10))[0], 80)}: {why}"
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Formula:
    """The parameters and results of a function, in order, and its text."""

    parameters: tuple[str, ...]
    results: tuple[str, ...]
    text: str


@dataclass(eq=False)
class _Function:
    """A function's tree, and the objects that its global names refer to."""

    node: ast.FunctionDef
    values: Mapping[str, _Function | int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        of = self.node.args
        if of.vararg or of.kwarg or of.kwonlyargs or of.posonlyargs or of.defaults:
            raise NotArithmetic(self.node, "expected plain parameters without defaults")
        names = [n.id for n in ast.walk(self.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        self.parameters = [one.arg for one in of.args]
        self.own = {name: f"v{n}" for n, name in enumerate(dict.fromkeys([*self.parameters, *names]))}


def formula_of(function: Callable[..., Any]) -> Formula:
    """Return a function of the lecture as a formula. Raises NotArithmetic, naming the line."""
    gathered = _gathered(function, {}, ())
    translation = _Translation(named=True)
    translation.function(gathered)
    names: dict[_Function, str] = {}
    parts: list[str] = []

    def write(inner: _Function) -> None:
        for name in sorted(inner.values):
            other = inner.values[name]
            if isinstance(other, _Function) and other not in names:
                write(other)
        names[inner] = f"f{len(names)}"
        body = [_Renamed(inner, names).visit(node) for node in inner.node.body if not _is_docstring(node)]
        arguments = ast.arguments([], [ast.arg(inner.own[name]) for name in inner.parameters], None, [], [], None, [])
        definition = ast.FunctionDef(names[inner], arguments, body, [], None, None, lineno=1)
        parts.append(ast.unparse(ast.fix_missing_locations(definition)))

    write(gathered)
    text = "\n".join(parts)
    if len(text) > LONGEST:
        raise NotArithmetic(gathered.node, f"it takes {len(text):,} characters; expected at most {LONGEST:,}")
    return Formula(tuple(gathered.parameters), translation.results, text)


def javascript(formulas: Sequence[str]) -> str:
    """Return a JavaScript expression: a list of the formulas' functions, each of which returns a list of its results.

    Raises NotArithmetic for a text that is not a formula, of any length or depth.
    """
    translation = _Translation()
    names = []
    for text in formulas:
        translation.room = MOST
        function = _read(text)
        names.append(translation.function(function))
    return f"(() => {{{_PRELUDE}{''.join(translation.code)}return [{', '.join(names)}];}})()"


def shape_of(text: str) -> tuple[int, int]:
    """Return how many numbers a formula takes, and how many results it has. Raises NotArithmetic."""
    translation, function = _Translation(), _read(text)
    translation.function(function)
    return len(function.parameters), len(translation.results)


# --- a function of the lecture, and its text ----------------------------------------------------------------------


def _gathered(function: object, bound: dict[object, _Function], callers: tuple[object, ...]) -> _Function:
    """Read a function and all that it calls from their sources."""
    if not isinstance(function, FunctionType):
        raise NotArithmetic(None, f"found a {type(function).__name__}; expected a function of the lecture")
    if function in callers:
        raise NotArithmetic(None, f"{function.__name__} calls itself")
    if function in bound:
        return bound[function]
    try:
        node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, SyntaxError):
        raise NotArithmetic(None, f"the source of {function.__name__} can't be found") from None
    if not isinstance(node, ast.FunctionDef) or node.decorator_list or function.__code__.co_freevars:
        raise NotArithmetic(None, f"{function.__name__} is not a plain function of a module")
    ast.increment_lineno(node, function.__code__.co_firstlineno - 1)
    names: dict[str, _Function | int | float] = {}
    gathered = bound[function] = _Function(node, names)
    body = (one for part in node.body for one in ast.walk(part))
    for one in (n for n in body if isinstance(n, ast.Name) and n.id not in gathered.own):
        value = function.__globals__.get(one.id)
        if isinstance(value, FunctionType):
            names[one.id] = _gathered(value, bound, (*callers, function))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            names[one.id] = value
        elif value is not None and value is not math:
            raise NotArithmetic(one, "expected a number, or a function of plain arithmetic")
    return gathered


class _Renamed(ast.NodeTransformer):
    """Replaces names by generated names, and removes annotations and names of results, which only people read."""

    def __init__(self, of: _Function, functions: Mapping[_Function, str]) -> None:
        self._of = of
        self._functions = functions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._of.own:
            return ast.Name(self._of.own[node.id], node.ctx)
        stands_for = self._of.values.get(node.id)
        if isinstance(stands_for, _Function):
            return ast.Name(self._functions[stands_for], node.ctx)
        return node if stands_for is None else ast.Constant(stands_for)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        assert node.value is not None
        return ast.Assign([self.visit(node.target)], self.visit(node.value), lineno=1)

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        return ast.Tuple([self.visit(value) for value in node.values], ast.Load())


def _read(text: str) -> _Function:
    """Return the last function of a formula's text. Raises NotArithmetic."""
    if len(text) > LONGEST:
        raise NotArithmetic(None, f"found {len(text):,} characters; expected at most {LONGEST:,}")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotArithmetic(None, "found invalid Python") from None
    names: dict[str, _Function | int | float] = {}
    last = None
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name in names:
            raise NotArithmetic(None, "found statements other than functions")
        last = names[node.name] = _Function(node, dict(names))
    if last is None:
        raise NotArithmetic(None, "found no function")
    return last


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


# --- the translation ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Term:
    """An expression in JavaScript, its kind in Python, and its value if it contains only constants."""

    code: str
    kind: Kind
    value: int | float | None = None


_Own = dict[str, Kind]  # the local names that are assigned so far


class _Translation:
    """Writes functions, each once for the kinds of its arguments, and refuses code that would change its meaning."""

    def __init__(self, *, named: bool = False) -> None:
        """With `named`, results come in a dict, as a lecture has them; else in a tuple, as a formula does."""
        self.named = named
        self.code: list[str] = []
        self.results: tuple[str, ...] = ()  # of the last function: their names, or numbers if they have no names
        self.room = MOST
        self._names = (f"f{number}" for number in itertools.count())
        self._made: dict[tuple[_Function, tuple[Kind, ...]], tuple[str, Kind]] = {}

    def function(self, of: _Function) -> str:
        """Write a function that takes floats and returns several results; return its name."""
        floating: Kind = "float"
        kinds = (floating,) * len(of.parameters)
        try:
            returned, name = self._function(of, kinds)
        except RecursionError:
            raise NotArithmetic(None, "nested too deeply") from None
        if any(names is None for names, _ in returned):
            raise NotArithmetic(of.node, "expected a dict of results from each return")
        self.results = returned[0][0] or ()
        return name

    def _function(self, of: _Function, kinds: tuple[Kind, ...]) -> tuple[list[_Returned], str]:
        returned: list[_Returned] = []
        own: _Own = dict(zip(of.parameters, kinds, strict=True))
        body = [node for node in of.node.body if not _is_docstring(node)]
        code, ends = self._block(body, of, own, returned)
        if not ends:
            raise NotArithmetic(of.node, "not every path through it ends with a return")
        if any(other[0] != returned[0][0] or len(other[1]) != len(returned[0][1]) for other in returned):
            raise NotArithmetic(of.node, "each return needs the same results in the same order")
        for each in zip(*(kinds_of_return for _, kinds_of_return in returned), strict=True):
            if len({kind == "bool" for kind in each}) > 1:
                raise NotArithmetic(of.node, "a result is a number in one return and true or false in another")
        name = next(self._names)
        parameters = ", ".join(of.own[one] for one in of.parameters)
        local_names = [generated for one, generated in of.own.items() if one not in of.parameters]
        let = f"let {', '.join(local_names)};" if local_names else ""
        self.code.append(f"const {name} = ({parameters}) => {{{let}{code}}};\n")
        return returned, name

    def _block(self, body: Sequence[ast.stmt], of: _Function, own: _Own, returned: list[_Returned]) -> tuple[str, bool]:
        """Return statements in JavaScript, and whether all paths through them return; `own` receives the assigned
        names.
        """
        parts = []
        for node in body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    term = self._expression(value, of, own)
                    own[name] = term.kind
                    parts.append(f"{of.own[name]} = {term.code};")
                case ast.If(test=test, body=then, orelse=otherwise):
                    condition = self._condition(test, of, own)
                    branches = []
                    for branch in (then, otherwise):
                        inner = dict(own)
                        branches.append((*self._block(branch, of, inner, returned), inner))
                    parts.append(f"if ({condition}) {{{branches[0][0]}}} else {{{branches[1][0]}}}")
                    going_on = [inner for _, ends, inner in branches if not ends]
                    if not going_on:
                        return "".join(parts), True
                    first, last = going_on[0], going_on[-1]  # names are assigned after it if every branch assigns them
                    own.clear()
                    own.update({name: _either(node, kind, last[name]) for name, kind in first.items() if name in last})
                case ast.Return(value=ast.Dict(keys=keys, values=values)) if self.named:
                    names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
                    if len(names) != len(values) or len({*names}) != len(names) or not names:
                        raise NotArithmetic(node, "expected a name for each result")
                    parts.append(self._several(names, values, of, own, returned))
                    return "".join(parts), True
                case ast.Return(value=ast.Tuple(elts=values)) if values and not self.named:
                    parts.append(self._several([*map(str, range(len(values)))], values, of, own, returned))
                    return "".join(parts), True
                case ast.Return(value=ast.expr() as value):
                    term = self._expression(value, of, own)
                    returned.append((None, (term.kind,)))
                    parts.append(f"return {term.code};")
                    return "".join(parts), True
                case _:
                    raise NotArithmetic(node, "expected an assignment to a name, an if, or a return")
        return "".join(parts), False

    def _several(
        self, names: list[str], values: Sequence[ast.expr], of: _Function, own: _Own, returned: list[_Returned]
    ) -> str:
        terms = [self._expression(value, of, own) for value in values]
        returned.append((tuple(names), tuple(term.kind for term in terms)))
        return f"return [{', '.join(term.code for term in terms)}];"

    def _condition(self, node: ast.expr, of: _Function, own: _Own) -> str:
        term = self._expression(node, of, own)
        if term.kind != "bool":
            raise NotArithmetic(
                node, "expected a comparison; JavaScript and Python disagree about which numbers are true"
            )
        return term.code

    def _number(self, node: ast.expr, of: _Function, own: _Own) -> _Term:
        term = self._expression(node, of, own)
        if term.kind == "bool":
            raise NotArithmetic(node, "expected a number, found true or false")
        return term

    def _expression(self, node: ast.expr, of: _Function, own: _Own) -> _Term:
        self.room -= 1
        if self.room < 0:
            raise NotArithmetic(None, f"found more than {MOST:,} expressions")
        match node:
            case ast.Constant(value=bool() as value):
                return _Term("true" if value else "false", "bool")
            case ast.Constant(value=int() | float() as literal):
                return _constant(node, literal)
            case ast.Name(id=name) if name in of.own:
                if name not in own:
                    raise NotArithmetic(node, "it is not assigned on every path to this line")
                return _Term(of.own[name], own[name])
            case ast.Name(id=name) if isinstance(number := of.values.get(name), (int, float)):
                return _constant(node, number)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return _Term(f"!({self._condition(inner, of, own)})", "bool")
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=inner):
                term = self._number(inner, of, own)
                if isinstance(sign, ast.UAdd):
                    return term
                if term.value is not None:
                    return _constant(node, -term.value)
                return _Term(f"({'0 - ' if term.kind == 'whole' else '-'}{term.code})", term.kind)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(node, op, self._number(left, of, own), self._number(right, of, own))
            case ast.Compare(left=first, ops=ops, comparators=others):
                terms = [self._number(one, of, own).code for one in (first, *others)]
                if unknown := [op for op in ops if type(op) not in _SIGNS]:
                    raise NotArithmetic(node, f"{type(unknown[0]).__name__} can't compare numbers")
                pairs = zip(itertools.pairwise(terms), ops, strict=True)
                return _Term(f"({' && '.join(f'{a} {_SIGNS[type(op)]} {b}' for (a, b), op in pairs)})", "bool")
            case ast.BoolOp(op=op, values=values):
                sides = [self._condition(value, of, own) for value in values]
                return _Term(f"({f' {_SIGNS[type(op)]} '.join(sides)})", "bool")
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                condition = self._condition(test, of, own)
                one, other = self._expression(then, of, own), self._expression(otherwise, of, own)
                return _Term(f"({condition} ? {one.code} : {other.code})", _either(node, one.kind, other.kind))
            case ast.Call(func=called, args=arguments, keywords=[]):
                return self._call(node, called, arguments, of, own)
        raise NotArithmetic(node, "it has no exact counterpart in JavaScript")

    def _operation(self, node: ast.BinOp, op: ast.operator, left: _Term, right: _Term) -> _Term:
        if left.value is not None and right.value is not None:
            if isinstance(op, ast.Pow) and 0 <= right.value <= 64 and abs(left.value) <= 1024:
                return _constant(node, left.value**right.value)
            if type(op) in _FOLDED and not (isinstance(op, ast.Div) and right.value == 0):
                return _constant(node, _FOLDED[type(op)](left.value, right.value))
        if isinstance(op, ast.Div):
            return _Term(f"over({left.code}, {right.code})", "float")
        if type(op) not in _FOLDED:
            raise NotArithmetic(node, _INSTEAD.get(type(op), "it has no exact counterpart in JavaScript"))
        if left.kind == right.kind == "whole":
            raise NotArithmetic(node, "JavaScript's integers have a limit and Python's do not; write float(…)")
        return _Term(f"({left.code} {_SIGNS[type(op)]} {right.code})", "float")

    def _call(self, node: ast.expr, called: ast.expr, arguments: Sequence[ast.expr], of: _Function, own: _Own) -> _Term:
        match called:
            case ast.Name(id=name) if isinstance(other := of.values.get(name), _Function):
                terms = [self._expression(one, of, own) for one in arguments]
                kinds = tuple(term.kind for term in terms)
                if len(kinds) != len(other.parameters):
                    raise NotArithmetic(node, f"found {len(kinds)} arguments; expected {len(other.parameters)}")
                if (other, kinds) not in self._made:
                    returned, name = self._function(other, kinds)
                    if any(names is not None for names, _ in returned):
                        raise NotArithmetic(node, "expected a function that returns one number")
                    kind = returned[0][1][0]
                    for _, (another,) in returned:
                        kind = _either(node, kind, another)
                    self._made[other, kinds] = name, kind
                name, kind = self._made[other, kinds]
                return _Term(f"{name}({', '.join(term.code for term in terms)})", kind)
            case ast.Name(id="min" | "max" as name) if name not in of.own and len(arguments) > 1:
                terms = [self._number(one, of, own) for one in arguments]
                code, kind = terms[0].code, terms[0].kind
                for term in terms[1:]:
                    code = f"{'least' if name == 'min' else 'most'}({code}, {term.code})"
                    kind = _either(node, kind, term.kind)
                return _Term(code, kind)
            case ast.Name(id="abs" | "float" as name) if name not in of.own and len(arguments) == 1:
                term = self._number(arguments[0], of, own)
                return _Term(f"Math.abs({term.code})", term.kind) if name == "abs" else _Term(term.code, "float")
            case ast.Attribute(value=ast.Name(id="math"), attr=name) if name in _OF_MATH and len(arguments) == 1:
                term = self._number(arguments[0], of, own)
                return _Term(f"{_OF_MATH[name]}({term.code})", "float" if name == "sqrt" else "whole")
        expected = f"{', '.join(_HERE)}, {', '.join(f'math.{name}' for name in _OF_MATH)}"
        raise NotArithmetic(node, f"expected {expected}, or a function of plain arithmetic")


_Returned = tuple[tuple[str, ...] | None, tuple[Kind, ...]]  # the results' names, if any, and their kinds


def _constant(node: ast.expr, number: int | float) -> _Term:
    try:
        same = float(number) == number and math.isfinite(number)
    except OverflowError:
        same = False
    if not same:
        raise NotArithmetic(node, "it does not fit in 64 bits; write a float")
    text = repr(float(number))
    return _Term(f"({text})" if text.startswith("-") else text, "whole" if isinstance(number, int) else "float", number)


def _either(node: ast.AST, one: Kind, other: Kind) -> Kind:
    """Return the kind of a value that is of either kind; a possible whole number counts as whole."""
    if (one == "bool") != (other == "bool"):
        raise NotArithmetic(node, "it is a number on one path and true or false on another")
    return one if one == other else "whole"
