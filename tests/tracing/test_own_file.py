"""A lecture may close every descriptor there is; what it opens instead is its own, and ours is found again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trace_tools.tracing.isolation.own_file import OwnFile

CLOSING = """
import os, resource, sys
from pathlib import Path
from trace_tools.tracing.isolation.own_file import OwnFile
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
file = OwnFile(Path("ours"))
number = file.descriptor()
os.write(number, b"first ")
os.closerange(3, 4096)
theirs = os.open("theirs", os.O_WRONLY | os.O_CREAT)
os.dup2(theirs, number)
os.write(file.descriptor(), b"second ")
file.close()
os.write(number, b"only this")
print(theirs)
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", [4096, 1024, 32])
def test_it_is_found_again_and_no_other_written(limit: int, tmp_path: Path, environment: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CLOSING, str(limit)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert ran.stdout == "3\n", ran.stderr
    assert (tmp_path / "ours").read_text() == "first second "
    assert (tmp_path / "theirs").read_text() == "only this"


def test_a_path_that_leads_elsewhere_by_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = OwnFile(Path("ours"))
    os.close(file.descriptor())
    monkeypatch.chdir("/")
    os.write(file.descriptor(), b"x")
    assert file.is_open and (tmp_path / "ours").read_bytes() == b"x"
    file.close()
    assert not file.is_open
