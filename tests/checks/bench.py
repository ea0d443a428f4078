"""`make bench`: what tracing costs, as medians with quartiles; plain and traced runs of the same lecture alternate.

    python -m tests.checks.bench                  both benchmarks
    python -m tests.checks.bench file             only one

Other load on the machine affects both sides of a pair. Goals are printed next to the figures; a missed goal is no
failure.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.traces import big_trace
from tests.tracing.probed import Probed
from trace_tools.trace.file import load, write
from trace_tools.trace.model import Step
from trace_tools.trace.records import to_plain

Run = Callable[[], float]  # runs something once, returns seconds

# name, source, number of iterations, statements in each, goal in µs
STATEMENTS = (
    ("unannotated statement", "for i in range({n}):\n        x = i\n        y = x", 20_000, 3, 0.3),
    (
        "one in four inspected",
        "for i in range({n}):\n        x = i\n        y = x\n        z = y  # @inspect z",
        20_000,
        4,
        0.7,
    ),
    ("a call, with its loop", "f = lambda: None\n    for i in range({n}):\n        f()", 5_000, 1, 3),
    ("scalar @inspect", "for i in range({n}):\n        x = i  # @inspect x", 10_000, 1, 5),
    ("tensor @inspect", "x = torch.ones(16)\n    for i in range({n}):\n        y = x  # @inspect y", 5_000, 1, 40),
)


def plain(source: str) -> Run:
    """Return a run of the lecture as ordinary Python."""
    module = types.ModuleType("bench_plain")
    exec(compile(source, "bench_plain.py", "exec"), vars(module))
    return lambda: _timed(module.main)


def traced(source: str, folder: str) -> Run:
    """Return a run of the lecture under this tool's probes, with its journal on disk."""

    def run() -> float:
        path = Path(folder, "bench.journal")
        with Probed(source, "bench_traced.py", path) as lecture:
            seconds = _timed(lecture.module.main)
        path.unlink()
        return seconds

    return run


def _timed(function: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def rounds(count: int, *runs: Run) -> list[list[float]]:
    """Interleave the runs and return their seconds per round, without the first round."""
    seconds = [[run() for run in runs] for _ in range(count + 1)]
    return [list(column) for column in zip(*seconds[1:], strict=True)]


def spread(samples: Sequence[float], unit: str = "", scale: float = 1.0) -> str:
    """Return the median and the quartiles of `samples`."""
    low, middle, high = statistics.quantiles([s * scale for s in samples], n=4)
    return f"{middle:.3g}{unit} [{low:.3g}, {high:.3g}]"


# ------------------------------------------------------------------------------ the benchmarks


def statements(folder: str) -> Iterator[str]:
    """Measure the extra cost of a statement, a call, and an inspection."""
    for name, template, n, per, goal in STATEMENTS:
        source = f"import torch\ndef main():\n    {template.format(n=n)}\n"
        bare, ours = rounds(15, plain(source), traced(source, folder))
        extra = [(b - a) / (n * per) for a, b in zip(bare, ours, strict=True)]
        usual = spread([a / (n * per) for a in bare], " µs", 1e6)
        yield f"{name:24} {spread(extra, ' µs', 1e6)}   goal {goal}   plain {usual}"


def file(folder: str) -> Iterator[str]:
    """Measure a trace of 100,000 steps: time to write and to load it, and bytes per step."""
    trace, path = big_trace(100_000), Path(folder, "trace.yaml")
    writing, loading = rounds(5, lambda: _timed(lambda: write(trace, path)), lambda: _timed(lambda: load(path)))
    size, steps = path.stat().st_size, [event for event in trace.steps if isinstance(event, Step)]
    values = sum(len(json.dumps(to_plain(step)["values"])) for step in steps if step.values)
    yield f"write   {spread(writing, ' s')}   goal 2"
    yield f"load    {spread(loading, ' s')}   goal 1.2"
    yield f"size    {size / 1e6:.1f} MB, {(size - values) / len(steps):.0f} B a step beyond its values   goal 200"


BENCHMARKS = {benchmark.__name__: benchmark for benchmark in (statements, file)}

if __name__ == "__main__":
    for name in sys.argv[1:] or BENCHMARKS:
        print(f"\n{name}")
        with tempfile.TemporaryDirectory() as folder:
            for line in BENCHMARKS[name](folder):
                print(f"  {line}", flush=True)
