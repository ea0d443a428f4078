from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.pages.recording import Recording, matrix
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import (
    Block,
    Call,
    CodeListing,
    CodeRow,
    Document,
    Narration,
    Section,
    rows_shown,
    salient,
)
from trace_tools.source.statements import parse_source, sections
from trace_tools.trace.model import (
    Claim,
    Frame,
    LeftOut,
    Machine,
    Meters,
    Narrative,
    Peak,
    Plot,
    Raised,
    Run,
    Step,
    Text,
    Value,
)

LECTURE = '''\
"""A lecture."""
from trace_tools import note, plot, text
import torch

WIDTH = 4


def main():
    first()
    second()


def first():
    """The first part

    With a *summary*.
    """
    text("Hello.")
    # a comment that stands before code
    x = torch.ones(2, 3)  # (2, 3) @inspect x

    y = x.t()  # @inspect y
    assert x.sum() == 6
    inner(3)
    z = helper(2)
    secret = 1  # @hide
    plot({"a": [1, 2]})  # @hide


def inner(n):
    """A part inside"""
    text(f"Inside, {n}.")
    for i in range(n):
        text(f"Turn {i}.")
        total = i * n  # @inspect total
    if n > 5:
        text("Large.")
    else:
        text("Small.")


def helper(a):  # @inspect a
    """Help."""
    b = a + 1  # @inspect b
    return b


def second():
    try:
        broken()
    except ValueError:
        caught = True
    broken()
    never = 1


def broken():
    raise ValueError("no")
'''


def text(markdown: str) -> list[Narrative]:
    return [Text(text=markdown)]


def number(value: int) -> Value:
    return Value("int", value)


def lecture() -> Recording:
    made = Recording(LECTURE)
    module = made.frame("<module>")
    made.step(module, "import torch")
    made.step(module, "WIDTH")
    main = made.frame("main")
    first = made.call(main, "first()", "first")
    made.step(first, 'text("Hello.")', narrative=text("Hello."))
    made.step(first, "x = torch", values=[("x", matrix(2, 3))], annotated=True, host_ns=[21_000, 20_000, 22_000])
    made.step(first, "y = x.t()", values=[("y", matrix(3, 2))], annotated=True)
    made.step(first, "assert", claim=Claim("x.sum() == 6", True, [("x.sum()", number(6)), ("6", number(6))]))
    inner = made.call(first, "inner(3)", "inner")
    made.step(inner, 'text(f"Inside', narrative=text("Inside, 3."))
    for i in range(3):
        made.step(inner, "for i")
        made.step(inner, 'text(f"Turn', narrative=text(f"Turn {i}."))
        made.step(inner, "total", values=[("total", number(3 * i))], annotated=True)
    made.omit(inner, "total", 7, 9_000)
    made.step(inner, "for i")
    made.step(inner, "if n > 5")
    made.step(inner, 'text("Small.")', narrative=text("Small."))
    helper = made.call(first, "z = helper", "helper", arguments=[("a", number(2))])
    made.step(helper, "b = a", values=[("b", number(3))])
    made.step(helper, "return b")
    made.step(first, "secret", values=None, host_ns=[2_000_000])  # else no time is long enough for a figure
    made.step(first, "plot(", narrative=[Plot(series=[])])
    return made


def failing(*, survived: bool = False) -> Recording:
    made = lecture()
    main = next(event.frame for event in made.events if isinstance(event, Frame) and event.function == "main")
    raised = Raised("ValueError", "no", origin_line=61)
    second = made.frame("second", made.step(main, "second()", raised=replace(raised, survived=survived)))
    made.step(second, "try:")
    for _ in range(2):
        called = made.frame("broken", made.step(second, "broken()", raised=raised))
        made.step(called, "raise ValueError", raised=raised)
    return made


def blocks_of(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield all blocks, those of all calls included."""
    for block in blocks:
        yield block
        if isinstance(block, Call):
            yield from blocks_of(block.blocks)
        elif isinstance(block, CodeListing):
            yield from blocks_of([call for row in block.rows for e in row.executions for call in e.calls])


def rows(blocks: Sequence[Block]) -> list[CodeRow]:
    return [row for block in blocks_of(blocks) if isinstance(block, CodeListing) for row in block.rows]


def row(section: Section, code: str) -> CodeRow:
    return next(r for r in rows(section.blocks) if r.lines and r.lines[0].text.strip().startswith(code))


def said(section: Section) -> list[str | None]:
    return [b.narrative.text for b in blocks_of(section.blocks) if isinstance(b, Narration)]


def code(document: Document) -> str:
    return "\n".join(line.text for r in rows(document.sections[0].blocks) for line in r.lines)


def test_sections_are_what_main_calls_in_order_with_titles_from_docstrings() -> None:
    document = make_document(failing().trace())
    assert [(s.number, s.slug, s.title) for s in document.sections] == [
        (0, "00-first", "The first part"),
        (1, "01-second", "Second"),
    ]
    assert document.sections[0].summary == "With a *summary*."


def test_a_run_of_one_section_keeps_its_number() -> None:
    made = Recording(LECTURE)
    made.call(made.frame("main"), "second()", "second")
    assert [s.slug for s in make_document(made.trace()).sections] == ["01-second"]


def test_narrative_takes_the_place_of_its_calls() -> None:
    document = make_document(lecture().trace())
    section = document.sections[0]
    assert said(section) == ["Hello.", "Inside, 3.", "Turn 0.", "Turn 1.", "Turn 2.", "Small.", None]
    shown = code(document)
    assert "text(" not in shown and "plot(" not in shown and "secret" not in shown
    assert "else:" not in shown  # an `if` that holds nothing but prose is prose


def test_directives_are_not_shown_and_other_comments_are() -> None:
    shown = code(make_document(lecture().trace()))
    assert "@" not in shown
    assert "x = torch.ones(2, 3)  # (2, 3)" in shown
    assert "# a comment that stands before code" in shown


def test_observations_stand_beside_their_line() -> None:
    section = make_document(lecture().trace()).sections[0]
    [execution] = row(section, "x = torch").executions
    assert execution.values == [("x", matrix(2, 3))]
    assert execution.timing is not None and execution.timing.clock == "host"
    line = LECTURE.splitlines().index("    x = torch.ones(2, 3)  # (2, 3) @inspect x") + 1
    assert row(section, "x = torch").anchor == f"L{line}"
    assert row(section, "x = torch").lines[0].number == line


def test_all_executions_are_in_the_tree_and_what_was_omitted_is_counted() -> None:
    section = make_document(lecture().trace()).sections[0]
    total = row(section, "total")
    assert [e.values[0][1].value for e in total.executions] == [0, 3, 6]
    assert (total.omitted, total.omitted_ns) == (7, 9_000)


def test_a_call_that_speaks_is_a_part_of_the_text_and_another_is_nested() -> None:
    section = make_document(lecture().trace()).sections[0]
    part = next(block for block in section.blocks if isinstance(block, Call))
    assert (part.title, part.shown, part.anchor, part.level) == ("A part inside", "part", "a-part-inside", 2)
    assert [(h.text, h.anchor) for h in section.headings] == [("A part inside", "a-part-inside")]
    [execution] = row(section, "z = helper").executions
    [call] = execution.calls
    assert (call.function, call.number, call.total, call.shown) == ("helper", 1, 1, "open")
    assert call.header is not None and call.header.arguments == (("a", number(2)),)
    assert [line.text for r in rows(call.blocks) for line in r.lines] == ["    b = a + 1", "    return b"]


def test_the_same_code_is_shown_only_so_often() -> None:
    made = Recording(
        "def main():\n    f()\n\ndef f():\n    for i in range(9):\n        g(i)\n    g(0)\n\ndef g(n):\n    return n\n"
    )
    f = made.call(made.frame("main"), "f()", "f")
    for _ in range(9):
        made.step(f, "for i")
        made.step(made.call(f, "g(i)", "g"), "return n")
    made.step(made.call(f, "g(0)", "g"), "return n")
    [section] = make_document(made.trace()).sections
    calls = [block for block in blocks_of(section.blocks) if isinstance(block, Call)]
    assert [call.number for call in calls] == list(range(1, 11))
    assert [call.shown for call in salient(calls)] == ["folded", "named"]
    assert calls[-1].anchor == calls[0].anchor == "call-2"


def test_functions_called_are_not_repeated_in_the_setup() -> None:
    document = make_document(lecture().trace())
    setup = [line.text for r in rows(document.setup) for line in r.lines if line.text]
    assert setup[:2] == ["from trace_tools import note, plot, text", "import torch"]
    assert not [line for line in setup if line.startswith(("def first", "def main", "def helper"))]
    assert "def broken():" in setup  # nobody called it in this run


def test_claims_are_counted_once_a_statement() -> None:
    made = Recording("def main():\n    f()\n\ndef f():\n    for i in range(3):\n        assert i < 2\n")
    f = made.call(made.frame("main"), "f()", "f")
    for i in range(3):
        made.step(f, "for i")
        made.step(f, "assert", claim=Claim("i < 2", i < 2, [("i", number(i)), ("2", number(2))]))
    document = make_document(made.trace())
    [line] = document.sections[0].claims
    assert (line.judged, line.claim.held, line.line, line.anchor) == (3, False, 6, "L6")
    assert (document.held, document.failed) == (0, 1)


def test_exceptions_are_caught_or_not_and_begin_somewhere() -> None:
    made = failing()
    trace = made.trace(run=Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ValueError at line 61"))
    document = make_document(trace)
    second = document.sections[1]
    failures = [e.failure for r in rows(second.blocks) for e in r.executions if e.failure is not None]
    assert [(f.caught, f.origin) for f in failures] == [(True, False), (False, False), (True, True), (False, True)]
    assert second.failure is not None and second.failure.line == 61
    assert not row(second, "never").ran and row(second, "try:").ran
    assert document.notices[0].kind == "partial" and "ValueError at line 61" in document.notices[0].text


def test_a_caught_exception_is_no_failure() -> None:
    made = Recording(LECTURE)
    second = made.call(made.frame("main"), "second()", "second")
    made.step(second, "try:")
    raised = Raised("ValueError", "no")
    called = made.frame("broken", made.step(second, "broken()", raised=raised))
    made.step(called, "raise ValueError", raised=raised)
    made.step(second, "caught = True")
    [section] = make_document(made.trace()).sections
    assert section.failure is None
    assert all(e.failure.caught for r in rows(section.blocks) for e in r.executions if e.failure)
    assert not any(e.troubled for r in rows(section.blocks) for e in r.executions)


def test_storages_shared_by_several_names_are_marked() -> None:
    assert make_document(lecture().trace()).sections[0].shared == ("A",)


def test_launch_time_is_labelled_and_rates_have_a_roof() -> None:
    made = Recording("def main():\n    f()\n\ndef f():\n    y = a @ b  # @inspect y\n    z = a @ b\n")
    f = made.call(made.frame("main"), "f()", "f")
    meters = Meters(flops=2_000_000, bytes_read=1_000, bytes_written=1_000)
    value = [("y", matrix(2, 2))]
    made.step(f, "y = a", values=value, annotated=True, host_ns=[9_000] * 3, device_ns=[1_000_000] * 3, meters=meters)
    made.step(f, "z = a", host_ns=[5_000], meters=meters)
    peaks = [Peak("float32", 4e9, "a datasheet"), Peak("memory", 4e6, "a datasheet")]
    document = make_document(made.trace(machine=Machine("NVIDIA H200", "nvidia-h200", "cuda", peaks=peaks)))
    y, z = (r.executions[0] for r in rows(document.sections[0].blocks))
    assert y.timing is not None and y.timing.clock == "device"
    assert [(rate.name, rate.per_second, rate.share) for rate in y.rates] == [("FLOP/s", 2e9, 0.5), ("B/s", 2e6, 0.5)]
    assert z.timing is not None and z.timing.clock == "launch" and z.rates == ()


def test_an_unknown_peak_is_no_peak() -> None:
    made = Recording("def main():\n    f()\n\ndef f():\n    y = a @ b  # @inspect y\n")
    f = made.call(made.frame("main"), "f()", "f")
    made.step(f, "y", values=[("y", matrix(2, 2))], annotated=True, host_ns=[10**6] * 3, meters=Meters(flops=10))
    [rate] = rows(make_document(made.trace()).sections[0].blocks)[0].executions[0].rates
    assert (rate.share, rate.roof) == (None, "no float32 peak: not in the table")


def test_prose_edited_later_is_used_with_lines_and_observations_in_place() -> None:
    trace = lecture().trace()
    now = LECTURE.replace('text("Hello.")', 'text("Good day.")\n    text("And more.")').replace(
        'text("Large.")', 'text("Huge.")'
    )
    section = make_document(trace, now).sections[0]
    assert said(section)[:3] == ["Good day.", "And more.", "Inside, 3."]
    was = row(make_document(trace).sections[0], "x = torch").lines[0].number
    assert row(section, "x = torch").anchor == f"L{was + 1}"
    assert "Huge." not in said(section)
    assert not make_document(trace, now).notices


def test_edited_code_is_announced_and_not_shown() -> None:
    document = make_document(lecture().trace(), LECTURE.replace("WIDTH = 4", "WIDTH = 5"))
    assert [notice.kind for notice in document.notices] == ["stale"]
    assert "WIDTH = 4" in [line.text for r in rows(document.setup) for line in r.lines]


def test_statements_on_one_line_share_a_row() -> None:
    made = Recording("def main():\n    f()\n\ndef f():\n    a = 1; b = 2\n    if a: c = 3\n")
    f = made.call(made.frame("main"), "f()", "f")
    base = made.statement("a = 1").number
    for offset in range(4):
        line = 5 if offset < 2 else 6
        made.events.append(Step(100 + offset, f, base + offset, line, values=[(f"v{offset}", number(offset))]))
    listed = rows(make_document(made.trace()).sections[0].blocks)
    assert [[e.values[0][0] for e in r.executions] for r in listed] == [["v0", "v1"], ["v2", "v3"]]


def test_deep_recursion_does_not_break_the_pages() -> None:
    made = Recording("def main():\n    f(900)\n\ndef f(n):\n    if n:\n        f(n - 1)\n")
    frame = made.call(made.frame("main"), "f(900)", "f")
    for _ in range(900):
        made.step(frame, "if n")
        frame = made.call(frame, "f(n - 1)", "f")
    assert make_document(made.trace()).sections[0].steps > 1_000


def test_pages_are_of_the_sections_that_can_be_run_alone() -> None:
    names = "first", "second", "third", "fourth", "fifth", "sixth"
    text = (
        "def main():\n    first()\n    y = second()\n    if y:\n        third(fourth())\n"
        "    for f in (fifth, sixth):\n        f()\n\n"
    ) + "".join(f"def {name}():\n    helper()\n\n" for name in (*names, "helper"))
    made = Recording(text)
    main = made.frame("main")
    calls = ("first", "first()"), ("second", "y ="), ("fourth", "third("), ("third", "third("), ("fifth", "f()")
    for function, code in (*calls, ("sixth", "f()")):
        made.call(made.call(main, code, function), "helper()", "helper")
    document = make_document(made.trace())
    assert [section.function for section in document.sections] == sections(parse_source(text, "lecture.py"))


LOOPS = """
def main():
    f()

def f():
    for x in xs:
        try:
            y = x
        except ValueError:
            pass
        if x: continue
        z = 1
    while n:
        n = 0
    for k in ks: t += k
    for q in qs:
        break
"""


def test_a_loop_has_as_many_rounds_as_its_body_began() -> None:
    made = Recording(LOOPS)
    f = made.call(made.frame("main"), "f()", "f")
    for n in range(4):
        made.step(f, "for x")
        if n < 3:
            made.step(f, "y = x"), made.step(f, "if x")
    made.omit(f, "y = x", 7, 9_000)
    made.omit(f, "for x", 7, 9_000)
    made.step(f, "while n"), made.step(f, "n = 0"), made.step(f, "while n")
    made.step(f, "for k")
    made.step(f, "for q"), made.step(f, "break")
    rows = {row.lines[0].text.strip(): row for row in rows_shown(make_document(made.trace()).sections[0].blocks)}
    assert [rows[code].rounds for code in ("for x in xs:", "while n:", "for q in qs:")] == [10, 1, 1]
    assert rows["for k in ks: t += k"].rounds == 0 and rows["y = x"].rounds is None


def test_what_was_left_out_is_said_where_it_was() -> None:
    made = Recording(
        "def main():\n    a()\n    b()\n\ndef a():\n    x = 1\n\ndef b():\n    g()\n\ndef g():\n    y = 1\n"
    )
    main = made.frame("main")
    a = made.call(main, "a()", "a")
    made.step(a, "x = 1", left_out=[LeftOut("stdout", 12)])
    b = made.call(main, "b()", "b")
    made.step(b, "g()")
    lines = [
        "9 further calls of g, beyond the first 1,000 that were kept",
        "12 more characters that were printed",
        "elements (cap)",
    ]
    trace = made.trace()
    document = make_document(replace(trace, run=replace(trace.run, dropped=lines)))
    assert [section.left_out for section in document.sections] == [tuple(lines[1:]), (lines[0], lines[2])]
    assert document.left_out == tuple(lines) and not document.notices
