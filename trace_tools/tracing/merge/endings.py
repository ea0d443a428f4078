"""Find out how the processes of a run ended, from their status files and the ends of their output."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trace_tools.errors import TraceFileError
from trace_tools.source.statements import ParsedSource
from trace_tools.trace.identities import PERTURBED, Ending, ProcessId
from trace_tools.trace.model import Process
from trace_tools.trace.ranks import in_words
from trace_tools.tracing import failures
from trace_tools.tracing.journal import FAILED, NO_RECORD, rank_folder
from trace_tools.tracing.merge.reader import ProcessRecord, stored

LAST_BYTES = 1 << 16  # end of a process's output that is searched for its last line


def ending_of(process: ProcessRecord, folder: Path, source: ParsedSource) -> Ending:
    """Return the ending of a process that could not report it itself."""
    status = status_file(folder, process.id)
    last = process.runs[-1].open_statement if process.runs else None
    line = _line_of_fault(status) or (source.statements[last].line if last is not None else None)
    ending = ending_by_status(status)
    return ending if line is None else replace(ending, line=line)


def status_file(folder: Path, process: ProcessId) -> Path:
    """Return the path of the file that is written after the end of a process."""
    return folder / f"{process.file_stem}.status"


def ending_by_status(status: Path) -> Ending:
    """Return the ending in a status file: an exit status or, of a rank, the text of an `Ending`."""
    try:
        written = status.read_text(encoding="utf-8")
        return ending_by_code(int(written))
    except OSError:
        return Ending("stopped", "when the tracer was killed")
    except ValueError:
        return Ending.parse(written) if written else Ending("failed", "how it ended could not be written (full disk?)")


def ending_by_code(code: int) -> Ending:
    """Return the ending of a process that left only an exit status, negative for a signal."""
    if code == os.EX_IOERR:
        return Ending("failed", "its journal could not be written (full disk?)")
    if -code in {*signal.Signals}:
        return Ending("killed", signal.Signals(-code).name)
    return Ending("exited", str(code))


def endings_of_ranks(folder: Path, processes: Sequence[Process]) -> str | None:
    """Describe how each rank of the first incomplete process ended, in chronological order; None if all completed.

    Endings that follow from another rank's come last: operations fail because that rank is missing, or torchrun stops
    the process.
    """
    incomplete = [one for one in processes if not one.ending.is_complete and one.id.kind != PERTURBED]
    if not incomplete:
        return None
    name = incomplete[0].name

    def when(process: Process) -> tuple[bool, float]:
        journal = status_file(rank_folder(folder, process.rank or 0), process.id).with_suffix(".journal")
        failed = journal.with_suffix(FAILED)
        last = failed if failed.exists() else journal
        return process.ending.follows_another, last.stat().st_mtime if last.exists() else 0.0

    ranks_by_ending: dict[str, list[int]] = {}
    for process in sorted((one for one in incomplete if one.name == name and one.rank is not None), key=when):
        ranks_by_ending.setdefault(process.ended, []).append(process.rank or 0)
    return f"{', then '.join(f'{ended} on {in_words(ranks)}' for ended, ranks in ranks_by_ending.items())} ({name})"


def last_words(folder: Path) -> str:
    """Return the failure of the tools, if any, else the last line that any process printed to its own output."""
    for path in failures.tracebacks(folder):
        if failed := failures.in_words(path):
            return failed
    for path in sorted(folder.glob("*.out")):
        lines = [line for line in _end_of_output(path).splitlines() if line.strip()]
        if lines:
            return lines[-1]
    return ""


def _line_of_fault(status: Path) -> int | None:
    """Return the lecture's line in the dump of Python's fault handler, which is newer than the end of the journal."""
    _, fault, dump = _end_of_output(status.with_suffix(".out")).rpartition("Fatal Python error: ")
    if not fault:
        return None
    try:
        lecture = re.escape(stored(status.with_suffix(".json"))["lecture"])
    except (OSError, TraceFileError, *NO_RECORD):
        return None
    _, _, stack = dump.partition("Current thread ")
    line = re.search(rf'^  File ".*{lecture}", line (\d+) in ', stack.partition("\n\n")[0], re.M)
    return int(line[1]) if line else None


def _end_of_output(path: Path) -> str:
    """Return the end of a process's output, or "" if it wrote no file."""
    try:
        with path.open("rb") as output:
            output.seek(-min(path.stat().st_size, LAST_BYTES), os.SEEK_END)
            return output.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
