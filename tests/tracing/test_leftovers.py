"""What a lecture leaves behind is put back, and named."""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from trace_tools.tracing.leftovers import Leftovers, seed_everything

CHANGES: dict[str, Callable[[], object]] = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "grad mode": lambda: torch.set_grad_enabled(False),
    "threads": lambda: torch.set_num_threads(1 + torch.get_num_threads()),
    "float32 matmul precision": lambda: torch.set_float32_matmul_precision("high"),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "print options": lambda: torch.set_printoptions(precision=2),
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True),
    "backend flag benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "module hooks (forward_hooks)": lambda: torch.nn.modules.module.register_module_forward_hook(lambda *_: None),
    "working directory": lambda: os.chdir("/"),
    "environment": lambda: os.environ.update(LEFT="behind"),
    "warning filters": lambda: warnings.simplefilter("ignore", category=ImportWarning),
    "recursion limit": lambda: sys.setrecursionlimit(2345),
    "sys.path": lambda: sys.path.append("elsewhere"),
    "sys.argv": lambda: sys.argv.append("more"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_is_put_back(name: str) -> None:
    before = Leftovers.read()
    CHANGES[name]()
    assert name in before.restore()
    assert before.restore() == []


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    before = Leftovers.read()
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert before.restore() == ["working directory"]


def test_seeds_are_those_the_libraries_take() -> None:
    seed_everything(7)
    drawn = (random.random(), np.random.rand(), torch.rand(1).item())
    random.seed(7), np.random.seed(7), torch.manual_seed(7)
    assert drawn == (random.random(), np.random.rand(), torch.rand(1).item())
