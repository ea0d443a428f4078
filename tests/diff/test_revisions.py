"""What a person calls a trace: a file, a folder, a file at a revision."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.diff.planted import at, made, tensor, with_steps
from tests.programs import require
from trace_tools.diff.judge.between import difference_between
from trace_tools.diff.revisions import open_side
from trace_tools.diff.wording import subject_text
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.trace.ranks import joined
from trace_tools.trace.trace_file import write


def test_a_trace_is_a_file_a_folder_or_a_file_at_a_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("git")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "cpu"
    folder.mkdir()
    write(made(0), folder / "trace.yaml")
    for command in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm first"):
        subprocess.run(["git", *command.split()], check=True, capture_output=True)
    sides = [open_side(name) for name in ("cpu/trace.yaml", "cpu", "HEAD:cpu/trace.yaml")]
    assert [side.name for side in sides] == ["cpu/trace.yaml", "cpu/trace.yaml", "HEAD:cpu/trace.yaml"]
    assert len({len(side.trace.steps) for side in sides}) == 1
    with pytest.raises(UsageError, match="HEAD:nothing"):
        open_side("HEAD:nothing")
    with pytest.raises(TraceFileError):
        open_side("nothing")


def test_a_rank_of_a_trace_is_one_too(tmp_path: Path) -> None:
    """It is compared as a trace of its own: the value that differs between ranks is found."""
    other = with_steps(made(0), at(6, values=[("y", tensor(elements=[9.0, 2.0, 3.0, 4.0]))]))
    trace = joined({0: made(0), 1: other})
    (tmp_path / "cpu").mkdir()
    write(replace(trace, run=replace(trace.run, ranks=2)), tmp_path / "cpu" / "trace.yaml")
    a, b = (open_side(f"{tmp_path}/cpu#rank{rank}") for rank in (0, 1))
    assert b.label.endswith(", rank 1")
    found = [f for row in difference_between(a, b).rows for f in row.findings if f.matters]
    assert [(f.aspect, subject_text(f.subject)) for f in found] == [("values", "y")]
    with pytest.raises(UsageError, match=r"rank 2: .*0 to 1"):
        open_side(f"{tmp_path}/cpu/trace.yaml#rank2")
