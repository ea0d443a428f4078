from __future__ import annotations

import ast

from tests.cases_in_one import each
from tests.messages import says
from trace_tools.pages.content.shown_source import ShownSource, shown_source
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


def shown_with(old: str, new: str) -> tuple[ShownSource, str]:
    """Return what is shown of the lecture after an edit, and the edited text."""
    assert old in LECTURE
    changed = LECTURE.replace(old, new)
    return shown_source(SourceFile("lecture.py", LECTURE), changed), changed


@each(
    ("old", "new"),
    [
        ('text("First.")', 'text("Reworded.")'),
        ("# a comment", "# another"),
        ("  # a comment", "  # @hide"),
        ("from trace_tools", "\n\n# More lines.\nfrom trace_tools"),
        ("x + i", "(x\n            + i)"),
        ('note("Slowly.")', 'note("Fast.")'),
    ],
)
def test_prose_may_change(old: str, new: str) -> None:
    shown, changed = shown_with(old, new)
    assert shown.stale is None and shown.source.parsed.text == changed
    before = shown_source(SourceFile("lecture.py", LECTURE), None).source.parsed.statements
    for statement, was in zip(shown.source.parsed.statements, before, strict=True):
        if was.number not in shown.reworded and not isinstance(was.node, (ast.FunctionDef, ast.If, ast.For)):
            assert ast.unparse(statement.node) == ast.unparse(was.node)


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
        ('text(f"{i}")', 'text(f"It is {i}")'),
        ('text(f"{i}")', 'text("none")'),
        ('"""A lecture."""', '"""Another."""'),
        ('z = "text"', 'text("only prose")'),
        ('text("First.")', 'print("First.")'),
        ("range(3)", "range(4)"),
        ('    text("First.")\n', ""),
        ('    z = "text"', '    text("Added.")\n    z = "text"'),
        ('note("Slowly.")', 'text("Slowly.")'),
        ('z = "text"\n', "def f(:"),  # with a syntax error
    ],
)
def test_changed_code_is_stale(old: str, new: str) -> None:
    shown, _ = shown_with(old, new)
    facts = ("lecture.py:16: not valid Python",) if new == "def f(:" else ("code", "changed")
    assert says(shown.stale, *facts) and shown.source.parsed.text == LECTURE


def test_lines_are_remapped() -> None:
    shown, _ = shown_with('    text("First.")\n', '    text(\n        "Longer."\n    )\n')
    assert [shown.lines[line] for line in (2, 7, 16)] == [2, 9, 18]
