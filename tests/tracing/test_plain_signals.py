"""A lecture that is signalled does what it does plainly, wherever the tools are at that moment."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tracing.probed import Probed
from trace_tools.file_format.trace_file import load
from trace_tools.schema import Step
from trace_tools.tracing.child import _listening as listening
from trace_tools.tracing.plain_signals import plain_signals

ALARMS = """
import signal, traceback

class Alarm(Exception): pass

class Thing:
    def __repr__(self):
        return "thing" + "." * 10

seen = set()

def handler(number, frame):
    seen.add(frame.f_code.co_name)
    raise Alarm(number)

def twice(n):
    z = n * 2  # @inspect z
    for _ in range(2):
        z += 1
    return z

def main():
    before = signal.signal(signal.SIGALRM, handler)
    assert signal.getsignal(signal.SIGALRM) is handler
    said = []
    for i in range(60):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + i * 0.00003)
            while True:
                x = twice(i)  # @inspect x
                thing = Thing()  # @inspect thing, repr(thing)
                assert len([x, x]) == 2
        except Alarm as error:
            said.append((str(error), {entry.name for entry in traceback.extract_tb(error.__traceback__)}))
    assert signal.signal(signal.SIGALRM, before) is handler
    return before, said
"""

WAITS = """
import asyncio, os, signal, time

def main():
    blocked()
    told()

def blocked():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.1)
    print(signal.sigpending(), signal.sigwait([signal.SIGUSR1]))
    os.kill(os.getpid(), signal.SIGUSR2)  # nobody waits for it

def told():
    asyncio.run(often())

async def often():
    times = []
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, times.append, 1)
    for i in range(20):
        os.kill(os.getpid(), signal.SIGHUP)
        done = [i]  # @inspect done
        await asyncio.sleep(0.005)
    print(len(times))

if __name__ == "__main__":
    main()
"""


@pytest.mark.skipif(signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL, reason="the alarm is in use")
def test_what_a_handler_raises_is_raised_in_the_lecture(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(ALARMS, encoding="utf-8")
    with Probed(ALARMS, path, tmp_path / "x.journal") as lecture:
        before, said = _run(lecture, path)
        assert vars(lecture.module)["seen"] <= {"main", "twice"}
        assert not lecture.recorder.frames, "every call has ended"
    assert before is signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert len(said) == 60 and {text for text, _ in said} == {str(int(signal.SIGALRM))}
    assert set().union(*(names for _, names in said)) <= {"main", "twice", "handler"}


def test_signals_come_to_those_who_wait_and_end_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "lecture.py").write_text(WAITS, encoding="utf-8")
    plain = subprocess.run(
        [sys.executable, "lecture.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert plain.returncode == 0 and plain.stdout.endswith("20\n")
    command = [sys.executable, "-m", "trace_tools", "trace", "lecture.py", "--passes", "1", "-o", "out"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=170)
    assert ran.returncode == 0, ran.stderr
    trace = load(tmp_path / "out/cpu/trace.yaml").trace
    assert trace.run.complete and not any(process.why_no_warm for process in trace.run.processes)
    said = [step.stdout for step in trace.steps if isinstance(step, Step) and step.stdout]
    assert sorted("".join(said).splitlines()) == sorted(plain.stdout.splitlines())


def _run(lecture: Probed, path: Path) -> tuple[object, list[tuple[str, set[str]]]]:
    with listening(lecture.recorder, str), plain_signals(str(path), _run.__code__):
        returned: tuple[object, list[tuple[str, set[str]]]] = lecture.module.main()
        return returned
