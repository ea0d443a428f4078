"""Programs beside Python that a test needs: a test without them is skipped, with its reason."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

import pytest

from trace_tools.export.html_file import BROWSERS

BROWSER = "|".join(BROWSERS)
PYTHON = shlex.quote(sys.executable)  # as a word of a shell; its path may hold a space
SERVERS = "/usr/sbin:/usr/local/sbin"  # where sshd and Slurm's daemons are; a user's PATH may lack it


def require(*programs: str) -> list[str]:
    """Return the paths of programs; skip the test if one is missing. Names joined by `|` are alternatives."""
    path = f"{os.environ.get('PATH', '')}:{SERVERS}"
    paths = [next(filter(None, (shutil.which(one, path=path) for one in names.split("|"))), "") for names in programs]
    missing = [names for names, program in zip(programs, paths, strict=True) if not program]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    return paths
