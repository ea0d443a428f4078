"""Texts of two different sides are never equal; shortened names of subjects stay distinct."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trace_tools.diff.difference import Finding, Subject
from trace_tools.diff.wording import numbers_apart, sides_text, subject_text, texts_apart, values_apart
from trace_tools.trace.model import Claim, Raised, Value


@pytest.mark.parametrize(
    ("x", "y", "unit", "texts"),
    [
        (2, 1, None, ("2", "1")),
        (0.5, 0.25, None, ("0.5", "0.25")),
        (2**31, 2**31 + 4096, "B", ("2 GiB", "2.000004 GiB")),
        (1.0, 1.0000001, None, ("1.0", "1.0000001")),
        (10**9, 10**9 + 1, "FLOP", ("1 GFLOP", "1.000000001 GFLOP")),
    ],
)
def test_numbers_show_the_digits_that_differ(x: float, y: float, unit: str | None, texts: object) -> None:
    assert numbers_apart(x, y, unit) == texts


@given(st.one_of(st.integers(), st.floats(allow_nan=False)), st.one_of(st.integers(), st.floats(allow_nan=False)))
def test_different_numbers_have_different_texts(x: float, y: float) -> None:
    assume(x != y and abs(x) < 10**200 and abs(y) < 10**200 and math.isfinite(x) and math.isfinite(y))
    for unit in (None, "B", "FLOP", "s", "token"):
        first, second = numbers_apart(x, y, unit)
        assert first != second


@given(*[st.text("ab é…\n'\"\\", max_size=20)] * 3)
def test_shortened_texts_stay_different_and_fit(start: str, x: str, y: str) -> None:
    assume(x != y)
    first, second = texts_apart(start * 9 + x, start * 9 + y, 60)
    assert max(len(first), len(second)) <= 60 and first != second


def test_values_with_equal_beginnings_have_different_texts() -> None:
    a, b = (Value("str", "x" * 300 + end) for end in "ab")
    first, second = values_apart(a, b)
    assert first.endswith("a'") and second.endswith("b'") and len(first) < 80
    objects = [Value("Thing", text="<" + "y" * 300 + end + ">") for end in "ab"]
    assert len(set(values_apart(*objects))) == 2
    names = {subject_text(Subject("value", n, "model.weight" * 9), 60) for n in range(3)}
    assert len(names) == 3 and all(len(name) <= 60 for name in names)


def test_what_only_one_side_has_is_shown() -> None:
    for kind, side, text in (
        ("value", Value("int", 7), "7"),
        ("claim", Claim("x == 6", False, [("x", Value("int", 5)), ("6", Value("int", 6))]), "failed: 5 == 6"),
        ("raised", Raised("ValueError", "no"), "ValueError: no"),
        ("step", 1_500, "1.5 µs"),
        ("printed", "text", "text"),
    ):
        assert sides_text(Finding("values", "only in B", Subject(kind), None, side)) == (None, text)  # type: ignore[arg-type]
