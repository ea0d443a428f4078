"""`diff` from the command line: exit codes, options, outputs, formats, bad input and revisions of git."""

from __future__ import annotations

import csv
import io
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.diff.planted import at, made, slower, tensor, with_steps
from tests.diff.test_compare import machine_trace
from tests.programs import require
from trace_tools.cli import main
from trace_tools.trace.file import write
from trace_tools.trace.model import Claim, Trace


def diff(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["diff", *map(str, arguments)])


def save(folder: Path, trace: Trace) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write(trace, folder / "trace.yaml")
    return folder / "trace.yaml"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Write two traces; in the second one value differs and one statement is slower."""
    changed = with_steps(made(1), slower(1.5))
    return (
        save(tmp_path / "a", made(0)),
        save(tmp_path / "b", with_steps(changed, at(6, values=[("y", tensor(elements=[0.0] * 4))]))),
    )


def test_traces_are_given_as_files_or_folders(files: tuple[Path, Path]) -> None:
    a, b = files
    same = diff(a, a)
    assert same.exit_code == 0 and "No differences\n" in same.output
    assert diff(a, b).exit_code == diff(a.parent, b.parent).exit_code == 1
    alone = diff("a")
    assert alone.exit_code == 2 and "expected two traces" in alone.output


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--fail-on", "claims"], 0),
        (["--fail-on", "claims,values"], 1),
        (["--fail-on", "time"], 1),
        (["--fail-on", "none"], 0),
        (["--only", "claims,memory"], 0),
        (["--only", "time", "--ignore", "work"], 0),
        (["--ignore", "y,time"], 0),
        (["--ignore", "fir*", "--ignore", "time"], 0),
        (["--only", "time", "--ignore", "time"], 2),
        (["--only", "speed"], 2),
        (["--tolerance", "lots"], 2),
        (["--format", "pdf"], 2),
    ],
)
def test_options_choose_what_counts(files: tuple[Path, Path], options: list[str], code: int) -> None:
    assert diff(*files, *options).exit_code == code


# --- outputs --------------------------------------------------------------------------------------


def test_report_file_never_replaces_a_trace(files: tuple[Path, Path], tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    assert diff(*files, "-o", report).exit_code == 1 and "Differences that matter" in report.read_text("utf-8")
    before = files[0].read_bytes()
    refused = diff(*files, "-o", files[0])
    assert refused.exit_code == 2 and refused.output.startswith(f"error: {files[0]}")
    assert diff(files[0].parent, files[1].parent, "-o", files[0]).exit_code == 2
    assert files[0].read_bytes() == before
    for path in (tmp_path / "no" / "folder.txt", report / "out"):
        unwritable = diff(*files, "-o", path)
        assert unwritable.exit_code == 2 and "can't be written" in unwritable.output


@pytest.mark.parametrize("style", ["terminal", "md", "html", "json"])
def test_reports_of_the_same_traces_are_identical(files: tuple[Path, Path], style: str) -> None:
    first = diff(*files, "--format", style)
    assert first.exit_code == 1 and first.output == diff(*files, "--format", style).output


def test_several_traces_are_compared_with_the_first(files: tuple[Path, Path]) -> None:
    a, b = files
    result = diff(a, b, a)
    text = " ".join(result.output.split())
    assert result.exit_code == 1 and "cpu-1 → cpu-2: Differences that matter: 1 value, 1 timing" in text
    assert "cpu-1 → cpu-3: No differences" in text
    assert diff(a, b, a, "--fail-on", "claims").exit_code == 0 and diff(a, a, a).exit_code == 0
    assert diff(a, b, a, "--ignore", "y,time").exit_code == 0
    refused = diff(a, b, a, "--format", "json")
    assert refused.exit_code == 2 and "two traces" in refused.output


def test_pages_and_csv_are_written_to_one_folder(tmp_path: Path) -> None:
    paths = [save(tmp_path / name, machine_trace(name, [ns])) for name, ns in (("a", 20_000), ("b", 10_000))]
    out = tmp_path / "site" / "compare"
    result = diff(*paths, "-o", out)
    assert result.exit_code == 1, result.output  # `seconds` differs
    names = {"index.html", "index.md", "compare.csv", ".pages", "a-to-b.html", "a-to-b.md"}
    assert {path.name for path in out.iterdir()} == names
    index = (out / "index.html").read_text()
    assert 'href="a-to-b.html"' in index and "a (base)" in index and "](a-to-b.md)" in (out / "index.md").read_text()
    assert 'href="index.html"' in (out / "a-to-b.html").read_text()
    (out / "own-to-me.md").write_text("not made here")
    diff(*paths, "-o", out)
    assert (out / "index.html").read_text() == index
    diff(*reversed(paths), "-o", out)  # now b is the first
    assert {path.name for path in out.glob("*-to-*")} == {"b-to-a.html", "b-to-a.md", "own-to-me.md"}
    shown = diff(*paths, "--format", "csv")
    assert next(csv.reader(io.StringIO(shown.output)))[0] == "quantity"


# --- revisions of git -----------------------------------------------------------------------------


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a repository with two commits of one trace. In the second commit a claim fails."""
    require("git")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    git("init", "-q")
    failed = with_steps(made(0), at(7, claim=Claim("y == 2", False, failed_runs=["pass 1, warm"])))
    for trace in (made(0), failed):
        save(tmp_path / "cpu", trace)
        git("add", ".")
        git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "trace")
    return tmp_path


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, capture_output=True)


def test_a_trace_is_compared_with_its_version_at_a_revision(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = diff("HEAD~1:cpu/trace.yaml", "cpu/trace.yaml")
    assert result.exit_code == 1 and "claim flipped" in result.output
    assert diff("HEAD:cpu/trace.yaml", "cpu/trace.yaml").exit_code == 0
    for name in ("HEAD~9:cpu/trace.yaml", "HEAD:nothing", "--output=x:y", "nothing:"):
        refused = diff("--", name, "cpu/trace.yaml")
        assert refused.exit_code == 2 and refused.output.startswith(f"error: {name}: ")
    assert sorted(path.name for path in clone.iterdir()) == [".git", "cpu"]
    monkeypatch.chdir(clone / "cpu")
    assert diff("HEAD~1:./trace.yaml", "HEAD:cpu/trace.yaml").exit_code == 1


# --- times that could not be judged ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("passes", "options", "code"),
    [
        (3, [], 0),
        (1, [], 3),
        (2, [], 3),
        (1, ["--fail-on", "time"], 3),
        (1, ["--fail-on", "values"], 0),
        (1, ["--fail-on", "values,time"], 3),
        (1, ["--fail-on", "none"], 0),
        (1, ["--only", "values"], 0),
        (1, ["--ignore", "time"], 0),
        (1, ["--only", "time"], 3),
    ],
)
def test_exit_code_is_3_if_no_time_was_judged(tmp_path: Path, passes: int, options: list[str], code: int) -> None:
    """Many statements are also too short for any number of passes, but only the number of passes can be changed."""

    def short(seed: int) -> Trace:
        return with_steps(made(seed, passes=passes), lambda s: s if s.line in (6, 15) else slower(0.01, s.line)(s))

    a, b = (save(tmp_path / name, short(n)) for n, name in enumerate("ab"))
    result = diff(a, b, *options)
    assert result.exit_code == code
    times_matter = passes < 3 and options not in (["--only", "values"], ["--ignore", "time"])
    assert ("TIME NOT JUDGED: fewer than 3 processes on a side" in result.output) == times_matter


def test_differences_take_precedence_over_unjudged_times(tmp_path: Path) -> None:
    changed = with_steps(made(1, passes=1), at(6, values=[("y", tensor(elements=[0.0] * 4))]))
    a, b = save(tmp_path / "a", made(0, passes=1)), save(tmp_path / "b", changed)
    result = diff(a, b)
    assert result.exit_code == 1 and "1 value. TIME NOT JUDGED" in result.output
    assert diff(a, b, "--fail-on", "time", "--format", "json").exit_code == 3
    assert diff(a, a).exit_code == 0  # a trace compared with itself


@pytest.mark.slow
def test_unjudged_times_of_two_machines_matter_only_on_request(tmp_path: Path) -> None:
    other = replace(made(1), machine=replace(made(1).machine, cores=9))
    a, b = save(tmp_path / "a", made(0)), save(tmp_path / "b", other)
    assert diff(a, b).exit_code == 0
    result = diff(a, b, "--fail-on", "time")
    assert result.exit_code == 3 and "TIME NOT JUDGED: two machines" in result.output
