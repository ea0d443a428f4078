"""The lecture's claims hold on a T4, an A100 and an H100; `claims.py` says what is computed there."""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.emulated_cuda.build import environment, run
from tests.emulated_cuda.claims import LECTURE, LEFT_OUT, NOT_JUDGED, Parts
from tests.emulated_cuda.profiles import MIB

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif("EMULATED_CUDA" not in os.environ, reason="not on the emulated device"),
]
COMPUTED = MIB  # kernels on more bytes are launched but not computed


@pytest.mark.parametrize("card", ["t4", "a100", "h100"])
def test_claims_hold_on_each_card(card: str, tmp_path: Path) -> None:
    """On the H100, which has tf32 and fp8, every claim of a function on the device is reached but those left out."""
    out = tmp_path / "claims.json"
    variables = environment(card, computed=COMPUTED) | {"OMP_NUM_THREADS": "1"}
    done = run([sys.executable, "-m", "tests.emulated_cuda.claims", str(out)], variables)
    assert done.returncode == 0, done.stderr[-2000:]
    claims, errors = json.loads(out.read_text(encoding="utf-8"))
    assert errors == []
    assert [(line, source) for line, source, held in claims if not held and source not in NOT_JUDGED] == []
    if card != "h100":
        return
    parts = Parts(ast.parse(LECTURE.read_text(encoding="utf-8")))
    functions = [parts.functions[name] for name in parts.on_the_device - parts.left_out()]
    possible = {node.lineno for function in functions for node in ast.walk(function) if isinstance(node, ast.Assert)}
    assert possible - {line for line, _, _ in claims} == set()


@each("listed", [LEFT_OUT, NOT_JUDGED])
def test_listed_exceptions_exist_in_the_lecture(listed: dict[str, str]) -> None:
    nodes = list(ast.walk(ast.parse(LECTURE.read_text(encoding="utf-8"))))
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    assert listed.keys() <= functions | {ast.unparse(node.test) for node in nodes if isinstance(node, ast.Assert)}
