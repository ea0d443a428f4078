"""Files are replaced atomically."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from tests.cases_in_one import each
from trace_tools.errors import UsageError
from trace_tools.util.files import MANIFEST, replace_file, update_folder

PAGES = re.compile(r"[a-z]+\.html")


def test_text_or_bytes_replace_a_file_of_any_name(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)  # the longest possible
    for content in ("é\n", "é\n".encode()):
        path.write_text("old")
        replace_file(path, content)
        assert path.read_bytes() == "é\n".encode()
    assert os.listdir(tmp_path) == [path.name]


@each("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@each("function", ["fsync", "replace"])
def test_a_failed_write_leaves_only_the_old_file(
    function: str, failure: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise failure

    path = tmp_path / "trace.yaml"
    path.write_text("old")
    with monkeypatch.context() as failing, pytest.raises((UsageError, KeyboardInterrupt)) as caught:
        failing.setattr(os, function, fails)
        replace_file(path, "new", durable=True)
    if isinstance(failure, OSError):
        assert str(caught.value) == f"{path}: can't be written: {failure.strerror}"
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["trace.yaml"]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("old")
    with pytest.raises(UsageError, match=r"report/inside: can't be written: Not a directory"):
        replace_file(tmp_path / "report" / "inside", "new")
    assert os.listdir(tmp_path) == ["report"]


def test_update_folder_deletes_only_its_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    a, b, kept = folder / "a.html", folder / "b.html", folder / "kept.html"
    assert update_folder(folder, {"a.html": b"1", "b.html": b"1"}, PAGES) == [a, b]
    assert update_folder(folder, {"a.html": b"1", "b.html": b"2"}, PAGES) == [b]
    kept.write_text("a person's own")
    (folder / MANIFEST).open("a").write("../a.html\nnotes.txt\n")
    (folder / "notes.txt").write_text("a person's own")
    assert update_folder(folder, {"a.html": b"1"}, PAGES) == [b]
    assert sorted(os.listdir(folder)) == [MANIFEST, "a.html", "kept.html", "notes.txt"]


def test_a_link_in_place_of_a_page_is_kept(tmp_path: Path) -> None:
    update_folder(tmp_path, {"a.html": b"1"}, PAGES)
    (tmp_path / "a.html").unlink()
    (tmp_path / "a.html").symlink_to(tmp_path)
    assert update_folder(tmp_path, {}, PAGES) == []
    assert (tmp_path / "a.html").is_symlink()


def test_only_abandoned_temporary_files_are_deleted(tmp_path: Path) -> None:
    abandoned, in_use, other = tmp_path / ".a.html.0123abcd", tmp_path / ".b.html.0123abcd", tmp_path / ".gitignore"
    for path in (abandoned, in_use, other, tmp_path / ".c.html.old"):
        path.write_text("half")
        os.utime(path, (0, 0))
    in_use.write_text("half of it")
    update_folder(tmp_path, {}, PAGES)
    assert sorted(os.listdir(tmp_path)) == [".b.html.0123abcd", ".c.html.old", ".gitignore", MANIFEST]
