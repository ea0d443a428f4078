"""Make the run folder that a killed tracer leaves in OUT. The lecture runs with probes in this process.

run = dead_run(out)                           OUT/.run-a; `recover` makes a complete trace from it
run = dead_run(out, "b", done=False)          the lecture's process was killed; `recover` makes a partial trace
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from tests.tracing.probed import Probed
from trace_tools.lecture import vocabulary
from trace_tools.machines.machine import to_json
from trace_tools.trace.model import Machine, Peak
from trace_tools.tracing.job import Job
from trace_tools.tracing.journal import Note
from trace_tools.tracing.options import TraceOptions

LECTURE = '''"""A lecture that says a bit of everything."""
from trace_tools import image, text

def main():
    numbers()
    words()

def numbers():
    text("There are $10$ numbers.")
    total = 0
    for i in range(12):
        total += half(i)  # @inspect total
    assert total > 3
    print("total", total)

def half(i):  # @inspect i
    return i / 2

def words():
    image("x.png", width="50%")
'''


def dead_run(
    out: Path,
    name: str = "a",
    *,
    day: int = 1,
    done: bool = True,
    lecture: str = "lecture.py",
    passes: int = 1,
) -> Path:
    """Make OUT/.run-<name> as a killed tracer leaves it; its `passes` were `done`, or killed with the tracer."""
    folder = out / f".run-{name}"
    folder.mkdir(parents=True)
    options = TraceOptions(passes=passes, limit=10, keep_going=False)
    Job(f"/course/{lecture}", LECTURE, options, started=f"2026-01-0{day}T00:00:00+00:00").write(folder)
    (folder / "versions.json").write_text('[["python", "3.11"]]')
    peaks = [Peak("float32", 1.5e11, "measured", measured=True)]
    (folder / "machine.json").write_text(to_json(Machine("A processor", "cpu", "cpu", peaks=peaks)))
    probed = Probed(LECTURE, lecture, folder / "pass-1.journal", limit=10)
    with contextlib.redirect_stdout(None), vocabulary.listening(lambda narrative: None):
        if done:
            probed.journal.close = lambda: None  # type: ignore[method-assign]
            probed.main()
            del probed.journal.close
            probed.journal.write([Note("done", "complete")])
            probed.journal.close()
            (folder / "pass-1.status").write_text("0")
            for number in range(2, passes + 1):
                for ending in ("journal", "status"):
                    shutil.copy(folder / f"pass-1.{ending}", folder / f"pass-{number}.{ending}")
        else:
            probed.start()
            exec(probed.code, vars(probed.module))
            probed.module.numbers()
            probed.recorder.flush(wait_s=-1)
            probed._watching.pop_all()
            probed.journal.close()
    return folder
