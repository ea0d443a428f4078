"""`make emulate`: trace and render the whole lecture on the emulated CUDA device, and run the tests that need a GPU.

All output is written to `.emulated/`, never to `rendered/`. Traces and pages made here are marked `emulated`. The exit
code is 1 if a step failed, and 2 if the device can't be built.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.committed import committed_traces
from tests.emulated_cuda.build import ROOT, CannotBuild, environment
from tests.emulated_cuda.claims import NOT_JUDGED
from trace_tools.trace.file import load
from trace_tools.trace.model import Step

OUT = ROOT / ".emulated"
# The share of launches that may run in step although CUDA would queue them.
IN_STEP_SHARE = 0.01
# The lecture chooses its sizes by the device's memory. Here it gets the CPU's sizes, which two cores can compute.
SIZES = re.compile(r'(def sizes\(\) -> Sizes:\n    """[^"]+"""\n    if device\(\)) == "cpu":\n')


def main() -> int:
    """Run both steps; return the exit code."""
    try:
        variables = environment()
    except CannotBuild as error:
        print(f"emulated CUDA: {error}", file=sys.stderr)
        return 2
    variables.setdefault("OMP_NUM_THREADS", "1")
    failed = _traced(variables)
    tests = [sys.executable, "-m", "pytest", "-m", "cuda", "-n2", "--dist=worksteal"]
    failed += ["tests"] * (subprocess.run(tests, env=variables, cwd=ROOT).returncode != 0)
    print("emulated: " + (f"failed: {', '.join(failed)}" if failed else "all well"))
    return 1 if failed else 0


def _traced(variables: Mapping[str, str]) -> list[str]:
    """Trace the lecture and compare it with a committed trace; list what failed."""
    rendered, counts = OUT / "rendered", OUT / "counts"
    for folder in (rendered, counts):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    command = ["trace", str(_lecture()), "-o", str(rendered), "--passes", "1"]
    ended = _tools(command, {**variables, "EMULATED_CUDA_COUNTS": str(counts)})
    trace = next(rendered.glob("emulated-*/trace.yaml"), None)
    if ended not in (0, 1) or trace is None:  # 1: a claim about time may fail
        return ["trace"]
    committed = committed_traces()[0]
    report = ["diff", str(committed), str(trace), "--format", "md", "-o", str(OUT / "diff.md")]
    checked = {
        "trace": _completed(trace),
        "diff": _tools(report, variables) in (0, 1, 3),
        "asynchrony": _asynchronous(counts),
    }
    return [name for name, well in checked.items() if not well]


def _tools(command: list[str], variables: Mapping[str, str]) -> int:
    print("python -m trace_tools " + " ".join(command), flush=True)
    return subprocess.run([sys.executable, "-m", "trace_tools", *command], env=dict(variables), cwd=ROOT).returncode


def _lecture() -> Path:
    """Write a copy of the lecture, alone in its folder, that uses a CPU's sizes also on this device."""
    text = (ROOT / "lecture.py").read_text(encoding="utf-8")
    text, count = SIZES.subn(r"\1:\n", text)
    if count != 1:
        raise SystemExit("lecture.py: sizes() no longer begins as tests/emulated_cuda/emulate.py expects")
    path = OUT / "lecture" / "lecture.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _completed(path: Path) -> bool:
    """Return whether every process completed and no claim failed in all timed runs.

    Times are meaningless on this device: a claim may compare them if it is listed, or fails in only some runs.
    """
    trace = load(path)
    for process in trace.run.processes:
        print(f"{process.name}: {process.ended}")
    always = 0
    for step in trace.steps:
        if isinstance(step, Step) and step.claim is not None and not step.claim.held:
            runs = step.claim.failed_runs or []
            source = ast.unparse(ast.parse(step.claim.source, mode="eval"))
            always += len(runs) == trace.run.timed_runs and source not in NOT_JUDGED
            print(f"lecture.py:{step.line}: did not hold in {', '.join(runs)}: {step.claim.source}")
    return not always and all(process.ended == "complete" for process in trace.run.processes)


def _asynchronous(folder: Path) -> bool:
    """Print how the lecture's operators ran; return whether few enough of them ran in step."""
    queued, in_step = 0, Counter[str]()
    for path in sorted(folder.glob("*.json")):
        for name, (launched, _, stepped) in json.loads(path.read_text(encoding="utf-8")).items():
            queued += launched
            in_step[name] += stepped
    total = sum(in_step.values())
    listed = ", ".join(f"{name} {count:,}" for name, count in in_step.most_common() if count) or "none"
    print(f"{queued:,} launches were queued, {total:,} ran in step: {listed}")
    return queued > 0 and total <= IN_STEP_SHARE * (queued + total)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
