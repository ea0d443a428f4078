"""Mistakes are found in a lecture's source and reported with their lines; a correct lecture has none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.messages import says
from trace_tools.errors import LectureError
from trace_tools.lecture import vocabulary
from trace_tools.source.lint import mistakes
from trace_tools.source.statements import main_of, sections
from trace_tools.trace.model import MODULE
from trace_tools.tracing.plan import check_lecture

HEAD = (
    "from trace_tools import ask, image, link, plot, table, text\nimport trace_tools\n\n\n"
    "def main():\n    part()\n\n\ndef part():\n"
)
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
CORRECT = [
    "match main:\n        case {'c': [a, *b], **c}: x = 1  # @inspect a b c",
    "text(*['a'])",
    "text(**{'markdown': 'a'})",
    "(lambda self: self.text())(part)",
    "x = 1  # @inspect __name__ len(x)",
    "globals()['y'] = 1  # @inspect y",
    "for k, (a, *b) in (): pass  # @inspect k a b",
    "x = 1; ask('Which?', 'a', choices=[x, 'a'])",
]


@each(("line", "message"), MISTAKES)
def test_mistakes_are_reported_with_their_line(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"{HEAD}    {line}\n")
    assert [str(mistake) for mistake in mistakes(path)] == [
        str(mistake) for mistake in mistakes(path) if message in str(mistake)
    ]
    assert str(mistakes(path)[0]).startswith(f"{path}:10: ")


def test_all_mistakes_are_reported_in_order_without_running(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(HEAD + "".join(f"    {line}\n" for line, _ in MISTAKES) + "raise SystemExit('it ran')\n")
    assert [mistake.line for mistake in mistakes(path)] == list(range(10, 10 + len(MISTAKES)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("from os import *", "import * only allowed at module level"),
        ("nonlocal q", "no binding for nonlocal 'q' found"),
        ("x = 1; global x", "name 'x' is assigned to before global declaration"),
        ("break", "'break' outside loop"),
    ],
)
def test_compile_errors_are_reported_with_their_line(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"{HEAD}    {line}\n")
    for report in (lambda: str(mistakes(path)[0]), lambda: refused(path)):
        assert re.fullmatch(rf"{re.escape(str(path))}:10: not valid Python 3\.\d+: {re.escape(message)}", report())


def refused(path: Path) -> str:
    with pytest.raises(LectureError) as raised:
        check_lecture(path)
    return str(raised.value)


def test_names_from_star_imports_can_be_inspected(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"from math import *\n{HEAD}    x = 1  # @inspect pi\n")
    assert mistakes(path) == []


def test_syntax_warnings_are_no_mistakes(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"{HEAD}    assert 1 is 1\n")
    assert mistakes(path) == [] and not list(recwarn)


@each("line", CORRECT)
def test_possibly_correct_lines_are_no_mistakes(line: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"{HEAD}    {line}\n")
    assert mistakes(path) == []


def test_section_that_is_never_called_is_a_mistake(tmp_path: Path) -> None:
    """A helper with parameters, a function named in a list, and functions without narrative calls are none."""
    path = tmp_path / "lecture.py"
    parts = [
        "    below()",
        "def below():\n    text('a')",
        "def forgotten():\n    text('a')",
        "def uses(x):\n    text(x)",
        "def listed():\n    text('a')",
        "def silent():\n    x = 1",
        "ALL = [listed]\n",
    ]
    path.write_text(HEAD + "\n\n\n".join(parts))
    [mistake] = mistakes(path)
    assert mistake.line == 17 and says(str(mistake), "`forgotten`", "never called", "`main`")


def test_redefined_names_are_no_vocabulary_calls(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(HEAD + "    text = print\n    text()\n")
    assert mistakes(path) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def main(n, *, k, m=1):\n    part()\ndef part(): pass\n", ":1: `main` needs arguments"),
        ("async def main():\n    part()\ndef part(): pass\n", ":1: `main` is `async`, but nothing runs it"),
        ("def main():\n    print(1)\n", "calls no function of the lecture"),
    ],
)
def test_a_main_that_cannot_be_called_is_a_mistake(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(text)
    assert [message in str(mistake) for mistake in mistakes(path)] == [True]


def test_lecture_py_has_no_mistakes() -> None:
    """The lecture makes every call of the vocabulary except `image`, so correct calls of each pass the checks."""
    path = Path(__file__).resolve().parents[2] / "lecture.py"
    assert mistakes(path) == []
    assert all(f"{name}(" in path.read_text() for name in vocabulary.VOCABULARY - {"image"})


LECTURE = "def main(n=1):\n    part()\n\n\ndef part():\n    pass\n"


def test_file_named_like_a_standard_module_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "random.py"
    path.write_text(LECTURE)
    [mistake] = mistakes(path)
    assert says(mistake, f"{path}:1: ", "module `random`", "rename")


@pytest.mark.parametrize(
    ("end", "main"),
    [
        ("def main(n): part()\nmain(3)\n", "main"),
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
