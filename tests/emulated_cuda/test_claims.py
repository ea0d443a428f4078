"""The lecture's claims hold on a T4, an A100 and an H100; `claims.py` says what is computed there."""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path

import pytest

from tests.emulated_cuda.build import environment, run
from tests.emulated_cuda.claims import LECTURE, LEFT_OUT, NOT_JUDGED
from tests.emulated_cuda.profiles import MIB

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif("EMULATED_CUDA" not in os.environ, reason="not on the emulated device"),
]


def lines_of_claims(nodes: list[ast.stmt]) -> set[int]:
    return {node.lineno for statement in nodes for node in ast.walk(statement) if isinstance(node, ast.Assert)}


@pytest.mark.parametrize("card", ["t4", "a100", "h100"])
def test_claims_hold_on_each_card(card: str, tmp_path: Path) -> None:
    """On the H100, which has tf32 and fp8, every claim is reached but those left out."""
    out = tmp_path / "claims.json"
    variables = environment(card, computed=MIB) | {"OMP_NUM_THREADS": "1"}  # larger kernels are not computed
    done = run([sys.executable, "-m", "tests.emulated_cuda.claims", str(out)], variables)
    assert done.returncode == 0, done.stderr[-2000:]
    claims, errors = json.loads(out.read_text(encoding="utf-8"))
    assert errors == []
    assert [(line, source) for line, source, held in claims if not held and source not in NOT_JUDGED] == []
    if card == "h100":
        assert NOT_JUDGED.keys() <= {source for _, source, _ in claims}
        statements = ast.parse(LECTURE.read_text(encoding="utf-8")).body
        left_out = [node for node in statements if getattr(node, "name", "") in LEFT_OUT]
        assert {line for line, _, _ in claims} == lines_of_claims(statements) - lines_of_claims(left_out)
