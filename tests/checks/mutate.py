"""`make mutate`: plant faults in the lecture, one at a time, run it again, and list those that stay unnoticed.

    python -m tests.checks.mutate              every section: half an hour
    python -m tests.checks.mutate napkin_math  one section

A fault changes one number, one operator, or leaves out one statement, in code on which a claim depends; what only feeds
prose and plots is left alone. Each fault gets a process, forked from one that has imported torch and run nothing. There
the lecture runs as plain Python, without the parts that don't need the changed code. A fault is **caught** if a claim
fails, another exception is raised, or the run takes more than ten times as long as without it.
"""

from __future__ import annotations

import ast
import copy
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import torch  # once, for all runs

ROOT = Path(__file__).parents[2]
FORK = multiprocessing.get_context("fork")
ADDRESS_SPACE = 6 * 2**30  # bytes a child may add; without effect if there is a GPU, which needs a large address space
PATIENCE_S = 5  # seconds added to ten times the usual duration
LEFT_OUT = "left out"  # what stands in place of a statement
LARGE = 1000  # adding 1 to a larger number hardly changes it
PROSE = frozenset({"ask", "decide", "explore", "text", "note", "link", "table", "plot", "image", "print"})
QUIET = PROSE | {"manual_seed", "seed", "set_num_threads", "default_rng", "measure"}  # no claim should depend on these
OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """The node of a definition with this number, as `ast.walk` counts, becomes another one."""

    without: frozenset[str]  # parts that don't need the definition
    is_core: bool  # a part that is not deeper needs it
    definition: str
    number: int
    line: int
    change: str  # "512 → 513"

    def planted(self, definition: ast.stmt) -> ast.stmt:
        """Return a copy of the definition with the fault."""
        changed = copy.deepcopy(definition)
        mutate(list(ast.walk(changed))[self.number])
        return changed


def mutate(node: ast.AST) -> bool:
    """Plant a fault in the node; return whether there is one for it."""
    match node:
        case ast.Constant(value=bool() as value):
            node.value = not value
        case ast.Constant(value=int() as value):
            node.value = value + 1 if abs(value) < LARGE else value * 3 // 2
        case ast.Constant(value=float() as value):
            node.value = value * 1.5 or 1.0
        case ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op) if type(op) in OTHER:
            node.op = OTHER[type(op)]()
        case ast.Compare(ops=[op, *_]) if type(op) in OTHER:
            node.ops[0] = OTHER[type(op)]()
        case ast.Expr(value=value):
            node.value = ast.copy_location(ast.Constant(LEFT_OUT), value)
        case _:
            return False
    return True


class Lecture:
    """A lecture as a module whose main has not run."""

    def __init__(self, path: Path) -> None:
        source = path.read_text(encoding="utf-8")
        self.lines, tree = source.splitlines(), ast.parse(source)
        self.definitions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        self.sections = [*self.calls("main")]
        self.parts = {part: line for section in self.sections for part, line in self.calls(section).items()}
        self.needs = {part: self.needed_by(part) for part in self.parts}
        self.module = ModuleType("faulty_lecture")
        self.module.__file__ = str(path)
        sys.modules[self.module.__name__] = self.module
        self.define(tree)

    def define(self, tree: ast.Module) -> None:
        """Execute definitions in the module."""
        code = compile(tree, str(self.module.__file__), "exec", dont_inherit=True)
        exec(code, vars(self.module))

    def faults(self, section: str) -> Iterator[Fault]:
        """Yield every fault in what the lecture's parts need from the section's place in the file, drawings apart."""
        here = ""
        for name, definition in self.definitions.items():
            here = name if name in self.sections else here
            run = {part for part, needs in self.needs.items() if name in needs}
            if here != section or not run or "-> Figure" in ast.unparse(definition):
                continue
            without = frozenset(self.parts.keys() - run)
            is_core = any("@deeper" not in self.parts[part] for part in run)
            nodes = [*ast.walk(definition)]
            for node in self._relevant(nodes[1:]):
                if mutate(other := copy.deepcopy(node)):
                    change = f"{ast.unparse(node)} → {ast.unparse(other)}".replace(repr(LEFT_OUT), LEFT_OUT)
                    yield Fault(without, is_core, name, nodes.index(node), node.lineno, change)

    def calls(self, name: str) -> dict[str, str]:
        """Return the functions that one calls for no result, each with the line of the call."""
        calls = [node for node in ast.walk(self.definitions[name]) if isinstance(node, ast.Expr)]
        lines = {_called(call.value): self.lines[call.lineno - 1] for call in calls}
        return {part: line for part, line in lines.items() if part in self.definitions}

    def needed_by(self, name: str) -> set[str]:
        """Return the definitions that one needs on a CPU, itself included."""
        needed, more = set[str](), {name}
        while more := more & self.definitions.keys() - needed:
            here = [it for it in map(self.definitions.get, more) if "on_a_gpu" not in map(_called, it.decorator_list)]
            needed |= {definition.name for definition in here}
            more = {name for definition in here for name in _names(definition, ast.Load)}
        return needed

    def _relevant(self, nodes: Sequence[ast.AST]) -> Iterator[Any]:
        """Yield the nodes of statements on which a claim or a result depends, without the claims themselves."""
        statements = [node for node in nodes if isinstance(node, ast.stmt)]
        blocks = [node for node in statements if hasattr(node, "body")]
        simple = [node for node in statements if node not in blocks and not self._is_prose(node)]
        stored = {node: _names(node, ast.Store) for node in simple}
        read = {name for node in simple if not isinstance(node, ast.Assign) for name in _names(node, ast.Load)}
        read |= {name for node in blocks for name in _names(_head(node), ast.Load)}
        while more := {name for node in simple if stored[node] & read for name in _names(node, ast.Load) - read}:
            read |= more
        for node in simple:
            if not isinstance(node, (ast.Assert, ast.Import, ast.ImportFrom)) and (
                not stored[node] or stored[node] & read
            ):
                yield from _loud(node)

    def _is_prose(self, statement: ast.stmt) -> bool:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        own = isinstance(statement, ast.Expr) and _called(statement.value) in PROSE | self.definitions.keys()
        last = statement.end_lineno or statement.lineno
        return is_text or own or any("@hide" in line for line in self.lines[statement.lineno - 1 : last])


def _head(statement: ast.stmt) -> ast.AST:
    """Return the header of a compound statement as a node."""
    fields = [getattr(statement, name) for name in ("test", "iter", "subject") if hasattr(statement, name)]
    return ast.Tuple([*fields, *(item.context_expr for item in getattr(statement, "items", ()))], ast.Load())


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {it.id for it in ast.walk(node) if isinstance(it, ast.Name) and isinstance(it.ctx, context)}


def _called(node: ast.AST) -> str | None:
    function = node.func if isinstance(node, ast.Call) else None
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", None)


def _loud(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those below it, without f-strings, annotations, and calls that no claim should depend on."""
    if isinstance(node, ast.JoinedStr) or _called(node) in QUIET:
        return
    yield node
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name != "annotation":
                yield from _loud(child)


def outcome(lecture: Lecture, fault: Fault, is_planted: bool, limit_s: float) -> tuple[str, float]:
    """Run the parts that a fault changes; return the error and the duration."""
    listens, tells = FORK.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = FORK.Process(target=_run, args=(lecture, fault, is_planted, tells, folder))
        process.start()
        tells.close()
        try:
            return listens.recv() if listens.poll(limit_s) else ("it took too long", limit_s)
        except EOFError:
            return "the process died", 0.0
        finally:
            listens.close()
            with suppress(ProcessLookupError):
                os.killpg(process.pid or 0, signal.SIGKILL)  # its child processes may still run
            process.kill()
            process.join()


def _run(lecture: Lecture, fault: Fault, is_planted: bool, tells: Connection, folder: str) -> None:
    _confine(folder)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    error, names = "", vars(lecture.module)
    started = time.perf_counter()
    try:
        if is_planted:
            lecture.define(ast.Module([fault.planted(lecture.definitions[fault.definition])], []))
        if "measure" in names:  # by default it takes ten times as long
            names["measure"] = partial(names["measure"], repeats=5, min_seconds=0.02, max_seconds=0.2)
        names |= dict.fromkeys(fault.without, lambda *_: None)
        names["main"]()
    except BaseException as raised:  # a fault may raise anything, SystemExit included
        error = f"{type(raised).__name__}: {raised}"[:200]
    tells.send((error, time.perf_counter() - started))
    tells.close()
    os._exit(0)  # skips exit handlers, because a fault may have left threads


def _confine(folder: str) -> None:
    """Prevent a fault from printing, filling the memory, and leaving processes or files."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.chdir(folder)
    tempfile.tempdir = folder
    if not Path("/dev/nvidiactl").exists():
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, used + ADDRESS_SPACE))


def judged(lecture: Lecture, section: str) -> dict[Fault, bool]:
    """Plant each fault of a section; return whether it was caught."""
    caught, usual = {}, {}
    for fault in lecture.faults(section):
        if fault.without not in usual:
            usual[fault.without] = outcome(lecture, fault, False, 600)
        error, usual_s = usual[fault.without]
        if error:
            raise ValueError(f"{section} fails without any fault: {error}")
        caught[fault] = bool(outcome(lecture, fault, True, 10 * usual_s + PATIENCE_S)[0])
    return caught


def caught_of(caught: dict[Fault, bool]) -> str:
    core = [caught[fault] for fault in caught if fault.is_core]
    return f"{sum(caught.values())} of {len(caught)} faults caught, {sum(core)} of {len(core)} in the core"


def main() -> None:
    """Judge the named sections, or all, and print the faults that survived."""
    lecture, every = Lecture(ROOT / "lecture.py"), {}
    for section in sys.argv[1:] or lecture.sections:
        caught = judged(lecture, section)
        every |= caught
        print(f"{section}: {caught_of(caught)}", flush=True)
        for fault in caught:
            if not caught[fault]:
                print(f"    lecture.py:{fault.line}: {fault.change}{'' if fault.is_core else ' (deeper)'}", flush=True)
    print(f"in sum: {caught_of(every)}")


if __name__ == "__main__":
    main()
