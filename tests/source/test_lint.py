"""Mistakes are found in a lecture's source and reported with their lines; a correct lecture has none."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.messages import says
from trace_tools.errors import LectureError
from trace_tools.lecture import vocabulary
from trace_tools.source.lint import mistakes
from trace_tools.source.statements import main_of, sections
from trace_tools.trace.model import MODULE
from trace_tools.tracing.tracer import check_lecture

HEAD = (
    "from trace_tools import ask, image, link, plot, table, text\nimport trace_tools\n\n\n"
    "def main():\n    part()\n\n\ndef part():\n"
)
NOT_VALID = f"not valid Python {sys.version_info[0]}.{sys.version_info[1]}: "
MISTAKES = [  # a line of a section, and a part of the message about it
    ("x = 1  # @inpsect x", "unknown directive `@inpsect`; did you mean `@inspect`?"),
    ("x = 1  # @inspect", "`@inspect` needs an expression"),
    ("text()", "text: missing a required argument: 'markdown'"),
    ("trace_tools.text('a', 'b')", "text: too many positional arguments"),
    ("ask('How many?')", "ask: missing a required argument: 'answer'"),
    ("text('a', colour='red')", "text: got an unexpected keyword argument 'colour'"),
    ("x = 1  # @inspect y", "`@inspect y`: nothing here is named `y`"),
    ("total = 1  # @inspect totla.real", "nothing here is named `totla`; did you mean `total`?"),
    ("x = [1]  # @inspect [y for y in x]", "`[y for y in x]` is not the unit of an expression"),
    ("link(href='https://example.org')", "link: missing a required argument: 'url'"),
    ("image(alt='A loss curve')", "image: missing a required argument: 'path'"),
]
CANNOT_RUN = [
    ("from os import *", "import * only allowed at module level"),
    ("nonlocal q", "no binding for nonlocal 'q' found"),
    ("x = 1; global x", "name 'x' is assigned to before global declaration"),
    ("break", "'break' outside loop"),
]
CORRECT = [
    "match main:\n        case {'c': [a, *b], **c}: x = 1  # @inspect a b c",
    "text(*['a'])",
    "text(**{'markdown': 'a'})",
    "(lambda self: self.text())(part)",
    "text = print\n    text()",
    "x = 1  # @inspect __name__ len(x)",
    "globals()['y'] = 1  # @inspect y",
    "for k, (a, *b) in (): pass  # @inspect k a b",
    "x = 1; ask('Which?', 'a', choices=[x, 'a'])",
    "assert 1 is 1",
]


def found(path: Path, text: str) -> list[str]:
    """Return the mistakes in a lecture with this text, after its name."""
    path.write_text(text)
    return [str(mistake).removeprefix(f"{path}:") for mistake in mistakes(path)]


@each(("line", "message"), [*MISTAKES, *((line, NOT_VALID + message) for line, message in CANNOT_RUN)])
def test_mistakes_are_reported_with_their_line(line: str, message: str, tmp_path: Path) -> None:
    [mistake] = found(tmp_path / "lecture.py", f"{HEAD}    {line}\n")
    assert mistake.startswith("10: ") and message in mistake
    if message.startswith(NOT_VALID):
        with pytest.raises(LectureError, match=re.escape(f":10: {message}")):
            check_lecture(tmp_path / "lecture.py")


def test_all_mistakes_are_reported_in_order_without_running(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(HEAD + "".join(f"    {line}\n" for line, _ in MISTAKES) + "raise SystemExit('it ran')\n")
    assert [mistake.line for mistake in mistakes(path)] == list(range(10, 10 + len(MISTAKES)))


@each("text", [*(f"{HEAD}    {line}\n" for line in CORRECT), f"from math import *\n{HEAD}    x = 1  # @inspect pi\n"])
def test_possibly_correct_lines_are_no_mistakes(text: str, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    assert found(tmp_path / "lecture.py", text) == [] and not list(recwarn)


def test_section_that_is_never_called_is_a_mistake(tmp_path: Path) -> None:
    """A helper with parameters, a function named in a list, and functions without narrative calls are none."""
    parts = [
        "    below()",
        "def below():\n    text('a')",
        "def forgotten():\n    text('a')",
        "def uses(x):\n    text(x)",
        "def listed():\n    text('a')",
        "def silent():\n    x = 1",
        "ALL = [listed]\n",
    ]
    [mistake] = found(tmp_path / "lecture.py", HEAD + "\n\n\n".join(parts))
    assert says(mistake, "17: ", "`forgotten`", "never called", "`main`")


@each(
    ("name", "text", "message"),
    [
        ("lecture.py", "def main(n, *, k, m=1):\n    part()\ndef part(): pass\n", "1: `main` needs arguments"),
        ("lecture.py", "async def main():\n    part()\ndef part(): pass\n", "1: `main` is `async`"),
        ("lecture.py", "def main():\n    print(1)\n", "1: `main` calls no function of the lecture"),
        ("random.py", "def main(n=1):\n    part()\ndef part(): pass\n", "1: has the name of Python's own module"),
    ],
)
def test_a_lecture_that_cannot_run_is_a_mistake(name: str, text: str, message: str, tmp_path: Path) -> None:
    [mistake] = found(tmp_path / name, text)
    assert mistake.startswith(message)


def test_lecture_py_has_no_mistakes() -> None:
    """The lecture makes every call of the vocabulary except `image`, so correct calls of each pass the checks."""
    path = Path(__file__).resolve().parents[2] / "lecture.py"
    assert mistakes(path) == []
    assert all(f"{name}(" in path.read_text() for name in vocabulary.VOCABULARY - {"image"})


@each(
    ("end", "main"),
    [
        ("def main(n): part()\nmain(3)\n", "main"),
        ("def main(): part(); spare = 1\ndef spare(): pass\nmain()\n", "main"),
        ("async def main(): part()\nif __name__ == '__main__':\n    asyncio.run(main())\n", "main"),
        ("def begin(): part()\nif __name__ == '__main__':\n    print('x')\n    begin()\n", "begin"),
        ("def begin(): part()\nif '__main__' == __name__: sys.exit(begin())\n", "begin"),
        ("def begin(): part()\ndef end(): part()\nif __name__ == '__main__':\n    begin()\n    end()\n", MODULE),
        ("if __name__ == '__main__':\n    part()\n", MODULE),
        ("def begin(): part()\nbegin()\n", MODULE),
    ],
)
def test_the_main_block_decides_which_function_runs_the_lecture(end: str, main: str, tmp_path: Path) -> None:
    path = tmp_path / "talk.py"
    path.write_text(f"import asyncio, sys\ndef part(): pass\n{end}")
    source = check_lecture(path)
    assert main_of(source) == main and sections(source) == (["Talk"] if main == MODULE else ["part"])
    assert mistakes(path) == []
