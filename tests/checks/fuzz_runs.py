"""Run a random program in this process plainly, counted, and under probes in several variants, and compare the runs.

differences(text, VARIANTS)  # "" if there are none; else the first one, after its kind: "as a pass: said: line 3 …"

The plain run is the reference: its output (values, errors with their positions, finalizers) and its end. A second run
counts how often each statement runs: it has a counting call before each statement.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import io
import itertools
import sys
import tempfile
import threading
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.checks import fuzz_world
from tests.tracing.probed import Instruments, Probed, described, new_module
from trace_tools.describing.values import Describer
from trace_tools.source.statements import FUNCTIONS, ParsedSource, parse_source
from trace_tools.tracing.listening import listening
from trace_tools.tracing.recorder.call import Call
from trace_tools.tracing.recorder.limits import LINES
from trace_tools.tracing.recorder.output import ROOMS

PATH = "drawn.py"
UNLIMITED = 10**9


@dataclass(frozen=True)
class Variant:
    """One way to run a program under probes."""

    name: str
    directives: bool = True
    limit: int = 100
    frames: int = 1000
    metered: bool = False
    counted: bool = False  # compare how often each statement ran


VARIANTS = (
    Variant("as a pass"),
    Variant("without directives", directives=False, limit=UNLIMITED, frames=UNLIMITED, counted=True),
    Variant("metered", metered=True),
    Variant("within small limits", limit=3, frames=4),
)


@dataclass
class RunResult:
    """The result of one run in this process."""

    lines: list[str]
    printed: str
    error: Any


def differences(text: str, variants: Sequence[Variant] = VARIANTS) -> str:
    """Return the first difference between the plain run and a run under probes; "" if there is none."""
    plain = plainly(text)
    if plainly(text).lines != plain.lines:
        return ""  # two plain runs differ, so they are no reference
    for variant in variants:
        if problem := difference(text, variant, plain):
            return f"{variant.name}: {problem}"
    return ""


def difference(text: str, variant: Variant, plain: RunResult) -> str:
    """Return how a run under probes behaved differently, or an error in its record."""
    with tempfile.TemporaryDirectory() as folder:
        lecture, probed, meter = under_probes(text, variant, Path(folder))
        if problem := compared("said", plain.lines, probed.lines):
            return problem
        if plain.error != probed.error:
            return f"ended: plain {plain.error}, probed {probed.error}"
        if open_frames := left_open(lecture):
            return f"frames: {open_frames} are still open"
        if problem := broken_trace(lecture):
            return problem
        if variant.metered:
            return mismetered(lecture, meter)
        if variant.counted:
            return miscounted(lecture, counted(text))
        return "" if variant.limit < 100 else missing_output(lecture, plain) or wrong_values(lecture)


def compared(kind: str, plain: list[str], probed: list[str]) -> str:
    """Return the first line in which two runs differ."""
    for number, (plain_line, probed_line) in enumerate(itertools.zip_longest(plain, probed)):
        if plain_line != probed_line:
            return f"{kind}: line {number}\n    plain   {plain_line}\n    probed  {probed_line}"
    return ""


# ------------------------------------------------------------------------------ runs


def plainly(text: str) -> RunResult:
    """Run a lecture as plain Python."""
    module = new_module(text, PATH)
    code = compile(text, PATH, "exec", dont_inherit=True)

    def run() -> None:  # has the same name as below, because a program can see it
        exec(code, vars(module))
        module.main()

    return _run(module, run)


def counted(text: str) -> Counter[int]:
    """Run a lecture with a call before each statement; return how often each ran."""
    source = parse_source(text, PATH)
    counts: Counter[int] = Counter()
    module = new_module(text, PATH)
    vars(module)["_count"] = lambda number: counts.update((number,))
    code = compile(Counting(source).visit(source.tree), PATH, "exec", dont_inherit=True)
    _run(module, lambda: (exec(code, vars(module)), module.main()))
    return counts


def under_probes(text: str, variant: Variant, folder: Path) -> tuple[Probed, RunResult, Any]:
    """Run a lecture as a process of the tracer would."""
    meter = None
    if variant.metered:
        from trace_tools.metering.meters import Meter

        meter = Meter()
    lecture = Probed(
        text,
        PATH,
        folder / "x.journal",
        None if variant.directives else (),
        instruments=Instruments(Describer(), meter=meter),
        limit=variant.limit,
        frames=variant.frames,
        steps=UNLIMITED if variant.counted else LINES,
        describes=not variant.metered,
    )
    with contextlib.ExitStack() as stack:
        if meter is not None:
            stack.enter_context(meter)
        lecture.start()

        def run() -> None:
            with listening(lecture.recorder, str):
                exec(lecture.code, vars(lecture.module))
                lecture.module.main()

        result = _run(lecture.module, run)
        lecture.finish()
    gc.collect()
    return lecture, result, meter


def _run(module: types.ModuleType, call: Callable[[], object]) -> RunResult:
    hooks = threading.excepthook, sys.unraisablehook
    printed, error = io.StringIO(), None
    sys.modules["fuzz_world"] = fuzz_world
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.simplefilter("ignore")
        try:
            call()
            output = printed.getvalue()  # finalizers that run after the lecture print outside its steps
        except BaseException as raised:
            error, output = described(raised, PATH), printed.getvalue()
        finally:
            gc.enable()
            gc.collect()
    lines = list(fuzz_world._lines)
    with contextlib.redirect_stdout(io.StringIO()):
        vars(module).clear()  # remaining objects end here and not in the next run
        gc.collect()
    threading.excepthook, sys.unraisablehook = hooks
    return RunResult(lines, output, error)


class Counting(ast.NodeTransformer):
    """statement → _count(its number); statement, in the bodies of the module and of functions."""

    def __init__(self, source: ParsedSource) -> None:
        self.number_of = {statement.node: statement.number for statement in source.statements}

    def visit(self, node: ast.AST) -> Any:
        self.generic_visit(node)
        for name in () if isinstance(node, ast.ClassDef) else ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, [new for child in block for new in self.counted(child)])
        return node

    def counted(self, node: ast.stmt) -> list[ast.stmt]:
        first = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if first or isinstance(node, (ast.Global, ast.Nonlocal)) or getattr(node, "module", "") == "__future__":
            return [node]
        call = ast.Call(ast.Name("_count", ast.Load()), [ast.Constant(self.number_of[node])], [])
        return [ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node)), node]


# ------------------------------------------------------------------------------ checks of the record


def left_open(lecture: Probed) -> int:
    """Return how many calls never ended, without generators: a suspended one may never end in plain Python either."""
    suspending = {lecture.source.statements[number].function for number in lecture.program.suspending}
    frames = lecture.run.frames  # reads the journal
    recorded = [frames[call.id] for call in lecture.recorder.calls.values() if isinstance(call, Call)]
    return sum(lecture.program.functions[frame.function] not in suspending for frame in recorded)


def broken_trace(lecture: Probed) -> str:
    """Return an inconsistency in the run as the parent process would read it."""
    run = lecture.run
    for frame in run.frames.values():
        if frame.of is not None and frame.of not in run.steps:
            return f"trace: frame {frame.id} was called by step {frame.of}, which is not there"
    seen: dict[tuple[int, int], int] = {}
    for step in sorted(run.steps.values(), key=lambda step: step.seq):
        if step.frame not in run.frames:
            return f"trace: step {step.seq} is in frame {step.frame}, which is not there"
        if step.ns is not None and step.ns < 0:
            return f"trace: step {step.seq} took {step.ns} ns"
        key = step.frame, step.statement
        if step.execution <= seen.get(key, 0):
            return f"trace: step {step.seq} is execution {step.execution} after {seen[key]}"
        seen[key] = step.execution
    return ""


def miscounted(lecture: Probed, counts: Counter[int]) -> str:
    """Return the first statement whose number of executions is wrong in the trace."""
    run = lecture.run
    recorded = Counter(step.statement for step in run.steps.values())
    for (_, statement), (count, _) in run.omitted.items():
        recorded[statement] += count
    for one in lecture.source.statements:
        if not is_counted(one.node, one.number, lecture.source):
            continue
        if recorded[one.number] != counts[one.number]:
            line = lecture.source.text.splitlines()[one.line - 1].strip()
            ran = f"ran {counts[one.number]} times, {recorded[one.number]} recorded"
            return f"counts: line {one.line} ({line}) {ran}"
    return ""


def is_counted(node: ast.stmt, number: int, source: ParsedSource) -> bool:
    """Return whether a statement has one step per execution.

    Headers of loops are recorded at each evaluation; constants, declarations and class bodies are no steps.
    """
    if isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Global, ast.Nonlocal)):
        return False
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return False
    parent = source.statements[number].parent
    while parent is not None:
        outer = source.statements[parent].node
        if isinstance(outer, FUNCTIONS):
            return True
        if isinstance(outer, ast.ClassDef):
            return False
        parent = source.statements[parent].parent
    return getattr(node, "module", "") != "__future__"


def missing_output(lecture: Probed, plain: RunResult) -> str:
    """Return printed lines that are missing in the steps or occur too often; their order may differ."""
    if len(plain.printed) > 2 * ROOMS["stdout"]:  # the middle of what one step printed may be left out
        return ""
    recorded = Counter("".join(text for step in lecture.run.steps.values() for text in step.stdout).splitlines())
    printed = Counter(plain.printed.splitlines())
    missing, more = printed - recorded, recorded - printed
    return f"output: missing {list(missing.items())[:3]}, too much {list(more.items())[:3]}" if missing or more else ""


def wrong_values(lecture: Probed) -> str:
    """Return the first recorded value that differs from the one that the program itself prints next."""
    for step, value, shown in told_values(lecture):
        plain = value.get("value")
        if value["type"] in ("int", "bool", "none") and shown != f"'is' {plain!r}":
            return f"value: step {step}: recorded {value}, and it said {shown}"
    return ""


def told_values(lecture: Probed) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Yield the value that `x = …  # @inspect x` recorded and the output of `say('is', x)` in the frame's next step."""
    lines = lecture.source.text.splitlines()
    statements = lecture.source.statements
    last: dict[int, Any] = {}
    for step in sorted(lecture.run.steps.values(), key=lambda step: step.seq):
        before = last.get(step.frame)
        last[step.frame] = step
        if before is None or len(before.values) != 1 or not step.stdout:
            continue
        source, _, value = before.values[0]
        line = lines[statements[step.statement].line - 1].strip()
        if line == f"say('is', {source})" and before.statement + 1 == step.statement:
            # Finalizers and context managers may print in the same step.
            shown = [line for line in "".join(step.stdout).splitlines() if line.startswith("'is'")]
            if shown:
                yield before.seq, value, shown[-1]


def mismetered(lecture: Probed, meter: Any) -> str:
    """Return an error in the counts: one is negative, or the outermost steps have more FLOPs than the meter."""
    run = lecture.run
    outermost = {frame.id for frame in run.frames.values() if frame.of is None}
    flops = 0
    for step in run.steps.values():
        if step.meters is None:
            continue
        if min(step.meters.get(name, 0) for name in ("flops", "peak_bytes", "live_bytes")) < 0:
            return f"meters: step {step.seq} has {step.meters}"
        flops += step.meters.get("flops", 0) if step.frame in outermost else 0
    return f"meters: {flops} FLOPs in steps, {meter.flops} counted" if flops > meter.flops else ""
