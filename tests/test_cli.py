"""Errors, signals and closed streams end a command with at most one line and an exit code."""

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
from trace_tools.trace.file import write

ROOT = Path(__file__).resolve().parents[1]


def run(callback: Callable[[], object]) -> Result:
    @click.group(cls=OneLineErrors)
    def group() -> None: ...

    group.add_command(click.Command("go", callback=callback))
    return CliRunner().invoke(group, ["go"])


def ended_by(error: BaseException) -> Result:
    def raising() -> object:
        raise error

    return run(raising)


@each(
    ("error", "code", "message"),
    [
        (UsageError("no such device"), 2, "error: no such device\n"),
        (UsageError("a\nb\udcff.py: a name"), 2, "error: a\\nb\\udcff.py: a name\n"),
        (OSError(28, "No space left on device", "/x/y"), 2, "error: /x/y: No space left on device\n"),
        (OSError(11, "Resource temporarily unavailable"), 2, "error: Resource temporarily unavailable\n"),
        (MemoryError(), 2, "error: out of memory\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (KeyboardInterrupt("interrupted; nothing was recorded"), 130, "interrupted; nothing was recorded\n"),
    ],
)
def test_an_error_is_one_line(error: BaseException, code: int, message: str) -> None:
    result = ended_by(error)
    assert (result.exit_code, result.stderr) == (code, message)


def test_internal_errors_show_a_traceback() -> None:
    for error in (RuntimeError("a mistake in the tools"), KeyError("x"), RecursionError("too deep")):
        result = ended_by(error)
        assert result.exit_code == 70 and "Traceback (most recent call last)" in result.stderr
        assert type(error).__name__ in result.stderr
        assert says(result.stderr.splitlines()[-1], "error: ", "traceback")


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP])
def signal_number(request: pytest.FixtureRequest) -> Iterator[int]:
    before = signal.signal(request.param, signal.SIG_DFL)  # this process may ignore it
    yield request.param
    signal.signal(request.param, before)


def test_signals_interrupt_like_ctrl_c_unless_they_are_ignored(signal_number: int) -> None:
    def finishing() -> None:
        try:
            os.kill(os.getpid(), signal_number)
        except KeyboardInterrupt:
            click.echo("done")
            sys.exit(1)

    result = run(lambda: os.kill(os.getpid(), signal_number))
    assert (result.exit_code, result.stderr) == (128 + signal_number, "interrupted\n")
    result = run(finishing)
    assert (result.exit_code, result.stdout, result.stderr) == (128 + signal_number, "done\n", "")
    signal.signal(signal_number, signal.SIG_IGN)  # as `nohup` ignores SIGHUP
    assert run(lambda: os.kill(os.getpid(), signal_number)).exit_code == 0
    assert signal.getsignal(signal_number) is signal.SIG_IGN


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "trace.yaml"
    write(example_trace(), path)
    return path


def shell(command: str, trace: Path) -> tuple[int, str]:
    """Run a bash command, in which `tool` is trace-tools; return its exit code and its output on descriptor 3."""
    require("bash")
    stderr_path = trace.with_name("stderr")
    tool = f'tool() {{ {PYTHON} -m trace_tools "$@"; }}; exec 3>{shlex.quote(str(stderr_path))}'
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TRACE": str(trace)}
    completed = subprocess.run(["bash", "-c", f"{tool}; {command}"], env=env, cwd=trace.parent, capture_output=True)
    return completed.returncode, stderr_path.read_text()


NOWHERE = "error: nowhere.yaml: can't be read: No such file or directory\n"


@pytest.mark.slow
@each(
    ("command", "code", "message"),
    [
        ('tool validate "$TRACE" <&- >&- 2>&-', 0, ""),
        ('tool validate nowhere.yaml 2>&3 <&- >&-', 2, NOWHERE),
        ('tool diff --all "$TRACE" "$TRACE" 2>&3 | true; exit ${PIPESTATUS[0]}', 128 + signal.SIGPIPE, ""),
        ('tool validate "$TRACE" 2>&3 >/dev/full', 2, "error: No space left on device\n"),
        ('LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 tool diff "$TRACE" "$TRACE" 2>&3', 0, ""),  # no letters but ASCII
    ],
)  # fmt: skip
def test_closed_and_full_streams(command: str, code: int, message: str, trace: Path) -> None:
    assert shell(command, trace) == (code, message)


def commands(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield (*before, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)


def test_help_describes_each_command_with_an_example() -> None:
    overview = CliRunner().invoke(main, ["--help"], terminal_width=80).stdout
    headings = [line[:-1] for line in overview.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == ["Options", *GROUPS]
    for names, command in commands(main):
        line, example = sentence(command), f"trace-tools {' '.join(names)}"
        assert line.endswith(".") and len(line) <= 60, names
        assert len(names) > 1 or overview.count(f"  {line}\n") == 1, names
        help_lines = CliRunner().invoke(main, [*names, "--help"]).stdout.splitlines()
        examples = [text for text in help_lines if f"{text.strip()} ".startswith(f"{example} ")]
        options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        used = {word for text in (command.help or "").splitlines() if example in text for word in text.split()}
        assert examples and {word for word in used if word.startswith("-")} <= options | {"--"}, names
        for option in command.params:
            if isinstance(option, click.Option):
                text = option.help or ""
                assert text[:1].isupper() and text.endswith(".") and len(text.split()) > 2, (names, option.name)
