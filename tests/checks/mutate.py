"""`make mutate`: plant faults in the lecture, one at a time, run the section again, and list those that stay unnoticed.

    python -m tests.checks.mutate                            every section, a minute each
    python -m tests.checks.mutate napkin_math --seconds 300  one section

A fault changes one number, one operator, or leaves out one statement, in code on which a claim depends; what only feeds
prose and plots is left alone. Each fault gets a process, forked from one that has imported torch and run nothing. There
the section runs as plain Python, except that a failed assert is noted and does not end the run. A fault is **caught**
if a claim fails that holds without it, an exception is raised, or the run takes more than ten times as long. Faults are
drawn with a fixed seed, so more time only adds further faults.
"""

from __future__ import annotations

import argparse
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
from bisect import bisect
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

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


class Claims(ast.NodeTransformer):
    """assert TEST, MESSAGE → _judge(LINE, TEST)"""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        call = ast.Call(ast.Name("_judge", ast.Load()), [ast.Constant(node.lineno), node.test], [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))


class Lecture:
    """A lecture as a module whose main has not run and whose claims call `_judge`."""

    def __init__(self, path: Path) -> None:
        import torch  # noqa: F401  (once, for all runs)

        source = path.read_text(encoding="utf-8")
        self.lines, tree = source.splitlines(), ast.parse(source)
        kinds = (ast.FunctionDef, ast.ClassDef)
        self.definitions = {node.name: node for node in tree.body if isinstance(node, kinds)}
        names = [node for node in ast.walk(self.definitions["main"]) if isinstance(node, ast.Name)]
        found = (node.id for node in sorted(names, key=lambda node: (node.lineno, node.col_offset)))
        self.sections = [*dict.fromkeys(name for name in found if name in self.definitions)]
        self.module = ModuleType("faulty_lecture")
        self.module.__file__ = str(path)
        sys.modules[self.module.__name__] = self.module
        self.define(tree)

    def define(self, tree: ast.Module) -> None:
        """Execute definitions in the module."""
        code = compile(Claims().visit(copy.deepcopy(tree)), str(self.module.__file__), "exec", dont_inherit=True)
        exec(code, vars(self.module))

    def faults(self, section: str) -> Iterator[Fault]:
        """Yield every fault in the functions that the section reaches in its own part of the file, without drawings.

        A section that only uses what another one teaches has no claims about it.
        """
        reached, waiting = {"sizes"}, [section]  # claims hold for all sizes
        begins = [self.definitions[name].lineno for name in self.sections]
        while waiting:
            if (name := waiting.pop()) in reached or name not in self.definitions:
                continue
            reached.add(name)
            definition = self.definitions[name]
            if "on_a_gpu" in map(_called, getattr(definition, "decorator_list", ())):
                continue  # on a CPU it does not run
            nodes = [*ast.walk(definition)]
            waiting += [node.id for node in nodes if isinstance(node, ast.Name)]
            drawn = "-> Figure" in ast.unparse(definition)
            if drawn or self.sections[bisect(begins, definition.lineno) - 1] != section:
                continue
            for node in self._relevant(nodes[1:]):
                if mutate(other := copy.deepcopy(node)):
                    change = f"{ast.unparse(node)} → {ast.unparse(other)}".replace(repr(LEFT_OUT), LEFT_OUT)
                    yield Fault(name, nodes.index(node), node.lineno, change)

    def _relevant(self, nodes: Sequence[ast.AST]) -> Iterator[Any]:
        """Yield the nodes of statements on which a claim or a result depends, without the claims themselves."""
        blocks = [node for node in nodes if isinstance(node, ast.stmt) and hasattr(node, "body")]
        simple = [
            node for node in nodes if isinstance(node, ast.stmt) and node not in blocks and not self._is_prose(node)
        ]
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


# ------------------------------------------------------------------------------ runs


def outcome(lecture: Lecture, section: str, fault: Fault | None, limit_s: float) -> tuple[set[int], str, float]:
    """Run a section in a process of its own; return the lines of its failed claims, its error and its duration."""
    listens, tells = FORK.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = FORK.Process(target=_run, args=(lecture, section, fault, tells, folder))
        process.start()
        tells.close()
        try:
            return listens.recv() if listens.poll(limit_s) else (set(), "it took too long", limit_s)
        except EOFError:
            return set(), "the process died", 0.0
        finally:
            listens.close()
            with suppress(ProcessLookupError):
                os.killpg(process.pid or 0, signal.SIGKILL)  # its child processes may still run
            process.kill()
            process.join()


def _run(lecture: Lecture, section: str, fault: Fault | None, tells: Connection, folder: str) -> None:
    _confine(folder)
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    failed, error, names = set(), "", vars(lecture.module)
    started = time.perf_counter()
    try:
        if fault is not None:
            lecture.define(ast.Module([fault.planted(lecture.definitions[fault.definition])], []))
        names["_judge"] = lambda line, holds: None if holds else failed.add(line)
        if "measure" in names:  # by default it takes ten times as long
            names["measure"] = partial(names["measure"], repeats=5, min_seconds=0.02, max_seconds=0.2)
        names[section]()
    except BaseException as raised:  # a fault may raise anything, SystemExit included
        error = f"{type(raised).__name__}: {raised}"[:200]
    tells.send((failed, error, time.perf_counter() - started))
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


def survivors(lecture: Lecture, section: str, seconds: float, seed: int = 0) -> tuple[int, list[Fault]]:
    """Plant faults in a section until the time is up; return their number and those that were not caught."""
    unsteady, error, usual_s = outcome(lecture, section, None, 600)
    if error:
        raise ValueError(f"{section} fails without any fault: {error}")
    faults = [*lecture.faults(section)]
    random.Random(seed).shuffle(faults)
    planted, survived, ends = 0, [], time.monotonic() + seconds
    for fault in faults:
        if time.monotonic() > ends:
            break
        failed, error, _ = outcome(lecture, section, fault, 10 * usual_s + PATIENCE_S)
        planted += 1
        survived += [fault] * (not failed - unsteady and not error)
    return planted, survived


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge the named sections, or all, and print the faults that survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.checks.mutate", description="Plant faults in the lecture.")
    parser.add_argument("sections", nargs="*", metavar="SECTION")
    parser.add_argument("--lecture", type=Path, default=ROOT / "lecture.py")
    parser.add_argument("--seconds", type=float, default=60, help="for the faults of one section")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(options.lecture.resolve().parent))
    lecture = Lecture(options.lecture.resolve())
    if unknown := sorted(set(options.sections) - set(lecture.sections)):
        parser.error(f"{options.lecture.name} has no section {unknown[0]!r}; it has {', '.join(lecture.sections)}")
    for section in options.sections or lecture.sections:
        planted, survived = survivors(lecture, section, options.seconds)
        print(f"{section}: {planted - len(survived)} of {planted} faults caught", flush=True)
        for fault in sorted(survived, key=lambda fault: fault.line):
            print(f"    {options.lecture.name}:{fault.line}: {fault.change}", flush=True)


if __name__ == "__main__":
    main()
