"""Simulate nvidia-smi for the emulated cards: `--query-gpu`, as CSV without header. No process uses them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # this file runs as an isolated script

from profiles import DRIVER, PROFILES, Profile  # type: ignore[import-not-found]


def fields(index: int, card: Profile) -> dict[str, str]:
    """Return all known fields of --query-gpu."""
    return {
        "index": str(index),
        "uuid": f"GPU-00000000-0000-0000-0000-{index:012d}",  # as torch reports it, without "GPU-"
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
    rows = [fields(index, PROFILES[name]) for index, name in enumerate(os.environ["EMULATED_CUDA"].split(","))]
    options = dict(argument.partition("=")[::2] for argument in arguments)
    if identity := options.get("--id"):
        rows = [row for row in rows if identity in (row["index"], row["uuid"])]
    if not rows:
        return 6, "No devices were found"
    if "--query-gpu" in options:
        return 0, "\n".join(", ".join(row[name] for name in options["--query-gpu"].split(",")) for row in rows)
    return 0, "" if "--query-compute-apps" in options else f"NVIDIA-SMI {DRIVER} (emulated)"


if __name__ == "__main__":
    code, text = answer(sys.argv[1:])
    if text:
        print(text)
    sys.exit(code)
