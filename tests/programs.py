"""Programs other than Python that a test needs; a test is skipped if its program is missing.

With REQUIRE=1 in the environment, as in CI, the test fails instead.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import NoReturn

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = "|".join(BROWSERS)
PYTHON = shlex.quote(sys.executable)  # quoted for a shell, because the path may contain a space


def require(*programs: str) -> list[str]:
    """Return the paths of programs; skip the test if one is missing. Names joined by `|` are alternatives."""
    paths = [next(filter(None, (shutil.which(name) for name in names.split("|"))), "") for names in programs]
    absent = [names for names, program in zip(programs, paths, strict=True) if not program]
    if absent:
        missing(f"not installed: {', '.join(absent)}")
    return paths


def missing(reason: str) -> NoReturn:
    """Skip the test, or let it fail if all programs are required."""
    if os.environ.get("REQUIRE"):
        pytest.fail(f"{reason} (REQUIRE is set)", pytrace=False)
    pytest.skip(reason)
