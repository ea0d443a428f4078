"""The cards as torch and nvidia-smi describe them, kernels that are not computed, and planted faults."""

from __future__ import annotations

import json
import os
import sys

from tests.cases_in_one import each
from tests.emulated_cuda.build import HERE, environment, run
from tests.emulated_cuda.profiles import MIB, PROFILES
from trace_tools.machines.peaks import known_machine

SMI = [sys.executable, "-IS", str(HERE / "nvidia_smi.py")]
DESCRIBE = """
import json, torch
print(json.dumps([
    [torch.cuda.get_device_name(i), torch.cuda.get_device_properties(i).total_memory,
     torch.cuda.get_device_capability(i), torch.cuda.mem_get_info(i)[0], str(torch.zeros(2, device=f"cuda:{i}").device)]
    for i in range(torch.cuda.device_count())
]))
try:
    torch.empty(20_000_000_000, dtype=torch.uint8, device="cuda:3")
except torch.OutOfMemoryError as error:
    print(error)
"""
LARGE = """
import json, torch
x = torch.ones(1 << 20, device="cuda")
y = torch.ones(4, device="cuda")
print(json.dumps([x.sum().item() == 1 << 20, (y + 1).tolist(), torch.cuda.memory_allocated() >= 4 << 20]))
"""
FAILING = """
import torch
x = torch.zeros(3, device="cuda")
for call in [lambda: x.add_(1)] * 3 + [torch.cuda.synchronize, lambda: x.add_(1)]:
    try:
        call()
        print("fine")
    except RuntimeError as error:
        print(str(error).splitlines()[0])
"""


def test_torch_describes_each_card_by_its_profile(emulated: None) -> None:
    """An allocation that does not fit fails, and the error has the card's capacity."""
    done = run([sys.executable, "-c", DESCRIBE], environment(",".join(PROFILES)))
    descriptions, error = done.stdout.splitlines()
    for index, (card, description) in enumerate(zip(PROFILES.values(), json.loads(descriptions), strict=True)):
        free = card.memory_bytes - 300 * MIB  # of the context
        assert description == [card.name, card.memory_bytes, list(card.capability), free, f"cuda:{index}"]
    assert "total capacity of 14.56 GiB of which" in error


def test_profiles_are_in_the_table_of_known_machines() -> None:
    unknown = {name for name, card in PROFILES.items() if known_machine(card.name, card.multiprocessors) is None}
    assert unknown == {"emulated"}


@each(
    ("options", "status", "output"),
    [
        (["--query-gpu=name,memory.total,compute_cap"], 0, "Tesla T4, 14913, 7.5\nTesla T4, 14913, 7.5\n"),
        (["--query-gpu=index", "--id=1"], 0, "1\n"),
        (["--query-gpu=index", "--id=7"], 6, "No devices were found\n"),
    ],
)
def test_nvidia_smi_describes_each_card(options: list[str], status: int, output: str) -> None:
    done = run([*SMI, *options, "--format=csv,noheader,nounits"], {**os.environ, "EMULATED_CUDA": "t4,t4"})
    assert (done.returncode, done.stdout) == (status, output)


def test_large_kernels_are_launched_but_not_computed(emulated: None) -> None:
    done = run([sys.executable, "-c", LARGE], environment(computed=MIB))
    assert json.loads(done.stdout) == [False, [2, 2, 2, 2], True], done.stderr


def test_failed_launch_is_reported_late_forever_and_only_in_the_named_process(emulated: None) -> None:
    variables = environment(faults="pass-1/oom:1,assert:3", delay_us=100_000)  # the first launch fills `x`
    message = "CUDA error: device-side assert triggered"
    done = run([sys.executable, "-c", FAILING], variables)
    assert done.stdout.splitlines() == ["fine", "fine", "fine", message, message], done.stderr
