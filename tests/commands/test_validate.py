"""`validate` through the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.trace.model import Step
from trace_tools.trace.trace_file import dump, load, write


def test_a_trace_is_summed_up_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.yaml"
    write(example_trace(), path)
    done = CliRunner().invoke(main, ["validate", str(path)])
    steps = sum(isinstance(event, Step) for event in example_trace().steps)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{path}: schema 1, {steps} steps, ")


@pytest.mark.parametrize("end", [-3, None], ids=["in a line", "at its end"])
def test_a_file_that_was_cut_short_is_said_everywhere(tmp_path: Path, end: int | None) -> None:
    site = tmp_path / "rendered"
    path = site / "cpu/trace.yaml"
    path.parent.mkdir(parents=True)
    write(example_trace(), tmp_path / "whole.yaml")
    path.write_text(dump(example_trace()).rpartition("\n- ")[0][:end] + "\n"[: 1 if end is None else 0])
    kept = tmp_path / "kept"

    def said(*arguments: object) -> tuple[int, str]:
        done = CliRunner().invoke(main, [str(argument) for argument in arguments])
        return done.exit_code, " ".join(done.output.split())

    for expected, *arguments in (
        (1, "validate", path),
        (0, "render", path),
        (0, "store", "add", kept, path),
        (0, "store", "list", kept),
        (0, "compare", path, tmp_path / "whole.yaml"),
        (None, "diff", path, tmp_path / "whole.yaml"),
        (0, "diff", "--textconv", path),
        (0, "export", path, "--format", "html", "-o", tmp_path / "page.html"),
    ):
        code, output = said(*arguments)
        assert "cut short" in output and code == (code if expected is None else expected), (arguments, output)
    for page in (site / "cpu/index.html", site / "cpu/index.md", tmp_path / "page.html"):
        assert page.read_text().count("cut short") >= 1
    [stored] = kept.glob("*/*/*/*/trace.yaml.gz")
    assert not load(stored).trace.run.complete


def test_a_file_of_a_store_that_is_cut_later_is_listed_as_cut(tmp_path: Path) -> None:
    write(example_trace(), tmp_path / "trace.yaml")
    CliRunner().invoke(main, ["store", "add", str(tmp_path / "kept"), str(tmp_path / "trace.yaml")])
    listed = CliRunner().invoke(main, ["store", "list", str(tmp_path / "kept")])
    assert "cut short" not in listed.output
    [stored] = (tmp_path / "kept").glob("*/*/*/*/trace.yaml.gz")
    stored.write_bytes(stored.read_bytes()[:-200])
    listed = CliRunner().invoke(main, ["store", "list", str(tmp_path / "kept")])
    assert listed.exit_code == 0 and "cut short" in listed.output


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
