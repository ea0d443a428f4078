from __future__ import annotations

import os
import threading
import time

import pytest

from tests.cases_in_one import each
from trace_tools.errors import LectureError, TraceFileError, TraceToolsError, UsageError
from trace_tools.util.processes import in_processes


@pytest.fixture
def no_other_threads() -> None:
    """Wait for threads of earlier tests: with other threads nothing is forked, and `os._exit` would end pytest."""
    deadline = time.monotonic() + 10
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    if threading.active_count() > 1:
        pytest.fail(f"an earlier test left threads: {threading.enumerate()}")


@pytest.mark.usefixtures("no_other_threads")
def test_results_come_in_order_from_other_processes() -> None:
    results = in_processes([lambda n=n: (n, os.getpid()) for n in range(5)], processes=2)  # type: ignore[misc]
    assert [number for number, _ in results] == [0, 1, 2, 3, 4]
    assert os.getpid() not in {process for _, process in results}


@pytest.mark.usefixtures("no_other_threads")
@each(
    "error",
    [UsageError("no such place"), LectureError("a.py", 3, "no place"), TraceFileError("t.yaml", "run", "no place")],
)
def test_errors_are_raised_in_the_parent_process(error: TraceToolsError) -> None:
    def refuse() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        in_processes([lambda: None, refuse], processes=2)
    assert (str(raised.value), vars(raised.value)) == (str(error), vars(error))


@pytest.mark.usefixtures("no_other_threads")
def test_a_process_that_dies_is_an_error() -> None:
    with pytest.raises(UsageError, match="ended without a result"):
        in_processes([lambda: os._exit(3), lambda: None], processes=2)


def test_no_fork_with_other_threads_or_one_call() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert in_processes([os.getpid, os.getpid], processes=2) == [os.getpid()] * 2
    finally:
        stop.set()
        thread.join()
    assert in_processes([os.getpid]) == [os.getpid()]
