"""Code of statements, functions and variables matched between two versions, and common subsequences."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.diff.plain_tracing import align, lines, traced
from tests.diff.planted import differ
from tests.traces import example_trace
from trace_tools.diff.align.code import code_of, common, translated
from trace_tools.trace.model import Frame, SourceFile, Step, Trace
from trace_tools.trace.tree import Tree


def test_unparsable_source_is_matched_line_by_line() -> None:
    def unreadable(*body: str) -> Trace:
        text = "\n".join(["future syntax ~~", *body])
        steps = [Frame(0, "<module>"), *(Step(n, 0, n + 1, n + 2) for n in range(len(body)))]
        return example_trace(source=SourceFile("lecture.py", text), steps=steps)

    a, b = unreadable("x = 1", "y = 2"), unreadable("x = 1", "new = 0", "y = 2")
    assert not code_of(Tree(a)).parsed
    assert lines(align(a, b)) == {(2, 2), (3, 4), (None, 3)}


def test_renamed_variables_and_functions_keep_their_statements() -> None:
    a, b = traced("x = [1]\ny = len(x)\nz = x + [y]\n"), traced("h = [1]\ny = len(h)\nz = h + [y]\n")
    assert align(a, b).matching.renamed("<module>") == {"x": "h"}
    assert translated("h.shape[h_1]", {"h": "hidden", "shape": "no"}) == "hidden.shape[h_1]"
    a = traced("def product(x):\n    y = x * 3\n    return y + 1\nz = product(2)\n")
    b = traced("z = 0\ndef multiply(x):\n    y = x * 3\n    return y + 1\nz = multiply(2)\n")
    matching = align(a, b).matching
    assert matching.function_in_b("product") == "multiply" and matching.parsed and not matching.same
    assert [*map(matching.statement_in_b, (1, 2, 3))] == [2, 3, 4]
    assert matching.statement_in_a(2) == 1 and matching.statement_in_a(0) is None
    changes = {("product", "multiply", "renamed"), ("<module>", "<module>", "edited")}
    assert {(f.a, f.b, f.how) for f in matching.functions} == changes
    difference = differ(a, b)
    assert {difference.function_of(row) for row in difference.rows} == {"<module>", "multiply"}


@settings(max_examples=100)
@given(st.text("abcd", max_size=25), st.text("abcd", max_size=25))
def test_common_subsequence_has_maximal_length(a: str, b: str) -> None:
    lengths = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, j in itertools.product(range(len(a)), range(len(b))):
        lengths[i + 1][j + 1] = lengths[i][j] + 1 if a[i] == b[j] else max(lengths[i][j + 1], lengths[i + 1][j])
    pairs = common(a, b)
    assert len(pairs) == lengths[-1][-1] and all(a[i] == b[j] for i, j in pairs)
    assert all(x[0] < y[0] and x[1] < y[1] for x, y in itertools.pairwise(pairs))


def test_common_subsequence_of_many_equal_keys_is_long() -> None:
    assert len(common("x" * 5_000 + "a", "b" + "x" * 5_000)) >= 4_900
