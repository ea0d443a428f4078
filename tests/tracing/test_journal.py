"""A journal keeps its records, ignores an unfinished line, and has a short tail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trace_tools.tracing import journal as journals
from trace_tools.tracing.journal import (
    FrameEnd,
    Journal,
    LastExecutions,
    Observation,
    OpenStep,
    RunStart,
    Said,
    StepTime,
    read_journal,
)


def test_written_records_can_be_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.journal")
    journal.write([(Observation, 1, "values", float("inf")), (Observation, 1, "stdout", "é\ud800\n")])
    executions = [(7, [(FrameEnd, 3), (StepTime, 1, 0, 2, 7, 9)])]
    journal.write_tail([(OpenStep, 2, 0, 5, 1), (LastExecutions, 0, 2, executions)])
    observed = [Observation(1, "values", float("inf")), Observation(1, "stdout", "é\ud800\n")]
    assert list(read_journal(journal.path)) == observed
    last_executions = LastExecutions(0, 2, [(7, [FrameEnd(3), StepTime(1, 0, 2, 7, 9)])])
    assert list(read_journal(journal.tail_path)) == [OpenStep(2, 0, 5, 1), last_executions]
    journal.close(complete=True)
    assert not journal.tail_path.exists()


def test_an_unfinished_line_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    path.write_bytes(b'["E",1]\n["E",2')
    assert list(read_journal(path)) == [FrameEnd(1)]
    assert list(read_journal(tmp_path / "absent")) == []


def test_equal_observations_share_their_content(tmp_path: Path) -> None:
    rows = [(Observation, 0, "values", ["x", None, {"type": "int", "value": 1}]), (Observation, 1, "stdout", "a\n")]
    cache: Said = {}
    records = []
    for name, step in (("a", 3), ("b", 40)):
        journal = Journal(tmp_path / f"{name}.journal")
        journal.write([(kind, step + n, field, content) for kind, n, field, content in rows])
        records.append(list(read_journal(journal.path, cache=cache)))
    assert records[1] == [Observation(40, *rows[0][2:]), Observation(41, *rows[1][2:])]
    assert [a.content is b.content for a, b in zip(*records, strict=True)] == [True, True]  # type: ignore[union-attr]
    damaged, lines = tmp_path / "c.journal", (tmp_path / "a.journal").read_bytes().splitlines(keepends=True)
    damaged.write_bytes(lines[0].replace(b"3", b"03", 1) + lines[0].replace(b"3", b"x", 1) + lines[1])
    unreadable: list[int] = []
    assert list(read_journal(damaged, unreadable, cache)) == records[0][1:] and unreadable == [1, 2]


def test_a_long_tail_can_be_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "TAIL_LIMIT_BYTES", 100)
    journal = Journal(tmp_path / "a.journal")
    assert not journal.write_tail([(RunStart, "x" * 50)])
    assert journal.write_tail([(RunStart, "x" * 50)])
    journal.restart_tail([(RunStart, "short")])
    assert not journal.write_tail([(FrameEnd, 1)])
    assert list(read_journal(journal.tail_path)) == [RunStart("short"), FrameEnd(1)]


def test_a_full_disk_is_reported_and_records_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "a.journal")
    write = os.write

    def full(descriptor: int, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journals, "write", full)
    journal.write([(FrameEnd, 1)])
    assert journal.trouble == "a.journal: No space left on device"
    monkeypatch.setattr(journals, "write", write)
    journal.write([(FrameEnd, 2)])
    assert list(read_journal(journal.path)) == [FrameEnd(1), FrameEnd(2)]


def test_a_full_disk_leaves_no_partial_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "a.journal")
    write, room = os.write, [25]

    def nearly_full(descriptor: int, content: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        written = write(descriptor, content[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(journals, "write", nearly_full)
    journal.write([(FrameEnd, 1), (FrameEnd, 2), (FrameEnd, 3), (FrameEnd, 4)])  # 8 bytes each
    assert journal.path.read_bytes() == b'["E",1]\n["E",2]\n["E",3]\n' and journal.trouble
    room[0] = 5
    journal.write_tail([(FrameEnd, 1)])
    assert journal.tail_path.read_bytes() == b""
    room[0] = 1000
    journal.write_tail([(FrameEnd, 5)])
    journal.write([(FrameEnd, 6)])
    unreadable: list[int] = []
    assert list(read_journal(journal.path, unreadable)) == [FrameEnd(n) for n in (1, 2, 3, 4, 6)]
    assert list(read_journal(journal.tail_path, unreadable)) == [FrameEnd(5)] and not unreadable


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.journal")
    journal.forget()
    journal.write([(FrameEnd, 1)])
    assert not journal.write_tail([(FrameEnd, 1)])
    assert journal.path.read_bytes() == b""


def test_a_journal_can_be_written_after_a_directory_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    journal = Journal(Path("pass-1.journal"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    journal.restart_tail([(FrameEnd, 1)])
    journal.close(complete=True)
    assert journal.trouble is None
    assert [path.name for path in tmp_path.rglob("*")] in (
        ["pass-1.journal", "elsewhere"],
        ["elsewhere", "pass-1.journal"],
    )
