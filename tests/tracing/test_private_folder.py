"""A private copy equals the real folder, relative paths out of it work, and it is removed completely."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trace_tools.tracing.isolation import private_folder
from trace_tools.tracing.isolation.private_folder import inside, leave, make, remove, root_for, sweep

TEXT = "def main():\n    pass\n"


@pytest.fixture
def lecture(tmp_path: Path) -> Path:
    """Create a course next to another folder, with dotfiles, links, `.git`, an environment and a folder for output."""
    course = tmp_path / "all" / "course"
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
    path = course / "lecture.py"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_copy_equals_the_folder_and_writes_stay_in_it(lecture: Path, tmp_path: Path) -> None:
    copy = make(lecture, TEXT, tmp_path / "root", shared=[lecture.parent / "rendered"])
    directory = copy.lecture.parent
    assert copy.lecture == inside(tmp_path / "root", lecture) and copy.lecture.read_text(encoding="utf-8") == TEXT
    assert sorted(os.listdir(directory)) == sorted(os.listdir(lecture.parent))
    links = {name for name in os.listdir(directory) if (directory / name).is_symlink()}
    assert links == {"out", "in", ".git", "venv", "rendered"}
    assert (directory / "out").read_text() == (directory / "../other/file").read_text() == "../other"
    assert (directory / "script.sh").stat().st_mode == (lecture.parent / "script.sh").stat().st_mode
    assert (directory / "script.sh").stat().st_mtime_ns == 10**18
    (directory / "in").write_text("written", encoding="utf-8")
    (directory / "../new").write_text("above", encoding="utf-8")
    (directory / "../../all/course/sub/deep/file").unlink()
    assert (directory / "sub/file").read_text() == "written" and not (directory / "sub/deep/file").exists()
    assert (lecture.parent / "sub/file").read_text() == "sub" and (lecture.parent / "sub/deep/file").exists()
    assert not (lecture.parent.parent / "new").exists()
    remove(copy.root)
    assert not copy.root.exists() and (lecture.parent / "rendered/file").exists()


def test_parent_links_are_reused_and_changes_to_them_undone(lecture: Path, tmp_path: Path) -> None:
    parent = lecture.parent.parent
    (parent / "file").write_text("real", encoding="utf-8")
    copy = make(lecture, TEXT, tmp_path / "root")
    copied_parent = copy.lecture.parent.parent

    def links() -> dict[str, int]:
        return {path.name: path.lstat().st_ino for path in copied_parent.iterdir() if path.is_symlink()}

    first_links = links()
    assert set(first_links) == {"other", "file"}
    (copy.lecture.parent / "new").touch()
    (copied_parent / "made").mkdir(mode=0o500)
    (copied_parent / "file").unlink()
    (copied_parent / "file").symlink_to("other/file")
    leave(copy)
    assert not copy.lecture.parent.exists()
    (lecture.parent.parent / "later").touch()
    assert make(lecture, TEXT, tmp_path / "root") == copy
    assert set(links()) == {"other", "file", "later"} and links()["other"] == first_links["other"]
    assert (copied_parent / "file").read_text(encoding="utf-8") == "real" and not (copy.lecture.parent / "new").exists()
    leave(copy)
    remove(copied_parent)
    copied_parent.symlink_to(parent)  # the link is removed, but not the contents of its target
    assert make(lecture, TEXT, tmp_path / "root") == copy
    assert not copied_parent.is_symlink() and set(links()) == {"other", "file", "later"} and lecture.exists()


def test_edited_or_removed_lecture_is_copied_as_read(lecture: Path, tmp_path: Path) -> None:
    lecture.write_text("def main(): later()\n", encoding="utf-8")
    assert make(lecture, TEXT, tmp_path / "root").lecture.read_text(encoding="utf-8") == TEXT
    lecture.unlink()
    assert make(lecture, TEXT, tmp_path / "root").lecture.read_text(encoding="utf-8") == TEXT


def test_large_contents_are_linked_and_changes_to_them_reported(
    lecture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_folder, "FILE_BYTES", 1000)
    monkeypatch.setattr(private_folder, "ENTRIES", 60)
    course = lecture.parent
    for n in range(60):
        (course / "sub/deep" / f"{n}").touch()
    for name in ("large", "larger", "untouched"):
        (course / name).write_bytes(b"x" * 1001)
    copy = make(lecture, TEXT, tmp_path / "root")
    directory = copy.lecture.parent
    assert (
        (directory / "large").is_symlink()
        and (directory / "sub/deep").is_symlink()
        and not (directory / "sub").is_symlink()
    )
    assert copy.changed() == []
    (directory / "large").write_bytes(b"y")
    (directory / "larger").resolve().unlink()
    assert copy.changed() == [str(course / "large"), str(course / "larger")]


def test_limited_neighbour_links_include_those_the_lecture_names(
    lecture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = lecture.parent.parent
    for n in range(9):
        (parent / f"data{n}").touch()
    monkeypatch.setattr(private_folder, "LINKS", 4)
    text = 'def main(): open("../data7"); open("../data5")\n'
    copy = make(lecture, text, tmp_path / "root")
    linked = [path.name for path in sorted(copy.lecture.parent.parent.iterdir())]
    assert linked == ["course", "data0", "data1", "data5", "data7"]
    assert copy.left_out[parent] == 6  # of ten: `other` and the nine files
    monkeypatch.setattr(private_folder, "LINKS", 10**6)
    assert make(lecture, text, tmp_path / "root").left_out == {}
    assert len(list(copy.lecture.parent.parent.iterdir())) == 11


def test_files_in_unlistable_folders_can_be_read() -> None:
    with tempfile.TemporaryDirectory() as name, as_ordinary_user(Path(name)):
        hidden = Path(name, "course/hidden")
        hidden.mkdir(parents=True)
        (hidden / "file").write_text("known by name", encoding="utf-8")
        hidden.chmod(0o100)
        copy = make(hidden.parent / "lecture.py", TEXT, Path(name, "root"))
        assert (copy.lecture.parent / "hidden/file").read_text(encoding="utf-8") == "known by name"
        hidden.chmod(0o700)


@contextmanager
def as_ordinary_user(folder: Path) -> Iterator[None]:
    """Run the `with` block as the owner of `folder`, and not as root, which ignores permissions."""
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_read_only_folders_are_removed(lecture: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        run_folder = Path(name)
        (lecture.parent / "sub").chmod(0o500)
        make(lecture, TEXT, root_for(run_folder, lecture, 0))
        is_root = os.getuid() == 0
        if is_root:  # which ignores permissions
            for folder, _, files in os.walk(run_folder):
                for path in (folder, *(os.path.join(folder, file) for file in files)):
                    os.chown(path, 65534, 65534, follow_symlinks=False)
            os.seteuid(65534)
        try:
            sweep(run_folder)
        finally:
            if is_root:
                os.seteuid(0)
        assert list(run_folder.iterdir()) == [] and (lecture.parent / "sub/deep/file").exists()


def test_temporary_copies_of_dead_tracers_are_swept(
    lecture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(private_folder, "PATH_BYTES", 10)
    root = root_for(tmp_path / ".run-x", lecture, 3)
    assert root.parent == tmp_path and root.name == f"trace-tools-view-{os.getpid()}-run-x-003"
    make(lecture, TEXT, root)
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    (tmp_path / f"trace-tools-view-{dead.pid}-run-y-000/a").mkdir(parents=True)
    sweep(tmp_path / ".run-x")
    assert root.exists() and not list(tmp_path.glob(f"*{dead.pid}-run-y*"))
