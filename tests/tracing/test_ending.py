"""When a lecture ends, the tracer waits for its threads and processes, up to a limit."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cases_in_one import each
from tests.programs import require
from trace_tools.tracing.isolation import ending


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ending.wait_for_others(lambda _: None) == [], "other tests left threads or processes"
    monkeypatch.setattr(ending, "WAIT_S", 0.3)
    monkeypatch.setattr(ending, "REPORT_S", 0.1)


def test_waiting_for_threads_and_processes_is_limited() -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="waiting")
    process = multiprocessing.get_context("fork").Process(target=gate.wait, name="endless")
    threading.Thread(target=gate.wait, daemon=True).start()
    thread.start()
    process.start()
    messages: list[str] = []
    work = threading.Event()
    try:
        with ThreadPoolExecutor(1, "worker") as pool:
            pool.submit(work.wait)
            assert "thread worker_0" in ending.wait_for_others(lambda _: None)
            work.set()  # the pool's worker still runs, but is idle
            running = [f"process endless ({process.pid})", "thread waiting"]
            assert ending.wait_for_others(messages.append) == running
            assert messages == [f"waits for {', '.join(running)}"]
            gate.set()
            process.terminate()
            assert ending.wait_for_others(messages.append) == []
    finally:
        work.set(), gate.set(), process.kill()
    assert not thread.is_alive() and not process.is_alive()


@each(
    ("call", "status"),
    [
        ("os._exit(status=3)", 3),
        ("os.execlp('false', 'false')", 1),
        ("os.execvpe('sh', ['sh', '-c', 'exit $STATUS'], {'PATH': os.environ['PATH'], 'STATUS': '5'})", 5),
    ],
)
def test_output_is_flushed_before_the_process_ends(call: str, status: int) -> None:
    require("sh", "false")
    code = "import os\nfrom trace_tools.tracing.isolation.ending import flush_on_exit\n"
    code += f"with flush_on_exit(lambda: os.write(1, b'written')):\n    {call}\n"
    completed = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60, start_new_session=True)
    assert completed.returncode == status and set(completed.stdout.split(b"written")) == {b""} != {completed.stdout}
