"""A lecture's code → which of its values follow from what each run measures for itself: clocks, measured peaks.

Such a value can be the same in all passes of one trace and another in the next: a size rounded up from a
measured ratio, a verdict "memory" or "compute". It says nothing about a change, unless a statement that it
also follows from was edited.

    lineage = Lineage(sources, edited)
    lineage.is_measured((0, "roofs"), "2 * side")  # True: side = math.ceil(3 * intensity), and so on

Names are followed through assignments, loops, arguments, returned values and what is put into containers, in
any order: a name that is measured anywhere in a function is measured throughout. Conditions are not followed.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from trace_tools.errors import LectureError
from trace_tools.schema import SourceFile
from trace_tools.statements import CLAUSES, FUNCTIONS, MODULE, Statement, parse_source, qualified_name

MEASURING = frozenset(
    {"measure", "peak_flops", "peak_bandwidth", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns",
     "process_time", "process_time_ns", "elapsed_time"}
)  # fmt: skip

FILLING = frozenset({"add", "append", "extend", "insert", "update"})  # methods that put something into a container

Function = tuple[int, str]  # number of its source, qualified name
Node = tuple[Function, str]  # a name in a function; "return" is what the function returns
MEASURED: Node = ((-1, ""), "measured")
EDITED: Node = ((-1, ""), "edited")
RETURNED = "return"


class Lineage:
    """What flows into what, in a lecture's sources, whatever the order of its statements."""

    def __init__(self, sources: Sequence[SourceFile], edited: Collection[tuple[int, int]] = ()) -> None:
        """Take the sources, and the statements (source, number) that are not what they were."""
        self.scopes = _Scopes()
        self.into: dict[Node, set[Node]] = defaultdict(set)
        parsed = [(number, _statements(source)) for number, source in enumerate(sources)]
        for number, statements in parsed:
            for statement in statements:
                self.scopes.add(number, statement)
        for number, statements in parsed:
            for statement in statements:
                self._add(number, statement, is_edited=(number, statement.number) in edited)
        self.measured, self.edited = self._reached(MEASURED), self._reached(EDITED)

    def is_measured(self, function: Function, expression: str) -> bool:
        """Whether an expression follows from a measurement, and from nothing that was edited."""
        try:
            read = set(self._read(function, [ast.parse(expression, mode="eval")]))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
        return not read.isdisjoint(self.measured) and read.isdisjoint(self.edited)

    def _reached(self, start: Node) -> set[Node]:
        reached, waiting = {start}, [start]
        while waiting:
            new = self.into[waiting.pop()] - reached
            reached |= new
            waiting += new
        return reached

    def _add(self, source: int, statement: Statement, *, is_edited: bool) -> None:
        """Note what one statement's own expressions (not those of statements inside it) let flow where."""
        function = (source, statement.function)
        for parts in _parts(statement.node):
            self._flow(function, statement.node, parts, is_edited=is_edited)
            for call in (node for node in _all(parts) if isinstance(node, ast.Call)):
                self._add_arguments(function, call)

    def _flow(self, function: Function, node: ast.stmt, parts: Sequence[ast.AST], *, is_edited: bool) -> None:
        """Let what parts of a statement read flow into what they write."""
        read = {*self._read(function, parts), *([EDITED] if is_edited else [])}
        written = {self.scopes.find(function, name) for name in _written(parts)}
        returns = isinstance(node, ast.Return) or any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in _all(parts))
        if returns:
            written.add((function, RETURNED))
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            written = {(function, node.name)}
        for source in read:
            self.into[source] |= written

    def _add_arguments(self, function: Function, call: ast.Call) -> None:
        """Let what a call is given flow into the parameters of the lecture's function that it calls."""
        called = self.scopes.called(function, call.func)
        if called is None:
            return
        parameters = self.scopes.parameters[called]
        named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg in parameters}
        plain = not any(isinstance(argument, ast.Starred) for argument in call.args)
        for place, parameter in enumerate(parameters):
            given = [named[parameter]] if parameter in named else call.args[place : place + 1] if plain else call.args
            for node in self._read(function, given):
                self.into[node].add((called, parameter))

    def _read(self, function: Function, parts: Iterable[ast.AST]) -> Iterator[Node]:
        """Yield what expressions read: names, and what the lecture's functions and the clocks return."""
        for node in _all(parts):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield self.scopes.find(function, node.id)
            elif isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in MEASURING:
                    yield MEASURED
                called = self.scopes.called(function, node.func)
                if called is not None:
                    yield called, RETURNED


@dataclass
class _Scopes:
    """Which names each function has, and where a name that it reads is from."""

    names: dict[Function, set[str]] = field(default_factory=lambda: defaultdict(set))
    parameters: dict[Function, tuple[str, ...]] = field(default_factory=dict)

    def add(self, source: int, statement: Statement) -> None:
        function, node = (source, statement.function), statement.node
        self.names[function] |= set(_bound(part for parts in _parts(node) for part in parts))
        if isinstance(node, FUNCTIONS):
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            inner = (source, qualified_name(statement))
            self.parameters[inner] = tuple(argument.arg for argument in every)
            self.names[inner] |= set(self.parameters[inner])
            self.names[function].add(node.name)

    def find(self, function: Function, name: str) -> Node:
        """Return the name where it was bound: in the function, the nearest around it that has it, or the module."""
        source, scope = function
        while scope != MODULE and name not in self.names[source, scope]:
            scope = scope.rpartition(".")[0] or MODULE
        return (source, scope), name

    def called(self, function: Function, called: ast.expr) -> Function | None:
        """Return the lecture's function that a call by name calls; None when it is not one of them."""
        if not isinstance(called, ast.Name):
            return None
        (source, scope), name = self.find(function, called.id)
        found = (source, name if scope == MODULE else f"{scope}.{name}")
        return found if found in self.parameters else None


def _statements(source: SourceFile) -> Sequence[Statement]:
    try:
        return parse_source(source.text, source.path).statements
    except LectureError:  # another Python's syntax: then nothing is known to be measured
        return ()


def _parts(node: ast.stmt) -> list[list[ast.AST]]:
    """Return a statement's own expressions, apart where it assigns several things one by one: a, b = 1, 2."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
        sides = node.targets[0].elts, node.value.elts
        starred = any(isinstance(element, ast.Starred) for side in sides for element in side)
        if len(node.targets) == 1 and len(sides[0]) == len(sides[1]) and not starred:
            return [[target, value] for target, value in zip(*sides, strict=True)]
    return [[part for part in ast.iter_child_nodes(node) if not isinstance(part, (ast.stmt, *CLAUSES))]]


def _all(parts: Iterable[ast.AST]) -> Iterator[ast.AST]:
    return (node for part in parts for node in ast.walk(part))


def _bound(parts: Iterable[ast.AST]) -> Iterator[str]:
    return (node.id for node in _all(parts) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def _written(parts: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the names that expressions bind or change: found[name] = …, rows.append(…)."""
    yield from _bound(parts)
    for node in _all(parts):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            yield from _root(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FILLING:
            yield from _root(node.func)


def _root(node: ast.AST) -> Iterator[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
