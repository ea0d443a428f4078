"""`make fuzz`: run random programs plainly and traced, and print each program that differs.

    python -m tests.checks.fuzz                               ten minutes, with a seed from the clock
    python -m tests.checks.fuzz --seconds 3600 --seed 7000    an hour, from this seed on

Each program (`fuzz_programs`) runs in a forked process: as plain Python, and under probes with and without small
limits. What it prints, its errors with their positions, and its finalizers must be the same. Without limits each
statement must be recorded as often as it ran, and `x = …  # @inspect x` must record what the program prints next.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.checks import fuzz_programs
from tests.tracing.probed import MODULE, Outcome, Probed, new_module, outcome, plain
from trace_tools.source.statements import parse_source
from trace_tools.tracing.listening import listening

PATH = "drawn.py"
UNLIMITED = 10**9
LIMITS = {"within limits": {}, "within small limits": {"limit": 3, "frames": 4}}
COUNTED = {"limit": UNLIMITED, "frames": UNLIMITED, "steps": UNLIMITED}
FORK = multiprocessing.get_context("fork")
PATIENCE_S = 60
FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")
# Headers of loops are recorded at each evaluation; `try` and declarations are no steps.
NOT_COUNTED = (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Global)


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
            print(f"seed {seed}: {difference}\n\n{text}", flush=True)
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
            pairs = zip([*reference.printed.splitlines(), ""], [*probed.printed.splitlines(), ""], strict=False)
            of_ends = [(reference.error or reference.result, probed.error or probed.result)]
            a, b = next(pair for pair in [*pairs, *of_ends] if pair[0] != pair[1])
            return f"{name}\nplain   {a}\nprobed  {b}"
        if not limits and (wrong := wrong_value(lecture)):
            return f"value\n{wrong}"
    lecture, _ = under_probes(text, directives=(), **COUNTED)
    wrong = miscounted(lecture, counted(text))
    return f"count\n{wrong}" if wrong else ""


def _ran(run: Callable[[], Outcome]) -> Outcome:
    """Run a lecture; what it leaves behind ends before the next run."""
    result = run()
    gc.enable()
    vars(sys.modules[MODULE]).clear()
    gc.collect()
    return result


def under_probes(text: str, directives: Any = None, **limits: int) -> tuple[Probed, Outcome]:
    """Run a lecture with probes, as a process of the tracer does."""
    lecture = Probed(text, PATH, Path(tempfile.mkdtemp(dir=FOLDER.name), "x.journal"), directives, **limits)
    with listening(lecture.recorder, str):
        lecture.start()
        probed = _ran(lambda: outcome(lecture.module, lambda: exec(lecture.code, vars(lecture.module)), PATH))
        lecture.finish()
    return lecture, probed


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
    number_of = {statement.node: statement.number for statement in source.statements}
    for node in ast.walk(source.tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and not isinstance(node, ast.ClassDef):
                calls = (ast.parse(f"_count({number_of[child]})").body[0] for child in block)
                setattr(node, name, [new for pair in zip(calls, block, strict=True) for new in pair])
    module = new_module(text, PATH)
    vars(module)["_count"] = lambda number: counts.update((number,))
    code = compile(source.tree, PATH, "exec", dont_inherit=True)
    _ran(lambda: outcome(module, lambda: exec(code, vars(module)), PATH))
    return counts


def miscounted(lecture: Probed, counts: Counter[int]) -> str:
    """Return the first statement of a function whose executions are recorded too often or too rarely."""
    recorded = Counter(step.statement for step in lecture.run.steps.values())
    for (_, statement), (count, _) in lecture.run.omitted.items():
        recorded[statement] += count
    statements = lecture.source.statements
    for one in statements:
        in_class = one.parent is not None and isinstance(statements[one.parent].node, ast.ClassDef)  # of one step
        if isinstance(one.node, NOT_COUNTED) or one.function == "<module>" or in_class:
            continue
        if recorded[one.number] != counts[one.number]:
            line = lecture.source.text.splitlines()[one.line - 1].strip()
            return f"line {one.line} ({line}) ran {counts[one.number]} times, {recorded[one.number]} recorded"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
