"""What a person calls a trace: a file, a folder, a file at a revision."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.comparing.planted import made
from trace_tools.comparing.revisions import open_side
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.file_format.trace_file import write


def test_a_trace_is_a_file_a_folder_or_a_file_at_a_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "cpu"
    folder.mkdir()
    write(made(0), folder / "trace.yaml")
    for command in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm first"):
        subprocess.run(["git", *command.split()], check=True, capture_output=True)
    sides = [open_side(name) for name in ("cpu/trace.yaml", "cpu", "HEAD:cpu/trace.yaml")]
    assert [side.name for side in sides] == ["cpu/trace.yaml", "cpu/trace.yaml", "HEAD:cpu/trace.yaml"]
    assert len({len(side.trace.steps) for side in sides}) == 1 and not any(side.notes for side in sides)
    with pytest.raises(UsageError, match="HEAD:nothing"):
        open_side("HEAD:nothing")
    with pytest.raises(TraceFileError):
        open_side("nothing")
