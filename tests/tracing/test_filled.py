"""A trace has the values in the f-strings of narrative calls, so pages can show them in another wording."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from trace_tools.cli import main
from trace_tools.trace.model import Step
from trace_tools.trace.trace_file import load

TALK = '''\
"""A talk"""
from trace_tools import ask, decide, table, text


def main():
    first()


def first():
    """First section"""
    x = 3.14159
    d = {"key": 2}
    text(f"The number is {x:.2f}" " in all" f", {'yes' if x > 3 else 'no'}: {d['key']!r:>3}.")
    ask(f"What is {x:.1f} times 2?", 2 * x, hint=f"Twice {x:.0f}.", slips={1: "No."})
    decide(x, above=f"{x:.1f} is above", below=f"{x} is below", undecided="same")
    table([[1, 2]], [f"at {x:.0f}", *(f"column {n}" for n in range(1))], title=f"The table of {x}")
    text(f"{x}"), text(f"again {told(x)}")


def told(x):
    text(f"inside {x:.3f}")
    return x
'''


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    (folder / "talk.py").write_text(TALK)
    result = CliRunner().invoke(main, ["trace", str(folder / "talk.py"), "-o", str(folder / "out"), "--passes", "1"])
    assert result.exit_code == 0, result.output
    return folder


def test_placeholder_values_are_recorded_with_the_text(traced: Path) -> None:
    [path] = (traced / "out").glob("*/trace.yaml")
    narrative = [item for step in load(path).trace.steps if isinstance(step, Step) for item in step.narrative or ()]
    x = 3.14159
    assert [(getattr(item, "text", None), item.filled) for item in narrative] == [
        ("The number is 3.14 in all, yes:   2.", [(0, [f"{x:.2f}", "yes", f"{2!r:>3}"])]),
        ("What is 3.1 times 2?", [(0, ["3.1"]), (1, ["3"])]),
        ("3.1 is above", [(0, ["3.1"]), (1, [f"{x}"])]),
        (None, [(0, ["3"]), (1, ["0"]), (2, [f"{x}"])]),
        ("3.14159", None),
        ("again 3.14159", [(1, [f"{x}"])]),
        ("inside 3.142", [(0, ["3.142"])]),
    ]


def test_another_wording_needs_no_new_trace(traced: Path) -> None:
    [path] = (traced / "out").glob("*/trace.yaml")
    reworded = (
        TALK.replace('The number is {x:.2f}" " in all"', 'All in all: "')
        .replace("!r:>3}.", "!r:>3} and {x:.2f}.")
        .replace("{x:.1f} is above", "above all, {x:.1f}")
        .replace("Twice {x:.0f}", "{x:.0f} twice")
        .replace("The table of {x}", "Its table: {x}")
        .replace("inside {x:.3f}", "{x:.3f} inside")
    )
    (traced / "talk.py").write_text(reworded)
    result = CliRunner().invoke(main, ["render", str(path)])
    assert result.exit_code == 0, result.output
    page = (path.parent / "00-first.md").read_text()
    wordings = ("All in all: , yes:   2 and 3.14.", "above all, 3.1", "3 twice", "Its table: 3.14159", "3.142 inside")
    assert [wording for wording in wordings if wording not in page] == []
    assert "code has changed" not in page
    (traced / "talk.py").write_text(reworded.replace("{x:.3f} inside", "{x:.4f} inside"))
    CliRunner().invoke(main, ["render", str(path)])
    assert "code has changed" in (path.parent / "00-first.md").read_text()
