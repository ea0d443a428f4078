"""Simulate nvidia-smi for the emulated cards: `--query-gpu`, `--query-compute-apps`, `-L`, as CSV without header."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # this file runs as an isolated script

from profiles import DRIVER, PROFILES, Profile  # type: ignore[import-not-found]

FAILED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
NOT_THERE = "[N/A]"
CONTEXT_MIB = 300  # the same as in memory.h


def uuid(index: int) -> str:
    """Return the identity of the device with this number, as torch reports it, without "GPU-"."""
    return f"00000000-0000-0000-0000-{index:012d}"


def fields(index: int, card: Profile) -> dict[str, str]:
    """Return all known fields of --query-gpu. A MIG slice has no clocks, power or temperature."""
    used = card.others_mib
    sensors = {
        "clocks.sm": "1980",
        "clocks.max.sm": "1980",
        "temperature.gpu": "45",
        "power.draw": "312.05",
        "power.limit": "700.00",
        "clocks_event_reasons.active": "0x0000000000000004",
        "clocks_throttle_reasons.active": "0x0000000000000004",
    }
    return {
        "index": str(index),
        "uuid": f"GPU-{uuid(index)}",
        "name": card.name.split(" MIG ")[0],
        "driver_version": DRIVER,
        "compute_cap": "{}.{}".format(*card.capability),
        "memory.total": str(card.memory_mib),
        "memory.used": str(used),
        "memory.free": str(card.memory_mib - used),
        "mig.mode.current": "Enabled" if card.mig else "Disabled",
        **{name: NOT_THERE if card.mig else text for name, text in sensors.items()},
    }


def answer(arguments: list[str]) -> tuple[int, str]:
    """Return the exit code and the output."""
    cards = [PROFILES[name] for name in os.environ["EMULATED_CUDA"].split(",")]
    chosen = list(enumerate(cards))
    options = dict(argument.partition("=")[::2] for argument in arguments)
    if identity := options.get("--id") or options.get("-i"):
        chosen = [(i, card) for i, card in chosen if identity in (str(i), f"GPU-{uuid(i)}")]
        if not chosen:
            return 6, "No devices were found"
    if "-L" in options:
        return 0, "\n".join(f"GPU {i}: {card.name.split(' MIG ')[0]} (UUID: GPU-{uuid(i)})" for i, card in chosen)
    if "--query-gpu" in options:
        requested = options["--query-gpu"].split(",")
        rows = [fields(i, card) for i, card in chosen]
        if unknown := next((name for name in requested if name not in rows[0]), None):
            return 2, f'Field "{unknown}" is not a valid field to query.'
        return 0, "\n".join(", ".join(row[name] for name in requested) for row in rows)
    if "--query-compute-apps" in options:
        others = [card for _, card in chosen if card.others_mib and not card.mig]
        return 0, "\n".join(f"424242, {card.others_mib}" for card in others)
    return 0, f"NVIDIA-SMI {DRIVER} (emulated)"


def main() -> int:
    """Answer, or fail or hang as EMULATED_CUDA_SMI requests."""
    how = os.environ.get("EMULATED_CUDA_SMI")
    if how == "hang":
        time.sleep(60)
    if how in ("hang", "fail"):
        print(FAILED, file=sys.stderr)
        return 9
    code, text = answer(sys.argv[1:])
    if text:
        print(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
