"""Create and lock a run's folder in OUT, merge it into a trace, and recover it if its tracer was killed.

    name, stay = chosen_folder(out, machine, "lecture.py", options)     before the lecture runs
    with run_folder(out) as folder:               OUT/.run-…, locked while this process lives
        traced = merged(folder, out)              OUT/<machine>/trace.yaml, or OUT/<machine>/partial/trace.yaml
    recovered, kept = recover(out)                runs of tracers that were killed

A run's folder has three states. OUT/.run-… is being written, or its tracer was killed, and the next recovery merges it.
It is removed once its trace was checked and written, first its job, because no run without a job is merged. Journals
that make no trace are moved to OUT/.unmerged-…, where no recovery finds them, for a person.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from trace_tools.errors import LectureError, NothingRecordedError, TraceFileError, TraceToolsError, UsageError, in_words
from trace_tools.machines import devices
from trace_tools.machines.machine import is_same_machine
from trace_tools.trace.file import load_head, write
from trace_tools.trace.model import Machine, Run, Step, Trace
from trace_tools.tracing import failures, ranks
from trace_tools.tracing.isolation import private_folder
from trace_tools.tracing.job import JOB, WRITTEN, Job
from trace_tools.tracing.journal import read_journal
from trace_tools.tracing.merge.merging import merge
from trace_tools.tracing.options import TraceOptions
from trace_tools.util.files import sweep
from trace_tools.util.git import is_committed

RUN, UNMERGED = ".run-", ".unmerged-"
TRACE = "trace.yaml"


class Stays(NamedTuple):
    """A trace that this one does not replace, and the reason."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace and its files."""

    trace: Trace
    path: Path
    seconds: list[tuple[str, float]] = field(default_factory=list)  # wall time of each process
    written: list[str] = field(default_factory=list)  # files that the lecture wrote in the copy of its folder
    stay: list[Stays] = field(default_factory=list)
    failed: KeptError | None = None  # journals and traceback, if the tools failed in a process


class KeptError(TraceToolsError):
    """Journals that made no trace, or of tools that failed, are kept in `folder`.

    If they are `intact`, for example because the disk is full, the next recovery may succeed.
    """

    def __init__(self, folder: Path, why: str, *, intact: bool = False, failed: bool = False) -> None:
        what = "the traceback and its journals are" if failed else "its journals are"
        super().__init__(f"{why}; {what} kept in {folder}")
        self.folder, self.why, self.intact = folder, why, intact
        self.exit_code = os.EX_SOFTWARE if failed else 2


class SupersededError(TraceToolsError):
    """The trace would replace an existing trace that must stay."""


# --- choosing its place -------------------------------------------------------------------------------------------


def chosen_folder(out: Path, machine: Machine, lecture: str, options: TraceOptions) -> tuple[str, list[Stays]]:
    """Return the name of a trace's folder in `out`, and the traces that stay for it, before the run.

    It is the name of the machine (`amd-epyc-2-cores`, for `--device cuda:1` `nvidia-h200-2`), or `--name`, with
    `-rank<r>` under a launcher. If that folder has a trace of another machine, or one that is committed in git, which
    others use as a reference, the folder is `<name>-2`, or has the next number that is free. Raises SupersededError
    for a trace of another lecture and, with `--name`, of another machine. `--force` replaces every trace.
    """
    card = 1 + (devices.number(options.device) or 0)
    own = ranks.named(options.name or (machine.slug if card == 1 else f"{machine.slug}-{card}"))
    name, stay = own, list[Stays]()
    while (path := out / name / TRACE).exists() and not options.force:
        refuse_other_lecture(path, lecture)
        same = is_same_machine(load_head(path).machine, machine)
        if options.name is not None and not same:
            raise SupersededError(
                f"{path} is a trace of another machine; choose another folder with --name, or replace it with --force"
            )
        if options.name is not None or (same and not is_committed(path)):
            break
        stay.append(Stays(path, "it is in git" if same else "it is of another machine"))
        name = f"{own}-{len(stay) + 1}"
    return name, stay


def refuse_other_lecture(path: Path, lecture: str) -> None:
    """Raise SupersededError if the trace at `path` is of another lecture."""
    other = load_head(path).run.lecture if path.exists() else lecture
    if other != lecture:
        raise SupersededError(
            f"{path} is a trace of {other}, not of {lecture}; choose another folder with -o, or replace it with --force"
        )


# --- making one ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def run_folder(out: Path) -> Iterator[Path]:
    """Make a folder for journals in `out`, locked while this process lives.

    After an error without records it is removed; with records it stays for `recover`, as the error explains. Raises
    UsageError for files that can't be written, processes that can't be started, and exhausted memory.
    """
    with contextlib.ExitStack() as stack:
        try:
            out.mkdir(parents=True, exist_ok=True)
            while True:  # until no other tracer has removed it as dead, just before it was locked
                # a real path, because processes run in other folders, and don't copy this one
                folder = Path(tempfile.mkdtemp(prefix=RUN, dir=out.resolve()))
                if stack.enter_context(_locked(folder)):
                    break
        except OSError as error:
            raise UsageError(f"{out}: can't be written: {error.strerror}") from None
        try:
            yield folder
        except BaseException as error:
            kept = has_records(folder)
            if not kept:
                remove(folder)
            advice = f"`trace-tools recover {out}` writes the trace of the steps so far"
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(f"interrupted; {advice if kept else 'no step was recorded'}") from None
            if isinstance(error, UsageError | OSError | MemoryError):
                where = f"{out}: " if isinstance(error, OSError) and not error.filename else ""
                then = f"; once this is corrected, {advice}" if kept else ""
                raise UsageError(f"{where}{in_words(error)}{then}") from error
            raise


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold a folder's lock; yield whether the lock was free and the folder still exists."""
    with contextlib.ExitStack() as stack:
        alone = False
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            lock = os.open(folder / "lock", os.O_WRONLY | os.O_CREAT, 0o600)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = os.path.samestat(os.fstat(lock), os.stat(folder / "lock"))
        yield alone


def remove(folder: Path) -> None:
    """Remove a run's folder, its job first, so that the rest is never merged after a kill."""
    with contextlib.suppress(OSError):
        (folder / JOB).unlink()
    private_folder.remove(folder)


def has_records(folder: Path) -> bool:
    """Return whether the folder holds a record of the lecture, or a damaged line that may be one."""
    paths = folder.glob("*.journal") if (folder / JOB).exists() else ()
    try:
        return any(isinstance(line, Step) for path in paths for line in read_journal(path))
    except TraceFileError:
        return True


# --- merging one --------------------------------------------------------------------------------------------------


def merged(folder: Path, out: Path, *, dead: bool = False) -> Traced:
    """Merge the journals in `folder`, check the trace, write it in `out`, and remove the folder.

    If the tracer is `dead`, a trace of a later run is not replaced. Raises NothingRecordedError if no step was
    recorded. Raises UsageError, OSError or MemoryError if the system refuses something; the folder then stays. Raises
    KeptError for any other failure: another attempt would fail as well, so the folder is set aside.
    """
    try:
        traced = _written(folder, out, dead=dead)
    except (UsageError, OSError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the disk has damaged a journal, or merging has a mistake
        if isinstance(error, NothingRecordedError) and not has_records(folder) and not failures.tracebacks(folder):
            remove(folder)
            raise
        raise set_aside(folder, error) from error
    if paths := failures.tracebacks(folder):
        return replace(
            traced, failed=set_aside(folder, TraceToolsError(failures.in_words(paths[0]) or "trace-tools failed"))
        )
    remove(folder)
    return traced


def _written(folder: Path, out: Path, *, dead: bool) -> Traced:
    """Merge the journals in `folder`, check the trace, and write it in `out`.

    The trace goes to `partial/` if it is not complete, and if it has one pass and the earlier trace has several,
    because a draft replaces only drafts.
    """
    job = Job.read(folder)
    trace = merge(folder)
    complete, partial = (out / trace.machine.slug / inner / TRACE for inner in ("", "partial"))
    is_complete = trace.run.complete and trace.run.only is None
    stay, written = list[Stays](), list[str]()
    if is_complete and not job.options.force and complete.exists():
        refuse_other_lecture(complete, trace.run.lecture)
        if trace.run.passes == 1 < (passes := load_head(complete).run.passes):
            is_complete, stay = False, [Stays(complete, f"it has {passes} passes")]
    path = complete if is_complete else partial
    for existing in (path, complete) if dead else ():
        if _is_later(existing, trace.run):
            raise SupersededError(f"{existing} is from a later run")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path.parent}: can't be written: {error.strerror}") from None
    sweep(path.parent)
    try:
        write(trace, path)
    except TraceFileError as error:
        raise LectureError(job.name, None, f"the record of this run is damaged: {error}") from None
    if is_complete and not (dead and _is_later(partial, trace.run)):
        shutil.rmtree(partial.parent, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError, ValueError):  # no run ended by itself, or the disk was full
        written = json.loads((folder / WRITTEN).read_text(encoding="utf-8"))
    return Traced(trace, path, written=written, stay=stay)


def _is_later(path: Path, run: Run) -> bool:
    """Return whether the trace at `path` is of a later run; an unreadable trace counts as later."""
    try:
        return path.exists() and load_head(path).run.started > run.started
    except TraceFileError:
        return True


def set_aside(folder: Path, error: BaseException) -> KeptError:
    """Rename a folder so that no recovery finds it; return the error that names it. A traceback of ours is kept."""
    why, ours = str(error), bool(failures.tracebacks(folder))
    if not isinstance(error, TraceToolsError):
        ours = True
        failures.keep(folder / "merging", error)
        why = failures.in_words(folder / "merging") or why
    with contextlib.suppress(OSError):
        folder = folder.rename(folder.with_name(UNMERGED + folder.name.removeprefix(RUN)))
    return KeptError(folder, why, failed=ours)


# --- what dead tracers left ---------------------------------------------------------------------------------------


def recover(out: Path) -> tuple[list[Traced], list[KeptError]]:
    """Merge the journals in `out` of tracers that have died, the latest run first; return traces and kept journals."""
    recovered: list[Traced] = []
    kept: list[KeptError] = []
    sweep(out)
    folders = [path for path in out.glob(f"{RUN}*") if path.is_dir() and not path.is_symlink()]
    for folder in sorted(folders, key=_started, reverse=True):
        try:
            with _locked(folder) as alone:
                if alone and (folder / JOB).exists():
                    recovered.append(merged(folder, out, dead=True))
                elif alone:
                    remove(folder)
        except NothingRecordedError:
            pass
        except KeptError as error:
            kept.append(error)
        except (UsageError, OSError, MemoryError) as error:  # such as a full disk
            kept.append(KeptError(folder, str(error) or "not enough memory to merge it", intact=True))
    return recovered, kept


def _started(folder: Path) -> tuple[str, str]:
    try:
        return Job.read(folder).started, folder.name
    except (OSError, TraceFileError):
        return "", folder.name
