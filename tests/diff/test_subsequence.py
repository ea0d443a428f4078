"""The longest common subsequence, against all of them."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from trace_tools.diff.align.subsequence import common


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
