"""Read, restore and name the precision of float32 products, whichever interface set it.

Since torch 2.9 two interfaces control the same switches. The older interface is `set_float32_matmul_precision` and
`allow_tf32`; the newer interface is `fp32_precision`, of a backend or an operator of it. Reading the older one raises
if the newer one has chosen a setting that the older one can't express.

    before = read()
    torch.backends.cuda.matmul.fp32_precision = "tf32"  # now torch.get_float32_matmul_precision() raises
    name()                                              # "tf32"
    write(before)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# Objects that have a precision in the newer interface, outer ones first.
SWITCHES = (
    ("generic", "all"),
    *((backend, operator) for backend in ("cuda", "mkldnn") for operator in ("all", "matmul", "conv", "rnn")),
)


def read() -> dict[str, Any]:
    """Return the settings of each interface; None if the older one can't be read."""
    settings: dict[str, Any] = {}
    if hasattr(torch._C, "_get_fp32_precision_getter"):
        for backend, operator in SWITCHES:
            settings[f"{backend} {operator}"] = torch._C._get_fp32_precision_getter(backend, operator)
    older: dict[str, Callable[[], Any]] = {
        "matmul": torch.get_float32_matmul_precision,
        "cuBLAS": lambda: torch.backends.cuda.matmul.allow_tf32,
        "cuDNN": lambda: torch.backends.cudnn.allow_tf32,
    }
    for interface, get in older.items():
        try:
            settings[interface] = get()
        except RuntimeError:
            settings[interface] = None
    return settings


def write(before: dict[str, Any]) -> None:
    """Restore the settings that `read` returned."""
    # The older interface first: it writes the newer one's switches, which the newer one then restores. If the older
    # setting could not be read, try each of its values.
    for precision in (before["matmul"],) if before["matmul"] else ("highest", "high", "medium"):
        if before["cuDNN"] is not None:
            torch.backends.cudnn.allow_tf32 = before["cuDNN"]
        torch.set_float32_matmul_precision(precision)
        for backend, operator in SWITCHES:
            if f"{backend} {operator}" in before:
                torch._C._set_fp32_precision_setter(backend, operator, before[f"{backend} {operator}"])
        if read() == before:
            return


def name() -> str:
    """Name the precision of matrix products: "highest", "high" or "medium", or as the newer interface does."""
    settings = read()
    return str(settings["matmul"] or settings["cuda matmul"])
