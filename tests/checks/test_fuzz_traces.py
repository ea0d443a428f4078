from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.checks import fuzz_traces
from tests.hostile_traces import good
from tests.hostile_traces import hostile as made
from tests.programs import require

FEW = 16  # traces, with at most a few hundred of anything; `make fuzz` reads a thousand large ones
# Tensors with more elements than fit into memory.
SHAPES = {
    "an eighth of a billion elements, four times": ([1 << 28], [1], 1 << 30),
    "on the meta device": ([10**9], [1], 4 * 10**9),
    "expanded": ([10**6, 10**6], [0, 0], 4 * 10**12),
}


@pytest.mark.slow
def test_hostile_traces_are_rendered_or_refused_in_one_line() -> None:
    readings = [reading for seed in range(FEW) for reading in fuzz_traces.read(seed, most=300)]
    assert [f"{r.seed} {r.reader}: {r.wrong}" for r in readings if r.wrong] == []
    compared = {reading.seed for reading in readings if reading.reader == "compare" and not reading.refused}
    assert len(compared) > FEW / 3  # a trace that is refused at once tests little


def test_same_seed_draws_the_same_trace() -> None:
    assert all(made(seed, 50) == made(seed, 50) for seed in range(5))


@pytest.mark.slow
@each("name", SHAPES)
def test_huge_tensors_are_rendered_in_little_memory(name: str, tmp_path: Path) -> None:
    shape, strides, size = SHAPES[name]
    tensor = f'"shape": {shape}, "strides": {strides}, "bytes": {size}, "storage": "Z", "storage_bytes": 4'
    value = f'["huge", {{"type": "tensor", "tensor": {{"dtype": "float32", "device": "meta", {tensor}}}}}]'
    text = good().replace('"values": [["flops"', f'"values": [{value}, ["flops"')
    assert value in text
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "trace.yaml").write_text(text, encoding="utf-8")
    require("bash")
    command = [sys.executable, "-m", "trace_tools", "render", str(tmp_path / "cpu" / "trace.yaml")]
    limited = f"ulimit -v 1000000; exec {shlex.join(command)}"
    completed = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, timeout=60, check=False)
    assert (completed.returncode, completed.stderr) == (0, "")
    assert "huge" in (tmp_path / "cpu" / "00-matmul.html").read_text(encoding="utf-8")
