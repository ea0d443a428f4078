"""`validate` from the command line, and what each command says of a truncated trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.trace.file import dump, write
from trace_tools.trace.model import Step


def test_valid_trace_is_summarized_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.yaml"
    write(example_trace(), path)
    result = CliRunner().invoke(main, ["validate", str(path)])
    steps = sum(isinstance(event, Step) for event in example_trace().steps)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{path}: schema 1, {steps} steps, ")


@pytest.mark.parametrize("end", [-3, None], ids=["in a line", "at its end"])
def test_every_command_reports_a_truncated_trace(tmp_path: Path, end: int | None) -> None:
    path, whole, page = tmp_path / "rendered/cpu/trace.yaml", tmp_path / "whole.yaml", tmp_path / "page.html"
    path.parent.mkdir(parents=True)
    write(example_trace(), whole)
    path.write_text(dump(example_trace()).rpartition("\n- ")[0][:end] + "\n"[: 1 if end is None else 0])
    for codes, *arguments in (
        ({1}, "validate", path),
        ({0}, "render", path),
        ({0, 1}, "diff", path, path, whole),
        ({0, 1}, "diff", path, whole),
        ({0}, "render", path, "--one-file", "-o", page),
    ):
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        assert result.exit_code in codes and "cut short" in " ".join(result.output.split()), (arguments, result.output)
    assert all(
        "cut short" in file.read_text() for file in (path.with_name("index.html"), path.with_name("index.md"), page)
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"frame": 0', '"frame": "zero"', r"frame"),
        ("schema: 1", "schema: 99", "found the schema 99"),
        ("steps:", "stops:", "stops"),
    ],
)
def test_schema_errors_are_one_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.yaml"
    path.write_text(dump(example_trace()).replace(old, new, 1))
    result = CliRunner().invoke(main, ["validate", str(path)])
    assert result.exit_code == 2 and result.stderr.startswith(f"error: {path}: ") and message in result.stderr
    assert result.stderr.count("\n") == 1
