"""A private copy equals the real folder, relative paths out of it work, and it is removed completely."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from trace_tools.tracing.isolation import private_folder
from trace_tools.tracing.isolation.private_folder import make, path_for, remove, written


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Create a course next to another folder, with dotfiles, links, `.git`, an environment and a folder for output."""
    course = tmp_path / "course"
    for folder in ("sub", "sub/deep", ".hidden", ".git", "venv", "rendered", "../other"):
        (course / folder).mkdir(parents=True, exist_ok=True)
        (course / folder / "file").write_text(folder, encoding="utf-8")
    (course / "venv/pyvenv.cfg").touch()
    (course / ".env").write_text("secret", encoding="utf-8")
    (course / "out").symlink_to("../other/file")
    (course / "in").symlink_to("sub/file")
    script = course / "script.sh"
    script.touch(mode=0o755)
    os.utime(script, ns=(10**18, 10**18))
    return course


def test_a_copy_equals_the_folder_and_writes_stay_in_it(course: Path) -> None:
    copy = path_for(course)
    assert make(course, copy, shared=[course / "rendered"]) == [] and copy.parent == course.parent
    assert sorted(os.listdir(copy)) == sorted(os.listdir(course))
    links = {name for name in os.listdir(copy) if (copy / name).is_symlink()}
    assert links == {"out", "in", ".git", "venv", "rendered"}
    assert (copy / "out").read_text() == (copy / "../other/file").read_text() == "../other"
    assert (copy / "script.sh").stat().st_mode == (course / "script.sh").stat().st_mode
    assert (copy / "script.sh").stat().st_mtime_ns == 10**18
    (copy / "in").write_text("written", encoding="utf-8")
    (copy / "sub/deep/file").unlink()
    (copy / "model.txt").write_text("new", encoding="utf-8")
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__/x.pyc").touch()
    assert sorted(written(course, copy)) == ["model.txt", "sub/file"]
    assert (copy / "sub/file").read_text() == "written" and not (copy / "sub/deep/file").exists()
    assert (course / "sub/file").read_text() == "sub" and (course / "sub/deep/file").exists()
    inode = copy.stat().st_ino
    make(course, copy)
    assert copy.stat().st_ino == inode and not list(written(course, copy)), "as new, for pools that still run there"
    for folder in (copy / "sub/deep", copy / "sub", copy):
        folder.chmod(0o500)
    remove(copy)
    assert not copy.exists() and all((course / name / "file").exists() for name in ("rendered", ".git", "sub/deep"))


def test_large_and_many_files_are_linked_and_named(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (course / "sub/large").write_bytes(b"x" * 100)
    monkeypatch.setattr(private_folder, "FILE_BYTES", 99)
    copy = path_for(course)
    assert make(course, copy) == [course / "sub/large"] and (copy / "sub/large").is_symlink()
    remove(copy)
    monkeypatch.setattr(private_folder, "ENTRIES", 3)  # fewer than the course has
    assert sorted(make(course, copy)) == [course / ".env", course / "script.sh"]
    assert (copy / "script.sh").is_symlink() and (copy / "sub").is_symlink() and (copy / "sub/file").exists()
    remove(copy)
    assert (course / "sub/large").exists()


def test_copies_of_dead_tracers_are_removed(course: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, living = (course.parent / f".course-trace-{pid}" for pid in (ended.pid, os.getppid()))
    other = course.parent / ".course-trace-notes-of-mine"
    for folder in (dead, living, other, path_for(course)):
        folder.mkdir()
        (folder / "left").touch()
    make(course, path_for(course))
    assert not dead.exists() and living.exists() and other.exists() and not (path_for(course) / "left").exists()


def test_a_copy_of_a_folder_beside_which_nothing_can_be_written(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != course.parent)
    assert path_for(course).parent == Path(tempfile.gettempdir())
