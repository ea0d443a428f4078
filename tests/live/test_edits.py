"""What a save affects: changed functions, the section to trace, and the files on which a lecture depends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.live.lectures import LECTURE
from trace_tools.errors import LectureError
from trace_tools.live.edits import Dependencies, dependencies_of, section_to_trace
from trace_tools.source.statements import parse_source
from trace_tools.source.versions import changed_functions
from trace_tools.trace.model import SourceFile

TRACED = SourceFile("lecture.py", LECTURE)


@each(
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
def test_changed_functions_are_found(old: str, new: str, changed: set[str] | None) -> None:
    assert LECTURE.count(old) == 1
    assert changed_functions(TRACED, LECTURE.replace(old, new)) == changed


@each(
    ("old", "new", "section"),
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
def test_a_section_is_traced_alone_if_only_it_is_affected(old: str, new: str, section: str | None) -> None:
    """None: no code changed, or the whole lecture must be traced."""
    assert section_to_trace(TRACED, parse_source(LECTURE.replace(old, new, 1), "lecture.py")) == section


@pytest.mark.parametrize(
    "text",
    [
        LECTURE.replace("    y = x + 1", "    y = helper(x)"),
        LECTURE.replace("    second()\n", "    second()\n    helper(2)\n"),
        LECTURE.replace("    second()\n", "    if helper(2):\n        second()\n"),
        LECTURE + "\n\nprint(helper(1))\n",
        LECTURE + "\n\nclass C:\n    one = helper(1)\n",
        LECTURE.replace("def first():", "def first(n=helper(1)):"),
    ],
)
def test_a_change_in_shared_code_retraces_the_whole_lecture(text: str) -> None:
    """Each text also calls `helper` outside the second section."""
    edited = parse_source(text.replace("return n + 1", "return n + 2"), "lecture.py")
    assert section_to_trace(SourceFile("lecture.py", text), edited) is None


def test_invalid_python_in_the_trace_is_an_error() -> None:
    with pytest.raises(LectureError):
        section_to_trace(SourceFile("lecture.py", "def"), parse_source(LECTURE, "lecture.py"))


def test_imported_modules_and_images_are_dependencies(tmp_path: Path) -> None:
    for name in ("shapes", "deeper", "unused", "loop", "broken"):
        (tmp_path / f"{name}.py").write_text({"shapes": "import deeper, os", "broken": "def"}.get(name, "import loop"))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "part.py").write_text("")
    text = "import torch, broken\nfrom shapes import x\nimport package.part\nfrom trace_tools import image\n"
    text += "def main():\n    image('img/a.png', 'a')\n    image(x)\n    import lecture\n"
    dependencies = dependencies_of(parse_source(text, "lecture.py"), tmp_path)
    names = ("broken.py", "deeper.py", "loop.py", "package/__init__.py", "package/part.py", "shapes.py")
    assert dependencies == Dependencies(tuple(tmp_path / name for name in names), (tmp_path / "img/a.png",))
