"""Reports on a terminal: as wide as it is, as much as a screen holds, and no more than text."""

from __future__ import annotations

import io
import random
import re
from dataclasses import replace

import pytest
from rich.console import Console

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, LECTURE, at, differ, made, slower, with_steps
from tests.diff.report_cases import terminal_of
from tests.diff.test_compare import LONG, machine_trace, side_by_side
from trace_tools.diff.judge.times import NARRATES
from trace_tools.diff.report.comparison_report import report_of
from trace_tools.diff.report.terminal import terminal
from trace_tools.trace.model import Claim, Meters, Step, Trace, Value


@pytest.mark.parametrize("width", [80, 160])
def test_the_terminal_shows_each_quantity_once(width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    found = side_by_side(machine_trace("a", LONG), machine_trace("b", [100_000] * 3))
    console.print(terminal(report_of(found, "terminal", width=width)))
    shown = console.export_text()
    assert all(len(line) <= width for line in shown.splitlines())
    for title in ("Time", "Achieved FLOP/s", "MFU", "Bandwidth", "Peak memory", "Measured by the lecture", "Peaks"):
        assert len(re.findall(rf"^{title}\b", shown, re.MULTILINE)) >= 1, title
    assert "● 100 µs  × 0.5" in shown


def test_printed_text_that_differs_is_named_with_its_line_and_zeros_in_a_note() -> None:
    def planted(zero: float, printed: str) -> Trace:
        return with_steps(made(0), lambda s: at(9, stdout=printed)(at(5, values=[("z", Value("float", zero))])(s)))

    found = differ(planted(0.0, "loss 0.51\n"), planted(-0.0, "loss 0.49\n"))
    text = terminal_of(found)
    assert not found.matters and "No differences that matter" in text
    assert re.search(r"lecture\.py:9\b.*\n.*printed.*loss 0\.51.*loss 0\.49", text)
    assert re.search(r"Note .*1 value is 0\.0 .*-0\.0", text)
    same = terminal_of(differ(planted(0.0, "a"), planted(0.0, "a")))
    assert "printed" not in same.lower() and "-0.0" not in same


def test_narrative_calls_are_never_judged_in_time() -> None:
    lecture = "from trace_tools import text\n" + LECTURE.replace("    y = x + 1\n", "    text('a')\n    y = x + 1\n")

    def recorded(seed: int, factor: float) -> Trace:
        rng = random.Random(seed)

        def change(step: Step) -> Step:
            own = factor if step.line == 7 else 1.0  # the text
            return replace(step, host_ns=[round(own * 10_000 * rng.lognormvariate(0, 0.02)) for _ in range(3)])

        return with_steps(traced(lecture, machine=CPU), change)

    found = differ(recorded(0, 1.0), recorded(1, 50.0))
    assert not found.matters and (NARRATES, 1) in found.times.not_judged


def test_the_report_fits_a_screen_and_leads_with_claims() -> None:
    def wrecked(step: Step) -> Step:
        worse = slower(3.0, step.line)(step)
        values = [(f"v{n}", Value("int", n)) for n in range(9)]
        claim = Claim("y == 2", False, message="no") if step.line == 7 else step.claim
        return replace(worse, claim=claim, values=values, meters=Meters(5, 5, 5, 5, 5))

    base = with_steps(made(0), lambda s: replace(s, values=[(f"v{n}", Value("int", -1)) for n in range(9)]))
    text = terminal_of(differ(base, with_steps(made(1), wrecked)))
    assert len(text.splitlines()) <= 60
    assert text.index("Claims") < text.index("Values") < text.index("Memory") < text.index("Time, ")
    assert "more (--all)" in text
    assert len(terminal_of(differ(base, with_steps(made(1), wrecked)), everything=True)) > 3 * len(text)


def test_settings_and_versions_come_first() -> None:
    b = replace(made(0), versions=[("torch", "9.9")], run=replace(made(0).run, seed=7))
    text = terminal_of(differ(made(0), b))
    assert "setting: seed 0 → 7; version: python 3.11.7 → –; version: torch 2.13.0 → 9.9" in text.replace("\n", " ")


def test_hostile_text_is_shown_as_what_it_is() -> None:
    nasty = "[bold red]x[/]\x1b[2J\u202e"
    b = with_steps(made(0), at(6, values=[(nasty, Value("str", nasty))]))
    text = terminal_of(differ(made(0), replace(b, versions=[(nasty, nasty)])), everything=True)
    assert "[bold red]x[/]" in text and "\x1b" not in text and "\u202e" not in text
