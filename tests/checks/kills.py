"""Kill a traced lecture at random moments and check that the steps that were certain 50 ms earlier are recovered.

    python -m tests.checks.kills --moments 100 [--seed 0]     real traces; exit code 1 if a step was lost
    python -m tests.checks.kills --moments 100 --alone        only a process with the recorder, which starts sooner
    python -m tests.checks.kills probed FOLDER                one process: the lecture with probes, into a journal

The lecture itself logs its steps: it appends a line to a file by `os.write` after each step. A thread of the same
process, without probes, appends a tick every 1 ms or more. A step must be recovered if 50 ticks follow it, and it is
one of the first 50 executions of the loop; on a busy machine ticks take longer, like everything else in that process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.tracing.probed import Probed
from trace_tools.machines.machine import STORED, to_json
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import Machine, Peak, Step, Trace
from trace_tools.trace.trace_file import load
from trace_tools.tracing.merge.reader import read_process
from trace_tools.tracing.run_folder import recover

ROOT = Path(__file__).resolve().parents[2]
TICKS = 50  # each takes at least 1 ms
FIRST = LAST = 50  # executions of a loop that the trace keeps
WHO = ("lecture", "tracer", "both")  # the process that is killed

LECTURE = """
import stamps
def main():
    stamps.start()
    for i in range(600):
        x = i  # @inspect x
        stamps.done(x)
        part(i)
        stamps.pause(i)
def part(i):
    for j in range(i % 3):
        y = (i, j)  # @inspect y
"""

STAMPS = """
import _thread, os, random, time
def start():
    global file
    file = os.open(os.environ["STAMPS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b"run %d\\n" % os.getpid())
    _thread.start_new_thread(tick, (file,))
def tick(file):
    while True:
        time.sleep(0.001)
        os.write(file, b"tick\\n")
def done(i):
    os.write(file, b"%d\\n" % i)
def pause(i):
    drawn = random.Random(i).random()
    if drawn < 0.02:
        time.sleep(0.08)
    elif drawn < 0.5:
        time.sleep(drawn / 200)
"""


def write_lecture(folder: Path) -> Path:
    """Write the lecture and its module `stamps`; return the lecture's path."""
    (folder / "stamps.py").write_text(STAMPS)
    lecture = folder / "lecture.py"
    lecture.write_text(LECTURE)
    return lecture


def lost(stamps: str, recovered: Iterable[int]) -> list[int]:
    """Return the iterations of the first run that a trace must contain but does not.

    Of the iterations before the last ticks, the trace must contain the first `FIRST`, and if the run was over, the last
    `LAST`.
    """
    first_run = stamps.split("run ")[1]
    is_whole = stamps.count("run ") > 1
    lines = first_run.splitlines()[1:]
    ticks = [number for number, line in enumerate(lines) if line == "tick"]
    end = len(lines) if is_whole else ticks[-TICKS] if len(ticks) >= TICKS else 0
    old = [int(line) for line in lines[:end] if line.isdigit()]
    present = set(recovered)
    latest = max([*present, *old], default=-1)
    kept = {*range(FIRST), *(range(latest - LAST + 1, latest + 1) if is_whole else ())}
    return [i for i in old if i in kept and i not in present]


def seen(trace: Trace) -> list[int]:
    """Return the iterations that a trace contains."""
    values = [value for event in trace.steps if isinstance(event, Step) for name, value in event.values or ()
              if name == "x"]  # fmt: skip
    return [int(str(value.value)) for value in values]


def wait_for(path: Path, tick: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a file has a line."""
    deadline = time.monotonic() + 120
    while not (path.exists() and tick in path.read_text()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the lecture did not begin")
        time.sleep(0.01)


def kill_traced(folder: Path, who: str, after_s: float) -> tuple[list[int], int]:
    """Trace the lecture, kill `who` after some seconds, and return the lost iterations and the number recovered."""
    lecture, out, stamps = write_lecture(folder), folder / "out", folder / "stamps"
    machine = folder / "machine.json"
    machine.write_text(to_json(Machine("A processor", "cpu", "cpu", peaks=[Peak("float32", 1e11, "", measured=True)])))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), STORED: str(machine), "STAMPS": str(stamps)}
    command = [sys.executable, "-m", "trace_tools", "trace", str(lecture), "--passes", "1", "-o", str(out)]
    tracer = subprocess.Popen(
        [*command, "--device", "cpu"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(stamps, "tick", tracer)
    time.sleep(after_s)
    process = int(stamps.read_text().rpartition("run ")[2].split()[0])  # the process that runs the lecture now
    if who != "lecture":
        tracer.kill()
    if who != "tracer":
        with contextlib.suppress(ProcessLookupError):  # the process has just ended
            os.kill(process, signal.SIGKILL)
    tracer.wait()
    deadline = time.monotonic() + 30
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(process, 0)  # the process ends after its tracer
            time.sleep(0.01)
    recovered, kept = recover(out)
    written = [trace.path for trace in recovered] + [
        out / name for name in ("cpu/partial/trace.yaml", "cpu/trace.yaml")
    ]
    path = next(path for path in written if path.exists())
    assert not kept, kept
    iterations = seen(load(path).trace)
    return lost(stamps.read_text(), iterations), len(iterations)


def probed(folder: Path) -> None:
    """Run the lecture with probes, in this process."""
    sys.path.insert(0, str(write_lecture(folder).parent))
    os.environ["STAMPS"] = str(folder / "stamps")
    Probed(LECTURE, "lecture.py", folder / "x.journal").main()


def kill_probed(folder: Path, after_s: float) -> tuple[list[int], int]:
    """Run the lecture with probes in a process and kill it after some seconds; return the same as `kill_traced`."""
    stamps = folder / "stamps"
    process = subprocess.Popen([sys.executable, "-m", "tests.checks.kills", "probed", str(folder)], cwd=ROOT)
    wait_for(stamps, "tick", process)
    time.sleep(after_s)
    process.kill()
    process.wait()
    run = read_process(folder / "x.journal", [parse_source(LECTURE, "lecture.py")]).runs[0]
    iterations = [v[1].value for s in run.steps.values() for v in s.values or () if v[0] == "x"]
    return lost(stamps.read_text(), iterations), len(iterations)


def main(arguments: Sequence[str]) -> int:
    """Kill at the given number of moments; return 1 if a step was lost."""
    if arguments[:1] == ["probed"]:
        probed(Path(arguments[1]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true")
    options = parser.parse_args(arguments)
    drawn = random.Random(options.seed)
    losses = 0
    for moment in range(options.moments):
        who = "recorder" if options.alone else WHO[moment % len(WHO)]
        after_s = drawn.uniform(0, 3)
        with tempfile.TemporaryDirectory() as folder:
            result = kill_probed(Path(folder), after_s) if options.alone else kill_traced(Path(folder), who, after_s)
            missing, steps = result
        losses += bool(missing)
        print(json.dumps({"moment": moment, "killed": who, "after_s": round(after_s, 3), "steps": steps,
                          "lost": missing}), flush=True)  # fmt: skip
    print(f"{options.moments} moments, {losses} at which a step was lost")
    return 1 if losses else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
