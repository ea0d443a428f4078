"""`make fuzz`: run random programs plainly and traced, and reduce each program that differs.

    python -m tests.checks.fuzz                               ten minutes, with a seed from the clock
    python -m tests.checks.fuzz --seconds 3600 --seed 7000    an hour, from this seed on

Each program (`fuzz_programs`) runs in a forked process: as plain Python, and under probes with and without small
limits. What it prints, its errors with their positions, and its finalizers must be the same. Without limits each
statement must be recorded as often as it ran, and `x = …  # @inspect x` must record what the program prints next. A
program that differs is printed, reduced line by line while it differs in the same way.
"""

from __future__ import annotations

import argparse
import ast
import gc
import multiprocessing
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.checks import fuzz_programs
from tests.tracing.probed import Outcome, Probed, new_module, outcome, plain
from trace_tools.source.statements import FUNCTIONS, ParsedSource, parse_source
from trace_tools.tracing.listening import listening

PATH = "drawn.py"
UNLIMITED = 10**9
LIMITS = {"within limits": {}, "within small limits": {"limit": 3, "frames": 4}}
COUNTED = {"limit": UNLIMITED, "frames": UNLIMITED, "steps": UNLIMITED}
FORK = multiprocessing.get_context("fork")
PATIENCE_S, REDUCING_S = 60, 120


def main(words: Sequence[str]) -> int:
    """Fuzz for some time; return 1 if a program differed."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10**7)
    options = parser.parse_args(words)
    ends, seed, found = time.monotonic() + options.seconds, options.seed, 0
    while time.monotonic() < ends:
        text = fuzz_programs.drawn(seed)
        if difference := forked(text):
            found += 1
            print(f"seed {seed}: {difference}\n\n{reduced(text, forked)}", flush=True)
        seed += 1
    print(f"{seed - options.seed} programs from seed {options.seed} on, {found} differed")
    return 1 if found else 0


def forked(text: str) -> str:
    """Return what `differences` finds in a process of its own, which may die or hang."""
    listens, tells = FORK.Pipe(duplex=False)

    def work() -> None:
        warnings.simplefilter("ignore")
        try:
            tells.send(differences(text))
        except BaseException as error:  # of the tools
            tells.send(f"crash: {''.join(traceback.format_exception(error)[-3:])}")

    process = FORK.Process(target=work, daemon=True)
    process.start()
    tells.close()
    try:
        return str(listens.recv()) if listens.poll(PATIENCE_S) else "hung"
    except EOFError:
        return "died"
    finally:
        process.kill()
        process.join()


def differences(text: str) -> str:
    """Return how a program under probes differs from the plain one; "" if it does not. The first line is the kind."""
    reference = _ran(lambda: plain(text, PATH))
    if _ran(lambda: plain(text, PATH)) != reference:
        return ""  # two plain runs differ, so they are no reference
    for name, limits in LIMITS.items():
        lecture, probed = under_probes(text, **limits)
        if probed != reference:
            return f"{name}\n{_first_difference(reference, probed)}"
        if not limits and (wrong := wrong_value(lecture)):
            return f"value\n{wrong}"
    lecture, _ = under_probes(text, directives=(), **COUNTED)
    wrong = miscounted(lecture, counted(text))
    return f"count\n{wrong}" if wrong else ""


def _ran(run: Callable[[], Outcome]) -> Outcome:
    """Run a lecture; what it leaves behind ends before the next run."""
    result = run()
    gc.enable()
    vars(sys.modules["source_under_test"]).clear()
    gc.collect()
    return result


def under_probes(text: str, directives: Any = None, **limits: int) -> tuple[Probed, Outcome]:
    """Run a lecture with probes, as a process of the tracer does."""
    journal = Path(tempfile.mkdtemp(dir=FOLDER.name)) / "x.journal"
    lecture = Probed(text, PATH, journal, directives, **limits)
    with listening(lecture.recorder, str):
        lecture.start()
        probed = _ran(lambda: outcome(lecture.module, lambda: exec(lecture.code, vars(lecture.module)), PATH))
        lecture.finish()
    return lecture, probed


FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")


def _first_difference(plain: Outcome, probed: Outcome) -> str:
    for a, b in zip([*plain.printed.splitlines(), ""], [*probed.printed.splitlines(), ""], strict=False):
        if a != b:
            return f"plain   {a}\nprobed  {b}"
    return f"plain   {plain.result} {plain.error}\nprobed  {probed.result} {probed.error}"


# ------------------------------------------------------------------------------ checks of the record


def wrong_value(lecture: Probed) -> str:
    """Return the first value that `x = …  # @inspect x` recorded otherwise than `say('is', x)` printed it next."""
    lines, last = lecture.source.text.splitlines(), {}
    for step in sorted(lecture.run.steps.values(), key=lambda step: step.seq):
        before, last[step.frame] = last.get(step.frame), step
        if before is None or len(before.values) != 1 or before.statement + 1 != step.statement:
            continue
        source, _, value = before.values[0]
        line = lines[lecture.source.statements[step.statement].line - 1].strip()
        printed = [line for line in "".join(step.stdout).splitlines() if line.startswith("'is'")]
        if line != f"say('is', {source})" or not printed or value["type"] not in ("int", "bool", "none"):
            continue
        if printed[-1] != f"'is' {value.get('value')!r}":
            return f"step {before.seq} recorded {value}, and the program said {printed[-1]}"
    return ""


def counted(text: str) -> Counter[int]:
    """Run a lecture with a call before each statement; return how often each ran."""
    source, counts = parse_source(text, PATH), Counter[int]()
    module = new_module(text, PATH)
    vars(module)["_count"] = lambda number: counts.update((number,))
    code = compile(_Counting(source).visit(source.tree), PATH, "exec", dont_inherit=True)
    _ran(lambda: outcome(module, lambda: exec(code, vars(module)), PATH))
    return counts


class _Counting(ast.NodeTransformer):
    """statement → _count(its number); statement"""

    def __init__(self, source: ParsedSource) -> None:
        self.number_of = {statement.node: statement.number for statement in source.statements}

    def visit(self, node: ast.AST) -> Any:
        self.generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and not isinstance(node, ast.ClassDef):
                setattr(node, name, [new for child in block for new in self._counted(child)])
        return node

    def _counted(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return [node]
        call = ast.Call(ast.Name("_count", ast.Load()), [ast.Constant(self.number_of[node])], [])
        return [ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node)), node]


def miscounted(lecture: Probed, counts: Counter[int]) -> str:
    """Return the first statement of a function whose executions are recorded too often or too rarely.

    Headers of loops are recorded at each evaluation; constants, declarations and class bodies are no steps.
    """
    recorded = Counter(step.statement for step in lecture.run.steps.values())
    for (_, statement), (count, _) in lecture.run.omitted.items():
        recorded[statement] += count
    for one in lecture.source.statements:
        ignored = (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Global)
        is_text = isinstance(one.node, ast.Expr) and isinstance(one.node.value, ast.Constant)
        parents = [lecture.source.statements[number].node for number in _outer(one, lecture.source)]
        block = next((it for it in parents if isinstance(it, (*FUNCTIONS, ast.ClassDef))), None)
        if is_text or isinstance(one.node, ignored) or not isinstance(block, FUNCTIONS):
            continue
        if recorded[one.number] != counts[one.number]:
            line = lecture.source.text.splitlines()[one.line - 1].strip()
            return f"line {one.line} ({line}) ran {counts[one.number]} times, {recorded[one.number]} recorded"
    return ""


def _outer(statement: Any, source: ParsedSource) -> Iterator[int]:
    while (parent := statement.parent) is not None:
        yield parent
        statement = source.statements[parent]


# ------------------------------------------------------------------------------ reduction


def reduced(text: str, differs: Callable[[str], str]) -> str:
    """Delete lines, blocks and directives, and move bodies out of their blocks, while the kind of difference stays."""
    lines, shrunk, ends = text.splitlines(), True, time.monotonic() + REDUCING_S
    kind = differs(text).partition("\n")[0]
    while shrunk:
        shrunk = False
        at = len(lines) - 1
        while at >= 0 and time.monotonic() < ends:
            for candidate in _smaller(lines, at):
                joined = "\n".join(candidate) + "\n"
                if fuzz_programs.compiles(joined) and differs(joined).partition("\n")[0] == kind:
                    lines, shrunk = candidate, True
                    break
            at = min(at, len(lines)) - 1
    return "\n".join(lines) + "\n"


def _smaller(lines: list[str], at: int) -> Iterator[list[str]]:
    """Yield the program without a line and its block, without only the line, and without the line's directive."""
    depth = len(lines[at]) - len(lines[at].lstrip())
    end = at + 1
    while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
        end += 1
    yield [*lines[:at], *lines[end:]]
    if end > at + 1:
        yield [*lines[:at], *(line[4:] for line in lines[at + 1 : end]), *lines[end:]]
    if end > at + 2:
        yield [*lines[: at + 1], f"{' ' * (depth + 4)}pass", *lines[end:]]
    if "  # @" in lines[at]:
        yield [*lines[:at], lines[at].partition("  # @")[0], *lines[at + 1 :]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
