"""A run's folder below OUT: made and locked, merged into a trace, recovered where its tracer was killed.

    with run_folder(out) as folder:               OUT/.run-…, locked while this process lives
        traced = merge_folder(folder, out)        OUT/<machine>/trace.yaml, or OUT/<machine>/partial/trace.yaml
        remove(folder)                            once its trace is on the disk
    recovered, kept = recover(out)                what tracers left that are no more

Journals are deleted in one case only: their trace was checked and written. Those that make none are set aside, in
OUT/.unmerged-…, and stand in no next run's way. What begins with `.new-` is being made, with `.done-` being removed.
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
from dataclasses import dataclass, field
from pathlib import Path

from trace_tools.errors import LectureError, NothingRecordedError, TraceFileError, TraceToolsError, UsageError
from trace_tools.file_format.trace_file import dump, load_head, write
from trace_tools.file_format.validation import validate
from trace_tools.files import sweep
from trace_tools.schema import Run, Trace
from trace_tools.statements import ParsedSource, parse_source
from trace_tools.tracing import private_folder
from trace_tools.tracing.journal import FrameEnd, FrameStart, ProcessNote, RunEnd, RunStart, journals, read_journal
from trace_tools.tracing.merge import merge, stored

NEW, RUN, DONE, UNMERGED = ".new-", ".run-", ".done-", ".unmerged-"
MERGING = "merging"  # a file that lies in a folder while it is being recovered


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace, and where it was written."""

    trace: Trace
    path: Path
    folder: Path  # OUT/<machine>
    source: ParsedSource
    seconds: list[tuple[str, float]] = field(default_factory=list)  # wall time of each process


@dataclass(frozen=True, slots=True)
class Kept:
    """Journals of a dead tracer of which no trace was made: where they lie, and why."""

    folder: Path
    why: str
    again: bool = False  # nothing is wrong with them: the next recovery may do it


class SupersededError(TraceToolsError):
    """A trace would take the place of one that it may not replace."""


# --- making one ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def run_folder(out: Path) -> Iterator[Path]:
    """Make a folder for journals below `out`, locked while this process lives; remove it if nothing is recorded."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder, lock = _made(out)
    except OSError as error:
        raise UsageError(f"{out}: can't be written: {error.strerror}") from None
    try:
        yield folder
    except BaseException:
        if not has_records(folder):
            remove(folder)
        raise
    finally:
        os.close(lock)


def _made(out: Path) -> tuple[Path, int]:
    """Make a folder and lock it, before it has the name by which others look for those of dead tracers."""
    while True:
        fresh = Path(tempfile.mkdtemp(prefix=NEW, dir=out.absolute()))  # processes run in folders of their own
        lock = -1
        try:
            lock = os.open(fresh / "lock", os.O_WRONLY | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _renamed(fresh, RUN), lock
        except (FileNotFoundError, BlockingIOError):  # another tracer swept it, just before it was locked
            if lock >= 0:
                os.close(lock)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


def _renamed(folder: Path, prefix: str) -> Path:
    return folder.rename(folder.with_name(prefix + folder.name.partition("-")[2]))


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold a folder's lock; yield whether it was free, and the folder is still there."""
    lock = os.open(folder / "lock", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield os.path.samestat(os.fstat(lock), os.stat(folder / "lock"))
    except (BlockingIOError, FileNotFoundError):
        yield False
    finally:
        os.close(lock)


def remove(folder: Path) -> None:
    """Remove a run's folder; whatever kills this process meanwhile, half a run's journals are never merged."""
    with contextlib.suppress(OSError):
        folder = _renamed(folder, DONE)
    private_folder.remove(folder)


def has_records(folder: Path) -> bool:
    """Whether anything of the lecture was recorded there, or can't be told from that."""
    for path in (path for pattern in ("*.journal", "*.tail") for path in journals(folder, pattern)):
        unreadable: list[int] = []
        for record in read_journal(path, unreadable):
            if not isinstance(record, (RunStart, RunEnd, FrameStart, FrameEnd, ProcessNote)):
                return True
        if unreadable:
            return True
    return False


# --- merging one --------------------------------------------------------------------------------------------------


def merge_folder(folder: Path, out: Path, *, dead: bool = False) -> Traced:
    """Merge the journals in `folder`, check the trace, and write it below `out`: the whole lecture's, or to `partial/`.

    Of a `dead` tracer, damaged records are looked for where the trace is not valid, and a run that started later is
    not replaced. Raises NothingRecordedError when there is nothing to merge, UsageError when `out` can't be written,
    SupersededError when what lies there stays, and LectureError or whatever else merging comes upon.
    """
    asked = stored(folder / "run.json")
    source = parse_source(_text(folder / "lecture.py"), str(asked["lecture"]))
    trace = _merged(folder, source, dead=dead)
    machine_folder = out / trace.machine.slug
    complete, partial = machine_folder / "trace.yaml", machine_folder / "partial/trace.yaml"
    whole = trace.run.complete and trace.run.only is None
    path = complete if whole else partial
    if whole and not asked.get("force"):
        refuse_other_lecture(complete, trace.run.lecture)
    for there in dict.fromkeys((path, complete)) if dead else ():
        if there.exists() and (started := load_head(there).run.started) >= trace.run.started:
            if there is path and started == trace.run.started and path.read_bytes() == dump(trace).encode("utf-8"):
                return Traced(trace, path, machine_folder, source)  # its tracer was killed just after writing it
            raise SupersededError(f"{there} is of a later run")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path.parent}: can't be written: {error.strerror}") from None
    sweep(path.parent)
    write(trace, path)
    if whole and not (dead and _is_later(partial, trace.run)):
        shutil.rmtree(partial.parent, ignore_errors=True)
    return Traced(trace, path, machine_folder, source)


def _merged(folder: Path, source: ParsedSource, *, dead: bool) -> Trace:
    try:
        return _checked(merge(folder, source))
    except (NothingRecordedError, MemoryError):
        raise
    except Exception:
        if not dead:
            raise
        return _checked(merge(folder, source, wary=True))


def _checked(trace: Trace) -> Trace:
    """Return a trace that is valid. Raises LectureError with the line where it is not."""
    try:
        validate(trace, Path("trace"))
    except TraceFileError as error:
        at = re.match(r"steps\[(\d+)\]", error.where or "")
        line = getattr(trace.steps[int(at[1])], "line", None) if at else None
        raise LectureError(trace.run.lecture, line, f"what was recorded makes no valid trace: {error}") from None
    return trace


def _is_later(path: Path, run: Run) -> bool:
    """Whether a trace that lies there is of a later run, as far as can be told."""
    try:
        return path.exists() and load_head(path).run.started > run.started
    except TraceFileError:
        return True


def refuse_other_lecture(path: Path, lecture: str) -> None:
    """Raise SupersededError when the trace at `path` is another lecture's."""
    there = load_head(path).run.lecture if path.exists() else lecture
    if there != lecture:
        raise SupersededError(
            f"{path}: is a trace of {there}, not of {lecture}; choose another folder with -o, or --force to replace it"
        )


def set_aside(folder: Path, error: Exception) -> Kept:
    """Keep journals that can't be merged under a name that nobody looks for, and say why they can't be."""
    why = str(error)
    if isinstance(error, OSError) and error.filename:
        why = f"{Path(error.filename).name}: {error.strerror}"
    elif not isinstance(error, TraceToolsError):
        at = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {why} ({Path(at.filename).name}:{at.lineno})"
    private_folder.sweep(folder)
    try:
        return Kept(_renamed(folder, UNMERGED), why)
    except OSError as renaming:
        return Kept(folder, f"{why}; {renaming.strerror}")


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


# --- what dead tracers left ---------------------------------------------------------------------------------------


def recover(out: Path, *, again: bool = False) -> tuple[list[Traced], list[Kept]]:
    """Merge the journals below `out` whose tracer is no more, the latest run first; return traces, and what was kept.

    One whose recovery was killed is tried `again` only where that is asked for: it may have taken all memory, and
    would do so before every run.
    """
    recovered: list[Traced] = []
    kept: list[Kept] = []
    sweep(out)
    for folder in [path for prefix in (NEW, DONE) for path in out.glob(f"{prefix}*") if _is_folder(path)]:
        with contextlib.suppress(OSError), _locked(folder) as alone:
            if alone:
                shutil.rmtree(folder, ignore_errors=True)
    for folder in sorted(filter(_is_folder, out.glob(f"{RUN}*")), key=_started, reverse=True):
        try:
            with _locked(folder) as alone:
                if alone:
                    found = _recovered(folder, out, again=again)
                    if isinstance(found, Kept):
                        kept.append(found)
                    elif found is not None:
                        recovered.append(found)
        except (UsageError, OSError, MemoryError) as error:  # a full disk, say
            kept.append(Kept(folder, str(error) or "not enough memory to merge it", again=True))
    return recovered, kept


def _recovered(folder: Path, out: Path, *, again: bool) -> Traced | Kept | None:
    """Make the trace of a dead tracer's run; None where nothing was recorded."""
    mark = folder / MERGING
    if mark.exists() and not again:
        return set_aside(folder, UsageError("a recovery of it was killed"))
    with contextlib.suppress(OSError):
        mark.touch()
    try:
        traced = merge_folder(folder, out, dead=True)
    except (UsageError, MemoryError):
        raise
    except Exception as error:  # whatever a damaged disk, or another version, makes of journals
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise
        failed = error
    else:
        remove(folder)
        return traced
    finally:
        mark.unlink(missing_ok=True)
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
