"""Settings that differ before the lecture starts, and notes about the runs."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.planted import differ, made
from tests.messages import says
from trace_tools.machines.machine import is_same_machine
from trace_tools.trace.model import Process


def test_similar_load_notes_are_merged() -> None:
    notes = [Process(f"pass {n}", "complete", notes=[f"load average {n}.5 on 2 cores"]) for n in range(1, 4)]
    b = replace(made(0), run=replace(made(0).run, processes=notes))
    assert any(says(note, "B, pass 1: load average 1.5 on 2 cores", "2 similar") for note in differ(made(0), b).notes)


def test_renamed_lecture_is_compared_line_by_line() -> None:
    a, b = made(0), made(1)
    b = replace(b, sources=[replace(b.sources[0], path="other.py", text=b.sources[0].text + "z = 1\n")])
    settings = {s.name: (s.a, s.b) for s in differ(a, b).settings}
    lines = a.sources[0].text.count("\n")
    assert settings["file"] == (a.sources[0].path, "other.py")
    assert settings["other.py"] == (f"{lines} lines, 0 only here", f"{lines + 1} lines, 1 only here")


def test_only_added_lines_count_despite_repeated_lines() -> None:
    """Of 80 new lines in front, 40 are blank like many old lines; all old lines are in both texts."""
    a = made(0)
    before = a.sources[0].text + "".join(f"# {n}\n\n" for n in range(100))
    after = "".join(f"# new {n}\n\n" for n in range(40)) + before + "# end\n"
    a, b = (replace(a, sources=[replace(a.sources[0], text=text)]) for text in (before, after))
    lines = before.count("\n")
    line_counts = {s.name: (s.a, s.b) for s in differ(a, b).settings}[a.sources[0].path]
    assert line_counts == (f"{lines} lines, 0 only here", f"{lines + 81} lines, 81 only here")


def test_emulated_device_differs_from_the_real_device() -> None:
    a = made(0)
    b = replace(a, machine=replace(a.machine, emulated=True))
    assert {s.name: (s.a, s.b) for s in differ(a, b).settings}["emulated"] == (False, True)
    assert not is_same_machine(a.machine, b.machine)
