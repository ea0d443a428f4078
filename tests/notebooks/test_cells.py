"""A lecture as cells: what is laid out, and what stays a function."""

from __future__ import annotations

import pytest

from trace_tools.notebooks.cells import cells_of
from trace_tools.source.statements import parse_source

LECTURE = '''"""A title.

More of it.
"""
from trace_tools import note, text

N = 2


def main():
    text("before")
    first()
    second()
    print(helper(N))


def helper(n):
    return n + 1


def first():
    """The first one"""
    text("Some **prose**.")
    note("slowly")
    # why
    x = """
    kept as it is
"""
    for i in range(N):  # @inspect i
        text(f"turn {i}")


def second():
    y = 1


if __name__ == "__main__":
    main()
'''


def cells(source: str) -> list[tuple[str, str]]:
    return [("prose" if cell.prose else "code", cell.text) for cell in cells_of(parse_source(source, "talk.py"))]


def test_what_main_calls_is_laid_out_in_its_place() -> None:
    assert cells(LECTURE) == [
        ("prose", "# A title\n\nMore of it."),
        ("code", "from trace_tools import note, text\nN = 2\n\ndef helper(n):\n    return n + 1"),
        ("prose", "before"),
        ("prose", "## The first one\n\nSome **prose**.\n\n*Note for the presenter:* slowly"),
        ("code", '# why\nx = """\n    kept as it is\n"""\nfor i in range(N):  # @inspect i\n    text(f"turn {i}")'),
        ("prose", "## Second"),
        ("code", "y = 1\nprint(helper(N))"),
    ]


@pytest.mark.parametrize(
    "body",
    ["return 1", "yield 1", "global N\n    N = 3", "N = 3", "main = 3", "a()"],
    ids=["returns", "yields", "global", "hides a name", "hides main", "calls itself"],
)
def test_a_section_that_could_mean_something_else_stays_a_function(body: str) -> None:
    source = f"N = 2\n\ndef main():\n    a()\n\ndef a():\n    {body}\n"
    assert cells(source)[-1][0] == "code"
    assert f"def a():\n    {body}" in cells(source)[1][1] and cells(source)[-1][1].endswith("a()")


def test_a_main_that_returns_is_called() -> None:
    assert cells("def main():\n    return 1\n")[1:] == [("code", "def main():\n    return 1\nmain()")]


def test_each_statement_of_a_cell_is_known() -> None:
    source = parse_source(LECTURE, "talk.py")
    [loop] = [cell for cell in cells_of(source) if "for i" in cell.text]
    assert [source.statements[number].line for number in loop.statements] == [26, 29, 30]
