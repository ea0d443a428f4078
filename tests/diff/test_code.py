"""Code of statements, and what stands in for it where a source is not Python."""

from __future__ import annotations

from tests.diff.plain_tracing import align, lines, traced
from tests.traces import example_trace
from trace_tools.diff.align.code import codes_of
from trace_tools.trace.model import Frame, SourceFile, Step, Trace
from trace_tools.trace.tree import Tree


def test_a_source_that_this_python_cannot_parse_is_matched_by_its_lines() -> None:
    def unreadable(*body: str) -> Trace:
        text = "\n".join(["future syntax ~~", *body])
        steps = [Frame(0, "<module>"), *(Step(n, 0, n + 1, n + 2) for n in range(len(body)))]
        return example_trace(sources=[SourceFile("lecture.py", text)], steps=steps)

    a, b = unreadable("x = 1", "y = 2"), unreadable("x = 1", "new = 0", "y = 2")
    assert not codes_of(Tree(a))[0].parsed
    assert lines(align(a, b)) == {(2, 2), (3, 4), (None, 3)}


def test_code_is_compared_exactly_then_without_names_then_without_constants() -> None:
    [source] = codes_of(Tree(traced("y = 2 * 3  # a comment\nz = 2 * 3\nz = 2 * 4\n")))
    first, second, third = source.functions["<module>"]
    assert first.exact != second.exact and first.unnamed == second.unnamed
    assert second.unnamed != third.unnamed and second.bare == third.bare
    assert (first.names, second.role == third.role) == (("y",), True)


def test_a_compound_statement_counts_with_its_header() -> None:
    texts = (f"for i in range(2):\n    {body}\n" for body in ("x = 1", "y = 2"))
    a, b = (codes_of(Tree(traced(text)))[0].functions["<module>"] for text in texts)
    assert a[0].exact == b[0].exact and a[1].exact != b[1].exact
