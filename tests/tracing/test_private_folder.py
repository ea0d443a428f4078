"""A private copy is what the real folder is, paths lead on from it, and nothing of it remains."""

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
    """A course beside another folder: with dotfiles, links, version control, an environment, and an OUT."""
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


def test_it_is_as_the_real_folder_and_writing_does_not_reach_that(lecture: Path, tmp_path: Path) -> None:
    place = make(lecture, TEXT, tmp_path / "root", shared=[lecture.parent / "rendered"])
    here = place.lecture.parent
    assert place.lecture == inside(tmp_path / "root", lecture) and place.lecture.read_text(encoding="utf-8") == TEXT
    assert sorted(os.listdir(here)) == sorted(os.listdir(lecture.parent))
    links = {name for name in os.listdir(here) if (here / name).is_symlink()}
    assert links == {"out", "in", ".git", "venv", "rendered"}
    assert (here / "out").read_text() == (here / "../other/file").read_text() == "../other"
    assert (here / "script.sh").stat().st_mode == (lecture.parent / "script.sh").stat().st_mode
    assert (here / "script.sh").stat().st_mtime_ns == 10**18
    (here / "in").write_text("written", encoding="utf-8")
    (here / "../new").write_text("above", encoding="utf-8")
    (here / "../../all/course/sub/deep/file").unlink()
    assert (here / "sub/file").read_text() == "written" and not (here / "sub/deep/file").exists()
    assert (lecture.parent / "sub/file").read_text() == "sub" and (lecture.parent / "sub/deep/file").exists()
    assert not (lecture.parent.parent / "new").exists()
    remove(place.root)
    assert not place.root.exists() and (lecture.parent / "rendered/file").exists()


def test_links_above_serve_the_next_run_and_what_a_run_made_of_them_does_not(lecture: Path, tmp_path: Path) -> None:
    everything = lecture.parent.parent
    (everything / "file").write_text("real", encoding="utf-8")
    place = make(lecture, TEXT, tmp_path / "root")
    above = place.lecture.parent.parent

    def links() -> dict[str, int]:
        return {path.name: path.lstat().st_ino for path in above.iterdir() if path.is_symlink()}

    first = links()
    assert set(first) == {"other", "file"}
    (place.lecture.parent / "new").touch()
    (above / "made").mkdir(mode=0o500)
    (above / "file").unlink()
    (above / "file").symlink_to("other/file")
    leave(place)
    assert not place.lecture.parent.exists()
    (lecture.parent.parent / "later").touch()
    assert make(lecture, TEXT, tmp_path / "root") == place
    assert set(links()) == {"other", "file", "later"} and links()["other"] == first["other"]
    assert (above / "file").read_text(encoding="utf-8") == "real" and not (place.lecture.parent / "new").exists()
    leave(place)
    remove(above)
    above.symlink_to(everything)  # nothing is removed through such a link
    assert make(lecture, TEXT, tmp_path / "root") == place
    assert not above.is_symlink() and set(links()) == {"other", "file", "later"} and lecture.exists()


def test_a_lecture_that_was_edited_or_removed_since_is_there_as_it_was_read(lecture: Path, tmp_path: Path) -> None:
    lecture.write_text("def main(): later()\n", encoding="utf-8")
    assert make(lecture, TEXT, tmp_path / "root").lecture.read_text(encoding="utf-8") == TEXT
    lecture.unlink()
    assert make(lecture, TEXT, tmp_path / "root").lecture.read_text(encoding="utf-8") == TEXT


def test_beyond_the_bounds_are_links_and_what_was_changed_through_them_is_named(
    lecture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_folder, "FILE_BYTES", 1000)
    monkeypatch.setattr(private_folder, "ENTRIES", 60)
    course = lecture.parent
    for n in range(60):
        (course / "sub/deep" / f"{n}").touch()
    for name in ("large", "larger", "untouched"):
        (course / name).write_bytes(b"x" * 1001)
    place = make(lecture, TEXT, tmp_path / "root")
    here = place.lecture.parent
    assert (here / "large").is_symlink() and (here / "sub/deep").is_symlink() and not (here / "sub").is_symlink()
    assert place.changed() == []
    (here / "large").write_bytes(b"y")
    (here / "larger").resolve().unlink()
    assert place.changed() == [str(course / "large"), str(course / "larger")]


def test_of_too_many_neighbours_those_that_the_lecture_names_are_there_and_the_others_counted(
    lecture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = lecture.parent.parent
    for n in range(9):
        (beside / f"data{n}").touch()
    monkeypatch.setattr(private_folder, "LINKS", 4)
    text = 'def main(): open("../data7"); open("../data5")\n'
    place = make(lecture, text, tmp_path / "root")
    there = [path.name for path in sorted(place.lecture.parent.parent.iterdir())]
    assert there == ["course", "data0", "data1", "data5", "data7"]
    assert place.left_out[beside] == 6  # of `other` and nine
    monkeypatch.setattr(private_folder, "LINKS", 10**6)
    assert make(lecture, text, tmp_path / "root").left_out == {}
    assert len(list(place.lecture.parent.parent.iterdir())) == 11


def test_a_folder_that_may_not_be_listed_leads_to_its_files() -> None:
    with tempfile.TemporaryDirectory() as name, permissions_hold(Path(name)):
        hidden = Path(name, "course/hidden")
        hidden.mkdir(parents=True)
        (hidden / "file").write_text("known by name", encoding="utf-8")
        hidden.chmod(0o100)
        place = make(hidden.parent / "lecture.py", TEXT, Path(name, "root"))
        assert (place.lecture.parent / "hidden/file").read_text(encoding="utf-8") == "known by name"
        hidden.chmod(0o700)


@contextmanager
def permissions_hold(folder: Path) -> Iterator[None]:
    """Be no root, to whom permissions mean nothing, inside the `with` block; `folder` is the other's."""
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_what_may_not_be_written_is_removed_all_the_same(lecture: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        run = Path(name)
        (lecture.parent / "sub").chmod(0o500)
        make(lecture, TEXT, root_for(run, lecture, 0))
        is_root = os.getuid() == 0
        if is_root:  # to whom permissions mean nothing
            for folder, _, files in os.walk(run):
                for path in (folder, *(os.path.join(folder, file) for file in files)):
                    os.chown(path, 65534, 65534, follow_symlinks=False)
            os.seteuid(65534)
        try:
            sweep(run)
        finally:
            if is_root:
                os.seteuid(0)
        assert list(run.iterdir()) == [] and (lecture.parent / "sub/deep/file").exists()


def test_dead_tracers_are_swept_where_there_was_no_room_for_links(
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
