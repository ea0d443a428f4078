"""The content of pages: sections, calls, rows of code with their executions, narrative in its order."""

from __future__ import annotations

from dataclasses import replace

from tests.pages.lectures import LECTURE, blocks_of, failing, first_section, lecture, number, rows
from tests.pages.recording import Recording, matrix, of_section
from trace_tools.pages.content.compose import in_emitted_order, make_document
from trace_tools.pages.content.lecture import lecture_of
from trace_tools.pages.document import (
    Block,
    Call,
    CodeListing,
    CodeRow,
    Execution,
    Narration,
    Section,
    in_runs,
    rows_shown,
    said_in_runs,
    salient,
)
from trace_tools.pages.overview import failed
from trace_tools.presentation.prose import slug
from trace_tools.source.statements import parse_source, sections
from trace_tools.trace.model import Claim, Machine, Raised, Run, Step, Text, Value


def row(section: Section, code: str) -> CodeRow:
    return next(r for r in rows(section.blocks) if r.lines and r.lines[0].text.strip().startswith(code))


def narrated_texts(section: Section) -> list[str | None]:
    return [b.narrative.text for b in blocks_of(section.blocks) if isinstance(b, Narration)]


def shown_code(blocks: tuple[Block, ...]) -> str:
    return "\n".join(line.text for r in rows(blocks) for line in r.lines)


def test_main_calls_become_sections_titled_by_docstrings() -> None:
    document = make_document(failing().trace())
    assert [(s.number, s.slug, s.title) for s in document.sections] == [
        (0, "00-first", "The first part"),
        (1, "01-second", "Second"),
    ]
    assert document.sections[0].summary == "With a *summary*."
    alone = Recording(LECTURE)
    alone.call(alone.frame("main"), "second()", "second")
    assert first_section(alone.trace()).slug == "01-second"


def test_narrative_replaces_the_calls_that_made_it_and_directives_are_hidden() -> None:
    section = first_section(lecture().trace())
    assert narrated_texts(section) == ["Hello.", "Inside, 3.", "Turn 0.", "Turn 1.", "Turn 2.", "Small.", None]
    code = shown_code(section.blocks)
    # an `if` that contains only prose is not shown as code
    assert not [hidden for hidden in ("text(", "plot(", "secret", "else:", "@") if hidden in code]
    assert "x = torch.ones(2, 3)  # (2, 3)\n" in code and "# a comment that stands before code" in code


def test_executions_belong_to_the_row_of_their_line_and_omitted_ones_are_counted() -> None:
    section = first_section(lecture().trace())
    made, total = row(section, "x = torch"), row(section, "total")
    line = LECTURE.splitlines().index("    x = torch.ones(2, 3)  # (2, 3) @inspect x") + 1
    assert (made.anchor, made.lines[0].number) == (f"L{line}", line)
    assert made.executions[0].values == [("x", matrix(2, 3))] and section.shared == ("A",)
    assert made.executions[0].timing is not None and made.executions[0].timing.clock == "host"
    assert [e.values[0][1].value for e in total.executions] == [0, 3, 6]
    assert total.omitted == 7


def test_calls_with_narrative_become_parts_and_others_nest() -> None:
    section = first_section(lecture().trace())
    part = next(block for block in section.blocks if isinstance(block, Call))
    assert (part.title, part.shown, part.anchor, part.level) == ("A part inside", "part", "a-part-inside", 2)
    assert [(h.text, h.anchor) for h in section.headings] == [("A part inside", "a-part-inside")]
    [execution] = row(section, "z = helper").executions
    [call] = execution.calls
    assert (call.name, call.number, call.total, call.shown) == ("helper", 1, 1, "open")
    assert call.header is not None and call.header.arguments == (("a", number(2)),)
    assert shown_code(call.blocks).splitlines() == ["def helper(a):", "    b = a + 1", "    return b"]


def test_repeated_calls_show_their_code_once() -> None:
    recording, f = of_section("for i in range(9):\n    g(i)\ng(0)", "def g(n):\n    return n\n")
    for _ in range(9):
        recording.step(f, "for i")
        recording.step(recording.call(f, "g(i)", "g"), "return n")
    recording.step(recording.call(f, "g(0)", "g"), "return n")
    section = first_section(recording.trace())
    calls = [block for block in blocks_of(section.blocks) if isinstance(block, Call)]
    assert [call.number for call in calls] == list(range(1, 11))
    assert [call.shown for call in salient(calls)] == ["folded", "named"]
    assert calls[-1].anchor == calls[0].anchor == "call-2"
    assert [r.lines[0].number for r in rows_shown(section.blocks) if r.statements].count(10) == 1


def test_claims_are_counted_once_per_statement() -> None:
    recording, f = of_section("for i in range(3):\n    assert i < 2")
    for i in range(3):
        recording.step(f, "for i")
        recording.step(f, "assert", claim=Claim("i < 2", i < 2, [("i", number(i)), ("2", number(2))]))
    document = make_document(recording.trace())
    [line] = document.sections[0].claims
    assert (line.judged, line.claim.held, line.line, line.anchor) == (3, False, 6, "L6")
    assert (len(document.claims), failed(document.claims)) == (1, 1)


def test_failures_record_their_origin_and_whether_caught() -> None:
    run = Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ValueError at line 61")
    document = make_document(failing().trace(run=run))
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
    called = recording.frame("broken", recording.step(second, "broken()", raised=Raised("ValueError", "no")))
    recording.step(called, "raise ValueError", raised=Raised("ValueError", "no"))
    recording.step(second, "caught = True")
    section = first_section(recording.trace())
    executions = [e for r in rows(section.blocks) for e in r.executions]
    assert section.failure is None and not any(e.troubled for e in executions)
    assert [e.failure.caught for e in executions if e.failure] == [True, True]


def test_prose_edited_after_the_run_is_shown_and_edited_code_is_reported() -> None:
    trace = lecture().trace()
    edited = LECTURE.replace('text("Hello.")', 'text(\n        "Good day.")').replace('text("Large.")', 'text("Huge.")')
    document = make_document(trace, edited)
    [section] = document.sections
    assert narrated_texts(section)[:2] == ["Good day.", "Inside, 3."] and "Huge." not in narrated_texts(section)
    line = row(first_section(trace), "x = torch").lines[0].number
    assert row(section, "x = torch").anchor == f"L{line + 1}" and not document.notices
    stale = make_document(trace, LECTURE.replace("WIDTH = 4", "WIDTH = 5"))
    assert [notice.kind for notice in stale.notices] == ["stale"] and "WIDTH = 4" in shown_code(stale.setup)


def test_statements_on_one_line_share_a_row() -> None:
    recording, f = of_section("a = 1; b = 2\nif a: c = 3")
    base = recording.statement("a = 1").number
    for offset in range(4):
        line = 5 if offset < 2 else 6
        recording.events.append(Step(100 + offset, f, base + offset, line, values=[(f"v{offset}", number(offset))]))
    listed = rows(first_section(recording.trace()).blocks)
    assert [[e.values[0][0] for e in r.executions] for r in listed] == [["v0", "v1"], ["v2", "v3"]]


def test_deep_recursion_can_be_composed() -> None:
    recording = Recording("def main():\n    f(900)\n\ndef f(n):\n    if n:\n        f(n - 1)\n")
    frame = recording.call(recording.frame("main"), "f(900)", "f")
    for _ in range(900):
        recording.step(frame, "if n")
        frame = recording.call(frame, "f(n - 1)", "f")
    assert len(first_section(recording.trace()).stepping.stops) > 1_000


def test_pages_match_the_sections_that_can_run_alone() -> None:
    names = "first", "second", "third", "fourth", "fifth", "sixth"
    text = "def main():\n    first()\n    y = second()\n    if y:\n        third(fourth())\n"
    text += "    for f in (fifth, sixth):\n        f()\n\n"
    text += "".join(f"def {name}():\n    helper()\n\n" for name in (*names, "helper"))
    recording = Recording(text)
    main = recording.frame("main")
    calls = ("first", "first()"), ("second", "y ="), ("fourth", "third("), ("third", "third("), ("fifth", "f()")
    for function, code in (*calls, ("sixth", "f()")):
        recording.call(recording.call(main, code, function), "helper()", "helper")
    document = make_document(recording.trace())
    assert [section.slug[3:] for section in document.sections] == [
        *map(slug, sections(parse_source(text, "lecture.py")))
    ]


LOOPS = """\
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
    break"""


def test_rounds_count_how_often_the_loop_body_began() -> None:
    recording, f = of_section(LOOPS)
    for code in (*("for x", "y = x", "if x") * 3, "for x"):
        recording.step(f, code)
    for code in ("y = x", "for x"):
        recording.omit(f, code, 7, 9_000)
    for code in ("while n", "n = 0", "while n", "for k", "for q", "break"):
        recording.step(f, code)
    rounds = {r.lines[0].text.strip(): r.rounds for r in rows_shown(first_section(recording.trace()).blocks)}
    assert [rounds[code] for code in ("for x in xs:", "while n:", "for q in qs:")] == [10, 1, 1]
    assert rounds["for k in ks: t += k"] == 0 and rounds["y = x"] is None


def narrations(*steps: list[str]) -> list[Narration]:
    """Return one narration for each text; each list has the texts of one step."""
    emitted: list[Narration] = []
    for step, texts in enumerate(steps):
        emitted += [Narration(Text(text=text), len(emitted) + n, (step,)) for n, text in enumerate(texts, 1)]
    return emitted


def emitted(*blocks: tuple[int | None, Block]) -> list[tuple[str | None, tuple[int, ...]]]:
    """Return the text and the steps of blocks, given with their lines, in the order in which they are shown."""
    shown = in_emitted_order(blocks)
    return [(it.narrative.text, it.steps) if isinstance(it, Narration) else (None, ()) for it in shown]


def test_consecutive_repeated_texts_are_shown_once() -> None:
    repeated = narrations(["Find ", "Adam"], ["Find ", "Adam"], ["Find"], ["Merge"], ["Find"])
    shown = [("Find ", (0, 1)), ("Adam", (0, 1)), ("Find", (2,)), ("Merge", (3,)), ("Find", (4,))]
    assert emitted(*((1, it) for it in repeated)) == shown
    untraced = [replace(it, steps=()) for it in narrations(["a"], ["a"], ["b"])]  # prose that no run has emitted yet
    assert emitted(*((1, it) for it in untraced)) == [("a", ()), ("b", ())]
    [once] = narrations(["a"])
    assert len(emitted((1, once), (1, replace(once, sometimes="said in 1 of 2 runs", steps=(7,))))) == 2


def test_prose_of_a_loop_is_ordered_by_iteration_between_code() -> None:
    def said(text: str, line: int, *steps: int) -> tuple[int, Block]:
        return line, Narration(Text(text=text), 1, steps)

    headings, body, untraced = [said("A", 2, 1), said("B", 2, 3)], [said("a", 3, 2), said("b", 3, 4)], said("new", 4)
    assert [text for text, _ in emitted(*headings, *body, untraced)] == ["A", "a", "B", "b", "new"]
    around_code = emitted(*headings, (None, CodeListing(())), *body, untraced)
    assert [text for text, _ in around_code] == ["A", "B", None, "a", "b", "new"]
    assert emitted(said("A", 2, 1), said("A", 2, 3), said("A", 3, 4)) == [("A", (1, 3)), ("A", (4,))]  # another line


# --- what is shown of a row, and of which text ---

CPU = Machine("A processor", "cpu", "cpu")


def test_first_last_first_failing_and_last_inspected_executions_are_shown() -> None:
    def shown(steps: list[Step]) -> list[int]:
        return [e.step.id for e in salient([Execution(step, CPU) for step in steps])]

    judged = [Step(n, 0, 0, 1, n + 1, claim=Claim("x", not 3 <= n <= 8)) for n in range(20)]
    assert shown(judged) == [0, 3, 4, 5, 6, 19] and shown(judged[:2]) == [0, 1]
    inspected = [Step(n, 0, 0, 1, n + 1, values=[("i", Value("int", n))] if n < 10 else None) for n in range(11)]
    assert shown(inspected) == [0, 9]
    assert shown([Step(n, 0, 0, 1, n + 1) for n in range(4)]) == [0, 3]


def test_the_share_of_runs_is_put_into_words() -> None:
    for runs, words in ((None, None), (4, "ran in 4 of 6 runs")):
        assert in_runs("ran", runs, 6) == Execution(Step(0, 0, 0, 1, runs=runs), CPU, timed_runs=6).sometimes == words
    narrative = Text(text="Fast.", others=[("Slow.", 2)])
    assert said_in_runs(narrative, Step(0, 0, 0, 1), 6) == "this is the text of 4 of 6 runs"
    assert said_in_runs(narrative, Step(0, 0, 0, 1), None) == "this is the text of most runs"
    assert said_in_runs(Text(text=""), Step(0, 0, 0, 1), 6) is None


def test_failures_have_the_line_numbers_of_the_edited_text() -> None:
    line = LECTURE.splitlines().index('    raise ValueError("no")') + 1
    recording = failing()
    origin = max(index for index, event in enumerate(recording.events) if isinstance(event, Step))
    recording.events[origin] = raised = replace(
        recording.events[origin], raised=Raised("ValueError", "no", origin_line=line)
    )
    edited = lecture_of(recording.trace(), "# one line more\n" + LECTURE)
    failure = edited.execution(raised).failure
    assert failure is not None and failure.origin and failure.line == line + 1
