"""Runs' folders: what dead tracers left is merged, or kept; nothing is lost, whatever lies there."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from tests.messages import says
from tests.tracing.dead_runs import dead_run
from trace_tools.errors import NothingRecordedError
from trace_tools.trace.model import Frame, Step, Trace
from trace_tools.trace.trace_file import load
from trace_tools.tracing import run_folder as run_folders
from trace_tools.tracing.run_folder import Kept, recover, run_folder

PYTHON = ".".join(map(str, sys.version_info[:2]))


def lines(trace: Trace) -> list[int]:
    return [event.line for event in trace.steps if isinstance(event, Step)]


def names(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


def test_a_whole_run_whose_tracer_was_killed_is_a_complete_trace(tmp_path: Path) -> None:
    dead_run(tmp_path)
    [traced], kept = recover(tmp_path)
    trace = load(tmp_path / "cpu/trace.yaml").trace
    assert not kept and trace == traced.trace and trace.run.complete and not trace.run.dropped
    assert {event.function for event in trace.steps if isinstance(event, Frame)} == {
        "<module>", "main", "numbers", "half", "words",
    }  # fmt: skip
    assert names(tmp_path) == {"cpu"}


def test_a_run_that_was_killed_is_a_partial_trace(tmp_path: Path) -> None:
    dead_run(tmp_path, done=False)
    [traced], kept = recover(tmp_path)
    assert not kept and traced.path == tmp_path / "cpu/partial/trace.yaml"
    assert "stopped when the tracer was killed" in load(traced.path).trace.run.ended
    assert names(tmp_path) == {"cpu"}


def test_how_a_process_ended_that_could_not_be_written(tmp_path: Path) -> None:
    """The file was made, and there was no room for a byte in it."""
    (dead_run(tmp_path, done=False) / "pass-1.status").touch()
    [traced], _ = recover(tmp_path)
    assert says(traced.trace.run.ended, "full disk", "(pass 1)")


DAMAGED_LINES = (
    b"\xff\x00\xfe\n",
    b"\n",
    b"[]\n",
    b"{}\n",
    b"null\n",
    b'["?",1,2]\n',
    b'["S",1,2]\n',
    b'["S","1",0,0,1,1]\n',
    b'["S",900001,0,4000,1,1]\n',
    b'["F",900,4000,0,null]\n',
    b'["F",900,0,0,null]\n',
    b'["O",1,"statement",4]\n',
    b'["O",1,"nothing",4]\n',
    b'["O"' + b',["O"' * 100_000 + b"\n",
    b'["end","complete",5,[[1]]]\n',
    b'["process","runs","complete"]\n',
    b'["run"]\n',
)


def test_records_that_cannot_be_read_are_skipped_and_counted(tmp_path: Path) -> None:
    """The disk damaged some lines in the middle: the rest is used, and the trace says that it is not whole."""
    folder = dead_run(tmp_path)
    whole = shutil.copytree(folder, tmp_path / "whole/.run-a")
    journal = folder / "pass-1.journal"
    good = journal.read_bytes().splitlines(keepends=True)
    middle = len(good) // 2
    journal.write_bytes(b"".join([*good[:middle], *DAMAGED_LINES, *good[middle:]]))
    [traced], kept = recover(tmp_path)
    [undamaged], _ = recover(whole.parent)
    said = f"{len(DAMAGED_LINES)} records of pass 1 that could not be read"
    assert not kept and traced.trace.run.dropped == [said] and traced.trace.run.ended == said
    assert load(traced.path).trace == traced.trace
    assert traced.trace.steps == undamaged.trace.steps  # nothing else is lost, nothing is made up
    assert traced.path.parent.name == "partial"  # what is not whole replaces nothing that is


@pytest.mark.parametrize("first", [b'["run",', b'["end",'])
def test_a_run_whose_start_or_end_is_damaged(tmp_path: Path, first: bytes) -> None:
    journal = dead_run(tmp_path) / "pass-1.journal"
    journal.write_bytes(journal.read_bytes().replace(first, b"[" + first))
    recovered, kept = recover(tmp_path)
    if first.startswith(b'["run"'):  # to what run records belong is not known
        assert not recovered and [one.folder for one in kept] == [tmp_path / ".unmerged-a"]
    else:
        assert lines(recovered[0].trace) and recovered[0].trace.run.dropped


def test_an_unfinished_last_line_is_no_damage(tmp_path: Path) -> None:
    journal = dead_run(tmp_path, done=False) / "pass-1.journal"
    journal.write_bytes(journal.read_bytes() + b'["S",900,0')
    [traced], _ = recover(tmp_path)
    assert traced.trace.run.dropped == []


def test_what_was_observed_and_makes_no_valid_trace_is_skipped(tmp_path: Path) -> None:
    journal = dead_run(tmp_path) / "pass-1.journal"
    text = journal.read_bytes()
    for before, after in (
        (b'"width":"50%"', b'"width":"5o%"'),
        (b'{"type":"str","value":"three"', b'{"type":"str","value":3'),
        (b'"style":"points"', b'"stylf":"points"'),
        (b'"columns":["n","s"]', b'"columns":["n"]'),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    journal.write_bytes(text)
    [traced], kept = recover(tmp_path)
    [dropped] = traced.trace.run.dropped or []
    assert not kept and says(dropped, "4 records of pass 1")
    assert {n.kind for e in load(traced.path).trace.steps if isinstance(e, Step) for n in e.narrative or ()} == {
        "text", "link",
    }  # fmt: skip


def test_any_damage_leaves_a_valid_trace_or_the_journals(tmp_path: Path) -> None:
    """Bits are flipped, bytes cut, lines doubled, files emptied or gone, in everything that lies there."""
    original = {True: dead_run(tmp_path / "whole"), False: dead_run(tmp_path / "killed", done=False)}
    lost = 0
    for seed in range(60):
        drawn = random.Random(seed)
        out = tmp_path / str(seed)
        folder = shutil.copytree(original[drawn.random() < 0.5], out / ".run-a")
        journals = [path for path in sorted(folder.iterdir()) if path.suffix in (".journal", ".tail")]
        for _ in range(drawn.choice((1, 1, 5))):
            damage(drawn.choice(journals if drawn.random() < 0.7 else sorted(folder.iterdir())), drawn)
        left = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
        recovered, kept = recover(out, again=True)
        lost += not recovered
        if recovered:
            assert load(recovered[0].path).trace == recovered[0].trace and not kept
        elif kept:
            assert left.items() <= {path.name: path.read_bytes() for path in kept[0].folder.iterdir()}.items()
        else:  # nothing that is of any use was left of it
            assert not any(left.get(name, b"").count(b"\n") > 2 for name in ("pass-1.journal", "pass-1.tail"))
        assert names(out) <= {"cpu", ".unmerged-a"}, names(out)
        shutil.rmtree(out)
    assert 0 < lost < 45


def damage(path: Path, drawn: random.Random) -> None:
    content = bytearray(path.read_bytes()) if path.exists() else bytearray()
    at = drawn.randrange(len(content) or 1)
    match drawn.randrange(8):
        case 0 | 1 | 2:
            content[at : at + 1] = bytes([(content[at : at + 1] or b"0")[0] ^ 1 << drawn.randrange(8)])
        case 3:
            content[at : at + drawn.randrange(200)] = b""
        case 4:
            content[at : at + 64] = drawn.randbytes(64)
        case 5:
            content[at:at] = content[max(0, at - 300) : at]
        case 6:
            content[at:] = b""
        case 7:
            path.unlink(missing_ok=True)
            return
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("run.json", None, "run.json: No such file or directory"),
        (
            "run.json",
            b"\xff",
            "run.json: is damaged: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
        ("machine.json", b"{}", "machine.json: is damaged: 'peaks'"),
        ("versions.json", None, "versions.json: No such file or directory"),
        ("lecture.py", b"def main(:\n", f"lecture.py:1: not valid Python {PYTHON}: invalid syntax"),
    ],
)
def test_without_what_was_asked_for_the_journals_are_kept(
    tmp_path: Path, name: str, content: bytes | None, why: str
) -> None:
    folder = dead_run(tmp_path)
    journal = (folder / "pass-1.journal").read_bytes()
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    assert recover(tmp_path) == ([], [Kept(tmp_path / ".unmerged-a", why)])
    assert (tmp_path / ".unmerged-a/pass-1.journal").read_bytes() == journal


# --- which trace stays ----------------------------------------------------------------------------


def test_the_latest_of_several_dead_runs_is_shown_and_the_others_are_kept(tmp_path: Path) -> None:
    for name, minute in (("b", 1), ("a", 3), ("c", 2)):
        dead_run(tmp_path, name, started=f"2026-01-01T00:0{minute}:00+00:00", done=False)
    [traced], kept = recover(tmp_path)
    assert traced.trace.run.started == "2026-01-01T00:03:00+00:00"
    reason = f"{tmp_path}/cpu/partial/trace.yaml is from a later run"
    assert kept == [Kept(tmp_path / ".unmerged-c", reason), Kept(tmp_path / ".unmerged-b", reason)]


@pytest.mark.parametrize("done", [True, False])
def test_a_recovered_run_does_not_replace_a_later_trace(tmp_path: Path, done: bool) -> None:
    dead_run(tmp_path, started="2026-01-02T00:00:00+00:00")
    recover(tmp_path)
    complete = (tmp_path / "cpu/trace.yaml").read_bytes()
    dead_run(tmp_path, "b", done=done)
    assert recover(tmp_path) == ([], [Kept(tmp_path / ".unmerged-b", f"{tmp_path}/cpu/trace.yaml is from a later run")])
    assert (tmp_path / "cpu/trace.yaml").read_bytes() == complete and not (tmp_path / "cpu/partial").exists()


def test_a_recovered_run_replaces_an_earlier_trace_and_leaves_a_later_partial_one(tmp_path: Path) -> None:
    for name, day, done in (("a", 1, True), ("b", 3, False)):
        dead_run(tmp_path, name, started=f"2026-01-0{day}T00:00:00+00:00", done=done)
        recover(tmp_path)
    dead_run(tmp_path, "c", started="2026-01-02T00:00:00+00:00")
    _, kept = recover(tmp_path)
    assert not kept and load(tmp_path / "cpu/trace.yaml").trace.run.started.startswith("2026-01-02")
    assert load(tmp_path / "cpu/partial/trace.yaml").trace.run.started.startswith("2026-01-03")


def test_another_lectures_trace_is_not_replaced(tmp_path: Path) -> None:
    dead_run(tmp_path, lecture="other.py")
    recover(tmp_path)
    dead_run(tmp_path, "b", started="2026-01-02T00:00:00+00:00")
    recovered, [kept] = recover(tmp_path)
    assert not recovered and says(kept.why, "other.py", "lecture.py")
    assert load(tmp_path / "cpu/trace.yaml").trace.run.lecture == "other.py"


@pytest.mark.parametrize("done", [True, False])
def test_killed_between_writing_the_trace_and_removing_the_journals(tmp_path: Path, done: bool) -> None:
    folder = dead_run(tmp_path, done=done)
    copy = shutil.copytree(folder, tmp_path / "copy")
    [first], _ = recover(tmp_path)
    written = first.path.read_bytes()
    copy.rename(folder)
    [again], kept = recover(tmp_path)
    assert not kept and again.path.read_bytes() == written and names(tmp_path) == {"cpu"}


def test_half_a_removed_run_is_never_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead_run(tmp_path)
    monkeypatch.setattr(shutil, "rmtree", lambda folder, **_: (folder / "run.json").unlink(missing_ok=True))  # killed
    recover(tmp_path)
    monkeypatch.undo()
    assert names(tmp_path) == {"cpu", ".done-a"}
    assert recover(tmp_path) == ([], []) and names(tmp_path) == {"cpu"}


# --- what stands in the way -----------------------------------------------------------------------


def test_a_recovery_that_was_killed_is_not_tried_before_every_run(tmp_path: Path) -> None:
    """It may have taken all memory; who asks for it gets it tried again."""
    (dead_run(tmp_path) / "merging").touch()
    assert recover(tmp_path) == ([], [Kept(tmp_path / ".unmerged-a", "an earlier recovery of this run was killed")])
    (dead_run(tmp_path, "b") / "merging").touch()
    assert len(recover(tmp_path, again=True)[0]) == 1


def test_what_is_no_runs_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".run-file").write_text("a person's own")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".run-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / ".run-dangling").symlink_to(tmp_path / "nowhere")
    before = names(tmp_path)
    dead_run(tmp_path)
    assert len(recover(tmp_path)[0]) == 1 and names(tmp_path) == before | {"cpu"}


def test_where_the_trace_cannot_be_written_the_journals_stay(tmp_path: Path) -> None:
    dead_run(tmp_path)
    (tmp_path / "cpu").write_text("a file in its place")
    recovered, [kept] = recover(tmp_path)
    assert not recovered and kept.again and f"{tmp_path}/cpu: can't be written" in kept.why
    (tmp_path / "cpu").unlink()
    assert len(recover(tmp_path)[0]) == 1 and names(tmp_path) == {"cpu"}


def test_a_run_is_locked_before_it_can_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever another looks: a folder with the name of a run can't be locked."""
    made: list[str] = []
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        made.append(Path(source).name)
        lock = os.open(Path(source) / "lock", os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(lock)
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(NothingRecordedError), run_folder(tmp_path) as folder:
        assert [name.startswith(".new-") for name in made] == [True] and folder.name.startswith(".run-")
        assert recover(tmp_path) == ([], []) and folder.exists()
        raise NothingRecordedError
    assert names(tmp_path) == set()


def test_a_folder_that_is_swept_while_it_is_made_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock, calls = fcntl.flock, []

    def swept(lock: int, how: int) -> None:
        calls.append(lock)
        if len(calls) == 1:
            recover(tmp_path)
        flock(lock, how)

    monkeypatch.setattr(run_folders.fcntl, "flock", swept)
    with run_folder(tmp_path) as folder:
        assert names(tmp_path) == {folder.name}


def test_stale_folders_of_tracers_that_were_killed_are_swept(tmp_path: Path) -> None:
    for name in (".new-abc", ".done-abc"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps({}))
    with run_folder(tmp_path) as folder:
        assert recover(tmp_path) == ([], []) and names(tmp_path) == {folder.name}
