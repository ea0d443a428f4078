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
from trace_tools.rates import peak_of
from trace_tools.schema import Machine, Run, Trace

RUN = ("seed", "passes", "limit", "only", "keep_going", "inspect_all", "ranks")
MACHINE = (
    *("name", "device", "emulated", "cpu", "cores", "threads"),
    *("multiprocessors", "compute_capability", "memory_bytes"),
)
INSTALLED = ("driver", "cuda", "tf32", "ram_bytes", "l2_bytes", "os")
IDENTITY = ("name", "device", "cpu", "cores", "multiprocessors", "memory_bytes", "emulated")
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
    loads = []
    for process in run.processes:
        if process.name.startswith("pass"):
            noted = (LOAD.match(note) for note in process.notes or ())
            loads.append(max((float(match[1]) / int(match[2]) for match in noted if match), default=0.0))
    return median(loads or [0.0])


def settings_of(a: Trace, b: Trace) -> tuple[SettingChange, ...]:
    """Return what differs of settings, versions, machine and source, in the order of how much it explains."""
    found = [SettingChange("setting", name, getattr(a.run, name), getattr(b.run, name)) for name in RUN]
    in_a, in_b = dict(a.versions), dict(b.versions)
    found += [SettingChange("version", name, in_a.get(name), in_b.get(name)) for name in in_a | in_b]
    for name in (*MACHINE, *INSTALLED):
        unit = "B" if name.endswith("_bytes") else None
        sides = getattr(a.machine, name), getattr(b.machine, name)
        found.append(SettingChange("machine", name.removesuffix("_bytes"), *sides, unit))
    return (*(setting for setting in found if setting.a != setting.b), *_peaks(a.machine, b.machine), *_sources(a, b))


def _peaks(a: Machine, b: Machine) -> Iterator[SettingChange]:
    """Yield the peaks that a datasheet gives to one of the machines and that the other does not have."""
    for name in dict.fromkeys(peak.name for machine in (a, b) for peak in machine.peaks):
        in_a, in_b = peak_of(a, name), peak_of(b, name)
        promised = [None if peak is None or peak.measured else peak.per_second for peak in (in_a, in_b)]
        if promised[0] != promised[1]:
            unit = "B/s" if name == "memory" else "FLOP/s"
            rates = (in_a.per_second if in_a is not None else None), (in_b.per_second if in_b is not None else None)
            measured = in_a is not None and in_a.measured, in_b is not None and in_b.measured
            yield SettingChange("machine", f"{name} peak", *rates, unit, measured)


def _sources(a: Trace, b: Trace) -> Iterator[SettingChange]:
    """Yield the sources that are not the same, with how many lines each has and how many are not in the other."""
    in_a, in_b = ({source.path: source.text for source in trace.sources} for trace in (a, b))
    if len(in_a) == len(in_b) == 1 and in_a.keys() != in_b.keys():  # one lecture by two names
        (path_a, text_a), (path_b, text_b) = *in_a.items(), *in_b.items()
        yield SettingChange("source", "file", path_a, path_b)
        in_a, in_b = {path_b: text_a}, {path_b: text_b}
    for path in in_a | in_b:
        if path not in in_a or path not in in_b:
            there = "there" if path in in_a else None, "there" if path in in_b else None
            yield SettingChange("source", path, *there)
        elif in_a[path] != in_b[path]:
            lines = in_a[path].splitlines(), in_b[path].splitlines()
            kept = len(common(*lines))
            a_text, b_text = (f"{len(side):,} lines, {len(side) - kept:,} only here" for side in lines)
            yield SettingChange("source", path, a_text, b_text)
    if a.run.commit != b.run.commit:
        yield SettingChange("source", "commit", a.run.commit, b.run.commit)


def notes_of(side: Side, letter: str) -> Iterator[str]:
    """Yield what a reader should know of how one of the traces was made; of alike notes on the machine the first."""
    run = side.trace.run
    for why in (*([] if run.complete else [run.ended]), *side.notes):
        yield f"{letter} is partial: {_text(why)}"
    for process in run.processes:
        if process.why_no_warm:
            yield f"{letter}, {_text(process.name)}: no warm run: {_text(process.why_no_warm)}"
    alike: dict[str, list[str]] = {}
    for process in run.processes:
        for note in process.notes or ():
            alike.setdefault(_NUMBER.sub("", note), []).append(f"{_text(process.name)}: {_text(note)}")
    for notes in alike.values():
        more = f" (and {len(notes) - 1} more like it)" if len(notes) > 1 else ""
        yield f"{letter}, {notes[0]}{more}"
    for dropped in run.dropped[:5]:
        yield f"{letter} lost: {_text(dropped)}"


def _text(text: str) -> str:
    return formats.one_line(text, LONGEST)
