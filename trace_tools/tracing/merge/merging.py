"""Merge the journals of one run into its Trace, whether or not the run is complete.

The run's folder contains job.json (the user's request, and the text that ran), machine.json and versions.json, and for
each process its journal and, once it has ended, its status and the end of its output.

The trace shows one run, the warm run of median duration; the other runs provide samples. `Runs` chooses it and
finds the same calls and steps in all runs. Steps that do not occur in this run are left out; for its own steps, the
trace records in how many runs they occurred (`events`). How the processes ended is in their status files and at the
ends of their output.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from pathlib import Path

from trace_tools.analysis.summaries import LEFT_OUT_IN_WORDS, calls_left_out, left_out
from trace_tools.errors import NothingRecordedError
from trace_tools.machines.machine import from_json
from trace_tools.source.statements import main_of, parse_source, title_of
from trace_tools.trace.model import MAIN, Process, Run, SourceFile, Step, Trace
from trace_tools.trace.records import COLD, COMPLETE, PASS, WARM, Ending, ProcessId
from trace_tools.tracing import failures
from trace_tools.tracing.job import Job
from trace_tools.tracing.merge.events import events
from trace_tools.tracing.merge.reader import ProcessRecord, Runs, read_process, stored
from trace_tools.tracing.recorder.limits import CALLS
from trace_tools.util.interpreter import collector_paused


def ending_of(process: ProcessRecord, folder: Path) -> Ending:
    """Return the ending of a process that could not report it itself, by its status and the end of its output."""
    files = folder / process.id.file_stem
    try:
        status = int(files.with_suffix(".status").read_text(encoding="utf-8"))
    except OSError:
        ending = Ending("stopped", "when the tracer was killed")
    except ValueError:
        ending = Ending("failed", "its exit status could not be written (full disk?)")
    else:
        if status == os.EX_IOERR:
            ending = Ending("failed", "its journal could not be written (full disk?)")
        elif -status in {*signal.Signals}:
            ending = Ending("killed", signal.Signals(-status).name)
        else:
            ending = Ending("exited", str(status))
    line = _line_of_fault(files) or (process.runs[-1].open_line if process.runs else None)
    return ending if line is None else replace(ending, line=line)


def last_words(folder: Path) -> str:
    """Return the failure of the tools, if any, else the last line that any process printed to its own output."""
    for path in failures.tracebacks(folder):
        if failed := failures.in_words(path):
            return failed
    for path in sorted(folder.glob("*.out")):
        lines = [line for line in _output(path).splitlines() if line.strip()]
        if lines:
            return lines[-1]
    return ""


def _line_of_fault(files: Path) -> int | None:
    """Return the lecture's line in the dump of Python's fault handler, which is newer than the end of the journal."""
    _, fault, dump = _output(files.with_suffix(".out")).rpartition("Fatal Python error: ")
    if not fault:
        return None
    lecture = re.escape(Path(Job.read(files.parent).lecture).name)  # in a copy of its folder
    _, _, stack = dump.partition("Current thread ")
    line = re.search(rf'^  File ".*/{lecture}", line (\d+) in ', stack.partition("\n\n")[0], re.M)
    return int(line[1]) if line else None


def _output(path: Path) -> str:
    """Return the end of a process's output, which the tracer wrote to a file."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


@collector_paused()
def merge(folder: Path) -> Trace:
    """Return the trace of the run in `folder`. Raises NothingRecordedError if no step was recorded."""
    job = Job.read(folder)
    source = parse_source(job.text, job.name)
    run = Run(
        lecture=job.name,
        started=job.started,
        complete=False,
        main=None if main_of(source) == MAIN else main_of(source),
        commit=job.commit,
        **job.options.recorded(),
    )
    passes = sorted(folder.glob("pass-*.journal"), key=lambda path: ProcessId.parse(path.stem).pass_ or 0)
    if not passes:
        raise NothingRecordedError(f"nothing was recorded; {last_words(folder)}")
    records = [read_process(path, source) for path in passes]
    recorded = [run for record in records for run in record.runs]
    if not any(run.steps for run in recorded):
        why = last_words(folder) or next(one.done or str(ending_of(one, folder)) for one in records)
        raise NothingRecordedError(f"nothing was recorded; {why}")
    runs = Runs(recorded, max((one.floor_ns for one in records if one.floor_ns is not None), default=None))
    steps = events(runs)
    dropped = [
        calls_left_out(count, function, f"the first {CALLS:,} that were kept" if count else "")
        for function, count in runs.shown.refused.items()
    ]
    counts = left_out(step for step in steps if isinstance(step, Step))
    dropped += [f"{counts[words]:,} {words}" for words in LEFT_OUT_IN_WORDS.values() if counts[words]]
    processes = [_process(record, folder) for record in records]
    endings = {process.id: process.ending for process in processes}
    required = [ProcessId(PASS, n) for n in range(1, run.passes + 1)]
    failed = [f"{endings[process]} ({process})" for process in required if endings.get(process, COMPLETE) != COMPLETE]
    complete = all(endings.get(process) == COMPLETE for process in required)
    stopped = f"stopped after {len(endings)} of {run.passes} processes"
    return Trace(
        title=title_of(source, run.lecture),
        run=replace(
            run,
            complete=complete,
            ended=str(COMPLETE) if complete else [*failed, stopped][0],
            timed_runs=len(runs.complete) or None,
            processes=processes,
            dropped=dropped,
        ),
        machine=stored(folder / "machine.json", from_json),
        versions=[(name, version) for name, version in stored(folder / "versions.json")],
        source=SourceFile(run.lecture, source.text),
        steps=steps,
    )


def _process(process: ProcessRecord, folder: Path) -> Process:
    times = {run.id.kind: run.ns for run in process.runs if run.ending.is_complete}
    failed = failures.in_words(folder / process.id.file_stem)
    return Process(
        name=str(process.id),
        ended=failed or process.done or str(ending_of(process, folder)),
        cold_ns=times.get(COLD),
        warm_ns=times.get(WARM),
        why_no_warm=process.why_no_warm,
        restored=[*dict.fromkeys(process.restored)] or None,  # before the warm run, and before the counted one
        notes=list(dict.fromkeys(process.notes)) or None,
        peak_ram_bytes=process.peak_ram_bytes,
        peak_device_bytes=process.peak_device_bytes,
        floor_ns=process.floor_ns,
        other_cores=process.other_cores,
    )
