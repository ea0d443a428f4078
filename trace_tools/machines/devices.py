"""Which device a trace runs on: what was asked for, once it is there and can compute; or one line that says why not.

    checked("cuda:1")      # "cuda:1": "cpu", and the types and numbers of `accelerators` can be asked for
    environment("cuda:1")  # {"CUDA_VISIBLE_DEVICES": "1"}: for processes that are to see this card, and no other
    chosen(None)           # "cuda" where there is a GPU that torch calls so, "cpu" where there is none

A CPU's trace is never made by accident: where a GPU's driver answers and torch can't use it, "cpu" has to be asked for.
"""

from __future__ import annotations

import os
import re

from trace_tools import accelerators, formats
from trace_tools.accelerators import Accelerator
from trace_tools.errors import UsageError
from trace_tools.machines import host, torch_build

FORMS = "cpu, cuda, cuda:N, mps, xpu or xpu:N"
ON_THE_CPU = "trace the CPU: DEVICE=cpu (--device cpu)"
LEAST_BYTES = 2**29  # of a GPU's memory that must be free: for products' workspaces and a small lecture's tensors
# By which a process is told which GPUs it may see: CUDA's, and ROCm's, which has precedence there; Intel's.
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
INTELS = "ZE_AFFINITY_MASK"


def checked(name: str) -> str:
    """Return a device's name, if it has the form of one. Raises UsageError."""
    if re.fullmatch(r"cpu|mps|(cuda|xpu)(:\d{1,4})?", name, re.ASCII) is None:
        raise UsageError(f"device {name!r}; expected {FORMS}")
    return name


def kind(device: str) -> str:
    """Return the type of a device by its name: "cuda" for "cuda:1"."""
    return device.partition(":")[0]


def environment(device: str | None) -> dict[str, str]:
    """Return what a process's environment has to say so that it sees that device only, as the first of its type.

    For "cpu" NVIDIA's and AMD's GPUs are hidden. Nothing hides Intel's and Apple's: `trace_tools.device` knows.
    """
    visible = [name for name in VISIBLE if name in os.environ] or list(VISIBLE[:1])
    if device is not None and kind(device) == "xpu":
        visible = [INTELS]
    if device == "cpu":
        return dict.fromkeys({*visible, VISIBLE[0]}, "")
    number = _number(device)
    if number is None:
        return {}
    seen = {name: os.environ[name].split(",") if name in os.environ else None for name in visible}
    return {name: str(number) if names is None else names[number] for name, names in seen.items()}


def chosen(asked: str | None) -> str:
    """Return the type of what was asked for, None for the best there is; that card is the current one then.

    Computes on it, a moment's work. Raises UsageError where it is not there or can't compute, where its memory is used
    up, and where nothing was asked for and only torch is to blame that there is no GPU.
    """
    if asked is not None and kind(checked(asked)) == "cpu":
        return "cpu"
    wanted = accelerators.best() if asked is None else kind(asked)
    gpu = accelerators.accelerator(wanted if wanted != "cpu" else "cuda")
    assert gpu is not None
    if not gpu.is_available():
        if gpu.type != "cuda":
            raise UsageError(f"device {asked!r}: PyTorch finds no {gpu.type.upper()} device; expected one, or 'cpu'")
        there = _described(host.cards()[:1]) or ("a GPU (nvidia-smi fails)" if host.has_card() else None)
        there = there or ("a GPU of AMD" if host.has_amd_card() else None)
        if there is None or _hidden():
            if asked is None:
                return "cpu"
            hidden = f"{there} is hidden by {VISIBLE[0]}" if there else "no NVIDIA driver answers"
            raise UsageError(
                f"device {asked!r}: PyTorch finds no CUDA device on this machine ({hidden}, {why_no_cuda()}); "
                "expected one, or 'cpu'"
            )
        raise UsageError(f"PyTorch finds no CUDA device, and {there} is there: {why_no_cuda()}; {_remedy()}")
    number, count = _number(asked), gpu.count()
    if number is not None and number >= count:
        names = f"{gpu.type}:0" if count == 1 else f"{gpu.type}:0 to {gpu.type}:{count - 1}"
        raise UsageError(f"device {asked!r}: PyTorch finds {names} on this machine; expected one of these, or 'cpu'")
    try:
        gpu.select(number)
        ones = gpu.torch.ones(8, 8, device=gpu.type)
        (ones @ ones).cpu()
        free_bytes, total_bytes = gpu.memory_info()
    except (RuntimeError, AssertionError) as error:  # the latter where torch can't begin to use CUDA
        raise UsageError(_cannot_compute(gpu, error)) from error
    if free_bytes < LEAST_BYTES:
        sizes = f"{_bytes(free_bytes)} of {_bytes(total_bytes)} are free, and {_bytes(LEAST_BYTES)} is the least"
        raise UsageError(f"{gpu.properties().name} is full: {sizes}; {_free_it()}")
    return gpu.type


def why_no_cuda() -> str:
    """Say what keeps torch from every GPU, and which build it is."""
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


def _remedy(capability: str | None = None) -> str:
    """Say which build of torch uses the cards that are there, and what else can be done.

    A card's compute capability is what torch says it is, if it does, else what nvidia-smi says.
    """
    import torch

    found = host.cards()
    if not found and torch.version.hip is None and host.has_amd_card():
        return f"install PyTorch's build for ROCm (pytorch.org/get-started), or {ON_THE_CPU}"
    if not found:
        return ON_THE_CPU
    capabilities = [capability] if capability else sorted({card.capability for card in found} - {""})
    build = torch_build.build_for(found[0].driver, capabilities)
    if build is None:
        return f"{torch_build.why_none(found[0].driver, capabilities)}, or {ON_THE_CPU}"
    if torch.__version__ == f"{torch_build.RELEASE}+{build.name}":  # that is not what is wrong
        return ON_THE_CPU
    return f"`python -m pip install {build.arguments}` installs a build for it, or {ON_THE_CPU}"


def _cannot_compute(gpu: Accelerator, error: Exception) -> str:
    """Say in one line why a card that torch sees can't compute."""
    said = first_sentence(error)
    if isinstance(error, gpu.torch.OutOfMemoryError) or "out of memory" in said:
        return f"the GPU is full: {said!r}; {_free_it()}"
    build = f"torch {gpu.torch.__version__}"
    try:
        found = gpu.properties()
    except (RuntimeError, AssertionError):  # CUDA didn't even begin
        return f"{build} can't use {_described(host.cards()[:1]) or 'the GPU'}: {said!r}; {_remedy()}"
    driver = found.driver or host.gpu_driver() or "unknown"
    capability = f"compute capability {found.capability}, " if found.capability else ""
    card = f"{found.name} ({capability}driver {driver})"
    if "no kernel image" not in said:
        return f"{build} can't compute on {card}: {said!r}; {ON_THE_CPU}"
    has = ", ".join(gpu.module.get_arch_list()) or "another"
    return f"{build} has kernels for {has}, and none for {card}; {_remedy(found.capability)}"


def _described(found: list[host.Card]) -> str | None:
    """Name a card with its driver; None for none."""
    return f"{found[0].name or 'a GPU'} (driver {found[0].driver})" if found else None


def _free_it() -> str:
    others = host.processes_in_words(*host.gpu_processes())
    used = f"end what else uses it ({others})" if others else "end what else uses it"
    return f"{used}, choose another with --device cuda:N, or {ON_THE_CPU}"


def _hidden() -> bool:
    """Return whether the environment keeps every GPU from this process, which nobody does by accident."""
    return any(os.environ.get(name, "0").strip() in ("", "-1") for name in VISIBLE)


def _number(device: str | None) -> int | None:
    number = (device or "").partition(":")[2]
    return int(number) if number else None


def first_sentence(error: Exception) -> str:
    """Return the first sentence of what torch says."""
    line = next(iter(str(error).splitlines()), type(error).__name__)
    return formats.one_line(line.partition(". ")[0].rstrip("."), 200)


def _bytes(size: int) -> str:
    return formats.quantity(size, "B", 3)
