"""Who is waited for when a lecture is over: the system's own list of processes is the oracle."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.programs import require
from trace_tools.tracing.isolation import ending
from trace_tools.tracing.isolation.ending import ENDS, flush_on_exit


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ending.wait_for_others(lambda _: None) == [], "other tests left them"
    monkeypatch.setattr(ending, "WAIT_S", 0.3)
    monkeypatch.setattr(ending, "REPORT_S", 0.1)


def test_threads_and_processes_are_waited_for_as_long_as_they_may_be() -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="waiting")
    process = multiprocessing.get_context("fork").Process(target=gate.wait, name="endless")
    threading.Thread(target=gate.wait, daemon=True).start()
    thread.start()
    process.start()
    told: list[str] = []
    work = threading.Event()
    try:
        with ThreadPoolExecutor(1, "worker") as pool:
            pool.submit(work.wait)
            assert "thread worker_0" in ending.wait_for_others(lambda _: None)
            work.set()  # its worker goes on waiting for work
            both = [f"process endless ({process.pid})", "thread waiting"]
            assert ending.wait_for_others(told.append) == both
            assert told == [f"waits for {', '.join(both)}"]
            gate.set()
            process.terminate()
            assert ending.wait_for_others(told.append) == []
    finally:
        work.set(), gate.set(), process.kill()
    assert not thread.is_alive() and not process.is_alive()


def test_a_worker_that_has_ended_is_not_at_work_though_another_thread_has_its_number() -> None:
    worker = threading.Thread(target=int)
    worker.start(), worker.join()
    worker._ident = threading.get_ident()  # type: ignore[attr-defined]
    assert not ending._is_at_work(worker)


def test_processes_of_a_session_are_named() -> None:
    require("sleep")
    code = (
        "import subprocess; from trace_tools.tracing.isolation.ending import processes_of_session as others\n"
        "before = others(); child = subprocess.Popen(['sleep', '100'])\n"
        "print(before, others() == [f'sleep ({child.pid})']); child.kill(); child.wait(); print(others())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, start_new_session=True
    )
    assert ran.stdout == "[] True\n[]\n"
    assert os.getpid() not in ending.processes_of_session()


def test_what_takes_too_long_is_told_of_once() -> None:
    late: list[list[str]] = []
    with ending.limited(late.append):
        pass
    assert late == []
    over = threading.Event()
    with ending.limited(lambda left: (late.append(left), over.set())[0]):
        assert over.wait(5)
    assert len(late) == 1


CALLS = {
    "_exit": ("os._exit(status=3)", 3),
    "abort": ("os.abort()", -signal.SIGABRT),
    "execv": ("os.execlp('false', 'false')", 1),
    "execve": ("os.execvpe('sh', ['sh', '-c', 'exit $STATUS'], {'PATH': os.environ['PATH'], 'STATUS': '5'})", 5),
    "kill": ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
    "killpg": ("os.killpg(os.getpid(), 9)", -signal.SIGKILL),
}


@pytest.mark.parametrize("name", ENDS)
def test_each_ends_the_process_once_all_is_written(name: str) -> None:
    require("sh", "false")
    call, status = CALLS[name]
    code = "import os\nfrom trace_tools.tracing.isolation.ending import flush_on_exit\n"
    code += f"with flush_on_exit(lambda: os.write(1, b'written')):\n    {call}\n"
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60, start_new_session=True)
    assert ran.returncode == status and set(ran.stdout.split(b"written")) == {b""} != {ran.stdout}


def test_one_that_ends_nothing_is_as_in_plain_python() -> None:
    """Its traceback, name and text, and the functions themselves afterwards."""

    def fails() -> str:
        try:
            os.kill(2**22 + 1, 0)
        except ProcessLookupError:
            return traceback.format_exc()
        raise AssertionError("there is such a process")

    before, plain, flushed = os.kill, fails(), []
    with flush_on_exit(lambda: flushed.append(1)):
        assert fails() == plain and flushed == [1]
        assert pickle.loads(pickle.dumps(os.kill)) is before, "as what another process is to call"
        assert (os.kill.__name__, os.kill.__doc__) == (before.__name__, before.__doc__)
    assert os.kill is before
