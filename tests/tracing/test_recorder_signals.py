"""What a lecture's signal handlers raise reaches the lecture, even if a signal arrives in a probe or a description.

`test_plainly` tests blocked signals, `sigwait` and an event loop's handlers in each process of a trace.
"""

from __future__ import annotations

import gc
import signal
from pathlib import Path

import pytest

from tests.tracing.probed import Probed
from trace_tools.describing import arrays, torch_modes  # noqa: F401  (else an alarm may arrive in their import)
from trace_tools.tracing.listening import listening
from trace_tools.util.interpreter import collector_paused

ALARMS = """
import signal

class Alarm(Exception): pass

class Thing:
    def __repr__(self):
        return "thing" + "." * 10

def handler(number, frame):
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
            said.append(str(error))
    assert signal.signal(signal.SIGALRM, before) is handler
    return before, said
"""


@pytest.mark.skipif(signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL, reason="the alarm is in use")
def test_exceptions_of_signal_handlers_are_raised_in_the_lecture(tmp_path: Path) -> None:
    """None is taken for an error of a value, or the lecture would wait forever, and the trace stays whole."""
    path = tmp_path / "lecture.py"
    path.write_text(ALARMS, encoding="utf-8")
    gc.collect()
    with (
        Probed(ALARMS, path, tmp_path / "x.journal") as lecture,
        listening(lecture.recorder, str),
        collector_paused(),  # Python drops what a handler raises in a finalizer, such as of an earlier test's objects
    ):
        before, alarms = lecture.module.main()
    assert before is signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert alarms == [str(int(signal.SIGALRM))] * 60
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
    run = lecture.run.record
    values = [value for step in run.steps.values() for _, value in step.values or ()]
    assert len(values) >= 60 and not any(value.type == "error" for value in values)
    assert (str(lecture.run.ending), len(lecture.frames("main"))) == ("complete", 1)
    assert all(step.frame in run.frames for step in run.steps.values())
