from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.pages.recording import Recording, matrix
from trace_tools.pages.content.compose import fold, in_emitted_order, make_document
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
    recording = Recording(LECTURE)
    module = recording.frame("<module>")
    recording.step(module, "import torch")
    recording.step(module, "WIDTH")
    main = recording.frame("main")
    first = recording.call(main, "first()", "first")
    recording.step(first, 'text("Hello.")', narrative=text("Hello."))
    recording.step(first, "x = torch", values=[("x", matrix(2, 3))], annotated=True, host_ns=[21_000, 20_000, 22_000])
    recording.step(first, "y = x.t()", values=[("y", matrix(3, 2))], annotated=True)
    recording.step(first, "assert", claim=Claim("x.sum() == 6", True, [("x.sum()", number(6)), ("6", number(6))]))
    inner = recording.call(first, "inner(3)", "inner")
    recording.step(inner, 'text(f"Inside', narrative=text("Inside, 3."))
    for i in range(3):
        recording.step(inner, "for i")
        recording.step(inner, 'text(f"Turn', narrative=text(f"Turn {i}."))
        recording.step(inner, "total", values=[("total", number(3 * i))], annotated=True)
    recording.omit(inner, "total", 7, 9_000)
    recording.step(inner, "for i")
    recording.step(inner, "if n > 5")
    recording.step(inner, 'text("Small.")', narrative=text("Small."))
    helper = recording.call(first, "z = helper", "helper", arguments=[("a", number(2))])
    recording.step(helper, "b = a", values=[("b", number(3))])
    recording.step(helper, "return b")
    recording.step(first, "secret", values=None, host_ns=[2_000_000])  # the only time that is long enough for a figure
    recording.step(first, "plot(", narrative=[Plot(series=[])])
    return recording


def failing(*, survived: bool = False) -> Recording:
    recording = lecture()
    main = next(event.frame for event in recording.events if isinstance(event, Frame) and event.function == "main")
    raised = Raised("ValueError", "no", origin_line=61)
    second = recording.frame("second", recording.step(main, "second()", raised=replace(raised, survived=survived)))
    recording.step(second, "try:")
    for _ in range(2):
        called = recording.frame("broken", recording.step(second, "broken()", raised=raised))
        recording.step(called, "raise ValueError", raised=raised)
    return recording


def blocks_of(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield all blocks, including those of all calls."""
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


def narrated_texts(section: Section) -> list[str | None]:
    return [b.narrative.text for b in blocks_of(section.blocks) if isinstance(b, Narration)]


def code(document: Document) -> str:
    return "\n".join(line.text for r in rows(document.sections[0].blocks) for line in r.lines)


def test_main_calls_become_sections_titled_by_docstrings() -> None:
    document = make_document(failing().trace())
    assert [(s.number, s.slug, s.title) for s in document.sections] == [
        (0, "00-first", "The first part"),
        (1, "01-second", "Second"),
    ]
    assert document.sections[0].summary == "With a *summary*."


def test_a_section_run_alone_keeps_its_number() -> None:
    recording = Recording(LECTURE)
    recording.call(recording.frame("main"), "second()", "second")
    assert [s.slug for s in make_document(recording.trace()).sections] == ["01-second"]


def test_narrative_replaces_the_calls_that_made_it() -> None:
    document = make_document(lecture().trace())
    section = document.sections[0]
    assert narrated_texts(section) == ["Hello.", "Inside, 3.", "Turn 0.", "Turn 1.", "Turn 2.", "Small.", None]
    code_shown = code(document)
    assert "text(" not in code_shown and "plot(" not in code_shown and "secret" not in code_shown
    assert "else:" not in code_shown  # an `if` that contains only prose is not shown as code


def test_directives_are_hidden_and_other_comments_shown() -> None:
    code_shown = code(make_document(lecture().trace()))
    assert "@" not in code_shown
    assert "x = torch.ones(2, 3)  # (2, 3)" in code_shown
    assert "# a comment that stands before code" in code_shown


def test_observations_belong_to_the_row_of_their_line() -> None:
    section = make_document(lecture().trace()).sections[0]
    [execution] = row(section, "x = torch").executions
    assert execution.values == [("x", matrix(2, 3))]
    assert section.shared == ("A",)  # the storage that several names share
    assert execution.timing is not None and execution.timing.clock == "host"
    line = LECTURE.splitlines().index("    x = torch.ones(2, 3)  # (2, 3) @inspect x") + 1
    assert row(section, "x = torch").anchor == f"L{line}"
    assert row(section, "x = torch").lines[0].number == line


def test_executions_are_kept_and_omitted_ones_counted() -> None:
    section = make_document(lecture().trace()).sections[0]
    total = row(section, "total")
    assert [e.values[0][1].value for e in total.executions] == [0, 3, 6]
    assert (total.omitted, total.omitted_ns) == (7, 9_000)


def test_calls_with_narrative_become_parts_and_others_nest() -> None:
    section = make_document(lecture().trace()).sections[0]
    part = next(block for block in section.blocks if isinstance(block, Call))
    assert (part.title, part.shown, part.anchor, part.level) == ("A part inside", "part", "a-part-inside", 2)
    assert [(h.text, h.anchor) for h in section.headings] == [("A part inside", "a-part-inside")]
    [execution] = row(section, "z = helper").executions
    [call] = execution.calls
    assert (call.name, call.number, call.total, call.shown) == ("helper", 1, 1, "open")
    assert call.header is not None and call.header.arguments == (("a", number(2)),)
    lines = ["def helper(a):", "    b = a + 1", "    return b"]
    assert [line.text for r in rows(call.blocks) for line in r.lines] == lines


def test_each_heading_has_an_anchor_of_its_own() -> None:
    text = Text(text="## A\n\n## A\n\n## A 2\n\n## A")
    [narration] = fold([Narration(text, 1)])
    assert isinstance(narration, Narration) and len({heading.anchor for heading in narration.headings}) == 4


def test_repeated_calls_show_their_code_once() -> None:
    recording = Recording(
        "def main():\n    f()\n\ndef f():\n    for i in range(9):\n        g(i)\n    g(0)\n\ndef g(n):\n    return n\n"
    )
    f = recording.call(recording.frame("main"), "f()", "f")
    for _ in range(9):
        recording.step(f, "for i")
        recording.step(recording.call(f, "g(i)", "g"), "return n")
    recording.step(recording.call(f, "g(0)", "g"), "return n")
    [section] = make_document(recording.trace()).sections
    calls = [block for block in blocks_of(section.blocks) if isinstance(block, Call)]
    assert [call.number for call in calls] == list(range(1, 11))
    assert [call.shown for call in salient(calls)] == ["folded", "named"]
    assert calls[-1].anchor == calls[0].anchor == "call-2"


def test_the_setup_excludes_functions_that_were_called() -> None:
    document = make_document(lecture().trace())
    setup = [line.text for r in rows(document.setup) for line in r.lines if line.text]
    assert setup[:2] == ["from trace_tools import note, plot, text", "import torch"]
    assert not [line for line in setup if line.startswith(("def first", "def main", "def helper"))]
    assert "def broken():" in setup  # this run does not call it


def test_claims_are_counted_once_per_statement() -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    for i in range(3):\n        assert i < 2\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    for i in range(3):
        recording.step(f, "for i")
        recording.step(f, "assert", claim=Claim("i < 2", i < 2, [("i", number(i)), ("2", number(2))]))
    document = make_document(recording.trace())
    [line] = document.sections[0].claims
    assert (line.judged, line.claim.held, line.line, line.anchor) == (3, False, 6, "L6")
    assert (document.held, document.failed) == (0, 1)


def test_failures_record_their_origin_and_whether_caught() -> None:
    recording = failing()
    trace = recording.trace(run=Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ValueError at line 61"))
    document = make_document(trace)
    second = document.sections[1]
    failures = [e.failure for r in rows(second.blocks) for e in r.executions if e.failure is not None]
    assert [(f.caught, f.origin) for f in failures] == [(True, False), (False, False), (True, True), (False, True)]
    assert second.failure is not None and second.failure.line == 61
    assert not row(second, "never").ran and row(second, "try:").ran
    assert document.notices[0].kind == "partial" and "ValueError at line 61" in document.notices[0].text


def test_a_caught_exception_does_not_fail_its_section() -> None:
    recording = Recording(LECTURE)
    second = recording.call(recording.frame("main"), "second()", "second")
    recording.step(second, "try:")
    raised = Raised("ValueError", "no")
    called = recording.frame("broken", recording.step(second, "broken()", raised=raised))
    recording.step(called, "raise ValueError", raised=raised)
    recording.step(second, "caught = True")
    [section] = make_document(recording.trace()).sections
    assert section.failure is None
    assert all(e.failure.caught for r in rows(section.blocks) for e in r.executions if e.failure)
    assert not any(e.troubled for r in rows(section.blocks) for e in r.executions)


def test_device_times_give_rates_and_launch_times_do_not() -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    y = a @ b  # @inspect y\n    z = a @ b\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    meters = Meters(flops=2_000_000, bytes_read=1_000, bytes_written=1_000)
    value = [("y", matrix(2, 2))]
    recording.step(
        f, "y = a", values=value, annotated=True, host_ns=[9_000] * 3, device_ns=[1_000_000] * 3, meters=meters
    )
    recording.step(f, "z = a", host_ns=[5_000], meters=meters)
    peaks = [Peak("float32", 4e9, "a datasheet"), Peak("memory", 4e6, "a datasheet")]
    document = make_document(recording.trace(machine=Machine("NVIDIA H200", "nvidia-h200", "cuda", peaks=peaks)))
    y, z = (r.executions[0] for r in rows(document.sections[0].blocks))
    assert y.timing is not None and y.timing.clock == "device"
    assert [(rate.name, rate.per_second, rate.share) for rate in y.rates] == [("FLOP/s", 2e9, 0.5), ("B/s", 2e6, 0.5)]
    assert z.timing is not None and z.timing.clock == "launch" and z.rates == ()


def test_an_unknown_peak_gives_no_share() -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    y = a @ b  # @inspect y\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    recording.step(f, "y", values=[("y", matrix(2, 2))], annotated=True, host_ns=[10**6] * 3, meters=Meters(flops=10))
    [rate] = rows(make_document(recording.trace()).sections[0].blocks)[0].executions[0].rates
    assert (rate.share, rate.roof) == (None, "no float32 peak: not in the table")


def test_prose_edited_after_the_run_is_shown() -> None:
    trace = lecture().trace()
    edited = LECTURE.replace('text("Hello.")', 'text(\n        "Good day.")').replace('text("Large.")', 'text("Huge.")')
    section = make_document(trace, edited).sections[0]
    assert narrated_texts(section)[:2] == ["Good day.", "Inside, 3."]
    line = row(make_document(trace).sections[0], "x = torch").lines[0].number
    assert row(section, "x = torch").anchor == f"L{line + 1}"
    assert "Huge." not in narrated_texts(section)
    assert not make_document(trace, edited).notices


def test_code_edited_after_the_run_is_reported_not_shown() -> None:
    document = make_document(lecture().trace(), LECTURE.replace("WIDTH = 4", "WIDTH = 5"))
    assert [notice.kind for notice in document.notices] == ["stale"]
    assert "WIDTH = 4" in [line.text for r in rows(document.setup) for line in r.lines]


def test_statements_on_one_line_share_a_row() -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    a = 1; b = 2\n    if a: c = 3\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    base = recording.statement("a = 1").number
    for offset in range(4):
        line = 5 if offset < 2 else 6
        recording.events.append(Step(100 + offset, f, base + offset, line, values=[(f"v{offset}", number(offset))]))
    listed = rows(make_document(recording.trace()).sections[0].blocks)
    assert [[e.values[0][0] for e in r.executions] for r in listed] == [["v0", "v1"], ["v2", "v3"]]


def test_deep_recursion_can_be_composed() -> None:
    recording = Recording("def main():\n    f(900)\n\ndef f(n):\n    if n:\n        f(n - 1)\n")
    frame = recording.call(recording.frame("main"), "f(900)", "f")
    for _ in range(900):
        recording.step(frame, "if n")
        frame = recording.call(frame, "f(n - 1)", "f")
    assert make_document(recording.trace()).sections[0].steps > 1_000


def test_pages_match_the_sections_that_can_run_alone() -> None:
    names = "first", "second", "third", "fourth", "fifth", "sixth"
    text = (
        "def main():\n    first()\n    y = second()\n    if y:\n        third(fourth())\n"
        "    for f in (fifth, sixth):\n        f()\n\n"
    ) + "".join(f"def {name}():\n    helper()\n\n" for name in (*names, "helper"))
    recording = Recording(text)
    main = recording.frame("main")
    calls = ("first", "first()"), ("second", "y ="), ("fourth", "third("), ("third", "third("), ("fifth", "f()")
    for function, code in (*calls, ("sixth", "f()")):
        recording.call(recording.call(main, code, function), "helper()", "helper")
    document = make_document(recording.trace())
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


def test_rounds_count_how_often_the_loop_body_began() -> None:
    recording = Recording(LOOPS)
    f = recording.call(recording.frame("main"), "f()", "f")
    for n in range(4):
        recording.step(f, "for x")
        if n < 3:
            recording.step(f, "y = x"), recording.step(f, "if x")
    recording.omit(f, "y = x", 7, 9_000)
    recording.omit(f, "for x", 7, 9_000)
    recording.step(f, "while n"), recording.step(f, "n = 0"), recording.step(f, "while n")
    recording.step(f, "for k")
    recording.step(f, "for q"), recording.step(f, "break")
    rows = {row.lines[0].text.strip(): row for row in rows_shown(make_document(recording.trace()).sections[0].blocks)}
    assert [rows[code].rounds for code in ("for x in xs:", "while n:", "for q in qs:")] == [10, 1, 1]
    assert rows["for k in ks: t += k"].rounds == 0 and rows["y = x"].rounds is None


def test_left_out_data_is_reported_in_its_section() -> None:
    recording = Recording(
        "def main():\n    a()\n    b()\n\ndef a():\n    x = 1\n\ndef b():\n    g()\n\ndef g():\n    y = 1\n"
    )
    main = recording.frame("main")
    a = recording.call(main, "a()", "a")
    recording.step(a, "x = 1", left_out=[LeftOut("stdout", 12)])
    b = recording.call(main, "b()", "b")
    recording.step(b, "g()")
    left_out = [
        "9 further calls of g, beyond the first 1,000 that were kept",
        "12 more characters that were printed",
        "elements (cap)",
    ]
    trace = recording.trace()
    document = make_document(replace(trace, run=replace(trace.run, dropped=left_out)))
    assert [section.left_out for section in document.sections] == [tuple(left_out[1:]), (left_out[0], left_out[2])]
    assert document.left_out == tuple(left_out) and not document.notices


def narrations(*steps: list[str]) -> list[Narration]:
    """Return one narration for each text; each list has the texts of one step."""
    emitted: list[Narration] = []
    for step, texts in enumerate(steps):
        emitted += [Narration(Text(text=text), len(emitted) + n, (step,)) for n, text in enumerate(texts, 1)]
    return emitted


def test_consecutive_repeated_texts_are_shown_once() -> None:
    def emitted(blocks: list[Narration]) -> list[Narration]:
        return [it for it in in_emitted_order([(1, it) for it in blocks]) if isinstance(it, Narration)]

    shown = emitted(narrations(["Find ", "Adam"], ["Find ", "Adam"], ["Find"], ["Merge"], ["Find"]))
    assert [it.narrative.text for it in shown] == ["Find ", "Adam", "Find", "Merge", "Find"]
    assert [it.steps for it in shown] == [(0, 1), (0, 1), (2,), (3,), (4,)]
    untraced = [replace(it, steps=()) for it in narrations(["a"], ["a"], ["b"])]  # prose that no run has emitted yet
    assert [(it.narrative.text, it.steps) for it in emitted(untraced)] == [("a", ()), ("b", ())]
    in_some_runs = [replace(it, sometimes="said in 1 of 2 runs", steps=(7,)) for it in narrations(["a"])]
    assert len(emitted([*narrations(["a"]), *in_some_runs])) == 2


def test_prose_of_a_loop_is_ordered_by_iteration_between_code() -> None:
    code = CodeListing(())
    heading, body, untraced = (narrations(*([text] for text in texts)) for texts in (("A", "B"), ("a", "b"), ("new",)))
    blocks: list[tuple[int | None, Block]] = [
        *((2, replace(block, steps=(step,))) for block, step in zip(heading, (1, 3), strict=True)),
        *((3, replace(block, steps=(step,))) for block, step in zip(body, (2, 4), strict=True)),
        (4, replace(untraced[0], steps=())),
    ]
    texts = [block.narrative.text if isinstance(block, Narration) else None for block in in_emitted_order(blocks)]
    assert texts == ["A", "a", "B", "b", "new"]
    around_code = [
        block.narrative.text if isinstance(block, Narration) else None
        for block in in_emitted_order([*blocks[:2], (None, code), *blocks[2:]])
    ]
    assert around_code == ["A", "B", None, "a", "b", "new"]
    repeated = [(line, replace(heading[0], steps=(step,))) for line, step in ((2, 1), (2, 3), (3, 4))]
    assert [block.steps for block in in_emitted_order(repeated) if isinstance(block, Narration)] == [(1, 3), (4,)], (
        "the last text is from another line"
    )
