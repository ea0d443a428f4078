r"""Classify each claim of a lecture by its source: arithmetic, a count by formula, or an observation.

    claim_kinds(parse_source("assert 6 * 2 == 12\nx = torch.ones(2)\nassert x.sum() == 2\n", "lecture.py"))
    # {0: "derived", 2: "observed"}

The analysis follows names through assignments, arguments and return values, in any order of execution:

    derived    from numbers in the source, by arithmetic and Python's own modules for it
    counted    from results of `count`, which uses formulas for operators
    observed   from anything else: results of torch or another library, a clock, an allocator, a file
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from trace_tools.lecture.vocabulary import VOCABULARY
from trace_tools.source.statements import FUNCTIONS, ParsedSource

Kind = Literal["derived", "counted", "observed"]
KINDS: tuple[Kind, ...] = ("derived", "counted", "observed")

# Modules and functions of Python that compute only from their arguments.
ARITHMETIC = frozenset(
    {"__future__", "abc", "bisect", "collections", "dataclasses", "decimal", "enum", "fractions", "functools", "heapq"}
    | {"itertools", "math", "numbers", "operator", "re", "statistics", "string", "struct", "textwrap", "typing"}
)
FILLS = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})  # methods that add to a container
LOOKS_OUTSIDE = frozenset({"open", "input", "id", "hash", "globals", "locals", "vars"})

_Scope = int | None  # the number of a function's `def`, or None for the module
_Binding = tuple[_Scope, str]  # the scope and the name
_NO_KINDS: frozenset[Kind] = frozenset()


def claim_kinds(source: ParsedSource) -> Mapping[int, Kind]:
    """Return the kind of each `assert`, by its number; "observed" in a source nested too deeply to be followed."""
    try:
        return _Provenance(source).claims()
    except RecursionError:
        return {claim.number: "observed" for claim in source.statements if isinstance(claim.node, ast.Assert)}


class _Provenance:
    """Collects the possible origins of each name, and repeats until no origin is added."""

    def __init__(self, source: ParsedSource) -> None:
        self._source = source
        self._functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = {}
        self._scopes: dict[ast.AST, _Scope] = {}  # node → the function that contains it
        self._from: dict[_Binding, frozenset[Kind]] = {}
        self._returns: dict[str, frozenset[Kind]] = {}
        self._bound: dict[_Scope, set[str]] = {None: set()}
        self._results: dict[ast.AST, list[ast.expr]] = {}
        self._named: dict[ast.AST, list[tuple[_Binding, str]]] = {}
        numbers = {statement.node: statement.number for statement in source.statements}
        self._walk(source.tree, None, numbers)
        self._import()

    def _walk(self, node: ast.AST, scope: _Scope, numbers: Mapping[ast.stmt, int]) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            self._scopes[child] = scope
            if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                self._functions.setdefault(child.name, child)
                if isinstance(child, FUNCTIONS):
                    inner = numbers.get(child)
                    self._bound.setdefault(inner, set())
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                self._bound[scope].add(child.id)
            elif isinstance(child, ast.arg):
                self._bound[scope].add(child.arg)
            self._walk(child, inner, numbers)

    def _import(self) -> None:
        for node in ast.walk(self._source.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    is_arithmetic = alias.name.partition(".")[0] in ARITHMETIC
                    self._from[None, (alias.asname or alias.name).partition(".")[0]] = _kinds(
                        None if is_arithmetic else "observed"
                    )
            elif isinstance(node, ast.ImportFrom):
                module = (node.module or "").partition(".")[0]
                for alias in node.names:
                    kind: Kind | None = None if module in ARITHMETIC else "observed"
                    if module == "trace_tools":
                        kind = "counted" if alias.name == "count" else None if alias.name in VOCABULARY else "observed"
                    self._from[None, alias.asname or alias.name] = _kinds(kind)
            elif isinstance(node, ast.ExceptHandler) and node.name is not None:
                self._from[None, node.name] = _kinds("observed")

    def claims(self) -> Mapping[int, Kind]:
        assignments = list(self._assignments())
        calls = [node for node in self._scopes if isinstance(node, ast.Call)]
        size = -1
        while size != (size := sum(map(len, (*self._from.values(), *self._returns.values())))):
            for target, value in assignments:
                self._add(target, self._of(value))
            for call in calls:
                self._pass_on(call)
            for name, definition in self._functions.items():
                self._returns[name] = self._returned(definition)
        kinds: dict[int, Kind] = {}
        for statement in self._source.statements:
            if isinstance(statement.node, ast.Assert):
                behind = self._of(statement.node.test)
                kinds[statement.number] = next((kind for kind in reversed(KINDS) if kind in behind), "derived")
                if "counted" in behind and not self._is_timed(statement.node.test):
                    kinds[statement.number] = "counted"
        return kinds

    def _is_timed(self, test: ast.expr) -> bool:
        """Return whether a claim depends on a clock as well as on a count."""
        names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        words = {node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute)}
        return any("second" in word or "time" in word or "mfu" in word for word in names | words)

    # --- origins of names ---

    def _assignments(self) -> Iterator[tuple[ast.expr, ast.expr]]:
        for node in self._scopes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    yield from ((target, value) for target in targets)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    yield target, value
                case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                    yield target, value
                case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                    yield target, value
                case ast.comprehension(target=target, iter=value):
                    yield target, value
                case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                    yield target, value
                case ast.Call(func=ast.Attribute(value=ast.Name() as target, attr=word), args=arguments) if (
                    word in FILLS
                ):
                    yield from ((target, value) for value in arguments)

    def _add(self, target: ast.expr, kinds: frozenset[Kind]) -> None:
        """Add origins to a target; the parts of a tuple have all origins of the tuple, a container has those of its
        items.
        """
        match target:
            case ast.Name():
                binding = self._binding(target)
                self._from[binding] = self._from.get(binding, _NO_KINDS) | kinds
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._add(part, kinds)
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
                self._add(inner, kinds)

    def _pass_on(self, call: ast.Call) -> None:
        """Add the origins of a call's arguments to the function's parameters."""
        if not isinstance(call.func, ast.Name) or not isinstance(
            definition := self._functions.get(call.func.id), FUNCTIONS
        ):
            return
        scope = next((self._scopes[node] for node in definition.body), None)
        names = [argument.arg for argument in (*definition.args.posonlyargs, *definition.args.args)]
        given = [*zip(names, call.args, strict=False), *((word.arg, word.value) for word in call.keywords if word.arg)]
        for name, value in given:
            self._from[scope, name] = self._from.get((scope, name), _NO_KINDS) | self._of(value)

    def _returned(self, definition: ast.AST) -> frozenset[Kind]:
        """Return the kinds of a function's results; for an object, the kinds of everything in its class."""
        if isinstance(definition, ast.ClassDef):
            return self._of(definition)
        if definition not in self._results:
            results = (n for n in ast.walk(definition) if isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom)))
            self._results[definition] = [result.value for result in results if result.value is not None]
        return frozenset().union(*map(self._of, self._results[definition]))

    def _binding(self, name: ast.Name) -> _Binding:
        scope = self._scopes.get(name)
        return (scope, name.id) if name.id in self._bound.get(scope, ()) else (None, name.id)

    def _of(self, expression: ast.AST) -> frozenset[Kind]:
        """Return the kinds that an expression depends on."""
        kinds: set[Kind] = set()
        for binding, name in self._names(expression):
            kinds |= self._from.get(binding, _NO_KINDS)
            if name in self._functions:
                kinds |= self._returns.get(name, _NO_KINDS)
            elif name in LOOKS_OUTSIDE:
                kinds.add("observed")
        return frozenset(kinds)

    def _names(self, expression: ast.AST) -> list[tuple[_Binding, str]]:
        """Return each name in an expression once, with the scope that binds it."""
        if expression not in self._named:
            names = (node for node in ast.walk(expression) if isinstance(node, ast.Name))
            self._named[expression] = list({self._binding(name): name.id for name in names}.items())
        return self._named[expression]


def _kinds(kind: Kind | None) -> frozenset[Kind]:
    return frozenset(() if kind is None else (kind,))


def tally(kinds: Iterable[Kind]) -> str:
    """Count the claims of each kind: "12 derived, 3 counted by formula, 40 observed"."""
    listed = list(kinds)
    names = {"derived": "derived", "counted": "counted by formula", "observed": "observed"}
    return ", ".join(f"{listed.count(kind):,} {names[kind]}" for kind in KINDS if kind in listed)
