"""Which function and variable of one lecture is which of another; the longest common subsequence, against all."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.diff.plain_tracing import align, traced
from trace_tools.diff.align.functions import SAME, common, translated


def test_a_renamed_variable_is_named() -> None:
    a, b = traced("x = [1]\ny = len(x)\nz = x + [y]\n"), traced("h = [1]\ny = len(h)\nz = h + [y]\n")
    matching = align(a, b).matching
    assert matching.renamed(0, "<module>") == {"x": "h"}


def test_a_function_that_was_renamed_and_moved_keeps_its_statements() -> None:
    a = traced("def product(x):\n    y = x * 3\n    return y + 1\nz = product(2)\n")
    b = traced("z = 0\ndef multiply(x):\n    y = x * 3\n    return y + 1\nz = multiply(2)\n")
    matching = align(a, b).matching
    assert matching.function_in_b(0, "product") == (0, "multiply") and matching.parsed and not matching.same
    assert [matching.statement_in_b(0, n) for n in (1, 2, 3)] == [(0, 2), (0, 3), (0, 4)]
    assert matching.statement_in_a(0, 2) == (0, 1) and matching.statement_in_a(0, 0) is None
    assert {(f.a, f.b, f.how) for f in matching.functions} == {
        ("product", "multiply", "renamed"),
        ("<module>", "<module>", "edited"),
    }


def test_of_one_source_everything_is_its_own_counterpart() -> None:
    assert SAME.statement_in_b(0, 7) == SAME.statement_in_a(0, 7) == (0, 7)
    assert SAME.function_in_b(1, "f") == (1, "f") and not SAME.renamed(1, "f")


def test_an_expression_is_translated_name_by_name() -> None:
    assert translated("h.shape[h_1]", {"h": "hidden", "shape": "no"}) == "hidden.shape[h_1]"


# --- the longest common subsequence ---------------------------------------------------------------


@settings(max_examples=200)
@given(st.text("abcd", max_size=25), st.text("abcd", max_size=25))
def test_the_common_subsequence_is_a_longest_one(a: str, b: str) -> None:
    best = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, j in itertools.product(range(len(a)), range(len(b))):
        best[i + 1][j + 1] = best[i][j] + 1 if a[i] == b[j] else max(best[i][j + 1], best[i + 1][j])
    found = common(a, b)
    assert len(found) == best[-1][-1] and all(a[i] == b[j] for i, j in found)
    assert all(x[0] < y[0] and x[1] < y[1] for x, y in itertools.pairwise(found))


def test_many_equal_keys_stay_quick() -> None:
    assert len(common("x" * 5_000 + "a", "b" + "x" * 5_000)) >= 4_900
