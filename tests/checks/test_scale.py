"""The bench of growth: its lectures, the exponents it fits, and its report."""

from __future__ import annotations

import ast

import pytest

from tests.checks import scale
from tests.checks.scale import CASES, SMALL, Case, Taken, exponents


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_is_a_lecture(case: Case) -> None:
    functions = [node.name for node in ast.parse(case.lecture(200)).body if isinstance(node, ast.FunctionDef)]
    assert functions[0] == "main"
    assert len(case.sizes) >= 4


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_exponents_are_of_growth_beyond_the_first(power: float) -> None:
    taken = [Taken(n, {"trace_s": 7.0 + (n / 100) ** power}) for n in (1, 100, 1_000, 10_000)]
    assert exponents(taken)["trace_s"] == pytest.approx(power, abs=0.02)


def test_what_hardly_grows_has_no_exponent() -> None:
    taken = [Taken(n, {"render_mib": 50.0 + n * SMALL["render_mib"] / 200}) for n in (1, 10, 100)]
    assert exponents(taken) == {"render_mib": None}


def test_a_report_has_a_row_for_each_size() -> None:
    taken = [Taken(n, dict.fromkeys(scale.FIGURES, float(n))) for n in (1, 10, 100)]
    taken.append(Taken(1_000, {"trace_s": 300.0}, "   trace: not done"))
    text = scale.report([(CASES[0], taken)], 60)
    assert [line.split(" ")[1] for line in text.splitlines() if line.startswith("| 1")] == ["1", "10", "100", "1,000"]
    assert "trace: not done" in text
