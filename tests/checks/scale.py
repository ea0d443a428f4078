"""`make bench ARGS=scale`: what tracing and rendering take as a lecture grows: memory, time and the size of the trace.

Each case is a lecture that grows in one way, traced by `trace --passes 1` and rendered through the command line at
several sizes n, each in a process of its own whose peak resident memory the system counts (that of the processes it
started included: the largest of them). What a lecture of one line takes is subtracted, and an exponent is fitted to
what is left: 1 is linear growth.

    python -m tests.checks.bench scale       all cases; writes tests/checks/scale.md and scale.svg
"""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.checks.command_line import TOOLS, environment

REPORT = Path(__file__).with_suffix(".md")
LIMIT_S = 900  # for one size of one case
SMALL = {"trace_s": 1.0, "render_s": 0.5, "trace_mib": 24.0, "render_mib": 8.0, "file_mb": 0.02}  # growth below is none


@dataclass(frozen=True)
class Case:
    """A lecture that grows with n."""

    name: str
    source: str  # what stands for {n}, and for {lines}
    sizes: tuple[int, ...]
    line: str = ""  # once for each of n, with {i}

    def lecture(self, n: int) -> str:
        lines = "".join(self.line.format(i=i, last=i % 100 == 99) for i in range(n)) if self.line else ""
        return self.source.replace("{n}", str(n)).replace("{lines}", lines)


@dataclass(frozen=True)
class Taken:
    """What one size of a case took."""

    n: int
    figures: dict[str, float]
    trouble: str = ""


CASES = (
    Case(
        "executed statements",
        "def main():\n    count()\ndef count():\n    for i in range({n} // 2):\n        x = i\n    x  # @inspect x\n",
        (3_000, 30_000, 300_000, 1_000_000),
    ),
    Case(
        "lines of source",
        "def main():\n    section()\ndef section():\n    x = 0\n{lines}",
        (100, 1_000, 3_000, 10_000),
        "    x = {i} + 1\n",
    ),
    Case(
        "inspected values",
        "def main():\n    section()\ndef section():\n    for j in range({n} // 1000): many(j)\n"
        "def many(j):\n    for i in range(100):\n"
        "        x = [i, j]  # @inspect x, i, j, x[0], x[1], len(x), str(i), str(j), str(x), type(x)\n",
        (3_000, 10_000, 30_000, 100_000),
    ),
    Case(
        "frames deep",
        "import sys\ndef main():\n    sys.setrecursionlimit(100_000)\n    down({n})\n"
        "def down(n):\n    x = n  # @inspect x\n    if n:\n        down(n - 1)\n",
        (30, 300, 900, 3_000),
    ),
    Case(
        "tensors that share storages",
        "import torch\ndef main():\n    section()\ndef section():\n    base = torch.arange({n} * 2.0)\n    kept = []\n"
        "    for j in range({n} // 50): share(base, kept, j)\n"
        "def share(base, kept, j):\n    for i in range(50):\n        x = base[j * 50 + i :]  # @inspect x\n"
        "        kept.append(x)\n",
        (50, 500, 1_500, 5_000),
    ),
    Case(
        "bytes of a tensor",
        "import torch\ndef main():\n    section()\ndef section():\n    x = torch.ones({n} // 4)  # @inspect x\n",
        (10_000_000, 100_000_000, 300_000_000, 1_000_000_000),
    ),
    Case(
        "characters of a string",
        "from trace_tools import text\ndef main():\n    section()\ndef section():\n    \n"
        "    x = 'word ' * ({n} // 5)  # @inspect x\n    print(x)\n    text(x)\n",
        (10_000, 100_000, 1_000_000, 10_000_000),
    ),
)
FIGURES = {
    "trace_s": "trace, s",
    "trace_mib": "trace, MiB",
    "render_s": "render, s",
    "render_mib": "render, MiB",
    "file_mb": "trace.yaml, MB",
}


def scale() -> Iterator[str]:
    """Memory, time and file against the size, as it grows; written to scale.md and scale.svg."""
    started = time.monotonic()
    measured: list[tuple[Case, list[Taken]]] = []
    nothing = replace(measure(Case("nothing", "import torch\ndef main():\n    x = 1  # @inspect x\n", ()), 0), n=0)
    yield f"{'nothing':30} {'':18}{figures_of(nothing)}"
    for case in CASES:
        taken = [nothing]
        for n in case.sizes:
            one = measure(case, n)
            taken.append(one)
            yield f"{case.name:30} n = {n:>13,}   {figures_of(one)}{one.trouble}"
            if one.trouble:
                break
        measured.append((case, taken))
        yield f"{case.name:30} {told(exponents(taken))}"
    REPORT.write_text(report(measured, time.monotonic() - started), encoding="utf-8")
    draw(measured)


def figures_of(one: Taken) -> str:
    return "   ".join(f"{FIGURES[name]} {value:.3g}" for name, value in one.figures.items())


def measure(case: Case, n: int) -> Taken:
    """Trace and render the case at one size."""
    with tempfile.TemporaryDirectory(prefix="scale-") as scratch:
        folder = Path(scratch)
        lecture = folder / "lecture.py"
        lecture.write_text(case.lecture(n), encoding="utf-8")
        out = folder / "out"
        seconds, mib, why = run(["trace", str(lecture), "--passes", "1", "-o", str(out)], folder)
        figures = {"trace_s": seconds, "trace_mib": mib}
        found = list(out.glob("*/trace.yaml"))
        if why or not found:
            return Taken(n, figures, f"   trace: {why or 'no complete trace'}")
        figures["file_mb"] = found[0].stat().st_size / 1e6
        seconds, mib, why = run(["render", str(found[0]), "-o", str(folder / "pages")], folder)
        figures |= {"render_s": seconds, "render_mib": mib}
        return Taken(n, figures, f"   render: {why}" if why else "")


def run(words: list[str], folder: Path) -> tuple[float, float, str]:
    """Run a command; return its seconds, the peak memory (MiB) of its largest process, and what went wrong."""
    given = environment()
    started = time.monotonic()
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen([sys.executable, *TOOLS, *words], cwd=folder, env=given, stdout=said, stderr=said)
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() - started > LIMIT_S:
                process.terminate()
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
    took = time.monotonic() - started
    last = (folder / "said").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    why = "" if process.returncode == 0 else f"ended with {process.returncode}: {last}"
    return took, usage.ru_maxrss / 1024, f"not done after {LIMIT_S} s" if took > LIMIT_S else why


def exponents(taken: Sequence[Taken]) -> dict[str, float | None]:
    """Return, of each figure, the exponent of its growth beyond what the first size takes; None where it hardly grows.

    It is fitted to the two largest sizes: where growth is worse than linear, it is worst there.
    """
    if len(taken) < 3:
        return {}
    first, *_, before, last = taken
    found: dict[str, float | None] = {}
    for name in FIGURES:
        if any(name not in one.figures for one in (first, before, last)):
            continue
        grown, less = (one.figures[name] - first.figures[name] for one in (last, before))
        if grown < SMALL[name]:
            found[name] = None
        else:
            found[name] = math.log(grown / max(less, SMALL[name] / 4)) / math.log(last.n / before.n)
    return found


def told(found: dict[str, float | None]) -> str:
    parts = [f"{FIGURES[name]} {'no growth' if e is None else f'n^{e:.2f}'}" for name, e in found.items()]
    return "growth: " + ("; ".join(parts) or "not measured")


def report(measured: Sequence[tuple[Case, list[Taken]]], took_s: float) -> str:
    """Return the report in Markdown."""
    lines = [
        "# How tracing and rendering grow with a lecture",
        "",
        f"Python {platform.python_version()}, torch {importlib.metadata.version('torch')}, {os.cpu_count()} cores;",
        f"made by `make bench ARGS=scale` in {took_s / 60:.0f} minutes. Each row is `trace --passes 1` and `render` of",
        "one lecture; memory is the peak of the largest process. An exponent is that of the growth between the two",
        "largest sizes, beyond what a lecture of one line takes (n = 0): 1 is linear; where one hardly grows there",
        "is none.",
        "",
        "![Memory, time and file against the size](scale.svg)",
    ]
    for case, taken in measured:
        lines += ["", f"## {case.name.capitalize()}", "", f"| n | {' | '.join(FIGURES.values())} |"]
        lines.append("|---:" * (1 + len(FIGURES)) + "|")
        for one in taken:
            cells = [f"{one.figures[name]:.3g}" if name in one.figures else one.trouble.strip() for name in FIGURES]
            lines.append(f"| {one.n:,} | {' | '.join(cells)} |")
        found = exponents(taken)
        cells = [
            "" if name not in found else "–" if found[name] is None else f"n^{found[name]:.2f}" for name in FIGURES
        ]
        lines.append(f"| growth | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def draw(measured: Sequence[tuple[Case, list[Taken]]]) -> None:
    """Write the figures as curves, one panel for each figure and a line for each case, on logarithmic axes."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "scale", "svg.fonttype": "none", "font.size": 8}):
        figure, panels = pyplot.subplots(1, len(FIGURES), figsize=(15, 3.2), layout="constrained")
        for panel, (name, label) in zip(panels, FIGURES.items(), strict=True):
            for case, taken in measured:
                points = [(one.n / case.sizes[-1], one.figures[name]) for one in taken if one.n and name in one.figures]
                panel.loglog(*zip(*points, strict=True), marker=".", label=case.name) if points else None
            panel.set_title(label)
            panel.set_xlabel("share of the largest n")
            panel.grid(alpha=0.3)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(REPORT.with_suffix(".svg"), metadata={"Date": None})
