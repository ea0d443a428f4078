from __future__ import annotations

import os
import threading
import time

import pytest

from trace_tools.errors import LectureError, TraceFileError, TraceToolsError, UsageError
from trace_tools.util.processes import in_processes


@pytest.fixture
def alone() -> None:
    """Wait for threads of earlier tests: beside them no process is forked, and a call would end this one."""
    until = time.monotonic() + 10
    while threading.active_count() > 1 and time.monotonic() < until:
        time.sleep(0.05)
    if threading.active_count() > 1:
        pytest.fail(f"an earlier test left threads: {threading.enumerate()}")


@pytest.mark.usefixtures("alone")
def test_results_come_in_order_from_other_processes() -> None:
    found = in_processes([lambda n=n: (n, os.getpid()) for n in range(5)], processes=2)  # type: ignore[misc]
    assert [number for number, _ in found] == [0, 1, 2, 3, 4]
    assert os.getpid() not in {process for _, process in found}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "error",
    [UsageError("no such place"), LectureError("a.py", 3, "no place"), TraceFileError("t.yaml", "run", "no place")],
)
def test_what_a_call_raises_is_raised_here(error: TraceToolsError) -> None:
    def refuse() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        in_processes([lambda: None, refuse], processes=2)
    assert (str(raised.value), vars(raised.value)) == (str(error), vars(error))


@pytest.mark.usefixtures("alone")
def test_a_process_that_dies_is_an_error() -> None:
    with pytest.raises(UsageError, match="ended without a result"):
        in_processes([lambda: os._exit(3), lambda: None], processes=2)


def test_nothing_is_forked_beside_other_threads_or_for_one_call() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert in_processes([os.getpid, os.getpid], processes=2) == [os.getpid()] * 2
    finally:
        stop.set()
        thread.join()
    assert in_processes([os.getpid]) == [os.getpid()]
