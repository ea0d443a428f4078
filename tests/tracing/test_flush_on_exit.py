"""What ends a process at once does as it does, and something is done before."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback

import pytest

from tests.programs import require
from trace_tools.tracing.isolation.flush_on_exit import ENDS, written_before

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
    code = "import os\nfrom trace_tools.tracing.isolation.flush_on_exit import written_before\n"
    code += f"with written_before(lambda: os.write(1, b'written')):\n    {call}\n"
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
    with written_before(lambda: flushed.append(1)):
        assert fails() == plain and flushed == [1]
        assert pickle.loads(pickle.dumps(os.kill)) is before, "as what another process is to call"
        assert (os.kill.__name__, os.kill.__doc__) == (before.__name__, before.__doc__)
    assert os.kill is before
