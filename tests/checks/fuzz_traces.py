"""Read hostile traces with all readers: each must give its output or a one-line error, in bounded memory and time.

python -m tests.checks.fuzz_traces --seeds 1000                  from seed 0 on; prints each seed that fails
python -m tests.checks.fuzz_traces --first 417 --seeds 1 -v      one trace, with the result of each reader

Each trace is written to a file and read in a new process, forked from one that has read a good trace. The readers are
`load`, `render` (all pages as HTML and Markdown), `diff` with the good trace in both directions and all four formats,
`compare` of three traces in all formats, the pages of `serve`, and the text for `git diff`. A reader may use
`MEGABYTES` more memory than the process had, and `SECONDS` of CPU time. It succeeds or raises a one-line
`TraceToolsError`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import resource
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.hostile_traces import MOST, good, hostile
from trace_tools.commands.diff import write_report
from trace_tools.diff.compare import compare
from trace_tools.diff.difference import Side
from trace_tools.diff.judge.between import difference_between
from trace_tools.diff.report import comparison_report
from trace_tools.diff.report.folder import write_reports
from trace_tools.diff.report.report import html, markdown, terminal
from trace_tools.errors import TraceToolsError
from trace_tools.live.pages import Site, serve_trace
from trace_tools.pages.site import render_files
from trace_tools.trace.trace_file import load
from trace_tools.util.interpreter import collector_paused

MEGABYTES, SECONDS = 300, 5.0
ADDRESS_SPACE = 3 << 30  # bytes that a process may add; beyond them, allocation fails
KILLED_AFTER = 60  # seconds of CPU time
LONGEST_LINE = 1_000  # characters of an error


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one reader for one trace: the error with which it refused the trace, or a fault of the reader."""

    seed: int
    reader: str
    seconds: float
    megabytes: float
    refused: str = ""
    wrong: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the traces of some seeds; return 1 if a reader was faulty."""
    parser = argparse.ArgumentParser(prog="python -m tests.checks.fuzz_traces", description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--stop-after", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("-v", "--verbose", action="store_true")
    chosen = parser.parse_args(arguments)
    end, readings = time.monotonic() + chosen.stop_after, []
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        if time.monotonic() > end:
            break
        for reading in read(seed, chosen.most):
            readings.append(reading)
            figures = f"{reading.seconds:.2f} s, {reading.megabytes:.0f} MB"
            if reading.wrong or chosen.verbose:
                print(
                    f"seed {seed}, {reading.reader}: {figures}; {reading.wrong or reading.refused or 'done'}",
                    flush=True,
                )
    print(summary(readings))
    return int(any(reading.wrong for reading in readings))


def summary(readings: Sequence[Reading]) -> str:
    """Return the numbers of traces read and refused, and the time and memory of each reader."""
    traces = len({reading.seed for reading in readings})
    refused = len({reading.seed for reading in readings if reading.refused})
    wrong = [reading for reading in readings if reading.wrong]
    lines = [
        f"{traces} hostile traces, {refused} of them refused by a reader, {len(wrong)} readings not as they should be"
    ]
    for name in dict.fromkeys(reading.reader for reading in readings):
        own = [reading for reading in readings if reading.reader == name]
        seconds, megabytes = [r.seconds for r in own], [r.megabytes for r in own]
        lines.append(
            f"  {name:10} {len(own):5} times; median {statistics.median(seconds):.2f} s, at most {max(seconds):.2f} s; "
            f"median {statistics.median(megabytes):.0f} MB, at most {max(megabytes):.0f} MB"
        )
    return "\n".join(lines)


def read(seed: int, most: int = MOST) -> list[Reading]:
    """Read the trace of a seed with all readers, in a separate process; return their results."""
    warm()
    trace = hostile(seed, most)
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        for name, text in (("good", good()), ("other", good()), ("hostile", trace.text)):
            (Path(folder) / name / "cpu").mkdir(parents=True)
            (Path(folder) / name / "cpu" / "trace.yaml").write_text(text, encoding="utf-8", errors="surrogatepass")
        description, length = trace.changes[:300], len(trace.text)
        del trace, text
        come, go = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            gc.freeze()  # garbage collection would copy the parent's memory, which no reader causes
            status = 1
            try:
                os.close(come)
                _bounded()
                _read_all(Path(folder), seed, go)
                status = 0
            finally:
                os._exit(status)
        os.close(go)
        with os.fdopen(come, encoding="utf-8") as messages:
            lines = [json.loads(line) for line in messages]
        _, ended = os.waitpid(child, 0)
    readings = [Reading(**line) for line in lines if "wrong" in line]
    if ended:
        begun = lines[-1]["reader"] if lines else "?"
        how = f"killed by signal {os.WTERMSIG(ended)}" if os.WIFSIGNALED(ended) else "ended"
        readings.append(Reading(seed, begun, KILLED_AFTER, 0.0, wrong=f"its process was {how}"))
    described = f" [{description}; {length} characters]"
    return [
        Reading(r.seed, r.reader, r.seconds, r.megabytes, r.refused, r.wrong + described) if r.wrong else r
        for r in readings
    ]


_WARM: list[bool] = []


def warm() -> None:
    """Read a good trace with all readers, so that their imports and caches exist before the fork."""
    if _WARM:
        return
    _WARM.append(True)
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        for name in ("good", "other", "hostile"):
            (Path(folder) / name / "cpu").mkdir(parents=True)
            (Path(folder) / name / "cpu" / "trace.yaml").write_text(good(), encoding="utf-8")
        for _, reader in _readers(Path(folder)):
            reader()


def _bounded() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ADDRESS_SPACE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def _read_all(folder: Path, seed: int, to: int) -> None:
    """Run each reader; write a line with its name before it runs, and one with its result afterwards."""
    base = _resident()
    for name, reader in _readers(folder):
        os.write(to, (json.dumps({"reader": name}) + "\n").encode())
        used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])) + KILLED_AFTER
        resource.setrlimit(resource.RLIMIT_CPU, (used, resource.RLIM_INFINITY))
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak of resident memory
        began, refused, wrong = _processor(), "", ""
        try:
            reader()
        except TraceToolsError as error:
            refused = str(error)
            if "\n" in refused or len(refused) > LONGEST_LINE or not refused.isprintable():
                wrong = f"its error is no line: {refused[:200]!r}"
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)
            where = next((f for f in reversed(frames) if "trace_tools" in f.filename), frames[-1])
            wrong = f"{type(error).__name__}: {str(error)[:100]!r} at {Path(where.filename).name}:{where.lineno}"
        seconds, megabytes = _processor() - began, (_resident("VmHWM") - base) / 1024
        if not wrong and seconds > SECONDS:
            wrong = f"took {seconds:.1f} s"
        if not wrong and megabytes > MEGABYTES:
            wrong = f"took {megabytes:.0f} MB"
        reading = Reading(seed, name, seconds, megabytes, refused[:300], wrong)
        os.write(to, (json.dumps({field: getattr(reading, field) for field in Reading.__slots__}) + "\n").encode())
        if name == "load" and (refused or wrong):
            return
        gc.collect()


def _processor() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _resident(field: str = "VmRSS") -> int:
    """Return the current or peak resident memory of this process (kB)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def _readers(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each reader with its name."""
    path = folder / "hostile" / "cpu" / "trace.yaml"
    reports = folder / "reports"

    def side(name: str) -> Side:
        trace_path = folder / name / "cpu" / "trace.yaml"
        return Side(str(trace_path), load(trace_path).trace)

    def diff(a: str, b: str) -> None:
        with collector_paused():  # as the command does
            difference = difference_between(side(a), side(b))
            for form in ("terminal", "md", "html", "json"):
                write_report(difference, form, folder / f"{a}.{form}", everything=True)

    def compared() -> None:
        comparison = compare([side("good"), side("hostile"), side("other")])
        written = [html(comparison_report.report_of(comparison, "html")), comparison_report.csv_text(comparison)]
        written.append(markdown(comparison_report.report_of(comparison, "md")))
        from rich.console import Console

        console = Console(file=io.StringIO(), width=120)
        console.print(terminal(comparison_report.report_of(comparison, "terminal", width=120, everything=True)))
        write_reports(reports, comparison, None)

    def served() -> None:
        trace = load(path).trace
        site = Site(folder, serve_trace(trace, path, trace.sources[0].text if trace.sources else "", {}))
        for address in site.addresses:
            site.page(address)

    yield "load", lambda: load(path)
    yield "render", lambda: list(render_files([path], None))
    yield "diff", lambda: diff("good", "hostile")
    yield "diff back", lambda: diff("hostile", "good")
    yield "compare", compared
    yield "serve", served


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
