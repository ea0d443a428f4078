"""PyTorch and resource accounting

An executable lecture: how much memory and how much compute the training of a language model takes. One run is carried
from its bill to its machine; the file that you are reading derives, counts or measures its numbers, or quotes them.

    python lecture.py                         runs it: every claim is an assert
    python -m trace_tools trace lecture.py    runs it and records what every line did

Each function that `main` calls is one section of the lecture; its docstring's first line is its title.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor, nn, optim
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention, silu, softmax
from torch.utils.checkpoint import checkpoint

from trace_tools import (
    ask,
    bytes_alive,
    count,
    decide,
    device,
    draw_batched_matmul,
    draw_bits,
    draw_chain,
    draw_layer,
    draw_road_map,
    draw_roofline,
    draw_storage,
    draw_token_and_weights,
    draw_views,
    explore,
    known_machine,
    known_machines,
    link,
    measure,
    memory_bytes,
    note,
    peak_bandwidth,
    peak_flops,
    plot,
    table,
    text,
)

# The card of the run: an H100 (SXM), by NVIDIA's datasheet.
H100_BF16 = 989.5e12  # FLOP/s, dense; the datasheet prints twice as much, for 2:4 sparsity
H100_FP32 = 67e12  # FLOP/s, without tensor cores
H100_BANDWIDTH = 3.35e12  # bytes/s of its memory
H100_MEMORY = 80e9  # bytes that we plan with; `nvidia-smi` shows 81,559 MiB, which are 85.5e9

# The run: Llama 3 70B, by its paper and its model card.
PARAMETERS, TOKENS, GPUS = 70e9, 15e12, 1024
MFU = 0.4  # planned share of the peak

SECONDS_PER_DAY = 60 * 60 * 24


def main() -> None:
    """PyTorch and resource accounting

    What does it take to train a language model? After this lecture you can say, before anything has run, how many days
    and dollars a model will take, whether it fits into memory, and what the machine will wait for. The program that you
    are reading derives, counts or measures its numbers, or quotes them with their source.

    **You should know** some Python and NumPy, what matrix products, logarithms and probabilities are, and what a
    gradient is for; you have seen a Transformer once. **You need** no GPU and no network: of GPUs, datasheets and
    published measurements are quoted. Sections 3, 4, 9 and 15 are *to read alone*: a talk leaves them out.
    """
    torch.set_float32_matmul_precision("highest")  # fp32 products in fp32, whatever the environment says @hide
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    overview()
    napkin_math()
    numbers_in_memory()
    tensors_from_the_inside()
    names_for_dimensions()
    compute_accounting()
    the_roofline()
    gradients()
    the_model()
    randomness_and_data()
    optimizers()
    training_loop()
    mixed_precision()
    memory_of_a_training_step()
    using_less_memory()
    saving_and_resuming()
    size_the_run()


class Sizes(NamedTuple):
    """How large a thing must be to be measured on this machine; here, for a CPU"""

    streamed_bytes: int = 2**27  # far more than the caches hold
    side: int = 1024  # of a square matrix whose product compute limits by far


@cache
def sizes() -> Sizes:
    """Choose every size that depends on the machine, here and nowhere else"""
    if device() == "cpu":
        return Sizes()
    gigabytes = memory_bytes() / 1e9  # of the card, whatever is in use: the same sizes on every day
    side = 8192 if gigabytes > 30 else 4096 if gigabytes > 5 else 2048
    return Sizes(2**30 if gigabytes > 7 else 2**28, side)


def on_a_gpu(instead: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Decorate a part that needs a GPU; elsewhere a sentence stands in its place"""
    return lambda part: part if device() == "cuda" else lambda: text(instead)


# ---------------------------------------------------------------------------------------------------------------------
# 0 Overview


def overview() -> None:
    """Overview"""
    text(
        "What does it take to train a language model? We follow one run from its bill to its machine: **Llama 3 70B**, "
        "a model of 70 billion numbers, which read 15 trillion tokens on GPUs of type H100. A small run comes first."
    )
    note("Two minutes. Let someone call out a model and a number of GPUs, and read off the bill. Show one value.")
    days_and_dollars()
    the_road()
    six_ideas()
    how_to_read_a_page()  # @deeper
    text("**Three numbers are on trust so far**: the 6, the 0.4, and that the model fits. The lecture derives them.")


def days_and_dollars() -> None:
    """Days and dollars"""
    parameters, tokens, gpus = 8e9, 1e12, 64  # a model of 8 billion parameters reads a trillion tokens
    flops = 6 * parameters * tokens  # why 6? sections 1 and 7 @inspect flops [FLOP]
    speed = gpus * H100_BF16 * MFU  # 0.4 of 989.5 TFLOP/s: why? sections 5 and 6 @inspect speed [FLOP/s]
    days = flops / speed / SECONDS_PER_DAY  # @inspect days [d] @cover
    dollars = days * 24 * gpus * 2.0  # at 2 dollars for an hour of a GPU, assumed @inspect dollars [USD]
    assert (round(days, 1), round(dollars, -3)) == (21.9, 67_000)
    by_function = training_run(parameters, tokens, gpus, H100_BF16, MFU, 2.0)  # @hide @stepover
    assert math.isclose(by_function["dollars"], dollars) and by_function["tokens_per_parameter"] == 125  # @hide
    explore(
        training_run,
        "{days} on {gpus} × {GPU}, and {dollars}: {flops} in {gpu_hours}. {tokens_per_parameter} tokens for each "
        "parameter; about 20 give the lowest loss for a given compute (section 1).",
        title="Days and dollars, for your own model and machine",
        inputs={
            "parameters": (parameters, 1e6, 1e13),
            "tokens": (tokens, 1e8, 1e15),
            "gpus": (gpus, 1, 200_000),
            "mfu": (MFU, 0.05, 1.0),
            "dollars_an_hour": (2.0, 0.1, 20.0),
        },
        menus={"GPU": gpus_of_the_table()},
        names={"gpus": "GPUs", "mfu": "MFU", "gpu_hours": "GPU-hours", "dollars_an_hour": "dollars an hour of a GPU"},
        units={"peak": "FLOP/s", "flops": "FLOP", "days": "days", "gpu_hours": "GPU-hours", "dollars": "dollars"},
        curve=("mfu", "days"),
        across="GPU",
    )  # @stepover @cover
    text(
        "A **token** is a piece of text, often part of a word. **FLOPs** are a *count* of additions and "
        "multiplications, **FLOP/s** a *rate*. **MFU** (model FLOPs utilization) is the share of its peak rate that a "
        "GPU reaches in training. GPUs are paid by the hour: twice the MFU, half the bill."
    )


def training_run(
    parameters: float, tokens: float, gpus: float, peak: float, mfu: float, dollars_an_hour: float
) -> dict[str, float]:
    """The cost of a training run: 6 FLOPs for each parameter and token, at a share of the peak"""
    flops = 6 * parameters * tokens
    days = flops / (gpus * peak * mfu * SECONDS_PER_DAY)
    gpu_hours = days * 24 * gpus
    return {
        "days": days,
        "dollars": gpu_hours * dollars_an_hour,
        "gpu_hours": gpu_hours,
        "flops": flops,
        "tokens_per_parameter": tokens / parameters,
    }


def gpus_of_the_table() -> dict[str, dict[str, float]]:
    """Each GPU whose dense bf16 peak the tools know, an H100 first: FLOP/s, bytes/s, bytes"""
    rows = {
        machine.names[0].removeprefix("NVIDIA "): {
            "peak": machine.flops_per_second["bfloat16"],
            "bandwidth": machine.bytes_per_second,
            "memory": float(machine.memory_bytes),
        }
        for machine in known_machines()
        if "bfloat16" in machine.flops_per_second
    }
    return {"H100 80GB HBM3": rows["H100 80GB HBM3"]} | rows


def the_road() -> None:
    """The road"""
    stops = [
        ("1 bill", "6 and 16"),
        ("2 numbers", "2 bytes"),
        ("5 rate", "0.4 of the peak"),
        ("6 roofline", "295"),
        ("7 gradients", "6 again"),
        ("8 model", "70.55 B"),
        ("10, 11 a step", "states, loop"),
        ("12 few bits", "scales"),
        ("13 memory", "217 GB"),
        ("14 make it fit", "11 GB, 1.1 GB"),
        ("16 the run", "33 GB: it fits"),
    ]  # @hide
    aside = "to read alone: 3 tensors · 4 names for dimensions · 9 randomness and data · 15 saving"  # @hide
    plot(draw_road_map(stops, aside), title="From a bill to a machine, and the number that each section adds")  # @hide


def six_ideas() -> None:
    """Six ideas"""
    text(
        "1. **6 FLOPs** per parameter and token: a token meets a weight three times.\n"
        "2. **16 bytes** per parameter in training, before anything is computed.\n"
        "3. **The roofline**: below 295 FLOPs per byte an H100 waits for its memory.\n"
        "4. **Activations** are the rest of the memory, and the second step is its peak.\n"
        "5. **Few bits** need range and a scale.\n"
        "6. **Sharding** trades memory for traffic, and tokens pay for the traffic."
    )  # @cover


def how_to_read_a_page() -> None:
    """How to read a page"""
    text(
        "This lecture is a program. Each line shows the value that it computed, and ± or [a … b] if runs differed. A "
        "✓ after an `assert` means that the claim held in every run. `f32[2, 3]` is a tensor, PyTorch's array, with "
        "its number format (fp32) and shape; `storage s1` names the memory that it is in. `device()` is the GPU, or "
        "else the CPU. Capitals such as `H100_BF16` are constants at the top of the file."
    )
    symbols = [
        ("$B$", "sequences (pieces of text) in a batch", "$N$", "parameters of a model"),
        ("$S$", "tokens in a sequence", "$L$", "layers"),
        ("$D$", "width: numbers per token (in $6ND$: tokens)", "$K$", "outputs of a layer; heads of keys"),
        ("$H$", "heads of attention", "$V$", "different tokens: the vocabulary"),
        ("$T$", "tokens in a batch, $BS$", "$F$", "hidden width of a feed-forward layer"),
    ]  # @hide
    table(symbols, ["symbol", "meaning", "symbol ", "meaning "])
    text(
        "k, M, G, T, P, E are powers of 1000; Ki, Mi, Gi, Ti are powers of 1024. Many tools count in GiB and print GB."
    )
    weights_gib = 70e9 * 2 / 2**30  # 70 billion parameters of 2 bytes, which are 140 GB @inspect weights_gib [GiB]
    text("You learn *mechanics* (bytes and operations), a *mindset* (count before you run) and *intuition*.")
    link("https://arxiv.org/abs/1706.03762", "Attention Is All You Need", authors="Vaswani et al.", date=2017)
    link("https://jalammar.github.io/illustrated-transformer/", "The Illustrated Transformer", authors="Jay Alammar")


# ---------------------------------------------------------------------------------------------------------------------
# 1 Napkin math


def napkin_math() -> None:
    """Napkin math"""
    text(
        "How long does a model take to train, and how large a model fits into memory? Two numbers answer both: "
        "**6 FLOPs** for each parameter and token, **16 bytes** for each parameter."
    )
    note("Nine minutes. Let the room guess the days before you show them: most guesses are off by a factor of ten.")
    days_of_the_run()
    where_the_six_comes_from()
    sixteen_bytes()
    used_and_held()
    napkin_against_reality()
    best_model_for_the_compute()  # @deeper
    text(
        "**So**: about 180 days, and 1.13 TB before anything is computed; 8 H100s hold 40 billion parameters. *To "
        "remember: 6 FLOPs per parameter and token, 16 bytes per parameter.*"
    )


def days_of_the_run() -> None:
    """How long does a 70B model take to train?"""
    text(
        "The small run of section 0 took 64 GPUs 22 days. Ours: 70 billion parameters (the numbers that training "
        "adjusts), 15 trillion tokens, 1,024 GPUs."
    )
    run = training_run(PARAMETERS, TOKENS, GPUS, H100_BF16, MFU, 2.0)  # @stepover
    ask(
        "How many days does it take?",
        run["days"],
        unit="days",
        within=0.05,
        hint="Only ratios matter: parameters, tokens, GPUs.",
        why="8.75 times the parameters, 15 times the tokens, 16 times the GPUs: 8.75 · 15 / 16 = 8.2 times 22 days.",
        slips={
            run["days"] * 16: "You forgot that the GPUs are 16 times as many.",
            run["days"] / 15: "You forgot that the tokens are 15 times as many.",
            run["days"] / 8.75: "You forgot that the model is 8.75 times as large.",
            run["days"] / 2: "That is the peak for 2:4 sparsity, two zeros in every four. Training has none.",
        },
    )
    days, dollars = run["days"], run["dollars"]  # @inspect days [d], dollars [USD]
    gpu_hours = days * 24 * GPUS  # @inspect gpu_hours
    assert (round(days), round(gpu_hours / 1e6, 2), round(dollars / 1e6, 1)) == (180, 4.42, 8.8)
    text(
        f"About {days:.0f} days, {gpu_hours / 1e6:.1f} million GPU-hours and {dollars / 1e6:.0f} million dollars; a "
        f"third more at an MFU of 0.3, a fifth less at 0.5. Cards of 700 W draw {GPUS * 700 / 1e6:.1f} MW together."
    )


def where_the_six_comes_from() -> None:
    """Where the 6 comes from"""
    text(
        "The *forward pass* computes the loss, the number that training makes small. In it each parameter meets each "
        "token in one multiplication and one addition: 2 FLOPs. The *backward pass* computes how the loss changes with "
        "each parameter (its **gradient**), and with each input, for the layer below: twice 2 FLOPs."
    )
    tokens = 512
    x = torch.randn(tokens, 128, requires_grad=True)  # the inputs; `requires_grad` asks for their gradient (section 7)
    w = torch.randn(128, 256, requires_grad=True)  # the parameters, w.numel() of them
    upstream = torch.randn(tokens, 256)  # pretend that the layer above sent this gradient
    forward = count(lambda: x @ w).flops  # `count` runs a function and counts its FLOPs @inspect forward [FLOP]
    both = count(lambda: (x @ w).backward(upstream)).flops  # forward and backward @inspect both [FLOP]
    assert (forward, both) == (2 * w.numel() * tokens, 6 * w.numel() * tokens)
    plot(draw_token_and_weights(), title="A token meets a weight three times: 2 FLOPs forward, 4 backward")
    total_flops = 6 * PARAMETERS * TOKENS  # of the run: C = 6ND @inspect total_flops [FLOP]
    assert total_flops == 6.3e24
    text(
        "So a run of $N$ parameters and $D$ tokens takes $C = 6ND$ FLOPs. (Attention adds to it: section 8. Above "
        "1e25, European law presumes *systemic risk*: section 5.)"
    )
    link(
        "https://arxiv.org/abs/2001.08361",
        "Scaling Laws for Neural Language Models",
        authors="Kaplan et al.",
        date=2020,
    )


def sixteen_bytes() -> None:
    """What is the largest model that 8 H100s can train?"""
    text(
        "For each parameter, training holds the parameter, its gradient, and the state of the **optimizer**, the rule "
        "that turns gradients into changes. The usual one, AdamW, keeps two running averages (section 10). In fp32 "
        "each number takes 4 bytes."
    )
    ask(
        "How many billions of parameters fit into 8 H100s of 80 GB, if each number is stored once?",
        8 * H100_MEMORY / 16 / 1e9,
        unit="billion parameters",
        why="4 bytes of parameter, 4 of gradient, 8 of states are 16: 640 GB / 16.",
        slips={
            8 * H100_MEMORY / 8 / 1e9: "You forgot the optimizer's states: 8 more bytes.",
            H100_MEMORY / 16 / 1e9: "That is plain data parallelism, in which each card holds everything.",
            8 * H100_MEMORY / 2 / 1e9: "That is inference in bf16, 2 bytes: no gradients, no states.",
            8 * H100_MEMORY / 4 / 1e9: "Those are the parameters alone.",
        },
    )
    model = nn.Linear(1000, 1000, bias=False)  # a million parameters
    optimizer = optim.AdamW(model.parameters())
    model(torch.randn(4, 1000)).sum().backward()
    optimizer.step()
    held = [model.weight, model.weight.grad]
    held += [t for state in optimizer.state.values() for t in state.values() if t.dim()]  # not its step counter
    held_bytes = sum(t.nbytes for t in held)  # @inspect held_bytes [B]
    assert held_bytes == 16 * 1_000_000
    text(
        "Does bf16, a format of 2 bytes (section 2), halve it? Not if small updates are to be kept: then an fp32 "
        "*master copy* of the parameters takes them (section 12). Megatron (NVIDIA's library) also keeps fp32 "
        "gradients; the optimizer Muon has one state instead of two (section 10):"
    )
    parts = ("parameter", "gradient", "master", "states")  # @hide
    plot(
        dict(zip(parts, zip(*RECIPES.values(), strict=True), strict=True)),
        x=list(RECIPES),
        y_label="bytes per parameter",
        style="stacked",
        title="16 bytes a parameter, in bf16 too; 18 if gradients are fp32, 12 with Muon",
    )
    largest = {name: 8 * H100_MEMORY / sum(parts) / 1e9 for name, parts in RECIPES.items()}  # @hide
    assert [small_updates(parts) for parts in RECIPES.values()] == ["kept"] * 4 + ["**lost**"] * 2  # @stepover @hide
    table(
        [(name, *row, sum(row), largest[name], small_updates(row)) for name, row in RECIPES.items()],
        ["recipe", *parts, "bytes", "10⁹ on 8 H100s", "small updates"],
    )
    needed_gb = 16 * 70.55e9 / 1e9  # of Llama 3 70B, to the parameter (section 8) @inspect needed_gb [GB]
    cards = math.ceil(needed_gb * 1e9 / H100_MEMORY)  # before anything is computed @inspect cards
    assert (round(needed_gb), cards) == (1129, 15)
    text(
        'An "80 GB" H100 has 80 GiB of chips; `nvidia-smi` shows 81,559 MiB, which are 85.5 · 10⁹ bytes. We plan with '
        "80 · 10⁹ and call the rest margin."
    )


RECIPES = {  # bytes per parameter: parameter, gradient, master copy, optimizer's states
    "all fp32": (4, 4, 0, 8),
    "bf16, master": (2, 2, 4, 8),
    "Megatron": (2, 4, 4, 8),
    "Muon": (2, 2, 4, 4),
    "no master": (2, 2, 0, 8),
    "all bf16": (2, 2, 0, 4),
}


def small_updates(recipe: tuple[int, ...]) -> str:
    """Whether a weight of 1 changes when 0.001 is added to the copy that the optimizer changes"""
    parameter, _, master, _ = recipe
    changed = torch.ones((), dtype={4: torch.float32, 2: torch.bfloat16}[master or parameter]) + 0.001
    return "kept" if changed > 1 else "**lost**"


def used_and_held() -> None:
    """Parameters that are used, and parameters that are held"""
    text(
        "A **mixture of experts**, such as DeepSeek-V3, holds many feed-forward layers side by side and sends each "
        "token through a few:"
    )
    rows = [
        ("parameters", "70.55 B", "671 B"),
        ("used by a token", "70.55 B", "37 B"),
        ("tokens read", "15 T", "14.8 T"),
        ("GPU-hours reported", "6.4 M (H100)", "2.66 M (H800, the same peak)"),
    ]  # @hide
    table(rows, ["", "Llama 3 70B", "DeepSeek-V3"])
    ask(
        "In training, how do DeepSeek-V3's FLOPs and bytes compare with those of Llama 3 70B?",
        "0.52 times the FLOPs, 9.5 times the bytes",
        choices=[
            "9.5 times the FLOPs, 9.5 times the bytes",
            "0.52 times the FLOPs, 9.5 times the bytes",
            "0.52 times the FLOPs, 0.52 times the bytes",
        ],
        why=(
            "FLOPs go with the parameters that a token uses, bytes with all of them: 10.7 TB, or "
            f"{math.ceil(16 * 671e9 / H100_MEMORY)} H100s."
        ),
        slips={
            "9.5 times the FLOPs, 9.5 times the bytes": "An expert that a token skips does no work for it.",
            "0.52 times the FLOPs, 0.52 times the bytes": "A parameter not used now still has its gradient and state.",
        },
    )
    models = {"Llama 3 70B": (70.55e9, 70.55e9, 15e12), "DeepSeek-V3": (671e9, 37e9, 14.8e12)}  # held, used, tokens
    flops = [6 * used * tokens for _, used, tokens in models.values()]  # @inspect flops
    held_bytes = [16 * held for held, _, _ in models.values()]  # @inspect held_bytes
    assert (round(flops[1] / flops[0], 2), round(held_bytes[1] / held_bytes[0], 1)) == (0.52, 9.5)
    link("https://arxiv.org/abs/2412.19437", "DeepSeek-V3 Technical Report", authors="DeepSeek-AI", date=2024)


def napkin_against_reality() -> None:
    """The napkin against the real run"""
    available_flops = 6.4e6 * 3600 * H100_BF16  # at the peak, in all GPU-hours of its model card
    implied_mfu = 6 * 70.55e9 * TOKENS / available_flops  # @inspect implied_mfu
    attention = 12 * 80 * 8192 * 8192  # · layers, width, tokens: left out of 6ND (section 8)
    multiplied = 6 * (70.55e9 - 128_256 * 8192)  # without the embedding (vocabulary · width), a look-up
    with_attention = (multiplied + attention) * TOKENS / available_flops  # @inspect with_attention
    assert (round(implied_mfu, 2), round(with_attention, 4)) == (0.28, 0.3168)
    text(
        f"Meta's card states 6.4 million GPU-hours, {6.4 / 4.42:.1f} times ours: an MFU of {implied_mfu:.2f}, or "
        f"{with_attention:.2f} with attention's FLOPs (0.30 if the masked half is skipped). The card does not "
        "explain the rest. *The napkin is good enough to decide, not to promise a date.*"
    )
    link(
        "https://huggingface.co/meta-llama/Meta-Llama-3-70B", "Meta Llama 3 70B, model card", authors="Meta", date=2024
    )


def best_model_for_the_compute() -> None:
    """The best model for the compute"""
    text(
        "Compute can buy parameters or tokens. About 20 tokens per parameter give the lowest loss (*Chinchilla*). Then "
        "$C = 6N \\cdot 20N = 120N^2$. For 8 H100s and two weeks:"
    )
    compute = 8 * 14 * SECONDS_PER_DAY * H100_BF16 * MFU  # @inspect compute [FLOP]
    parameters = math.sqrt(compute / 120)  # @inspect parameters
    tokens = 20 * parameters  # @inspect tokens
    assert math.isclose(6 * parameters * tokens, compute) and round(parameters / 1e9, 1) == 5.6
    text(
        "A model for many users is smaller and trained for longer, because every use costs in proportion to its "
        f"parameters: Llama 3 70B read {TOKENS / PARAMETERS:.0f} tokens per parameter."
    )
    link(
        "https://arxiv.org/abs/2203.15556", "Training Compute-Optimal Large Language Models", authors="Hoffmann et al."
    )


# ---------------------------------------------------------------------------------------------------------------------
# 2 Numbers in memory


def numbers_in_memory() -> None:
    """Numbers in memory"""
    text(
        "How many bytes does a number take, and which properties does a short one lose? Most of the run's bytes are "
        "numbers of 2 and of 4 bytes."
    )
    note("Four minutes. Range against precision is the point; the formats can be read at home.")
    bytes_of_a_tensor()
    range_and_digits()
    which_is_lost()
    creating_tensors()  # @deeper
    all_formats()  # @deeper
    a_hundredth_by_hand()  # @deeper
    where_tensors_live()  # @deeper
    text(
        "**So**: 2 bytes for factors of products, 4 bytes for sums of small steps. *To remember: bf16 has fp32's "
        "range and a step of 2⁻⁷ above 1.*"
    )


def bytes_of_a_tensor() -> None:
    """Bytes = elements × bytes per element"""
    text("A **tensor** is an array of numbers of one format. The largest matrix in a layer of Llama 3 70B, in bf16:")
    layer = torch.empty(8192, 28672, dtype=torch.bfloat16, device="meta")  # a shape, no memory @inspect layer.nbytes
    read_s = layer.nbytes / H100_BANDWIDTH  # at 3.35 TB/s @inspect read_s [s]
    assert layer.nbytes == layer.numel() * layer.element_size() == 448 * 2**20
    text(f"448 MiB, or {layer.nbytes / 1e6:.0f} MB, which an H100 reads in {read_s * 1e6:.0f} µs.")


class FloatFormat(NamedTuple):
    """One sign bit, then these; the topmost `reserved_codes` patterns are infinities and NaNs"""

    exponent_bits: int
    mantissa_bits: int
    reserved_codes: int


FORMATS = {
    "fp64": FloatFormat(11, 52, 2**52),
    "fp32": FloatFormat(8, 23, 2**23),
    "tf32": FloatFormat(8, 10, 2**10),
    "fp16": FloatFormat(5, 10, 2**10),
    "bf16": FloatFormat(8, 7, 2**7),
    "fp8 E4M3": FloatFormat(4, 3, 1),
    "fp8 E5M2": FloatFormat(5, 2, 2**2),
    "fp4 E2M1": FloatFormat(2, 1, 0),
}


def decode(code: int, form: FloatFormat) -> float:
    """The value of the pattern `code` (without its sign bit)"""
    exponent, mantissa = divmod(code, 2**form.mantissa_bits)
    fraction = mantissa / 2**form.mantissa_bits
    bias = 2 ** (form.exponent_bits - 1) - 1
    if exponent == 0:
        return fraction * 2.0 ** (1 - bias)
    return (1 + fraction) * 2.0 ** (exponent - bias)


def encode(value: float, form: FloatFormat) -> int:
    """The pattern whose value is nearest to a positive `value`, by rounding in units of the last place"""
    bias = 2 ** (form.exponent_bits - 1) - 1
    exponent = max(math.floor(math.log2(value)), 1 - bias)
    units = round(value * 2.0 ** (form.mantissa_bits - exponent))  # ties go to the even pattern
    return (exponent + bias - 1) * 2**form.mantissa_bits + units  # the hidden 1 carries into the exponent


def limits(form: FloatFormat) -> dict[str, float]:
    """The range and precision of a format, from four of its patterns"""
    patterns = 2 ** (form.exponent_bits + form.mantissa_bits)
    one = (2 ** (form.exponent_bits - 1) - 1) * 2**form.mantissa_bits
    return {
        "largest": decode(patterns - form.reserved_codes - 1, form),
        "smallest normal": decode(2**form.mantissa_bits, form),
        "smallest above 0": decode(1, form),
        "eps": decode(one + 1, form) - decode(one, form),  # the gap above 1
    }


def bits_of(value: float, form: FloatFormat) -> tuple[str, str, str]:
    """Sign, exponent and mantissa of a positive value, in binary"""
    k, m, _ = form
    pattern = f"{encode(value, form):0{k + m}b}"
    return "0", pattern[:k], pattern[k:]


def range_and_digits() -> None:
    """Exponent bits are range, mantissa bits are digits"""
    text(
        "A floating-point number has a sign bit, bits of **exponent** (how large) and bits of **mantissa** (its "
        "digits). The exponent buys **range**, the mantissa **precision**; *eps* is the step from 1 to the next number."
    )
    five = ("fp32", "bf16", "fp16", "fp8 E4M3", "fp4 E2M1")  # @hide
    bits = {name: bits_of(0.01, FORMATS[name]) for name in five}  # @stepover @hide
    plot(draw_bits(bits), title="0.01 in five formats: bf16 has the exponent of fp32, and fewer digits than fp16")
    rows = []  # @hide
    for name in five:  # @hide
        largest, _, smallest, eps = limits(FORMATS[name]).values()  # @stepover
        rows.append((name, (1 + sum(FORMATS[name][:2])) / 8, largest, smallest, eps))
    assert [row[1] for row in rows] == [4, 2, 2, 1, 0.5]  # @hide
    table(rows, ["format", "bytes", "largest", "smallest above 0", "eps"])
    text(
        "bf16 is the first half of fp32. Numbers in fp8 and fp4 need a scale that a group of them shares (section 12)."
    )


def which_is_lost() -> None:
    """Gradients need range, updates need digits"""
    ask(
        "A gradient of 1e-8; an update of +0.001 to a weight of 1. Which is lost in fp16, and which in bf16?",
        "fp16 loses the gradient, bf16 the update",
        choices=[
            "fp16 loses the update, bf16 the gradient",
            "both formats lose both",
            "fp16 loses the gradient, bf16 the update",
            "neither format loses either",
        ],
        why="fp16's smallest number is 6e-8; bf16's step above 1 is 0.0078, and 0.001 is less than half of it.",
        slips={
            "fp16 loses the update, bf16 the gradient": "fp16 has more digits, bf16 more exponent.",
            "both formats lose both": "bf16 has the exponent of fp32: 1e-8 is no problem.",
            "neither format loses either": "Printed with four digits they look alike. Look at the table.",
        },
    )
    gradient, updated = torch.tensor(1e-8), torch.tensor(1.001)
    small = gradient.half().item(), gradient.bfloat16().item()  # fp16, bf16 @inspect small
    weights = updated.half().item(), updated.bfloat16().item()  # fp16, bf16 @inspect weights
    assert small[0] == 0 < small[1] and weights[1] == 1 < weights[0]


def creating_tensors() -> None:
    """Creating tensors"""
    literal = torch.tensor([[1.0, 2, 3], [4, 5, 6]])  # @inspect literal
    zeros, normal = torch.zeros(2, 4), torch.randn(2, 4)  # also: torch.ones @inspect zeros normal
    unset = torch.empty(100, 100)  # whatever the memory held before @inspect unset.shape
    nn.init.trunc_normal_(unset, std=0.5, a=-1, b=1)  # fills it: normal, and drawn again beyond ±1
    assert unset.abs().max() <= 1 and 0.42 < unset.std() < 0.46  # less than 0.5: the largest are missing
    text(
        "`dtype=` chooses the format (`torch.float32`, `torch.bfloat16`, …) and `device=` the memory: `cpu`, `cuda` "
        "(an NVIDIA GPU's), or `meta` (shapes without numbers). The number of dimensions is the **rank**, 3 between "
        "the layers of a Transformer and 4 inside attention:"
    )
    activations = torch.zeros(2, 8, 64, dtype=torch.bfloat16)  # (B, S, D) @inspect activations.dim()
    per_head = torch.zeros(2, 8, 4, 16, dtype=torch.bfloat16)  # (B, S, H, D/H) @inspect per_head.dim()


def all_formats() -> None:
    """All formats, by their bits"""
    text(
        r"With $k$ bits of exponent and $m$ of mantissa, read as whole numbers $e$ and $f$, and the **bias** $b = "
        r"2^{k-1} - 1$, which makes negative exponents possible,"
        "\n\n"
        r"$$ \text{value} = \begin{cases} (1 + f/2^m) \cdot 2^{e - b} & e > 0 \text{, normal} \\ (0 + f/2^m) \cdot "
        r"2^{1 - b} & e = 0 \text{, subnormal.} \end{cases} $$"
        "\n\n"
        "Most formats reserve the topmost exponent for infinity and NaN (*not a number*). tf32, with fp32's range and "
        "fp16's precision, exists only inside tensor cores."
    )
    rows = [
        (name, f"1 + {form[0]} + {form[1]}", *limits(form).values()) for name, form in FORMATS.items()
    ]  # @stepover @hide
    table(rows, ["format", "sign + exponent + mantissa", *limits(FORMATS["fp16"])])
    text(
        "torch agrees wherever it has the format. (`torch.finfo` knows no smallest subnormal; bit pattern 1 shows it.)"
    )
    dtypes = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    dtypes |= {"fp8 E4M3": torch.float8_e4m3fn, "fp8 E5M2": torch.float8_e5m2}
    integers = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
    for name, dtype in dtypes.items():
        smallest = torch.tensor([1], dtype=integers[dtype.itemsize]).view(dtype).double().item()
        known = torch.finfo(dtype)
        assert [*limits(FORMATS[name]).values()] == [known.max, known.smallest_normal, smallest, known.eps]
    stored = [torch.tensor(0.01, dtype=dtype).view(torch.int16).item() for dtype in (torch.bfloat16, torch.float16)]
    assert stored == [encode(0.01, FORMATS[name]) for name in ("bf16", "fp16")]  # torch's bits @stepover
    link("https://arxiv.org/abs/2209.05433", "FP8 Formats for Deep Learning", authors="Micikevicius et al.", date=2022)


def a_hundredth_by_hand() -> None:
    """0.01 in fp16, by hand"""
    text("Double 0.01 until it is between 1 and 2. Each doubling takes one from the exponent.")
    significand, exponent = 0.01, 0
    while significand < 1:
        significand, exponent = 2 * significand, exponent - 1  # @inspect significand exponent
    exponent_field = exponent + 15  # the bias of fp16 @inspect exponent_field
    text("The leading 1 is not stored. Double the rest, 0.28, ten times: whatever passes 1 is a mantissa bit.")
    digits, rest = "", significand - 1
    for _ in range(10):
        bit, rest = divmod(2 * rest, 1)
        digits += str(int(bit))  # @inspect digits rest
    mantissa = int(digits, 2) + round(rest)  # the rest rounds up @inspect mantissa
    stored = torch.tensor(0.01, dtype=torch.float16)  # @inspect stored
    assert hex(stored.view(torch.int16).item()) == hex(exponent_field << 10 | mantissa) == "0x211f"
    assert stored.item() == (1 + 287 / 1024) * 2**-7 == 0.01000213623046875


def where_tensors_live() -> None:
    """Where tensors live"""
    text(
        "A GPU computes in **multiprocessors** (132 in an H100), each with ordinary cores and **tensor cores**, which "
        "multiply small matrices. The program for one operation is a **kernel**. It reads the GPU's memory (HBM) "
        "through a small fast cache (L2). The link to the CPU's memory is slower still. For an H100:"
    )
    over_pcie = 128e9 / 2  # bytes/s: PCIe 5, in one direction
    ways = [("its own memory, HBM", H100_BANDWIDTH), ("the link to the CPU, PCIe 5", over_pcie)]  # @hide
    table([(name, rate / 1e9, H100_MEMORY / rate) for name, rate in ways], ["from", "GB/s", "80 GB take, s"])
    x = torch.zeros(32, 32)  # in the CPU's memory
    moved = x.to(device())  # a copy in another memory, or `x` itself @inspect moved.device
    assert round(H100_BANDWIDTH / over_pcie) == 52 and x.to("cpu") is x
    allocated_bytes()
    link(
        "https://developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth/",
        "NVIDIA Hopper Architecture In-Depth",
        authors="NVIDIA",
        date=2022,
    )


@on_a_gpu(
    "On a GPU, `torch.cuda.memory_allocated()` counts these bytes, in multiples of 512, as "
    "[PyTorch describes](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management)."
)
def allocated_bytes() -> None:
    """What the GPU's allocator says"""
    before = torch.cuda.memory_allocated()  # @inspect before [B]
    a = torch.ones(32, 32, device="cuda")
    b = torch.ones(32, 32, device="cuda")
    after = torch.cuda.memory_allocated()  # @inspect after [B]
    assert after - before == a.nbytes + b.nbytes == 8192  # exact: each is a multiple of 512 bytes, the allocator's unit
    torch.cuda.reset_peak_memory_stats()
    product = a @ b
    kept_bytes = torch.cuda.memory_allocated() - after - product.nbytes  # a workspace @inspect kept_bytes [B]
    text(
        f"The product allocated its result and {kept_bytes:,} bytes more. (The first matmul of a process also makes a "
        "workspace for the library of matrix products, so run once before you measure.)"
    )


# ---------------------------------------------------------------------------------------------------------------------
# 3 Tensors from the inside (to read alone)


def tensors_from_the_inside() -> None:
    """Tensors from the inside"""
    text("*To read alone.* Which operations copy, and which only see the same bytes in another way?")
    storage_and_strides()
    views()
    contiguity()
    matrix_multiplication()
    what_copies()
    link("https://blog.ezyang.com/2019/05/pytorch-internals/", "PyTorch internals", authors="Edward Z. Yang", date=2019)
    text(
        "**So**: slices, `view` and `transpose` move no byte; arithmetic, indexing by tensors and `clone` copy. *To "
        "remember: 0 bytes moved, or 4.5 GiB, for one matrix of GPT-3.*"
    )


def storage_and_strides() -> None:
    """Storage and strides"""
    text(
        "A tensor's numbers are in a one-dimensional block of memory, its **storage**. The tensor adds an *offset* "
        "into the storage, and for each dimension a size and a **stride**, the number of elements from one index to "
        "the next."
    )
    x = torch.arange(16.0).view(4, 4)  # 0 to 15, as 4 rows of 4 @inspect x x.stride() x.storage_offset()
    text("A step down is 4 elements, a step to the right is 1: *row-major* order.")
    row, column = 1, 2
    address = x.storage_offset() + row * x.stride(0) + column * x.stride(1)
    ask(
        "At which address of the storage, counted from 0, is `x[1, 2]`?",
        address,
        within=0,
        why="The offset, plus each index times its stride: 0 + 1 · 4 + 2 · 1.",
        slips={
            9: "That is column by column. The first stride is the row's.",
            3: "You added the indices. Each is multiplied by its stride.",
        },
    )
    assert x.as_strided((16,), (1,))[address] == x[1, 2] == 6  # the storage as a line: 16 numbers, 1 apart
    plot(draw_storage(x, (row, column)), title="The way to x[1, 2]: first along the rows, then along the columns")


def shares_storage(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors are views of the same storage"""
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def views() -> None:
    """Views share storage"""
    x = torch.arange(6.0).view(2, 3)  # @inspect x
    row, column = x[0], x[:, 1]  # @inspect column column.stride() column.storage_offset()
    reshaped = x.view(3, 2)  # @inspect reshaped reshaped.stride()
    transposed = x.transpose(0, 1)  # or x.t() @inspect transposed transposed.stride()
    windows = {"x[0]": row, "x[:, 1]": column, "x.view(3, 2)": reshaped, "x.t()": transposed}
    assert all(shares_storage(x, window) for window in windows.values())  # @stepover
    text("The transpose only swaps the strides. All of these are *views* of the same six elements, in one storage:")
    title = "The elements that each view covers, numbered as it reads them: x.t() jumps"  # @hide
    plot(draw_views({"x": x} | windows), title=title)
    text("An operation with a `_` at its end works *in place*, and every view shows the change:")
    row.mul_(100)  # @inspect row x
    assert x.tolist() == [[0, 100, 200], [3, 4, 5]] and transposed[2, 0] == 200


def contiguity() -> None:
    """Contiguity"""
    text(
        "A tensor is **contiguous** if reading it row by row follows its storage. `contiguous()` copies unless it is "
        "so already, `clone()` always. `reshape` is `view` where a view is possible, and otherwise a copy that is "
        "easily missed."
    )
    x = torch.arange(6.0).view(2, 3)
    transposed = x.t()  # (3, 2) @inspect transposed
    ask(
        "Which of these fails for the transpose?",
        "`.view(6)`",
        choices=["`.reshape(6)`", "`.contiguous()`", "`.view(6)`", "`.clone()`"],
        why="A view of one dimension has one stride, and the transpose's elements are not equally spaced.",
        slips={
            "`.reshape(6)`": "It copies where it can't make a view.",
            "`.contiguous()`": "It copies into row-major order.",
            "`.clone()`": "It copies, and keeps the order of the strides.",
        },
    )
    strides = []  # of the results
    for call in (lambda: transposed.reshape(6), transposed.contiguous, lambda: transposed.view(6), transposed.clone):
        try:
            strides.append(call().stride())  # @stepover
        except RuntimeError:
            strides.append("fails")
    assert [result == "fails" for result in strides] == [False, False, True, False]  # @inspect strides
    moved = [count(x.t).bytes_moved, count(transposed.contiguous).bytes_moved]  # counted @inspect moved [B]
    matrix = torch.empty(4 * 12288, 12288, device="meta")  # the largest in a layer of GPT-3, 12,288 wide, in fp32
    moved_gib = 2 * matrix.nbytes / 2**30  # to make its transpose contiguous @inspect moved_gib [GiB]
    assert moved == [0, 2 * x.nbytes] and moved_gib == 4.5  # a copy reads and writes each number


def matrix_multiplication() -> None:
    """Matrix multiplication"""
    text(
        "`@` multiplies the last two dimensions and repeats that over the leading ones: here a batch of $B$ sequences "
        "of $S$ tokens, each of width $D$, by one matrix."
    )
    batch, sequence, width, outputs = 2, 3, 4, 2
    x = torch.arange(24.0).view(batch, sequence, width)  # whole numbers: sums are exact
    w = torch.arange(8.0).view(width, outputs)
    y = x @ w  # (B, S, K) @inspect y.shape
    title = "batch × sequence × width, by width × outputs: one matrix serves all tokens"  # @hide
    plot(draw_batched_matmul(x.shape, w.shape), title=title)
    assert torch.equal(y, (x.view(6, 4) @ w).view(2, 3, 2))  # views: batch and sequence as one dimension


def what_copies() -> None:
    """What copies"""
    text("A mask or an index tensor may select any elements, which no stride describes, so indexing by them copies:")
    x = torch.arange(6.0).view(2, 3)
    same = x[0:1], x.t(), x.float()  # a slice, the transpose, the format that x already has
    copies = x + 0, x.clone(), x[torch.tensor([0])], x[x >= 0], x.bfloat16()  # the fourth by a mask
    assert all(shares_storage(x, y) for y in same) and not any(shares_storage(x, y) for y in copies)  # @stepover


# ---------------------------------------------------------------------------------------------------------------------
# 4 Names for dimensions (to read alone)


def names_for_dimensions() -> None:
    """Names for dimensions"""
    text(
        "*To read alone.* Which dimension is `-2`? Code that names its dimensions can't get it "
        "wrong, and its cost can be read off the names."
    )
    which_one_was_minus_two()
    dimensions_by_name()
    what_heads_cost()
    causal_mask()  # @deeper
    text(
        "**So**: `-2` can silently become another dimension, a name can't. *To remember: attention's products take "
        "$8BSD^2 + 4BS^2D$ FLOPs.*"
    )


def which_one_was_minus_two() -> None:
    """Which one was -2?"""
    text(
        "In **attention**, tokens look at each other. Each token has three vectors, a *query*, a *key* and a *value*. "
        r"The products of its query with all keys are its **scores**; $\text{softmax}(s)_i = e^{s_i} / \sum_j e^{s_j}$ "
        "turns them into weights that sum to 1, and the result is the sum of the values with these weights. **Heads** "
        "do this side by side, each on a part of the width."
    )
    x = torch.randn(2, 4, 8)  # (batch, sequence, width)
    scores = x @ x.transpose(-2, -1)  # x as queries and as keys: (batch, sequence, sequence) @inspect scores.shape
    split = x.view(2, 4, 4, 2)  # the same, for 4 heads: (batch, sequence, heads, part)
    ask(
        "What does `split @ split.transpose(-2, -1)` multiply?",
        "the heads of each token with each other",
        choices=[
            "the tokens of each head with each other",
            "the heads of each token with each other",
            "it raises an error",
        ],
        why=(
            "The last two dimensions are now heads and part. Here, with as many heads as tokens, even a test of shapes "
            "passes."
        ),
        slips={
            "the tokens of each head with each other": "That was the intention. But -2 is now the heads.",
            "it raises an error": "Never, whatever the sizes: a matrix always fits its own transpose.",
        },
    )
    product = split @ split.transpose(-2, -1)  # @inspect product.shape
    by_head = split.transpose(1, 2)  # (batch, heads, sequence, part)
    another = by_head @ by_head.transpose(-2, -1)  # @inspect another.shape
    assert product.shape == another.shape and not torch.allclose(product, another)


def dimensions_by_name() -> None:
    """Dimensions by name"""
    text(
        "**einops** (`from einops import einsum, rearrange`) takes the names of dimensions in a string. In `einsum`, a "
        "name that is on the left only is summed over:"
    )
    x = torch.arange(64.0).view(2, 4, 8)  # whole numbers: sums are exact
    split = rearrange(x, "batch sequence (heads part) -> batch sequence heads part", heads=4)  # @inspect split.shape
    pattern = "batch query heads part, batch key heads part -> batch heads query key"  # query, key: tokens
    scores = einsum(split, split, pattern)  # @inspect scores.shape
    assert torch.equal(scores, split.transpose(1, 2) @ split.transpose(1, 2).transpose(-2, -1))
    merged = rearrange(split, "... heads part -> ... (heads part)")  # `...` is any other dimensions
    assert torch.equal(merged, x) and shares_storage(x, split)  # @stepover
    text("A pattern also states its cost, 2 FLOPs for each combination of all its names:")
    flops = count(lambda: einsum(split, split, pattern)).flops  # @inspect flops [FLOP]
    assert flops == 2 * (2 * 4 * 4 * 4 * 2)  # batch, query, key, heads, part
    text("jaxtyping makes such names a type; `isinstance` checks their number, and that a name has one size:")
    assert isinstance(x, Float[Tensor, "batch sequence width"]) and not isinstance(x, Float[Tensor, "n n n"])


def attention(x: Tensor, weights: Tensor, heads: int) -> Tensor:
    """Attention without a mask; `x` is (batch, sequence, width), the four weights are (width, width)"""
    query, key, value = (rearrange(x @ w, "... (heads part) -> ... heads part", heads=heads) for w in weights[:3])
    scores = einsum(query, key, "batch query heads part, batch key heads part -> batch heads query key")
    shares = softmax(scores / math.sqrt(query.shape[-1]), dim=-1)  # scores stay near 1, whatever the width
    mixed = einsum(shares, value, "batch heads query key, batch key heads part -> batch query heads part")
    return rearrange(mixed, "... heads part -> ... (heads part)") @ weights[3]


def what_heads_cost() -> None:
    """What heads cost"""
    batch, sequence, width = 1, 32, 64
    x, weights = torch.randn(batch, sequence, width), torch.randn(4, width, width) / math.sqrt(width)
    out = attention(x, weights, heads=4)  # weights for queries, keys, values and the result @inspect out.shape
    split = (rearrange(x @ w, "b s (heads part) -> b heads s part", heads=4) for w in weights[:3])  # @hide
    by_torch = rearrange(scaled_dot_product_attention(*split), "b heads s part -> b s (heads part)")  # @hide
    assert torch.allclose(out, by_torch @ weights[3], atol=1e-5)  # @hide
    ask(
        "With 16 heads instead of 1, how do the FLOPs of attention's products change?",
        "not at all",
        choices=["not at all", "a quarter", "sixteen times"],
        why=(
            "The four matrices are full, $2BSD^2$ FLOPs for each. In the two products without weights, $2BS^2D$ each, "
            "sixteen times as many scores are sums of a sixteenth of the terms."
        ),
        slips={
            "a quarter": "That would be so if each head had only its own block of the four matrices. They are full.",
            "sixteen times": "The heads share the width: each has a sixteenth of it.",
        },
    )
    flops = []
    for heads in (1, 4, 16):
        counted = count(lambda heads=heads: attention(x, weights, heads)).flops_by_operator  # @stepover
        flops.append(sum(n for name, n in counted.items() if "mm" in name))  # no softmax @inspect flops
    assert set(flops) == {4 * 2 * batch * sequence * width**2 + 2 * 2 * batch * sequence**2 * width}


def causal_mask() -> None:
    """The causal mask"""
    text(
        "Scores are laid out (query, key). In a language model attention is **causal**: a token may look at itself and "
        "at earlier tokens, so the allowed part is the *lower* triangle, `tril()`."
    )
    lower, scores = torch.ones(4, 4).tril(), torch.randn(4, 4)  # (query, key) @inspect lower
    weights = softmax(scores.masked_fill(lower == 0, -math.inf), dim=-1)  # softmax turns −∞ into 0 @inspect weights
    assert weights[0].tolist() == [1, 0, 0, 0]  # the first token sees only itself
    text("A test of a mask: change the future, and the past stays the same to the bit.")
    values = torch.randn(4, 8)  # (key, width)
    changed = values.clone()
    changed[3] = 1000.0  # another last token
    assert torch.equal((weights @ values)[:3], (weights @ changed)[:3])


# ---------------------------------------------------------------------------------------------------------------------
# 5 Compute accounting


def compute_accounting() -> None:
    """Compute accounting"""
    text("How many FLOPs does a layer take, and how fast does a GPU do them?")
    note("Six minutes. Multiply one row by one column on the board. Then read one row of the table of peaks.")
    one_product()
    a_time_is_a_median()
    what_a_large_product_reaches()
    which_peak()
    find_the_error()  # @deeper
    what_the_law_counts()  # @deeper
    queued_and_done()  # @deeper
    text(
        "**So**: a product of $(B, D)$ and $(D, K)$ takes $2BDK$ FLOPs; the best large product reaches 0.81 of an "
        "H100's peak, a whole run about 0.4. Why not 1? *To remember: say which peak.*"
    )


def one_product() -> None:
    """A product takes 2BDK FLOPs"""
    text(
        "Each of the $BK$ results of a product (*matmul*) is $D$ multiplications and $D$ additions; the first is added "
        "to 0. For 4,096 tokens of width 512 and 128 outputs:"
    )
    x, w = torch.empty(4096, 512, device="meta"), torch.empty(512, 128, device="meta")  # (B, D), (D, K)
    flops = count(lambda: x @ w).flops  # @inspect flops [FLOP]
    assert flops == 2 * 4096 * 512 * 128


def wait_for_the_device() -> None:
    """Wait until the device has done all it was told"""
    if device() == "cuda":
        torch.cuda.synchronize()


def median_seconds(f: Callable[[], Any], calls: int = 9) -> float:
    """The median time of a call"""
    times = []
    for _ in range(calls):
        wait_for_the_device()  # else it is only queued when the clock is read
        start = time.perf_counter()
        f()
        wait_for_the_device()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def a_time_is_a_median() -> None:
    """A time is a median of many"""
    text(
        "**Warm up**: the first call chooses algorithms and allocates. **Wait**: a GPU's call returns when its work is "
        "queued, so an 8192³ product seems to take some µs instead of 1.4 ms. **Repeat**, and report the median and "
        "the spread, as `median_seconds` and `measure` do."
    )
    large = math.isqrt(sizes().streamed_bytes // 4)  # past every cache @inspect large @stepover
    n = sizes().side  # @inspect n @stepover
    x, v = torch.rand(large, large, device=device()), torch.rand(large, device=device())
    square = torch.rand(n, n, device=device())
    by_hand_s = median_seconds(lambda: square @ square)  # @inspect by_hand_s [s] @stepover
    operations = {"x + x": lambda: x + x, "x @ v": lambda: x @ v, "square @ square": lambda: square @ square}
    counted = [count(f) for f in operations.values()]  # @stepover
    took = measure(*operations.values(), repeats=5, min_seconds=0.02, max_seconds=0.3)  # in turn
    rows = [
        (name, c.flops, t.seconds, c.flops / t.seconds) for name, c, t in zip(operations, counted, took, strict=True)
    ]  # @hide
    table(rows, ["here, fp32", "FLOPs", "s", "FLOP/s"], title=f"x is {large} × {large}, square is {n} × {n}")
    assert [c.flops for c in counted] == [large**2, 2 * large**2, 2 * n**3]
    assert 1 / 50 < by_hand_s / took[-1].seconds < 50  # the same time, whatever else the machine does @hide
    text("Large products do nearly all FLOPs of a model.")


MEASURED = {1024: 176.6e12, 2048: 676.6e12, 4096: 788.7e12, 8192: 797.5e12, 10240: 719.7e12}  # FLOP/s, bf16, H100


def rates_of_cards() -> dict[str, tuple[dict[str, float], float]]:
    """Dense peaks in FLOP/s by format, and the bandwidth of the memory in bytes/s"""
    names = {
        "A100": "NVIDIA A100-SXM4-80GB",
        "H100": "NVIDIA H100 80GB HBM3",
        "H200": "NVIDIA H200",
        "B200": "NVIDIA B200",
        "GB300": "NVIDIA GB300",
    }
    cards = {name: known_machine(full) for name, full in names.items()}
    return {name: (card.flops_per_second, card.bytes_per_second) for name, card in cards.items()}


def what_a_large_product_reaches() -> None:
    """What a large product reaches"""
    text("Published measurements of $n^3$ products in bf16 on an H100 (others of 8192³: 0.79, 0.52 of its peak):")
    shares = {n: round(speed / H100_BF16, 2) for n, speed in MEASURED.items()}  # @inspect shares
    assert shares[8192] == 0.81 and shares[1024] == 0.18
    text("An MFU of 0.4 is half of the best. Peaks in TFLOP/s, *dense* (not for matrices half of zeros):")
    newest, _ = rates_of_cards()["GB300"]  # @stepover @hide
    assert newest["float4"] == 3 * newest["float8"] == 6 * newest["bfloat16"] == 15e15  # @hide
    formats = ("float32", "bfloat16", "float8", "float4")  # @hide
    rows = [
        (name, *(f"{peaks[f] / 1e12:g}" if f in peaks else "–" for f in formats))
        for name, (peaks, _) in rates_of_cards().items()
    ]  # @hide @stepover
    table(rows, ["GPU", "fp32", "bf16, fp16", "fp8", "fp4"])
    text("*From bf16 on, half the bits are twice the peak*, up to B200; GB300's four bits are three times its eight.")
    link("https://github.com/zzc0721/torch-performance-test-data/issues/79", "Measured bf16 products on an H100")
    link("https://github.com/pranjalssh/fast.cu/issues/13", "A measurement that reached 0.52")
    link("https://www.nvidia.com/en-us/data-center/h100/", "NVIDIA H100 Tensor Core GPU, datasheet", authors="NVIDIA")
    link(
        "https://developer.nvidia.com/blog/inside-nvidia-blackwell-ultra-the-chip-powering-the-ai-factory-era/",
        "Inside NVIDIA Blackwell Ultra",
        authors="NVIDIA",
        date=2025,
    )


def which_peak() -> None:
    """MFU: which share, and of which peak?"""
    text("**Model FLOPs utilization** (MFU) = FLOPs that the model needs / time / peak.")
    flops, gpu_seconds = 6 * 37e9 * 14.8e12, 2.664e6 * 3600  # of DeepSeek-V3; its H800 cards have an H100's peak
    ask(
        "DeepSeek-V3 (671 B parameters, 37 B used by a token) read 14.8 T tokens in 2.664 million hours of H800s, "
        "with the bf16 peak of an H100. Which share of that peak?",
        flops / gpu_seconds / H100_BF16,
        within=0.03,
        why=(
            "The FLOPs needed, over those of all hours at the peak: 3.29e24 / (2.664e6 · 3600 · 989.5e12). Most of its "
            "products were in fp8; of that peak, twice as high, it is 0.17."
        ),
        slips={
            6 * 671e9 * 14.8e12 / gpu_seconds / H100_BF16: "All 671 B counted. A share above 1 is always a mistake.",
            flops / gpu_seconds / (2 * H100_BF16): "True, but of the fp8 peak. Name the peak.",
            flops / 3 / gpu_seconds / H100_BF16: "That is the forward pass alone.",
        },
    )
    of_bf16 = flops / gpu_seconds / H100_BF16  # @inspect of_bf16
    assert round(of_bf16, 2) == 0.35
    text(
        "Llama 3 70B reached 0.28 (section 1), steps of Llama 3 405B 0.38 to 0.43, PaLM 0.46, GPT-3 0.21. Below 0.3 "
        "look for the cause: memory, small operations, data, communication."
    )
    link("https://arxiv.org/abs/2407.21783", "The Llama 3 Herd of Models", authors="Llama Team, AI @ Meta", date=2024)
    link(
        "https://arxiv.org/abs/2204.02311",
        "PaLM (MFU was defined here, in appendix B)",
        authors="Chowdhery et al.",
        date=2022,
    )


def find_the_error() -> None:
    """Find the error"""
    share = 6 * 8e9 * 8250 / 1979e12  # @hide
    ask(
        f'"Our 8B model trains at 8,250 tokens/s on each H100: {share:.0%} of its peak of 1,979 TFLOP/s in bf16." What '
        "is the error?",
        "the peak is for matrices with two zeros in every four",
        choices=[
            "6 FLOPs should be 2",
            "the peak is for matrices with two zeros in every four",
            "it should be all GPUs",
        ],
        why="That is 2:4 sparsity. Dense bf16 is 989.5 TFLOP/s: the MFU is 0.4.",
        slips={
            "6 FLOPs should be 2": "Training has a backward pass.",
            "it should be all GPUs": "Tokens and peak are both of one GPU.",
        },
    )
    mfu = 6 * 8e9 * 8250 / H100_BF16  # @inspect mfu
    assert round(mfu, 1) == 0.4


def what_the_law_counts() -> None:
    """What the law counts"""
    systemic_tokens = 1e25 / (6 * 70e9)  # tokens with which a 70B model reaches 1e25 FLOPs @inspect systemic_tokens
    llama_405b = 6 * 405e9 * 15.6e12  # FLOPs of Llama 3 405B @inspect llama_405b [FLOP]
    assert (round(systemic_tokens / 1e12, 1), round(llama_405b / 1e25, 1)) == (23.8, 3.8)
    text(
        "Above 1e25 training FLOPs, European law presumes that a model has *systemic risk*. A 70B model gets there "
        f"with {systemic_tokens / 1e12:.1f} trillion tokens; Llama 3 405B took {llama_405b / 1e25:.1f}e25."
    )
    link("https://artificialintelligenceact.eu/article/51/", "EU AI Act, Article 51", date=2024)


def queued_and_done() -> None:
    """Queued, and done"""
    text(
        "An operation on a GPU takes two times: the CPU needs a few microseconds to *queue* it, whatever its size; "
        "the GPU needs its FLOPs over the peak, or its bytes over the bandwidth, to *do* it. A program of small "
        "operations is **launch-bound**; the GPU waits for the next one."
    )
    queueing_against_doing()


@on_a_gpu(
    "A trace made on a GPU shows both times beside each line; [PyTorch describes the "
    "queue](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)."
)
def queueing_against_doing() -> None:
    """Longer and longer operations"""
    lengths = [4**k for k in range(5, 14) if 8 * 4**k <= sizes().streamed_bytes]
    times = {n: time_to_queue_and_to_do(torch.zeros(n, device="cuda")) for n in lengths}  # @stepover
    curves = {name: [1e6 * both[i] for both in times.values()] for i, name in enumerate(("queued", "done"))}  # @hide
    plot(
        curves,
        x=lengths,
        x_label="numbers",
        y_label="µs",
        x_scale="log",
        y_scale="log",
        title="x.add_(1), for each call",
    )
    few, many = (queued / done for queued, done in (times[lengths[0]], times[lengths[-1]]))
    assert many < few / 2  # share of the time until all is queued


def time_to_queue_and_to_do(x: Tensor, calls: int = 50) -> tuple[float, float]:
    """Seconds per call until all calls are queued, and until all are done; the medians of three rounds"""
    rounds = []
    for _ in range(3):
        x.add_(1)  # warm up
        wait_for_the_device()
        started = time.perf_counter()
        for _ in range(calls):
            x.add_(1)
        queued = time.perf_counter() - started
        wait_for_the_device()
        rounds.append((queued / calls, (time.perf_counter() - started) / calls))
    return statistics.median(queued for queued, _ in rounds), statistics.median(done for _, done in rounds)


# ---------------------------------------------------------------------------------------------------------------------
# 6 The roofline


def the_roofline() -> None:
    """The roofline"""
    text("Why does an operation stay below the peak? It also moves bytes.")
    note(
        "Eleven minutes. Draw the roofline by hand: two times, two lines. Let the audience guess the ratio of the "
        "addition: most take the tensor cores' peak. Ask why 1024³ is so far below the roof."
    )
    two_times()
    the_ridge()
    points_and_roofs()
    two_more_reasons()
    a_batch_shares_the_weights()
    the_kv_cache()
    floor_under_decoding()  # @deeper
    fusing()  # @deeper
    attention_in_one_kernel()  # @deeper
    text(
        "**So**: below 295 FLOP per byte an H100 waits for its memory; above it computes, if the work is large enough "
        "to fill it. Training has thousands of tokens for each weight, so its FLOPs set its time. *To remember: 295.*"
    )
    link("https://dl.acm.org/doi/10.1145/1498765.1498785", "Roofline", authors="Williams et al.", date=2009)
    link(
        "https://horace.io/brrr_intro.html", "Making Deep Learning Go Brrrr From First Principles", authors="Horace He"
    )
    link("https://jax-ml.github.io/scaling-book/", "How to Scale Your Model", authors="Austin et al.", date=2025)


def at_best(flops: float, moved_bytes: float, peak: float = H100_BF16) -> float:
    """Seconds that an H100 needs at least: for the FLOPs or for the bytes, whichever takes longer"""
    return max(flops / peak, moved_bytes / H100_BANDWIDTH)


def two_times() -> None:
    """Two times, and the larger wins"""
    text(
        "FLOPs over FLOP/s is a time; bytes over bytes/s, the **bandwidth**, is another. A GPU loads the next numbers "
        "while it computes: with perfect overlap an operation takes the larger of the two, with none their sum. "
        "Square products of bf16 numbers, at best:"
    )
    square = {n: 1e6 * at_best(2 * n**3, 3 * 2 * n**2) for n in (256, 1024, 8192)}  # µs @inspect square
    assert [float(f"{us:.3g}") for us in square.values()] == [0.117, 2.17, 1110]
    ratio = 4e9 / H100_BANDWIDTH / (1e9 / (H100_FP32 / 2))  # @hide
    assert round(ratio) == 40  # @hide
    ask(
        "An H100 adds 1 to each of 10⁹ bf16 numbers, at 33.5 · 10¹² additions a second (its tensor cores only multiply "
        "matrices) and 3.35 TB/s. How many times longer does it move the numbers than add?",
        ratio,
        within=0.03,
        why=(
            "Each number is read and written, 4 bytes: 4e9 / 3.35e12 = 1.19 ms. One addition is half a multiply-add: "
            "1e9 / 33.5e12 = 0.03 ms."
        ),
        slips={
            ratio / 2: "Each number is read and written: 4 bytes, not 2.",
            4e9 / H100_BANDWIDTH / (1e9 / H100_BF16): "That is the peak of the tensor cores.",
        },
    )


def the_ridge() -> None:
    """The ridge"""
    text(
        "The FLOPs of an operation per byte that it moves are its **arithmetic intensity**. Both times are equal at "
        "the **ridge**, peak over bandwidth. Below it an operation is **memory-bound**, above it **compute-bound**. A "
        "square product of bf16 numbers has $2n^3 / 6n^2 = n/3$. Ridges in FLOP/byte:"
    )
    rates = rates_of_cards()  # by their datasheets @stepover
    ridges = {name: peaks["bfloat16"] / bandwidth for name, (peaks, bandwidth) in rates.items()}  # @inspect ridges
    assert [round(ridge) for ridge in ridges.values()] == [153, 295, 206, 281, 312]
    formats = ("bfloat16", "float8", "float4")  # @hide
    rows = [
        (name, bandwidth / 1e12, *(peaks[f] / bandwidth if f in peaks else "–" for f in formats))
        for name, (peaks, bandwidth) in rates.items()
    ]  # @hide
    table(rows, ["GPU", "TB/s", "bf16", "fp8", "fp4"])


class Operation(NamedTuple):
    """One operation: FLOPs per byte, and FLOP/s as measured"""

    intensity: float
    speed: float


def measured_here(operations: dict[str, Callable[[], Any]]) -> dict[str, Operation]:
    """Count operations, and measure them in turn"""
    counted = [count(f) for f in operations.values()]
    took = measure(*operations.values(), repeats=5, min_seconds=0.01, max_seconds=0.15)
    return {
        name: Operation(c.flops / c.bytes_moved, c.flops / t.seconds)
        for name, c, t in zip(operations, counted, took, strict=True)
    }


def points_and_roofs() -> None:
    """Measured points, and two roofs"""
    text(
        "The **roofline** plots speed against intensity: the rising part is bandwidth × intensity, the flat part the "
        "peak. The H100's points are section 5's published products; the others were measured here."
    )
    x = torch.rand(sizes().streamed_bytes // 16, device=device())  # fp32, far more than the caches hold @stepover
    y, side = torch.empty_like(x), math.isqrt(len(x))
    matrix, v = x[: side * side].view(side, side), x[:side]
    operations = {"add 1": lambda: torch.add(x, 1, out=y), "matrix · vector": lambda: torch.mv(matrix, v)}
    operations["GELU"] = lambda: torch.ops.aten.gelu.out(x, approximate="tanh", out=y)  # 20 FLOPs a number
    for n in (64, 256, sizes().side):  # @stepover
        operations[f"{n}³"] = partial(torch.mm, *torch.rand(2, n, n, device=device()))
    here = measured_here(operations)  # @stepover
    roofs = {"H100, bf16, by its datasheet": (H100_BF16, H100_BANDWIDTH)}  # @hide
    if (peak := peak_flops("float32")) and (bandwidth := peak_bandwidth()):  # @hide
        roofs["this machine, fp32"] = (peak, bandwidth)
    published = {f"H100 {n}³": (n / 3, MEASURED[n]) for n in (1024, 8192)}  # @hide
    plot(
        draw_roofline(roofs, published | here),
        title="Below the ridge an H100 waits; above it, it computes, if the work is large enough to fill it",
        x_scale="log",
        y_scale="log",
    )
    assert all(1e5 < point.speed < 1e15 for point in here.values())  # on a busy machine, too @hide
    assert here["add 1"].intensity == 1 / 8 and abs(here["256³"].intensity / (256 / 6) - 1) < 1e-9  # fp32: 4 bytes


def two_more_reasons() -> None:
    """Two more reasons to stay below"""
    text("One is the launch: to start a program of the GPU, a **kernel**, takes a few µs. The other shows here:")
    measured_s = 2 * 1024**3 / MEASURED[1024]  # @inspect measured_s [s]
    assert round(measured_s * 1e6, 1) == 12.2
    ask(
        "1024³ has 341 FLOP/byte, right of 295: at best 2.2 µs. It was measured at 12.2 µs. Why?",
        "too little work for its 132 multiprocessors",
        choices=[
            "too little work for its 132 multiprocessors",
            "it waits for memory",
            "the clock fell under the load",
            "the library is bad",
        ],
        why=(
            "A result of 1024² is cut into 32 *tiles* of 128 × 256, one at a time for each multiprocessor: 32 of 132 "
            "work, 9.0 µs at best, and the launch comes on top. (Smaller tiles fill more multiprocessors, at fewer "
            "FLOP per byte.) So choose large sizes, in multiples of 128, and fewer operations."
        ),
        slips={
            "it waits for memory": "341 is above 295.",
            "the clock fell under the load": "10240³, a far longer load, still reaches 0.73.",
            "the library is bad": "4096³ reaches 0.80 with it.",
        },
    )
    suspects = {
        "FLOP/byte": 2 * 1024**3 / (3 * 1024**2 * 2),
        "10240³, of peak": MEASURED[10240] / H100_BF16,
        "4096³, of peak": MEASURED[4096] / H100_BF16,
        "tiles each": math.ceil(1024 / 128) * math.ceil(1024 / 256) / 132,  # of 128 × 256, for each multiprocessor
    }  # @inspect suspects
    assert round(2e6 * 1024**3 / H100_BF16 / suspects["tiles each"], 1) == 9.0  # µs @hide
    assert known_machine("NVIDIA H100 80GB HBM3").multiprocessors == 132  # @hide


def a_batch_shares_the_weights() -> None:
    """A batch shares the weights"""
    text(
        "$T$ tokens through the largest matrix of a layer, $(T, 8192) \\cdot (8192, 28672)$, on an H100 at best. Each "
        "weight is read once, for all tokens:"
    )
    rows = []
    for tokens in (1, 8, 64, 310, 512, 8192):
        flops, moved = 2 * tokens * 8192 * 28672, 2 * (tokens * 8192 + 8192 * 28672 + tokens * 28672)
        best = 1e6 * at_best(flops, moved)  # @stepover
        rows.append((tokens, flops / moved, best, best / tokens))
    table(rows, ["tokens", "FLOP/byte", "µs at best", "µs a token"])
    assert [round(row[2], 1) for row in rows] == [140.2, 140.4, 141.6, 147.2, 243.1, 3889.1]
    assert (round(rows[3][1]), round(rows[3][3], 3)) == (296, 0.475)  # above the ridge, 295
    text(
        "From 310 tokens on compute takes longer. **Training** and **prefill** (reading a prompt) are right of the "
        "ridge; **decoding**, one token for each sequence at a time, is left of it. An operation on the left gains "
        "from fewer bytes, by a larger batch, a smaller format, or several operations *fused* into one kernel, so that "
        "intermediate results never go to memory."
    )


def the_kv_cache() -> None:
    """The KV cache"""
    token_bytes = 80 * 2 * 8 * 128 * 2  # layers, keys and values, their heads, width, bf16 @inspect token_bytes [B]
    latent_bytes = 61 * 576 * 2  # DeepSeek-V3: layers, one compressed vector, bf16 @inspect latent_bytes [B]
    intensity = 128 * 2 * (576 + 512) / (576 * 2)  # 128 heads: scores take 576, values 512 of them @inspect intensity
    assert (token_bytes / 2**10, round(latent_bytes / 2**10, 1), round(intensity, 1)) == (320, 68.6, 241.8)
    text(
        "In decoding, attention reads the keys and values of all earlier tokens, the **KV cache**: 320 KiB a token in "
        "Llama 3 70B, 69 KiB in DeepSeek-V3 (multi-head latent attention, **MLA**). Each sequence has its own, so a "
        "batch does not help. In Llama 3 a cached number of 2 bytes meets 8 query heads: 16 FLOPs, 8 a byte. In "
        f"DeepSeek-V3 it is {intensity:.0f}, above an H200's ridge: there it computes."
    )


def floor_under_decoding() -> None:
    """The floor under decoding"""
    text(
        "A decoding step reads the weights once (of the input embedding, one row) and every sequence's cache. Those "
        "bytes over the bandwidth are a **floor** for its time. Llama 3 70B on 8 H100s, 8192 tokens a sequence:"
    )
    llama = (70_553_706_496, 128256 * 8192, 80, 8)  # parameters, of these in the embedding, layers, KV heads
    steps = {b: decoding_step(*llama, 8192, b, 8, H100_BANDWIDTH, H100_MEMORY) for b in (1, 8, 64, 512)}  # @stepover
    rows = [
        (b, s["seconds"] * 1e3, s["tokens_per_second"], "yes" if s["fits"] else "no") for b, s in steps.items()
    ]  # @hide
    table(rows, ["sequences", "floor, ms per step", "tokens/s at most", "fits"])
    assert [round(1e3 * steps[b]["seconds"], 2) for b in (1, 64)] == [5.29, 11.6]
    assert [steps[b]["fits"] for b in steps] == [True, True, True, False] and steps[64]["room"] == 185
    assert [round(steps[64][name] / 1e9) for name in ("weights", "cache")] == [139, 172]
    assert round(steps[64]["tokens_per_second"]) == 5519
    explore(
        decoding_step,
        "A step takes {seconds} or more on {gpus} × {GPU}, so there are at most {tokens_per_second}: it reads "
        "{weights} of weights and {cache} of caches. {fits?It fits|It does not fit}; beside the weights there is room "
        "for the caches of {room}.",
        title="The floor under decoding, in bf16",
        inputs={
            "parameters": (float(llama[0]), 1e8, 1e13),
            "embedding": (float(llama[1]), 0.0, 1e10),
            "layers": (80, 1, 200),
            "heads": (8, 1, 128),
            "context": (8192, 1, 10_000_000),
            "batch": (64, 1, 10_000),
            "gpus": (8, 1, 1024),
        },
        menus={"GPU": gpus_of_the_table()},
        names={
            "embedding": "of these in the embedding",
            "heads": "heads of keys, 128 wide",
            "context": "context, tokens",
            "batch": "sequences",
            "gpus": "GPUs",
            "tokens_per_second": "tokens a second",
        },
        units={
            "seconds": "s",
            "tokens_per_second": "tokens/s",
            "weights": "B",
            "cache": "B",
            "room": "sequences",
            "bandwidth": "B/s",
            "memory": "B",
        },
        curve=("context", "seconds"),
        across="GPU",
    )  # @stepover
    ask(
        "A cached number of 2 bytes takes a multiply-add for each query head that shares it. How many FLOPs per byte "
        "is that in Llama 3 405B, with 128 query heads and 8 heads of keys and values?",
        128 / 8,
        why="16 heads share it: 16 · 2 FLOPs for 2 bytes.",
        slips={
            1: "That is one head of keys for each query head.",
            128: "Only 16 of the 128 query heads share a head of keys.",
            32: "A multiply-add is 2 FLOPs, and a bf16 number is 2 bytes.",
            8: "That is Llama 3 70B, with 64 query heads.",
        },
    )


def decoding_step(
    parameters: float,
    embedding: float,
    layers: float,
    heads: float,
    context: float,
    batch: float,
    gpus: float,
    bandwidth: float,
    memory: float,
) -> dict[str, float]:
    """The floor under a step of decoding in bf16: the weights once, and each sequence's keys and values"""
    sequence = context * layers * 2 * heads * 128 * 2  # keys and values, of 128 numbers for each head
    weights = 2 * (parameters - embedding)
    seconds = (weights + batch * sequence) / (gpus * bandwidth)
    room = gpus * memory - 2 * parameters
    return {
        "seconds": seconds,
        "tokens_per_second": batch / seconds,
        "weights": weights,
        "cache": batch * sequence,
        "fits": batch * sequence < room,
        "room": max(0, math.floor(room / sequence)),
    }


def gelu_in_steps(x: Tensor) -> Tensor:
    """GELU, tanh form, as separate operations"""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1 + torch.tanh(inner))


def fusing() -> None:
    """Fusing saves bytes, not FLOPs"""
    text(
        "Written out, GELU (a smooth ReLU, max(0, x)) is nine operations, and each reads its operands from memory and "
        "writes its result back. *Fused* into one kernel, each number is read once and written once."
    )
    x = torch.rand(sizes().streamed_bytes // 32, device=device())  # @stepover
    steps, fused = partial(gelu_in_steps, x), partial(gelu, x, approximate="tanh")
    in_steps, in_one = count(steps), count(fused)  # @inspect in_steps.bytes_moved [B] in_one.bytes_moved [B] @stepover
    assert in_steps.flops == in_one.flops and torch.allclose(steps(), fused(), atol=1e-5)  # @stepover
    assert (in_steps.bytes_moved, in_one.bytes_moved) == (21 * x.nbytes, 2 * x.nbytes)
    slow, fast = measure(steps, fused, repeats=5, min_seconds=0.02, max_seconds=0.2)  # in turn
    gains = [a / b for a, b in zip(slow.samples_s, fast.samples_s, strict=False)]
    decide(
        gains,
        than=1.1,
        above=f"10.5 times fewer bytes, the same FLOPs, {statistics.median(gains):.1f} times less time.",
        below="10.5 times fewer bytes, the same FLOPs; here the time does not fall.",
        undecided="10.5 times fewer bytes, the same FLOPs; the samples don't agree on the time.",
    )
    text("`torch.compile` finds and fuses such chains.")


def attention_in_one_kernel() -> None:
    """Attention in one kernel"""
    text(
        "Attention in steps writes the $S \\times S$ scores of each head to memory and reads them back, twice. "
        "**FlashAttention** keeps them inside the multiprocessors, and moves queries, keys, values and results only."
    )
    heads, length = 8, 2048
    scores_mb = 4 * heads * length**2 * 2 / 1e6  # written and read twice, bf16 @inspect scores_mb
    others_mb = 4 * heads * length * 64 * 2 / 1e6  # queries, keys, values, results, 64 wide @inspect others_mb
    assert scores_mb / others_mb == length / 64
    link("https://arxiv.org/abs/2205.14135", "FlashAttention", authors="Dao et al.", date=2022)
    one_kernel_against_steps()


@on_a_gpu(
    "A trace made on a GPU compares the two ways in bytes and time; so does, in time, [PyTorch's tutorial]"
    "(https://docs.pytorch.org/tutorials/intermediate/scaled_dot_product_attention_tutorial.html)."
)
def one_kernel_against_steps() -> None:
    """One kernel against steps"""
    q, k, v = (torch.randn(1, 8, 2048, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    in_steps = partial(attention_by, [SDPBackend.MATH], q, k, v)
    in_one = partial(attention_by, [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION], q, k, v)
    try:
        one = count(in_one)  # @stepover
    except RuntimeError as error:
        text(f"Not run in one kernel: {str(error).splitlines()[0]}")
        return
    steps = count(in_steps)  # @inspect steps.bytes_moved @stepover
    assert one.bytes_moved <= steps.bytes_moved
    slow, fast = measure(in_steps, in_one, repeats=5, min_seconds=0.02, max_seconds=0.2)
    text(f"In one kernel it takes {fast.seconds / slow.seconds:.2f} of the time, for the same products.")


def attention_by(kernels: list[SDPBackend], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention, with a choice of kernels"""
    with sdpa_kernel(kernels):
        return scaled_dot_product_attention(q, k, v)


# ---------------------------------------------------------------------------------------------------------------------
# 7 Gradients


def gradients() -> None:
    """Gradients"""
    text(
        "Why does the backward pass cost twice the forward pass? Training asks how the loss changes if a parameter "
        "does. PyTorch's **autograd** records each operation and then applies the chain rule, from the last to the "
        "first."
    )
    note("Six minutes. The drawing with its products is the section. Stop at the fourth product: who needs it?")
    three_products_of_one_size()
    by_hand()
    six_or_less()
    which_gradients_exist()  # @deeper
    the_first_layers_share()  # @deeper
    link("https://docs.pytorch.org/docs/stable/notes/autograd.html", "Autograd mechanics", authors="PyTorch")
    text(
        "**So**: backward does two products as large as the forward one, for the gradients of the weights and of "
        "the inputs. *To remember: 2 + 4 = 6.*"
    )


def three_products_of_one_size() -> None:
    """Three products of one size"""
    text(
        "Two layers, on $B$ rows of width $D$: from $D$ to $D$, and from $D$ to $K$. $G$ is the gradient of their "
        "result."
    )
    nodes = [("x", "B × D"), ("h1", "B × D"), ("h2", "B × K")]  # @hide
    there = ["@ w1:  2BDD", "@ w2:  2BDK"]  # @hide
    back = ["for w1:  2BDD\n(for x:  2BDD)", "h1.T @ G  2BDK\nG @ w2.T  2BDK"]  # @hide
    title = "Each layer does one product forward and two backward; the first layer can skip one"  # @hide
    plot(draw_chain(nodes, there, back), title=title)


def by_hand() -> None:
    """Backward, by hand"""
    ask(
        "Write the line for the gradient of `w1`, from `x` and `h1_grad`.",
        "`x.T @ h1_grad`",
        choices=["`h1_grad @ x.T`", "`x.T @ h1_grad`", "`h1_grad.T @ x`"],
        why="Only (D, B) · (B, D) gives (D, D), the shape of `w1`, in the right order.",
        slips={"`h1_grad @ x.T`": "That is (B, B).", "`h1_grad.T @ x`": "That is the transpose of the right answer."},
    )
    batch, width, outputs = 32, 64, 16  # B, D, K
    w1, w2 = (torch.randn(width, n, requires_grad=True) for n in (width, outputs))
    x, G = torch.randn(batch, width), torch.randn(batch, outputs)  # data; pretend that the loss sent G
    h1 = x @ w1  # (B, D)
    (h1 @ w2).backward(G)
    w2_grad = h1.T @ G  # (D, B) @ (B, K): to learn
    h1_grad = G @ w2.T  # (B, K) @ (K, D): for the layer below
    three = h1_grad @ x.T, x.T @ h1_grad, h1_grad.T @ x
    right = [one.shape == w1.shape and torch.allclose(one, w1.grad, atol=1e-3) for one in three]  # @inspect right
    assert sum(right) == 1 and torch.allclose(w2_grad, w2.grad, atol=1e-4)


def six_or_less() -> None:
    """Six, or a little less?"""
    ask(
        "`x` needs no gradient, so the first layer skips a product. In a language model: six FLOPs per parameter and "
        "token, or a little less?",
        "exactly 6",
        choices=["a little less", "exactly 6", "more"],
        why="Below the first layer is the embedding, which learns and so needs that gradient.",
        slips={
            "a little less": "True if the input is data: 6 − 2/L for L layers.",
            "more": "To look up a row of the embedding has no product.",
        },
    )
    w1, w2 = (torch.randn(64, n, requires_grad=True) for n in (64, 16))
    rows = torch.randn(100, 64, requires_grad=True)  # an embedding: 100 rows, one for each token
    tokens = torch.randint(100, (32,))
    products = count(lambda: (rows[tokens] @ w1 @ w2).sum().backward()).flops_by_operator["aten.mm"]
    per_parameter = products / 32 / (w1.numel() + w2.numel())  # and token @inspect per_parameter
    assert per_parameter == 6


def which_gradients_exist() -> None:
    """Which gradients exist"""
    text(
        "A **leaf** is a tensor that no recorded operation computed, such as a parameter. After `backward`, leaves "
        "with `requires_grad=True` have a `.grad`, as large as the leaf. Gradients of intermediate results are "
        "computed, used and freed; `retain_grad` keeps one."
    )
    x, w = torch.tensor([1.0, 2, 3]), torch.ones(3, requires_grad=True)
    h = x @ w - 4
    h.retain_grad()
    (0.5 * h**2).backward()  # @inspect w.grad h.grad
    assert (x.grad, w.grad.tolist(), h.grad) == (None, [2, 4, 6], torch.tensor(2.0))
    (0.5 * (x @ w - 4) ** 2).backward()  # a second time @inspect w.grad
    assert w.grad.tolist() == [4, 8, 12]  # added to [2, 4, 6]


def the_first_layers_share() -> None:
    """The first layer's share"""
    text(
        "For $L$ square layers on data, forward is $2BD^2L$ and backward $4BD^2L - 2BD^2$: $6 - 2/L$ per parameter and "
        "row."
    )
    batch, width = 16, 32
    ratios = {}
    for depth in (1, 2, 4, 8, 16, 32):
        layers = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(depth)))  # @stepover
        x = torch.randn(batch, width)
        flops = count(lambda layers=layers, x=x: layers(x).sum().backward()).flops_by_operator["aten.mm"]
        ratios[depth] = flops / (depth * width**2 * batch)  # @inspect ratios
        assert ratios[depth] == 6 - 2 / depth


# ---------------------------------------------------------------------------------------------------------------------
# 8 The model


def the_model() -> None:
    """The model"""
    text(
        "Which weights has a Transformer, which FLOPs, which bytes? All three follow from its *shape*: width, layers, "
        "heads, hidden width, vocabulary."
    )
    note("Seven minutes. Walk down the drawing once, box by box. Let the room add up the units of D².")
    one_layer()
    parameters_of_the_layer()
    flops_of_the_layer()
    count_with_experts()
    a_small_model_that_stays()
    mixture_of_experts()  # @deeper
    how_large_weights_start()  # @deeper
    text(
        "**So**: a layer of Llama 3 70B has 856 million weights, 12.75 D², and keeps 40.5 D bytes a token; the model "
        "has 70.55 billion. *To remember: attention adds $12LDS$ FLOPs a token, as much as all weights at $S = "
        "6.4 D$.*"
    )


def one_layer() -> None:
    """One layer"""
    plot(
        draw_layer(),
        title="A layer of Llama 3 70B, for T tokens: shapes, weights, and the bytes that each token keeps for backward",
    )
    text(
        "Each token is a row of $D$ numbers, the *residual stream*; two blocks read it and add to it. **RMSNorm** "
        "divides a row by its root mean square. Three matrices make **queries, keys and values**, **causal attention** "
        "mixes the values of a token and of those before it, and a fourth makes the output. "
        "**RoPE** first rotates queries and keys by an angle proportional to their position. **SwiGLU** is "
        r"$\text{down}(\text{silu}(\text{gate}(h)) \cdot \text{up}(h))$, with $\text{silu}(z) = z / (1 + e^{-z})$. "
        "Below the layers an **embedding** turns tokens into rows; above them a matrix, the model's **head**, makes a "
        r"number for each possible next token, a *logit*, and $\text{softmax}(x)_i = e^{x_i} / \sum_j e^{x_j}$ makes "
        "probabilities of them."
    )


@dataclass(frozen=True)
class Shape:
    """The numbers that decide what a Transformer costs"""

    vocabulary: int = 256  # V: every byte is a token
    context: int = 64  # S: the tokens that it sees at once
    width: int = 128  # D
    layers: int = 2  # L
    heads: int = 4  # H, of queries
    kv_heads: int = 2  # K, heads of keys and values: each is shared by H/K heads of queries
    hidden: int = 384  # F, the width inside the feed-forward part


LLAMA = Shape(128_256, 8192, 8192, 80, 64, kv_heads=8, hidden=28_672)  # Llama 3 70B


class Normalize(torch.autograd.Function):
    """x / RMS(x) · gain. Saves x and one number per row, as a GPU's fused kernel does, and not x / RMS(x)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor) -> Tensor:
        scale = (x.float().square().mean(dim=-1, keepdim=True) + 1e-6).rsqrt()  # 1 / RMS (…, 1)
        ctx.save_for_backward(x, gain, scale)
        return (x.float() * scale * gain).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> tuple[Tensor, Tensor]:
        (x, gain, scale), upstream = ctx.saved_tensors, upstreams[0].float()
        normed, scaled = x.float() * scale, upstream * gain
        x_grad = scale * (scaled - normed * (scaled * normed).mean(dim=-1, keepdim=True))
        return x_grad.to(x.dtype), (upstream * normed).flatten(0, -2).sum(dim=0).to(gain.dtype)


class RMSNorm(nn.Module):
    """Divides each row by its root mean square, then multiplies by a gain for each column"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return Normalize.apply(x, self.weight)


class Attention(nn.Module):
    """Each token looks at itself and at those before it; H/K heads of queries share a head of keys and values"""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_width = shape.width // shape.heads
        self.query = nn.Linear(shape.width, shape.width, bias=False)
        self.key = nn.Linear(shape.width, shape.kv_heads * self.head_width, bias=False)
        self.value = nn.Linear(shape.width, shape.kv_heads * self.head_width, bias=False)
        self.output = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            rearrange(part(x), "b s (h d) -> b s h d", d=self.head_width) for part in (self.query, self.key, self.value)
        )
        by_head = [part.transpose(1, 2) for part in (rotated(query), rotated(key), value)]  # (B, H or K, S, D/H) each
        mixed = scaled_dot_product_attention(*by_head, is_causal=True, enable_gqa=True)  # (B, H, S, D/H)
        return self.output(rearrange(mixed, "b h s d -> b s (h d)"))  # (B, S, D)


def rotated(x: Tensor) -> Tensor:
    """RoPE: rotate each pair of numbers by an angle proportional to the token's position"""
    position = torch.arange(x.shape[1], device=x.device)  # (S,)
    pair = torch.arange(x.shape[-1] // 2, device=x.device)  # (D/2H,)
    angle = position[:, None, None] * 1000.0 ** (-2 * pair / x.shape[-1])  # from fast to slow (S, 1, D/2H)
    (a, b), cos, sin = x.chunk(2, dim=-1), angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)  # (B, S, H, D/H)


class Layer(nn.Module):
    """Attention, then SwiGLU; each behind a norm, each added to the residual stream"""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1 = RMSNorm(shape.width)
        self.attention = Attention(shape)
        self.norm2 = RMSNorm(shape.width)
        self.gate = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))  # (B, S, D)
        h = self.norm2(x)
        return x + self.down(silu(self.gate(h)) * self.up(h))  # (B, S, F) inside, (B, S, D) out


class LanguageModel(nn.Module):
    """Tokens in, a logit for each possible next token out"""

    def __init__(self, shape: Shape, head_std: float | None = None) -> None:
        super().__init__()
        self.shape, self.recompute = shape, False  # True saves memory: section 14
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList([Layer(shape) for _ in range(shape.layers)])
        self.norm = RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        for name, w in self.layers.named_parameters():
            if w.ndim == 2:
                added = name.endswith(("output.weight", "down.weight"))  # to the stream, 2L times
                nn.init.normal_(w, std=1 / math.sqrt(w.shape[1] * (2 * shape.layers if added else 1)))
        nn.init.normal_(self.head.weight, std=head_std or 1 / shape.width)  # small logits: it starts by knowing nothing

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)  # (B, S, D)
        for layer in self.layers:  # checkpoint keeps x, forgets the rest, and runs the layer again in backward
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)  # (B, S, D)
        return self.head(self.norm(x))  # (B, S, V)


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of the next token, in nats (natural logarithm): divided by ln 2, bits"""
    return cross_entropy(model(inputs).flatten(0, 1).float(), targets.flatten())


def parameters_of_the_layer() -> None:
    """Parameters"""
    ask(
        "In Llama 3 70B 64 heads of queries share 8 of keys and values, and $F = 3.5 D$. How many weights has a layer, "
        "in units of $D^2$?",
        12.75,
        unit="D²",
        within=0.005,
        why="Query and output 1 each, key and value 1/8 each, SwiGLU three times 3.5.",
        slips={
            14.5: "Keys and values counted full: they have 8 heads, not 64.",
            9.25: "SwiGLU has three matrices, not two.",
            12: "That is GPT-3's layer: 4 + 8.",
        },
    )
    with torch.device("meta"):  # shapes without numbers, in no memory
        layer = Layer(LLAMA)  # @inspect LLAMA @stepover
    matrices = sum(p.numel() for p in layer.parameters() if p.dim() == 2)  # @inspect matrices
    norms = (2 * LLAMA.layers + 1) * LLAMA.width  # their gains @inspect norms
    total = LLAMA.layers * matrices + norms + 2 * LLAMA.vocabulary * LLAMA.width  # embedding and head @inspect total
    assert matrices == 12.75 * LLAMA.width**2 == 855_638_016
    assert total == 70_553_706_496  # the published model's
    text(
        "That is no law: 12.0 in GPT-3, and 18.6 in Qwen3-32B, whose heads are together 1.6 times as wide as the model."
    )


def flops_of_the_layer() -> None:
    """FLOPs, and what attention adds"""
    text(
        "Each weight of a product takes 6 FLOPs a token (section 7). Attention adds two products without weights, "
        "queries with keys and probabilities with values: $12DS$ FLOPs for a token and layer, half of it if "
        "the masked part is skipped. Counted, for one sequence:"
    )
    length, width = 2048, LLAMA.width
    with torch.device("meta"):
        layer = Layer(LLAMA)  # @stepover
        x = torch.empty(1, length, width)
    flops = count(lambda: layer(x).sum().backward()).flops_by_operator  # @stepover
    products = flops["aten.mm"] + flops["aten.bmm"]  # @inspect products [FLOP]
    matrices = 855_638_016
    assert products == length * (6 * matrices + 12 * width * length)  # the heads are together as wide as D
    added = {s: 12 * width * s / (6 * matrices) for s in (2048, 8192, 131072)}  # to a layer's 6 FLOPs @inspect added
    even = 6 * matrices / (12 * width)  # tokens at which attention takes as much as the weights @inspect even
    assert [round(share, 2) for share in added.values()] == [0.04, 0.16, 2.51] and round(even / width, 1) == 6.4
    text("16% at our run's 8,192 tokens.")


def count_with_experts() -> None:
    """With experts, count"""
    text(
        "In DeepSeek-V3 a matrix, the *router*, chooses 8 of a layer's 256 experts for each token; one more serves all."
    )
    expert = 3 * 7168 * 2048  # a small SwiGLU, from 7,168 numbers to 2,048 @inspect expert
    attention = 7168 * (1536 + 576) + 128 * (1536 * 192 + 512 * 256 + 128 * 7168)  # section 6's vectors; 128 heads
    held = 257 * expert + 256 * 7168 + attention  # with the router @inspect held
    met = 9 * expert + 256 * 7168 + attention  # by a token @inspect met
    model = 58 * held + 3 * (attention + 3 * 7168 * 18432) + 2 * 129280 * 7168  # 3 have no experts @inspect model
    assert (held, met, round(model / 1e9, 2)) == (11_507_269_632, 585_302_016, 671.03)
    text(f"A layer holds {held / 1e9:.1f} billion weights; a token meets {met / held:.0%} of them.")


def parameters_by_part(shape: Shape) -> dict[str, int]:
    """Queries and output have D² weights each, keys and values D²·K/H each, SwiGLU 3·D·F"""
    d, of_keys = shape.width, shape.width // shape.heads * shape.kv_heads
    return {
        "embedding": shape.vocabulary * d,
        "attention": 2 * shape.layers * d * (d + of_keys),
        "feed-forward": 3 * shape.layers * d * shape.hidden,
        "norms": (2 * shape.layers + 1) * d,
        "head": shape.vocabulary * d,
    }


def flops_of_a_step(shape: Shape, batch: int) -> int:
    """6 for each token and each weight that multiplies it; and attention's two products with S keys"""
    weights = parameters_by_part(shape)
    multiplied = weights["attention"] + weights["feed-forward"] + weights["head"]
    return 6 * batch * shape.context * (multiplied + 2 * shape.layers * shape.width * shape.context)


def a_small_model_that_stays() -> None:
    """A small model that stays"""
    text("From here on a small model of this kind runs, with a token for each byte: $V = 256$.")
    torch.manual_seed(0)
    shape = Shape()  # @inspect shape
    model = LanguageModel(shape)  # @stepover
    tokens = torch.randint(shape.vocabulary, (8, shape.context))  # (B, S)
    logits = model(tokens)  # (B, S, V) @inspect logits @stepover
    parameters = sum(p.numel() for p in model.parameters())  # @inspect parameters
    assert parameters == sum(parameters_by_part(shape).values()) == 459_392
    changed = torch.cat([tokens[:, :-1], (tokens[:, -1:] + 1) % shape.vocabulary], dim=1)  # another last token
    past = model(changed)[:, :-1]  # causal: nothing changes before it @stepover
    assert torch.allclose(past, logits[:, :-1], atol=1e-6)


def visit_experts(x: Tensor, weights: Tensor, gates: Tensor, chosen: Tensor) -> Tensor:
    """Multiply each token by its chosen experts, and add the results with their gates"""
    out = torch.zeros_like(x)
    for expert, weight in enumerate(weights):
        token, slot = (chosen == expert).nonzero(as_tuple=True)
        out.index_add_(0, token, gates[token, slot, None] * (x[token] @ weight))
    return out


def mixture_of_experts() -> None:
    """A mixture of experts, counted"""
    text("A small *router* chooses a few experts for each token, which is multiplied by its own experts only:")
    tokens, width, experts, active = 64, 32, 8, 2
    x = torch.randn(tokens, width)
    weights = torch.randn(experts, width, width) / math.sqrt(width)
    router = torch.randn(width, experts)
    scores = softmax(x @ router, dim=-1)  # (tokens, experts)
    gates, chosen = scores.topk(active, dim=-1)  # the highest scores, and whose: (tokens, active) each
    visited = count(lambda: visit_experts(x, weights, gates, chosen)).flops_by_operator  # @stepover
    multiplied = sum(n for name, n in visited.items() if "mm" in name)  # @inspect multiplied [FLOP]
    assert multiplied == 2 * tokens * active * weights[0].numel()
    every = torch.einsum("td,edk->tek", x, weights)  # with all experts, and gates of 0 for those not chosen
    all_gates = torch.where(scores >= gates[:, -1:], scores, 0)
    assert torch.allclose(
        visit_experts(x, weights, gates, chosen), (all_gates[..., None] * every).sum(dim=1), atol=1e-5
    )
    text(
        "If each GPU holds some of the experts (*expert parallelism*), every token is sent to the GPUs of its experts "
        "and back: an *all-to-all* of $D$ numbers per token and expert, in each direction and layer."
    )


def how_large_weights_start() -> None:
    """How large the weights start"""
    text(
        "Each output of a layer is a sum of one independent term per input, and variances add up: with 16,384 inputs, "
        r"and inputs and weights of standard deviation 1, the outputs have $\sqrt{16384} = 128$. So weights start with "
        r"$1 / \sqrt{\text{in}}$ (LeCun), or $\sqrt{2 / \text{in}}$ before a ReLU, which sets half of the numbers to 0 "
        "(He)."
    )
    x, w = torch.randn(64, 16384), torch.randn(16384, 32)
    deviation = (x @ w).std().item()  # @inspect deviation
    rescaled = (x @ (w / math.sqrt(16384))).std().item()  # @inspect rescaled
    assert abs(deviation / 128 - 1) < 0.05 and abs(rescaled - 1) < 0.05


# ---------------------------------------------------------------------------------------------------------------------
# 9 Randomness and data (to read alone)


def randomness_and_data() -> None:
    """Randomness and data"""
    text(
        "*To read alone.* How does a run repeat itself to the last bit, and how does a training "
        "set of 2.8 TB (LLaMA's 1.4T tokens, two bytes each) reach a GPU with 0.08 TB of memory?"
    )
    seeds()
    tokens_on_disk()
    windows()
    text_for_the_language_model()
    pinned_copies()  # @deeper
    text(
        "**So**: seed torch, NumPy and Python, and on a GPU also ask for deterministic algorithms; map the file, and "
        "copy only windows of $S + 1$ tokens to the GPU. *To remember: S + 1.*"
    )


def seeds() -> None:
    """Seeds"""
    text("torch, NumPy and Python have a random generator each. Each draws one number here, and again with its seed:")
    draws = []
    for _ in range(2):
        torch.manual_seed(1)  # on the CPU and on every GPU
        np.random.seed(2)
        random.seed(3)
        draws.append([torch.rand(()).item(), float(np.random.rand()), random.random()])  # @inspect draws
    assert draws[0] == draws[1]
    text(
        "On a GPU a run also needs `torch.use_deterministic_algorithms(True)`: otherwise some operations add in the "
        "order in which their threads finish. A seed sets the generator's **state**, and each draw changes it: a run "
        "that is to be resumed saves it (section 15). With seeds set, a first step of training repeats itself here:"
    )
    once, again, other = (gradients_of_a_seed(seed) for seed in (0, 0, 1))  # @stepover
    assert torch.equal(once, again) and not torch.equal(once, other)
    link("https://docs.pytorch.org/docs/stable/notes/randomness.html", "Reproducibility", authors="PyTorch")


def gradients_of_a_seed(seed: int) -> Tensor:
    """The gradients of a first step, whose weights and batch are drawn from the seed"""
    torch.manual_seed(seed)
    model = LanguageModel(Shape())
    inputs, targets = draw_batch(lecture_tokens()[0], 4, 64, torch.Generator().manual_seed(seed))
    loss_of(model, inputs, targets).backward()
    return torch.cat([w.grad.flatten() for w in model.parameters()])


def tokens_on_disk() -> None:
    """Tokens on disk"""
    text(
        "A tokenizer turns text into whole numbers, and a training set is one long row of them in a file: two bytes "
        "each up to 65,536 different tokens, four above (Llama 3 has 128,256). Such a file need not fit into memory. A "
        "**memory-mapped** file looks like an array; the operating system reads a page of it when the program touches "
        "it, and may drop the page again:"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokens.bin")
        np.arange(32_000, dtype=np.uint16).tofile(path)  # the numbers and nothing else: no shape, no dtype
        tokens = np.memmap(path, dtype=np.uint16, mode="r")  # @inspect tokens[-1]
        assert path.stat().st_size == 2 * len(tokens)


def draw_batch(tokens: np.ndarray, batch: int, sequence: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw windows of the tokens; the targets are the same windows, one token later"""
    starts = torch.randint(len(tokens) - sequence, (batch, 1), generator=generator)  # (B, 1)
    positions = starts + torch.arange(sequence + 1)  # (B, S + 1)
    drawn = torch.from_numpy(tokens[positions.numpy()].astype(np.int64))  # (B, S + 1): one array, not a list of them
    return drawn[:, :-1], drawn[:, 1:]


def windows() -> None:
    """Windows of S + 1 tokens"""
    text(
        "A language model learns to predict the next token, at every position of a sequence at once. So a batch is $B$ "
        "windows of $S + 1$ tokens: the first $S$ are the inputs, the last $S$ the targets."
    )
    ask(
        "How many different windows of 65 tokens has a file of 1,000 tokens?",
        1000 - 64,
        within=0,
        why="A window may begin at each of the first 936 tokens.",
        slips={1000 // 65: "Windows may overlap.", 1000 - 65: "The window that ends with the last token counts."},
    )
    generator = torch.Generator().manual_seed(0)
    inputs, targets = draw_batch(np.arange(100), 2, 4, generator)  # each token is its place @inspect inputs targets
    assert inputs.shape == (2, 4) and torch.equal(inputs + 1, targets)
    firsts = draw_batch(np.arange(7), 100, 4, generator)[0][:, 0]  # of a file of 7 tokens @stepover
    assert sorted(set(firsts.tolist())) == [0, 1, 2]
    text("From **pinned** memory, which stays where it is, a GPU copies a batch while the CPU draws the next.")


UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(n: int) -> str:
    """The name of a number below 1000"""
    if n < 20:
        return UNITS[n]
    if n < 100:
        return TENS[n // 10] + (f"-{UNITS[n % 10]}" if n % 10 else "")
    return f"{UNITS[n // 100]} hundred" + (f" {in_words(n % 100)}" if n % 100 else "")


def is_held_out(n: int) -> bool:
    """Ten numbers of each hundred: 130 to 139, 260 to 269, 390 to 399, ..."""
    return n // 10 % 10 == 3 * (n // 100) % 10


def lecture_tokens() -> tuple[np.ndarray, np.ndarray]:
    """Counting from 100 to 999 in words, a byte a token: the numbers to train on, and those held out"""
    parts = [
        ", ".join(in_words(n) for n in range(100, 1000) if is_held_out(n) == held_out) for held_out in (False, True)
    ]
    train, held_out = (np.frombuffer(part.encode(), np.uint8) for part in parts)
    return train, held_out


def text_for_the_language_model() -> None:
    """A text for the language model"""
    text(
        "The model of section 8 learns to count in words, from one hundred to nine hundred ninety-nine. Ten numbers of "
        "each hundred are **held out**: training never shows them, so they test whether it has learnt a rule."
    )
    train, held_out = lecture_tokens()  # @inspect len(train) len(held_out) @stepover
    assert [in_words(n) for n in (260, 719, 45)] == ["two hundred sixty", "seven hundred nineteen", "forty-five"]
    assert [bytes(part).count(b",") + 1 for part in (train, held_out)] == [810, 90]
    assert [n for n in range(100, 400, 10) if is_held_out(n)] == [130, 260, 390]


def pinned_copies() -> None:
    """To the GPU: pinned copies"""
    batch_bytes = torch.empty(32, 4096, dtype=torch.int64, device="meta").nbytes  # @inspect batch_bytes [B]
    floor_s = batch_bytes / 64e9  # over an H100's bus, PCIe 5, one way @inspect floor_s [s]
    text(
        "A GPU copies from the CPU's memory by itself, but only from memory that is guaranteed to stay where it is: "
        "**pinned**. A copy from ordinary, *pageable* memory goes through a pinned buffer, and the CPU does that work. "
        "From pinned memory, with `non_blocking=True`, the call returns at once, and the CPU is free for the next "
        "batch. Pinning is itself a copy, so leave it to another thread: `DataLoader(pin_memory=True)`."
    )
    link("https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html", "pin_memory() and non_blocking")
    pinned_against_pageable()


@on_a_gpu("A trace made on a GPU compares the two kinds of copies; the tutorial above shows them on one.")
def pinned_against_pageable() -> None:
    """Pinned against pageable"""
    source = torch.arange(sizes().streamed_bytes // 32).view(torch.uint8)  # @stepover
    pinned, target = source.pin_memory(), torch.empty_like(source, device="cuda")
    pageable, fast = measure(
        lambda: target.copy_(source), lambda: target.copy_(pinned, non_blocking=True), min_seconds=0.02, max_seconds=0.2
    )
    assert torch.equal(target.cpu(), source)
    text(f"Here a copy from pinned memory takes {fast.seconds / pageable.seconds:.2f} of the time.")


# ---------------------------------------------------------------------------------------------------------------------
# 10 Optimizers


def optimizers() -> None:
    """Optimizers"""
    text("How many bytes does an optimizer keep for each parameter, and from when on?")
    note("Three minutes. Ask who knows when Adam allocates. The bytes matter more than the formulas.")
    adam_in_three_lines()
    made_in_the_first_step()
    half_of_the_state()
    adam_by_hand()  # @deeper
    nearly_orthogonal()  # @deeper
    what_a_step_costs()  # @deeper
    text("**So**: AdamW keeps 8 bytes for each parameter, Muon 4. *To remember: made in step 1.*")


def adam_in_three_lines() -> None:
    """Adam in three lines"""
    text(
        r"$$ \begin{aligned} m &\leftarrow \beta_1 m + (1 - \beta_1) g \\ v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 "
        r"\\ w &\leftarrow w - \eta\, \hat m / (\sqrt{\hat v} + \epsilon) \end{aligned} $$"
        "\n\n"
        r"$g$ is the gradient, $\eta$ the learning rate. $m$ and $v$ are running averages of the gradient and of its "
        r"square; $\hat m = m / (1 - \beta_1^t)$ and $\hat v = v / (1 - \beta_2^t)$ correct them for starting at 0. "
        "AdamW also pulls each weight a little towards 0 (weight decay)."
    )
    link(
        "https://arxiv.org/abs/1711.05101",
        "Decoupled Weight Decay Regularization (AdamW)",
        authors="Loshchilov and Hutter",
    )


def made_in_the_first_step() -> None:
    """The state does not exist before the first step"""
    w = nn.Parameter(torch.randn(256, 256))
    w.grad = torch.randn(256, 256)
    kept = {}
    for Optimizer in (optim.SGD, optim.RMSprop, optim.AdamW, optim.Muon):
        optimizer = Optimizer([w], lr=1e-3)
        before = sum(t.nbytes for state in optimizer.state.values() for t in state.values())
        optimizer.step()
        state = [t for state in optimizer.state.values() for t in state.values() if t.dim()]  # without step counters
        kept[Optimizer.__name__] = sum(t.nbytes for t in state) / w.numel()  # bytes per parameter @inspect kept
        assert before == 0
    assert [*kept.values()] == [0, 4, 8, 4]
    text(
        "A forward and backward pass that fit prove little: run a whole step. `zero_grad()` frees the gradients again."
    )


def half_of_the_state() -> None:
    """Muon: half of the state"""
    ask(
        "Muon keeps one average of a matrix's gradients and makes it nearly orthogonal; it trained Kimi K2 and "
        "DeepSeek-V4. Why can't its step be cut over GPUs number by number?",
        "its update is a property of a whole matrix",
        choices=[
            "its update is a property of a whole matrix",
            "it needs the gradient of the whole batch",
            "its state is kept in bf16",
        ],
        why="It makes the momentum nearly orthogonal: parts of a matrix have to be gathered first.",
        slips={
            "it needs the gradient of the whole batch": "So does AdamW, and a card needs its part of that sum only.",
            "its state is kept in bf16": "A format does not forbid a cut, and the 4 bytes are an fp32 number.",
        },
    )
    layers = 80 * 855_638_016 / 70_553_706_496  # their share of Llama 3 70B; the rest stays with AdamW
    average = 12 * layers + 16 * (1 - layers)  # bytes per parameter, by section 1's recipes @inspect average
    assert round(average, 2) == 12.12
    link("https://kellerjordan.github.io/posts/muon/", "Muon", authors="Keller Jordan et al.", date=2024)
    link("https://arxiv.org/abs/2507.20534", "Kimi K2", authors="Kimi Team", date=2025)
    link("https://arxiv.org/abs/2606.19348", "DeepSeek-V4", authors="DeepSeek-AI", date=2026)


def adam_by_hand() -> None:
    """Adam's first step, by hand"""
    g, m, v = torch.tensor([100.0, -1.0, 1e-4]), torch.zeros(3), torch.zeros(3)
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    moved = 0.02 * (m / 0.1) / ((v / 0.001).sqrt() + 1e-8)  # the first step, with a rate of 0.02 @inspect moved
    w = nn.Parameter(torch.ones(3))
    w.grad = g
    optim.Adam([w], lr=0.02).step()
    assert torch.allclose(1 - moved, w.detach(), rtol=0, atol=5e-7)
    text("Whatever the gradient's size, the first step is one learning rate.")


def nearly_orthogonal() -> None:
    """Nearly orthogonal"""
    text(
        "Five rounds of Newton and Schulz's iteration bring most singular values of the momentum (how far it "
        "stretches a vector, direction by direction) near 1:"
    )
    momentum = torch.randn(64, 4) @ torch.randn(4, 64) + 0.1 * torch.randn(64, 64)  # a few directions dominate
    update = momentum / momentum.norm()
    for _ in range(5):  # these factors are for speed: the smallest values lag behind
        square = update @ update.T
        update = 3.4445 * update + (-4.7750 * square + 2.0315 * square @ square) @ update
    singular = torch.linalg.svdvals(update)  # @inspect singular.max() singular[31] singular[63]
    assert singular.max() < 1.3 and singular[:32].min() > 0.5


def what_a_step_costs() -> None:
    """What a step costs"""
    text("A step reads a weight, its gradient and two states, and writes three of them. It waits for memory:")
    w = nn.Parameter(torch.randn(2**16))
    w.grad = torch.randn_like(w)
    optimizer = optim.AdamW([w], fused=True)  # one kernel
    optimizer.step()
    moved = count(optimizer.step).bytes_moved / w.numel()  # bytes per parameter @inspect moved
    assert round(moved) == 4 * 4 + 3 * 4  # a weight, its gradient and two states are read, three are written
    step_s = moved * 70.55e9 / GPUS / H100_BANDWIDTH  # for 1/1024 of our model @inspect step_s [s]
    tokens = moved / H100_BANDWIDTH / (6 / H100_BF16)  # that train in as long as an unsharded step @inspect tokens
    assert (round(step_s * 1e3, 1), round(tokens, -2)) == (0.6, 1400)


# ---------------------------------------------------------------------------------------------------------------------
# 11 The training loop


def training_loop() -> None:
    """The training loop"""
    text("How do you see in the first minute that a run of months works?")
    note("Four minutes. The first loss is the test that everyone can do. Then read the table of its progress.")
    five_lines()
    the_first_loss()
    tokens_a_second()
    what_it_learns()
    what_a_real_loop_adds()  # @deeper
    a_loss_that_broadcasts()  # @deeper
    text(
        "**So**: the first loss is $\\ln V$, and tokens a second are the MFU; both show in the first step. *To "
        "remember: $\\ln V$, and 935 tokens/s on each of our cards.*"
    )


def a_model_and_a_batch(*, faulty: bool = False) -> tuple[LanguageModel, Tensor, Tensor]:
    """The small model, or one with a fault to find, and 8 windows of 64 tokens"""
    torch.manual_seed(0)
    inputs, targets = draw_batch(lecture_tokens()[0], 8, 64, torch.Generator().manual_seed(0))
    return LanguageModel(Shape(), 1 / math.sqrt(128) if faulty else None), inputs, targets


def five_lines() -> None:
    """The loop is five lines"""
    text(
        "The loss is minus the logarithm of the probability that the model gives to the next token, on average: in "
        "bits with base 2, in *nats*, torch's unit, with base $e$."
    )
    model, _, _ = a_model_and_a_batch()  # @stepover
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    train, generator = lecture_tokens()[0], torch.Generator().manual_seed(0)  # @stepover
    losses = []  # in bits for each byte
    for _ in range(10):
        inputs, targets = draw_batch(train, 8, 64, generator)  # @stepover
        optimizer.zero_grad()  # else all steps' gradients add up
        loss = loss_of(model, inputs, targets)  # @stepover
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / math.log(2))  # @inspect losses
    assert abs(losses[0] - 8) < 0.01 and abs(losses[-1] - 3.106) < 0.01


def the_first_loss() -> None:
    """The first loss"""
    model, inputs, targets = a_model_and_a_batch(faulty=True)  # @stepover
    first = loss_of(model, inputs, targets).item() / math.log(2)  # @inspect first @stepover
    ask(
        f"Untrained, the loss should be $\\log_2 256 = 8$ bits. It is {first:.2f}. What is wrong?",
        "the head starts too large",
        choices=["the targets are shifted by one", "the learning rate", "the head starts too large", "nothing: noise"],
        why=(
            "Logits of spread 1 cost about ½ nat (natural logarithm, torch's unit), which is 0.72 bit. The model is "
            "confidently ignorant."
        ),
        slips={
            "the targets are shifted by one": "Untrained, it can't matter which target it misses.",
            "the learning rate": "No step was taken yet.",
            "nothing: noise": "30 seeds give 8.65 ± 0.25, and random targets 8.7, too.",
        },
    )
    other = loss_of(model, inputs, torch.randint(256, targets.shape)).item() / math.log(2)  # @inspect other @stepover
    spread = model(inputs).std().item()  # of the logits @inspect spread @stepover
    with torch.no_grad():
        model.head.weight *= 0.02
    mended = loss_of(model, inputs, targets).item() / math.log(2)  # @inspect mended @stepover
    assert abs(spread - 1) < 0.05 and round(first, 2) == 8.64 and abs(other - first) < 0.3 and abs(mended - 8) < 0.01
    text(f"Llama 3 has a vocabulary of 128,256: its first loss is $\\ln 128256 = {math.log(128_256):.1f}$ nats.")


@dataclass
class Run:
    """Everything that a run of training carries from one step to the next"""

    model: LanguageModel
    optimizer: optim.Optimizer
    generator: torch.Generator  # of the data
    steps: int  # planned: the schedule depends on it
    step: int = 0


def new_run(steps: int, where: str, seed: int = 0) -> Run:
    """A run at its first step"""
    torch.manual_seed(seed)
    model = LanguageModel(Shape()).to(where)
    groups = [
        {"params": [w for w in model.layers.parameters() if w.ndim == 2], "weight_decay": 0.1, "factor": 1.0},
        # 12 times the learning rate, which was found by trying
        {"params": [model.embedding.weight, model.head.weight], "weight_decay": 0.0, "factor": 12.0},
        {"params": [w for w in model.parameters() if w.ndim == 1], "weight_decay": 0.0, "factor": 1.0},
    ]
    optimizer = optim.AdamW(groups, betas=(0.9, 0.95), fused=True)  # v follows faster than with 0.999
    return Run(model, optimizer, torch.Generator().manual_seed(seed), steps)


def train_step(run: Run, tokens: np.ndarray, batch: int = 8, length: int = 64) -> Tensor:
    """One step of training; returns its loss"""
    for group in run.optimizer.param_groups:
        group["lr"] = 3e-3 * group["factor"] * learning_rate(run.step, run.steps, warm_up=10)
    where = run.model.head.weight.device
    inputs, targets = (part.to(where) for part in draw_batch(tokens, batch, length, run.generator))
    run.optimizer.zero_grad()
    loss = loss_of(run.model, inputs, targets)
    loss.backward()
    nn.utils.clip_grad_norm_(run.model.parameters(), max_norm=1.0)
    run.optimizer.step()
    run.step += 1
    return loss.detach()


def learning_rate(step: int, steps: int, warm_up: int) -> float:
    """Warm-up, then half a cosine to a tenth: the share of the peak rate"""
    if step < warm_up:
        return (step + 1) / warm_up
    done = (step - warm_up) / (steps - warm_up)
    return 0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2


def tokens_a_second() -> None:
    """Tokens a second are the MFU"""
    planned = MFU * H100_BF16 / (6 * 70.55e9)  # of our run, on each card @inspect planned [tokens/s]
    assert round(planned) == 935
    train, _ = lecture_tokens()  # @stepover
    run = new_run(steps=1000, where=device())  # @stepover
    whole, one_token = measure(
        lambda: train_step(run, train), lambda: train_step(run, train, batch=1, length=1), repeats=5, max_seconds=0.3
    )  # @stepover
    rate = 8 * 64 / whole.seconds  # of the small model, here @inspect rate [tokens/s]
    share = one_token.seconds / whole.seconds  # of a step, with one token for 512 @inspect share
    flops = flops_of_a_step(Shape(), 8)  # @stepover @hide
    peak = peak_flops("float32")  # @hide
    found = (
        "no peak is known for this machine" if peak is None else f"an MFU of {flops / whole.seconds / peak:.2f}"
    )  # @hide
    text(
        f"The small model trains on {rate:,.0f} tokens a second here, {found}. The same step with one token takes "
        f"{share:.0%} of that time."
    )


@torch.no_grad()
def bits_of_model(model: LanguageModel, tokens: np.ndarray) -> float:
    """Bits for each byte, of windows side by side"""
    context, where = model.shape.context, model.head.weight.device
    number = (len(tokens) - 1) // context
    ids = torch.from_numpy(tokens[: number * context + 1].astype(np.int64)).to(where)
    return loss_of(model, ids[:-1].view(number, context), ids[1:]).item() / math.log(2)


@torch.no_grad()
def numbers_right(model: LanguageModel) -> int:
    """How many of the 90 held-out numbers the model writes without an error after the text before them"""
    numbers = [n for n in range(100, 1000) if is_held_out(n)]
    texts = [", ".join(map(in_words, range(n - 3, n + 1))) + "," for n in numbers]
    seen = torch.tensor([list(t.encode())[-model.shape.context - 1 :] for t in texts])  # (90, S + 1)
    seen = seen.to(model.head.weight.device)
    as_likeliest = model(seen[:, :-1]).argmax(dim=-1) == seen[:, 1:]  # (90, S)
    written = zip(numbers, as_likeliest, strict=True)
    return sum(bool(bytes_right[-len(in_words(n)) - 1 :].all()) for n, bytes_right in written)


@torch.no_grad()
def continued(model: LanguageModel, prompt: bytes, length: int) -> str:
    """Write on after a prompt, always the most likely byte"""
    written = list(prompt)
    for _ in range(length):
        seen = torch.tensor([written[-model.shape.context :]], device=model.head.weight.device)  # (1, at most S)
        written.append(int(model(seen)[0, -1].argmax()))
    text_of = bytes(written).decode(errors="replace")
    return "".join(c if c.isascii() and c.isprintable() else "·" for c in text_of.replace("`", "'"))


def what_it_learns() -> None:
    """What it learns"""
    text("The text counts in words from 100 to 999. Does the model write the next number, for 90 that it never saw?")
    threads = torch.get_num_threads()  # @hide
    torch.set_num_threads(1)  # sums in one order: the same results each time @hide
    train, held_out = lecture_tokens()  # @stepover
    run = new_run(steps=200, where=device())  # @stepover
    prompt = b"four hundred twenty-one, four hundred twenty-two, "  # @hide
    untrained = continued(run.model, prompt, 40)  # @stepover @hide
    bits, right = [bits_of_model(run.model, held_out)], [numbers_right(run.model)]  # @stepover
    for _ in range(5):
        for _ in range(40):
            train_step(run, train)  # @stepover
        bits.append(bits_of_model(run.model, held_out))  # for each byte @stepover
        right.append(numbers_right(run.model))  # of 90 @stepover
    trained = continued(run.model, prompt, 110)  # @stepover @hide
    table([*zip(range(0, 201, 40), bits, right, strict=True)], ["step", "bits per byte, held out", "right, of 90"])
    assert abs(bits[0] - 8) < 0.05 and bits[-1] < 0.4
    assert right[0] == 0 and right[-1] >= 30  # it has learnt a rule
    torch.set_num_threads(threads)  # @hide
    both = f"```text\n{untrained}\n{trained}\n```"  # @hide
    text(f"Untrained and trained, they go on after 421 and 422; training had no 420 to 429:\n\n{both}")


def what_a_real_loop_adds() -> None:
    """What a real loop adds"""
    text(
        "**A schedule.** The learning rate rises over some steps (*warm-up*, while the optimizer's averages have seen "
        "few gradients), then falls along half a cosine, here to a tenth:"
    )
    rates = [learning_rate(step, steps=100, warm_up=10) for step in range(101)]  # @stepover
    plot({"learning rate / peak": rates}, x_label="step", y_label="share of the peak")
    assert rates.index(max(rates)) == 9 and math.isclose(rates[100], 0.1) and math.isclose(rates[55], (1 + 0.1) / 2)
    text(
        "**Clipping.** If the norm (the length) of all gradients, taken as one vector, exceeds a limit, they are "
        "scaled down to it: `nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)` between `backward` and `step`."
    )
    moved = {}
    for optimizer_class in (optim.SGD, optim.Adam):
        weight = nn.Parameter(torch.zeros(100))
        weight.grad = torch.full((100,), 0.25)  # of norm 2.5
        norm = nn.utils.clip_grad_norm_([weight], max_norm=1.0).item()  # before clipping @inspect norm
        optimizer_class([weight], lr=0.01).step()
        moved[optimizer_class.__name__] = weight.norm().item() / 0.01  # in learning rates @inspect moved
    assert norm == 2.5 and abs(moved["SGD"] - 1) < 1e-5 and abs(moved["Adam"] - math.sqrt(100)) < 1e-4
    text("SGD's step shrinks with the gradients. Adam's first does not, because it divides by the gradient's size.")


def a_loss_that_broadcasts() -> None:
    """Trap: a loss that broadcasts"""
    text("torch aligns two shapes from the right, and repeats a dimension of 1. Here every prediction is right:")
    y = torch.arange(256.0) / 16  # (B,)
    perfect = y.unsqueeze(1)  # (B, 1) @inspect perfect.shape y.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns once
        loss = nn.functional.mse_loss(perfect, y).item()  # @inspect loss
    assert (perfect - y).shape == (256, 256) and nn.functional.mse_loss(perfect.squeeze(-1), y).item() == 0 < loss
    text(
        "`mse_loss` compared each of 256 predictions with all 256 targets. Assert that the shapes are equal before it."
    )


# ---------------------------------------------------------------------------------------------------------------------
# 12 Mixed precision


def mixed_precision() -> None:
    """Mixed precision"""
    text(
        "Which numbers may have 16, 8 or 4 bits? Half the bits mean half the bytes to move and, up to B200, twice the "
        "peak. *Mixed precision* multiplies in few bits, and keeps in fp32 sums and what takes small steps."
    )
    note("Six minutes. Start with the hundred updates and take bets. Then one outlier and four bits.")
    updates_that_vanish()
    sixteen_stays_sixteen()
    a_scale_for_each_block()
    range_by_formula()  # @deeper
    autocast()  # @deeper
    loss_scaling()  # @deeper
    text(
        "**So**: few bits save time, not the 16 bytes; and the fewer the bits, the smaller the block that shares a "
        "scale. *To remember: 16 stays 16, 18 with fp32 gradients, 12 with Muon.*"
    )


def updates_that_vanish() -> None:
    """Updates that vanish"""
    text("A hundred updates of +0.001, to weights of 1 in fp32, in bf16, and in bf16 rounded up or down *at random*:")
    weight = torch.ones(1000)
    short, chance = weight.bfloat16(), weight.bfloat16()
    for _ in range(100):
        weight += 1e-3
        short += 1e-3
        chance += 2**-7 * (torch.rand(1000) < 1e-3 / 2**-7)  # up by bf16's step above 1, or not at all
    ends = weight[0].item(), short[0].item(), chance.float().mean().item()  # @inspect ends
    assert ends[1] == 1 and abs(ends[0] - 1.1) < 1e-5 and abs(ends[2] - 1.1) < 0.005
    assert short[0] + 2**-8 == short[0] - 2**-9 == 1  # 0.0039 up, 0.00195 down: lost
    assert short[0] + 3 * 2**-9 > 1 > short[0] - 3 * 2**-10  # half as much again: kept
    text(
        "Beside a bf16 weight of 1, an increase of at most 0.0039 or a decrease of at most 0.0019 is lost. Either an "
        "fp32 copy takes the updates, or rounding at random (**stochastic rounding**) keeps them on average."
    )


def sixteen_stays_sixteen() -> None:
    """So 16 stays 16"""
    per_parameter = {name: sum(RECIPES[name]) for name in [*RECIPES][:4]}  # @inspect per_parameter
    assert [*per_parameter.values()] == [16, 16, 18, 12]
    text(
        "With *autocast* (each product casts fp32 parameters to bf16) the parameter itself takes the updates: all "
        "fp32. Others keep bf16 parameters and a separate fp32 **master**. Megatron also adds up gradients in fp32: 18 "
        "bytes. Muon keeps one average: 12."
    )
    link(
        "https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/dist_optimizer.html",
        "Megatron Core: Distributed Optimizer",
        authors="NVIDIA",
    )


GRID = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # the magnitudes of fp4, E2M1


def in_fp4(x: Tensor, block: int, power_of_two: bool = False) -> Tensor:
    """Round to fp4, with a scale for each block of numbers"""
    rows = x.reshape(-1, block)
    scale = rows.abs().amax(dim=1, keepdim=True) / 6  # the largest of a block becomes 6
    scale = 2 ** scale.log2().ceil() if power_of_two else scale  # MX: a power of two (E8M0), here rounded up
    nearest = (rows.abs() / scale)[..., None].sub(GRID).abs().argmin(dim=-1)
    return (GRID[nearest] * rows.sign() * scale).reshape(x.shape)


def relative_error(found: Tensor, exact: Tensor) -> float:
    """How far off, in units of the exact result"""
    return ((found.double() - exact).norm() / exact.norm()).item()


def a_scale_for_each_block() -> None:
    """A scale for each block"""
    text(
        "A **scale** brings numbers into a format's range, and one outlier sets the scale of all that share it. The "
        "formats of today have one for each *block*: of 32 numbers (MXFP8, MXFP4) or of 16 (NVFP4)."
    )
    ask(
        "16,384 numbers, one of them 100, the others about 1. Which way turns all others into 0?",
        "fp4 with one scale",
        choices=["fp8 with one scale", "MXFP4, a scale per 32", "fp4 with one scale", "every way with one scale"],
        why=(
            "fp4's smallest number above 0 is 1/12 of its largest. With 100 on top, all below 4.2, half of that, "
            "become 0. fp8's own exponent reaches down to 1/230,000 of its largest."
        ),
        slips={
            "fp8 with one scale": "It has 4 bits of exponent and so a range of its own.",
            "MXFP4, a scale per 32": "Only the 32 numbers of the outlier's block lose.",
            "every way with one scale": "A floating format with more exponent carries its own range.",
        },
    )
    x = torch.cat([torch.tensor([100.0]), torch.randn(2**14 - 1)])  # one outlier
    errors = {block: relative_error(in_fp4(x, block)[32:], x[32:]) for block in (len(x), 32, 16)}  # @inspect errors
    mxfp4 = relative_error(in_fp4(x, 32, power_of_two=True)[32:], x[32:])  # powers of two as scales @inspect mxfp4
    assert round(errors[len(x)], 2) == 1 and errors[16] < errors[32] < 0.11 < mxfp4 < 0.12
    in_fp8 = (x * 448 / 100).to(torch.float8_e4m3fn).float() * 100 / 448  # one scale @inspect relative_error(in_fp8, x)
    ways = {
        "fp32": x[:64],
        "fp4, one scale": in_fp4(x[:64], 64),
        "fp4, a scale for each 16": in_fp4(x[:64], 16),
    }  # @hide
    plot(
        {name: numbers.clamp(-3, 3).tolist() for name, numbers in ways.items()},
        style="steps",
        title="The outlier (cut off at 3) and 63 numbers, in fp4: a scale for all, and one for each 16",
    )
    text(
        "NVFP4's scale of 8 bits per 16 numbers makes 4.5 bits a number. Hopper (H100) applies scales in software "
        "(DeepSeek-V3: blocks of 1 × 128 and 128 × 128, fp32 scales), Blackwell (B200) in hardware. Nemotron 3 Super "
        "(120 B, 12 B used, 25 T tokens) was pre-trained in NVFP4. Most products in linear layers use these formats; "
        "attention, norms, embedding and head stay wider."
    )
    link("https://arxiv.org/abs/2310.10537", "Microscaling Data Formats for Deep Learning", authors="Rouhani et al.")
    link(
        "https://arxiv.org/abs/2509.25149", "Pretraining Large Language Models with NVFP4", authors="NVIDIA", date=2025
    )
    link("https://arxiv.org/abs/2604.12374", "Nemotron 3 Super", authors="NVIDIA", date=2026)


def range_by_formula() -> None:
    """Range, by formula"""
    spans = {"E4M3": math.log10(448 * 2**10), "E5M2": math.log10(57344 * 2**17)}  # powers of ten @inspect spans
    size = 10 ** -(10 * torch.rand(2048, 1))  # even over ten powers of ten
    drawn = size.expand(-1, 32).flatten()  # 32 neighbours are alike

    def lost(dtype: torch.dtype, block: int) -> float:
        rows = drawn.reshape(-1, block)
        scale = rows.amax(dim=1, keepdim=True) / torch.finfo(dtype).max
        return ((rows / scale).to(dtype) == 0).float().mean().item()

    one_scale = lost(torch.float8_e4m3fn, len(drawn)), lost(torch.float8_e5m2, len(drawn))  # @inspect one_scale
    in_blocks = lost(torch.float8_e4m3fn, 32)  # @inspect in_blocks
    assert 0.42 < one_scale[0] < 0.46 and one_scale[1] < 0.02 and in_blocks == 0
    text(
        "From its largest number down to what becomes 0, E4M3 spans 5.7 powers of ten, E5M2 9.9. Of gradients even "
        f"over ten powers, E4M3 with one scale turns {one_scale[0]:.0%} into 0, E5M2, with a bit of mantissa less, "
        f"{one_scale[1]:.1%}. With a scale for 32 neighbours that are alike, E4M3 loses none: the recipe below uses it "
        "for all numbers. (It rounds scales up; as the MX standard rounds them, training could diverge.)"
    )
    link("https://arxiv.org/abs/2506.08027", "Recipes for Pre-training LLMs with MXFP8", authors="NVIDIA", date=2025)


def autocast() -> None:
    """Autocast: which operation in which format"""
    text(
        "`with torch.autocast(device, dtype=torch.bfloat16):` around the forward pass chooses a format for each "
        "operation. Products are cast to bf16. Operations that lose too much are cast to fp32. All others keep their "
        "input's format; with two formats, the wider one. Here `x` is fp32 and `h` is bf16, on the CPU (a GPU also "
        "sums, normalizes and takes softmax in fp32):"
    )
    x, h, labels = torch.rand(4, 4), torch.rand(4, 4).bfloat16(), torch.zeros(4, dtype=torch.int64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        results = {
            "x @ x": x @ x,
            "relu(h)": h.relu(),
            "h + x": h + x,
            "sum(h)": h.sum(),
            "cross_entropy(h, labels)": cross_entropy(h, labels),
        }
    formats = {name: str(result.dtype).removeprefix("torch.") for name, result in results.items()}  # @inspect formats
    assert formats["x @ x"] == formats["relu(h)"] == "bfloat16"
    assert formats["h + x"] == formats["cross_entropy(h, labels)"] == "float32"
    link("https://docs.pytorch.org/docs/stable/amp.html", "torch.amp", authors="PyTorch")


def loss_scaling() -> None:
    """Loss scaling, for fp16 only"""
    weight = torch.ones(4, dtype=torch.float16, requires_grad=True)
    (weight * 1e-8).sum().backward()  # @inspect weight.grad
    assert weight.grad.tolist() == [0, 0, 0, 0]
    ((weight * 1e-8).sum() * 1024).backward()
    gradient = weight.grad.float() / 1024  # divided in fp32 @inspect gradient
    assert abs(gradient[0].item() / 1e-8 - 1) < 0.01
    text("`torch.amp.GradScaler` finds the factor. bf16 has fp32's range and needs no factor.")


# ---------------------------------------------------------------------------------------------------------------------
# 13 The memory of a training step


def memory_of_a_training_step() -> None:
    """The memory of a training step"""
    text(
        "How many bytes does a training step hold, and when? Parameters, gradients and states are 16 bytes per "
        "parameter. **Activations**, the results of the forward pass that the backward pass needs, grow with the "
        "tokens."
    )
    note(
        "Eight minutes. Let the room count the saved tensors of the tiny model by hand. Leave the two steps on screen."
    )
    autograd_keeps_inputs()
    two_steps()
    a_layer_keeps()
    from_how_many_tokens()  # @deeper
    largest_tensor_of_all()  # @deeper
    text(
        "**So**: one sequence of our run leaves 217 GB, and the peak is in the second backward pass. *To remember: "
        "40.5 bytes per token, width and layer; run two steps before you believe that it fits.*"
    )


def autograd_keeps_inputs() -> None:
    """Autograd keeps inputs"""
    text(
        "The gradient of a layer's weights needs the layer's *input*. Autograd hands each tensor that it saves to a "
        "hook:"
    )
    tiny = nn.Sequential(*(nn.Linear(4, n, bias=False) for n in (4, 4, 1)))
    x, y = torch.randn(2, 4), torch.randn(2, 1)
    parameters, saved = {p.data_ptr() for p in tiny.parameters()}, []

    def keep(t: Tensor) -> Tensor:
        if t.data_ptr() not in parameters:
            saved.append(t.numel())
        return t

    with saved_tensors_hooks(keep, lambda t: t):
        nn.functional.mse_loss(tiny(x), y)
    assert saved == [8, 8, 8, 2, 2]  # @inspect saved
    text(
        "The inputs of three layers, and the predictions and targets of the loss. Under `torch.no_grad()` it is "
        "nothing."
    )


def saved_by_autograd(forward: Callable[[], object], held: Any = ()) -> int:
    """Bytes that a forward pass saves for the backward pass, each storage once, without those of `held`"""
    own = {t.untyped_storage().data_ptr() for t in held}
    saved: dict[int, Tensor] = {}  # by storage

    def keep(t: Tensor) -> Tensor:
        if t.untyped_storage().data_ptr() not in own:
            saved.setdefault(t.untyped_storage().data_ptr(), t.detach())
        return t.detach()  # an alias without a graph: the tensor itself could refer to its graph, a cycle

    with saved_tensors_hooks(keep, lambda t: t):
        forward()
    return sum(t.untyped_storage().nbytes() for t in saved.values())


def saved_by_layer(shape: Shape, tokens: int) -> int:
    """Bytes that a layer keeps: bf16, every operation apart, scores not kept"""
    D, F = shape.width, shape.hidden
    numbers = 2 * D + 2 * D  # inputs and outputs of two norms
    numbers += D + 2 * D * shape.kv_heads // shape.heads + D  # queries, keys and values, their mixture
    numbers += 4 * F  # gate, up, silu(gate), their product
    return 2 * numbers * tokens


def a_layer_keeps() -> None:
    """A layer keeps 40.5 bytes per token and width"""
    text(
        "For each token the two norms keep $4D$ numbers, attention $2.25D$ and the SwiGLU $4F = 14D$: $20.25D$ of 2 "
        "bytes (see section 8's drawing). **FlashAttention** never writes the $S \\times S$ scores; without it they "
        "would also be kept. For our run, one sequence of 8,192 tokens in 80 layers:"
    )
    each = saved_by_layer(LLAMA, tokens=1) / LLAMA.width  # bytes per token and width @inspect each
    sequence_gb = LLAMA.layers * saved_by_layer(LLAMA, tokens=8192) / 1e9  # @inspect sequence_gb [GB]
    logits_gb = 8192 * 128_256 * 4 / 1e9  # fp32; the loss holds three of these at once @inspect logits_gb [GB]
    assert (each, round(sequence_gb), round(logits_gb, 1)) == (40.5, 217, 4.2)
    text("Counted on a small layer of the same proportions, in bf16:")
    small = Shape(width=512, heads=16, kv_heads=2, hidden=1792)
    layer = Layer(small).bfloat16()  # @stepover
    x = torch.randn(2, 64, 512, dtype=torch.bfloat16)
    counted = saved_by_autograd(lambda: layer(x), layer.parameters()) / (2 * 64 * 512)  # @inspect counted @stepover
    assert 40.5 <= counted < 41.5  # and RoPE's angles, 1 / RMS, and each head's sum of the softmax
    text(
        "That is *unfused*; one kernel for SwiGLU keeps gate, up and product (33.5), or gate and up only (26.5). "
        "GPT-3's layer kept 34."
    )
    link(
        "https://arxiv.org/abs/2205.05198", "Reducing Activation Recomputation", authors="Korthikanti et al.", date=2022
    )


def two_steps() -> None:
    """Two steps, operation by operation"""
    ask(
        "Two steps of the small model, from a fresh optimizer, with 512 tokens each. When is most memory in use?",
        "in the second backward pass",
        choices=[
            "at the end of the first forward pass",
            "in the first backward pass",
            "in the second backward pass",
            "in the optimizer's step",
        ],
        why="All activations of a forward pass are there, and the states that the first step made.",
        slips={
            "at the end of the first forward pass": "The optimizer has no states yet, and gradients are to come.",
            "in the first backward pass": "The optimizer has no states yet.",
            "in the optimizer's step": "The activations are gone by then. (True with few tokens.)",
        },
    )
    first, second, state_bytes = bytes_of_two_steps(batch=8)  # @stepover
    alive = {
        name: [n / 2**20 if i % 3 == phase else math.nan for i, part in enumerate([*first, *second]) for n in part]
        for phase, name in enumerate(("forward", "backward", "optimizer"))
    }  # @hide
    plot(alive, x_label="operation", y_label="MiB", style="steps", title="Bytes alive in two steps of training")
    peaks = [max(max(phase) for phase in step) for step in (first, second)]  # @inspect peaks [B]
    assert [max(step[1]) for step in (first, second)] == peaks
    assert peaks[1] - peaks[0] == state_bytes and round(state_bytes / 459_392, 2) == 8  # bytes per parameter


def bytes_of_two_steps(batch: int) -> tuple[list[list[int]], list[list[int]], int]:
    """Bytes alive in forward pass, backward pass and optimizer of two steps; bytes of the optimizer's states

    `bytes_alive`, of the tools, runs each phase and notes the bytes of all tensors after each of its operations."""
    model = LanguageModel(Shape())
    inputs, targets = draw_batch(lecture_tokens()[0], batch, model.shape.context, torch.Generator().manual_seed(0))
    optimizer = optim.AdamW(model.parameters(), foreach=False)  # one parameter after another
    losses: list[Tensor] = []

    def forward() -> None:
        optimizer.zero_grad()
        losses.append(loss_of(model, inputs, targets))

    def backward() -> None:
        losses.pop().backward()

    phases = [forward, backward, optimizer.step]
    alive = bytes_alive([inputs, targets, *model.parameters()], *phases, *phases)
    state_bytes = sum(t.nbytes for state in optimizer.state.values() for t in state.values())  # and step counters
    return alive[:3], alive[3:], state_bytes


def from_how_many_tokens() -> None:
    """From how many tokens on do activations outweigh the rest?"""
    crossing = 16 * 12.75 * 8192 / 40.5  # @hide
    ask(
        "Without sharding: from how many tokens on do activations outweigh the 16 bytes per parameter, in a layer of "
        "Llama 3 70B?",
        crossing,
        unit="tokens",
        within=0.03,
        hint="A layer has 12.75 D² parameters, and keeps 40.5 bytes per token and width.",
        why="40.5 · T · D = 16 · 12.75 · D², so T = 5.0 D.",
        slips={
            crossing / 16: "You forgot the 16 bytes.",
            crossing / 80: "80 layers' activations against one layer's bytes.",
        },
    )
    tokens = 16 * 12.75 * 8192 / 40.5  # 12.75 D² parameters in a layer (section 8) @inspect tokens
    assert round(tokens) == 41_263
    text(f"About {tokens:,.0f} tokens: few cards ever see so many at once.")


def largest_tensor_of_all() -> None:
    """The largest tensor of all"""
    with torch.device(device()):
        h, w = torch.randn(64, 16), torch.randn(16, 2048, requires_grad=True)
        target = torch.randint(2048, (64,))
    text("Two ways to write the head and its loss, where `h @ w` are the logits of `h`:")

    def inline() -> None:
        cross_entropy(h @ w, target).backward()

    def in_a_variable() -> None:
        logits = h @ w  # alive to the end of the function
        cross_entropy(logits, target).backward()

    held_bytes, logits_bytes = h.nbytes + w.nbytes + target.nbytes, 4 * 64 * 2048
    copies = {}  # tensors like the logits, at the peak @inspect copies
    for step in (inline, in_a_variable):
        copies[step.__name__] = (count(step).peak_bytes - held_bytes) / logits_bytes  # @inspect copies @stepover
    assert 3 <= copies["inline"] < 3.1 and 0.99 < copies["in_a_variable"] - copies["inline"] < 1.01
    text(
        "Three: logarithms of probabilities, and two gradients. A variable keeps the logits too. *Chunked* "
        "cross-entropy takes a part of the tokens at a time."
    )


# ---------------------------------------------------------------------------------------------------------------------
# 14 Using less memory


def using_less_memory() -> None:
    """Using less memory"""
    text(
        "217 GB of activations and 1.13 TB of the rest do not fit into 80 GB. Which term shrinks, and at which price? "
        "The first cut is nearly free: a batch comes as **micro-batches**, down to one sequence."
    )
    note("Nine minutes. Ask first which term is the largest. Then ZeRO's bars, and the network's roofline.")
    ask(
        "One sequence of 8,192 tokens on each card leaves 217 GB. What first?",
        "keep the layers' inputs only, run layers again",
        choices=[
            "shard parameters, gradients and states",
            "keep the layers' inputs only, run layers again",
            "smaller micro-batches",
            "8-bit states",
        ],
        why="Its bytes are activations, and one sequence cannot be cut into micro-batches.",
        slips={
            "shard parameters, gradients and states": "These are other bytes: the 1.13 TB.",
            "smaller micro-batches": "One sequence is the smallest.",
            "8-bit states": "States are a part of the 1.13 TB.",
        },
    )
    zero()
    checkpoints()
    the_network_has_a_roofline()
    half_the_tokens()
    micro_batches()  # @deeper
    a_map_of_the_rest()  # @deeper
    what_fits()  # @deeper
    text(
        "**So**: checkpoints leave 10.7 GB of a sequence for at most a third more FLOPs, ZeRO-3 leaves 1.1 GB on each "
        "of 1,024 cards, and 990 tokens a card hide its traffic. *To remember: tokens pay for the traffic.*"
    )


def gradients_of(model: nn.Module, fill: Callable[[], object]) -> Tensor:
    """All gradients that `fill` leaves in `.grad`, in one vector"""
    model.zero_grad()
    fill()
    return torch.cat([w.grad.flatten() for w in model.parameters() if w.grad is not None])


def zero() -> None:
    """ZeRO: a shard on each card"""
    text(
        "In **data parallelism** each card holds the whole model and processes a part of the batch; an *all-reduce* "
        "gives every card the sum of the gradients. **ZeRO** leaves each of $n$ cards a *shard* of the states (stage "
        "1), of the gradients too (2), and of the parameters too (3; PyTorch's `fully_shard`)."
    )
    n = 8
    held = {  # bytes per parameter and card, by stage
        "parameters": [2, 2, 2, 2 / n],
        "gradients": [2, 2, 2 / n, 2 / n],  # in fp32 4: 18 in all, and 6 + 12 / n in stage 1
        "master and states": [12, 12 / n, 12 / n, 12 / n],
    }
    stages = [sum(parts) for parts in zip(*held.values(), strict=True)]  # @inspect stages
    title = "Bytes per parameter on each of 8 cards: each stage shards one part more"  # @hide
    plot(held, x=["none", "stage 1", "stage 2", "stage 3"], y_label="bytes per parameter", style="stacked", title=title)
    ours_gb = 16 * 70.55e9 / GPUS / 1e9  # stage 3 on each of our cards @inspect ours_gb [GB]
    assert stages == [16, 5.5, 3.75, 2] and round(ours_gb, 2) == 1.10
    link("https://arxiv.org/abs/1910.02054", "ZeRO", authors="Rajbhandari et al.", date=2019)


def checkpoints() -> None:
    """Activation checkpoints"""
    text(
        "`checkpoint` keeps a layer's input, forgets the rest, and runs the layer again in the backward pass. The "
        "model of section 8 does so if `recompute` is set:"
    )
    model, inputs, targets = a_model_and_a_batch()  # @stepover

    def step() -> None:
        loss_of(model, inputs, targets).backward()

    plain, plain_flops = gradients_of(model, step), count(step).flops  # @stepover
    model.recompute = True
    again, more = gradients_of(model, step), count(step).flops / plain_flops  # @inspect more @stepover
    assert torch.equal(plain, again) and 1.15 < more < 4 / 3
    inputs_gb = 80 * 8192 * 8192 * 2 / 1e9  # of our run: an input for each layer @inspect inputs_gb [GB]
    assert round(inputs_gb, 1) == 10.7
    text(
        f"The same gradients to the bit, {more:.2f} times the FLOPs. A second forward pass would make 4/3; but the "
        "head is not run again (1.31), and layers stop before their last product, `down` (1.24). So at an MFU of 0.4 "
        "with checkpoints the card works at up to 0.53. The other way: **tensor and sequence parallelism** cut "
        "matrices and sequences over 8 cards, and leave each an eighth of the activations, 27 GB."
    )
    link(
        "https://arxiv.org/abs/1604.06174",
        "Training Deep Nets with Sublinear Memory Cost",
        authors="Chen et al.",
        date=2016,
    )


def tokens_needed(moved_bytes: float, network: float, speed: float) -> float:
    """Tokens per card and micro-batch whose compute hides the traffic; bytes per parameter, bytes/s, FLOP/s"""
    return moved_bytes / network * speed / 6


def the_network_has_a_roofline() -> None:
    """The network has a roofline"""
    text(
        "ZeRO's stage 3 gathers each parameter twice and sums its gradient: 2 + 2 + 2 bytes per parameter and "
        "micro-batch, 2 + 2 + 4 if gradients are summed in fp32. $T$ tokens do $6T$ FLOPs with it. So compute covers "
        "the traffic from $T$ = bytes / network · speed / 6 on. A server of 8 H100s fetches each parameter once, "
        "through 8 network adapters of 50 GB/s (400 Gb/s), and its cards share it over faster links:"
    )
    speed = MFU * H100_BF16  # while it computes: at 0.55 to 0.7 of the peak it needs 1,360 to 1,730 tokens
    needed = {
        "H100, 8 × 400 Gb/s": tokens_needed(6, 400e9, speed),
        "and fp32 gradients": tokens_needed(8, 400e9, speed),
        "B200, the same network": tokens_needed(6, 400e9, MFU * 2250e12),
        "H100, one adapter alone": tokens_needed(6, 50e9, speed),
    }  # @inspect needed @stepover
    assert [round(t) for t in needed.values()] == [990, 1319, 2250, 7916]
    tokens = [2 ** (k / 4) for k in range(28, 57)]  # @hide
    plot(
        {name: [min(1, t / t0) for t in tokens] for name, t0 in needed.items()},
        x=tokens,
        x_label="tokens per card and micro-batch",
        y_label="share of the traffic that compute hides",
        x_scale="log",
        title="Sharding trades memory for traffic, and tokens pay for the traffic: our run has 8,192",
    )


def half_the_tokens() -> None:
    """Half the tokens"""
    ask(
        "A card has micro-batches of 1,500 tokens. You halve them to 750, to save memory. The time per token?",
        tokens_needed(6, 400e9, MFU * H100_BF16) / 750,
        within=0.05,
        unit="times",
        why="Each micro-batch gathers all parameters again, and 750 tokens cannot cover it: 990 / 750 = 1.3.",
        slips={
            1: "Only the FLOPs stay the same.",
            2: "Half of the traffic was hidden before.",
            0.5: "Less memory is not less work.",
        },
    )


def micro_batches() -> None:
    """Micro-batches"""
    text("`backward` adds to the gradients that are there, so a batch can come in pieces, one after the other:")
    model, inputs, targets = a_model_and_a_batch()  # @stepover

    def step(pieces: int) -> None:
        for x, y in zip(inputs.chunk(pieces), targets.chunk(pieces), strict=True):
            (loss_of(model, x, y) / pieces).backward()

    whole = gradients_of(model, lambda: step(1))  # @stepover
    quarters = gradients_of(model, lambda: step(4))  # @stepover
    apart = relative_error(quarters, whole.double())  # @inspect apart @stepover
    assert apart < 1e-6
    micro = [(inputs[: 8 // n], targets[: 8 // n]) for n in (1, 4)]  # all windows, and a quarter
    kept = [saved_by_autograd(partial(loss_of, model, *some), model.parameters()) for some in micro]  # @stepover
    flops = [count(partial(step, n)).flops_by_operator["aten.mm"] for n in (1, 4)]  # @inspect flops [FLOP] @stepover
    assert flops[0] == flops[1] and kept[1] < kept[0] / 3.9  # @inspect kept [B]
    text(
        "Activations are divided, FLOPs stay, and gradients are equal up to rounding. (More sums: one more reason for "
        "fp32 gradients, and for 18 bytes.)"
    )


def a_map_of_the_rest() -> None:
    """A map of the rest"""
    techniques = [
        ("FlashAttention, fused kernels", "activations", "special kernels"),
        ("tensor parallelism: each matrix cut", "all but the norms'", "four exchanges of activations per layer"),
        ("sequence parallelism: norms cut along S", "activations of norms", "none, beside tensor parallelism"),
        ("context parallelism: a part of each sequence", "activations", "keys and values in a ring"),
        ("expert parallelism: some experts per card", "parameters, gradients, states", "all-to-all per layer"),
        ("pipeline parallelism: some layers per card", "parameters, gradients, states", "idle while it fills"),
        ("offloading to the CPU's memory", "states, parameters", "transfers each step"),
        ("8-bit states; Adafactor: v by row and column", "states", "rounding; an approximation"),
        ("LoRA: thin products beside frozen matrices", "gradients, states", "less can be learned"),
    ]  # @hide
    table(techniques, ["technique", "makes smaller", "price"])
    bubble = (8 - 1) / (32 + 8 - 1)  # idle share of a pipeline: 8 stages, 32 micro-batches @inspect bubble
    fall = 1 - 6245.6 / 10903.32  # of tokens/s per card, tensor parallelism over 16 instead of 8 cards @inspect fall
    assert (round(bubble, 2), round(fall, 2)) == (0.18, 0.43)
    text(
        "In tensor parallelism the next product waits for each exchange, so it stays inside the fast links: a server "
        "of 8 H100s (450 GB/s each way), or a rack of 72 B200s (900). Measured with a 3B model over a server's "
        "edge, from 8 to 16 cards, tokens/s per card fall by 43%."
    )
    link(
        "https://huggingface.co/spaces/nanotron/ultrascale-playbook",
        "The Ultra-Scale Playbook",
        authors="Hugging Face",
        date=2025,
    )


def what_fits() -> None:
    """What fits"""
    text(
        "Together: 16 bytes per parameter (here $12D^2$ in a layer, and one matrix for embedding and head), section "
        "13's activations, and three tensors like the logits. Without FlashAttention each score of each head, 128 "
        "wide, takes 2 bytes more."
    )
    example = {"layers": 24, "width": 2048, "vocabulary": 50257, "batch": 8, "length": 2048, "memory": H100_MEMORY}
    totals = []  # in GB: with each layer's input only, with all activations, with the scores too
    for kept in (0, 1, 2):
        step = training_memory(**example, saved=40.5, scores=2, kept=kept)  # @stepover
        totals.append(round(step["total"] / 1e9, 1))  # @inspect totals
    assert totals == [32.5, 63.5, 89.2] and step["apart"] == step["total"] - H100_MEMORY and not step["fits"]
    assert round(step["model"] / step["billions"] / 1e9, 1) == 16
    explore(
        training_memory,
        "{billions} parameters: {total}. {fits?It fits into {memory}, with {apart} to spare|It does not fit into "
        "{memory}: {apart} too much}.",
        title="The memory of a training step, and what fits",
        inputs={
            "layers": (24, 1, 200),
            "width": (2048, 128, 32768),
            "vocabulary": (50257, 256, 300_000),
            "batch": (8, 1, 4096),
            "length": (2048, 1, 1_000_000),
        },
        menus={
            "layer": {
                "Llama 3 70B's": {"saved": 40.5, "scores": 2},
                "with a fused SwiGLU": {"saved": 33.5, "scores": 2},
                "GPT-3's": {"saved": 34, "scores": 5},
            },
            "kept": {
                "activations, with FlashAttention": {"kept": 1},
                "the scores, too": {"kept": 2},
                "each layer's input": {"kept": 0},
            },
            "GPU": gpus_of_the_table(),
        },
        names={
            "batch": "sequences",
            "length": "tokens in each",
            "billions": "parameters",
            "model": "parameters, gradients, states",
            "apart": "to spare, or too much",
        },
        units={name: "B" for name in ("model", "logits", "activations", "total", "apart", "memory", "saved", "scores")}
        | {"billions": "billion"},
        stack=("model", "logits", "activations"),
        limit="memory",
        across="kept",
    )  # @stepover


def training_memory(
    layers: float,
    width: float,
    vocabulary: float,
    batch: float,
    length: float,
    saved: float,
    scores: float,
    kept: float,
    memory: float,
) -> dict[str, float]:
    """What a step holds at its peak: 16 bytes a parameter, logits, activations; heads are 128 wide

    A layer has 12 width² parameters and saves `saved` bytes for each token and unit of width, and `scores` bytes for
    each of attention's scores if `kept` is 2. If it is 0, a layer is computed again when the logits are gone, in their
    place; only what is larger than they is added."""
    parameters = 12 * layers * width * width + vocabulary * width
    one = batch * length * (saved * width + (scores if kept > 1 else 0) * width / 128 * length)
    logits = 3 * 4 * batch * length * vocabulary
    activations = layers * 2 * batch * length * width + max(one - logits, 0) if kept < 1 else layers * one
    total = 16 * parameters + logits + activations
    return {
        "billions": parameters / 1e9,
        "model": 16 * parameters,
        "logits": logits,
        "activations": activations,
        "total": total,
        "fits": total <= memory,
        "apart": abs(memory - total),
    }


# ---------------------------------------------------------------------------------------------------------------------
# 15 Saving and resuming (to read alone)


def saving_and_resuming() -> None:
    """Saving and resuming"""
    text(
        "*To read alone.* Which parts must a run save, and how often? If a resumed run ends with "
        "**the same bits** as an undisturbed one, no part was forgotten."
    )
    what_a_checkpoint_holds()
    with tempfile.TemporaryDirectory() as folder:
        killed_and_resumed(Path(folder))
    how_often_to_save()
    text(
        "**So**: save model, optimizer, step, position in the data and every random generator; then kill a run on "
        "purpose and compare bits. *To remember: save every $\\sqrt{2Ms}$ seconds.*"
    )


def what_a_checkpoint_holds() -> None:
    """What a checkpoint holds"""
    text("A *checkpoint*, here, is a file: parameters and states, 4 + 8 bytes per parameter with AdamW in fp32, and:")
    small = [
        ("step, learning-rate scheduler", "they decide the next learning rate"),
        ("loss scale", "only with fp16 (section 12)"),
        ("position in the data", "or some examples are seen twice"),
        ("random generators", "of Python, NumPy, torch and each GPU"),
    ]  # @hide
    table(small, ["part", "why"])


def killed_and_resumed(folder: Path) -> None:
    """Killed and resumed"""
    text(
        "One run takes eight steps. Another takes four and saves. A new model, from another seed, loads the file and "
        "takes the other four:"
    )
    threads = torch.get_num_threads()  # @hide
    torch.set_num_threads(1)  # sums in one order: the same bits @hide
    train, _ = lecture_tokens()  # @stepover
    start = partial(new_run, steps=8, where="cpu")  # makes a model, its optimizer and its generator
    whole, run = start(), start()  # @stepover
    expected = [train_step(whole, train).item() for _ in range(8)]  # the losses @inspect expected @stepover
    before = [train_step(run, train).item() for _ in range(4)]  # @stepover
    parts = {"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict()}
    parts |= {"generator": run.generator.get_state(), "step": run.step}
    path = folder / "model.pt"
    save_atomically(parts, path)  # @stepover
    del run, parts
    resumed, saved = start(seed=1), torch.load(path)  # a new model, and a dictionary: nothing is restored yet @stepover
    resumed.model.load_state_dict(saved["model"])
    resumed.optimizer.load_state_dict(saved["optimizer"])
    resumed.generator.set_state(saved["generator"])
    resumed.step = saved["step"]
    after = [train_step(resumed, train).item() for _ in range(4)]  # @inspect after @stepover
    assert before + after == expected and abs(expected[-1] - 1.423) < 0.005
    assert all(torch.equal(a, b) for a, b in zip(resumed.model.parameters(), whole.model.parameters(), strict=True))
    torch.set_num_threads(threads)  # @hide
    size = path.stat().st_size / 459_392  # bytes per parameter @inspect size
    assert 12 < size < 12.3


def save_atomically(checkpoint: dict[str, Any], path: Path) -> None:
    """Write a checkpoint so that at every moment `path` holds a whole one, even if the power fails"""
    part = path.with_suffix(".part")  # the same folder, so the same file system
    with part.open("wb") as file:
        torch.save(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())  # wait until its bytes are on the disk
    os.replace(part, path)  # one step: the name means the old file, then the new one


def share_lost(interval: float, save_time: float, between_failures: float) -> float:
    """The share of time that goes into saving, and into repeating lost work: half an interval a failure"""
    return save_time / interval + interval / 2 / between_failures


def how_often_to_save() -> None:
    """How often to save"""
    text(
        r"Saving every $\tau$ seconds costs $s/\tau$ of the time if a save takes $s$ seconds; failures come every $M$ "
        r"seconds, and each loses half an interval, $\tau/(2M)$ of the time. The sum is least where both are equal: "
        r"$\tau = \sqrt{2Ms}$. Llama 3's 405B run had 419 unexpected interruptions in 54 days. Assume $s$ = 30 seconds."
    )
    between_failures, save_time = 54 * SECONDS_PER_DAY / 419, 30.0  # seconds
    interval = math.sqrt(2 * between_failures * save_time)
    ask(
        "After how many minutes should the run save again?",
        interval / 60,
        unit="min",
        within=0.03,
        hint="In seconds: $M$ = 54 × 86,400 / 419.",
        why="Every 817 seconds, saving costs as much as repeating: 3.7% of the time each.",
        slips={
            60: "Hourly saves lose 17%, since a failure repeats half an hour of work.",
            1: "With a save each minute, half of the time is saving.",
            interval / math.sqrt(2) / 60: "The 2 is missing, since a failure loses half an interval.",
        },
    )
    lost = {tau / 60: share_lost(tau, save_time, between_failures) for tau in (60.0, interval, 3600.0)}  # @inspect lost
    assert {round(tau, 1): round(share, 2) for tau, share in lost.items()} == {1: 0.5, 13.6: 0.07, 60: 0.17}  # minutes
    minutes = [interval * 2 ** (k / 8) / 60 for k in range(-24, 25)]  # @hide
    shares = [share_lost(60 * tau, save_time, between_failures) for tau in minutes]  # @stepover @hide
    title = "Least where saving and repeating cost the same, and flat there"  # @hide
    plot({"time lost": shares}, x=minutes, x_label="minutes between saves", y_label="share", x_scale="log", title=title)
    assert min(shares) == shares[24]  # @hide
    link("https://doi.org/10.1145/361147.361115", "The optimum checkpoint interval", authors="John W. Young", date=1974)


# ---------------------------------------------------------------------------------------------------------------------
# 16 Size the run


def size_the_run() -> None:
    """Size the run"""
    text("Llama 3 70B, 15 trillion tokens, 1,024 H100s: how long, does it fit, and what limits it?")
    note("Five minutes. Add the sum up together. Hand out the homework at the start of the talk.")
    the_sum()
    longer_sequences()
    newer_cards()
    six_ideas_again()
    rules_of_thumb()  # @deeper
    homework()  # @deeper
    text(
        "**So**: 33 GB of 80, 8.8 s a step with 1.1 s of traffic under it, about 180 days: it fits; compute limits it."
    )


def the_sum() -> None:
    """The sum"""
    text("On each card, with ZeRO-3, a checkpoint per layer and one sequence of 8,192 tokens, in GB:")
    N, D, L, V, S = 70.55e9, 8192, 80, 128_256, 8192
    held = {
        "shards: 16 N / 1024 (sections 1, 14)": 16 * N / GPUS,
        "two gathered layers and a gradient, bf16 (8, 14)": 3 * 12.75 * D**2 * 2,
        "CUDA context and buffers (assumed)": 3e9,
        "a checkpoint per layer (14)": L * S * D * 2,
        "three fp32 logits, or one layer run again, which is smaller (13)": 3 * S * V * 4,
    }
    table([(part, size / 1e9) for part, size in held.items()], ["part", "GB"])
    total_gb = sum(held.values()) / 1e9  # @inspect total_gb [GB]
    compute_s = 6 * N * S / (MFU * H100_BF16)  # a step @inspect compute_s [s]
    traffic_s = 6 * N / 400e9  # under it (14) @inspect traffic_s [s]
    days = 6 * N * TOKENS / (GPUS * MFU * H100_BF16) / SECONDS_PER_DAY  # section 1 took 70e9 @inspect days [d]
    assert (round(total_gb, 1), round(compute_s, 2), round(traffic_s, 2), round(days)) == (32.6, 8.76, 1.06, 181)
    second_gb = (L * S * D * 2 + 3 * S * V * 4) / 1e9  # for a second sequence @inspect second_gb [GB]
    text(f"A second sequence fits as well: {total_gb + second_gb:.0f} GB. A step has 8.4 M tokens.")


def longer_sequences() -> None:
    """Longer sequences"""

    def flops(length: int) -> float:  # for a token: 6 for each weight of a product, and attention's 12 LDS
        return 6 * (70.55e9 - LLAMA.vocabulary * LLAMA.width) + 12 * LLAMA.layers * LLAMA.width * length

    ratio = flops(131_072) / flops(LLAMA.context)
    ask(
        "The same tokens in sequences of 131,072 instead of 8,192. How many times as many days?",
        ratio,
        unit="times",
        within=0.03,
        why="Attention, 12LDS, grows from 0.15 to 2.5 times the weights' FLOPs.",
        slips={1: "6ND does not know S; attention does.", 16: "Only attention's part grows so."},
    )
    assert round(ratio, 2) == 3.01


def newer_cards() -> None:
    """Newer cards"""
    faster = 2250e12 / H100_BF16 * 2000 / tokens_needed(6, 400e9, MFU * 2250e12)  # @stepover @hide
    ask(
        "On B200s, with 2.27 times the peak, the same network and 2,000 tokens a card: how much faster is a step than "
        "on H100s?",
        faster,
        unit="times",
        within=0.03,
        why="2,000 tokens cannot cover the traffic, for which 2,250 are needed: the network is the limit.",
        slips={
            2250e12 / H100_BF16: "The roof moved, the slope did not.",
            8 / 3.35: "Memory bandwidth is not the limit of large products.",
            1: "It was compute-bound before: 990 tokens are enough for H100s.",
        },
    )
    share = 2000 / tokens_needed(6, 400e9, MFU * 2250e12)  # of what hides the traffic @inspect share @stepover
    assert round(share * 2250e12 / H100_BF16, 1) == 2.0


def six_ideas_again() -> None:
    """The six ideas, to draw from memory"""
    ideas = [
        (
            "6ND: a token meets a weight three times",
            "[1](01-napkin-math.html#where-the-6-comes-from)",
            "6.3e24 FLOPs, 180 days",
        ),
        (
            "16 bytes a parameter; 18, 12",
            "[1](01-napkin-math.html#what-is-the-largest-model-that-8-h100s-can-train)",
            "1.13 TB",
        ),
        ("the roofline", "[6](06-the-roofline.html#measured-points-and-two-roofs)", "295 FLOP/byte"),
        (
            "activations; the second step",
            "[13](13-memory-of-a-training-step.html#two-steps-operation-by-operation)",
            "217 GB, then 10.7",
        ),
        ("few bits need range and a scale", "[12](12-mixed-precision.html#a-scale-for-each-block)", "4.5 bits"),
        (
            "sharding trades memory for traffic",
            "[14](14-using-less-memory.html#the-network-has-a-roofline)",
            "990 tokens",
        ),
    ]  # @hide
    table(ideas, ["idea", "its figure in section", "our run"])


def rules_of_thumb() -> None:
    """Rules of thumb"""
    rules = [
        ("time = FLOPs / (GPUs × peak × MFU); plan with 0.4, and expect 1.4 times as long", "1, 5"),
        ("attention adds 12LDS FLOPs a token, as much as the weights at S = 6.4 D", "8"),
        ("a layer has about 12 D² weights in GPT-3 and Llama 3; with experts, count", "8"),
        ("a batch of some 300 tokens, which share each weight, fills an H100", "6"),
        ("in bf16 a layer keeps 26 to 41 bytes per token and width", "13"),
        ("run two steps before you believe that it fits", "13"),
        ("checkpoints cost at most a third more FLOPs", "14"),
        ("ZeRO-3 needs speed / network rate tokens a card: 990 on H100s with 8 × 400 Gb/s", "14"),
    ]  # @hide
    table(rules, ["rule", "section"])


def homework() -> None:
    """Homework"""
    N, width, layers, gpus = 13e9, 5120, 40, 64
    shards, layer = 16 * N / gpus / 1e9, 2 * 12 * width**2 / 1e9
    inputs, logits = 2048 * width * 2 * layers / 1e9, 3 * 4 * 2048 * 32000 / 1e9
    rest = 3 * layer + 3 + shards
    planned, real = ((memory - rest) / (inputs + logits) for memory in (80, 85.5))  # @hide
    ask(
        "13 billion parameters (40 layers of width 5,120, vocabulary 32,000), sequences of 2,048, 64 H100s, ZeRO-3, a "
        "checkpoint per layer, 3 GB for CUDA. How many sequences fit on a card that you plan with 80 · 10⁹ bytes?",
        math.floor(planned),
        within=0,
        hint="Shards 3.25 GB, two layers and a gradient 1.89; a sequence takes 0.84 of inputs and 0.79 of logits.",
        why="Shards, layers and CUDA leave 71.9 GB; a sequence takes 1.63. By the real 85.5 · 10⁹ bytes it is 47.",
        slips={math.floor(real): "That is by all of the card's 85.5 · 10⁹ bytes."},
    )
    days = 6 * N * 260e9 / (gpus * H100_BF16 * MFU) / SECONDS_PER_DAY  # for 260 billion tokens @inspect days [d]
    assert round(days, 1) == 9.3
    assert (math.floor(planned), math.floor(real)) == (44, 47)  # @hide
    link("https://blog.eleuther.ai/transformer-math/", "Transformer Math 101", authors="EleutherAI", date=2023)


if __name__ == "__main__":
    from trace_tools import plain

    plain.run(main)
