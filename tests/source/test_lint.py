"""Mistakes are found in a lecture's source and reported with their lines; a correct lecture has none."""

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
MISTAKES = [  # a line of a section, and a part of the message about it
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
    ("txet('a')", "`txet` is not defined; did you mean `text`?"),
    ("x = [q for q in (1, 2)]; print(q)", "`q` is not defined"),
    ("del x; x = lambda w: w + z", "`z` is not defined"),
    ("w = 1  # inspect w, w.real [s]", "`# inspect w, w.real [s]` has no effect; did you mean `# @inspect w,"),
    ("x = part  # stepover", "`# stepover` has no effect; did you mean `# @stepover`?"),
]
CORRECT = [
    "text(*['a'])",
    "text(**{'markdown': 'a'})",
    "table([[1, x] for x in range(3)], ['a', 'b'])",
    "plot({'a': list(range(3))})",
    "from trace_tools import measure, draw_bits, metering, plain",
    "(lambda self: self.text())(part)",
    "n = 3; text(r'$\\frac{n}{2}$ and `{n}` and \\mathbf{n} and {{n}} and {m}')",
    "open('made.png', 'wb'); image('made.png')",
    "x = 1  # @inspect x [parsecs]",
    "x = 1  # @inspect __name__ len(x)",
    "globals()['y'] = 1  # @inspect y",
    "for k, (a, *b) in (): pass  # @inspect k a b",
    "link('https://example.org/a b'), link('notes.pdf'), link('02-costs.html#L5'), link('mailto:a@b.c')",
    "link(str(1), 'a title', date=2020), link('#L5'), link(url='../data/', title='https or not')",
    "x = 1; ask('Which?', 'a', choices=[x, 'a'])",
    "exec('x = 1'); print(x)",
    "del part; global y; y = 1; print([k for k in range(y) if (last := k)], last, __file__)",
    "class A:\n        b: B = 1\n        c: 'Tensor' = [__qualname__, b]\n        def d(self): return __class__",
    "try: print(x)\n    except NameError as error: print(error)",
    "if main:\n        import math as m\n    print(m.pi)",
    "def f():\n        nonlocal x\n        x = 1\n    x = f",
    "match main:\n        case [a, *b] | {'a': a, **b}: print(a, b)",
    "x = 1  # inspect the result, inspect",
    "x = 1  # inspects x",
    "x = 1  # hide and seek",
    "# inspect x\n    x = 1",
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


@each("line", [line for line, message in MISTAKES if message.startswith(("link:", "image: f", "text: the"))])
def test_calls_that_must_fail_are_refused_before_running(line: str, tmp_path: Path) -> None:
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


def test_edtrace_lectures_are_checked_but_not_refused(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    wrong_lines = [
        "link('Wikipedia', 'https://example.org')",
        "text('a '), link('Wikipedia')",
        "image('nothing.png')",
        "text('a', 'bold')",
    ]
    correct_lines = [
        "link('https://example.org'), link(part), link(title='T', url='x'), text('a', {'color': 'red'}, verbatim=True)",
        "image('https://example.org/a.png', width=9)",
        "image('lecture.py')",
    ]
    body = "".join(f"    {line}\n" for line in (*correct_lines, *wrong_lines))
    path.write_text(f"from edtrace import image, link, text\ndef main():\n    part()\ndef part():\n{body}")
    assert [mistake.line for mistake in mistakes(path)] == [8, 9, 10, 11]
    assert check_lecture(path)


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
        ("x = 1\n", "defines no function `main`"),
        ("def main(n, *, k, m=1):\n    part()\ndef part(): pass\n", ":1: `main` needs `n`, `k`"),
        ("async def main():\n    part()\ndef part(): pass\n", ":1: `main` is `async`"),
        ("def main():\n    print(1)\n", "calls no function of the lecture"),
    ],
)
def test_missing_or_unusable_main_is_a_mistake(text: str, message: str, tmp_path: Path) -> None:
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
    ("line", "expected"),
    [
        ("from . import helper", "for the modules of a package; expected `import helper`"),
        ("from .helper import f", "expected `from helper import f`"),
    ],
)  # fmt: skip
def test_relative_import_error_suggests_the_correct_import(line: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(f"{line}\n{LECTURE}")
    [mistake] = mistakes(path)
    assert mistake.line == 1 and expected in str(mistake)
    path.write_text(f"try:\n    {line}\nexcept ImportError:\n    helper = f = None\n{LECTURE}")
    assert mistakes(path) == []


def test_relative_import_in_a_package_names_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "course" / "week"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent):
        (package / "__init__.py").touch()
    path = folder / "talk.py"
    path.write_text(f"from ..helper import f\n{LECTURE}")
    assert mistakes(path) == []
    with pytest.raises(LectureError, match=r"talk\.py:1: .* run `trace-tools trace -m course\.week\.talk`"):
        refuse_relative_imports(read_source(path))


def test_error_suggests_another_main_function(tmp_path: Path) -> None:
    path = tmp_path / "talk.py"
    start = 'if __name__ == "__main__":\n    print("x")\n    begin()\n'
    path.write_text(f"def begin():\n    part()\ndef talk(n):\n    pass\ndef part():\n    pass\n{start}")
    assert "`--main begin`" in refused(path) and mistakes(path, main="begin") == []
    with pytest.raises(LectureError, match="`talk` needs `n`"):
        check_lecture(path, main="talk")
    path.write_text("def talk():\n    part()\ndef part():\n    pass\n")
    assert "`--main talk`" in refused(path)
    path.write_text("def other():\n    pass\n")
    assert "--main" not in refused(path)
