"""Create and lock a run's folder in OUT, merge it into a trace, and recover it if its tracer was killed.

    name, stay = chosen_folder(out, machine, "lecture.py", options)     before the lecture runs
    with run_folder(out) as folder:               OUT/.run-…, locked while this process lives
        traced = merge_folder(folder, out)        OUT/<machine>/trace.yaml, or OUT/<machine>/partial/trace.yaml
        remove(folder)                            once its trace is on the disk
    recovered, kept = recover(out)                runs of tracers that were killed

Journals with records are deleted only after their trace was checked and written. Journals that make no trace are moved
to OUT/.unmerged-…, where they don't block later runs. Folders named `.done-` are being removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from trace_tools.errors import (
    FailedError,
    LectureError,
    NothingRecordedError,
    TraceFileError,
    TraceToolsError,
    UsageError,
)
from trace_tools.machines import devices
from trace_tools.machines.machine import is_same_machine
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import Machine, Run, Step, Trace
from trace_tools.trace.trace_file import dump, load_head, validate, write
from trace_tools.tracing import ranks
from trace_tools.tracing.failures import in_words, keep, tracebacks
from trace_tools.tracing.isolation import private_folder
from trace_tools.tracing.journal import journals, read_journal
from trace_tools.tracing.merge.merging import merge
from trace_tools.tracing.merge.reader import stored
from trace_tools.tracing.options import TraceOptions
from trace_tools.util.files import sweep
from trace_tools.util.git import is_committed

RUN, DONE, UNMERGED = ".run-", ".done-", ".unmerged-"
TRACE = "trace.yaml"


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace and its files."""

    trace: Trace
    path: Path
    seconds: list[tuple[str, float]] = field(default_factory=list)  # wall time of each process
    written: list[str] = field(default_factory=list)  # files that the lecture wrote in the copy of its folder
    stay: list[Stays] = field(default_factory=list)
    failed: Kept | None = None  # journals and traceback, if the tools failed in a process


class Stays(NamedTuple):
    """A trace that this one does not replace, and the reason."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Journals that were kept: their folder, and the reason."""

    folder: Path
    why: str
    again: bool = False  # the journals are intact, and the next recovery may succeed


class SupersededError(TraceToolsError):
    """The trace would replace an existing trace that must stay."""


# --- choosing its place -------------------------------------------------------------------------------------------


def chosen_folder(out: Path, machine: Machine, lecture: str, options: TraceOptions) -> tuple[str, list[Stays]]:
    """Return the name of a trace's folder in `out`, and the traces that stay for it; nothing has run yet.

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


# --- making one ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def run_folder(out: Path) -> Iterator[Path]:
    """Make a folder for journals in `out`, locked while this process lives; remove it after an error without records.

    Raises UsageError if `out` is not writable.
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
        except BaseException:
            if not has_records(folder) and not tracebacks(folder):
                remove(folder)
            raise


def _renamed(folder: Path, prefix: str) -> Path:
    return folder.rename(folder.with_name(prefix + folder.name.partition("-")[2]))


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
    """Remove a run's folder. It is renamed first, so that a partly removed run is never merged."""
    with contextlib.suppress(OSError):
        folder = _renamed(folder, DONE)
    private_folder.remove(folder)


def has_records(folder: Path) -> bool:
    """Return whether the folder holds a record of the lecture, or a damaged line that may be one."""
    for path in journals(folder):
        unreadable: list[int] = []
        if any(isinstance(line, Step) for line in read_journal(path, unreadable)):
            return True
        if unreadable:
            return True
    return False


# --- merging one --------------------------------------------------------------------------------------------------


def merge_folder(folder: Path, out: Path, *, dead: bool = False) -> Traced:
    """Merge the journals in `folder`, check the trace, and write it in `out`.

    The trace goes to `partial/` if it is not complete, and if it has one pass and the trace in its place has several:
    a draft replaces only drafts. If the tracer is `dead`, a trace of a later run is not replaced. Raises
    NothingRecordedError if no step was recorded, UsageError if `out` can't be written, SupersededError if an existing
    trace must stay, LectureError if the trace is invalid, and any error of merging.
    """
    options = stored(folder / "run.json")
    with (folder / "lecture.py").open(encoding="utf-8", newline="") as file:
        source = parse_source(file.read(), str(options["lecture"]))
    trace = _checked(merge(folder, source))
    complete, partial = (out / trace.machine.slug / inner / TRACE for inner in ("", "partial"))
    is_complete = trace.run.complete and trace.run.only is None
    stay = []
    if is_complete and not options.get("force") and complete.exists():
        refuse_other_lecture(complete, trace.run.lecture)
        if trace.run.passes == 1 < (passes := load_head(complete).run.passes):
            is_complete, stay = False, [Stays(complete, f"it has {passes} passes")]
    path = complete if is_complete else partial
    for existing in dict.fromkeys((path, complete)) if dead else ():
        if existing.exists() and (started := load_head(existing).run.started) >= trace.run.started:
            same_run = existing is path and started == trace.run.started
            if same_run and path.read_bytes() == dump(trace).encode("utf-8"):
                return Traced(trace, path)  # its tracer was killed just after writing it
            raise SupersededError(f"{existing} is from a later run")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path.parent}: can't be written: {error.strerror}") from None
    sweep(path.parent)
    write(trace, path)
    if is_complete and not (dead and _is_later(partial, trace.run)):
        shutil.rmtree(partial.parent, ignore_errors=True)
    return Traced(trace, path, stay=stay)


def _checked(trace: Trace) -> Trace:
    """Return the trace if it is valid. Raises LectureError with the lecture's line if not."""
    try:
        validate(trace, Path("trace"))
    except TraceFileError as error:
        match = re.match(r"steps\[(\d+)\]", error.where or "")
        line = getattr(trace.steps[int(match[1])], "line", None) if match else None
        raise LectureError(trace.run.lecture, line, f"the record of this run is damaged: {error}") from None
    return trace


def _is_later(path: Path, run: Run) -> bool:
    """Return whether the trace at `path` is of a later run; an unreadable trace counts as later."""
    try:
        return path.exists() and load_head(path).run.started > run.started
    except TraceFileError:
        return True


def refuse_other_lecture(path: Path, lecture: str) -> None:
    """Raise SupersededError if the trace at `path` is of another lecture."""
    other = load_head(path).run.lecture if path.exists() else lecture
    if other != lecture:
        raise SupersededError(
            f"{path} is a trace of {other}, not of {lecture}; choose another folder with -o, or replace it with --force"
        )


def dispose(folder: Path) -> Kept | None:
    """Remove the folder of a run after its trace was written; keep it if the tools failed in any process."""
    paths = tracebacks(folder)
    if not paths:
        remove(folder)
        return None
    return set_aside(folder, FailedError(in_words(paths[0]) or "trace-tools failed"))


def set_aside(folder: Path, error: BaseException) -> Kept:
    """Rename a folder so that no recovery finds it, and return the reason; a failure's traceback is kept in it."""
    why = str(error)
    if not isinstance(error, TraceToolsError):
        keep(folder / "merging", error)
    if isinstance(error, OSError) and error.filename:
        why = f"{Path(error.filename).name}: {error.strerror}"
    elif not isinstance(error, TraceToolsError):
        entry = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {why} ({Path(entry.filename).name}:{entry.lineno})"
    try:
        return Kept(_renamed(folder, UNMERGED), why)
    except OSError as renaming:
        return Kept(folder, f"{why}; {renaming.strerror}")


# --- what dead tracers left ---------------------------------------------------------------------------------------


def recover(out: Path) -> tuple[list[Traced], list[Kept]]:
    """Merge the journals in `out` of tracers that have died, the latest run first; return traces and kept journals."""
    recovered: list[Traced] = []
    kept: list[Kept] = []
    sweep(out)
    for folder in filter(_is_folder, out.glob(f"{DONE}*")):
        with contextlib.suppress(OSError), _locked(folder) as alone:
            if alone:
                shutil.rmtree(folder, ignore_errors=True)
    for folder in sorted(filter(_is_folder, out.glob(f"{RUN}*")), key=_started, reverse=True):
        try:
            with _locked(folder) as alone:
                if alone:
                    result = _recovered(folder, out)
                    if isinstance(result, Kept):
                        kept.append(result)
                    elif result is not None:
                        recovered.append(result)
        except (UsageError, OSError, MemoryError) as error:  # such as a full disk
            kept.append(Kept(folder, str(error) or "not enough memory to merge it", again=True))
    return recovered, kept


def _recovered(folder: Path, out: Path) -> Traced | Kept | None:
    """Make the trace of a dead tracer's run; return None if no step was recorded."""
    try:
        traced = merge_folder(folder, out, dead=True)
    except (UsageError, MemoryError):
        raise
    except Exception as error:  # journals damaged by the disk, or of another version
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise
        failed = error
    else:
        return replace(traced, failed=dispose(folder))
    if has_records(folder) or not isinstance(failed, (NothingRecordedError, FileNotFoundError)):
        return set_aside(folder, failed)
    remove(folder)
    return None


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _started(folder: Path) -> tuple[str, str]:
    try:
        started = str(stored(folder / "run.json")["started"])
    except (OSError, TraceFileError, LookupError, TypeError):
        started = ""
    return started, folder.name
