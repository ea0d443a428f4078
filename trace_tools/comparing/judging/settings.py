"""What was not the same before the lecture began, and what a reader of times should know about the runs.

settings_of(a, b)   # (SettingChange("setting", "seed", 0, 1), SettingChange("version", "torch", "2.12.0", "2.13.0"))
notes_of(side_a)    # ("A is partial: killed by SIGKILL", "A, pass 2: load average 2.2 on 2 cores …")
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from trace_tools import formats
from trace_tools.comparing.difference import SettingChange, Side
from trace_tools.comparing.matching.subsequence import common
from trace_tools.schema import Machine, Process, Run, Trace

RUN = ("seed", "passes", "limit", "only", "keep_going", "inspect_all")
MACHINE = ("name", "device", "cpu", "cores", "threads", "multiprocessors", "compute_capability", "memory_bytes")
INSTALLED = ("driver", "cuda", "tf32", "ram_bytes", "l2_bytes", "os")
IDENTITY = ("name", "device", "cpu", "cores", "multiprocessors", "memory_bytes")
LONGEST = 120

LOAD = re.compile(r"load average (\d+\.\d+) on ([1-9]\d*) cores")  # what `machines.host` notes while others are at work

_NUMBER = re.compile(r"[0-9.]+")


def is_same_machine(a: Machine, b: Machine) -> bool:
    """Whether two descriptions can be of one machine: times on it can then be judged."""
    return all(getattr(a, name) == getattr(b, name) for name in IDENTITY)


def load_of(run: Run) -> float:
    """Return the load average over the cores that was noted at a typical timed process; 0 where none was.

    Typical, because a load average lags: the first process may still see what ran before it.
    """
    return median([_load(process) for process in run.processes if process.name.startswith("pass")] or [0.0])


def _load(process: Process) -> float:
    found = (LOAD.match(note) for note in process.notes or ())
    return max((float(match[1]) / int(match[2]) for match in found if match), default=0.0)


def settings_of(a: Trace, b: Trace) -> tuple[SettingChange, ...]:
    """Return what differs of settings, versions, machine and source, in the order of how much it explains."""
    return (*_run(a, b), *_versions(a, b), *_machine(a, b), *_sources(a, b))


def _text(value: object) -> str | None:
    return None if value is None else formats.one_line(str(value), LONGEST)


def _run(a: Trace, b: Trace) -> Iterator[SettingChange]:
    for name in RUN:
        x, y = getattr(a.run, name), getattr(b.run, name)
        if x != y:
            yield SettingChange("setting", name, x, y)


def _versions(a: Trace, b: Trace) -> Iterator[SettingChange]:
    in_a, in_b = dict(a.versions), dict(b.versions)
    for name in {**in_a, **in_b}:
        if in_a.get(name) != in_b.get(name):
            yield SettingChange("version", name, in_a.get(name), in_b.get(name))


def _machine(a: Trace, b: Trace) -> Iterator[SettingChange]:
    for name in (*MACHINE, *INSTALLED):
        x, y = getattr(a.machine, name), getattr(b.machine, name)
        if x != y:
            unit = "B" if name.endswith("_bytes") else None
            yield SettingChange("machine", name.removesuffix("_bytes"), x, y, unit)
    yield from _peaks(a.machine, b.machine)


def _peaks(a: Machine, b: Machine) -> Iterator[SettingChange]:
    """Yield the peaks that a datasheet gives to one of the machines and that the other does not have."""
    in_a, in_b = ({peak.name: peak for peak in machine.peaks} for machine in (a, b))
    for name in {**in_a, **in_b}:
        peaks = in_a.get(name), in_b.get(name)
        promised = [p.per_second if p is not None and not p.measured else None for p in peaks]
        if promised[0] != promised[1]:
            unit = "B/s" if name == "memory" else "FLOP/s"
            a_rate, b_rate = (peak.per_second if peak is not None else None for peak in peaks)
            measured = peaks[0] is not None and peaks[0].measured, peaks[1] is not None and peaks[1].measured
            yield SettingChange("machine", f"{name} peak", a_rate, b_rate, unit, measured)


def _sources(a: Trace, b: Trace) -> Iterator[SettingChange]:
    in_a, in_b = ({s.path: s.text for s in trace.sources} for trace in (a, b))
    if len(in_a) == len(in_b) == 1 and in_a.keys() != in_b.keys():  # one lecture by two names
        (path_a, text_a), (path_b, text_b) = *in_a.items(), *in_b.items()
        yield SettingChange("source", "file", path_a, path_b)
        in_a, in_b = {path_b: text_a}, {path_b: text_b}
    for path in {**in_a, **in_b}:
        if in_a.get(path) != in_b.get(path):
            yield SettingChange("source", path, *_lines(in_a.get(path), in_b.get(path)))
    if a.run.commit != b.run.commit:
        yield SettingChange("source", "commit", a.run.commit, b.run.commit)


def _lines(a: str | None, b: str | None) -> tuple[str | None, str | None]:
    """Say how many lines a source has on each side, and how many are not in the other."""
    if a is None or b is None:
        return (None if a is None else "there"), (None if b is None else "there")
    in_a, in_b = a.splitlines(), b.splitlines()
    kept = len(common(in_a, in_b))
    return (
        f"{len(in_a):,} lines, {len(in_a) - kept:,} only here",
        f"{len(in_b):,} lines, {len(in_b) - kept:,} only here",
    )


def notes_of(side: Side, letter: str) -> Iterator[str]:
    """Yield what a reader should know of how one of the traces was made."""
    run = side.trace.run
    if not run.complete:
        yield f"{letter} is partial: {formats.one_line(run.ended, LONGEST)}"
    for note in side.notes:
        yield f"{letter} is partial: {formats.one_line(note, LONGEST)}"
    for process in run.processes:
        if process.why_no_warm:
            yield f"{letter}, {_text(process.name)}: no warm run: {_text(process.why_no_warm)}"
    yield from _noted(run, letter)
    for dropped in run.dropped[:5]:
        yield f"{letter} lost: {_text(dropped)}"


def _noted(run: Run, letter: str) -> Iterator[str]:
    """Yield what was noted of the machine during the processes, alike notes once."""
    alike: dict[str, list[str]] = {}
    for process in run.processes:
        for note in process.notes or ():
            alike.setdefault(_NUMBER.sub("", note), []).append(f"{_text(process.name)}: {_text(note)}")
    for notes in alike.values():
        more = f" (and {len(notes) - 1} more like it)" if len(notes) > 1 else ""
        yield f"{letter}, {notes[0]}{more}"
