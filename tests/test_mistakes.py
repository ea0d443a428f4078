"""Mistakes that are told from a lecture's source, each on its line; a lecture without any has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_tools import narrative
from trace_tools.mistakes import mistakes

HEAD = (
    "from trace_tools import ask, plot, table, text\nimport trace_tools\n\n\ndef main():\n    part()\n\n\ndef part():\n"
)
MISTAKES = [  # a line of a section, and what is said of it
    ("x = 1  # @inpsect x", "unknown directive `@inpsect`; did you mean `@inspect`?"),
    ("x = 1  # @inspect", "`@inspect` has nothing to inspect"),
    ("text()", "text: missing a required argument: 'markdown'"),
    ("trace_tools.text('a', 'b')", "text: too many positional arguments"),
    ("table([[1, 2], [3]], ['a', 'b'])", "table: row 1 has 1 cells; expected 2"),
    ("table([{'a': 1}], ['a'])", "table: row 0 is a dict; expected a list of its cells"),
    ("plot([1, 2, 3])", "plot: found list; expected {name: values} or a matplotlib Figure"),
    ("ask('How many?')", "ask: missing a required argument: 'answer'"),
    ("text('a', colour='red')", "text: got an unexpected keyword argument 'colour'"),
    ("from trace_tools import tabel", "trace_tools has no `tabel`; did you mean `table`?"),
]
FINE = [
    "text(*['a'])",
    "text(**{'markdown': 'a'})",
    "table([[1, x] for x in range(3)], ['a', 'b'])",
    "plot({'a': list(range(3))})",
    "from trace_tools import measure, drawings, metering",
    "self.text()",
]


@pytest.mark.parametrize(("line", "said"), MISTAKES)
def test_a_mistake_is_told_at_its_line(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"{HEAD}    {line}\n")
    assert [str(found) for found in mistakes(path)] == [str(found) for found in mistakes(path) if said in str(found)]
    assert str(mistakes(path)[0]).startswith(f"{path}:10: ")


def test_all_of_them_are_told_in_order_and_nothing_runs(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(HEAD + "".join(f"    {line}\n" for line, _ in MISTAKES) + "raise SystemExit('it ran')\n")
    assert [found.line for found in mistakes(path)] == list(range(10, 10 + len(MISTAKES)))


@pytest.mark.parametrize("line", FINE)
def test_what_may_be_right_is_no_mistake(line: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"{HEAD}    {line}\n")
    assert mistakes(path) == []


def test_a_name_that_the_lecture_gives_to_something_else_is_no_word(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(HEAD + "    text = print\n    text()\n")
    assert mistakes(path) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [("x = 1\n", "defines no function `main`"), ("def main():\n    print(1)\n", "calls no function of the lecture")],
)
def test_a_lecture_has_a_main_that_calls_its_sections(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(text)
    assert [said in str(found) for found in mistakes(path)] == [True]


def test_the_lecture_has_none() -> None:
    """And each word is tried there: what is said of it in the source is what its signature takes."""
    path = Path(__file__).resolve().parents[1] / "lecture.py"
    assert mistakes(path) == []
    assert all(f"{word}(" in path.read_text() for word in narrative.VOCABULARY - {"image"})
