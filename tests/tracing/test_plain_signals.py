"""A lecture's signal handlers act as in plain Python, even if a signal arrives while the tracer's code runs.

`test_plainly` tests blocked signals, `sigwait` and an event loop's handlers in each process of a trace.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.tracing.probed import Probed
from trace_tools.describing.guarded_repr import Guard
from trace_tools.tracing.isolation.plain_signals import plain_signals
from trace_tools.tracing.listening import listening

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


@pytest.mark.skipif(signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL, reason="the alarm is in use")
def test_exceptions_of_signal_handlers_are_raised_in_the_lecture(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(ALARMS, encoding="utf-8")
    with Probed(ALARMS, path, tmp_path / "x.journal") as lecture:
        before, alarms = _run(lecture, path)
        assert vars(lecture.module)["seen"] <= {"main", "twice"}
        assert not lecture.recorder.calls, "every call has ended"
    assert before is signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert len(alarms) == 60 and {text for text, _ in alarms} == {str(int(signal.SIGALRM))}
    assert set().union(*(names for _, names in alarms)) <= {"main", "twice", "handler"}


def _run(lecture: Probed, path: Path) -> tuple[object, list[tuple[str, set[str]]]]:
    with listening(lecture.recorder, str), plain_signals(str(path), _run.__code__):
        returned: tuple[object, list[tuple[str, set[str]]]] = lecture.module.main()
        return returned


@pytest.mark.skipif(signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL, reason="the alarm is in use")
def test_an_endless_repr_is_interrupted_while_a_lecture_runs(tmp_path: Path) -> None:
    """The tools' own timer is no handler of the lecture's."""
    path = str(tmp_path / "lecture.py")
    with plain_signals(path, test_an_endless_repr_is_interrupted_while_a_lecture_runs.__code__):
        assert Guard().call(lambda: time.sleep(60), "repr", 0.02) == (None, "repr took too long")
