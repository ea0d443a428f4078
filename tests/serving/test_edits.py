from __future__ import annotations

import pytest

from tests.serving.lectures import LECTURE
from trace_tools.errors import LectureError
from trace_tools.rendering.staleness import changed_functions
from trace_tools.schema import SourceFile
from trace_tools.serving.edits import section_to_trace
from trace_tools.statements import parse_source

TRACED = SourceFile("lecture.py", LECTURE)


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("x = 1", "x = 2", {"first"}),
        ("x = 1  # @inspect x", "x = 1", {"first"}),
        ("@inspect x\n", "@inspect x [B]\n", {"first"}),
        ("Paragraph 3", "Paragraph three", set()),
        ("    x = 1", "    # nothing\n\n    x = 1", set()),
        ("return n + 1", "return n + 2", {"helper"}),
        ("def helper(n):", "def helped(n):", {"helper", "helped"}),
        ("def helper(n):\n", "def more():\n    pass\n\n\ndef helper(n):\n", {"more"}),
        ("from trace_tools import text\n", "from trace_tools import text\nW = 1\n", None),
    ],
)
def test_which_functions_changed(old: str, new: str, changed: set[str] | None) -> None:
    assert LECTURE.count(old) == 1
    assert changed_functions(TRACED, LECTURE.replace(old, new)) == changed


@pytest.mark.parametrize(
    ("old", "new", "alone"),
    [
        ("x = 1", "x = 2", "first"),
        ("return n + 1", "return n + 2", "second"),
        ("x = 1", "x = helper(0)", "first"),
        ("Paragraph 3", "Paragraph three", None),
        ("    second()", "    second()\n    first()", None),
        ("    x = 1", "    global W\n    W = 2\n    x = 1", None),
        ("from trace_tools import text\n", "import os\nfrom trace_tools import text\n", None),
        ("    second()\n", "    second()\n    helper(1)\n", None),
        ("def second():\n", "@print\ndef second():\n", "second"),
    ],
)
def test_which_section_is_traced_alone(old: str, new: str, alone: str | None) -> None:
    assert section_to_trace(TRACED, parse_source(LECTURE.replace(old, new, 1), "lecture.py")) == alone


@pytest.mark.parametrize(
    "shared",
    [
        LECTURE.replace("    y = x + 1", "    y = helper(x)"),
        LECTURE.replace("    second()\n", "    second()\n    helper(2)\n"),
        LECTURE.replace("    second()\n", "    if helper(2):\n        second()\n"),
        LECTURE + "\n\nprint(helper(1))\n",
        LECTURE + "\n\nclass C:\n    one = helper(1)\n",
        LECTURE.replace("def first():", "def first(n=helper(1)):"),
    ],
)
def test_what_others_call_is_not_traced_alone(shared: str) -> None:
    now = parse_source(shared.replace("return n + 1", "return n + 2"), "lecture.py")
    assert section_to_trace(SourceFile("lecture.py", shared), now) is None


def test_a_traced_text_that_is_not_python_is_an_error() -> None:
    with pytest.raises(LectureError):
        section_to_trace(SourceFile("lecture.py", "def"), parse_source(LECTURE, "lecture.py"))
