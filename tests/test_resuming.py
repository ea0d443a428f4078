"""Section 15 with real processes: one is killed by SIGKILL in the middle of a step, another resumes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]

PROGRAM = """
import os, random, signal, sys
import numpy as np, torch
sys.path.insert(0, sys.argv[1])
import lecture
task, where, path = sys.argv[2:]
torch.set_num_threads(1)
data = torch.randn(64, 16, generator=torch.Generator().manual_seed(2))
def new(seed):
    torch.manual_seed(seed), np.random.seed(seed), random.seed(seed)
    return lecture.new_training(where)
if task == "killed":
    run = new(0)
    lecture.train_until(run, 12, data)
    torch.save(lecture.checkpoint_of(run), path + ".undisturbed")
    run = new(0)
    lecture.train_until(run, 6, data)
    lecture.save_atomically(lecture.checkpoint_of(run), lecture.Path(path))
    lecture.train_until(run, 8, data)
    run.scaler.step = lambda optimizer: os.kill(os.getpid(), signal.SIGKILL)  # in the middle of the ninth step
    lecture.train_until(run, 12, data)
else:
    run = new(1)
    lecture.restore(run, torch.load(path, map_location="cpu"))
    lecture.train_until(run, 12, data)
    torch.save(lecture.checkpoint_of(run), path + ".resume")
"""


def run(task: str, where: str, path: Path) -> int:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, str(ROOT), task, where, str(path)]
    return subprocess.run(command, env=environment, check=False).returncode


def leaves(part: object) -> list[object]:
    if isinstance(part, dict):
        return [leaf for key in sorted(part, key=str) for leaf in (key, *leaves(part[key]))]
    if isinstance(part, (list, tuple)):
        return [leaf for nested in part for leaf in leaves(nested)]
    return [part.cpu().numpy().tobytes() if isinstance(part, torch.Tensor) else part]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_a_killed_process_is_resumed_to_the_bit(where: str, tmp_path: Path) -> None:
    if where == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    path = tmp_path / "run.pt"
    assert run("killed", where, path) == -signal.SIGKILL
    assert run("resume", where, path) == 0
    ends = [torch.load(f"{path}.{task}", map_location="cpu") for task in ("undisturbed", "resume")]
    assert leaves(ends[0]) == leaves(ends[1])
    saved = torch.load(path, map_location="cpu")
    assert (saved["step"], ends[0]["step"]) == (6, 12)
    assert leaves(saved["model"]) != leaves(ends[0]["model"])
