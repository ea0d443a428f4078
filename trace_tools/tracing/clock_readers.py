"""Find the functions of a lecture that measure time; counting operators in them would slow the timed code.

`clock_readers` takes the parsed lecture and the modules traced with it, and returns the numbers of these functions in
the records. It returns None if no functions can be separated: `main` or module-level code reads a clock, or the lecture
compiles (a meter makes compiled code run as written).

    def time_matmul(a, b):                  # measures time: starts and stops a clock
        return timeit.timeit(lambda: a @ b, number=5) / 5

    def now():                              # returns the time, so its callers measure time
        return time.perf_counter()

Functions are found by the names in them. A function that reads a clock once, a generator (a context manager), a special
method (`__enter__`) and a function that is not traced leave the timing to their callers. `trace_tools.measure` needs no
exception, because the meter is off while it samples.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trace_tools.source.imports import trees_beside
from trace_tools.source.statements import FUNCTIONS, ParsedSource
from trace_tools.tracing.included import first_numbers
from trace_tools.tracing.syntax import own_nodes

_OF_TIME = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
CLOCKS = frozenset({*_OF_TIME, *(f"{name}_ns" for name in _OF_TIME), "default_timer", "now", "utcnow", "Event"})
TIMERS = frozenset({"timeit", "Timer", "benchmark", "profile", "profiler", "cProfile"})  # each starts and stops a clock

WAITS = frozenset({"sleep", "strftime"})  # names in the module `time` that read no clock to compare
YIELDS = (ast.Yield, ast.YieldFrom)


def clock_readers(sources: Sequence[ParsedSource], folder: Path, main: str) -> frozenset[int] | None:
    """Return the functions of `sources` (the lecture first) that measure time, or None if they can't be separated.

    `folder` contains the lecture's other modules.
    """
    traced = [_Module(source.tree) for source in sources]
    for module, source, first in zip(traced, sources, first_numbers(sources), strict=True):
        numbers = {statement.node: first + statement.number for statement in source.statements}
        for function in module.functions:
            function.number = numbers[function.node]
    texts = {source.text.encode() for source in sources}
    modules = [*traced, *(_Module(tree) for text, tree in trees_beside(sources[0], folder) if text not in texts)]
    if any(module.compiles for module in modules):
        return None
    words, readers = CLOCKS | TIMERS, set[_Timed]()
    while fresh := [
        (function, module)
        for module in modules
        for named in [words | module.renamed(words)]
        for function in module.functions
        if function not in readers and not named.isdisjoint(function.mentioned)
    ]:
        readers.update(function for function, _ in fresh)
        words |= {
            function.called
            for function, module in fresh
            if function.number is None or not function.times(words | module.renamed(words), module.renamed(TIMERS))
        }
    definition = sources[0].function(main)
    outside = any(not (words | module.renamed(words)).isdisjoint(module.outside) for module in traced)
    if outside or any(definition is not None and function.node is definition.node for function in readers):
        return None
    return frozenset(function.number for function in readers if function.number is not None)


@dataclass(eq=False)
class _Timed:
    """A function, the names in it, and the name in its callers."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    called: str  # its name; for a special method the name of the class
    nodes: list[ast.AST] = field(default_factory=list)
    mentioned: set[str] = field(default_factory=set)  # the names in its body and its decorators
    number: int | None = None  # None if it is not traced

    def times(self, clocks: Collection[str], renamed: Collection[str]) -> bool:
        """Return whether the function starts and stops a clock.

        It does if it reads a clock twice, calls a timer, or enters a context manager that does both. `renamed`: other
        names of `TIMERS`.
        """
        own = (node for child in self.node.body for node in own_nodes(child))
        suspends = isinstance(self.node, ast.AsyncFunctionDef) or any(isinstance(node, YIELDS) for node in own)
        if suspends or self.called != self.node.name:
            return False
        readings = 0
        for node in self.nodes:
            if isinstance(node, ast.Call):
                called = {name for part in _chain(node.func) for name in _names(part)}
                readings += 2 if called & {*TIMERS, *renamed} else bool(called & {*clocks})
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                entered = (part for item in node.items for part in ast.walk(item.context_expr))
                readings += 2 * any(name in clocks for part in entered for name in _names(part))
        return readings > 1


class _Module:
    """A module: its functions, the names in its other code, and its imports."""

    def __init__(self, tree: ast.AST) -> None:
        self.compiles = False
        self.functions: list[_Timed] = []
        self.outside: set[str] = set()
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self._visit(tree, [], None)

    def renamed(self, clocks: Collection[str]) -> set[str]:
        """Return this module's names for imported members of `clocks`, and for imports from inside them."""
        return {
            alias.asname or alias.name
            for node in self.imports
            for alias in node.names
            if alias.name not in WAITS
            and (alias.asname or isinstance(node, ast.ImportFrom))
            and any(part in clocks for name in _imported(node, alias) for part in name.split("."))
        }

    def _visit(self, node: ast.AST, inside: list[_Timed], of_class: str | None) -> None:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self.imports.append(node)
            if not inside:
                return
        if isinstance(node, ast.Attribute) and node.attr in WAITS:
            return
        names = [*_names(node)]
        is_of_re = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re"
        self.compiles |= "compile" in names and not is_of_re
        for function in inside:
            function.nodes.append(node)
            function.mentioned.update(names)
        if not inside:
            self.outside.update(names)
        if isinstance(node, FUNCTIONS):
            special = node.name.startswith("__") and node.name.endswith("__")
            function = _Timed(node, of_class if special and of_class else node.name)
            self.functions.append(function)
            inside, of_class = [*inside, function], None
        elif isinstance(node, ast.ClassDef):
            of_class = node.name
        for child in ast.iter_child_nodes(node):
            self._visit(child, inside, of_class)


def _imported(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> tuple[str, ...]:
    return (alias.name, (node.module or "")) if isinstance(node, ast.ImportFrom) else (alias.name,)


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names in one node, without those below it."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            for name in _imported(node, alias):
                yield from name.split(".")


def _chain(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a call's function: four nodes for `torch.utils.benchmark.Timer`."""
    while isinstance(node, ast.Attribute):
        yield node
        node = node.value
    yield node
