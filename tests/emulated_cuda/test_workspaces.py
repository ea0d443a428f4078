"""Workspaces of products, and kernels that are launched but not computed, compared with figures of the allocator."""

from __future__ import annotations

import json
import sys

from tests.cases_in_one import each
from tests.emulated_cuda.build import environment, run
from tests.emulated_cuda.profiles import MIB

PRODUCTS = """
import json, torch
a = torch.ones(32, 32, device="cuda")
figures = []
for _ in range(2):
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    b = a @ a
    held, peak = torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before
    figures += [held, peak]
    del b
print(json.dumps(figures))
"""
LARGE = """
import json, torch
x = torch.ones(1 << 20, device="cuda")
y = torch.ones(4, device="cuda")
print(json.dumps([x.sum().item() == 1 << 20, (y + 1).tolist(), torch.cuda.memory_allocated() >= 4 << 20]))
"""


@each(("card", "size"), [("t4", 8320 << 10), ("mig", 32 * MIB), ("mi300x", 128 * MIB)])
def test_workspaces_stay_or_are_freed_after_each_product(card: str, size: int, emulated: None) -> None:
    result = 32 * 32 * 4
    for settings, expected in (
        ({}, [size + result, size + result, result, result]),
        ({"transient_workspace": 1}, [result, size + result] * 2),
        ({"transient_workspace": 1, "workspace": MIB}, [result, MIB + result] * 2),
    ):
        done = run([sys.executable, "-c", PRODUCTS], environment(card, **settings))
        assert json.loads(done.stdout) == expected, done.stderr


def test_large_kernels_are_launched_but_not_computed(emulated: None) -> None:
    done = run([sys.executable, "-c", LARGE], environment(computed=MIB))
    assert json.loads(done.stdout) == [False, [2, 2, 2, 2], True], done.stderr
