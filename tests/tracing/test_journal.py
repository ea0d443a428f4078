"""A journal keeps its lines, whatever they contain, and ignores an unfinished one."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from trace_tools.errors import TraceFileError
from trace_tools.trace.model import Claim, Frame, Omitted, Raised, Step
from trace_tools.tracing.journal import KINDS, Error, Failed, Journal, Note, RunEnd, RunStart, read_journal


def step(number: int, **content: Any) -> Step:
    return Step(number, 0, 3, 12, 1, [1200], **content)


LINES = [
    RunStart("cold"),
    Frame(0, "main"),
    Frame(1, "f", of=7, arguments=[("x", {"type": "int", "value": 3})]),  # type: ignore[list-item]
    step(7),
    step(8, values=[("x", {"type": "float", "value": 0.1})], claim=Claim("x > 3", held=True)),
    Omitted(5, 0, 3, 12, 900),
    Error(0, 8, 12, Raised("ValueError", "", 12)),
    Failed(8),
    RunEnd("complete", 10**9, [("f", 2)]),
    Note("notes", ["it was hot"]),
]


def written(path: Path, lines: list[Any]) -> Path:
    journal = Journal(path)
    journal.write(lines)
    journal.close()
    return path


def test_written_lines_can_be_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.journal", LINES)
    assert {type(line) for line in LINES} == set(KINDS)
    read = list(read_journal(path))
    again = written(tmp_path / "b.journal", read)
    assert [type(line) for line in read] == [type(line) for line in LINES]
    assert again.read_bytes() == path.read_bytes() and list(read_journal(again)) == read
    assert read[3] == step(7) and read[-2:] == LINES[-2:]


def test_numbers_that_json_lacks_and_text_that_is_no_unicode_are_kept(tmp_path: Path) -> None:
    """A journal with `null` in place of such a number would lose a loss that has become nan."""
    numbers = [math.inf, -math.inf, math.nan]
    steps = [step(n, values=[("loss", {"type": "float", "value": number})]) for n, number in enumerate(numbers)]
    read: list[Any] = list(read_journal(written(tmp_path / "a.journal", [step(0), *steps, step(4)])))
    assert [repr(value.value) for one in read for _, value in one.values or ()] == ["inf", "-inf", "nan"]
    assert len(read) == 5
    lines = [step(1, stdout="é\ud800\n"), step(2, warnings=["half a pair: \udfff", "whole: \U0001f600"]), step(3)]
    assert list(read_journal(written(tmp_path / "b.journal", lines))) == lines


def test_an_unfinished_line_is_left_out_and_a_damaged_line_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.journal", [RunStart("cold"), step(1), step(2)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert list(read_journal(path)) == [RunStart("cold"), step(1)]
    for damaged in (b"\xff\n", b'{"what": 1}\n', b"\n", whole[:-9] + b"\n"):
        path.write_bytes(whole + damaged)
        with pytest.raises(TraceFileError, match=r"a\.journal: line \d: is damaged"):
            list(read_journal(path))
    assert list(read_journal(tmp_path / "absent")) == []


def test_a_full_disk_leaves_no_partial_line_and_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "a.journal")
    write, room = os.write, [40]

    def nearly_full(descriptor: int, content: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        written = write(descriptor, content[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", nearly_full)
    journal.write([Failed(n) for n in (1, 2, 3, 4)])  # 13 bytes each
    assert journal.path.read_bytes() == b'{"failed":1}\n{"failed":2}\n{"failed":3}\n' and journal.failed
    journal.write([Failed(5)])
    room[0] = 1000
    journal.write([Failed(6)])
    assert list(read_journal(journal.path)) == [Failed(n) for n in (1, 2, 3, 4, 5, 6)]


def test_it_writes_after_a_directory_change_but_not_in_a_forked_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = Journal(Path("pass-1.journal"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    journal.write([Failed(1)])
    journal.forget()
    journal.write([Failed(2)])
    assert not journal.failed and list(read_journal(tmp_path / "pass-1.journal")) == [Failed(1)]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere", "pass-1.journal"]
