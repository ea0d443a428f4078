"""`bench` from the command line, in real processes. Other tests may keep the machine busy."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import signals
from tests.cases_in_one import each
from trace_tools.trace.trace_file import load

LECTURE = '''\
"""A lecture of two sections"""


def main():
    first()
    second()


def first():
    """Quick"""
    return sum(range(20_000))


def second():
    """What is slower in B"""
    total = sum(work(i) for i in range(3))
    assert total >= 0


def work(i):
    found = 0
    for _ in range(2):
        found += i * sum(k * k for k in range(20_000))
    return found * 0
'''


@pytest.fixture
def environment(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The usual environment, with a separate folder for temporary files."""
    return {**environment, "TMPDIR": str(tmp_path_factory.mktemp("temporary"))}


def write_lectures(folder: Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return [f"{name}.py" for name in texts]


def start_bench(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trace_tools", "bench", *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=signals.heard,
    )


def leftover_files(folder: Path, environment: dict[str, str]) -> list[str]:
    """List the files in the folder, and temporary files, that the test did not write."""
    paths = [*Path(environment["TMPDIR"]).iterdir(), *folder.rglob("*")]
    return [p.name for p in paths if p.suffix != ".py" and not p.name.startswith("torchinductor")]


@pytest.mark.slow
def test_slower_loop_is_found_although_its_lecture_raises(tmp_path: Path, environment: dict[str, str]) -> None:
    """Six rounds run even if the budget is smaller, as fewer show nothing. Statements before the error are compared."""
    slower_source = LECTURE.replace("range(2)", "range(12)")
    slower_source = slower_source.replace("    assert total >= 0\n", "    assert total < 0\n    raise OSError('no')\n")
    a, b = write_lectures(tmp_path, a=LECTURE, b=slower_source)
    options = [
        "--keep-going",
        "--only",
        "second",
        "--budget",
        "1",
        "--format",
        "json",
        "-o",
        "out.json",
        "--keep",
        "kept",
    ]
    process = start_bench(tmp_path, environment, a, b, *options)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 1, err
    assert out == "" and "round 6: " in err and "take about" in err
    assert "OSError: no" in err and "incomplete" not in err and "claim failed: total < 0" in err
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert report["bench"]["rounds"] == 6
    assert report["bench"]["ended"] == "the budget of 1 s was used up"
    functions = {f["function"]: f for f in report["bench"]["functions"]}
    assert functions["work"]["verdict"] == "slower" and functions["work"]["ratio"] > 3
    slower = [f for f in report["findings"] if f["aspect"] == "time" and f["verdict"] == "slower"]
    assert {f["function"] for f in slower} & {"second", "work"} and "first" not in {f["function"] for f in slower}
    for side in "AB":
        trace = load(tmp_path / "kept" / side / "cpu" / "partial" / "trace.yaml").trace
        assert trace.run.passes == 6 and trace.run.only == "second" and trace.run.complete
    assert not (tmp_path / "rendered").exists()
    assert not list(tmp_path.rglob(".run-*"))
    assert not leftover_files(tmp_path / "none", environment)


@pytest.mark.slow
def test_ctrl_c_leaves_no_files(tmp_path: Path, environment: dict[str, str]) -> None:
    process = start_bench(tmp_path, environment, *write_lectures(tmp_path, a=LECTURE, b=LECTURE))
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("round 1"):
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == "" and err.splitlines()[-1].startswith("error: Ctrl-C after ")
    assert "at least 6 are needed" in err
    assert not leftover_files(tmp_path, environment)


@pytest.mark.slow
@each(
    ("arguments", "message"),
    [
        (["a.py", "none.py"], "none.py: "),
        (["a.py", "b.py", "--only", "third"], "--only third: "),
        (["a.py", "b.py", "--fail-on", "speed"], "--fail-on speed: expected some of claims, "),
        (["a.py", "HEAD:none.py"], "HEAD:none.py: "),
        (["a.py", "b.py", "--find", "1"], "--find"),
        (["a.py", "b.py", "--find", "nan"], "--find"),
        (["a.py", "b.py", "--budget", "nan"], "--budget"),
        (["a.py", "b.py", "--budget", "inf"], "--budget"),
    ],
)
def test_bad_input_is_a_one_line_error(
    arguments: list[str], message: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    write_lectures(tmp_path, a=LECTURE, b=LECTURE)
    process = start_bench(tmp_path, environment, *arguments)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and message in err.splitlines()[-1]
