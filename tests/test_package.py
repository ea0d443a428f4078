"""The wheel is installed into a fresh environment and used from an empty folder."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LECTURE = '''from trace_tools import text


def main() -> None:
    sums()


def sums() -> None:
    """Sums"""
    text("A sum.")
    total = sum(range(5))  # @inspect total
    assert total == 10
'''


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("setuptools", reason="setuptools, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # pip builds in the source tree and leaves folders there
    source.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "trace_tools", source / "trace_tools", ignore=shutil.ignore_patterns("__pycache__"))
    command = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source)]
    subprocess.run([sys.executable, *command], check=True)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_wheel_contains_all_package_files(wheel: Path) -> None:
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "trace_tools").rglob("*") if path.is_file()}
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in files if "__pycache__" not in name and not name.endswith(".md")} <= names
    assert not {name for name in names if name.startswith(("tests/", "rendered/", "lecture"))}


@pytest.mark.slow
def test_installed_wheel_traces_renders_and_compares(wheel: Path, tmp_path: Path) -> None:
    """The dependencies are those of this environment, so the test needs no network."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "env"), "platbase": ""}))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    folders = [path for path in (*site.getsitepackages(), sysconfig.get_path("purelib")) if Path(path).is_dir()]
    (packages / "others.pth").write_text("\n".join(dict.fromkeys(folders)) + "\n")
    folder = tmp_path / "far away"
    folder.mkdir()
    (folder / "talk.py").write_text(LECTURE)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*arguments: str) -> str:
        done = subprocess.run([str(python), *arguments], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    loaded = run("-c", "import trace_tools; print(trace_tools.__file__)")
    assert Path(loaded.strip()).is_relative_to(packages)
    trace = "rendered/cpu/trace.yaml"  # next to the lecture
    assert run("-m", "trace_tools", "--version").startswith("trace-tools ")
    for command in ("trace talk.py --passes 1 --name cpu", f"render {trace}", f"diff {trace} {trace}"):
        run("-m", "trace_tools", *command.split())
    assert "total = 10" in (folder / "rendered" / "cpu" / "00-sums.md").read_text()
