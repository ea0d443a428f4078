"""Build the emulated device's library, and make the environment of a process that runs on it.

    >>> subprocess.run([sys.executable, "lecture.py"], env=environment("t4"))

One compilation takes about half a minute on one core. The library is cached below $XDG_CACHE_HOME (~/.cache), named
by a hash of torch's version, the compiler's version and the sources. It is used only after the battery has passed. If
torch's internals have changed, the battery fails and names the cases that do not work.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib import metadata, util
from pathlib import Path

from tests.emulated_cuda.profiles import PROFILES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODULE = "emulated_cuda_device"
FLAGS = ("-O1", "-g0", "-std=c++20", "-fPIC", "-shared", "-w")
TRIED = ("torch_side.py", "profiles.py", "battery.py")  # Python that a library must work with
KEPT = 3  # libraries in the cache


class CannotBuild(Exception):
    """The reason why the emulated device can't be built here, in one line for people."""


def compiler() -> str:
    """Return the path of the C++ compiler: $CXX, c++, g++ or clang++. Raise CannotBuild if there is none."""
    for name in filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++")):
        if path := shutil.which(name):
            return path
    raise CannotBuild("no C++ compiler (looked for $CXX, c++, g++, clang++): install g++, and try again")


def library() -> Path:
    """Return the library; build and test it first if necessary. Raise CannotBuild with the reason if that fails."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trace-tools" / "emulated-cuda"
    target = cache / f"{_key(compiler())}.so"
    works = target.with_suffix(f".{_digest([HERE / name for name in TRIED])}.works")
    if not works.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / "lock").open("w") as lock:  # two workers of one test run may build at the same time
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_file():
                _build(target)
            if not works.is_file():
                _try(target)
                works.touch()
    return target


def _build(target: Path) -> None:
    print(f"building the emulated CUDA device, once: {target}", file=sys.stderr, flush=True)
    for path in sorted(target.parent.glob("*.so"), key=lambda path: path.stat().st_mtime)[: 1 - KEPT]:
        for old in path.parent.glob(f"{path.stem}.*"):
            old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as folder:
        built = Path(folder, f"{MODULE}.so")
        _compile(built)
        built.replace(target)


def environment(cards: str = "emulated", **settings: object) -> dict[str, str]:
    """Return the environment of a process on `cards` ("t4", "h100,h100").

    `settings` are the variables that the package's docstring names: `delay_us=500` is EMULATED_CUDA_DELAY_US=500.
    """
    if unknown := [name for name in cards.split(",") if name not in PROFILES]:
        raise CannotBuild(f"no card {unknown[0]!r}; there are {', '.join(PROFILES)}")
    named = {f"EMULATED_CUDA_{name.upper()}": str(value) for name, value in settings.items()}
    return _variables(cards, library()) | named


def _variables(cards: str, built: Path) -> dict[str, str]:
    before = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    paths = [str(HERE / "start"), *filter(None, [before.get("PYTHONPATH")])]
    return before | {
        "PYTHONPATH": os.pathsep.join(paths),
        "PATH": os.pathsep.join([str(HERE / "bin"), before.get("PATH", os.defpath)]),
        "EMULATED_CUDA": cards,
        "EMULATED_CUDA_LIBRARY": str(built),
        "EMULATED_CUDA_PYTHON": sys.executable,
    }


def _key(cxx: str) -> str:
    """Hash everything on which the library depends: its sources, torch, Python, the compiler and its flags."""
    version = subprocess.run([cxx, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()[:1]
    facts = [metadata.version("torch"), sys.version, *version, *FLAGS]
    return _digest([*sorted(HERE.glob("*.h")), HERE / "emulated_cuda.cpp"], *facts)


def _digest(files: Sequence[Path], *facts: str) -> str:
    digest = hashlib.sha256("\n".join(facts).encode())
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def _compile(target: Path) -> None:
    spec = util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise CannotBuild("torch is not installed")
    torch = Path(spec.submodule_search_locations[0])
    headers = (torch / "include", torch / "include/torch/csrc/api/include", Path(sysconfig.get_path("include")))
    if not Path(headers[-1], "Python.h").is_file():
        raise CannotBuild(f"no Python.h in {headers[-1]}: install this Python's headers")
    command = [
        compiler(),
        *FLAGS,
        f"-DTORCH_EXTENSION_NAME={MODULE}",
        *(flag for folder in headers for flag in ("-isystem", str(folder))),
        str(HERE / "emulated_cuda.cpp"),
        f"-L{torch / 'lib'}",
        *("-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"),
        *("-o", str(target)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), f"status {done.returncode}")
        raise CannotBuild(f"torch {metadata.version('torch')} has other internals than the emulated device: {first}")


def _try(built: Path) -> None:
    """Run the battery on a library. Raise CannotBuild with the cases that fail."""
    variables = _variables("emulated,emulated", built) | {"OMP_NUM_THREADS": "1"}
    done = run([sys.executable, "-m", "tests.emulated_cuda.battery"], variables)
    if done.returncode:
        failed = [line for line in done.stdout.splitlines() if not line.startswith("ok ")]
        reasons = "; ".join(failed[:8]) or done.stderr.strip()[-500:]
        raise CannotBuild(f"the emulated device does not work with torch {metadata.version('torch')}: {reasons}")


def run(command: Sequence[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command in this environment; return its exit code and output."""
    return subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, check=False)
