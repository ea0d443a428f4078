"""`make bench`: compare the speed of plain Python, this tool and edtrace, interleaved in one process.

Each round runs the same lecture plainly, under our probes and under edtrace, so that other load on the machine affects
all three. A figure is the median over rounds, with its quartiles. Goals are printed next to the figures; a missed goal
is no failure.

    python -m tests.checks.bench                  all benchmarks
    python -m tests.checks.bench library file     only these benchmarks
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

from tests.traces import big_trace
from trace_tools.metering import measurement
from trace_tools.source.directives import parse_directives
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import Step
from trace_tools.trace.structure import to_plain
from trace_tools.trace.trace_file import load, write
from trace_tools.tracing.instrument import instrument
from trace_tools.tracing.journal import Journal
from trace_tools.tracing.recorder.recorder import Recorder, hooks

Run = Callable[[], float]  # runs a lecture's main() once, returns seconds

LIBRARY = """
import torch

def train(steps):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(256, 64), torch.randn(256, 1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

def main():
    losses = train(300)  # @inspect losses @stepover
"""

STATEMENTS = """
def main():
    for i in range({n}):
        x = i
        y = x
"""

FRAMES = """
def f():
    pass

def main():
    for i in range({n}):
        f()
"""

SCALARS = """
def main():
    for i in range({n}):
        x = i  # @inspect x
"""

TENSORS = """
import torch

def main():
    x = torch.arange(16.0)
    for i in range({n}):
        y = x  # @inspect y
"""

TRAINED = """
import torch
from torch import nn

def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear({width}, 4 * {width}), nn.ReLU(), nn.Linear(4 * {width}, {width}))
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range({steps}):
        x = torch.randn({batch}, {width})
        loss = (model(x) - x).square().mean()  # @inspect loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

COUNTING = """
def main():
    for i in range({n} // 2):
        x = i
"""


# Three lectures that spend their time on almost nothing, on small operators, and on large operators.
DRAFTED = {
    "shapes": """
import torch

def main():
    x = torch.zeros(4, 8)  # @inspect x
    for i in range(20):
        y = x.t() * i  # @inspect y
    q, k = torch.randn(2, 16, 32), torch.randn(2, 16, 32)  # @inspect q k
    p = (q @ k.transpose(1, 2) / 32**0.5).softmax(-1)  # @inspect p
""",
    "300 steps of width 128": TRAINED.format(width=128, batch=16, steps=300),
    "60 steps of width 512": TRAINED.format(width=512, batch=512, steps=60),
}


def main(names: Sequence[str]) -> None:
    """Run the named benchmarks, or all of them."""
    chosen = names or list(BENCHMARKS)
    unknown = set(chosen) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    for name in chosen:
        print(f"\n{name}")
        for line in BENCHMARKS[name]():
            print(f"  {line}", flush=True)


# ------------------------------------------------------------------------------ the three ways to run


def plain(source: str) -> Run:
    """Return a run of the lecture as ordinary Python."""
    module = types.ModuleType("bench_plain")
    exec(compile(source, "bench_plain.py", "exec"), vars(module))
    return lambda: _timed(module.main)


def traced(source: str, journals: Path) -> Run:
    """Return a run of the lecture under this tool's probes, with its journal on disk."""
    import torch

    from trace_tools.describing.values import Describer

    parsed = parse_source(source, "bench_traced.py")
    program = instrument(parsed, parse_directives(parsed))
    code = compile(program.tree, "bench_traced.py", "exec")
    opaque = frozenset({measurement.measure.__code__})

    def run() -> float:
        journal = Journal(journals / "bench.journal")
        recorder = Recorder(program, journal, Describer(), opaque=opaque)
        module = types.ModuleType("bench_traced")
        vars(module).update(hooks(recorder, torch.compiler.is_dynamo_compiling))
        exec(code, vars(module))
        with recorder.watching(lambda: None):
            seconds = _timed(module.main)
        journal.close()
        journal.path.unlink()
        return seconds

    return run


def edtraced(source: str, folder: Path) -> Run | None:
    """Return a run of the lecture under edtrace; None if edtrace is not installed."""
    try:
        execute = importlib.import_module("edtrace.execute").execute
    except ImportError:
        return None
    (folder / "bench_edtrace.py").write_text(source, encoding="utf-8")
    sys.path.insert(0, str(folder))

    def run() -> float:
        sys.modules.pop("bench_edtrace", None)
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                return _timed(lambda: execute("bench_edtrace", False))
            finally:
                sys.settrace(None)  # edtrace leaves its trace function set

    return run


def _timed(function: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def rounds(runs: Sequence[Run | None], count: int) -> list[list[float]]:
    """Interleave the runs and return their seconds per round, without the first round."""
    seconds: list[list[float]] = [[] for _ in runs]
    for number in range(count + 1):
        for index, run in enumerate(runs):
            if run is not None:
                seconds_taken = run()
                if number:
                    seconds[index].append(seconds_taken)
    return seconds


def spread(samples: Sequence[float], unit: str = "", scale: float = 1.0) -> str:
    """Return the median and the quartiles of `samples`."""
    low, middle, high = statistics.quantiles([s * scale for s in samples], n=4)
    return f"{middle:.3g}{unit} [{low:.3g}, {high:.3g}]"


# ------------------------------------------------------------------------------ the benchmarks


def library() -> Iterator[str]:
    """Measure a lecture that spends its time in library code: whole runs, as ratios to plain Python."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [plain(LIBRARY), traced(LIBRARY, Path(folder)), edtraced(LIBRARY, Path(folder))]
        bare, ours, theirs = rounds(runs, 15)
    yield f"300 steps of Adam, plain      {spread(bare, ' ms', 1e3)}"
    yield f"traced / plain                {spread([b / a for a, b in zip(bare, ours, strict=True)])}   goal 1.03"
    if theirs:
        yield f"edtrace / plain               {spread([b / a for a, b in zip(bare, theirs, strict=True)])}"


def goals() -> Iterator[str]:
    """Measure the basic costs: a statement, a call with its three statements, and loading a trace."""
    yield _cost("unannotated statement", STATEMENTS, 20_000, 3, "goal 0.3")
    yield _cost("a frame, its call's loop and body with it", FRAMES, 5_000, 1, "goal 3")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.yaml")
        write(big_trace(100_000), path)
        body = (
            path.read_text(encoding="utf-8")
            .partition("\nsteps:\n")[2]
            .replace(".nan", "NaN")
            .replace(".inf", "Infinity")
        )
        lines = [line[2:] for line in body.splitlines()]

        runs = [lambda: _timed(lambda: load(path)), lambda: _timed(lambda: list(map(json.loads, lines)))]
        ours, plainly = rounds(runs, 9)
    yield f"{'100,000 steps loaded':42} {spread(ours, ' s')}   goal 1.2   plain `json.loads` {spread(plainly, ' s')}"


def turnaround() -> Iterator[str]:
    """Measure the wait after an edit: whole processes, from `trace --draft` to its pages and from edtrace to its JSON.

    Each is measured on an idle machine and with another process on every core, with the CPU time of all its processes.
    """
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, source) in enumerate(DRAFTED.items()):
            lecture = Path(folder, f"drafted_{number}.py")
            lecture.write_text(f"{source}\nif __name__ == '__main__':\n    main()\n", encoding="utf-8")
            draft = ["trace_tools", "trace", lecture.name, "--draft", "--force", "--device", "cpu"]
            theirs = ["edtrace.execute", "-m", lecture.stem, "-o", "theirs"]
            has_edtrace = importlib.util.find_spec("edtrace") is not None
            commands = [[lecture.name], ["-m", *draft], *([["-m", *theirs]] if has_edtrace else [])]
            spent: list[list[float]] = [[] for _ in commands]
            runs = [_process(command, folder, cpu) for command, cpu in zip(commands, spent, strict=True)]
            bare, ours, *other = rounds(runs, 5)
            with _every_core_busy():
                _, ours_loaded, *other_loaded = rounds(runs, 5)
            yield f"{name:24} plain {spread(bare, ' s')}   draft {spread(ours, ' s')}"
            yield f"{'':24} under load draft {spread(ours_loaded, ' s')}   of the processor {spread(spent[1], ' s')}"
            if other:
                yield f"{'':24} edtrace {spread(other[0], ' s')}   draft / edtrace {_ratios(ours, other[0])}   goal 1"
                under = f"under load {_ratios(ours_loaded, other_loaded[0])}   goal 1.5"
                yield f"{'':24} {under}   of the processor {_ratios(spent[1], spent[2])}"


def _ratios(a: Sequence[float], b: Sequence[float]) -> str:
    return spread([numerator / denominator for numerator, denominator in zip(a, b, strict=True)])


def _process(arguments: Sequence[str], folder: str, cpu: list[float]) -> Run:
    """Return a run of a whole process, which adds the CPU time of the process and its children to `cpu`."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))

    def run() -> float:
        variables = {**os.environ, "PYTHONPATH": path}
        command = [sys.executable, *arguments]
        before = _waited_for_s()
        seconds = _timed(lambda: subprocess.run(command, cwd=folder, env=variables, capture_output=True, check=True))
        cpu.append(_waited_for_s() - before)
        return seconds

    return run


def _waited_for_s() -> float:
    """Return the CPU time of all child processes that have ended, with their own children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def _every_core_busy() -> Iterator[None]:
    """Keep every core busy with another process."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def statements() -> Iterator[str]:
    """Measure the extra cost of an inspection."""
    yield _cost("scalar @inspect", SCALARS, 10_000, 1, "goal 5")
    yield _cost("16-element CPU tensor", TENSORS, 5_000, 1, "goal 40")


def _cost(name: str, source: str, n: int, per: int, goal: str) -> str:
    """Return a line with the extra cost of one of `per` statements in each of `n` iterations, and its plain cost."""
    with tempfile.TemporaryDirectory() as folder:
        few = source.format(n=200)
        runs = [plain(source.format(n=n)), traced(source.format(n=n), Path(folder)), plain(few)]
        bare, ours, bare_few, theirs = rounds([*runs, edtraced(few, Path(folder))], 15)
    extra = [(b - a) / (n * per) for a, b in zip(bare, ours, strict=True)]
    plainly = spread([a / (n * per) for a in bare], " µs", 1e6)
    line = f"{name:42} {spread(extra, ' µs', 1e6)}   {goal}   plain {plainly}"
    if theirs:
        extra = [(b - a) / (200 * per) for a, b in zip(bare_few, theirs, strict=True)]
        line += f"   edtrace {spread(extra, ' µs', 1e6)}"
    return line


def flat() -> Iterator[str]:
    """Measure cost per statement, journal size and memory, for a thousand to a million executed statements."""
    for n in (1_000, 10_000, 100_000, 1_000_000):
        source = COUNTING.format(n=n)
        with tempfile.TemporaryDirectory() as folder:
            bare, ours = rounds([plain(source), traced(source, Path(folder))], 5)
            size = _journal_bytes(source, Path(folder))
        extra = [(b - a) / n for a, b in zip(bare, ours, strict=True)]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        yield f"{n:>9,} statements   {spread(extra, ' µs', 1e6):28} journal {size:,} B   process at most {peak} MiB"


def _journal_bytes(source: str, folder: Path) -> int:
    sizes = []
    close = Journal.close

    def measured(journal: Journal, *, complete: bool) -> None:
        sizes.append(journal.path.stat().st_size)
        close(journal, complete=complete)

    Journal.close = measured  # type: ignore[method-assign]
    try:
        traced(source, folder)()
    finally:
        Journal.close = close  # type: ignore[method-assign]
    return sizes[-1]


def file() -> Iterator[str]:
    """Measure a trace of 100,000 steps: time to write it, bytes per step, and PyYAML's time to read it."""
    trace = big_trace(100_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.yaml")
        [writing] = rounds([lambda: _timed(lambda: write(trace, path))], 5)
        size = path.stat().st_size
        steps = [event for event in trace.steps if isinstance(event, Step)]
        values = sum(len(json.dumps(to_plain(step)["values"])) for step in steps if step.values)
        yield f"write   {spread(writing, ' s')}   goal 2"
        yield f"size    {size / 1e6:.1f} MB, {(size - values) / len(steps):.0f} B a step beyond its values   goal 200"
        start = time.perf_counter()
        with path.open(encoding="utf-8") as text:
            yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        yield f"PyYAML to plain dicts, once: {time.perf_counter() - start:.1f} s"


def importing() -> Iterator[str]:
    """Measure `import trace_tools` in a new process, without the start of the interpreter."""
    package = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}

    def start(code: str) -> Run:
        return lambda: _timed(lambda: subprocess.run([sys.executable, "-c", code], env=package, check=True))

    bare, ours = rounds([start("pass"), start("import trace_tools")], 9)
    yield f"import trace_tools   {spread([b - a for a, b in zip(bare, ours, strict=True)], ' ms', 1e3)}   goal 50"


BENCHMARKS = {
    "goals": goals,
    "library": library,
    "statements": statements,
    "turnaround": turnaround,
    "flat": flat,
    "file": file,
    "importing": importing,
}

if __name__ == "__main__":
    main(sys.argv[1:])
