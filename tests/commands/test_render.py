"""`render` through the command line; `tests/publishing` tries the pages that it makes."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.trace.trace_file import write


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["render", *map(str, arguments)])


def saved(folder: Path, machine: str) -> Path:
    (folder / machine).mkdir(parents=True)
    write(example_trace(), folder / machine / "trace.yaml")
    return folder / machine / "trace.yaml"


def test_pages_lie_beside_the_traces_or_where_they_are_wanted(tmp_path: Path) -> None:
    a, b = (saved(tmp_path / site, "cpu") for site in ("one", "two"))
    done = run(a, b)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [str(tmp_path / site / "index.html") for site in ("one", "two")]
    done = run(a, "-o", tmp_path / "elsewhere")
    assert done.stdout == f"{tmp_path / 'elsewhere' / 'index.html'}\n"
    assert len(list((tmp_path / "elsewhere").rglob("index.html"))) == 2


def test_a_trace_that_is_missing_or_none_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "trace.yaml").write_text("- not a trace\n")
    for path in (tmp_path / "nowhere" / "trace.yaml", tmp_path / "cpu" / "trace.yaml"):
        done = run(path)
        assert done.exit_code == 2 and done.stdout == ""
        assert done.stderr.startswith(f"error: {path}: ") and done.stderr.count("\n") == 1


def test_check_finds_a_page_that_is_not_of_its_trace(tmp_path: Path) -> None:
    trace = saved(tmp_path, "cpu")
    assert run(trace).exit_code == 0
    assert run("--check", trace).exit_code == 0
    (tmp_path / "cpu" / "index.md").write_text("changed")
    done = run("--check", trace)
    assert done.exit_code == 1 and done.stderr.splitlines()[0] == f"{tmp_path / 'cpu/index.md'}: differs"
    assert (tmp_path / "cpu" / "index.md").read_text() == "changed"
