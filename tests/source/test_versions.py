from __future__ import annotations

import ast

import pytest

from tests.cases_in_one import each
from tests.messages import says
from trace_tools.source.versions import ShownSource, shown_source
from trace_tools.trace.model import SourceFile

LECTURE = '''\
"""A lecture."""
from trace_tools import note, text


def main():
    text("First.")
    x = 1  # @inspect x [B]
    if x:
        text("Yes.")
    else:
        text("No.")
    for i in range(3):
        text(f"{i}")
        y = x + i  # a comment
    note("Slowly.")
    z = "text"
'''


def edition(new: str) -> ShownSource:
    return shown_source(SourceFile("lecture.py", LECTURE), new)


@each(
    ("old", "new"),
    [
        ('text("First.")', 'text("Reworded.")'),
        ('    text("First.")\n', ""),
        ('    z = "text"', '    text("Added.")\n    z = "text"'),
        ('text("Yes.")', 'text("Yes.")\n        text("Indeed.")'),
        ("# a comment", "# another"),
        ("  # a comment", "  # @hide"),
        ("from trace_tools", "\n\n# More lines.\nfrom trace_tools"),
        ("x + i", "(x\n            + i)"),
        ('note("Slowly.")', 'note("Fast.")'),
    ],
)
def test_prose_may_change(old: str, new: str) -> None:
    assert old in LECTURE
    changed = LECTURE.replace(old, new)
    found = edition(changed)
    assert found.stale is None
    assert found.source.parsed.text == changed
    before = shown_source(SourceFile("lecture.py", LECTURE), None).source.parsed.statements
    for shown, recorded in found.recorded.items():
        node, was = found.source.parsed.statements[shown].node, before[recorded].node
        if not isinstance(node, (ast.FunctionDef, ast.If, ast.For)):
            assert ast.unparse(node) == ast.unparse(was)


@each(
    ("old", "new"),
    [
        ("x = 1", "x = 2"),
        ("x = 1", "x = 1.0"),
        ("x = 1", "x = True"),
        ("[B]", "[s]"),
        ("  # @inspect x [B]", ""),
        ("# a comment", "# @inspect y"),
        ('text(f"{i}")', 'text(f"{i + 1}")'),
        ('"""A lecture."""', '"""Another."""'),
        ('z = "text"', 'text("only prose")'),
        ('text("First.")', 'print("First.")'),
        ("range(3)", "range(4)"),
    ],
)
def test_code_may_not(old: str, new: str) -> None:
    assert old in LECTURE
    found = edition(LECTURE.replace(old, new))
    assert says(found.stale, "code", "changed")
    assert found.source.parsed.text == LECTURE


def test_a_lecture_that_is_no_python_any_more_is_stale() -> None:
    found = edition(LECTURE + "def f(:")
    assert says(found.stale, "lecture.py:17: not valid Python")


def test_prose_in_a_branch_that_the_trace_knows_nothing_of_is_stale() -> None:
    old = LECTURE.replace('    else:\n        text("No.")\n', "")
    found = shown_source(SourceFile("lecture.py", old), LECTURE)
    assert says(found.stale, "new prose", "branch")


def test_new_prose_is_said_where_its_neighbours_ran() -> None:
    found = edition(
        LECTURE.replace('text("No.")', 'text("Not so.")').replace('    z = "text"', '    z = "text"\n    text("End.")')
    )
    old = shown_source(SourceFile("lecture.py", LECTURE), None).source.parsed.statements
    beside = {p.narrative.text: old[p.beside].line for p in found.prose.values() if p.beside is not None}
    assert beside == {"First.": 6, "Yes.": 9, "Not so.": 11, "Slowly.": 15, "End.": 16}


@pytest.mark.parametrize(
    ("new", "reworded"),
    [
        ('text("Reworded.")', {"Reworded.": "First."}),
        ('text("First.")\n    text("Second.")', {"First.": "First."}),
        ('text("Zeroth.")\n    text("First.")', {"First.": "First."}),
    ],
)
def test_prose_keeps_the_steps_of_what_stood_in_its_place(new: str, reworded: dict[str, str]) -> None:
    found = edition(LECTURE.replace('text("First.")', new))
    old = shown_source(SourceFile("lecture.py", LECTURE), None).source.parsed.statements
    said = {
        p.narrative.text or "": ast.unparse(old[p.beside].node) for p in found.prose.values() if p.reworded and p.beside
    }
    others = {"Yes.", "No.", "Slowly."}
    assert {text: source for text, source in said.items() if text not in others} == {
        text: f"text({was!r})" for text, was in reworded.items()
    }
    assert others <= said.keys()


def test_lines_are_remapped() -> None:
    found = edition(LECTURE.replace('    text("First.")\n', '    text(\n        "Longer."\n    )\n'))
    assert found.lines[7] == 9 and found.lines[16] == 18 and found.lines[2] == 2


@each(
    ("new", "stale"),
    [
        ('text(f"It is {x:.1f}, {y} in all")', False),
        ('text(f"{y}: " f"{x:.1f}")', False),
        ('text(f"{x:.2f} of {y}")', True),
        ('text(f"{x:.1f}")', True),
        ('text("none")', True),
    ],
)
def test_an_f_string_keeps_its_placeholders(new: str, stale: bool) -> None:
    old = LECTURE.replace('text(f"{i}")', 'text(f"{x:.1f} of {y}")')
    found = shown_source(SourceFile("lecture.py", old), old.replace('text(f"{x:.1f} of {y}")', new))
    assert (found.stale is not None) == stale
    if not stale:
        [[one]] = found.reworded.values()
        assert one.was.text == "{x:.1f} of {y}" and sorted(one.now.slots) == ["x:.1f", "y"]
