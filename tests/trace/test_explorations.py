"""Placeholders in the sentence of a calculator. Tests of its callers check whether the names in it exist."""

from __future__ import annotations

import pytest

from tests.cases_in_one import each
from trace_tools.trace.explorations import places


def test_a_sentence_is_split_into_parts() -> None:
    assert places("") == []
    assert places("In {days}.") == ["In ", ("days",), "."]
    assert places("{fits?In {days}|Too | large}!") == [("fits", ["In ", ("days",)], ["Too | large"]), "!"]
    assert places("a | b } c? ") == ["a | b } c? "]


@each(
    "text", ["{", "{a", "{a?", "{a?b", "{a?b|", "{a?b}", "{a|b}", "{a{b}}", "{a?{b|c}", "{a?b|{c?d|e}}", "{a?" * 2_000]
)
def test_malformed_placeholders_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match=r"a \{ has no \}"):
        places(text)
