"""`make fuzz`: run random programs and arguments plainly and traced, and reduce each program that differs.

    python -m tests.checks.fuzz                                programs, arguments and traces, ten minutes in all
    python -m tests.checks.fuzz --seconds 3600 --seed 7000     an hour, from this seed on
    python -m tests.checks.fuzz programs --seconds 60          only programs; also: lectures, arguments, traces

- **programs** (`fuzz_programs`) run in one process, plainly and under probes in several ways (`fuzz_runs`).
- **lectures** contain several programs and run through the command line: plainly, and by `trace --passes 1` cold, warm,
  metered and shaken. Each run writes its behaviour into a file, and all files must be equal.
- **arguments** (`fuzz_arguments`) of the narrative calls: each call raises the same exception as in plain Python, or
  goes through `trace`, `validate`, `render` and `diff`.
- **traces** are hostile; all readers read them (`tests.checks.fuzz_traces`).

A program that differs is reduced line by line while it differs in the same way. Each finding is appended to fuzz.md,
with its seed.
"""

from __future__ import annotations

import argparse
import datetime
import faulthandler
import gc
import multiprocessing
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.checks import fuzz_arguments
from tests.checks.command_line import TOOLS, python
from tests.checks.fuzz_programs import Program, compiles, lecture
from tests.checks.fuzz_runs import VARIANTS, Variant, differences

ROOT = Path(__file__).parents[2]
REPORT = Path(__file__).with_suffix(".md")
WORLD = Path(__file__).with_name("fuzz_world.py")
FORK = multiprocessing.get_context("fork")
PATIENCE_S = 60  # for one program
REDUCING_S = 120
PROGRAMS = 12  # in a lecture
ENDINGS = ("pass", "raise ValueError('at the end')", "sys.exit(0)", "sys.exit(3)", "assert 1 == 2, 'at the end'")


@dataclass(frozen=True)
class Finding:
    """A difference, with its program reduced as far as possible."""

    mode: str
    seed: int
    difference: str
    program: str = ""


# ------------------------------------------------------------------------------ programs, in forked processes


def programs(seed: int, seconds: float) -> Iterator[Finding | int]:
    """Yield findings, and after each batch the number of programs that ran."""
    prepare()
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        last = seed
        for last, difference in in_a_process(examine, range(seed, seed + 50), ends):
            if difference:
                text = program_of(last)
                yield Finding("programs", last, difference, reduced(text, difference))
        yield last + 1 - seed
        seed = last + 1


def prepare() -> None:
    """Import what forked processes need, and exclude it from garbage collection."""
    import torch

    from trace_tools.describing import tensors  # noqa: F401
    from trace_tools.metering.meters import Meter

    torch.set_num_threads(1)
    with Meter():
        torch.ones(1, requires_grad=True).sum().backward()
    gc.collect()
    gc.freeze()


def program_of(seed: int) -> str:
    return lecture([Program.drawn(seed, torch=seed % 4 == 0)])


def examine(seed: int) -> str:
    """Run one program plainly, as a pass, and in one other variant."""
    return attempted(program_of(seed), [VARIANTS[0], VARIANTS[1 + seed % 3]])


def attempted(text: str, variants: Sequence[Variant] = VARIANTS) -> str:
    """Return the difference between the runs; an exception of the tools is also a difference."""
    try:
        return differences(text, variants)
    except Exception as error:
        return f"crash: {''.join(traceback.format_exception(error)[-3:])}"


def in_a_process(call: Callable[[Any], str], items: Sequence[Any], ends: float) -> Iterator[tuple[Any, str]]:
    """Yield the result of `call` for each item, in a forked process.

    If the process dies or hangs, the next item gets a difference that states this.
    """
    listening, telling = FORK.Pipe(duplex=False)

    def work() -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        for item in items:
            faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
            gc.freeze()  # speeds up programs that collect garbage hundreds of times
            telling.send((item, call(item)))
            if time.monotonic() > ends:
                break
        os._exit(0)

    process = FORK.Process(target=work)
    process.start()
    telling.close()
    done = 0
    try:
        while listening.poll(PATIENCE_S + 10):
            yield listening.recv()
            done += 1
    except EOFError:
        pass
    process.join(5)
    if process.exitcode != 0 and done < len(items):
        yield items[done], f"died: the process ended with {process.exitcode} or hung"
    process.kill()
    process.join()
    listening.close()


def kind_of(difference: str) -> str:
    """Return the part of a difference that must stay the same while its program is reduced."""
    names = re.findall(r"\w+(?:Error|Exception)\b", difference)
    kind = difference.partition("\n")[0][:40].split(":")[:2]
    return f"{kind}{names[-1:] if difference.startswith('crash') else ''}"


def reduced(text: str, difference: str) -> str:
    """Return a smaller program that still differs in the same way."""
    wanted = kind_of(difference)

    def still(candidate: str) -> bool:
        if not compiles(candidate):
            return False
        for _, shown in in_a_process(attempted, [candidate], time.monotonic() + PATIENCE_S):
            return kind_of(shown) == wanted
        return False

    return cut_down(text, still, time.monotonic() + REDUCING_S)


def cut_down(text: str, still: Callable[[str], bool], ends: float) -> str:
    """Delete lines, blocks and directives, and move bodies out of their blocks, while `still` holds."""
    lines = text.splitlines()
    shrunk = True
    while shrunk and time.monotonic() < ends:
        shrunk = False
        at = len(lines) - 1
        while at >= 0 and time.monotonic() < ends:
            for candidate in smaller(lines, at):
                if still("\n".join(candidate) + "\n"):
                    lines, shrunk = candidate, True
                    break
            at = min(at, len(lines)) - 1
    return "\n".join(lines) + "\n"


def smaller(lines: list[str], at: int) -> Iterator[list[str]]:
    """Yield the program without a line and its block, without only the line, and without the line's directive."""
    depth = len(lines[at]) - len(lines[at].lstrip())
    end = at + 1
    while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
        end += 1
    yield [*lines[:at], *lines[end:]]
    if end > at + 1:
        yield [*lines[:at], *(line[4:] for line in lines[at + 1 : end]), *lines[end:]]
        yield [*lines[: at + 1], f"{' ' * (depth + 4)}pass", *lines[end:]] if end > at + 2 else lines[:0]
    if "  # @" in lines[at]:
        yield [*lines[:at], lines[at].partition("  # @")[0], *lines[at + 1 :]]


# ------------------------------------------------------------------------------ lectures, through the command line


def lectures(seed: int, seconds: float) -> Iterator[Finding | int]:
    """Yield differences between a lecture's plain run and the runs of a trace, and the number of programs that ran."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        drawn = [Program.drawn(s, torch=s % 4 == 0) for s in range(seed, seed + PROGRAMS)]
        text = lecture(drawn, last=ENDINGS[seed // PROGRAMS % len(ENDINGS)])
        difference = through_the_command_line(text)
        if difference:
            yield Finding("lectures", seed, difference, reduced_lecture(drawn, seed, difference))
        yield PROGRAMS
        seed += PROGRAMS


def reduced_lecture(drawn: list[Program], seed: int, difference: str) -> str:
    """Return the smallest part of the lecture's programs that still differs (each attempt is a trace)."""
    last = ENDINGS[seed // PROGRAMS % len(ENDINGS)]
    while len(drawn) > 1:
        halves = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
        smaller = next((half for half in halves if through_the_command_line(lecture(half, last=last))), None)
        if smaller is None:
            break
        drawn = smaller
    text = lecture(drawn, last=last)
    return cut_down(text, lambda t: compiles(t) and kind_of(through_the_command_line(t)) == kind_of(difference),
                    time.monotonic() + REDUCING_S)  # fmt: skip


def through_the_command_line(text: str, *, readers: bool = True) -> str:
    """Run a lecture plainly and by `trace --passes 1`; return the difference, or an error of the trace's readers."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        folder = Path(scratch)
        (folder / "here").mkdir()
        path = folder / "here" / "drawn.py"
        path.write_text(text, encoding="utf-8")
        shutil.copy(WORLD, folder / "here" / "fuzz_world.py")
        plain, plain_said = run([str(path)], folder, "plain")
        command = ["trace", str(path), "--passes", "1", "-o", str(folder / "out")]
        traced, traced_said = run([*TOOLS, *command], folder, "traced")
        if "Traceback" in traced.stderr or traced.returncode not in (0, 1):
            return f"crash: trace ended with {traced.returncode}: {traced.stderr[-1500:]}"
        if len(plain_said) != 1:
            return f"plain: {len(plain_said)} runs, {plain.stderr[-300:]}"
        for name, text in traced_said:
            if text != plain_said[0][1]:
                lines = zip([*plain_said[0][1].splitlines(), ""], [*text.splitlines(), ""], strict=False)
                return f"said: {name}: " + next(f"plain {one!r}, traced {two!r}" for one, two in lines if one != two)
        return ended_otherwise(plain, traced, traced_said, folder) or (read_back(folder) if readers else "")


def run(command: list[str], folder: Path, name: str) -> tuple[subprocess.CompletedProcess[str], list[tuple[str, str]]]:
    """Run Python with a folder for the lecture's log files; return the process and the files' names and texts."""
    out = folder / name
    out.mkdir()
    ended = python(command, folder, FUZZ_OUT=str(out))
    return ended, [(file.name, file.read_text(encoding="utf-8")) for file in sorted(out.iterdir())]


def ended_otherwise(
    plain: subprocess.CompletedProcess[str],
    traced: subprocess.CompletedProcess[str],
    runs: list[tuple[str, str]],
    folder: Path,
) -> str:
    """Return how the ends differ: the number of runs, an incomplete trace, or files that remain."""
    remaining = [path.name for path in (folder / "out").glob(".[ru]*-*")]
    if remaining:
        return f"left: {remaining}"
    partial = list((folder / "out").glob("*/partial/trace.yaml"))
    if plain.returncode == 0 and partial:
        return f"ended: plain with 0, traced with {traced.stderr[-300:]}"
    if plain.returncode != 0 and not partial:
        return f"ended: plain with {plain.returncode}, traced is complete"
    if len(runs) != (1 if partial else 5):
        return f"runs: {len(runs)}"
    return ""


def read_back(folder: Path) -> str:
    """Return the error of `validate`, or of `diff` between the trace and itself."""
    for trace in (folder / "out").glob("**/trace.yaml"):
        for words in (["validate", str(trace)], ["diff", str(trace), str(trace), "--only", "values,claims"]):
            ended, _ = run([*TOOLS, *words], folder, words[0])
            if ended.returncode != 0:
                return f"{words[0]}: ended with {ended.returncode}: {(ended.stdout + ended.stderr)[-600:]}"
    return ""


# ------------------------------------------------------------------------------ arguments and hostile traces


def arguments(seed: int, seconds: float) -> Iterator[Finding | int]:
    """Yield narrative calls that differ or that a reader of the trace rejects, and the number of calls made."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        calls = [fuzz_arguments.drawn(s) for s in range(seed, seed + fuzz_arguments.CALLS)]
        with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
            difference = fuzz_arguments.through_every_reader(calls, Path(scratch))
        if difference:
            yield Finding("arguments", seed, difference, "\n".join(guilty(calls)))
        yield len(calls)
        seed += len(calls)


def guilty(calls: list[str]) -> list[str]:
    """Halve the list of calls while an error remains, and return the rest."""
    while len(calls) > 1:
        for half in (calls[: len(calls) // 2], calls[len(calls) // 2 :]):
            with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
                if fuzz_arguments.through_every_reader(half, Path(scratch)):
                    calls = half
                    break
        else:
            break
    return calls


def traces(seed: int, seconds: float) -> Iterator[Finding | int]:
    """Read hostile traces with all readers; yield a finding if one fails, and the number of traces."""
    words = ["--first", str(seed), "--seeds", "1000000", "--stop-after", str(seconds)]
    command = [sys.executable, "-m", "tests.checks.fuzz_traces", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    wrong = [line for line in ended.stdout.splitlines() if line.startswith("seed ")]
    if ended.returncode != 0:
        yield Finding("traces", seed, "\n".join(wrong) or ended.stderr[-3000:])
    counted = re.search(r"^(\d+) hostile traces", ended.stdout, re.MULTILINE)
    yield int(counted[1]) if counted else 0


MODES: dict[str, tuple[Callable[[int, float], Iterator[Finding | int]], float]] = {  # each with its share of the time
    "programs": (programs, 0.4),
    "lectures": (lectures, 0.3),
    "arguments": (arguments, 0.15),
    "traces": (traces, 0.15),
}


# ------------------------------------------------------------------------------ the report


def main(words: Sequence[str]) -> int:
    """Fuzz for some time; return 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("modes", nargs="*", choices=[*MODES, []], help="default: all")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="default: of the clock")
    parser.add_argument("--no-report", action="store_true", help="append nothing to fuzz.md")
    chosen = parser.parse_args(words)
    seed = chosen.seed if chosen.seed is not None else int(time.time()) % 10**7
    modes = chosen.modes or list(MODES)
    shares = sum(MODES[mode][1] for mode in modes)
    findings: list[Finding] = []
    for mode in modes:
        call, share = MODES[mode]
        started, count, own = time.monotonic(), 0, 0
        for result in call(seed, chosen.seconds * share / shares):
            if isinstance(result, int):
                count += result
                continue
            print(section_of(result), flush=True)
            findings.append(result)
            own += 1
        took = time.monotonic() - started
        facts = datetime.date.today(), platform.python_version(), mode, seed, f"{count:,}", f"{took:.0f}", own
        line = f"| {' | '.join(map(str, facts))} |"
        print(line, flush=True)
        if not chosen.no_report:
            append(line, [f for f in findings if f.mode == mode])
    return 1 if findings else 0


def section_of(finding: Finding) -> str:
    """Return a finding as a section of the report."""
    difference, program = f"```\n{finding.difference}\n```", f"```python\n{finding.program.rstrip()}\n```"
    return f"### {finding.mode}, seed {finding.seed}\n\n{difference}\n\n{program}\n"


def append(line: str, findings: Sequence[Finding]) -> None:
    """Add a row to the table of runs, and the findings at the end."""
    head, mark, earlier = REPORT.read_text(encoding="utf-8").partition("\n## Found")
    text = "\n".join([head.rstrip("\n"), line, mark + earlier, *map(section_of, findings)])
    REPORT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
