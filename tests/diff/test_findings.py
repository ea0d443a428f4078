"""Findings about claims, values, shared memory, narrative output, FLOPs and bytes, and their subjects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.diff.plain_tracing import traced
from tests.diff.planted import at, differ, differ_at, ints, made, tensor, with_steps
from tests.pages.explored import EXPLORED
from trace_tools.diff.difference import Aspect, Difference, Finding, Subject
from trace_tools.diff.wording import subject_text
from trace_tools.trace.model import Answer, Ask, Claim, Frame, Meters, Trace, Value


def found(difference: Difference, aspect: Aspect = "values") -> list[Finding]:
    return [finding for _, finding in difference.findings(aspect)]


def test_values_of_renamed_variables_are_matched() -> None:
    a = with_steps(traced("x = [1]\ny = len(x)\n"), at(1, values=[("x", Value("int", 1)), ("x.y", Value("int", 2))]))
    b = with_steps(traced("h = [1]\ny = len(h)\n"), at(1, values=[("h", Value("int", 1)), ("h.y", Value("int", 2))]))
    counts = {(aspect, verdict): n for aspect, verdict, n in differ(a, b).counts}
    assert counts["values", "same"] == 2 and ("values", "only in A") not in counts


def test_a_repeated_expression_or_a_changed_argument_names_its_own_subject() -> None:
    twice = differ_at(6, *({"values": [*ints(x=1), *ints(x=n)]} for n in (2, 3)))
    [finding] = found(twice)
    assert (finding.subject, finding.a, finding.b) == (Subject("value", 1, "x"), Value("int", 2), Value("int", 3))

    def called(n: int) -> Trace:
        frames = [
            replace(e, arguments=ints(i=7, k=n)) if isinstance(e, Frame) and e.function == "work" else e
            for e in made(0).steps
        ]
        return replace(made(0), steps=frames)

    subjects = {f.subject for f in found(differ(called(1), called(2)))}
    assert subjects == {Subject("argument", 1, "k", "work")} and subject_text(subjects.pop()) == "work(k)"


@pytest.mark.parametrize(
    ("a", "b", "differing"),
    [
        (("s1", "s1"), ("s7", "s7"), []),  # labels of storages are arbitrary
        (("s1", "s1"), ("s1", "s2"), ["v1"]),
        (("s1", "s1", "s1", "s1"), ("t1", "t2", "t2", "t1"), ["v1"]),  # a copy is named once, not its views
        (("t1", "t2", "t2", "t1"), ("s1", "s1", "s1", "s1"), ["v1"]),
    ],
)
def test_aliasing_is_compared_without_storage_labels(
    a: tuple[str, ...], b: tuple[str, ...], differing: list[str]
) -> None:
    sides = ({"values": [(f"v{n}", tensor(storage=label)) for n, label in enumerate(labels)]} for labels in (a, b))
    difference = differ_at(6, *sides)
    assert [f.subject.expression for f in found(difference)] == differing and difference.matters == bool(differing)
    assert all(word in (f.detail or "") for f in found(difference) for word in ("shares memory", "in A", "in B"))


def test_edited_claim_is_compared_with_its_old_version() -> None:
    a, b = traced("y = 2\nassert y == 2\nz = 1\n"), traced("y = 2\nassert y != 3\nz = 1\n")
    a, b = with_steps(a, at(2, claim=Claim("y == 2", True))), with_steps(b, at(2, claim=Claim("y != 3", False)))
    assert [(f.verdict, f.subject.expression) for f in found(differ(a, b), "claims")] == [("changed", "y != 3")]


def answering(value: float) -> Any:
    return Ask(text="How many bytes?", answer=Answer(value, "B", within=0.0))


def exploring(days: float) -> Any:
    exploration = EXPLORED[0].exploration
    assert exploration is not None
    results = [replace(exploration.results[0], value=days), *exploration.results[1:]]
    return replace(EXPLORED[0], text="{days}", exploration=replace(exploration, results=results))


@pytest.mark.parametrize(
    ("narrated", "texts"),
    [
        (answering, ("How many bytes? Answer: 4.0 B", "How many bytes? Answer: 8.0 B")),
        (exploring, ("{days} days: 4.0 days, quick: True", "{days} days: 8.0 days, quick: True")),
    ],
)
def test_changed_answers_and_results_are_reported(narrated: Any, texts: tuple[str, str]) -> None:
    four, unchanged, eight = ({"narrative": [narrated(value)]} for value in (4.0, 4.0, 8.0))
    assert found(differ_at(6, four, unchanged), "output") == []
    assert [(f.a, f.b) for f in found(differ_at(6, four, eight), "output")] == [texts]


def test_counts_with_uncounted_operators_are_lower_bounds() -> None:
    sides = ({"meters": Meters(flops=flops, uncounted=["aten.sort"])} for flops in (1000, 2000))
    [detail] = [f.detail for f in found(differ_at(6, *sides), "flops") if f.verdict == "changed"]
    assert detail is not None and "at least" in detail and "aten.sort" in detail
    counted = {"meters": Meters(flops=1000)}
    [(_, finding)] = differ_at(6, {"meters": Meters(flops=1, uncounted=["aten.sort"])}, counted).findings("flops")
    assert (finding.verdict, finding.a, finding.b) == ("not judged", 1, 1000) and "aten.sort" in (finding.detail or "")


def test_allocator_rounding_is_not_a_change() -> None:
    exact, rounded, more = (
        {"allocated_bytes": n, "meters": Meters(0, 0, 0, 1000, 1000)} for n in (1024, 1536, 1024 + 2**24)
    )
    difference = differ_at(6, exact, rounded)
    assert not difference.matters and [f.verdict for f in found(difference, "memory")] == ["noise"]
    assert differ_at(6, exact, more).matters


@pytest.mark.parametrize(
    ("source", "a", "b", "held", "expected"),
    [
        ("x == y", (3, 3), (4, 4), True, ("noise", False)),
        ("x is y", (3, 3), (4, 4), True, ("noise", False)),
        ("near(x, y)", (3, 3), (4, 4), True, ("noise", False)),
        ("x == y == z", (3, 3, 3), (4, 4, 4), True, ("noise", False)),
        ("x <= y", (3, 3), (3, 4), True, ("changed", True)),
        ("x <= y", (3, 3), (4, 4), True, ("changed", True)),
        ("x == y", (3, 3), (4, 4), False, ("changed", True)),
        ("near(x, y)", (3, 4), (5, 6), True, ("changed", True)),
    ],
)
def test_sides_of_a_claim_that_moved_together_are_no_difference(
    source: str, a: tuple[int, ...], b: tuple[int, ...], held: bool, expected: tuple[str, bool]
) -> None:
    claims = (Claim(source, held, ints(**dict(zip("xyz", sides, strict=False)))) for sides in (a, b))
    findings = found(differ_at(7, *({"claim": claim} for claim in claims)))
    assert {(f.verdict, f.matters) for f in findings} == {expected}
    assert len(findings) == sum(x != y for x, y in zip(a, b, strict=True))
