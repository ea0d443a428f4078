"""Merge the journals of one run into its Trace, whether or not the run is complete.

The run's folder contains lecture.py (the text that ran), run.json (the request), machine.json and versions.json, and
for each process its journal, its output and, once it has ended, its status.

The trace shows one run, the most typical warm one (`representative`); the other runs provide samples. `matching` finds
the same calls and steps in all runs. Steps that do not occur in the representative run are left out; for its own steps,
the trace records in how many runs they occurred (`events`, `narratives`). `endings` describes how the processes ended.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from trace_tools.analysis.summaries import LEFT_OUT_IN_WORDS, VALUES_LEFT_OUT, calls_left_out, left_out
from trace_tools.errors import NothingRecordedError
from trace_tools.machines.machine import from_json, slug
from trace_tools.source.directives import parse_directives
from trace_tools.source.statements import ParsedSource, parse_source, title_of
from trace_tools.trace.identities import COLD, COMPLETE, METERING, PASS, PERTURBED, WARM, ProcessId, RunId
from trace_tools.trace.model import Event, Process, Run, SourceFile, Step, Trace
from trace_tools.trace.ranks import in_words, joined
from trace_tools.trace.structure import from_plain
from trace_tools.tracing import failures, included
from trace_tools.tracing.instrument import Instrumented, instrument
from trace_tools.tracing.journal import Said, journals, rank_folder
from trace_tools.tracing.merge.endings import ending_by_status, ending_of, endings_of_ranks, last_words, status_file
from trace_tools.tracing.merge.events import events
from trace_tools.tracing.merge.matching import Runs
from trace_tools.tracing.merge.reader import ProcessRecord, RunRecord, read_process, stored
from trace_tools.tracing.merge.size_cap import capped
from trace_tools.tracing.recorder.recording import Settings
from trace_tools.util.interpreter import collector_paused


@collector_paused()
def merge(folder: Path, source: ParsedSource, *, strict: bool = False) -> Trace:
    """Return the trace of the run in `folder`, of the lecture `source`. Raises NothingRecordedError if no step was
    recorded.

    `strict`, as in `read_process`, is for journals that otherwise make no valid trace.
    """
    run = _requested(folder).run
    if not (folder / "machine.json").exists() or not journals(folder):
        why = last_words(folder) or "the run ended before anything was"
        raise NothingRecordedError(f"{run.lecture}: nothing was recorded; {why}")
    if run.ranks is None:
        return _of_journals(folder, folder, source, strict=strict)
    traces: dict[int, Trace] = {}
    last_error: NothingRecordedError | None = None
    for rank in range(run.ranks):
        # the same run for all ranks, because ranks exchange data within a run
        wanted = next((RunId.parse(trace.run.story or "") for trace in traces.values()), None)
        try:
            traces[rank] = _of_journals(folder, rank_folder(folder, rank), source, strict=strict, wanted=wanted)
        except NothingRecordedError as error:
            last_error = error
    if last_error is not None and not traces:
        raise last_error
    return replace(joined(traces), run=_run_of_ranks(folder, traces, run.ranks))


class _Requested(NamedTuple):
    """The requested settings, as the tracer wrote them to run.json."""

    run: Run  # the head of the trace
    name: str | None  # name of the machine
    beside: list[str]  # names of the processes other than the passes
    metered: str | None  # the process that metered its first run


def _requested(folder: Path) -> _Requested:
    plain = stored(folder / "run.json")
    name, beside, metered, _ = (plain.pop(key) for key in ("name", "beside", "metered", "force"))
    return _Requested(from_plain(Run, plain, folder / "run.json"), name, beside, metered)


def _run_of_ranks(folder: Path, traces: Mapping[int, Trace], ranks: int) -> Run:
    """Return the head of the trace for a run of several ranks: how each rank ended, the first end first."""
    runs = {rank: trace.run for rank, trace in traces.items()}
    first = next(iter(runs.values()))
    recorded = {(rank, process.name): process for rank, run in runs.items() for process in run.processes}
    processes = []
    for name in dict.fromkeys(process.name for run in runs.values() for process in run.processes):
        for rank in range(ranks):
            if (process := recorded.get((rank, name))) is None:
                status = status_file(rank_folder(folder, rank), ProcessId.parse(name))
                process = Process(name, ended=str(ending_by_status(status)))
            processes.append(replace(process, rank=rank))
    complete = len(runs) == ranks and all(run.complete for run in runs.values())
    ended = str(COMPLETE)
    if not complete:
        incomplete = next((run for run in runs.values() if not run.complete), first)
        ended = endings_of_ranks(folder, processes) or incomplete.ended
    dropped: dict[str, list[int]] = {}
    for rank, run in runs.items():
        for line in run.dropped:
            dropped.setdefault(line, []).append(rank)
    return replace(
        first,
        complete=complete,
        ended=ended,
        processes=processes,
        dropped=[line if len(on) == len(runs) else f"{line} ({in_words(on)})" for line, on in dropped.items()],
    )


def _of_journals(folder: Path, own: Path, source: ParsedSource, *, strict: bool, wanted: RunId | None = None) -> Trace:
    """Return the trace of the journals in `own`, which is the run's folder or the folder of one rank.

    `wanted` names the run to show, if it is a candidate.
    """
    run, name, beside, metered = _requested(folder)
    passes = sorted(own.glob("pass-*.journal"), key=lambda path: ProcessId.parse(path.stem).pass_ or 0)
    paths = [*passes, *(path for process in (METERING, PERTURBED) for path in own.glob(f"{process}.journal"))]
    if not paths:
        raise NothingRecordedError(f"{run.lecture}: nothing was recorded; {last_words(folder)}")
    sources = [source, *(module.source for module in included.stored(folder))]
    source = included.joined(sources)
    interned: Said = {}
    records = [read_process(path, source, strict=strict, interned=interned) for path in paths]
    del interned
    runs = Runs.of(records, metered, wanted)
    if runs is None:
        why = last_words(folder) or next(one.done or str(ending_of(one, own, source)) for one in records)
        raise NothingRecordedError(f"{run.lecture}: nothing was recorded; {why}")
    program = program_of(tuple(source.text for source in sources))
    steps, dropped = capped(events(runs, program, source, included.first_numbers(sources)))
    dropped += _beyond_bounds(runs.representative, program, steps)
    processes = [_process(record, own, source) for record in records]
    endings = {process.id: process.ending for process in processes}
    # Perturbed clocks may well end their process. A trace without it is complete, and reports the missing judgments.
    counted_processes = [process for process in map(ProcessId.parse, beside) if process.kind != PERTURBED]
    required = [*(ProcessId(PASS, n) for n in range(1, run.passes + 1)), *counted_processes]
    failed = [f"{endings[process]} ({process})" for process in required if endings.get(process, COMPLETE) != COMPLETE]
    damaged = [
        f"{one.unreadable:,} record{'s' * (one.unreadable > 1)} of {one.id} that could not be read"
        for one in records
        if one.unreadable
    ]
    dropped += damaged
    failed += damaged  # so that a damaged trace never replaces an intact one
    complete = not damaged and all(endings.get(process) == COMPLETE for process in required)
    stopped = f"stopped after {len(endings)} of {run.passes + len(beside)} processes"
    perturbed = endings.get(ProcessId(PERTURBED), COMPLETE)
    if PERTURBED in beside and perturbed != COMPLETE:
        dropped.append(f"what depends on clocks is unknown after the run with altered clocks ended: {perturbed}")
    machine = stored(folder / "machine.json", from_json)
    return Trace(
        title=title_of(source, run.lecture),
        run=replace(
            run,
            complete=complete,
            ended=str(COMPLETE) if complete else [*failed, stopped][0],
            timed_runs=len(runs.complete) or None,
            story=str(runs.representative.id),
            processes=processes,
            dropped=dropped,
        ),
        machine=replace(machine, slug=slug(name)) if name else machine,
        versions=[(name, version) for name, version in stored(folder / "versions.json")],
        sources=[SourceFile(run.lecture, source.text), *(SourceFile(s.path, s.text) for s in sources[1:])],
        steps=steps,
    )


@lru_cache(maxsize=2)
def program_of(texts: tuple[str, ...]) -> Instrumented:
    """Return the probes of a lecture and of the modules traced with it; a draft needs them before it has run."""
    sources = [parse_source(text, "lecture.py") for text in texts]
    programs = [instrument(sources[0], parse_directives(sources[0])), *included.instrumented(sources)]
    return replace(included.together(programs), tree=ast.Module([], []))


def _beyond_bounds(run: RunRecord, program: Instrumented, events_kept: Sequence[Event]) -> Iterator[str]:
    """Yield descriptions of everything that the bounds of a run left out."""
    bounds = Settings()
    calls_kept = Counter(call.function for call in run.frames.values())
    for function, calls in run.refused.items():
        if calls_kept[function] < bounds.frames:  # see `Admission`
            beyond = f"their share of the {bounds.steps:,} steps that are kept of a run"
        else:
            beyond = f"the first {bounds.frames:,} that were kept"
        yield calls_left_out(calls, program.functions[function], beyond)
    counts = left_out(step for step in events_kept if isinstance(step, Step))
    yield from (
        f"{counts[words]:,} {words}" for words in (*LEFT_OUT_IN_WORDS.values(), VALUES_LEFT_OUT) if counts[words]
    )


def _process(process: ProcessRecord, folder: Path, source: ParsedSource) -> Process:
    times = {run.id.kind: run.ns for run in process.runs if run.ending.is_complete}
    failed = failures.in_words(status_file(folder, process.id))
    ended, why_no_warm = failed or process.done or str(ending_of(process, folder, source)), process.why_no_warm
    if process.id.kind == PERTURBED:  # its runs are not a cold and a warm run
        ended, why_no_warm = why_no_warm or ended, None
    return Process(
        name=str(process.id),
        ended=ended,
        cold_ns=times.get(COLD),
        warm_ns=times.get(WARM),
        why_no_warm=why_no_warm,
        restored=process.restored or None,
        notes=list(dict.fromkeys(process.notes)) or None,
        peak_ram_bytes=process.peak_ram_bytes,
        peak_device_bytes=process.peak_device_bytes,
        floor_ns=process.floor_ns,
        other_cores=process.other_cores,
        device_index=process.device_index,
    )
