from __future__ import annotations

from trace_tools.source.layout import CutSource, cut_source, split_lines, with_narrative

LECTURE = '''\
from trace_tools import note, text as say


def f(x):
    """What it does."""
    say("a")
    # a comment of its own
    y = (x +
         1)  # the sum @inspect y

    a = 1; b = 2
    if x:
        say("b")
    else:
        note("c")
    for i in x:  # @hide
        y += i
    with y:  # @stepover
        z = y
    class C:
        k = 1
    return y
'''


def cut(text: str = LECTURE) -> CutSource:
    return cut_source(text, "lecture.py")


def test_function_body_is_cut_into_segments() -> None:
    source = cut()
    segments = source.body(source.parsed.functions.get("f"))
    kinds = {(True, False): "narrative", (False, True): "hidden", (False, False): "code"}
    assert [(s.first, s.last, len(s.statements), kinds[s.narrative, s.hidden]) for s in segments] == [
        (5, 5, 1, "hidden"),  # the docstring
        (6, 6, 1, "narrative"),
        (7, 7, 0, "code"),
        (8, 9, 1, "code"),
        (10, 10, 0, "code"),
        (11, 11, 2, "code"),
        (12, 12, 1, "narrative"),  # an `if` that contains only prose; its `else:` belongs to it
        (13, 13, 1, "narrative"),
        (15, 15, 1, "narrative"),
        (16, 16, 1, "hidden"),
        (17, 17, 1, "hidden"),
        (18, 18, 1, "code"),
        (19, 19, 1, "code"),
        (20, 21, 1, "code"),  # a class is one step
        (22, 22, 1, "code"),
    ]
    assert {source.parsed.statements[n].line for n in source.stepped_over} == {19}


def test_directives_are_removed_from_lines() -> None:
    source = cut("x = 1  # the one @inspect x # and more\ny = f(\n    # @clear x\n    x)\nz = 2  # @hide\n")
    assert source.lines == ("x = 1  # the one # and more", "y = f(", None, "    x)", "z = 2")


def test_enclosing_function_of_each_statement() -> None:
    source = cut("def f():\n    if 1:\n        def g():\n            x = 1\n        y = 2\nz = 3\n")
    enclosing = {source.parsed.statements[s.number].line: source.enclosing(s.number) for s in source.parsed.statements}
    assert {line: function.line if function else None for line, function in enclosing.items()} == {
        1: None, 2: 1, 3: 1, 4: 3, 5: 1, 6: None,
    }  # fmt: skip


def test_lines_are_split_as_python_numbers_them() -> None:
    assert split_lines("a\r\nb\rc\nd\x0ce\u2028f\n") == ["a", "b", "c", "d\x0ce\u2028f"]
    assert split_lines("\ufeffa") == ["a"] and split_lines("") == []


def test_return_after_narrative_belongs_to_it() -> None:
    source = cut(
        "from trace_tools import text\ndef f(x):\n    if x is None:\n        text('none')\n        return\n    y = x\n"
        "    if y:\n        return\n    if x:\n        text('some')\n        return y\n"
    )
    body = source.body(source.parsed.functions.get("f"))
    shown = [source.lines[line - 1] for s in body if not s.narrative for line in range(s.first, s.last + 1)]
    assert shown == ["    y = x", "    if y:", "        return", "    if x:", "        return y"]


def test_statement_that_narrated_in_the_run_becomes_narrative() -> None:
    source = cut("def f(x):\n    for one in x:\n        helper(one)\n    y = 1\n")
    assert not source.narrative
    after_run = with_narrative(source, {2})
    assert after_run.narrative == {1, 2}
    assert [s.narrative for s in after_run.body(after_run.parsed.functions.get("f"))] == [True, True, False]
    assert with_narrative(source, ()) is source
