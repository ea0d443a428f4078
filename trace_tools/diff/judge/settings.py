"""Find differences that existed before the lecture began, and notes on how the traces were made.

settings_of(a, b)   # (SettingChange("setting", "seed", 0, 1), SettingChange("version", "torch", "2.12.0", "2.13.0"))
notes_of(side_a)    # ("A is partial: killed by SIGKILL", "A, pass 2: load average 2.2 on 2 cores …")
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from trace_tools.analysis.outcome import load_text
from trace_tools.diff.difference import SettingChange, Side
from trace_tools.machines.peaks import peak_of
from trace_tools.trace.model import Trace
from trace_tools.util import formats

RUN = ("seed", "passes", "limit", "only", "keep_going", "inspect_all")
MACHINE = (
    *("name", "device", "emulated", "cpu", "cores", "threads"),
    *("multiprocessors", "compute_capability", "memory_bytes"),
)
INSTALLED = ("driver", "cuda", "tf32", "ram_bytes", "l2_bytes", "os")
NOTE_CHARACTERS = 120

_NUMBER = re.compile(r"[0-9.]+")


def settings_of(a: Trace, b: Trace) -> tuple[SettingChange, ...]:
    """Return the differences of settings, versions, machine and source; the most explanatory come first."""
    changes = [SettingChange("setting", name, getattr(a.run, name), getattr(b.run, name)) for name in RUN]
    of_a, of_b = dict(a.versions), dict(b.versions)
    changes += [SettingChange("version", name, of_a.get(name), of_b.get(name)) for name in of_a | of_b]
    for name in (*MACHINE, *INSTALLED):
        unit = "B" if name.endswith("_bytes") else None
        sides = getattr(a.machine, name), getattr(b.machine, name)
        changes.append(SettingChange("machine", name.removesuffix("_bytes"), *sides, unit))
    changes = [setting for setting in changes if setting.a != setting.b]
    for name in dict.fromkeys(peak.name for trace in (a, b) for peak in trace.machine.peaks):
        peaks = peak_of(a.machine, name), peak_of(b.machine, name)
        promised = [None if peak is None or peak.measured else peak.per_second for peak in peaks]
        if promised[0] != promised[1]:  # a datasheet's peak of one machine that the other lacks
            unit = "B/s" if name == "memory" else "FLOP/s"
            rate_a, rate_b = (None if peak is None else peak.per_second for peak in peaks)
            measured_a, measured_b = (peak is not None and peak.measured for peak in peaks)
            measured = measured_a, measured_b
            changes.append(SettingChange("machine", f"{name} peak", rate_a, rate_b, unit, measured))
    texts_a, texts_b = ({source.path: source.text for source in trace.sources} for trace in (a, b))
    if len(texts_a) == len(texts_b) == 1 and texts_a.keys() != texts_b.keys():  # one lecture with two names
        (path_a, text_a), (path_b, text_b) = *texts_a.items(), *texts_b.items()
        changes.append(SettingChange("source", "file", path_a, path_b))
        texts_a, texts_b = {path_b: text_a}, {path_b: text_b}
    for path in texts_a | texts_b:
        if path not in texts_a or path not in texts_b:
            sides = "there" if path in texts_a else None, "there" if path in texts_b else None
            changes.append(SettingChange("source", path, *sides))
        elif texts_a[path] != texts_b[path]:  # how many lines each has, and how many the other lacks
            lines = texts_a[path].splitlines(), texts_b[path].splitlines()
            kept = (Counter(lines[0]) & Counter(lines[1])).total()
            in_a, in_b = (f"{len(side):,} lines, {len(side) - kept:,} only here" for side in lines)
            changes.append(SettingChange("source", path, in_a, in_b))
    if a.run.commit != b.run.commit:
        changes.append(SettingChange("source", "commit", a.run.commit, b.run.commit))
    return tuple(changes)


def notes_of(side: Side, letter: str) -> Iterator[str]:
    """Yield notes on how a trace was made; of similar notes on the machine only the first."""
    run = side.trace.run
    if not run.complete:
        yield f"{letter} is partial: {_text(run.ended)}"
    for process in run.processes:
        if process.why_no_warm:
            yield f"{letter}, {_text(process.name)}: no warm run: {_text(process.why_no_warm)}"
    similar: dict[str, list[str]] = {}
    for process in run.processes:
        for note in process.notes or ():
            similar.setdefault(_NUMBER.sub("", note), []).append(f"{_text(process.name)}: {_text(note)}")
        if process.other_cores is not None and (load := load_text(process)):
            similar.setdefault(_NUMBER.sub("", load), []).append(f"{_text(process.name)}: {load}")
    for notes in similar.values():
        more = f" (and {len(notes) - 1} similar notes)" if len(notes) > 1 else ""
        yield f"{letter}, {notes[0]}{more}"
    for dropped in run.dropped[:5]:
        yield f"{letter} lost: {_text(dropped)}"


def _text(text: str) -> str:
    return formats.one_line(text, NOTE_CHARACTERS)
