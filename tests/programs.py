"""Programs other than Python that a test needs; a test is skipped if its program is missing."""

from __future__ import annotations

import shlex
import shutil
import sys

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = "|".join(BROWSERS)
PYTHON = shlex.quote(sys.executable)  # quoted for a shell, because the path may contain a space


def require(*programs: str) -> list[str]:
    """Return the paths of programs; skip the test if one is missing. Names joined by `|` are alternatives."""
    paths = [next(filter(None, (shutil.which(name) for name in names.split("|"))), "") for names in programs]
    missing = [names for names, program in zip(programs, paths, strict=True) if not program]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    return paths
