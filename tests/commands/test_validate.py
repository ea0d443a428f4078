"""`validate` through the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.file_format.trace_file import dump, write
from trace_tools.schema import Step


def test_a_trace_is_summed_up_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.yaml"
    write(example_trace(), path)
    done = CliRunner().invoke(main, ["validate", str(path)])
    steps = sum(isinstance(event, Step) for event in example_trace().steps)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{path}: schema 1, {steps} steps, ")


def test_what_the_file_lost_is_said_and_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "trace.yaml"
    path.write_text(dump(example_trace()).rstrip("\n")[:-3])
    done = CliRunner().invoke(main, ["validate", str(path)])
    assert done.exit_code == 0 and "unfinished and was left out" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"frame": 0', '"frame": "zero"', r"frame"),
        ("schema: 1", "schema: 99", "newer version"),
        ("steps:", "stops:", "stops"),
    ],
)
def test_what_breaks_the_schema_is_one_line_with_its_place(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.yaml"
    path.write_text(dump(example_trace()).replace(old, new, 1))
    done = CliRunner().invoke(main, ["validate", str(path)])
    assert done.exit_code == 2 and done.stderr.startswith(f"error: {path}: ") and said in done.stderr
    assert done.stderr.count("\n") == 1
