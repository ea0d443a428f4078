from __future__ import annotations

import ast

from trace_tools.source.messages import Message, filled_slots, message_of, strings_in
from trace_tools.source.wording import Change, in_other_words
from trace_tools.trace.model import Answer, Ask, Table, Text, Varied


def message(code: str) -> Message:
    return message_of(next(iter(strings_in(ast.parse(code).body[0]))), code)


def change(was: str, now: str, *values: str) -> Change:
    old = message(was)
    return Change.of(old, message(now), filled_slots(old, values))


def test_numbers_that_varied_move_with_their_placeholders() -> None:
    text = "It took 3.5 ms, 12 times."
    varied = [Varied(["3.5", "3.6"], start=8, end=11), Varied(["12", "13"], start=16, end=18)]
    told = Text(text=text, varied=varied)
    new = in_other_words(told, [change('f"It took {t} ms, {n} times."', 'f"{n} mal: {t} ms"', "3.5", "12")])
    assert isinstance(new, Text)
    assert new.text == "12 mal: 3.5 ms"
    assert [new.text[one.start : one.end] for one in new.varied or ()] == ["12", "3.5"]
    assert [one.samples for one in new.varied or ()] == [["12", "13"], ["3.5", "3.6"]]


def test_all_strings_of_a_call_change_and_no_others() -> None:
    asked = Ask(text="How many?", answer=Answer(2, unit="GB", hint="Count.", slips=[(1, "Too few: 1")]))
    words = [change('"How many?"', '"Wie viele?"'), change('f"Too few: {x}"', 'f"{x} ist zu wenig"', "1")]
    assert in_other_words(asked, words) == Ask(
        text="Wie viele?", answer=Answer(2, unit="GB", hint="Count.", slips=[(1, "1 ist zu wenig")])
    )
    rows = Table(columns=["time", "times"], rows=[["time", 1.5]])
    assert in_other_words(rows, [change('"time"', '"Zeit"')]) == Table(columns=["Zeit", "times"], rows=[["Zeit", 1.5]])


def test_a_message_inside_a_longer_string_changes() -> None:
    told = Text(text="The first 1. The rest.", varied=[Varied(["1", "2"], start=10, end=11)])
    new = in_other_words(told, [change('f"The first {x}. "', 'f"Das erste ist {x}. "', "1")])
    assert new == Text(text="Das erste ist 1. The rest.", varied=[Varied(["1", "2"], start=14, end=15)])
