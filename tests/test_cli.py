"""What a command's errors, signals and streams come to: one line, and an exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.traces import example_trace
from trace_tools.cli import OneLineErrors
from trace_tools.errors import UsageError
from trace_tools.file_format.trace_file import write

ROOT = Path(__file__).resolve().parents[1]


def run(does: Callable[[], object]) -> Result:
    @click.group(cls=OneLineErrors)
    def group() -> None: ...

    group.add_command(click.Command("go", callback=does))
    return CliRunner().invoke(group, ["go"])


def fails(error: BaseException) -> Callable[[], object]:
    def raising() -> object:
        raise error

    return raising


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("no such device"), 2, "error: no such device\n"),
        (UsageError("a\nb\udcff.py: a name"), 2, "error: a\\nb\\udcff.py: a name\n"),
        (OSError(28, "No space left on device", "/x/y"), 2, "error: /x/y: No space left on device\n"),
        (OSError(11, "Resource temporarily unavailable"), 2, "error: Resource temporarily unavailable\n"),
        (RuntimeError("can't start new thread"), 2, "error: can't start new thread\n"),
        (MemoryError(), 2, "error: memory is used up\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (KeyboardInterrupt("interrupted; nothing was recorded"), 130, "interrupted; nothing was recorded\n"),
    ],
)
def test_an_error_is_one_line(error: BaseException, code: int, said: str) -> None:
    ran = run(fails(error))
    assert (ran.exit_code, ran.stderr) == (code, said)


def test_what_is_no_refusal_of_the_system_is_not_hidden() -> None:
    assert str(run(fails(RuntimeError("a mistake in the tools"))).exception) == "a mistake in the tools"


def test_a_thread_that_the_system_refuses_is_one_line() -> None:
    """Here because there is no room for its stack; as a rule because of RLIMIT_NPROC."""

    def starts() -> None:
        before = threading.stack_size(1 << 47)
        try:
            threading.Thread(target=int).start()
        finally:
            threading.stack_size(before)

    ran = run(starts)
    assert (ran.exit_code, ran.stderr) == (2, "error: can't start new thread\n")


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP])
def number(request: pytest.FixtureRequest) -> Iterator[int]:
    before = signal.signal(request.param, signal.SIG_DFL)  # this process may ignore it
    yield request.param
    signal.signal(request.param, before)


def test_a_signal_is_taken_for_ctrl_c(number: int) -> None:
    ran = run(lambda: os.kill(os.getpid(), number))
    assert (ran.exit_code, ran.stderr) == (128 + number, "interrupted\n")


def test_what_a_signal_leaves_to_do_is_done_and_the_exit_code_tells_of_it(number: int) -> None:
    def caught() -> None:
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            click.echo("done")
            sys.exit(1)

    ran = run(caught)
    assert (ran.exit_code, ran.stdout, ran.stderr) == (128 + number, "done\n", "")


def test_a_signal_that_is_ignored_stays_ignored(number: int) -> None:
    """As `nohup` has it."""
    signal.signal(number, signal.SIG_IGN)
    assert run(lambda: os.kill(os.getpid(), number)).exit_code == 0
    assert signal.getsignal(number) is signal.SIG_IGN


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "trace.yaml"
    write(example_trace(), path)
    return path


def shell(command: str, trace: Path, **environment: str) -> tuple[int, str]:
    """Run a command of bash, `tool` in it, and return its exit code and what its standard error was."""
    written = trace.with_name("stderr")
    tool = f'tool() {{ {sys.executable} -m trace_tools "$@"; }}; exec 3>{written}'
    known = {**os.environ, "PYTHONPATH": str(ROOT), "TRACE": str(trace), **environment}
    ran = subprocess.run(["bash", "-c", f"{tool}; {command}"], env=known, cwd=trace.parent, capture_output=True)
    return ran.returncode, written.read_text()


NOWHERE = "error: nowhere.yaml: can't be read: No such file or directory\n"


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ('tool validate "$TRACE" <&- >&- 2>&-', 0, ""),
        ('tool validate nowhere.yaml 2>&3 <&- >&-', 2, NOWHERE),
        ('tool diff --textconv "$TRACE" 2>&3 | true; exit ${PIPESTATUS[0]}', 128 + signal.SIGPIPE, ""),
        ('tool validate "$TRACE" 2>&3 >/dev/full', 2, "error: No space left on device\n"),
    ],
)  # fmt: skip
def test_streams_that_are_closed_or_full(command: str, code: int, said: str, trace: Path) -> None:
    assert shell(command, trace) == (code, said)


def test_a_letter_that_the_terminal_does_not_have_is_no_error(trace: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert shell('tool diff --textconv "$TRACE" 2>&3', trace, **plain) == (0, "")
