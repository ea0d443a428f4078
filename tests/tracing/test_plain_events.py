"""A lecture's own trace or profile function sees the same calls, lines, exceptions and returns as in plain Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tracing.probed import Probed, new_module
from trace_tools.tracing.isolation.plain_events import plain_events
from trace_tools.tracing.listening import listening

TEXT = """
import sys, threading
from unittest import mock

class Thing:
    def __init__(self, x):
        self.x = x
    def __repr__(self):
        return f"thing {self.x}"

def work(n):
    total = 0
    for i in range(n):
        if i == 1:
            continue
        total += i  # @inspect total
    while total > 0:
        total -= 1
    with mock.patch.dict({}):
        thing = Thing(n)  # @inspect thing, repr(thing)
    assert total == 0, \\
        "zero"
    try:
        fails(thing)
    except ValueError as error:
        total = str(
            error)
    finally:
        done = [x for x in gen(3)]  # @inspect done
    print(total)
    return total

def fails(x):  # @inspect x
    raise ValueError(x)

def gen(n):
    for i in range(n):
        yield i
    return

def main():
    events = []
    def told(frame, event, arg):
        if not frame.f_code.co_filename.startswith("<frozen"):
            name = frame.f_code.co_name
            line = frame.f_lineno if event != "return" and frame.f_code.co_filename == __file__ else None
            events.append((event, name, line))
        return told
    before = SET.get()
    SET.set(told)
    same = SET.get() is told
    work(3)
    SET.set(None)
    def in_thread():
        SET.set(told)
        gen(1)
        SET.set(None)
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    return before, same, events

class SET:
    get = staticmethod(lambda: sys.getKIND())
    set = staticmethod(lambda function: sys.setKIND(function))
"""


@pytest.mark.parametrize("kind", ["trace", "profile"])
def test_lectures_own_hooks_see_the_events_of_plain_runs(kind: str, tmp_path: Path) -> None:
    text = TEXT.replace("KIND", kind)
    path = tmp_path / "lecture.py"
    path.write_text(text, encoding="utf-8")
    before = getattr(sys, f"get{kind}")(), getattr(sys, f"set{kind}")
    module = new_module(text, path)
    exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
    expected = module.main()
    with Probed(text, path, tmp_path / "x.journal") as lecture:
        actual = _run(lecture, path)
    assert (getattr(sys, f"get{kind}")(), getattr(sys, f"set{kind}")) == before
    assert actual[:2] == expected[:2] == (before[0], True)
    plain, probed = ([event for event in events if event[1] != "<lambda>"] for events in (expected[2], actual[2]))
    if sys.version_info >= (3, 12) and kind == "trace":
        pytest.skip("the header of a loop may be reported twice")
    assert probed == plain, "except events of the lambdas, which call a function of C in a plain run"
    assert len(expected[2]) > 50


def _run(lecture: Probed, path: Path) -> Any:
    with listening(lecture.recorder, str), plain_events(str(path), _run.__code__):
        return lecture.module.main()
