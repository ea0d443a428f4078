"""Plant faults in the lecture, one at a time, run the section again, and list the faults that no claim caught.

    python -m tests.checks.mutate                 the core of every section, about a minute each, into mutate.md
    python -m tests.checks.mutate napkin_math --seconds 300 --jobs 4
    python -m tests.checks.mutate --deeper        with the deeper parts

Each fault gets a new process, forked from one that has imported torch and run nothing. There the section runs as plain
Python, except that a failed assert is noted and does not end the run. Parts of the section that do not reach the fault
are skipped. A fault is **caught** if a claim fails, an exception is raised, or the run takes more than ten times as
long. The order of faults is drawn with a fixed seed, so more time only adds further faults.

The next run keeps the reasons that people wrote into the report's last columns, as long as the line does not change.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from tests.checks.faults import Fault, Section
from tests.checks.mutate_report import Judged, read_reasons, report

ROOT = Path(__file__).parents[2]
ADDRESS_SPACE = 6 * 2**30  # bytes a child may add; without effect if there is a GPU, which needs a large address space
PATIENCE_S = 5  # seconds added to ten times the usual duration
FORK = multiprocessing.get_context("fork")


@dataclass
class Outcome:
    """How one run of a section ended."""

    failed: list[int] = field(default_factory=list)  # lines of claims that did not hold
    judged: list[int] = field(default_factory=list)  # lines of claims that were reached
    error: str | None = None
    lines: list[int] = field(default_factory=list)  # lines of the lecture that ran, if watched
    modules: list[str] = field(default_factory=list)  # modules imported by the run, if watched
    seconds: float = 0.0


class Claims(ast.NodeTransformer):
    """assert TEST, MESSAGE → _judge(LINE, TEST)"""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        call = ast.Call(ast.Name("_judge", ast.Load()), [ast.Constant(node.lineno), node.test], [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))


def lecture_module(tree: ast.Module, path: Path) -> ModuleType:
    """Return the lecture as a module whose main has not run and whose claims call `_judge`."""
    module = ModuleType("faulty_lecture")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(Claims().visit(copy.deepcopy(tree)), str(path), "exec"), module.__dict__)
    return module


def run_section(module: ModuleType, definitions: ast.Module, name: str, *, watched: bool) -> Outcome:
    """Run one section of the lecture in this process, with some definitions replaced; `watched` notes its lines."""
    outcome = Outcome()
    path = str(module.__file__)

    def judge_claim(line: int, holds: Any) -> None:
        outcome.judged.append(line)
        if not holds:
            outcome.failed.append(line)

    started = time.perf_counter()
    try:
        exec(compile(Claims().visit(definitions), path, "exec"), module.__dict__)
        module.__dict__["_judge"] = judge_claim
        _measure_briefly(module)
        imported = set(sys.modules)
        with _watching(path, outcome.lines) if watched else contextlib.nullcontext():
            getattr(module, name)()
        outcome.modules = [name for name in sys.modules if name not in imported] if watched else []
    except BaseException as error:  # a fault may raise anything, SystemExit included
        outcome.error = f"{type(error).__name__}: {error}"[:200]
    outcome.seconds = time.perf_counter() - started
    return outcome


def _measure_briefly(module: ModuleType) -> None:
    """Let the lecture's `measure` take a tenth of its default time."""
    measure = getattr(module, "measure", None)
    if measure is None:
        return

    def briefly(*functions: Any, **options: Any) -> Any:
        limits = {"repeats": 5, "min_seconds": 0.02, "max_seconds": 0.2}
        return measure(
            *functions, **options | {name: min(options.get(name, value), value) for name, value in limits.items()}
        )

    module.__dict__["measure"] = briefly


@contextlib.contextmanager
def _watching(path: str, lines: list[int]) -> Iterator[None]:
    seen: set[int] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != path:
            return None
        seen.add(frame.f_lineno)
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
        lines += sorted(seen)


@dataclass(frozen=True)
class Run:
    """The work of one child process."""

    section: Section
    module: ModuleType
    fault: Fault | None = None
    callers: frozenset[str] | None = None  # functions that the section must call; None: all
    watched: bool = False

    def start(self, folder: str) -> tuple[Any, Connection]:
        """Start the process in its own process group, with `folder` for its files."""
        mine, theirs = FORK.Pipe(duplex=False)
        process = FORK.Process(target=self._run, args=(theirs, folder))
        process.start()
        theirs.close()
        return process, mine

    def _run(self, connection: Connection, folder: str) -> None:
        _confine(folder)
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(0)
        random.seed(0)
        definitions = self.section.planted(self.fault, self.callers)
        outcome = run_section(self.module, definitions, self.section.name, watched=self.watched)
        connection.send_bytes(json.dumps(outcome.__dict__).encode())
        connection.close()
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


def outcomes(runs: Iterable[Run], jobs: int, limit_s: float, budget_s: float) -> Iterator[tuple[Run, Outcome]]:
    """Run in `jobs` processes at a time, each for at most `limit_s`; start none after `budget_s`."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield from _outcomes(iter(runs), jobs, limit_s, time.monotonic() + budget_s, folder)


def _outcomes(
    waiting: Iterator[Run], jobs: int, limit_s: float, deadline: float, folder: str
) -> Iterator[tuple[Run, Outcome]]:
    running: dict[Any, tuple[Run, Any, float]] = {}
    while True:
        while len(running) < jobs and time.monotonic() < deadline and (run := next(waiting, None)) is not None:
            process, connection = run.start(folder)
            running[connection] = (run, process, time.monotonic() + limit_s)
        if not running:
            return
        ready = wait(list(running), timeout=max(0.0, min(end for *_, end in running.values()) - time.monotonic()))
        late = [c for c, (*_, end) in running.items() if c not in ready and time.monotonic() >= end]
        for connection in [*ready, *late]:
            run, process, _ = running.pop(connection)
            yield run, _finished(connection, process, late=connection in late)


def _finished(connection: Connection, process: Any, *, late: bool) -> Outcome:
    try:
        if late:
            return Outcome(error="TimeoutError: it took too long")
        return Outcome(**json.loads(connection.recv_bytes()))
    except EOFError:
        return Outcome(error="the process died")
    finally:
        connection.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its child processes may still run
        process.kill()
        process.join()


def judge(section: Section, module: ModuleType, faults: list[Fault], jobs: int, seconds: float) -> Judged:
    """Plant faults in a section, in order, until the time is up; raise ValueError if it fails without a fault."""
    run = Run(section, module, watched=True)
    watched, plain = [outcome for _, outcome in outcomes([run, replace(run, watched=False)], 1, 300, 600)]
    if watched.error or plain.error:
        raise ValueError(f"{section.name} fails without any fault: {watched.error or plain.error}")
    for name in watched.modules:  # once, for all later child processes
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    ran = set(watched.lines)
    possible = [fault for fault in faults if fault.line in ran]
    judged = Judged(
        section.name,
        possible=sum(not fault.in_claim for fault in possible),
        unsteady=set(watched.failed + plain.failed),
        claims=[claim for claim in section.claims() if claim.lineno in watched.judged],
        not_run=sum(claim.lineno not in watched.judged for claim in section.claims()),
    )
    parts = {section.callers(fault) for fault in possible}
    alone = [Run(section, module, callers=part) for part in sorted(parts, key=lambda part: sorted(part or ()))]
    for _, outcome in outcomes(alone, jobs, 300, 600):  # without its other parts, a section draws other random numbers
        judged.unsteady |= set(outcome.failed)
    limit = 10 * max(watched.seconds, plain.seconds) + PATIENCE_S
    runs = [(Run(section, module, fault, section.callers(fault)), fault) for fault in possible]
    for run, outcome in outcomes((run for run, fault in runs if not fault.in_claim), jobs, limit, seconds):
        judged.note(run.fault, set(outcome.failed), outcome.error)
    idle = judged.never_failed()
    own = (run for run, fault in runs if fault.in_claim and _claim_of(section, fault) in idle)
    for run, outcome in outcomes(own, jobs, limit, seconds):
        judged.note(run.fault, set(outcome.failed), outcome.error)
    return judged


def _claim_of(section: Section, fault: Fault) -> int:
    """Return the first line of the claim that contains a fault."""
    return max(claim.lineno for claim in section.claims() if claim.lineno <= fault.line)


def sections_of(tree: ast.Module) -> list[str]:
    """Return the functions that `main` calls, in order."""
    main = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main")
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    names = [node for node in ast.walk(main) if isinstance(node, ast.Name) and node.id in functions]
    return [node.id for node in sorted(names, key=lambda n: (n.lineno, n.col_offset))]


@contextlib.contextmanager
def known_machine() -> Iterator[None]:
    """Measure the machine's peaks once, in a separate process, for all child processes."""
    from trace_tools.machines import machine

    if os.environ.get(machine.STORED):
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.json"
        child = FORK.Process(target=lambda: path.write_text(machine.to_json(machine.this_machine()), encoding="utf-8"))
        child.start()
        child.join()
        os.environ[machine.STORED] = str(path)
        try:
            yield
        finally:
            del os.environ[machine.STORED]


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the named sections, or all, and write the report; return 1 if a row of the report has no reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.checks.mutate", description="Plant faults in the lecture.")
    parser.add_argument("sections", nargs="*", metavar="SECTION")
    parser.add_argument("--lecture", type=Path, default=ROOT / "lecture.py")
    parser.add_argument("--report", type=Path, default=ROOT / "tests" / "checks" / "mutate.md")
    parser.add_argument("--seconds", type=float, default=60, help="for the faults of one section")
    parser.add_argument("--deeper", action="store_true", help="plant faults in the deeper parts, too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    path = options.lecture.resolve()
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    every = sections_of(tree)
    unknown = sorted(set(options.sections) - set(every))
    if unknown:
        parser.error(f"{path.name} has no section {unknown[0]!r}; it has {', '.join(every)}")
    sys.path.insert(0, str(path.parent))
    import torch  # noqa: F401  (once, for all children)

    module = lecture_module(tree, path)
    judged = []
    with known_machine():
        sections = [Section(tree, source, name, deeper=options.deeper) for name in every]
        for number, section in enumerate(sections):
            if options.sections and section.name not in options.sections:
                continue
            faults = section.without(sections[:number])
            random.Random(options.seed).shuffle(faults)
            judged.append(judge(section, module, faults, options.jobs, options.seconds))
            print(judged[-1].one_line(), flush=True)
    text, unexplained = report(judged, read_reasons(options.report), options.report)
    options.report.write_text(text, encoding="utf-8")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
