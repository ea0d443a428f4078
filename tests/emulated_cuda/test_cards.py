"""The cards as torch and nvidia-smi describe them, compared with the profiles and the table of known machines."""

from __future__ import annotations

import json
import os
import sys

from tests.cases_in_one import each
from tests.emulated_cuda.build import HERE, environment, run
from tests.emulated_cuda.profiles import PROFILES
from trace_tools.machines.peaks import known_machine

SMI = [sys.executable, "-IS", str(HERE / "nvidia_smi.py")]
DESCRIBE = """
import json, torch
print(json.dumps([
    [torch.cuda.get_device_name(i), torch.cuda.get_device_properties(i).total_memory,
     torch.cuda.get_device_capability(i), torch.cuda.mem_get_info(i)[0], str(torch.zeros(2, device=f"cuda:{i}").device)]
    for i in range(torch.cuda.device_count())
]))
"""
FULL = """
import torch
x = torch.empty(2_000_000_000, dtype=torch.uint8, device="cuda:%d")
try:
    torch.empty(2_000_000_000, dtype=torch.uint8, device="cuda:%d")
except torch.OutOfMemoryError as error:
    print(error)
"""


def test_torch_describes_each_card_by_its_profile(emulated: None) -> None:
    """An allocation on the card that other processes use fails, and the error has the card's capacity."""
    shared = list(PROFILES).index("shared")
    done = run([sys.executable, "-c", DESCRIBE + FULL % (shared, shared)], environment(",".join(PROFILES)))
    descriptions, error = done.stdout.splitlines()
    for index, (card, description) in enumerate(zip(PROFILES.values(), json.loads(descriptions), strict=True)):
        free = card.memory_bytes - ((card.others_mib + 300) << 20)  # the context takes 300 MiB
        assert description == [card.name, card.memory_bytes, list(card.capability), free, f"cuda:{index}"]
    assert "total capacity of 79.18 GiB of which" in error


def test_profiles_agree_with_the_table_of_known_machines() -> None:
    machines = {name: known_machine(card.name, card.multiprocessors) for name, card in PROFILES.items()}
    assert {name for name, machine in machines.items() if machine is None} == {"emulated", "unlisted"}
    mig, h100 = machines["mig"], machines["h100"]
    assert mig is not None and h100 is not None
    assert mig.flops_per_second["bfloat16"] == h100.flops_per_second["bfloat16"] * 16 / 132
    assert mig.bytes_per_second == h100.bytes_per_second / 8


@each("name", PROFILES)
def test_nvidia_smi_describes_each_card(name: str) -> None:
    card = PROFILES[name]
    query = ["--query-gpu=name,memory.total,compute_cap,clocks.sm", "--format=csv,noheader,nounits"]
    done = run([*SMI, *query], {**os.environ, "EMULATED_CUDA": name})
    clock = "[N/A]" if card.mig else "1980"
    card_name = card.name.removesuffix(f" MIG {card.mig}")
    assert done.stdout.strip() == f"{card_name}, {card.memory_mib}, {card.capability[0]}.{card.capability[1]}, {clock}"


def test_errors_of_nvidia_smi() -> None:
    variables = {**os.environ, "EMULATED_CUDA": "t4,t4"}
    assert run([*SMI, "--query-gpu=colour"], variables).stdout == 'Field "colour" is not a valid field to query.\n'
    assert run([*SMI, "--query-gpu=index", "--id=1"], variables).stdout == "1\n"
    assert run([*SMI, "--query-gpu=index", "--id=7"], variables).returncode == 6
    failed = run(SMI, {**variables, "EMULATED_CUDA_SMI": "fail"})
    assert (failed.returncode, failed.stdout) == (9, "")


def test_nvidia_smi_is_on_the_path_except_for_amd(emulated: None) -> None:
    """It lists another process on the card that other processes use."""
    assert environment("h100")["PATH"].startswith(str(HERE / "bin"))
    assert str(HERE / "bin") not in environment("mi300x")["PATH"]
    assert (
        run(["nvidia-smi", "--query-compute-apps=pid,used_memory"], environment("shared")).stdout == "424242, 78731\n"
    )
