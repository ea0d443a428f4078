"""Simulate nvidia-smi for the emulated cards: `--query-gpu`, as CSV without header. No process uses them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # this file runs as an isolated script

from profiles import DRIVER, PROFILES, Profile  # type: ignore[import-not-found]


def uuid(index: int) -> str:
    """Return the identity of the device with this number, as torch reports it, without "GPU-"."""
    return f"00000000-0000-0000-0000-{index:012d}"


def fields(index: int, card: Profile) -> dict[str, str]:
    """Return all known fields of --query-gpu."""
    return {
        "index": str(index),
        "uuid": f"GPU-{uuid(index)}",
        "name": card.name,
        "driver_version": DRIVER,
        "compute_cap": "{}.{}".format(*card.capability),
        "memory.total": str(card.memory_mib),
        "clocks.sm": "1980",
        "clocks.max.sm": "1980",
        "temperature.gpu": "45",
        "power.draw": "312.05",
        "power.limit": "700.00",
        "clocks_event_reasons.active": "0x0000000000000004",
    }


def answer(arguments: list[str]) -> tuple[int, str]:
    """Return the exit code and the output."""
    chosen = list(enumerate(PROFILES[name] for name in os.environ["EMULATED_CUDA"].split(",")))
    options = dict(argument.partition("=")[::2] for argument in arguments)
    if identity := options.get("--id") or options.get("-i"):
        chosen = [(i, card) for i, card in chosen if identity in (str(i), f"GPU-{uuid(i)}")]
        if not chosen:
            return 6, "No devices were found"
    if "--query-gpu" in options:
        requested = options["--query-gpu"].split(",")
        rows = [fields(i, card) for i, card in chosen]
        if unknown := next((name for name in requested if name not in rows[0]), None):
            return 2, f'Field "{unknown}" is not a valid field to query.'
        return 0, "\n".join(", ".join(row[name] for name in requested) for row in rows)
    return 0, "" if "--query-compute-apps" in options else f"NVIDIA-SMI {DRIVER} (emulated)"


if __name__ == "__main__":
    code, text = answer(sys.argv[1:])
    if text:
        print(text)
    sys.exit(code)
