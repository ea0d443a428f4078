"""What a command's errors, signals and streams come to: one line, and an exit code."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.cases_in_one import each
from tests.messages import says
from tests.programs import PYTHON, require
from tests.traces import example_trace
from trace_tools.cli import GROUPS, OneLineErrors, main, sentence
from trace_tools.errors import UsageError
from trace_tools.trace.trace_file import write

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


@each(
    ("error", "code", "message"),
    [
        (UsageError("no such device"), 2, "error: no such device\n"),
        (UsageError("a\nb\udcff.py: a name"), 2, "error: a\\nb\\udcff.py: a name\n"),
        (OSError(28, "No space left on device", "/x/y"), 2, "error: /x/y: No space left on device\n"),
        (OSError(11, "Resource temporarily unavailable"), 2, "error: Resource temporarily unavailable\n"),
        (RuntimeError("can't start new thread"), 2, "error: can't start new thread\n"),
        (MemoryError(), 2, "error: out of memory\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (KeyboardInterrupt("interrupted; nothing was recorded"), 130, "interrupted; nothing was recorded\n"),
    ],
)
def test_an_error_is_one_line(error: BaseException, code: int, message: str) -> None:
    ran = run(fails(error))
    assert (ran.exit_code, ran.stderr) == (code, message)


def test_what_is_no_refusal_of_the_system_is_not_hidden() -> None:
    for error in (RuntimeError("a mistake in the tools"), KeyError("x"), RecursionError("too deep")):
        ran = run(fails(error))
        assert ran.exit_code == 70 and "Traceback (most recent call last)" in ran.stderr
        assert repr(error).partition("(")[0] in ran.stderr and says(ran.stderr.splitlines()[-1], "error: ", "traceback")


def test_a_thread_that_the_system_refuses_is_one_line() -> None:
    """Here because there is no room for its stack; as a rule because of RLIMIT_NPROC.

    In a process of its own: Python 3.11 keeps the state of a thread that never started under the identifier of the
    thread that wanted it, and an exception thrown at that thread is then never raised.
    """
    text = """
import threading, click
from trace_tools.cli import OneLineErrors

def starts():
    threading.stack_size(1 << 47)
    threading.Thread(target=int).start()

group = OneLineErrors("group", {"go": click.Command("go", callback=starts)})
group(["go"])
"""
    ran = subprocess.run([PYTHON, "-c", text], capture_output=True, text=True, cwd=ROOT)
    assert (ran.returncode, ran.stderr) == (2, "error: can't start new thread\n")


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
    require("bash")
    written = trace.with_name("stderr")
    tool = f'tool() {{ {PYTHON} -m trace_tools "$@"; }}; exec 3>{shlex.quote(str(written))}'
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TRACE": str(trace), **environment}
    ran = subprocess.run(["bash", "-c", f"{tool}; {command}"], env=env, cwd=trace.parent, capture_output=True)
    return ran.returncode, written.read_text()


NOWHERE = "error: nowhere.yaml: can't be read: No such file or directory\n"


@each(
    ("command", "code", "message"),
    [
        ('tool validate "$TRACE" <&- >&- 2>&-', 0, ""),
        ('tool validate nowhere.yaml 2>&3 <&- >&-', 2, NOWHERE),
        ('tool diff --textconv "$TRACE" 2>&3 | true; exit ${PIPESTATUS[0]}', 128 + signal.SIGPIPE, ""),
        ('tool validate "$TRACE" 2>&3 >/dev/full', 2, "error: No space left on device\n"),
    ],
)  # fmt: skip
def test_streams_that_are_closed_or_full(command: str, code: int, message: str, trace: Path) -> None:
    assert shell(command, trace) == (code, message)


def test_a_letter_that_the_terminal_does_not_have_is_no_error(trace: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert shell('tool diff --textconv "$TRACE" 2>&3', trace, **plain) == (0, "")


def commands(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield (*before, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)


def test_the_examples_in_help_use_options_that_exist() -> None:
    for names, command in commands(main):
        if isinstance(command, click.Group):
            continue
        options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        for line in (command.help or "").splitlines():
            if line.strip().startswith(f"trace-tools {' '.join(names)}"):
                assert {word for word in line.split() if word.startswith("-")} <= options, line


def test_help_has_each_command_in_one_group_with_a_short_sentence_and_an_example() -> None:
    helped = CliRunner().invoke(main, ["--help"], terminal_width=80).stdout
    assert [line[:-1] for line in helped.splitlines() if line.endswith(":") and line[0] != " "] == ["Options", *GROUPS]
    for names, command in commands(main):
        line = sentence(command)
        assert line.endswith(".") and len(line) <= 60, names
        assert len(names) > 1 or helped.count(f"  {line}\n") == 1, names
        own = CliRunner().invoke(main, [*names, "--help"]).stdout
        assert f"  trace-tools {' '.join(names)} " in own or f"  trace-tools {' '.join(names)}\n" in own
        for option in command.params:
            if isinstance(option, click.Option):
                says = option.help or ""
                assert says[:1].isupper() and says.endswith(".") and len(says.split()) > 2, (names, option.name)
