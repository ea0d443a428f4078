"""Builds of the library: each error is one line, and a broken library is never used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulated_cuda import build
from tests.messages import says
from tests.programs import require


def test_missing_compiler_is_a_one_line_error(tmp_path: Path) -> None:
    variables = {**os.environ, "PATH": str(tmp_path), "CXX": ""}
    done = build.run([sys.executable, "-m", "tests.emulated_cuda", "true"], variables)
    assert done.returncode == 2
    assert says(done.stderr, "emulated CUDA: ", "$CXX", "c++", "g++", "clang++", "install g++")


def test_library_that_does_not_compile_or_fails_the_battery_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (failing_compiler,) = require("false")
    monkeypatch.setattr(build, "compiler", lambda: failing_compiler)
    with pytest.raises(build.CannotBuild, match=r"has other internals than the emulated device: status 1$"):
        build.library()
    monkeypatch.setattr(build, "_compile", lambda target: target.write_bytes(b"no library"))
    failed_battery = subprocess.CompletedProcess([], 1, "ok this\nthat, line 3: AssertionError: 1 != 2\n", "")
    monkeypatch.setattr(build, "run", lambda *_: failed_battery)
    for _ in range(2):
        with pytest.raises(build.CannotBuild, match=r"torch .*: that, line 3: AssertionError: 1 != 2$"):
            build.library()
