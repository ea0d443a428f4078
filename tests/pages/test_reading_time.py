"""Reading times; the expected minutes were computed by hand from texts with a fixed number of words."""

from __future__ import annotations

from trace_tools.pages.document import Block, Call, CodeLine, CodeListing, CodeRow, Narration
from trace_tools.pages.narration import reading_minutes
from trace_tools.trace.model import Answer, Ask, Note, Plot, Table, Text

WORDS = "word " * 600  # three minutes


def part(*inner: Block, deeper: bool = False) -> Call:
    return Call("f", 1, 1, 1, "f", "F", None, inner, 2, shown="part", deeper=deeper)


def rows(count: int, *, ran: bool = True) -> CodeListing:
    return CodeListing(tuple(CodeRow((CodeLine(n, "x = y_1 @ w  # 3 µs"),), f"L{n}", ran=ran) for n in range(count)))


def test_reading_time_of_words_lines_and_questions() -> None:
    prose = Narration(Text(text=WORDS), 1)
    # 401 words with the head, without numbers
    table = Narration(Table(columns=["a b", "c"], rows=[["d e", 1.5]] * 199), 2)
    figure = Narration(Plot(title=WORDS, series=[]), 3)  # its title is cut to 500 characters
    answer = Answer(1, within=0.0, hint=WORDS, why=WORDS)
    question = Narration(Ask(text="word " * 66, answer=answer), 4)  # 19.8 s and 40 s
    for block, minutes in ((prose, 3), (table, 2), (figure, 1), (question, 1), (rows(60), 2), (rows(60, ran=False), 0)):
        assert reading_minutes([block]) == minutes
    assert reading_minutes([prose, table, figure, question, rows(60)]) == 9
    assert reading_minutes([]) == 0 and reading_minutes([Narration(Text(text="word"), 1)]) == 1


def test_deeper_parts_count_separately_and_notes_not_at_all() -> None:
    linked = Text(text='[word](<https://example.org/one-two> "three four") ' * 600)
    blocks = [Narration(linked, 1), part(rows(30)), part(rows(60), part(rows(30)), deeper=True)]
    blocks.append(Narration(Note(text=WORDS), 2))
    assert (reading_minutes(blocks), reading_minutes(blocks, deeper=True)) == (4, 3)
