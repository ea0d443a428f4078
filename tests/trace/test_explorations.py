"""Placeholders in the sentence of a calculator. Tests of its callers check whether the names in it exist."""

from __future__ import annotations

import re

import pytest

from tests.cases_in_one import each
from trace_tools.trace.explorations import places


def test_a_sentence_is_split_into_parts() -> None:
    assert places("") == []
    assert places("In {days}.") == ["In ", ("days",), "."]
    parts = places("{fits?In {days}|{large?Too | large}}!")
    assert parts == [("fits", ["In ", ("days",)], [("large", ["Too "], [" large"])]), "!"]
    assert places("a | b } c? ") == ["a | b } c? "]


@each("text", ["{", "{a", "{a?", "{a?b", "{a?b|", "{a?b}", "{a|b}", "{a{b}}", "{a?{b|c}"])
def test_malformed_placeholders_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match=r"a \{ has no \}"):
        places(text)


def test_nested_placeholders_are_limited() -> None:
    assert places("{a?" * 20 + "|}" * 20)
    with pytest.raises(ValueError, match=re.escape("20 levels deep")):
        places("{a?" * 2_000)
