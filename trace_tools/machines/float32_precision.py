"""How exactly float32 is computed with: read, put back, and named, whichever interface it was set through.

Since torch 2.9 there are two interfaces to the same switches. The older one (`set_float32_matmul_precision`,
`allow_tf32`) refuses to be read where the newer one (`fp32_precision`, of a backend or of one of its operators) was
used in a way that it has no words for.

    before = read()
    torch.backends.cuda.matmul.fp32_precision = "tf32"  # now torch.get_float32_matmul_precision() raises
    name()                                              # "tf32"
    write(before)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# What the newer interface has a precision for, each with its own: what is above first.
SWITCHES = (
    ("generic", "all"),
    *((backend, operator) for backend in ("cuda", "mkldnn") for operator in ("all", "matmul", "conv", "rnn")),
)


def read() -> dict[str, Any]:
    """Return what each interface says; None where the older one says nothing."""
    said: dict[str, Any] = {}
    if hasattr(torch._C, "_get_fp32_precision_getter"):
        for backend, operator in SWITCHES:
            said[f"{backend} {operator}"] = torch._C._get_fp32_precision_getter(backend, operator)
    older: dict[str, Callable[[], Any]] = {
        "matmul": torch.get_float32_matmul_precision,
        "cuBLAS": lambda: torch.backends.cuda.matmul.allow_tf32,
        "cuDNN": lambda: torch.backends.cudnn.allow_tf32,
    }
    for interface, get in older.items():
        try:
            said[interface] = get()
        except RuntimeError:
            said[interface] = None
    return said


def write(before: dict[str, Any]) -> None:
    """Put back what `read` returned."""
    # The older interface first: it writes the newer one's switches, which the newer one then puts where they were. What
    # the older one has in mind where it refused to be read is found by trying.
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
    said = read()
    return str(said["matmul"] or said["cuda matmul"])
