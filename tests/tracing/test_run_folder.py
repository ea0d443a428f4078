"""Run folders: journals of dead tracers are merged or kept; none is lost, whatever the folder contains."""

from __future__ import annotations

import fcntl
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.messages import says
from tests.traces import example_trace
from tests.tracing.dead_runs import dead_run
from trace_tools.errors import TraceToolsError
from trace_tools.trace.file import load, write
from trace_tools.trace.model import Frame, Machine, Step, Trace
from trace_tools.tracing import run_folder as run_folders
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.run_folder import KeptError, chosen_folder, recover, run_folder

PYTHON = ".".join(map(str, sys.version_info[:2]))


def lines(trace: Trace) -> list[int]:
    return [event.line for event in trace.steps if isinstance(event, Step)]


def kept_by(result: tuple[list[Any], list[KeptError]]) -> list[tuple[Path, str]]:
    """Return the folders that a recovery kept, with the reasons, if it recovered nothing."""
    recovered, kept = result
    assert not recovered
    return [(one.folder, one.why) for one in kept]


def names(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


def test_complete_run_of_a_killed_tracer_is_a_complete_trace(tmp_path: Path) -> None:
    dead_run(tmp_path)
    [traced], kept = recover(tmp_path)
    trace = load(tmp_path / "cpu/trace.yaml").trace
    assert not kept and trace == traced.trace and trace.run.complete and not trace.run.dropped
    assert {event.function for event in trace.steps if isinstance(event, Frame)} == {
        "<module>", "main", "numbers", "half", "words",
    }  # fmt: skip
    assert names(tmp_path) == {"cpu"}


def test_killed_run_is_a_partial_trace(tmp_path: Path) -> None:
    dead_run(tmp_path, done=False)
    [traced], kept = recover(tmp_path)
    assert not kept and traced.path == tmp_path / "cpu/partial/trace.yaml"
    assert "stopped when the tracer was killed" in load(traced.path).trace.run.ended
    assert names(tmp_path) == {"cpu"}


def test_empty_status_file_is_reported_as_full_disk(tmp_path: Path) -> None:
    """The files were created, but the disk had no room for their content."""
    folder = dead_run(tmp_path, done=False)
    for name in ("pass-1.status", "pass-1.out", "written.json"):
        (folder / name).touch()
    [traced], _ = recover(tmp_path)
    assert says(traced.trace.run.ended, "full disk", "(pass 1)")


def test_a_damaged_journal_is_kept(tmp_path: Path) -> None:
    journal = dead_run(tmp_path) / "pass-1.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:9], b"\xff\x00\n", *lines[9:]]))
    recovered, [kept] = recover(tmp_path)
    assert not recovered and kept.folder == tmp_path / ".unmerged-a" and "pass-1.journal: line 10" in str(kept)


def test_unfinished_last_line_is_not_reported(tmp_path: Path) -> None:
    journal = dead_run(tmp_path, done=False) / "pass-1.journal"
    journal.write_bytes(journal.read_bytes() + b'{"id":900,"fra')
    [traced], _ = recover(tmp_path)
    assert traced.trace.run.dropped == []


def test_any_damage_leaves_a_valid_trace_or_journals(tmp_path: Path) -> None:
    """Bits are flipped, bytes cut or repeated, files cut short or deleted, anywhere in the run's folder."""
    original = {True: dead_run(tmp_path / "whole"), False: dead_run(tmp_path / "killed", done=False)}
    lost = 0
    for seed in range(60):
        rng = random.Random(seed)
        out = tmp_path / str(seed)
        folder = shutil.copytree(original[rng.random() < 0.5], out / ".run-a")
        journals = [path for path in sorted(folder.iterdir()) if path.suffix == ".journal"]
        for _ in range(rng.choice((1, 1, 5))):
            damage(rng.choice(journals if rng.random() < 0.7 else sorted(folder.iterdir())), rng)
        contents = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
        recovered, kept = recover(out)
        lost += not recovered
        if recovered:
            assert load(recovered[0].path).trace == recovered[0].trace and not kept
        elif kept:
            assert contents.items() <= {path.name: path.read_bytes() for path in kept[0].folder.iterdir()}.items()
        else:  # no usable record was left, or its removal seemed to have begun
            assert contents.get("pass-1.journal", b"").count(b"\n") <= 2 or "job.json" not in contents
        assert names(out) <= {"cpu", ".unmerged-a"}, names(out)
        shutil.rmtree(out)
    assert 0 < lost < 60


def damage(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes()) if path.exists() else bytearray()
    offset = rng.randrange(len(content) or 1)
    match rng.randrange(8):
        case 0 | 1 | 2:
            content[offset : offset + 1] = bytes([(content[offset : offset + 1] or b"0")[0] ^ 1 << rng.randrange(8)])
        case 3:
            content[offset : offset + rng.randrange(200)] = b""
        case 4:
            content[offset : offset + 64] = rng.randbytes(64)
        case 5:
            content[offset:offset] = content[max(0, offset - 300) : offset]
        case 6:
            content[offset:] = b""
        case 7:
            path.unlink(missing_ok=True)
            return
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "was", "content", "reason"),
    [
        ("job.json", b"{", b"\xff", "job.json: is damaged: 'utf-8' codec can't decode byte 0xff in position 0"),
        ("job.json", b'"passes": 1', b'"passes": "1"', "job.json: is damaged: Expected `int`"),
        ("job.json", b"def main(", b"def main(:", f"lecture.py:4: not valid Python {PYTHON}: invalid syntax"),
        ("machine.json", b"peaks", b"beaks", "machine.json: is damaged: Object contains unknown field"),
    ],
)
def test_journals_are_kept_if_the_job_or_the_machine_is_damaged(
    tmp_path: Path, name: str, was: bytes, content: bytes, reason: str
) -> None:
    folder = dead_run(tmp_path)
    journal = (folder / "pass-1.journal").read_bytes()
    (folder / name).write_bytes((folder / name).read_bytes().replace(was, content, 1))
    [(kept, why)] = kept_by(recover(tmp_path))
    assert kept == tmp_path / ".unmerged-a" and why.startswith(reason)
    assert (kept / "pass-1.journal").read_bytes() == journal


# --- which trace stays ----------------------------------------------------------------------------


def test_latest_dead_run_is_merged_and_others_are_kept(tmp_path: Path) -> None:
    for name, minute in (("b", 1), ("a", 3), ("c", 2)):
        dead_run(tmp_path, name, started=f"2026-01-01T00:0{minute}:00+00:00", done=False)
    [traced], kept = recover(tmp_path)
    assert traced.trace.run.started == "2026-01-01T00:03:00+00:00"
    reason = f"{tmp_path}/cpu/partial/trace.yaml is from a later run"
    assert kept_by(([], kept)) == [(tmp_path / ".unmerged-c", reason), (tmp_path / ".unmerged-b", reason)]


@pytest.mark.parametrize("done", [True, False])
def test_a_recovered_run_does_not_replace_a_later_trace(tmp_path: Path, done: bool) -> None:
    dead_run(tmp_path, started="2026-01-02T00:00:00+00:00")
    recover(tmp_path)
    complete = (tmp_path / "cpu/trace.yaml").read_bytes()
    dead_run(tmp_path, "b", done=done)
    assert kept_by(recover(tmp_path)) == [(tmp_path / ".unmerged-b", f"{tmp_path}/cpu/trace.yaml is from a later run")]
    assert (tmp_path / "cpu/trace.yaml").read_bytes() == complete and not (tmp_path / "cpu/partial").exists()


def test_recovered_run_replaces_only_earlier_traces(tmp_path: Path) -> None:
    for name, day, done in (("a", 1, True), ("b", 3, False)):
        dead_run(tmp_path, name, started=f"2026-01-0{day}T00:00:00+00:00", done=done)
        recover(tmp_path)
    dead_run(tmp_path, "c", started="2026-01-02T00:00:00+00:00")
    _, kept = recover(tmp_path)
    assert not kept and load(tmp_path / "cpu/trace.yaml").trace.run.started.startswith("2026-01-02")
    assert load(tmp_path / "cpu/partial/trace.yaml").trace.run.started.startswith("2026-01-03")


H200 = Machine("NVIDIA H200", "nvidia-h200", "cuda", memory_bytes=150 << 30, cpu="Intel Xeon", cores=16)


def test_a_trace_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row: the traces in OUT, the machine and the options of a new one, and its folder or facts of a refusal."""

    def chosen(existing: dict[str, Trace], machine: Machine = H200, **options: Any) -> str:
        out = Path(tempfile.mkdtemp(dir=tmp_path))
        for folder, trace in existing.items():
            (out / folder).mkdir(parents=True)
            write(trace, out / folder / "trace.yaml")
        try:
            name, stay = chosen_folder(out, machine, "lecture.py", TraceOptions(**options))
        except TraceToolsError as error:
            return str(error)
        assert [path.parent.name for path, _ in stay] == [*existing][: len(stay)]
        return name

    here, there = example_trace(machine=H200), example_trace(machine=replace(H200, cores=8))
    another = replace(here, run=replace(here.run, lecture="other.py"))
    own, more, other = "nvidia-h200", replace(H200, memory_bytes=155 << 30), {"nvidia-h200": another}
    assert chosen({}) == own and chosen({}, device="cuda:1") == f"{own}-2" and chosen({}, name="hot") == "hot"
    assert chosen({own: here}) == chosen({own: here}, more) == chosen({own: there}, force=True) == own
    assert chosen({own: there}) == chosen({own: there, f"{own}-2": here}) == f"{own}-2"
    assert chosen({own: there, f"{own}-2": there}) == f"{own}-3"
    assert says(chosen({"hot": there}, name="hot"), "hot/trace.yaml", "another machine", "--name", "--force")
    assert says(chosen(other), "other.py", "lecture.py", "-o", "--force") and chosen(other, force=True) == own
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert chosen({}) == f"{own}-rank3" and chosen({}, name="hot") == "hot-rank3"


def test_a_committed_trace_stays(tmp_path: Path) -> None:
    """In a clone the reference is not replaced, whatever made it; with --name and --force it is."""
    out = tmp_path / "rendered"
    (out / "nvidia-h200").mkdir(parents=True)
    write(example_trace(machine=H200), out / "nvidia-h200/trace.yaml")
    for command in (["init", "-q"], ["add", "rendered"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    for options, name in (
        (TraceOptions(), "nvidia-h200-2"),
        (TraceOptions(name="nvidia-h200"), "nvidia-h200"),
        (TraceOptions(force=True), "nvidia-h200"),
    ):
        assert chosen_folder(out, H200, "lecture.py", options)[0] == name


def test_a_draft_replaces_only_drafts(tmp_path: Path) -> None:
    """A trace of one pass goes to `partial/` if the trace in its place has several."""
    for day, passes, path in ((1, 1, "cpu"), (2, 1, "cpu"), (3, 2, "cpu"), (4, 1, "cpu/partial"), (5, 2, "cpu")):
        dead_run(tmp_path, started=f"2026-01-0{day}T00:00:00+00:00", passes=passes)
        [traced], kept = recover(tmp_path)
        assert not kept and traced.trace.run.complete and traced.path == tmp_path / path / "trace.yaml"
        assert [says(why, "2 passes") for _, why in traced.stay] == [True] * path.endswith("partial")
    assert not (tmp_path / "cpu/partial").exists()


def test_another_lectures_trace_is_not_replaced(tmp_path: Path) -> None:
    dead_run(tmp_path, lecture="other.py")
    recover(tmp_path)
    dead_run(tmp_path, "b", started="2026-01-02T00:00:00+00:00")
    recovered, [kept] = recover(tmp_path)
    assert not recovered and says(kept.why, "other.py", "lecture.py")
    assert load(tmp_path / "cpu/trace.yaml").trace.run.lecture == "other.py"


@pytest.mark.parametrize("done", [True, False])
def test_second_recovery_of_a_run_writes_the_same_trace(tmp_path: Path, done: bool) -> None:
    folder = dead_run(tmp_path, done=done)
    copy = shutil.copytree(folder, tmp_path / "copy")
    [first], _ = recover(tmp_path)
    written = first.path.read_bytes()
    copy.rename(folder)  # as if the tracer was killed before it removed the journals
    [second], kept = recover(tmp_path)
    assert not kept and second.path.read_bytes() == written and names(tmp_path) == {"cpu"}


def test_partly_removed_runs_are_never_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead_run(tmp_path)
    monkeypatch.setattr(shutil, "rmtree", lambda folder, **_: None)  # killed
    recover(tmp_path)
    monkeypatch.undo()
    assert names(tmp_path) == {"cpu", ".run-a"} and not (tmp_path / ".run-a/job.json").exists()
    (tmp_path / "cpu/trace.yaml").unlink()
    assert recover(tmp_path) == ([], []) and names(tmp_path) == {"cpu"} and not [*(tmp_path / "cpu").iterdir()]


# --- obstacles to recovery -------------------------------------------------------------------------


def test_files_and_links_named_like_runs_are_ignored(tmp_path: Path) -> None:
    (tmp_path / ".run-file").write_text("a person's own")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".run-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / ".run-dangling").symlink_to(tmp_path / "nowhere")
    before = names(tmp_path)
    dead_run(tmp_path)
    assert len(recover(tmp_path)[0]) == 1 and names(tmp_path) == before | {"cpu"}


def test_journals_stay_if_the_trace_cannot_be_written(tmp_path: Path) -> None:
    dead_run(tmp_path)
    (tmp_path / "cpu").write_text("a file in its place")
    recovered, [kept] = recover(tmp_path)
    assert not recovered and kept.intact and f"{tmp_path}/cpu: can't be written" in kept.why
    (tmp_path / "cpu").unlink()
    assert len(recover(tmp_path)[0]) == 1 and names(tmp_path) == {"cpu"}


def test_folder_swept_during_its_creation_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock, calls = fcntl.flock, []

    def sweep_and_lock(lock: int, operation: int) -> None:
        calls.append(lock)
        if len(calls) == 1:
            recover(tmp_path)
        flock(lock, operation)

    monkeypatch.setattr(run_folders.fcntl, "flock", sweep_and_lock)
    with run_folder(tmp_path) as folder:
        assert names(tmp_path) == {folder.name}


def test_stale_folders_of_killed_tracers_are_swept(tmp_path: Path) -> None:
    (tmp_path / ".run-abc").mkdir()  # its tracer was killed before it wrote a file
    with run_folder(tmp_path) as folder:
        assert recover(tmp_path) == ([], []) and names(tmp_path) == {folder.name}
