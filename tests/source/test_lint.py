"""Mistakes that are told from a lecture's source, each on its line; a lecture without any has none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.messages import says
from trace_tools.errors import LectureError
from trace_tools.lecture import vocabulary
from trace_tools.source.lint import mistakes, refuse_relative_imports
from trace_tools.source.statements import read_source
from trace_tools.tracing.plan import check_lecture

HEAD = (
    "from trace_tools import ask, image, link, plot, table, text\nimport trace_tools\n\n\n"
    "def main():\n    part()\n\n\ndef part():\n"
)
MISTAKES = [  # a line of a section, and what is said of it
    ("x = 1  # @inpsect x", "unknown directive `@inpsect`; did you mean `@inspect`?"),
    ("x = 1  # @inspect", "`@inspect` needs an expression"),
    ("text()", "text: missing a required argument: 'markdown'"),
    ("trace_tools.text('a', 'b')", "text: too many positional arguments"),
    ("table([[1, 2], [3]], ['a', 'b'])", "table: row 1 has 1 cells; expected 2"),
    ("table([{'a': 1}], ['a'])", "table: row 0 is a dict; expected a list of its cells"),
    ("table([{'a': 1}])", "table: row 0 is a dict; expected a list of its cells"),
    ("table([[1, 2]])", "table: row 0 has 2 cells; expected the columns' names as well, as in table(rows, ["),
    ("plot([1, 2, 3])", "plot: found list; expected {name: values} or a matplotlib Figure"),
    ("ask('How many?')", "ask: missing a required argument: 'answer'"),
    ("text('a', colour='red')", "text: got an unexpected keyword argument 'colour'"),
    ("plot([1, 2])", 'expected {name: values} or a matplotlib Figure: `plot({"y": values})`'),
    ("table({'a': [1]}, ['a'])", "table: found a dict; expected a list of rows"),
    ("table([1, 2], ['a'])", "table: row 0 is 1; expected a list of its cells"),
    ("text(['a'])", "text: the argument is a list; expected text"),
    ("n = 3; text('there are {n}')", "text: `{n}` is shown literally; expected an f before the string"),
    ("n = 3; ask('How many is {n:,}?', n)", "ask: `{n:,}` is shown literally"),
    ("image('nothing.png')", "image: 'nothing.png' does not exist; expected a file next to the lecture"),
    ("x = 1  # @inspect y", "`@inspect y`: nothing here is named `y`"),
    ("total = 1  # @inspect totla.real", "nothing here is named `totla`; did you mean `total`?"),
    ("x = 1  # @inspect x [flops/s]", "`[flops/s]` is shown literally, without prefixes; did you mean `[FLOP/s]`?"),
    ("x = 1  # @inspect x (FLOP)", "`(FLOP)` can't be inspected; did you mean a unit, `[FLOP]`?"),
    ("x = [1]  # @inspect [y for y in x]", "`[y for y in x]` can't be inspected; expected a name"),
    ("note('for me')", "`note` is not imported; expected `from trace_tools import note`"),
    ("import matplotlib.pyplot as plt; plt.show()", "expected plot(plt.gcf())"),
    ("from trace_tools import tabel", "trace_tools has no `tabel`; did you mean `table`?"),
    ("link('Wikipedia', 'https://example.org')", "link: found the title 'https://example.org', which is an address"),
    ("link('Wikipedia', title=f'{1}')", "link: found 'Wikipedia'; expected an address"),
    ("link('Wikipedia')", "link: found 'Wikipedia'; expected an address"),
    ("link('https://')", "link: found 'https://'; expected an address"),
    ("link('htps://example.org')", "link: found 'htps://example.org'; expected an address"),
    ("link('www.example.org')", "link: found 'www.example.org'; expected 'https://www.example.org'"),
    ("link('https://example.org', authors=1, date=str(2))", "link: authors is a int; expected a list of texts"),
    ("link(href='https://example.org')", "link: missing a required argument: 'url'"),
    ("image('A loss curve', 'loss.png')", "image: found the description 'loss.png'; expected the path first"),
    ("image(alt='A loss curve')", "image: missing a required argument: 'path'"),
    ("image(str(1), width=0)", "image: width is 0; expected pixels above 0"),
    ("x = 1; text([x])", "text: the argument is a list; expected text"),
    ("text({str(n): n for n in (1, 2)})", "text: the argument is a dict; expected text"),
]
FINE = [
    "text(*['a'])",
    "text(**{'markdown': 'a'})",
    "table([[1, x] for x in range(3)], ['a', 'b'])",
    "plot({'a': list(range(3))})",
    "from trace_tools import measure, draw_bits, metering, plain",
    "self.text()",
    "n = 3; text(r'$\\frac{n}{2}$ and `{n}` and \\mathbf{n} and {{n}} and {m}')",
    "open('made.png', 'wb'); image('made.png')",
    "x = 1  # @inspect x [parsecs]",
    "x = 1  # @inspect __name__ len(x)",
    "globals()['y'] = 1  # @inspect y",
    "for k, (a, *b) in (): pass  # @inspect k a b",
    "link('https://example.org/a b'), link('notes.pdf'), link('02-costs.html#L5'), link('mailto:a@b.c')",
    "link(str(1), 'a title', date=2020), link('#L5'), link(url='../data/', title='https or not')",
    "x = 1; ask('Which?', 'a', choices=[x, 'a'])",
]


@each(("line", "said"), MISTAKES)
def test_a_mistake_is_told_at_its_line(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"{HEAD}    {line}\n")
    assert [str(found) for found in mistakes(path)] == [str(found) for found in mistakes(path) if said in str(found)]
    assert str(mistakes(path)[0]).startswith(f"{path}:10: ")


def test_all_of_them_are_told_in_order_and_nothing_runs(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(HEAD + "".join(f"    {line}\n" for line, _ in MISTAKES) + "raise SystemExit('it ran')\n")
    assert [found.line for found in mistakes(path)] == list(range(10, 10 + len(MISTAKES)))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("from os import *", "import * only allowed at module level"),
        ("nonlocal q", "no binding for nonlocal 'q' found"),
        ("x = 1; global x", "name 'x' is assigned to before global declaration"),
        ("break", "'break' outside loop"),
    ],
)
def test_what_python_parses_and_does_not_compile_is_told_at_its_line(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"{HEAD}    {line}\n")
    for told in (lambda: str(mistakes(path)[0]), lambda: refused(path)):
        assert re.fullmatch(rf"{re.escape(str(path))}:10: not valid Python 3\.\d+: {re.escape(said)}", told())


@each("line", [line for line, said in MISTAKES if said.startswith(("link:", "image: f", "text: the"))])
def test_a_call_that_can_only_fail_is_refused_before_anything_runs(line: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"{HEAD}    {line}\n")
    assert f"{mistakes(path)[0]}" == refused(path)
    path.write_text(f"{HEAD}    try:\n        {line}\n    except (TypeError, ValueError):\n        pass\n")
    assert check_lecture(path)
    path.write_text(f"{HEAD}    {line}\n\ndef other(text, link, image):\n    pass\n")
    assert check_lecture(path)


def refused(path: Path) -> str:
    with pytest.raises(LectureError) as raised:
        check_lecture(path)
    return str(raised.value)


def test_in_another_tools_words_addresses_paths_and_styles_are_checked_and_no_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    lines = [
        "link('Wikipedia', 'https://example.org')",
        "text('a '), link('Wikipedia')",
        "image('nothing.png')",
        "text('a', 'bold')",
    ]
    fine = [
        "link('https://example.org'), link(part), link(title='T', url='x'), text('a', {'color': 'red'}, verbatim=True)",
        "image('https://example.org/a.png', width=9)",
        "image('lecture.py')",
    ]
    body = "".join(f"    {line}\n" for line in (*fine, *lines))
    path.write_text(f"from edtrace import image, link, text\ndef main():\n    part()\ndef part():\n{body}")
    assert [found.line for found in mistakes(path)] == [8, 9, 10, 11]
    assert check_lecture(path)


def test_what_a_star_brings_can_be_inspected(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"from math import *\n{HEAD}    x = 1  # @inspect pi\n")
    assert mistakes(path) == []


def test_what_python_only_warns_of_is_no_mistake(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"{HEAD}    assert 1 is 1\n")
    assert mistakes(path) == [] and not list(recwarn)


@each("line", FINE)
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
    [
        ("x = 1\n", "defines no function `main`"),
        ("def main(n, *, k, m=1):\n    part()\ndef part(): pass\n", ":1: `main` needs `n`, `k`"),
        ("async def main():\n    part()\ndef part(): pass\n", ":1: `main` is `async`"),
        ("def main():\n    print(1)\n", "calls no function of the lecture"),
    ],
)
def test_a_lecture_has_a_main_that_calls_its_sections(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(text)
    assert [said in str(found) for found in mistakes(path)] == [True]


def test_the_lecture_has_none() -> None:
    """And each word is tried there: what is said of it in the source is what its signature takes."""
    path = Path(__file__).resolve().parents[2] / "lecture.py"
    assert mistakes(path) == []
    assert all(f"{word}(" in path.read_text() for word in vocabulary.VOCABULARY - {"image"})


LECTURE = "def main(n=1):\n    part()\n\n\ndef part():\n    pass\n"


def test_a_file_named_like_one_of_pythons_own(tmp_path: Path) -> None:
    path = tmp_path / "random.py"
    path.write_text(LECTURE)
    [mistake] = mistakes(path)
    assert says(mistake, f"{path}:1: ", "module `random`", "rename")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from . import helper", "for the modules of a package; expected `import helper`"),
        ("from .helper import f", "expected `from helper import f`"),
    ],
)  # fmt: skip
def test_a_relative_import_says_what_to_write(line: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"{line}\n{LECTURE}")
    [found] = mistakes(path)
    assert found.line == 1 and expected in str(found)
    path.write_text(f"try:\n    {line}\nexcept ImportError:\n    helper = f = None\n{LECTURE}")
    assert mistakes(path) == []


def test_in_a_package_a_relative_import_is_right_and_names_how_to_run_it(tmp_path: Path) -> None:
    folder = tmp_path / "course" / "week"
    folder.mkdir(parents=True)
    for one in (folder, folder.parent):
        (one / "__init__.py").touch()
    path = folder / "talk.py"
    path.write_text(f"from ..helper import f\n{LECTURE}")
    assert mistakes(path) == []
    with pytest.raises(LectureError, match=r"talk\.py:1: .* run `trace-tools trace -m course\.week\.talk`"):
        refuse_relative_imports(read_source(path))


def test_another_function_may_run_the_lecture_and_the_error_offers_the_one_that_the_file_starts(tmp_path: Path) -> None:
    path = tmp_path / "talk.py"
    start = 'if __name__ == "__main__":\n    prepare("x")\n    begin()\n'
    path.write_text(f"def begin():\n    part()\ndef talk(n):\n    pass\ndef part():\n    pass\n{start}")
    assert "`--main begin`" in refused(path) and mistakes(path, main="begin") == []
    with pytest.raises(LectureError, match="`talk` needs `n`"):
        check_lecture(path, main="talk")
    path.write_text("def talk():\n    part()\ndef part():\n    pass\n")
    assert "`--main talk`" in refused(path)
    path.write_text("def other():\n    pass\n")
    assert "--main" not in refused(path)
