"""Choose the device of a trace, which is the requested device if it exists and can compute, else a one-line reason.

    checked("cuda:1")      # "cuda:1": valid names are "cpu" and the types and numbers of `accelerators`
    environment("cuda:1")  # {"CUDA_VISIBLE_DEVICES": "1"}: for processes that may only see this card
    chosen(None)           # "cuda" if torch finds a GPU by that name, "cpu" without a GPU

No trace uses the CPU by accident: if a GPU's driver answers and torch can't use the GPU, "cpu" must be requested.
"""

from __future__ import annotations

import os
import re

from trace_tools.errors import UsageError
from trace_tools.machines import accelerators, host
from trace_tools.util import formats

FORMS = "cpu, cuda or cuda:N"
ON_THE_CPU = "trace the CPU: DEVICE=cpu (--device cpu)"
OTHER_BUILD = f"install torch for this driver and GPU (https://pytorch.org/get-started/locally), or {ON_THE_CPU}"
INSTALL = "python -m pip install torch"  # if it can't be imported
VISIBLE = "CUDA_VISIBLE_DEVICES"  # the GPUs that a process may see; ROCm reads it, too


def checked(name: str) -> str:
    """Return a device's name if it has a valid form. Raises UsageError for other names."""
    if re.fullmatch(r"cpu|cuda(:\d{1,4})?", name, re.ASCII) is None:
        raise UsageError(f"device {name!r}; expected {FORMS}")
    return name


def kind(device: str) -> str:
    """Return the type of a device by its name: "cuda" for "cuda:1"."""
    return device.partition(":")[0]


def environment(device: str | None) -> dict[str, str]:
    """Return the environment variable that restricts a process to this device, as the first of its type.

    For "cpu" all GPUs are hidden.
    """
    if device == "cpu":
        return {VISIBLE: ""}
    index = number(device)
    if index is None:
        return {}
    return {VISIBLE: os.environ[VISIBLE].split(",")[index] if VISIBLE in os.environ else str(index)}


def chosen(asked: str | None) -> str:
    """Return the type of the requested device, or of the best device for None, and make that card the current one.

    Computes on it for a moment. Raises UsageError if the device does not exist or can't compute, and if no device was
    requested and only torch keeps a GPU from being used.
    """
    if asked is not None and kind(checked(asked)) == "cpu":
        return "cpu"
    gpu = accelerators.Accelerator()
    if not gpu.is_available():
        card = host.card() or ("a GPU (nvidia-smi fails)" if host.has_card() else None)
        if card is None or os.environ.get(VISIBLE, "0").strip() in ("", "-1"):
            if asked is None:
                return "cpu"
            hidden = f"{card} is hidden by {VISIBLE}" if card else "no NVIDIA driver found"
            raise UsageError(
                f"device {asked!r}: PyTorch finds no CUDA device on this machine ({hidden}, {why_no_cuda()}); "
                "use --device cpu"
            )
        raise UsageError(f"PyTorch finds no CUDA device, but the machine has {card}: {why_no_cuda()}; {OTHER_BUILD}")
    index, count = number(asked), gpu.count()
    if index is not None and index >= count:
        names = f"{gpu.type}:0" if count == 1 else f"{gpu.type}:0 to {gpu.type}:{count - 1}"
        raise UsageError(f"device {asked!r}: PyTorch finds only {names} here; use one of these, or cpu")
    try:
        gpu.select(index)
        ones = gpu.torch.ones(8, 8, device=gpu.type)
        (ones @ ones).cpu()
    except (RuntimeError, AssertionError) as error:  # AssertionError if torch can't initialise CUDA
        found = f"torch {gpu.torch.__version__} can't compute on {host.card() or 'the GPU'}: {first_sentence(error)!r}"
        if isinstance(error, gpu.torch.OutOfMemoryError) or "out of memory" in str(error):
            users = host.gpu_users() or "they are not known"
            raise UsageError(f"{found}; stop other programs that use it ({users}), or {ON_THE_CPU}") from error
        raise UsageError(f"{found}; {OTHER_BUILD}") from error
    return gpu.type


def why_no_cuda() -> str:
    """Name torch's build, and say in torch's words why it can use no GPU."""
    import torch

    try:
        torch.zeros(1, device="cuda")
    except (RuntimeError, AssertionError) as error:
        return f"torch {torch.__version__} says {first_sentence(error)!r}"
    return f"torch {torch.__version__} finds none"


def number(device: str | None) -> int | None:
    """Return N of "cuda:N", if the device has a number."""
    digits = (device or "").partition(":")[2]
    return int(digits) if digits else None


def first_sentence(error: Exception) -> str:
    """Return the first sentence of torch's error message."""
    line = next(iter(str(error).splitlines()), type(error).__name__)
    return formats.one_line(line.partition(". ")[0].rstrip("."), 200)
