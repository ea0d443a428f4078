from __future__ import annotations

import ast

from trace_tools.source.messages import Message, filled_slots, message_of, strings_in
from trace_tools.source.wording import Change, in_other_words
from trace_tools.trace.model import Answer, Ask, Table, Text, Varied


def message(code: str) -> Message:
    return message_of(next(iter(strings_in(ast.parse(code).body[0]))), code)


def change(old: str, new: str, *values: str) -> Change:
    old_message = message(old)
    return Change.of(old_message, message(new), filled_slots(old_message, values))


def test_varied_numbers_move_with_their_placeholders() -> None:
    text = "It took 3.5 ms, 12 times."
    varied = [Varied(["3.5", "3.6"], start=8, end=11), Varied(["12", "13"], start=16, end=18)]
    narrative = Text(text=text, varied=varied)
    reworded = in_other_words(narrative, [change('f"It took {t} ms, {n} times."', 'f"{n} mal: {t} ms"', "3.5", "12")])
    assert isinstance(reworded, Text)
    assert reworded.text == "12 mal: 3.5 ms"
    assert [reworded.text[number.start : number.end] for number in reworded.varied or ()] == ["12", "3.5"]
    assert [number.samples for number in reworded.varied or ()] == [["12", "13"], ["3.5", "3.6"]]


def test_all_strings_of_a_call_change_and_no_others() -> None:
    question = Ask(text="How many?", answer=Answer(2, unit="GB", hint="Count.", slips=[(1, "Too few: 1")]))
    words = [change('"How many?"', '"Wie viele?"'), change('f"Too few: {x}"', 'f"{x} ist zu wenig"', "1")]
    assert in_other_words(question, words) == Ask(
        text="Wie viele?", answer=Answer(2, unit="GB", hint="Count.", slips=[(1, "1 ist zu wenig")])
    )
    rows = Table(columns=["time", "times"], rows=[["time", 1.5]])
    assert in_other_words(rows, [change('"time"', '"Zeit"')]) == Table(columns=["Zeit", "times"], rows=[["Zeit", 1.5]])


def test_a_message_inside_a_longer_string_changes() -> None:
    narrative = Text(text="The first 1. The rest.", varied=[Varied(["1", "2"], start=10, end=11)])
    reworded = in_other_words(narrative, [change('f"The first {x}. "', 'f"Das erste ist {x}. "', "1")])
    assert reworded == Text(text="Das erste ist 1. The rest.", varied=[Varied(["1", "2"], start=14, end=15)])
