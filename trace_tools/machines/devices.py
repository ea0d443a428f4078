"""Choose the device of a trace: the requested device if it exists and can compute, else a one-line reason.

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
from trace_tools.machines.accelerators import Accelerator
from trace_tools.util import formats

FORMS = "cpu, cuda or cuda:N"
ON_THE_CPU = "trace the CPU: DEVICE=cpu (--device cpu)"
OTHER_BUILD = f"install torch for this driver and GPU (https://pytorch.org/get-started/locally), or {ON_THE_CPU}"
INSTALL = "python -m pip install torch"  # if it can't be imported
LEAST_BYTES = 2**29  # least free memory of a GPU: for products' workspaces and a small lecture's tensors
FILLING_SIDE = 4096  # side of a square product that keeps all of a GPU busy
# Variables that list the GPUs that a process may see: CUDA's; ROCm's, which has precedence there.
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def visible() -> tuple[str | None, ...]:
    """Return the lists of visible GPUs from this process's environment, one for each such variable."""
    return tuple(map(os.environ.get, VISIBLE))


def checked(name: str) -> str:
    """Return a device's name if it has a valid form. Raises UsageError for other names."""
    if re.fullmatch(r"cpu|cuda(:\d{1,4})?", name, re.ASCII) is None:
        raise UsageError(f"device {name!r}; expected {FORMS}")
    return name


def kind(device: str) -> str:
    """Return the type of a device by its name: "cuda" for "cuda:1"."""
    return device.partition(":")[0]


def environment(device: str | None) -> dict[str, str]:
    """Return the environment variables that restrict a process to this device, as the first of its type.

    For "cpu" all GPUs are hidden.
    """
    visible = [name for name in VISIBLE if name in os.environ] or list(VISIBLE[:1])
    if device == "cpu":
        return dict.fromkeys({*visible, VISIBLE[0]}, "")
    index = number(device)
    if index is None:
        return {}
    listed = {name: os.environ[name].split(",") if name in os.environ else None for name in visible}
    return {name: str(index) if names is None else names[index] for name, names in listed.items()}


def chosen(asked: str | None) -> str:
    """Return the type of the requested device, or of the best device for None, and make that card the current one.

    Computes on it for a moment. Raises UsageError if the device does not exist, can't compute or has no memory left,
    and if no device was requested and only torch keeps a GPU from being used.
    """
    if asked is not None and kind(checked(asked)) == "cpu":
        return "cpu"
    wanted_type = accelerators.best() if asked is None else kind(asked)
    gpu = accelerators.accelerator(wanted_type if wanted_type != "cpu" else "cuda")
    assert gpu is not None
    if not gpu.is_available():
        card = host.card() or ("a GPU (nvidia-smi fails)" if host.has_card() else None)
        if card is None or any(os.environ.get(name, "0").strip() in ("", "-1") for name in VISIBLE):
            if asked is None:
                return "cpu"
            hidden = f"{card} is hidden by {VISIBLE[0]}" if card else "no NVIDIA driver found"
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
        free_bytes, total_bytes = memory_info(gpu)
    except (RuntimeError, AssertionError) as error:  # AssertionError if torch can't initialise CUDA
        raise UsageError(_cannot_compute(gpu, error)) from error
    if free_bytes < LEAST_BYTES:
        sizes = f"{_bytes(free_bytes)} of {_bytes(total_bytes)} are free; at least {_bytes(LEAST_BYTES)} are needed"
        raise UsageError(f"{gpu.properties().name} is full: {sizes}; {_free_it()}")
    return gpu.type


def memory_info(gpu: Accelerator) -> tuple[int, int]:
    """Return the bytes of the current device that a process can still allocate, and its total bytes.

    If a GPU shares the computer's memory (GB10, Jetson), CUDA reports only completely unused memory. The system frees
    its file cache for any process that needs memory, so the system's own figure counts there.
    Source: CUDA Driver API, cuMemGetInfo, on integrated GPUs; issue 35313 of vllm-project/vllm, on GB10.
    """
    free_bytes, total_bytes = gpu.memory_info()
    available = host.available_bytes() if gpu.properties().shares_ram else None
    return max(free_bytes, min(available or 0, total_bytes)), total_bytes


def why_no_cuda() -> str:
    """Explain why torch can use no GPU, and name its build."""
    import torch

    build = f"torch {torch.__version__}"
    if torch.version.cuda is None and torch.version.hip is None:
        return f"{build} is built without CUDA"
    cuda, hip = torch.version.cuda, torch.version.hip
    build += f" (built for CUDA {cuda})" if cuda else f" (built for ROCm {hip})"
    try:
        torch.zeros(1, device="cuda")
    except (RuntimeError, AssertionError) as error:
        return f"{build} says {first_sentence(error)!r}"
    return f"{build} finds none"


def _cannot_compute(gpu: Accelerator, error: Exception) -> str:
    """Explain in one line why a card that torch finds can't compute."""
    reason = first_sentence(error)
    if isinstance(error, gpu.torch.OutOfMemoryError) or "out of memory" in reason:
        return f"the GPU is full: {reason!r}; {_free_it()}"
    build = f"torch {gpu.torch.__version__}"
    try:
        properties = gpu.properties()
    except (RuntimeError, AssertionError):  # CUDA was not initialised
        return f"{build} can't use {host.card() or 'the GPU'}: {reason!r}; {OTHER_BUILD}"
    driver = host.gpu_driver() or "unknown"
    capability = f"compute capability {properties.capability}, " if properties.capability else ""
    card = f"{properties.name} ({capability}driver {driver})"
    if "no kernel image" not in reason:
        return f"{build} can't compute on {card}: {reason!r}; {ON_THE_CPU}"
    has = ", ".join(gpu.module.get_arch_list()) or "another"
    return f"{build} has kernels for {has}, but none for {card}; {OTHER_BUILD}"


def _free_it() -> str:
    programs = host.gpu_users()
    used = f" ({programs})" if programs else ""
    return f"stop other programs that use it{used}, choose another with --device cuda:N, or {ON_THE_CPU}"


def number(device: str | None) -> int | None:
    """Return N of "cuda:N"; None without a number."""
    digits = (device or "").partition(":")[2]
    return int(digits) if digits else None


def first_sentence(error: Exception) -> str:
    """Return the first sentence of torch's error message."""
    line = next(iter(str(error).splitlines()), type(error).__name__)
    return formats.one_line(line.partition(". ")[0].rstrip("."), 200)


def _bytes(size: int) -> str:
    return formats.quantity(size, "B", 3)
