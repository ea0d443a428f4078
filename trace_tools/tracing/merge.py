"""The journals of one run → its Trace, whether the run is complete or not.

The run's folder holds lecture.py (the text that ran), run.json (what was asked), machine.json and versions.json, and
for each process its journal, its output and, once it ended, its status.

The trace tells one run, the most typical warm one; the others are its samples. A step of one run is the same as a
step of another when it is the n-th execution of the same statement in the same call, and a call when it is the n-th
of the same function in the same step: `Runs` gives both one number in all runs, its place. What a run did that the
story did not is left out; of what the story did, the trace says in how many runs it happened.

The story is a medoid: of all warm runs the one that is nearest to the others in what varied (values, both sides of
claims, the numbers in prose, which steps ran at all). A page is then one consistent run, and no extreme one.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from operator import is_
from pathlib import Path
from typing import Any, NamedTuple

from trace_tools.directives import parse_directives
from trace_tools.errors import LectureError, NothingRecordedError, TraceFileError
from trace_tools.file_format.structure import from_plain
from trace_tools.garbage import collector_paused
from trace_tools.machines.machine import from_json, slug
from trace_tools.narrative import ANSWERS, PROSE, decided
from trace_tools.ranks import in_words, joined
from trace_tools.schema import (
    Answer,
    Choice,
    Claim,
    Event,
    Frame,
    LeftOut,
    Measured,
    Meters,
    Narrative,
    Omitted,
    Process,
    Raised,
    Run,
    Scalar,
    SourceFile,
    Step,
    Trace,
    Value,
    Varied,
)
from trace_tools.statements import ParsedSource, title_of
from trace_tools.summaries import LEFT_OUT_IN_WORDS, NOT_KEPT
from trace_tools.tracing import included
from trace_tools.tracing.instrument import Instrumented, instrument
from trace_tools.tracing.journal import FAILED, NO_RECORD, Said, journals, rank_folder
from trace_tools.tracing.recorder import Settings
from trace_tools.tracing.runs import (
    COLD,
    COMPLETE,
    METERING,
    OTHER_SEEDS,
    SHAKEN,
    WARM,
    Draft,
    FrameDraft,
    ProcessRecord,
    RunRecord,
    read_process,
)
from trace_tools.tracing.size_cap import capped

# How the ends of ranks begin that the ends of others follow from.
STOPPED, WAITED = "stopped", "waited for the others"
NO_COUNTERPART = "no counterpart in the metering process"
JOURNAL = Path("journal")  # where an error says that the data is from
SCALARS = ("bool", "int", "float", "str")
LAST_BYTES = 1 << 16  # of what a process printed in which its last line is looked for
MEASUREMENTS = 100  # kept of one step

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")  # in prose: 1,024 and 0.5 and 6.3e24

Read = Callable[[Iterable[RunRecord]], list[Any]]  # the same value, or what was said, as those of the runs had it


def merge(folder: Path, source: ParsedSource, *, wary: bool = False) -> Trace:
    """Return the trace of the run in `folder`, of the lecture `source`. Raises NothingRecordedError without a step.

    `wary`, as in `read_process`, is for journals of which nothing else makes a valid trace.
    """
    with collector_paused():
        return _merged(folder, source, wary=wary)


def _merged(folder: Path, source: ParsedSource, *, wary: bool) -> Trace:
    run = _asked(folder).run
    if not (folder / "machine.json").exists() or not journals(folder):
        said = _last_words(folder) or "the run ended before anything was"
        raise NothingRecordedError(f"{run.lecture}: nothing was recorded; {said}")
    if run.ranks is None:
        return _of_journals(folder, folder, source, wary=wary)
    found: dict[int, Trace] = {}
    nothing: NothingRecordedError | None = None
    for rank in range(run.ranks):
        story = next((trace.run.story for trace in found.values()), None)  # what ranks told one another, in one run
        try:
            found[rank] = _of_journals(folder, rank_folder(folder, rank), source, wary=wary, story=story)
        except NothingRecordedError as error:
            nothing = error
    if nothing is not None and not found:
        raise nothing
    return replace(joined(found), run=_run_of_ranks(folder, found, run.ranks))


class _Asked(NamedTuple):
    """What was asked for, as the tracer wrote it down."""

    run: Run  # the head of the trace
    name: str | None  # the machine's
    beside: list[str]  # processes beside the passes
    metered: str | None  # the process whose first run was metered


def _asked(folder: Path) -> _Asked:
    asked = stored(folder / "run.json")
    name, beside, metered, _ = (asked.pop(key) for key in ("name", "beside", "metered", "force"))
    return _Asked(from_plain(Run, asked, folder / "run.json"), name, beside, metered)


def _run_of_ranks(folder: Path, found: Mapping[int, Trace], ranks: int) -> Run:
    """Return what the head says of a run of several ranks: which of them ended how, the first to end first."""
    runs = {rank: trace.run for rank, trace in found.items()}
    first = next(iter(runs.values()))
    names = list(dict.fromkeys(process.name for run in runs.values() for process in run.processes))
    processes = []
    for name in names:
        for rank in range(ranks):
            there = [one for one in (runs[rank].processes if rank in runs else ()) if one.name == name]
            missing = Process(name, ended=_status_in_words(_status_file(rank_folder(folder, rank), name)))
            processes += [replace(one, rank=rank) for one in there or [missing]]
    complete = len(runs) == ranks and all(run.complete for run in runs.values())
    dropped: dict[str, list[int]] = {}
    for rank, run in runs.items():
        for line in run.dropped:
            dropped.setdefault(line, []).append(rank)
    return replace(
        first,
        complete=complete,
        ended=COMPLETE
        if complete
        else _who_ended(folder, processes)
        or next((run.ended for run in runs.values() if not run.complete), first.ended),
        processes=processes,
        dropped=[line if len(there) == len(runs) else f"{line} ({in_words(there)})" for line, there in dropped.items()],
    )


def _who_ended(folder: Path, processes: Sequence[Process]) -> str | None:
    """Say of the first process that did not complete how each of its ranks ended, in the order in which they did.

    What one rank does to the others follows: their operations fail for want of it, or torchrun stops them.
    """
    judged = [one for one in processes if one.ended != COMPLETE and one.name != SHAKEN]
    if not judged:
        return None
    name = judged[0].name
    ends: dict[str, list[int]] = {}
    of_process = [one for one in judged if one.name == name and one.rank is not None]

    def when(one: Process) -> tuple[bool, float]:
        journal = _status_file(rank_folder(folder, one.rank or 0), name).with_suffix(".journal")
        ends = [journal.with_suffix(FAILED)] if journal.with_suffix(FAILED).exists() else [journal]
        return one.ended.startswith((STOPPED, WAITED)), max(
            (p.stat().st_mtime for p in ends if p.exists()), default=0.0
        )

    for one in sorted(of_process, key=when):
        ends.setdefault(one.ended, []).append(one.rank or 0)
    told = [f"{ended} on {in_words(ranks)}" for ended, ranks in ends.items()]
    return f"{', then '.join(told)} ({name})"


def _of_journals(folder: Path, own: Path, source: ParsedSource, *, wary: bool, story: str | None = None) -> Trace:
    """Return the trace of the journals in `own`: the run's folder, or that of one of its ranks.

    `story` names the run to tell, if it is among those that can be.
    """
    run, name, beside, metered = _asked(folder)
    passes = sorted(own.glob("pass-*.journal"), key=lambda path: int(path.stem.split("-")[1]))
    paths = [*passes, *(path for process in (METERING, SHAKEN) for path in own.glob(f"{process}.journal"))]
    if not paths:
        raise NothingRecordedError(f"{run.lecture}: nothing was recorded; {_last_words(folder)}")
    sources = [source, *(module.source for module in included.stored(folder))]
    source = included.joined(sources)
    known: Said = {}
    processes = [read_process(path.stem.replace("-", " "), path, source, wary=wary, said=known) for path in paths]
    del known
    of = {process.name: process.runs for process in processes}
    ran = [run for process in processes if process.name not in (METERING, SHAKEN) for run in process.runs]
    # The samples of a warm run that failed after a complete cold one don't count.
    timed = [run for run in ran if run.steps and (run.status == COMPLETE or run.name.endswith(COLD))]
    if not timed:
        said = _last_words(folder) or next(one.done or _how_it_ended(one, own, source) for one in processes)
        raise NothingRecordedError(f"{run.lecture}: nothing was recorded; {said}")
    runs = Runs(
        timed=timed,
        metered=next(iter(of.get(metered or "", [])), None),
        shaken=[run for run in of.get(SHAKEN, []) if not run.name.endswith(OTHER_SEEDS)],
        seeded=next((run for run in of.get(SHAKEN, []) if run.name.endswith(OTHER_SEEDS)), None),
        abandoned=[run for run in ran if run not in timed],
        told=story,
    )
    program = included.together([instrument(sources[0], parse_directives(sources[0])), *included.instrumented(sources)])
    steps, dropped = capped(events(runs, program, source, _annotated(sources), included.first_numbers(sources)))
    dropped += _beyond(runs.story, program, steps)
    made = [_process(process, own, source) for process in processes]
    ended = {process.name: process.ended for process in made}
    # Wrong clocks may well end the shaken process: without it a trace is complete, and says what could not be told.
    judging = [*(f"pass {n}" for n in range(1, run.passes + 1)), *(other for other in beside if other != SHAKEN)]
    failed = [f"{ended[process]} ({process})" for process in judging if ended.get(process, COMPLETE) != COMPLETE]
    damaged = [
        f"{one.unreadable:,} record{'s' * (one.unreadable > 1)} of {one.name} that could not be read"
        for one in processes
        if one.unreadable
    ]
    dropped += damaged
    failed += damaged  # never to replace a trace that is whole
    finished = not damaged and all(ended.get(process) == COMPLETE for process in judging)
    stopped = f"stopped after {len(ended)} of {run.passes + len(beside)} processes"
    if SHAKEN in beside and ended.get(SHAKEN, COMPLETE) != COMPLETE:
        dropped.append(f"what follows from clocks, from where the run with wrong clocks ended: {ended[SHAKEN]}")
    machine = stored(folder / "machine.json", from_json)
    return Trace(
        title=title_of(source, run.lecture),
        run=replace(
            run,
            complete=finished,
            ended=COMPLETE if finished else [*failed, stopped][0],
            timed_runs=runs.complete or None,
            story=runs.story.name,
            processes=made,
            dropped=dropped,
        ),
        machine=replace(machine, slug=slug(name)) if name else machine,
        versions=[(name, version) for name, version in stored(folder / "versions.json")],
        sources=[SourceFile(run.lecture, source.text), *(SourceFile(s.path, s.text) for s in sources[1:])],
        steps=steps,
    )


def stored(path: Path, read: Callable[[str], Any] = json.loads) -> Any:
    """Read one of the files in a run's folder. Raises TraceFileError where the disk has damaged it."""
    try:
        return read(path.read_text(encoding="utf-8"))
    except NO_RECORD as error:
        raise TraceFileError(path.name, None, f"is damaged: {error}") from None


def _beyond(run: RunRecord, program: Instrumented, made: Sequence[Event]) -> Iterator[str]:
    """Say what the bounds of a run left out of it."""
    kept = Settings()
    calls_kept = Counter(frame.function for frame in run.frames.values())
    for function, calls in run.refused.items():
        if calls_kept[function] < kept.frames:  # see `Recorder.has_room`
            beyond = f"their share of the {kept.steps:,} steps that are kept of a run"
        else:
            beyond = f"the first {kept.frames:,} that were kept"
        yield f"{calls:,} further calls of {program.functions[function]}, beyond {beyond}"
    counts: Counter[str] = Counter()
    for step in made:
        if isinstance(step, Step):
            for left_out in step.left_out or ():
                counts[left_out.what] += left_out.count
            counts["values"] += sum(value.note == NOT_KEPT for _, value in step.values or ())
    yield from (f"{counts[kind]:,} {words}" for kind, words in LEFT_OUT_IN_WORDS.items() if counts[kind])
    if counts["values"]:
        yield f"{counts['values']:,} values, which are there with their types and shapes only"


def _left_out(counted: Sequence[Sequence[Any]]) -> list[LeftOut] | None:
    """Put together what was left out of the parts of a step: a `with` has two."""
    counts: dict[str, LeftOut] = {}
    for kind, count, at in counted:
        there = counts.get(kind)
        counts[kind] = replace(there, count=there.count + count) if there else LeftOut(kind, count, at or None)
    return [*counts.values()] or None


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
        peak_ram_bytes=process.peak_ram_bytes,
        peak_device_bytes=process.peak_device_bytes,
    )


def _how_it_ended(process: ProcessRecord, folder: Path, source: ParsedSource) -> str:
    """Say how a process ended that could not say so itself."""
    status = _status_file(folder, process.name)
    how = _status_in_words(status)
    last = process.runs[-1].open_statement if process.runs else None
    line = source.statements[last].line if last is not None else None
    line = _line_of_fault(status) or line
    return how if line is None else f"{how} at line {line}"


def _status_file(folder: Path, process: str) -> Path:
    return folder / f"{process.replace(' ', '-')}.status"


def _status_in_words(status: Path) -> str:
    """Say what the file of a process's status does: a number, or of a rank what happened to it."""
    try:
        written = status.read_text(encoding="utf-8")
        return status_in_words(int(written))
    except OSError:  # it is written when the process has ended
        return "stopped when the tracer was killed"
    except ValueError:
        return written or "how it ended could not be written: a full disk?"


def status_in_words(code: int) -> str:
    """Say how a process ended that left nothing but this status, negative for a signal."""
    if code == os.EX_IOERR:
        return "its journal could not be written: a full disk?"
    if -code in {*signal.Signals}:
        return f"killed by {signal.Signals(-code).name}"
    return f"exited with status {code}"


def _line_of_fault(status: Path) -> int | None:
    """Return where the lecture was when Python's fault handler wrote where all was: later than the journal's end."""
    _, fault, told = _end(status.with_suffix(".out")).rpartition("Fatal Python error: ")
    if not fault:
        return None
    try:
        lecture = re.escape(stored(status.with_suffix(".json"))["lecture"])
    except (OSError, TraceFileError, *NO_RECORD):
        return None
    _, _, stack = told.partition("Current thread ")
    found = re.search(rf'^  File ".*{lecture}", line (\d+) in ', stack.partition("\n\n")[0], re.M)
    return int(found[1]) if found else None


def _last_words(folder: Path) -> str:
    """Return the last line that any process printed to its own output."""
    for path in sorted(folder.glob("*.out")):
        lines = [line for line in _end(path).splitlines() if line.strip()]
        if lines:
            return lines[-1]
    return ""


def _end(path: Path) -> str:
    """Return the end of what a process printed; nothing where it did not come to that."""
    try:
        with path.open("rb") as output:
            output.seek(-min(path.stat().st_size, LAST_BYTES), os.SEEK_END)
            return output.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


# --- the same step in all runs --------------------------------------------------------------------------------------


class Runs:
    """The runs of a trace, matched with one another; `story` is the one that is told."""

    def __init__(
        self,
        timed: Sequence[RunRecord],
        metered: RunRecord | None = None,
        shaken: Sequence[RunRecord] = (),
        seeded: RunRecord | None = None,
        abandoned: Sequence[RunRecord] = (),
        told: str | None = None,
    ) -> None:
        """Take the runs of the passes, that of the metering process, and those with wrong clocks and other seeds.

        `abandoned` are warm runs that failed: they timed nothing, but judged claims. `told` names the story, if it is
        among those that can be one.
        """
        self.timed = timed  # pass 1 cold, pass 1 warm, pass 2 cold …
        self.cold = [run for run in timed if run.name.endswith(COLD)]
        self.warm = [run for run in timed if run.name.endswith(WARM)]
        self.metered = metered
        again = bool(self.warm) or len(shaken) < 2  # else a second run is another for what the first left behind
        self.shaken = shaken if again else shaken[:1]
        self.seeded = seeded
        self.abandoned = abandoned
        # By place: (caller's place, function, n) of a call, or (call's place, statement, n) of a step.
        self.keys: list[tuple[Any, ...]] = []
        numbers: dict[tuple[Any, ...], int] = {}
        for run in (*timed, *self.shaken, *abandoned, *(run for run in (metered, seeded) if run)):
            self._number(run, numbers)
        self.whole = [run for run in timed if run.status == COMPLETE]
        self.complete = len(self.whole)
        candidates = [run for run in self.warm if run in self.whole] or [run for run in self.cold if run in self.whole]
        chosen = next((run for run in candidates or timed if run.name == told), None)
        # Values, prose and order are from it.
        self.story = chosen or (most_typical(candidates) if candidates else timed[0])

    def _number(self, run: RunRecord, numbers: dict[tuple[Any, ...], int]) -> None:
        """Give each call and each step of a run its place."""

        def place(*key: Any) -> int:
            if key not in numbers:
                numbers[key] = len(self.keys)
                self.keys.append(key)
            return numbers[key]

        steps_of: dict[int, list[Draft]] = {}
        for step in run.steps.values():
            steps_of.setdefault(step.frame, []).append(step)
        calls: Counter[tuple[int, int]] = Counter()
        for frame in sorted(run.frames.values(), key=lambda f: f.id):  # callers before the called
            caller = -1 if frame.of is None else run.steps[frame.of].place if frame.of in run.steps else -2
            calls[caller, frame.function] += 1
            frame.place = place("call", caller, frame.function, calls[caller, frame.function])
            run.calls_at[frame.place] = frame
            for step in steps_of.get(frame.id, ()):
                step.place = place("step", frame.place, step.statement, step.execution)
                run.steps_at[step.place] = step

    def ran(self, place: int, run: RunRecord) -> bool:
        """Whether a step happened in a run, as far as can be told: it may be one of those that the limit left out."""
        while place not in run.steps_at:
            _, call, statement, _ = self.keys[place]
            if call in run.calls_at:
                return (run.calls_at[call].id, statement) in run.omitted
            _, caller, function, _ = self.keys[call]
            if caller in run.steps_at or caller < 0:
                return function in run.refused
            place = caller
        return True

    def often(self, place: int) -> int | None:
        """Return in how many complete timed runs a step of the story ran; None where in all."""
        count = sum(self.ran(place, run) for run in self.whole)
        return None if count == self.complete else count

    def is_chosen_by_clock(self, place: int) -> bool:
        """Whether a step did not run once clocks were wrong."""
        return any(not self.ran(place, run) for run in self.shaken if run.status == COMPLETE)


# --- the story ------------------------------------------------------------------------------------


def most_typical(runs: Sequence[RunRecord]) -> RunRecord:
    """Return the run with the least distance to all others; the first of those that have it."""
    if len(runs) < 3:
        return runs[0]
    distances = [0.0] * len(runs)
    for place in dict.fromkeys(place for run in runs for place in run.steps_at):
        steps = [run.steps_at.get(place) for run in runs]
        if all(_is_the_same(steps[0], other) for other in steps):
            continue
        facts = [dict(_facts(step)) if step else {} for step in steps]
        for name in dict.fromkeys(name for of_run in facts for name in of_run):
            of_runs = [of_run.get(name) for of_run in facts]
            if all(fact == of_runs[0] for fact in of_runs):
                continue
            numbers = [fact for fact in of_runs if isinstance(fact, float)]
            span = max(numbers) - min(numbers) if numbers else 0.0
            for i, j in combinations(range(len(runs)), 2):
                one, other = of_runs[i], of_runs[j]
                if isinstance(one, float) and isinstance(other, float):
                    apart = abs(one - other) / span if span else 0.0
                else:
                    apart = float(one != other)
                distances[i] += apart
                distances[j] += apart
    return runs[min(range(len(runs)), key=lambda n: round(distances[n], 9))]


def _is_the_same(one: Draft | None, other: Draft | None) -> bool:
    """Whether two runs observed the same things, for certain: what was read alike is one object."""
    if one is None or other is None:
        return False
    several = [(one.values, other.values), (one.narrative, other.narrative)]
    return one.claim is other.claim and all(len(a) == len(b) and all(map(is_, a, b)) for a, b in several)


def _facts(step: Draft) -> Iterator[tuple[tuple[Any, ...], float | str]]:
    """Yield everything a step observed that could vary; what is no finite number as text."""
    yield ("ran",), "ran"
    for index, (_, _, value) in enumerate(step.values):
        yield ("value", index), _fact(value)
    for index, side in enumerate(step.claim[2] if step.claim else ()):
        yield ("side", index), _fact(side)
    for index, said in enumerate(step.narrative):
        words, numbers = _template(_words(said))
        yield ("said", index), words
        for slot, number in enumerate(numbers):
            yield ("said", index, slot), _as_number(number)


def _fact(plain: Any) -> float | str:
    value = plain.get("value") if isinstance(plain, dict) else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _as_number(str(value))
    return _key(plain)


def _as_number(digits: str) -> float | str:
    try:
        number = float(digits.replace(",", ""))
    except (ValueError, OverflowError):
        return digits
    return number if math.isfinite(number) else digits


def _words(said: Mapping[str, Any]) -> str:
    """Return all that a narrative call said, its numbers among it."""
    if said.get("kind") in PROSE:
        return str(said.get("text") or "")
    return json.dumps([said.get("rows"), said.get("series")])


def _template(text: str) -> tuple[str, list[str]]:
    """Divide a text into its words, with a mark for each number, and the numbers."""
    return NUMBER.sub("#", text), NUMBER.findall(text)


# --- events ---------------------------------------------------------------------------------------


def _annotated(sources: Sequence[ParsedSource]) -> frozenset[int]:
    """Return the statements at which something is inspected."""
    firsts = zip(included.first_numbers(sources), sources, strict=True)
    return frozenset(first + d.statement for first, s in firsts for d in parse_directives(s) if d.name == "inspect")


def events(
    runs: Runs, program: Instrumented, source: ParsedSource, annotated: frozenset[int], firsts: Sequence[int] = (0,)
) -> list[Event]:
    """Return frames, steps and totals in order of execution, numbered from 0; `firsts` as in `included`."""
    return _Builder(runs, program, source, annotated, firsts).build()


class _Builder:
    def __init__(
        self,
        runs: Runs,
        program: Instrumented,
        source: ParsedSource,
        annotated: frozenset[int],
        firsts: Sequence[int],
    ) -> None:
        self.firsts = firsts
        self.runs = runs
        self.story = runs.story
        self.program = program
        self.source = source
        self.annotated = annotated
        self.step_ids = {seq: number for number, seq in enumerate(sorted(self.story.steps))}
        first_step: dict[int, int] = {}
        for step in self.story.steps.values():
            first_step[step.frame] = min(step.seq, first_step.get(step.frame, step.seq))
        self.starts: dict[int, tuple[int, int, int]] = {}
        for frame in sorted(self.story.frames.values(), key=lambda f: f.id):  # callers before the called
            first = first_step.get(frame.id)
            caller = self.story.steps.get(frame.of) if frame.of is not None else None
            if frame.of is not None and (
                caller is None or caller.frame not in self.starts or (first is not None and first <= caller.seq)
            ):
                continue  # its caller's record was damaged: what hangs on it is left out, too
            self.starts[frame.id] = (frame.of or 0, 2, frame.id) if first is None else (first, 0, frame.id)
        ordered = sorted(self.starts, key=self.starts.__getitem__)
        self.frame_ids = {frame: number for number, frame in enumerate(ordered)}

    def build(self) -> list[Event]:
        placed: list[tuple[tuple[int, int, int], Event]] = []
        for frame, start in self.starts.items():
            placed.append((start, self._frame(self.story.frames[frame])))
        for step in self.story.steps.values():
            if step.frame in self.frame_ids:
                try:
                    placed.append(((step.seq, 1, 0), self._step(step)))
                except (TraceFileError, *NO_RECORD) as error:
                    made = f"what was recorded there makes no trace: {error}"
                    raise LectureError(self.source.path, self._line(step.statement), made) from error
        last: dict[tuple[int, int], int] = {}
        for step in self.story.steps.values():
            key = (step.frame, step.statement)
            last[key] = max(step.seq, last.get(key, 0))
        for (frame, statement), (count, ns) in self.story.omitted.items():
            if frame in self.frame_ids:
                _, number = included.place(statement, self.firsts)
                omitted = Omitted(count, self.frame_ids[frame], number, self._line(statement), ns)
                placed.append(((last.get((frame, statement), 0), 3, statement), omitted))
        return [event for _, event in sorted(placed, key=lambda item: item[0])]

    def _line(self, statement: int) -> int:
        return self.source.statements[statement].line

    def _frame(self, frame: FrameDraft) -> Frame:
        arguments = [
            (source, self._judged(_value(value, unit), _argument(frame.place, index)))
            for index, (source, unit, value) in enumerate(frame.arguments)
        ]
        return Frame(
            frame=self.frame_ids[frame.id],
            function=self.program.functions[frame.function],
            source=included.place(frame.function, self.firsts)[0],
            of=None if frame.of is None else self.step_ids[frame.of],
            arguments=arguments or None,
            thread=frame.thread,
        )

    def _step(self, step: Draft) -> Step:
        at = step.place
        suspended = step.statement in self.program.suspending
        warm, cold = self.runs.warm, self.runs.cold
        values = [
            (source, self._judged(_value(value, unit), _read(at, _nth_value(i))))
            for i, (source, unit, value) in enumerate(step.values)
        ]
        claim, caught = self._claim(step)
        return Step(
            id=self.step_ids[step.seq],
            frame=self.frame_ids[step.frame],
            statement=included.place(step.statement, self.firsts)[1],
            line=self._line(step.statement),
            execution=step.execution,
            host_ns=None if suspended else _samples(warm, at, "ns"),
            cold_ns=None if suspended else _samples(cold, at, "ns"),
            device_ns=_samples(warm or cold, at, "device_ns"),
            annotated=step.statement in self.annotated,
            values=[*values, *caught] or None,
            claim=claim,
            narrative=[self._said(said, at, index) for index, said in enumerate(step.narrative)] or None,
            stdout="".join(step.stdout) or None,
            warnings=[*step.warnings] or None,
            left_out=_left_out(step.left_out),
            allocated_bytes=step.allocated_bytes,
            meters=self._meters(step),
            measured=self._measured(step) or None,
            harness=step.harness,
            raised=from_plain(Raised, step.raised, JOURNAL) if step.raised else None,
            suspended=suspended,
            compiled=step.compiled,
            runs=self.runs.often(at),
            clock=self.runs.is_chosen_by_clock(at),
        )

    def _judged(self, value: Value, read: Read) -> Value:
        """Mark a value that differs between timed runs, or that follows from a clock or a device's generator.

        `read` returns it as other runs had it.
        """
        timed, shaken = read(self.runs.timed), read(self.runs.shaken)
        seeded = read([self.runs.seeded]) if self.runs.seeded else []
        if len({*map(id, timed), *map(id, shaken), *map(id, seeded)}) == 1:  # as nearly all are: see `read_journal`
            return value
        keys = {_key(_bare(other)) for other in timed}
        if len(keys) > 1:
            warm = _scalars(read(self.runs.warm or self.runs.cold))
            cold = _scalars(read(self.runs.cold)) if self.runs.warm else None
            return replace(value, varies=True, samples=warm, cold_samples=cold)
        if any(_key(_bare(other)) not in keys for other in shaken):
            return replace(value, clock=True)
        if any(_key(_bare(other)) not in keys for other in seeded):
            return replace(value, device_random=True)
        return value

    def _claim(self, step: Draft) -> tuple[Claim | None, list[tuple[str, Value]]]:
        """Return a step's claim; for one that the lecture caught, both its sides as values instead."""
        if step.claim is None:
            return None, []
        statement, _, sides = step.claim
        test, sources = self.program.claims[statement]
        judging = [*self.runs.timed, *self.runs.abandoned]
        at = step.place
        failed = [run.name for run in judging if at in run.steps_at and _failed(run.steps_at[at])]
        values = [
            (source, self._judged(_value(side, None), _read(at, _nth_side(i))))
            for i, (source, side) in enumerate(zip(sources, sides, strict=True))
            if side is not None
        ]
        if not failed and step.claim[1] == "raised":
            return None, values
        message = step.raised["message"] if step.raised and failed else None
        return Claim(source=test, held=not failed, sides=values, message=message, failed_runs=failed or None), []

    def _meters(self, step: Draft) -> Meters | None:
        if self.runs.metered is None:
            return None
        counterpart = self.runs.metered.steps_at.get(step.place)
        if counterpart is None or counterpart.meters is None:
            return Meters(why=NO_COUNTERPART) if step.statement in self.annotated else None
        meters = counterpart.meters
        if not meters["operators"]:
            return None
        return from_plain(Meters, {name: figure for name, figure in meters.items() if figure != []}, JOURNAL)

    def _measured(self, step: Draft) -> list[Measured]:
        """Put together how long one call took in each run and what one call did in the metering run."""
        metered = self.runs.metered.steps_at.get(step.place) if self.runs.metered else None
        counted = metered.measured if metered is not None else []
        timed = [run.steps_at.get(step.place) for run in self.runs.warm or self.runs.cold]
        measured = []
        for index in range(min(len(step.measured), MEASUREMENTS)):
            seconds = [s.measured[index]["seconds"] for s in timed if s is not None and index < len(s.measured)]
            figures = counted[index] if index < len(counted) else {"why": NO_COUNTERPART}
            measured.append(from_plain(Measured, {**figures, "seconds": seconds}, JOURNAL))
        return measured

    # --- what was said ---

    def _said(self, said: dict[str, Any], at: int, index: int) -> Narrative:
        """Add to what the story said how other runs said it: other numbers, or another sentence."""
        read = _read(at, lambda other: other.narrative[index : index + 1])
        choice = None
        timed = read(self.runs.timed)
        if all(other.get("choice") for other in timed):
            choice = _choice_of_all(timed)
            answered = partial(_answered, choice=choice)
            said, read = answered(said), _read(at, lambda other: [*map(answered, other.narrative[index : index + 1])])
            timed = read(self.runs.timed)
        narrative = replace(from_plain(Narrative, {**said, "choice": None}, JOURNAL), choice=choice)
        if narrative.answer is not None:
            answer = _answer_of_all(
                narrative.answer, [other["answer"]["value"] for other in timed if other.get("answer")]
            )
            narrative = replace(narrative, answer=answer)
        if narrative.kind not in {*PROSE, "table"}:
            return narrative
        if len({_key(other) for other in timed}) < 2:
            return narrative
        form = _form(said)
        others = Counter(_form(other) for other in timed if _form(other) != form)
        texts = {_form(other): _words(other) for other in timed}
        if narrative.kind == "table":
            texts = dict.fromkeys(texts, "another table")
        warm, cold = (
            [other for other in read(runs) if _form(other) == form]
            for runs in (self.runs.warm or self.runs.cold, self.runs.cold if self.runs.warm else [])
        )
        varied = _varied_numbers if narrative.kind in PROSE else _varied_cells
        return replace(
            narrative,
            varied=list(varied(said, warm, cold)) or None,
            others=[(texts[other], count) for other, count in others.most_common()] or None,
        )


def _choice_of_all(said: Sequence[Mapping[str, Any]]) -> Choice:
    """Return what the samples of all runs that came by decide."""
    choices = [one["choice"] for one in said]
    return decided(Choice(choices[0]["low"], choices[0]["high"], [sample for c in choices for sample in c["samples"]]))


def _answer_of_all(answer: Answer, found: Sequence[int | float | str]) -> Answer:
    """Return the answer that stands for those of all runs: the median of numbers, of texts the one most runs gave."""
    if len(set(map(_key, found))) < 2:
        return answer
    numbers = [value for value in found if not isinstance(value, str)]
    value = statistics.median(numbers) if len(numbers) == len(found) else Counter(found).most_common(1)[0][0]
    return replace(answer, value=value, samples=list(found))


def _answered(said: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    """Return what a run would have said, had it known what all runs know."""
    return {**said, "text": said["choice"]["sentences"][ANSWERS.index(choice.answer or "undecided")], "choice": None}


def _read(place: int, get: Callable[[Draft], Sequence[Any]]) -> Read:
    """Return what gets something of a step of the story as other runs had it, as far as they came by."""
    return lambda runs: [found for run in runs if place in run.steps_at for found in get(run.steps_at[place])]


def _nth_value(index: int) -> Callable[[Draft], list[Any]]:
    return lambda step: [_nth(step.values, index, 2)]


def _nth_side(index: int) -> Callable[[Draft], list[Any]]:
    return lambda step: [_nth(step.claim[2], index) if step.claim else None]


def _argument(place: int, index: int) -> Read:
    return lambda runs: [_nth(run.calls_at[place].arguments, index, 2) for run in runs if place in run.calls_at]


def _form(said: Mapping[str, Any]) -> str:
    """Return what two narrative calls have in common when they say the same with other numbers."""
    if said.get("kind") == "table":
        return _key([said.get("title"), said.get("columns"), len(said.get("rows") or [])])
    return _template(_words(said))[0]


def _varied_numbers(said: Mapping[str, Any], warm: Sequence[Any], cold: Sequence[Any]) -> Iterator[Varied]:
    """Yield the numbers of a text that were not the same in all runs that said it."""
    for slot, number in enumerate(NUMBER.finditer(_words(said))):
        in_warm, in_cold = (_all_said(runs, slot) for runs in (warm, cold))
        if len({*in_warm, *in_cold}) > 1:
            yield Varied(in_warm, in_cold or None, start=number.start(), end=number.end())


def _all_said(runs: Sequence[Any], slot: int) -> list[Scalar]:
    return [_template(_words(said))[1][slot] for said in runs]


def _varied_cells(said: Mapping[str, Any], warm: Sequence[Any], cold: Sequence[Any]) -> Iterator[Varied]:
    for row, cells in enumerate(said.get("rows") or []):
        for column in range(len(cells)):
            in_warm, in_cold = ([other["rows"][row][column] for other in runs] for runs in (warm, cold))
            if len({_key(cell) for cell in (*in_warm, *in_cold)}) > 1:
                yield Varied(in_warm, in_cold or None, row=row, column=column)


def _value(plain: Any, unit: str | None) -> Value:
    value = from_plain(Value, plain, JOURNAL)
    return replace(value, unit=unit) if unit else value


def _nth(items: Sequence[Any], index: int, field: int | None = None) -> Any:
    if index >= len(items):
        return None
    return items[index] if field is None else items[index][field]


def _failed(step: Draft) -> bool:
    """Whether a claim has failed: its error left the section, or would have, were it not passed over."""
    return step.claim is not None and (step.claim[1] == "passed over" or (step.claim[1] == "raised" and step.left))


def _scalars(plain: Sequence[Any]) -> list[Any] | None:
    """Return the values of scalars; None where there is anything else."""
    found = [o.get("value") for o in plain if isinstance(o, dict) and o.get("type") in SCALARS]
    return found if len(found) == len(plain) and found else None


def _key(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True)  # unlike ==, it takes nan for nan


def _bare(value: Any) -> Any:
    """Return a described value without the notes on how it was read, which may depend on what was in memory."""
    if isinstance(value, dict):
        return {name: _bare(part) for name, part in value.items() if name != "note"}
    return [*map(_bare, value)] if isinstance(value, list) else value


def _samples(runs: Sequence[RunRecord], at: int, name: str) -> list[int] | None:
    samples = [getattr(run.steps_at[at], name) for run in runs if at in run.steps_at]
    return [sample for sample in samples if sample is not None] or None
