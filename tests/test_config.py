"""What a project says in its pyproject.toml, and how commands take it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.cases_in_one import each
from tests.messages import says
from tests.traces import example_trace
from trace_tools.cli import COMMANDS, main
from trace_tools.config import OPTIONS, ProjectOption, wanted
from trace_tools.errors import UsageError
from trace_tools.trace.trace_file import load, write

LECTURE = "def main():\n    part()\n\n\ndef part():\n    x = 1  # @inspect x\n    assert x\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "talks").mkdir()
    (tmp_path / "talks" / "one.py").write_text(LECTURE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configure(text: str, where: str = ".") -> None:
    Path(where, "pyproject.toml").write_text(text)


ALL = """[project]
name = "talks"

[tool.trace_tools]
out = "pages"
lecture = "talks/one.py"
device = "cuda:1"
passes = 5
seed = -1
limit = 2
keep-going = true
inspect-all = false
vocabulary = ["edtrace", "cs336"]
port = 0
open = false
"""


def test_every_key_can_be_said(folder: Path) -> None:
    configure(ALL)
    table = tomllib.loads(ALL)["tool"]["trace_tools"]
    assert set(table) == set(OPTIONS)
    paths = {key: Path(table[key]) for key in ("out", "lecture")}
    assert wanted(Path("talks/one.py")) == table | paths
    configure('[tool.trace_tools]\nvocabulary = "edtrace"\n')
    assert wanted(Path("talks/one.py")) == {"vocabulary": ["edtrace"]}


def test_every_key_is_an_option_and_every_option_a_key() -> None:
    """The others say what is wanted of one call: --only, --force, --draft, …"""
    used: dict[str, set[str]] = {}
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        for option in command.params:
            if isinstance(option, ProjectOption):
                used.setdefault(option.key, set()).add(name)
    assert used == {
        "out": {"trace", "fleet", "doctor"},  # drafts of serve lie elsewhere, pages of render beside traces
        "lecture": {"render"},
        "device": {"trace", "serve", "doctor"},
        "keep-going": {"trace", "fleet", "serve"},
        **{key: {"trace", "fleet"} for key in ("passes", "seed", "limit", "inspect-all", "vocabulary")},
        **{key: {"serve"} for key in ("port", "open")},
    }


def test_the_nearest_table_counts_and_paths_begin_at_its_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure('[tool.trace_tools]\npasses = 5\nout = "pages"\n')
    configure("[tool.ruff]\nline-length = 100\n", "talks")
    assert wanted(Path("talks/one.py")) == {"passes": 5, "out": Path("pages")}
    configure("[tool.trace_tools]\nseed = 3\n", "talks")
    assert wanted(Path("talks/one.py")) == {"seed": 3}
    monkeypatch.chdir("talks")
    configure('[tool.trace_tools]\nout = "../pages"\n')
    assert wanted(Path("one.py")) == {"out": folder / "pages"}
    assert wanted(folder / "elsewhere.py") == {"passes": 5, "out": folder / "pages"}


NAMES = "out, lecture, device, passes, seed, limit, keep-going, inspect-all, vocabulary, port, open"
WRONG = {  # a line of the table: the facts of the message
    "pases = 3": ("pases", "passes"),
    "keep_going = true": ("keep_going", "keep-going"),
    "colour = 3": ("colour", NAMES),
    'passes = "3"': ("passes", "'3'", "whole number"),
    "passes = true": ("passes", "true", "whole number"),
    "seed = 1.5": ("seed", "1.5", "whole number"),
    "keep-going = 1": ("keep-going", "1", "true or false"),
    'out = ["a"]': ("out", "['a']", "text in quotes"),
    'out = ""': ("out", "''", "text in quotes"),
    "passes = 0": ("passes", "0", "x>=1"),
    "limit = 1": ("limit", "1", "x>=2"),
    f"seed = {2**64}": ("seed", str(2**64), "64 bits"),
    "port = 65536": ("port", "65536", "65535"),
    'device = "tpu"': ("device", "'tpu'", "cpu, cuda, cuda:N, mps, xpu or xpu:N"),
    'vocabulary = ["edtrace", "latex"]': ("vocabulary", "'latex'", "edtrace"),
}


@each("line", WRONG)
def test_what_can_not_be_meant_is_one_line(line: str, folder: Path) -> None:
    configure(f"[tool.trace_tools]\n{line}\n")
    facts = ("pyproject.toml: [tool.trace_tools] ", *WRONG[line])
    for arguments in (["trace", "talks/one.py"], ["serve", "talks/one.py"], ["doctor"], ["trace", "-m", "talks.one"]):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 2 and says(done.stderr, "error: ", *facts), done.stderr
    done = CliRunner().invoke(main, ["check", "talks/one.py", "talks/one.py"])
    assert done.exit_code == 1 and says(done.stdout, *facts), done.stdout


@each(
    ("text", "facts"),
    [
        ("[tool.trace-tools]\npasses = 3\n", ["[tool.trace-tools]", "[tool.trace_tools]"]),
        ("[tool]\ntrace_tools = 3\n", ["tool.trace_tools", "3", NAMES]),
        ("[tool.trace_tools]\npasses = \n", ["TOML", "line 2"]),
    ],
)
def test_a_file_that_can_not_be_ours(text: str, facts: list[str], folder: Path) -> None:
    configure(text)
    with pytest.raises(UsageError) as raised:
        wanted(Path("talks/one.py"))
    assert says(raised.value, "pyproject.toml: ", *facts)


def test_what_is_none_of_ours_need_not_be_right(folder: Path) -> None:
    configure("[tool.ruff\n")
    assert wanted(Path("talks/one.py")) == {}


def test_a_trace_takes_what_the_project_wants_and_the_command_line_wins(folder: Path) -> None:
    configure('[tool.trace_tools]\npasses = 2\nseed = 7\nout = "pages"\nkeep-going = true\nlimit = 50\n')
    done = CliRunner().invoke(main, ["trace", "talks/one.py"])
    assert done.exit_code == 0, done.output
    run = load(folder / "pages/cpu/trace.yaml").trace.run
    assert (run.passes, run.seed, run.limit, run.keep_going) == (2, 7, 50, True)
    options = ["--passes", "1", "--seed", "8", "--no-keep-going", "-o", "others"]
    assert CliRunner().invoke(main, ["trace", *options, "talks/one.py"]).exit_code == 0
    run = load(folder / "others/cpu/trace.yaml").trace.run
    assert (run.passes, run.seed, run.limit, run.keep_going) == (1, 8, 50, False)


def test_a_lecture_of_another_name_is_not_taken_for_the_traces_own(folder: Path) -> None:
    """Pages that lie beside it are of the lecture there, whatever the project calls its lecture."""
    configure('[tool.trace_tools]\nlecture = "talks/one.py"\n')
    trace = folder / "rendered" / "cpu" / "trace.yaml"
    trace.parent.mkdir(parents=True)
    write(example_trace(), trace)
    assert CliRunner().invoke(main, ["render", str(trace)]).exit_code == 0
    configure("")
    assert CliRunner().invoke(main, ["render", "--check", str(trace)]).exit_code == 0


def test_the_example_in_the_readme_is_right(folder: Path) -> None:
    readme = (Path(__file__).resolve().parents[1] / "trace_tools/commands/README.md").read_text(encoding="utf-8")
    configure(readme.partition("```toml\n")[2].partition("```")[0])
    assert wanted(Path("talks/one.py"))["passes"] == 5
