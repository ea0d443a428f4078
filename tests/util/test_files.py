"""Files that are whole at every moment; `tests/trace/test_trace_file.py` tries traces with a full disk."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from trace_tools.errors import UsageError
from trace_tools.util.files import MANIFEST, replace, update_folder

PAGES = re.compile(r"[a-z]+\.html")


def test_text_pieces_and_bytes_replace_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "report"
    for content in ("é\n", ["é", "\n"], "é\n".encode()):
        path.write_text("old")
        replace(path, content)
        assert path.read_bytes() == "é\n".encode()
    assert os.listdir(tmp_path) == ["report"]


def test_what_fails_on_the_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("old")

    def pieces() -> object:
        yield "new"
        raise KeyError("on the way")

    with pytest.raises(KeyError):
        replace(path, pieces())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"report/inside: can't be written: Not a directory"):
        replace(path / "inside", "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["report"]


def test_a_folder_holds_what_it_is_given_and_loses_only_what_was_made_there(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    a, b, kept = folder / "a.html", folder / "b.html", folder / "kept.html"
    assert update_folder(folder, {"a.html": b"1", "b.html": b"1"}, PAGES) == [a, b]
    assert update_folder(folder, {"a.html": b"1", "b.html": b"2"}, PAGES) == [b]
    kept.write_text("a person's own")
    (folder / MANIFEST).open("a").write("../a.html\nnotes.txt\n")
    (folder / "notes.txt").write_text("a person's own")
    assert update_folder(folder, {"a.html": b"1"}, PAGES) == [b]
    assert sorted(os.listdir(folder)) == [MANIFEST, "a.html", "kept.html", "notes.txt"]


def test_a_link_that_took_the_place_of_a_page_is_left_alone(tmp_path: Path) -> None:
    update_folder(tmp_path, {"a.html": b"1"}, PAGES)
    (tmp_path / "a.html").unlink()
    (tmp_path / "a.html").symlink_to(tmp_path)
    assert update_folder(tmp_path, {}, PAGES) == []
    assert (tmp_path / "a.html").is_symlink()


def test_what_a_killed_replace_left_is_swept_and_one_at_work_is_not(tmp_path: Path) -> None:
    ended, at_work, own = tmp_path / ".a.html.0123abcd", tmp_path / ".b.html.0123abcd", tmp_path / ".gitignore"
    for path in (ended, at_work, own, tmp_path / ".c.html.old"):
        path.write_text("half")
        os.utime(path, (0, 0))
    at_work.write_text("half of it")
    update_folder(tmp_path, {}, PAGES)
    assert sorted(os.listdir(tmp_path)) == [".b.html.0123abcd", ".c.html.old", ".gitignore", MANIFEST]


def test_a_file_whose_name_is_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)
    replace(path, "whole")
    assert path.read_text() == "whole" and os.listdir(tmp_path) == [path.name]
