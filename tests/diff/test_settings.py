"""Settings that differ before the lecture starts, and notes about the runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.diff.planted import differ, made
from tests.messages import says
from trace_tools.machines.machine import is_same_machine
from trace_tools.trace.model import Process, Trace

PATH, TEXT = made(0).source.path, made(0).source.text
REPEATED = TEXT + "# a\n\n" * 100  # of 80 new lines in front, 40 are blank like many old ones


def settings(a: Trace, b: Trace) -> dict[str, tuple[object, object]]:
    return {setting.name: (setting.a, setting.b) for setting in differ(a, b).settings}


def test_similar_load_notes_are_merged() -> None:
    notes = [Process(f"pass {n}", "complete", notes=[f"load average {n}.5 on 2 cores"]) for n in range(1, 4)]
    b = replace(made(0), run=replace(made(0).run, processes=notes))
    assert any(says(note, "B, pass 1: load average 1.5 on 2 cores", "2 similar") for note in differ(made(0), b).notes)


@pytest.mark.parametrize(
    ("path", "before", "after", "only_in_b"),
    [
        ("other.py", TEXT, TEXT + "z = 1\n", 1),  # a renamed lecture is compared all the same
        (PATH, REPEATED, "".join(f"# new {n}\n\n" for n in range(40)) + REPEATED + "# end\n", 81),
    ],
)
def test_a_source_is_compared_line_by_line(path: str, before: str, after: str, only_in_b: int) -> None:
    source = made(0).source
    a, b = (replace(made(0), source=replace(source, path=p, text=t)) for p, t in ((PATH, before), (path, after)))
    found, lines = settings(a, b), before.count("\n")
    assert found[path] == (f"{lines} lines, 0 only here", f"{lines + only_in_b} lines, {only_in_b} only here")
    assert found.get("file", (path, path)) == (PATH, path)


def test_emulated_device_differs_from_the_real_device() -> None:
    a = made(0)
    b = replace(a, machine=replace(a.machine, emulated=True))
    assert settings(a, b)["emulated"] == (False, True) and not is_same_machine(a.machine, b.machine)
