"""What was not the same before the lecture began, and what was noted of the runs."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.planted import differ, made
from tests.messages import says
from trace_tools.diff.judge.settings import is_same_machine
from trace_tools.trace.model import Process


def test_load_during_a_run_is_reported_once() -> None:
    notes = [Process(f"pass {n}", "complete", notes=[f"load average {n}.5 on 2 cores"]) for n in range(1, 4)]
    b = replace(made(0), run=replace(made(0).run, processes=notes))
    assert any(says(note, "B, pass 1: load average 1.5 on 2 cores", "2 similar") for note in differ(made(0), b).notes)


def test_one_lecture_with_two_names_is_compared_by_line() -> None:
    a, b = made(0), made(1)
    b = replace(b, sources=[replace(b.sources[0], path="other.py", text=b.sources[0].text + "z = 1\n")])
    settings = {s.name: (s.a, s.b) for s in differ(a, b).settings}
    lines = a.sources[0].text.count("\n")
    assert settings["file"] == (a.sources[0].path, "other.py")
    assert settings["other.py"] == (f"{lines} lines, 0 only here", f"{lines + 1} lines, 1 only here")


def test_repeated_lines_of_a_text_are_counted_separately() -> None:
    """New paragraphs are added in front, among blank lines; the earlier lines are in both texts."""
    a = made(0)
    before = a.sources[0].text + "".join(f"# {n}\n\n" for n in range(100))
    after = "".join(f"# new {n}\n\n" for n in range(40)) + before + "# end\n"
    a, b = (replace(a, sources=[replace(a.sources[0], text=text)]) for text in (before, after))
    lines = before.count("\n")
    changed = {s.name: (s.a, s.b) for s in differ(a, b).settings}[a.sources[0].path]
    assert changed == (f"{lines} lines, 0 only here", f"{lines + 81} lines, 81 only here")


def test_an_emulated_device_differs_from_a_real_one() -> None:
    a = made(0)
    b = replace(a, machine=replace(a.machine, emulated=True))
    assert {s.name: (s.a, s.b) for s in differ(a, b).settings}["emulated"] == (False, True)
    assert not is_same_machine(a.machine, b.machine)
