"""The places in a sentence of a figure that answers back; what fits together is tested by who asks for it."""

from __future__ import annotations

import re

import pytest

from tests.cases_in_one import each
from trace_tools.trace.explorations import places


def test_a_sentence_is_read_into_its_parts() -> None:
    assert places("") == []
    assert places("In {days}.") == ["In ", ("days",), "."]
    parts = places("{fits?In {days}|{large?Too | large}}!")
    assert parts == [("fits", ["In ", ("days",)], [("large", ["Too "], [" large"])]), "!"]
    assert places("a | b } c? ") == ["a | b } c? "]


@each("text", ["{", "{a", "{a?", "{a?b", "{a?b|", "{a?b}", "{a|b}", "{a{b}}", "{a?{b|c}"])
def test_a_place_that_is_not_closed_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"a \{ has no \}"):
        places(text)


def test_places_in_places_have_an_end() -> None:
    assert places("{a?" * 20 + "|}" * 20)
    with pytest.raises(ValueError, match=re.escape("20 levels deep")):
        places("{a?" * 2_000)
