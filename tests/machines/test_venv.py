"""The environment that make sets up: which torch pip is asked for, and the line for a Python without our packages."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.programs import PYTHON, require

ROOT = Path(__file__).resolve().parents[2]
CPU_BUILDS = "--index-url https://download.pytorch.org/whl/cpu"
# A Python without torch. Its pip only writes its arguments to a file, and fails for those that contain $LACKS.
FAKE = f"""#!/bin/sh
case "$*" in
  "-m venv "*) for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python" ;;
  *"import torch"*) exit 1 ;;
  "-m pip install"*) echo "$*" >> pip.log; case "$*" in *$LACKS*) exit 1 ;; esac ;;
  *) exec {PYTHON} "$@" ;;
esac
"""
TOOLS, TESTS = "-e .[lecture]", "-e .[dev]"


@pytest.mark.slow
@pytest.mark.skipif(Path("/proc/driver/nvidia/version").exists(), reason="this machine has a GPU")
@pytest.mark.parametrize(
    ("target", "smi", "lacks", "installed"),
    [
        (".ready", "exit 9", "nothing", [CPU_BUILDS, TOOLS]),
        (".ready", "exit 9", "whl/cpu", [CPU_BUILDS, TOOLS]),  # the package index has torch, too
        (".ready", "echo 'GPU 0: NVIDIA H100 (UUID: GPU-1)'", "nothing", [TOOLS]),
        (".dev", "exit 9", "nothing", [CPU_BUILDS, TOOLS, TESTS]),
    ],
)
def test_packages_that_make_installs(target: str, smi: str, lacks: str, installed: list[str], tmp_path: Path) -> None:
    require("make", "sh")
    (tmp_path / "trace_tools/machines").mkdir(parents=True)
    for name in ("Makefile", "trace_tools/machines/venv.sh", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name, body in (("python3", FAKE), ("nvidia-smi", f"#!/bin/sh\n{smi}\n")):
        (tmp_path / name).write_text(body, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "LACKS": lacks}
    command = ["make", f".venv/{target}", "PYTHON=./python3", "VENV=.venv"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    asked = (tmp_path / "pip.log").read_text().splitlines()
    assert all(part in line for line, part in zip(asked, installed, strict=True))
    assert len(re.findall("pip downloads", done.stdout)) == len({TOOLS, TESTS, "torch"} & {"torch", *installed})
    assert (tmp_path / ".venv" / target).exists()


def test_missing_packages_are_named_in_one_line() -> None:
    """Without its site, a Python has no installed packages."""
    command = [sys.executable, "-E", "-S", "-m", "trace_tools", "check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    named = re.fullmatch(r"error: this Python lacks (.+); to install them: (.+)\n", done.stderr)
    assert done.returncode == 2 and named is not None
    assert sorted(named[1].split(", ")) == sorted(needed) and shlex.split(named[2])[0] == sys.executable
