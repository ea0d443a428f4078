"""The journals of one run → its Trace, whether the run is complete or not.

A run's folder holds lecture.py (the text that ran), run.json (what was asked), machine.json and
versions.json, and for each process its journal, its output and, once it ended, its status.
"""

from __future__ import annotations

import ast
import json
import os
import re
import signal
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trace_tools.directives import parse_directives
from trace_tools.errors import NothingRecordedError
from trace_tools.machines.machine import from_json, slug
from trace_tools.schema import Process, Run, SourceFile, Trace
from trace_tools.statements import ParsedSource
from trace_tools.tracing.instrument import Instrumented, instrument
from trace_tools.tracing.merge import Runs, events
from trace_tools.tracing.recorder import Settings
from trace_tools.tracing.runs import (
    COLD,
    COMPLETE,
    METERING,
    OTHER_SEEDS,
    SHAKEN,
    WARM,
    ProcessRecord,
    RunRecord,
    read_process,
)
from trace_tools.tracing.size_cap import capped

if TYPE_CHECKING:
    from trace_tools.tracing.tracer import RunNotes


def assemble(folder: Path, source: ParsedSource, notes: RunNotes) -> Trace:
    """Return the trace of the run in `folder`. Raises NothingRecordedError when there is no step."""
    processes = [_read(path, source) for path in _journals(folder)]
    passes = [process for process in processes if process.name not in (METERING, SHAKEN)]
    ran = [run for process in passes for run in process.runs]
    timed = [run for run in ran if _is_usable(run)]
    if not timed or not timed[0].steps:
        raise NothingRecordedError(f"{notes.lecture}: nothing was recorded; {_last_words(folder)}")
    machine = from_json((folder / "machine.json").read_text(encoding="utf-8"))
    of = {process.name: process.runs for process in processes}
    directives = parse_directives(source)
    runs = Runs(
        timed=timed,
        metered=next(iter(of.get(METERING, [])), None),
        shaken=[run for run in of.get(SHAKEN, []) if not run.name.endswith(OTHER_SEEDS)],
        seeded=next((run for run in of.get(SHAKEN, []) if run.name.endswith(OTHER_SEEDS)), None),
        abandoned=[run for run in ran if not _is_usable(run)],
    )
    annotated = frozenset(d.statement for d in directives if d.name == "inspect")
    program = instrument(source, directives)
    made = [_process(process, folder, source) for process in processes]
    ended = {process.name: process.ended for process in made}
    finished = all(ended.get(name) == COMPLETE for name in _judging(notes))
    steps, dropped = capped(events(runs, program, source, annotated))
    return Trace(
        title=_title(source, notes.lecture),
        run=Run(
            lecture=notes.lecture,
            started=notes.started,
            seed=notes.seed,
            passes=notes.passes,
            limit=notes.limit,
            complete=finished,
            ended=COMPLETE if finished else _ended(ended, notes),
            timed_runs=runs.complete or None,
            story=runs.story.name,
            only=notes.only,
            commit=notes.commit,
            keep_going=notes.keep_going,
            inspect_all=notes.inspect_all,
            processes=made,
            dropped=[*dropped, *_refused(runs.story, program), *_unshaken(ended, notes)],
        ),
        machine=replace(machine, slug=slug(notes.name)) if notes.name else machine,
        versions=[(name, version) for name, version in json.loads((folder / "versions.json").read_text("utf-8"))],
        sources=[SourceFile(notes.lecture, source.text)],
        steps=steps,
    )


def _refused(run: RunRecord, program: Instrumented) -> Iterable[str]:
    """Say which functions were called more often than frames are kept."""
    for function, calls in run.refused.items():
        name, kept = program.functions[function], Settings().frames
        yield f"{calls:,} further calls of {name}, beyond the first {kept:,} that were kept"


def _judging(notes: RunNotes) -> list[str]:
    """Return the processes without which a trace is partial: wrong clocks may well end the shaken one."""
    return [*(f"pass {n}" for n in range(1, notes.passes + 1)), *(name for name in notes.beside if name != SHAKEN)]


def _unshaken(ended: dict[str, str], notes: RunNotes) -> Iterable[str]:
    """Say that not all of what follows from clocks could be told."""
    how = ended.get(SHAKEN, COMPLETE)
    if how != COMPLETE and SHAKEN in notes.beside:
        yield f"what follows from clocks, from where the run with wrong clocks ended: {how}"


def _journals(folder: Path) -> list[Path]:
    """Return the journals in the order their processes ran."""
    passes = sorted(folder.glob("pass-*.journal"), key=lambda path: int(path.stem.split("-")[1]))
    return [*passes, *(path for name in (METERING, SHAKEN) for path in folder.glob(f"{name}.journal"))]


def _read(path: Path, source: ParsedSource) -> ProcessRecord:
    return read_process(path.stem.replace("-", " "), path, source)


def _is_usable(run: RunRecord) -> bool:
    """Whether a run's samples count: those of a warm run that failed after a complete cold one don't."""
    return run.status == COMPLETE or run.name.endswith(COLD)


def _process(process: ProcessRecord, folder: Path, source: ParsedSource) -> Process:
    times = {run.name.rpartition(", ")[2]: run.ns for run in process.runs if run.status == COMPLETE}
    ended, again = process.done or _how_it_ended(process, folder, source), process.why_no_warm
    if process.name == SHAKEN:  # its runs are not a cold and a warm one
        ended, again = again or ended, None
    return Process(
        name=process.name,
        ended=ended,
        cold_ns=times.get(COLD),
        warm_ns=times.get(WARM),
        why_no_warm=again,
        restored=process.restored or None,
        notes=list(dict.fromkeys(process.notes)) or None,
    )


def _how_it_ended(process: ProcessRecord, folder: Path, source: ParsedSource) -> str:
    """Say how a process ended that could not say so itself."""
    status = folder / f"{process.name.replace(' ', '-')}.status"
    code = int(status.read_text(encoding="utf-8")) if status.exists() else None
    if code is None:
        how = "stopped when the tracer was killed"
    elif code == os.EX_IOERR:
        how = "its journal could not be written: a full disk?"
    elif code < 0:
        how = f"killed by {signal.Signals(-code).name}"
    else:
        how = f"exited with status {code}"
    last = process.runs[-1].open_statement if process.runs else None
    return how if last is None else f"{how} at line {source.statements[last].line}"


def _ended(ended: dict[str, str], notes: RunNotes) -> str:
    for name in _judging(notes):
        if name in ended and ended[name] != COMPLETE:
            return f"{ended[name]} ({name})"
    return f"stopped after {len(ended)} of {notes.passes + len(notes.beside)} processes"


def _last_words(folder: Path) -> str:
    """Return the last line that any process printed to its own output."""
    for path in sorted(folder.glob("*.out")):
        lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1]
    return "no process said why"


def _title(source: ParsedSource, lecture: str) -> str:
    doc = ast.get_docstring(source.tree) or ""
    first = doc.strip().split("\n\n")[0].replace("\n", " ")
    return re.sub(r"\.$", "", first) or Path(lecture).stem
