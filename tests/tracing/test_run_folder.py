"""Run folders: journals of dead tracers are merged or kept; none is lost, whatever the folder contains."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.messages import says
from tests.programs import require
from tests.traces import example_trace
from tests.tracing.dead_runs import dead_run
from trace_tools.errors import TraceToolsError, UsageError
from trace_tools.trace.file import load, write
from trace_tools.trace.model import Frame, Machine, Trace
from trace_tools.tracing import run_folder as run_folders
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.run_folder import KeptError, Traced, chosen_folder, merged, recover, run_folder

PYTHON = ".".join(map(str, sys.version_info[:2]))


def names(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


def test_complete_run_of_a_killed_tracer_is_a_complete_trace(tmp_path: Path) -> None:
    dead_run(tmp_path)
    [traced], kept = recover(tmp_path)
    trace = load(tmp_path / "cpu/trace.yaml")
    assert not kept and trace == traced.trace and trace.run.complete and not trace.run.dropped
    functions = {event.function for event in trace.steps if isinstance(event, Frame)}
    assert functions == {"<module>", "main", "numbers", "half", "words"} and names(tmp_path) == {"cpu"}


def test_killed_run_is_a_partial_trace(tmp_path: Path) -> None:
    """The line that was being written is no damage."""
    journal = dead_run(tmp_path, done=False) / "pass-1.journal"
    journal.write_bytes(journal.read_bytes() + b'{"id":900,"fra')
    [traced], kept = recover(tmp_path)
    assert not kept and traced.path == tmp_path / "cpu/partial/trace.yaml" and traced.trace.run.dropped == []
    assert "stopped when the tracer was killed" in load(traced.path).run.ended
    assert names(tmp_path) == {"cpu"}


def test_empty_status_file_is_reported_as_full_disk(tmp_path: Path) -> None:
    """The files were created, but the disk had no room for their content."""
    folder = dead_run(tmp_path, done=False)
    for name in ("pass-1.status", "pass-1.out", "written.json"):
        (folder / name).touch()
    [traced], _ = recover(tmp_path)
    assert says(traced.trace.run.ended, "full disk", "(pass 1)")


@pytest.mark.parametrize(
    ("name", "was", "content", "reason"),
    [
        ("job.json", b"{", b"\xff", "job.json: is damaged: 'utf-8' codec can't decode byte 0xff in position 0"),
        ("job.json", b'"passes": 1', b'"passes": "1"', "job.json: is damaged: Expected `int`"),
        ("job.json", b"def main(", b"def main(:", f"lecture.py:4: not valid Python {PYTHON}: invalid syntax"),
        ("machine.json", b"peaks", b"beaks", "machine.json: is damaged: Object contains unknown field"),
        ("pass-1.journal", b"\n", b"\n\xff\x00\n", "pass-1.journal: line 2: is damaged"),
    ],
)
def test_a_run_with_a_damaged_file_is_kept(tmp_path: Path, name: str, was: bytes, content: bytes, reason: str) -> None:
    folder = dead_run(tmp_path)
    (folder / name).write_bytes((folder / name).read_bytes().replace(was, content, 1))
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    recovered, [kept] = recover(tmp_path)
    assert not recovered and kept.folder == tmp_path / ".unmerged-a" and kept.why.startswith(reason)
    assert files.items() <= {path.name: path.read_bytes() for path in kept.folder.iterdir()}.items()


# --- which trace stays ----------------------------------------------------------------------------


def test_latest_dead_run_is_merged_and_others_are_kept(tmp_path: Path) -> None:
    for name, day in (("b", 1), ("a", 3), ("c", 2)):
        dead_run(tmp_path, name, day=day, done=False)
    [traced], kept = recover(tmp_path)
    assert traced.trace.run.started.startswith("2026-01-03")
    assert [one.folder.name for one in kept] == [".unmerged-c", ".unmerged-b"]
    assert {one.why for one in kept} == {f"{tmp_path}/cpu/partial/trace.yaml is from a later run"}


LATER, OTHER = "is from a later run", "other.py, not of lecture.py"


@pytest.mark.parametrize(
    ("runs", "outcomes", "left"),
    [
        ([(2, {}), (1, {})], ["cpu", LATER], {"cpu": 2}),
        ([(2, {}), (1, {"done": False})], ["cpu", LATER], {"cpu": 2}),
        ([(1, {}), (3, {"done": False}), (2, {})], ["cpu", "cpu/partial", "cpu"], {"cpu": 2, "cpu/partial": 3}),
        ([(1, {"done": False}), (2, {})], ["cpu/partial", "cpu"], {"cpu": 2}),
        # a trace of one pass, a draft, does not replace one of several
        ([(1, {}), (2, {"passes": 2}), (3, {})], ["cpu", "cpu", "cpu/partial"], {"cpu": 2, "cpu/partial": 3}),
        ([(1, {"passes": 2}), (2, {}), (3, {"passes": 2})], ["cpu", "cpu/partial", "cpu"], {"cpu": 3}),
        ([(1, {"lecture": "other.py"}), (2, {})], ["cpu", OTHER], {"cpu": 1}),
    ],
)
def test_a_run_replaces_what_it_may(
    tmp_path: Path, runs: list[tuple[int, dict[str, Any]]], outcomes: list[str], left: dict[str, int]
) -> None:
    for (day, run), outcome in zip(runs, outcomes, strict=True):
        dead_run(tmp_path, f"{day}", day=day, **run)
        recovered, kept = recover(tmp_path)
        if outcome.startswith("cpu"):
            assert not kept and [one.path for one in recovered] == [tmp_path / outcome / "trace.yaml"]
            is_refused_draft = "done" not in run and outcome != "cpu"
            assert [says(why, "2 passes") for _, why in recovered[0].stay] == [True] * is_refused_draft
        else:
            assert not recovered and kept[0].folder == tmp_path / f".unmerged-{day}" and outcome in kept[0].why
    days = {path.parent: int(load(path).run.started[8:10]) for path in tmp_path.rglob("cpu/**/trace.yaml")}
    assert {str(folder.relative_to(tmp_path)): day for folder, day in days.items()} == left


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
    require("git")
    out = tmp_path / "rendered"
    (out / "nvidia-h200").mkdir(parents=True)
    write(example_trace(machine=H200), out / "nvidia-h200/trace.yaml")
    for command in (["init", "-q"], ["add", "rendered"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    chosen = [(TraceOptions(), "-2"), (TraceOptions(name="nvidia-h200"), ""), (TraceOptions(force=True), "")]
    for options, number in chosen:
        assert chosen_folder(out, H200, "lecture.py", options)[0] == f"nvidia-h200{number}"


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


def test_only_folders_of_dead_tracers_are_merged_or_swept(tmp_path: Path) -> None:
    (tmp_path / ".run-abc").mkdir()  # its tracer was killed before it wrote a file
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".run-file").write_text("a person's own")
    (tmp_path / ".run-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / ".run-dangling").symlink_to(tmp_path / "nowhere")
    dead_run(tmp_path)
    with run_folder(tmp_path) as folder:
        assert len(recover(tmp_path)[0]) == 1
        assert names(tmp_path) == {"cpu", "elsewhere", ".run-file", ".run-link", ".run-dangling", folder.name}


@pytest.fixture
def merge_into(tmp_path: Path) -> Callable[..., Traced]:
    """Return a function that merges a run whose processes have ended, after `change` altered its journal."""

    def merge(out: Path, change: Callable[[bytes], bytes] = bytes) -> Traced:
        run = dead_run(tmp_path / "elsewhere")
        (run / "pass-1.journal").write_bytes(change((run / "pass-1.journal").read_bytes()))
        with run_folder(out) as folder:
            shutil.copytree(run, folder, dirs_exist_ok=True)
            return merged(folder, out)

    return merge


def test_trace_is_validated_before_it_replaces_another(tmp_path: Path, merge_into: Callable[..., Traced]) -> None:
    out = tmp_path / "rendered"
    complete = merge_into(out).path.read_bytes()
    shutil.rmtree(tmp_path / "elsewhere")
    with pytest.raises(KeptError) as raised:
        merge_into(out, lambda journal: journal.replace(b'"line":20,', b'"line":2000,'))
    [unmerged] = out.glob(".unmerged-*")
    assert says(raised.value, "lecture.py: ", "found 2000; expected 1 to ", f"kept in {unmerged}")
    assert b'"line":2000,' in (unmerged / "pass-1.journal").read_bytes()
    assert (out / "cpu/trace.yaml").read_bytes() == complete and names(out / "cpu") == {"trace.yaml"}
    assert names(out) == {"cpu", unmerged.name}


def test_journals_stay_if_the_trace_cannot_be_written(tmp_path: Path, merge_into: Callable[..., Traced]) -> None:
    out = tmp_path / "rendered"
    out.mkdir()
    (out / "cpu").write_text("a file in its place")
    with pytest.raises(UsageError) as raised:
        merge_into(out)
    assert says(raised.value, f"{out}/cpu: can't be written: File exists", f"`trace-tools recover {out}`")
    recovered, [kept] = recover(out)
    assert not recovered and kept.intact and f"{out}/cpu: can't be written" in kept.why
    (out / "cpu").unlink()
    assert len(recover(out)[0]) == 1 and names(out) == {"cpu"}


def test_ctrl_c_while_writing_the_trace_keeps_the_journals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merge_into: Callable[..., Traced]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_folders, "write", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"^interrupted; `trace-tools recover \S+/rendered` "):
        merge_into(tmp_path / "rendered")
    monkeypatch.undo()
    assert len(recover(tmp_path / "rendered")[0]) == 1


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
