"""Findings about claims, values, shared memory, narrative output, FLOPs and bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.diff.plain_tracing import traced
from tests.diff.planted import at, differ, made, tensor, with_steps
from tests.messages import says
from tests.pages.explored import EXPLORED
from trace_tools.trace.model import Answer, Ask, Claim, Meters, Step, Trace, Value


def test_values_of_renamed_variables_are_matched() -> None:
    a = with_steps(traced("x = [1]\ny = len(x)\n"), at(1, values=[("x", Value("int", 1)), ("x.y", Value("int", 2))]))
    b = with_steps(traced("h = [1]\ny = len(h)\n"), at(1, values=[("h", Value("int", 1)), ("h.y", Value("int", 2))]))
    counts = {(aspect, verdict): n for aspect, verdict, n in differ(a, b).counts}
    assert counts["values", "same"] == 2 and ("values", "only in A") not in counts


def test_aliasing_is_compared_without_storage_labels() -> None:
    def stored_in(first: str, second: str) -> Callable[[Step], Step]:
        return at(6, values=[("y", tensor(storage=first)), ("z", tensor(storage=second))])

    a = with_steps(made(0), stored_in("s1", "s1"))
    assert not differ(a, with_steps(made(0), stored_in("s7", "s7"))).matters
    findings = [f for _, f in differ(a, with_steps(made(0), stored_in("s1", "s2"))).findings("values")]
    assert [f.subject.expression for f in findings] == ["z"]
    assert says(findings[0].detail, "shares memory", "in A", "in B")


def test_copy_instead_of_a_view_is_reported_once() -> None:
    def shared(*labels: str) -> Callable[[Step], Step]:
        return at(6, values=[(f"v{n}", tensor(storage=label)) for n, label in enumerate(labels)])

    a, b = with_steps(made(0), shared("s1", "s1", "s1", "s1")), with_steps(made(0), shared("t1", "t2", "t2", "t1"))
    assert [f.subject.expression for _, f in differ(a, b).findings("values")] == ["v1"]
    assert [f.subject.expression for _, f in differ(b, a).findings("values")] == ["v1"]


def test_edited_claim_is_compared_with_its_old_version() -> None:
    a, b = traced("y = 2\nassert y == 2\nz = 1\n"), traced("y = 2\nassert y != 3\nz = 1\n")
    a = with_steps(a, at(2, claim=Claim("y == 2", True)))
    findings = [f for _, f in differ(a, with_steps(b, at(2, claim=Claim("y != 3", False)))).findings("claims")]
    assert [(f.verdict, f.subject.expression) for f in findings] == [("changed", "y != 3")]


def test_changed_answer_to_a_question_is_reported() -> None:
    def answering(value: int) -> Callable[[Step], Step]:
        return at(6, narrative=[Ask(text="How many bytes?", answer=Answer(value, "B"))])

    a, unchanged, b = (with_steps(made(0), answering(value)) for value in (4, 4, 8))
    assert [f.verdict for _, f in differ(a, unchanged).findings("output")] == []
    assert [(f.a, f.b) for _, f in differ(a, b).findings("output")] == [
        ("How many bytes? Answer: 4 B", "How many bytes? Answer: 8 B")
    ]


def test_changed_result_of_an_exploration_is_reported() -> None:
    def resulting_in(days: float) -> Callable[[Step], Step]:
        exploration = EXPLORED[0].exploration
        assert exploration is not None
        results = [replace(exploration.results[0], value=days), *exploration.results[1:]]
        return at(6, narrative=[replace(EXPLORED[0], text="{days}", exploration=replace(exploration, results=results))])

    a, unchanged, b = (with_steps(made(0), resulting_in(days)) for days in (4.0, 4.0, 8.0))
    assert [f.verdict for _, f in differ(a, unchanged).findings("output")] == []
    assert [(f.a, f.b) for _, f in differ(a, b).findings("output")] == [
        ("{days} days: 4.0 days, quick: True", "{days} days: 8.0 days, quick: True")
    ]


# --- FLOPs, bytes and memory ----------------------------------------------------------------------


def test_counts_with_uncounted_operators_are_lower_bounds() -> None:
    meters = Meters(flops=1000, uncounted=["aten.sort"])
    a = with_steps(made(0), at(6, meters=meters))
    b = with_steps(a, at(6, meters=Meters(flops=2000, uncounted=["aten.sort"])))
    [detail] = [f.detail for _, f in differ(a, b).findings("flops") if f.verdict == "changed"]
    assert detail is not None and "at least" in detail and "aten.sort" in detail


def test_allocator_rounding_is_not_a_change() -> None:
    meters = Meters(0, 0, 0, 1000, 1000)
    a = with_steps(made(0), at(6, allocated_bytes=1024, meters=meters))
    rounded = differ(a, with_steps(a, at(6, allocated_bytes=1536, meters=meters)))
    assert not rounded.matters and [f.verdict for _, f in rounded.findings("memory")] == ["noise"]
    assert differ(a, with_steps(a, at(6, allocated_bytes=1024 + 2**24, meters=meters))).matters


def test_sides_of_a_claim_that_moved_together_are_no_difference() -> None:
    def claiming(source: str, *sides: Value, held: bool = True) -> Trace:
        return with_steps(made(0), at(7, claim=Claim(source, held, list(zip("xyz", sides, strict=False)))))

    def found(source: str, a: tuple[int, ...], b: tuple[int, ...], *, held: bool = True) -> list[tuple[str, bool]]:
        traces = [claiming(source, *(Value("int", n) for n in sides), held=held) for sides in (a, b)]
        return [(f.verdict, f.matters) for _, f in differ(*traces).findings("values")]

    for source in ("x == y", "x is y", "near(x, y)"):
        assert found(source, (3, 3), (4, 4)) == [("noise", False)] * 2
    assert found("x == y == z", (3, 3, 3), (4, 4, 4)) == [("noise", False)] * 3
    assert found("x <= y", (3, 3), (3, 4)) == [("changed", True)]
    assert found("x <= y", (3, 3), (4, 4)) == [("changed", True)] * 2
    assert found("x == y", (3, 3), (4, 4), held=False) == [("changed", True)] * 2
    assert found("near(x, y)", (3, 4), (5, 6)) == [("changed", True)] * 2
