"""The committed traces of the lecture, by git's names: nothing else that is in `rendered/` is read by a test."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@cache
def committed_traces() -> list[Path]:
    """Return the committed traces of `rendered/`, in order; skip the test if git or the repository is missing."""
    git = shutil.which("git")
    listed = git and subprocess.run(
        [git, "-C", str(ROOT), "ls-files", "-z", "rendered/*/trace.yaml"], capture_output=True, text=True, check=False
    )
    if not listed or listed.returncode:
        pytest.skip("git or its repository is missing, which names the committed traces")
    return [ROOT / name for name in sorted(filter(None, listed.stdout.split("\0")))]
