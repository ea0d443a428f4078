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


def shown_with(new: str) -> ShownSource:
    return shown_source(SourceFile("lecture.py", LECTURE), new)


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
    assert old in LECTURE
    changed = LECTURE.replace(old, new)
    shown = shown_with(changed)
    assert shown.stale is None
    assert shown.source.parsed.text == changed
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
    ],
)
def test_changed_code_is_stale(old: str, new: str) -> None:
    assert old in LECTURE
    shown = shown_with(LECTURE.replace(old, new))
    assert says(shown.stale, "code", "changed")
    assert shown.source.parsed.text == LECTURE


def test_source_with_a_syntax_error_is_stale() -> None:
    shown = shown_with(LECTURE + "def f(:")
    assert says(shown.stale, "lecture.py:17: not valid Python")


def test_lines_are_remapped() -> None:
    shown = shown_with(LECTURE.replace('    text("First.")\n', '    text(\n        "Longer."\n    )\n'))
    assert shown.lines[7] == 9 and shown.lines[16] == 18 and shown.lines[2] == 2
