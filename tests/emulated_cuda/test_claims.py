"""Both sides of the lecture's claims on each card, with workspaces that stay allocated and workspaces that are freed.

Slow, so only `make emulate` runs these tests. With `-s` they print the sides. `claims.py` explains what is computed.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cases_in_one import each
from tests.emulated_cuda.build import environment, run
from tests.emulated_cuda.claims import LECTURE, NOT_JUDGED, Drawn, Parts
from tests.emulated_cuda.profiles import MIB, PROFILES

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.xdist_group("claims"),  # one worker evaluates the claims
    pytest.mark.skipif("EMULATED_CUDA" not in os.environ, reason="not on the emulated device"),
]
CARDS = ("t4", "v100", "a100", "h100", "mig", "4090", "mi300x")
COMPUTED = MIB  # kernels on more bytes are launched but not computed
# Sections with claims about the allocator's figures. Claims of other sections do not depend on workspaces.
OF_MEMORY = ("memory_accounting", "models", "optimizers", "memory_of_a_training_step", "using_less_memory")
OTHER_MIB = {"mi300x": 80}  # products of hipBLASLt have a workspace of their own
# Least difference of the sides, relative to the larger, in a strict comparison whose sides depend on the card.
MARGIN = 0.004
Comparison = tuple[str, float, float]
Runs = dict[str, list[Drawn]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Evaluate the claims on every card, two processes at a time."""
    folder = tmp_path_factory.mktemp("claims")
    configurations = {card: (card, {}) for card in CARDS}
    configurations |= {f"{card}, freed": (card, {"transient_workspace": 1}) for card in CARDS}
    for card, size in OTHER_MIB.items():
        configurations[f"{card}, {size} MiB freed"] = card, {"transient_workspace": 1, "workspace": size * MIB}

    def evaluate(name: str) -> list[Drawn]:
        card, settings = configurations[name]
        out = folder / f"{name}.json"
        variables = environment(card, computed=COMPUTED, **settings) | {"OMP_NUM_THREADS": "1"}
        sections = OF_MEMORY if settings else ()
        done = run([sys.executable, "-m", "tests.emulated_cuda.claims", str(out), *sections], variables)
        assert done.returncode == 0, f"{name}: {done.stderr[-2000:]}"
        claims, errors = json.loads(out.read_text(encoding="utf-8"))
        assert not errors, f"{name}: {errors}"
        return [Drawn(**claim) for claim in claims]

    with ThreadPoolExecutor(2) as pool:
        claims_by_run = dict(zip(configurations, pool.map(evaluate, configurations), strict=True))
    print_sides(claims_by_run)
    return claims_by_run


def by_source(claims: Iterable[Drawn]) -> dict[tuple[int, str, str], list[Drawn]]:
    """Group the evaluations of each claim, by its line, function and source."""
    grouped: dict[tuple[int, str, str], list[Drawn]] = {}
    for claim in claims:
        grouped.setdefault((claim.line, claim.function, claim.source), []).append(claim)
    return grouped


def margin(comparison: Comparison) -> float:
    """Return the difference of the sides relative to the larger."""
    _, left, right = comparison
    return abs(right - left) / (max(abs(left), abs(right)) or 1)


def narrowest(claims: Iterable[Drawn]) -> Comparison | None:
    """Return the comparison of numbers by < or > (or <=, >=) whose sides are closest."""
    ordered = (
        (name, left, right)
        for claim in claims
        for name, left, right in claim.comparisons
        if name[0] in "<>" and isinstance(left, int | float) and isinstance(right, int | float)
    )
    return min(ordered, key=margin, default=None)


def that_depend_on_the_card(runs: Runs) -> Iterator[tuple[tuple[int, str, str], dict[str, Comparison]]]:
    """Yield the judged claims whose sides differ between runs, each with its narrowest comparison in each run."""
    comparisons: dict[tuple[int, str, str], dict[str, Comparison]] = {}
    for name, claims in runs.items():
        for key, evaluations in by_source(claims).items():
            if key[2] not in NOT_JUDGED and (comparison := narrowest(evaluations)):
                comparisons.setdefault(key, {})[name] = comparison
    yield from ((key, sides) for key, sides in comparisons.items() if len({*sides.values()}) > 1)


def print_sides(runs: Runs) -> None:
    """Print the claims that depend on the card, and the claims that are not judged or not evaluated."""
    for (line, function, source), sides in that_depend_on_the_card(runs):
        print(f"\nlecture.py:{line} {function}: {source}")
        for comparison in dict.fromkeys(sides.values()):
            name, left, right = comparison
            cards = "; ".join(card for card, other in sides.items() if other == comparison)
            print(f"    {left:>20,.7g} {name:2} {right:<20,.7g} {margin(comparison):6.2%} apart: {cards}")
    print("\nNot judged:")
    for source, reason in NOT_JUDGED.items():
        print(f"    {reason}: {source}")
    reasons = Parts(ast.parse(LECTURE.read_text(encoding="utf-8"))).left_out()
    for line, name, source in not_drawn(runs):
        print(f"    {reasons.get(name, 'never reached')}: lecture.py:{line} {name}: {source}")


def not_drawn(runs: Runs) -> list[tuple[int, str, str]]:
    """List the claims of functions on the device that no run evaluated: line, function, source."""
    evaluated = {(claim.line, claim.source) for claims in runs.values() for claim in claims}
    parts = Parts(ast.parse(LECTURE.read_text(encoding="utf-8")))
    all_claims = [(node.lineno, name, ast.unparse(node.test)) for name, node in parts.asserts()]
    return sorted(claim for claim in all_claims if (claim[0], claim[2]) not in evaluated)


def test_all_claims_hold_on_all_cards(runs: Runs) -> None:
    failed = [
        (name, claim.line, claim.source, claim.comparisons)
        for name, claims in runs.items()
        for claim in claims
        if not claim.held and claim.source not in NOT_JUDGED
    ]
    assert not failed


def test_claims_that_depend_on_the_card_have_a_margin(runs: Runs) -> None:
    """Only `<` and `>` need a margin, since `<=` and `>=` allow equal sides."""
    card_dependent = list(that_depend_on_the_card(runs))
    narrow = [
        (key, name, comparison)
        for key, sides in card_dependent
        for name, comparison in sides.items()
        if comparison[0] in "<>" and margin(comparison) < MARGIN
    ]
    assert not narrow
    functions = {function for (_, function, _), _ in card_dependent}
    assert "what_the_strategies_cost" in functions


@each("card", CARDS)
def test_freed_workspaces_do_not_change_memory_figures(card: str, runs: Runs) -> None:
    """Only the figures of the claims in `what_the_strategies_cost` are compared."""
    allocated = {key: [claim.comparisons for claim in claims] for key, claims in by_source(runs[card]).items()}
    freed = [name for name in runs if name.startswith(f"{card}, ")]
    assert freed and PROFILES[card].workspace_kib > 0
    for name in freed:
        for key, claims in by_source(runs[name]).items():
            if key[1] == "what_the_strategies_cost":
                assert [claim.comparisons for claim in claims] == allocated[key], name


def test_only_listed_parts_are_not_evaluated(runs: Runs) -> None:
    parts = Parts(ast.parse(LECTURE.read_text(encoding="utf-8")))
    left_out = parts.left_out()
    assert not [claim for claim in not_drawn(runs) if claim[1] not in left_out]
