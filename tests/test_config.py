"""Project settings in pyproject.toml, and how commands use them."""

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


def configure(text: str, directory: str = ".") -> None:
    Path(directory, "pyproject.toml").write_text(text)


ALL_KEYS = """[project]
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
port = 0
open = false
"""


def test_every_key_can_be_set(folder: Path) -> None:
    configure(ALL_KEYS)
    table = tomllib.loads(ALL_KEYS)["tool"]["trace_tools"]
    assert set(table) == set(OPTIONS)
    paths = {key: Path(table[key]) for key in ("out", "lecture")}
    assert wanted(Path("talks/one.py")) == table | paths


def test_keys_are_options_of_these_commands() -> None:
    """Options without a key concern a single call: --only, --force, --draft, …"""
    used: dict[str, set[str]] = {}
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        for option in command.params:
            if isinstance(option, ProjectOption):
                used.setdefault(option.key, set()).add(name)
    assert used == {
        "out": {"trace"},  # serve has a folder for drafts; render writes next to traces
        "lecture": {"render"},
        "device": {"trace", "serve", "doctor"},
        "keep-going": {"trace", "serve"},
        **{key: {"trace"} for key in ("passes", "seed", "limit", "inspect-all")},
        **{key: {"serve"} for key in ("port", "open")},
    }


def test_nearest_table_applies_with_paths_relative_to_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure('[tool.trace_tools]\npasses = 5\nout = "pages"\n')
    configure("[tool.ruff]\nline-length = 100\n", "talks")
    assert wanted(Path("talks/one.py")) == {"passes": 5, "out": Path("pages")}
    configure("[tool.trace_tools]\nseed = 3\n", "talks")
    assert wanted(Path("talks/one.py")) == {"seed": 3}
    monkeypatch.chdir("talks")
    configure('[tool.trace_tools]\nout = "../pages"\n')
    assert wanted(Path("one.py")) == {"out": folder / "pages"}
    assert wanted(folder / "elsewhere.py") == {"passes": 5, "out": folder / "pages"}


NAMES = "out, lecture, device, passes, seed, limit, keep-going, inspect-all, port, open"
INVALID = {  # a line of the table, and facts that the message states
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
    'device = "tpu"': ("device", "'tpu'", "cpu, cuda or cuda:N"),
}


@each("line", INVALID)
def test_invalid_settings_are_one_line_errors(line: str, folder: Path) -> None:
    configure(f"[tool.trace_tools]\n{line}\n")
    facts = ("pyproject.toml: [tool.trace_tools] ", *INVALID[line])
    for arguments in (["trace", "talks/one.py"], ["serve", "talks/one.py"], ["doctor"], ["trace", "-m", "talks.one"]):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 2 and says(result.stderr, "error: ", *facts), result.stderr
    result = CliRunner().invoke(main, ["check", "talks/one.py", "talks/one.py"])
    assert result.exit_code == 1 and says(result.stdout, *facts), result.stdout


@each(
    ("text", "facts"),
    [
        ("[tool.trace-tools]\npasses = 3\n", ["[tool.trace-tools]", "[tool.trace_tools]"]),
        ("[tool]\ntrace_tools = 3\n", ["tool.trace_tools", "3", NAMES]),
        ("[tool.trace_tools]\npasses = \n", ["TOML", "line 2"]),
    ],
)
def test_misnamed_and_malformed_tables_are_errors(text: str, facts: list[str], folder: Path) -> None:
    configure(text)
    with pytest.raises(UsageError) as raised:
        wanted(Path("talks/one.py"))
    assert says(raised.value, "pyproject.toml: ", *facts)


def test_malformed_file_without_our_table_is_ignored(folder: Path) -> None:
    configure("[tool.ruff\n")
    assert wanted(Path("talks/one.py")) == {}


@pytest.mark.slow
def test_trace_uses_settings_unless_options_override_them(folder: Path) -> None:
    configure('[tool.trace_tools]\npasses = 2\nseed = 7\nout = "pages"\nkeep-going = true\nlimit = 50\n')
    result = CliRunner().invoke(main, ["trace", "talks/one.py", "--name", "cpu"])
    assert result.exit_code == 0, result.output
    run = load(folder / "pages/cpu/trace.yaml").trace.run
    assert (run.passes, run.seed, run.limit, run.keep_going) == (2, 7, 50, True)
    options = ["--passes", "1", "--seed", "8", "--no-keep-going", "-o", "others"]
    assert CliRunner().invoke(main, ["trace", *options, "talks/one.py", "--name", "cpu"]).exit_code == 0
    run = load(folder / "others/cpu/trace.yaml").trace.run
    assert (run.passes, run.seed, run.limit, run.keep_going) == (1, 8, 50, False)


def test_lecture_setting_does_not_change_pages_of_traces(folder: Path) -> None:
    """The pages next to a trace show that trace's lecture, whatever lecture the project names."""
    configure('[tool.trace_tools]\nlecture = "talks/one.py"\n')
    trace = folder / "rendered" / "cpu" / "trace.yaml"
    trace.parent.mkdir(parents=True)
    write(example_trace(), trace)
    assert CliRunner().invoke(main, ["render", str(trace)]).exit_code == 0
    configure("")
    assert CliRunner().invoke(main, ["render", "--check", str(trace)]).exit_code == 0


def test_readme_example_is_valid(folder: Path) -> None:
    readme = (Path(__file__).resolve().parents[1] / "trace_tools/commands/README.md").read_text(encoding="utf-8")
    configure(readme.partition("```toml\n")[2].partition("```")[0])
    assert wanted(Path("talks/one.py"))["passes"] == 5
