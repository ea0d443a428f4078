"""PyTorch and resource accounting

An executable lecture: how much memory and how much compute the training of a language model takes, worked
out from the bottom up, each number derived, then counted, then measured on the machine that runs this file.

    python lecture.py                         runs it: every claim is an assert
    python -m trace_tools trace lecture.py    runs it and records what every line did

Each function that `main` calls is one section of the lecture; its docstring's first line is its title.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn, optim
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from trace_tools import count, link, measure, note, peak_bandwidth, peak_flops, plot, table, text
from trace_tools.drawings import (
    draw_batched_matmul,
    draw_bits,
    draw_memories,
    draw_road_map,
    draw_storage,
    draw_views,
)

# Datasheet figures of the GPU that the napkins assume (NVIDIA H100 Tensor Core GPU Datasheet, SXM).
H100_SPARSE_BF16 = 1979e12  # FLOP/s, with 2:4 sparsity: half of every four weights are zero
H100_FP32 = 67e12  # FLOP/s, without tensor cores
H100_MEMORY = 80e9  # bytes

SECONDS_PER_DAY = 60 * 60 * 24

REFERENCES = {
    "attention": {
        "url": "https://arxiv.org/abs/1706.03762",
        "title": "Attention Is All You Need",
        "authors": "Vaswani et al.",
        "date": "2017",
    },
    "illustrated": {
        "url": "https://jalammar.github.io/illustrated-transformer/",
        "title": "The Illustrated Transformer",
        "authors": "Jay Alammar",
        "date": "2018",
    },
    "annotated": {
        "url": "https://nlp.seas.harvard.edu/annotated-transformer/",
        "title": "The Annotated Transformer",
        "authors": "Alexander Rush et al.",
        "date": "2018, revised 2022",
    },
    "transformer memory": {
        "url": "https://erees.dev/transformer-memory/",
        "title": "Transformer Memory Arithmetic: Understanding all the Bytes in nanoGPT",
    },
    "transformer flops": {
        "url": "https://www.adamcasson.com/posts/transformer-flops",
        "title": "Transformer FLOPs",
        "authors": "Adam Casson",
        "date": "2023",
    },
    "flops calculus": {
        "url": "https://medium.com/@dzmitrybahdanau/the-flops-calculus-of-language-model-training-3b19c1f025e4",
        "title": "The FLOPs Calculus of Language Model Training",
        "authors": "Dzmitry Bahdanau",
        "date": "2022",
    },
    "transformer math": {
        "url": "https://blog.eleuther.ai/transformer-math/",
        "title": "Transformer Math 101",
        "authors": "Anthony, Biderman and Schoelkopf, EleutherAI",
        "date": "2023",
    },
    "kaplan": {
        "url": "https://arxiv.org/abs/2001.08361",
        "title": "Scaling Laws for Neural Language Models",
        "authors": "Kaplan et al.",
        "date": "2020",
    },
    "chinchilla": {
        "url": "https://arxiv.org/abs/2203.15556",
        "title": "Training Compute-Optimal Large Language Models",
        "authors": "Hoffmann et al.",
        "date": "2022",
    },
    "zero": {
        "url": "https://arxiv.org/abs/1910.02054",
        "title": "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
        "authors": "Rajbhandari et al.",
        "date": "2019",
    },
    "llama 3 card": {
        "url": "https://huggingface.co/meta-llama/Meta-Llama-3-70B",
        "title": "Meta Llama 3 70B, model card",
        "authors": "Meta",
        "date": "2024",
    },
    "llama 3": {
        "url": "https://arxiv.org/abs/2407.21783",
        "title": "The Llama 3 Herd of Models",
        "authors": "Llama Team, AI @ Meta",
        "date": "2024",
    },
    "h100": {
        "url": "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet",
        "title": "NVIDIA H100 Tensor Core GPU Datasheet",
        "authors": "NVIDIA",
    },
    "gpt-3": {
        "url": "https://arxiv.org/abs/2005.14165",
        "title": "Language Models are Few-Shot Learners",
        "authors": "Brown et al.",
        "date": "2020",
    },
    "adamw": {
        "url": "https://arxiv.org/abs/1711.05101",
        "title": "Decoupled Weight Decay Regularization",
        "authors": "Loshchilov and Hutter",
        "date": "2017",
    },
    "lion": {
        "url": "https://arxiv.org/abs/2302.06675",
        "title": "Symbolic Discovery of Optimization Algorithms",
        "authors": "Chen et al.",
        "date": "2023",
    },
    "adafactor": {
        "url": "https://arxiv.org/abs/1804.04235",
        "title": "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost",
        "authors": "Shazeer and Stern",
        "date": "2018",
    },
    "mixed precision": {
        "url": "https://arxiv.org/abs/1710.03740",
        "title": "Mixed Precision Training",
        "authors": "Micikevicius et al.",
        "date": "2017",
    },
    "fp8": {
        "url": "https://arxiv.org/abs/2209.05433",
        "title": "FP8 Formats for Deep Learning",
        "authors": "Micikevicius et al.",
        "date": "2022",
    },
    "nvfp4": {
        "url": "https://developer.nvidia.com/blog/introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/",
        "title": "Introducing NVFP4 for Efficient and Accurate Low-Precision Inference",
        "authors": "NVIDIA",
        "date": "2025",
    },
    "internals": {
        "url": "https://blog.ezyang.com/2019/05/pytorch-internals/",
        "title": "PyTorch internals",
        "authors": "Edward Z. Yang",
        "date": "2019",
    },
}


def main() -> None:
    overview()
    napkin_math()
    memory_accounting()
    tensors_from_the_inside()


def device() -> str:
    """Return the device that large tensors go to on this machine."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Sizes:
    """How large a thing must be to be measured on this machine, in bytes."""

    streamed_bytes: int  # far more than the caches hold


def sizes() -> Sizes:
    """Choose every size that depends on the machine, here and nowhere else."""
    if device() == "cuda":
        return Sizes(streamed_bytes=2**30)
    return Sizes(streamed_bytes=2**27)


# ---------------------------------------------------------------------------------------------------------
# 0 Overview


def overview() -> None:
    """Overview"""
    text(
        "Training a language model uses up two resources: **memory**, counted in bytes, and **compute**, counted "
        "in floating-point operations. Hardware and budget say how much of each there is. What remains to be "
        "decided is the question behind everything in this lecture:\n\n"
        "> What is the best model that fixed resources can buy?\n\n"
        "Efficiency is money. A training run that gets half of what its hardware promises, instead of a quarter, "
        "costs half as much; or it trains twice as long for the same bill, and the model is better. So before a "
        "run you work out what it will take, while it runs you count, and afterwards you compare."
    )
    what_there_is_to_learn()
    symbols_and_units()
    where_the_transformer_is_explained()


def what_there_is_to_learn() -> None:
    """What there is to learn"""
    text(
        "- **Mechanics**: what PyTorch does with every byte and every operation. It is simple, and it can be checked.\n"
        "- **Mindset**: account for resources, always. *Derive* a number, *count* it, *measure* it, and explain what "
        "is left over.\n"
        "- **Intuition**: which cost will dominate, before anything has run. It comes last, from the other two."
    )
    stages = [
        ("tensors", "bytes and FLOPs"),
        ("models", "parameters"),
        ("optimizers", "states"),
        ("training loop", "activations and time"),
    ]  # @hide
    plot(draw_road_map(stages), title="The road, and what is accounted for along it")  # @hide
    text(
        "This is a program. What stands beside a line is what that line did on the machine named on this page. "
        "An `assert` is a **claim**: it was executed, and both of its sides are shown. A sentence that depends "
        "on the hardware was chosen by the hardware."
    )
    note("Step into a function to see its lines; step over it to see only its result.")


def symbols_and_units() -> None:
    """Symbols and units"""
    symbols = [
        ("$B$", "sequences in a batch", "$N$", "parameters of a model"),
        ("$S$", "tokens in a sequence", "$L$", "layers"),
        ("$D$", "width: numbers per token", "$K$", "outputs of a layer of width $D$"),
        ("$H$", "attention heads", "$C$", "FLOPs of a training run"),
    ]  # @hide
    table(symbols, ["symbol", "meaning", "symbol ", "meaning "])  # @hide
    text(
        "One clash has to be lived with: the scaling-law literature writes $6ND$ with $D$ for the *tokens* of a "
        "training run. Here $D$ is a width except in that formula, and the code says `tokens`."
    )
    gigabyte, gibibyte = 10**9, 2**30  # bytes @inspect gigabyte gibibyte
    memory_gib = H100_MEMORY / gibibyte  # @inspect memory_gib
    assert round(memory_gib, 1) == 74.5
    text(
        f"K, M, G, T are powers of 1000; Ki, Mi, Gi, Ti are powers of 1024. They drift apart as they grow: "
        f"{H100_MEMORY / gigabyte:.0f} GB is {memory_gib:.1f} GiB, and by T the gap is {2**40 / 10**12 - 1:.0%}. "
        f"Datasheets print GB; allocators and monitors often mean GiB and print GB."
    )
    petaflops_day = 1e15 * SECONDS_PER_DAY  # @inspect petaflops_day [FLOP]
    assert petaflops_day == 8.64e19
    text(
        "**FLOPs** are floating-point operations, a *count*: work. **FLOP/s** is a *rate*: speed. The spelling FLOPS "
        "is read both ways, so it does not appear here. A multiplication is one FLOP, and so is an addition. "
        "One PFLOP/s for a day is a count again."
    )


def where_the_transformer_is_explained() -> None:
    """Where the Transformer is explained"""
    text(
        "The models are Transformers. This lecture uses their shapes and does not derive them; these do, "
        "for someone who wants the architecture first:"
    )
    for name in ("attention", "illustrated", "annotated"):
        link(**REFERENCES[name])
    text("And these are its neighbours: the same accounting, for the Transformer as a whole.")
    for name in ("transformer math", "transformer memory", "transformer flops"):
        link(**REFERENCES[name])


# ---------------------------------------------------------------------------------------------------------
# 1 Napkin math


def napkin_math() -> None:
    """Napkin math"""
    text(
        "Two questions that sound as if they needed a cluster to answer, and need a napkin: how long a model takes "
        "to train, and how large a model fits. Each answer is three multiplications. The rest of the lecture is "
        "where the factors come from."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine
    time_to_train()
    napkin_against_reality()
    largest_model()
    states_of_a_real_step()
    optimizer_states()
    zero_stages()
    where_the_six_comes_from()
    mixture_of_experts()
    where_the_six_bends()
    best_model_for_the_compute()


def time_to_train() -> None:
    """How long does a 70B model take to train?"""
    text(
        "A model of 70B parameters, 15T tokens, 1024 H100s. The work is 6 FLOPs for each parameter and each token; "
        "where the 6 comes from is worked out below."
    )
    parameters, tokens, gpus = 70e9, 15e12, 1024
    total_flops = 6 * parameters * tokens  # @inspect total_flops [FLOP]
    assert total_flops == 6.3e24
    text(
        "The speed is what a GPU promises, times the part of the promise that a training run gets: the **model FLOPs "
        "utilization**, MFU. Industry reports 0.3 to 0.6; 0.5 is good, not a cautious guess."
    )
    promised = H100_SPARSE_BF16 / 2  # @inspect promised [FLOP/s]
    mfu = 0.5
    flops_per_day = promised * mfu * gpus * SECONDS_PER_DAY  # @inspect flops_per_day [FLOP]
    assert f"{flops_per_day:.3e}" == "4.377e+22"
    days = total_flops / flops_per_day  # @inspect days [d]
    assert round(days, 2) == 143.93
    text(f"That is {days:.0f} days: a little under five months.")
    days_at = {m: round(days * mfu / m, 1) for m in (0.3, 0.4, 0.5, 0.6)}  # @inspect days_at
    assert days_at == {0.3: 239.9, 0.4: 179.9, 0.5: 143.9, 0.6: 119.9}
    plot({"days": list(days_at.values())}, x=list(days_at), x_label="MFU", y_label="days", style="bars")  # @hide
    gpu_hours = days * 24 * gpus  # @inspect gpu_hours
    assert round(gpu_hours / 1e6, 2) == 3.54
    dollars_an_hour = 2.0  # assumed; rents change by the month
    dollars = gpu_hours * dollars_an_hour  # @inspect dollars [USD]
    text(
        f"In money: {gpu_hours / 1e6:.2f} million GPU-hours; at an assumed {dollars_an_hour:.0f} dollars an hour, "
        f"{dollars / 1e6:.1f} million dollars. At an MFU of 0.4 the same model would cost "
        f"{dollars * (mfu / 0.4 - 1) / 1e6:.1f} million more."
    )
    traps_of_the_training_time(total_flops)


def traps_of_the_training_time(total_flops: float) -> None:
    """Traps"""
    text(
        "- **Why half of 1979?** The datasheet's 1979 TFLOP/s in bf16 assumes *2:4 sparsity*, two zeros in every four "
        "weights, which training does not have. (It is also the *dense* figure of FP8.) Dividing by two takes the "
        "sparsity out; it does not make the figure realistic. It is a datasheet's promise either way; MFU is the "
        "realism.\n"
        "- **142.5 days**, seen in published notes, comes from a rounded peak. With 1000 TFLOP/s, in days:"
    )
    rounded_days = total_flops / (1000e12 * 0.5 * 1024 * SECONDS_PER_DAY)  # @inspect rounded_days [d]
    assert round(rounded_days, 1) == 142.4
    text("- **$4.4 \\times 10^{19}$ FLOPs a day** is in print for this cluster. Read it back, in years:")
    misprinted_years = total_flops / 4.4e19 / 365  # @inspect misprinted_years
    assert round(misprinted_years) == 392
    text("The exponent is a napkin's most important digit. Say the result in years or dollars, and see if it is sane.")
    link(**REFERENCES["h100"])


def napkin_against_reality() -> None:
    """The napkin against a real run"""
    text(
        "Llama 3 70B was trained on about 15T tokens of text on H100s, and its model card states the GPU-hours. "
        "Turn the napkin around: which MFU do they imply?"
    )
    reported_gpu_hours = 6.4e6
    total_flops = 6 * 70e9 * 15e12
    available_flops = reported_gpu_hours * 3600 * H100_SPARSE_BF16 / 2  # @inspect available_flops [FLOP]
    implied_mfu = total_flops / available_flops  # @inspect implied_mfu
    assert round(implied_mfu, 2) == 0.28
    mfu_of_405b = (0.38, 0.43)  # as reported
    assert implied_mfu < mfu_of_405b[0]
    assert 1 < 0.5 / implied_mfu < 2
    text(
        f"An MFU of {implied_mfu:.2f}. The paper reports {mfu_of_405b[0]} to {mfu_of_405b[1]} for the steps of the "
        f"405B model, and GPU-hours also pay for restarts, evaluation and whatever else is not a step. The napkin, "
        f"with its MFU of 0.5, was right to a factor of two: that is what a napkin is for."
    )
    link(**REFERENCES["llama 3 card"])
    link(**REFERENCES["llama 3"])


def largest_model() -> None:
    """What is the largest model that 8 H100s can train with AdamW?"""
    text(
        "Per parameter, training holds the parameter itself, its gradient, and the optimizer's states: two running "
        "averages for AdamW. In mixed precision there may also be a *master copy* of the parameters in fp32. "
        "Each number takes 4 bytes in fp32 and 2 in bf16."
    )
    recipes = {  # bytes of: parameters, gradients, master or working copy, states
        "all fp32": (4, 4, 0, 4 + 4),
        "bf16, fp32 states": (2, 2, 0, 4 + 4),
        "fp32, bf16 gradients": (4, 2, 0, 4 + 4),
        "bf16, fp32 master and states": (2, 2, 4, 4 + 4),
        "bf16, `torch.optim.AdamW`": (2, 2, 0, 2 + 2),
        "fp32, `torch.autocast`": (4, 4, 2, 4 + 4),
    }
    held = [sum(parts) for parts in recipes.values()]  # bytes per parameter @inspect held
    assert held == [16, 12, 14, 16, 8, 18]
    memory_bytes = 8 * H100_MEMORY  # @inspect memory_bytes
    largest = [round(memory_bytes / total / 1e9, 1) for total in held]  # 10⁹ parameters @inspect largest
    assert largest == [40.0, 53.3, 45.7, 40.0, 80.0, 35.6]
    rows = [(name, *recipes[name], sum(recipes[name]), n) for name, n in zip(recipes, largest, strict=True)]  # @hide
    table(rows, ["recipe", "parameters", "gradients", "copy", "states", "bytes", "largest, 10⁹"])  # @hide
    text(
        "Read the fourth row twice. Mixed precision with a master copy saves *no* memory here; it is faster, and it "
        "halves the activations, which come in section 11. And the whole table assumes that everything is sharded "
        "over the 8 GPUs. Plain data parallelism keeps a full copy on each, so that one GPU's memory is the limit:"
    )
    assert H100_MEMORY / 16 == 5e9
    text("From the other end: what a 70B model with AdamW needs, before a single activation.")
    needed_bytes = 70e9 * 16  # @inspect needed_bytes
    gpus = math.ceil(needed_bytes / H100_MEMORY)  # @inspect gpus
    assert (needed_bytes, gpus) == (1.12e12, 14)


def states_of_a_real_step() -> None:
    """The same bytes, in real tensors"""
    text(
        "The table is arithmetic on paper. Now a layer is really trained for a step by each recipe, and what is "
        "still alive afterwards is added up. First PyTorch's own optimizer:"
    )
    x = torch.randn(4, 256)
    held = {}  # bytes
    for dtype in (torch.float32, torch.bfloat16):
        layer = nn.Linear(256, 128, bias=False).to(dtype)  # it stands for a model
        optimizer = optim.AdamW(layer.parameters())
        layer(x.to(dtype)).square().mean().backward()
        optimizer.step()
        states = optimizer.state[layer.weight].values()
        tensors = [layer.weight, layer.weight.grad, *states]
        held[dtype] = sum(tensor.nbytes for tensor in tensors)  # @inspect held
    n = layer.weight.numel()
    assert held[torch.float32] == 16 * n + 4
    assert held[torch.bfloat16] == 8 * n + 4
    text(
        "The 4 bytes over are a `step` counter, one per tensor. And this is the first trap: AdamW on bf16 "
        "parameters keeps **bf16 states**. It takes half the memory of fp32 because it keeps half the digits. "
        "What papers call mixed precision keeps the states in fp32."
    )
    steps_by_hand(x)
    adam_by_hand_is_adam(x)
    copies_of_autocast()
    link(**REFERENCES["adamw"])


def steps_by_hand(x: Tensor) -> None:
    """Mixed precision, by hand"""
    text("`torch.optim` does not mix precisions by itself. Written out, one step by each of the first four recipes:")
    fp32, bf16 = torch.float32, torch.bfloat16
    recipes = [(fp32, fp32, False), (bf16, bf16, False), (fp32, bf16, False), (bf16, bf16, True)]
    held = []  # bytes per parameter
    for dtype, gradient_dtype, master in recipes:
        weight = torch.randn(256, 128).to(dtype).requires_grad_()
        others = adam_step(x, weight, gradient_dtype, master=master)
        total_bytes = sum(tensor.nbytes for tensor in (weight, *others))
        held.append(total_bytes / weight.numel())  # @inspect held
    assert held == [16, 12, 14, 16]


def adam_step(x: Tensor, weight: Tensor, gradient_dtype: torch.dtype, *, master: bool) -> list[Tensor]:
    """Adam's first step with fp32 states, by hand; returns all that stays beside the weight"""
    (x.to(weight.dtype) @ weight).square().mean().backward()
    assert weight.grad is not None
    gradient, weight.grad = weight.grad.to(gradient_dtype), None
    first = torch.zeros(weight.shape)  # fp32: averages of the gradient
    second = torch.zeros(weight.shape)  # and of its square
    first.lerp_(gradient.float(), 0.1)
    second.lerp_(gradient.float().square(), 0.001)
    deviation = (second / 0.001).sqrt() + 1e-8
    update = 1e-3 * (first / 0.1) / deviation
    with torch.no_grad():
        if not master:
            weight -= update.to(weight.dtype)
            return [gradient, first, second]
        master_weight = weight.float() - update
        weight.copy_(master_weight)
        return [gradient, first, second, master_weight]


def adam_by_hand_is_adam(x: Tensor) -> None:
    """It is Adam"""
    text("That the step by hand is the optimizer's, from the same start and up to rounding:")
    start = torch.randn(256, 128)
    by_hand = start.clone().requires_grad_()
    adam_step(x, by_hand, torch.float32, master=False)  # @stepover
    weight = start.clone().requires_grad_()
    (x @ weight).square().mean().backward()
    optim.AdamW([weight], lr=1e-3, weight_decay=0).step()
    difference = (weight - by_hand).abs().max().item()  # @inspect difference
    assert difference < 1e-6
    text("And Adam's first step moves each weight by the learning rate, whatever its gradient:")
    moved = (weight - start).abs().max().item()  # @inspect moved
    assert round(moved, 5) == 1e-3


def copies_of_autocast() -> None:
    """What autocast adds"""
    text(
        "`torch.autocast` leaves parameters and gradients in fp32 and casts what the matrix multiplications "
        "read. The bf16 copies of the weights live from the forward pass to the backward pass. Autograd can be "
        "asked what it saved:"
    )
    weight = torch.randn(256, 128, requires_grad=True)
    x = torch.randn(4, 256, requires_grad=True)
    saved: list[Tensor] = []
    hooks = saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t)
    with hooks, torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (x @ weight).square().mean()
    copies = [t for t in saved if t.numel() == weight.numel()]
    copy_bytes = sum(t.nbytes for t in copies) / weight.numel()  # per parameter @inspect copy_bytes
    assert copy_bytes == 2
    loss.backward()
    assert weight.dtype == weight.grad.dtype == torch.float32
    text(
        "So autocast with AdamW takes about 18 bytes per parameter at its peak, *more* than plain fp32. It buys "
        "speed and smaller activations, not smaller parameters."
    )


def optimizer_states() -> None:
    """What other optimizers keep"""
    weight = nn.Parameter(torch.randn(256, 128))
    weight.grad = torch.randn(256, 128)
    optimizers = {
        "SGD": optim.SGD([weight]),
        "momentum": optim.SGD([weight], momentum=0.9),
        "AdaGrad": optim.Adagrad([weight]),
        "RMSProp": optim.RMSprop([weight]),
        "Adam": optim.Adam([weight]),
        "AdamW": optim.AdamW([weight]),
        "Adafactor": optim.Adafactor([weight]),
    }
    text("Each takes one step. Then the bytes of its state tensors are added up, without the `step` counters.")
    state_bytes = {}
    for name, optimizer in optimizers.items():
        optimizer.step()
        states = optimizer.state[weight].values()
        state_bytes[name] = sum(s.nbytes for s in states if torch.is_tensor(s) and s.dim() > 0)
    per_parameter = {name: total / weight.numel() for name, total in state_bytes.items()}
    assert list(per_parameter.values())[:6] == [0, 4, 4, 4, 8, 8]
    rows, columns = weight.shape
    assert state_bytes["Adafactor"] == 4 * (rows + columns)
    table(list(per_parameter.items()), ["optimizer", "bytes of fp32 state per parameter"])  # @hide
    text(
        f"Adafactor does not drop the second moment: it keeps one number per row and one per column of it, "
        f"{per_parameter['Adafactor']:.2f} bytes per parameter here, and less the larger the matrix. "
        f"Lion, which PyTorch does not ship, keeps one momentum: 4 bytes."
    )
    link(**REFERENCES["adafactor"])
    link(**REFERENCES["lion"])


def zero_stages() -> None:
    """Sharding: the three stages of ZeRO"""
    text(
        "Plain data parallelism stores everything on every GPU. ZeRO shards it over $n$ GPUs in three stages: the "
        "optimizer's states with the master copy (12 of the 16 bytes), then the gradients (2), then the parameters (2)."
    )
    n = 8  # GPUs
    bytes_per_gpu = {
        "none (data parallel)": 16,
        "stage 1: states": 4 + 12 / n,
        "stage 2: and gradients": 2 + 14 / n,
        "stage 3: and parameters (FSDP)": 16 / n,
    }  # @inspect bytes_per_gpu
    largest = {stage: round(H100_MEMORY / held / 1e9, 1) for stage, held in bytes_per_gpu.items()}
    assert list(largest.values()) == [5.0, 14.5, 21.3, 40.0]  # 10⁹ parameters
    all_reduce, all_gather = 2, 1  # numbers a GPU sends per parameter and step, for many GPUs
    traffic = [all_reduce, all_reduce, all_reduce, all_reduce + all_gather]
    rows = [(s, bytes_per_gpu[s], largest[s], t) for s, t in zip(largest, traffic, strict=True)]  # @hide
    table(rows, ["sharded", "bytes per parameter and GPU", "largest, 10⁹", "numbers sent per parameter"])  # @hide
    text(
        "The first two stages cost no extra traffic: an all-reduce is a reduce-scatter and an all-gather, and they "
        "only place work between the two. The third gathers the parameters once more, for the backward pass: "
        "half as much traffic again."
    )
    link(**REFERENCES["zero"])


def where_the_six_comes_from() -> None:
    """Where the 6 comes from"""
    text(
        "In a matrix multiplication, each parameter meets each token once, in one multiplication and one addition: "
        "**2** FLOPs forward. Backward there are two such multiplications: one for the gradient of the weights, "
        "one for the gradient of the inputs, which the layer below waits for. **4** FLOPs."
    )
    tokens, width, outputs = 512, 128, 256
    x = torch.randn(tokens, width, requires_grad=True)
    w = torch.randn(width, outputs, requires_grad=True)
    y = x @ w  # (tokens, outputs)
    upstream = torch.randn(tokens, outputs)  # the gradient of the loss with respect to y
    parameters = w.numel()
    forward = count(lambda: x @ w)  # @inspect forward.flops [FLOP]
    assert forward.flops == 2 * parameters * tokens
    text("And backward, for both gradients and for that of the weights alone:")
    backward = count(lambda: torch.autograd.grad(y, (x, w), upstream, retain_graph=True))
    assert backward.flops == 4 * parameters * tokens  # @inspect backward.flops [FLOP]
    for_w_alone = count(lambda: torch.autograd.grad(y, w, upstream, retain_graph=True))
    assert for_w_alone.flops == 2 * parameters * tokens  # @inspect for_w_alone.flops [FLOP]
    text(
        "So a run takes $C \\approx 6ND$ FLOPs, and with a throughput of $\\tau$ FLOP/s and a time $T$, "
        '$\\tau T = 6ND$. The 6 is *not* "the optimizer, dropout and layer norms", nor two passes times three, as '
        "some notes have it. The optimizer works once per parameter and step, not once per token:"
    )
    optimizer_flops(parameters)
    link(**REFERENCES["kaplan"])
    link(**REFERENCES["flops calculus"])


def optimizer_flops(parameters: int) -> None:
    """The optimizer's share"""
    weight = nn.Parameter(torch.randn(parameters))
    weight.grad = torch.randn(parameters)
    optimizer = optim.AdamW([weight], foreach=False)  # one operation after another
    step = count(optimizer.step)
    flops_per_parameter = step.flops / parameters  # @inspect flops_per_parameter step.uncounted
    assert 5 < flops_per_parameter < 30
    tokens_per_step = 4e6  # a usual batch of a large run
    share = flops_per_parameter / (6 * tokens_per_step)  # @inspect share
    assert share < 1e-5
    text(
        f"AdamW takes {flops_per_parameter:.0f} FLOPs per parameter and step. The 6 is per parameter and *token*, and "
        f"a step of a large run has {tokens_per_step / 1e6:.0f} million of them. The optimizer's share is one part "
        f"in {1 / share / 1e6:.1f} million."
    )


def mixture_of_experts() -> None:
    """With experts, N counts the active parameters"""
    text("In a mixture of experts, a token visits a few of the experts. Memory holds all of them; compute meets a few.")
    tokens, width, chosen = 16, 32, (1, 6)
    x = torch.randn(tokens, width)
    experts = [torch.randn(width, width) for _ in range(8)]
    visit = count(lambda: sum(x @ experts[e] for e in chosen))  # @inspect visit.flops_by_operator
    parameters = sum(expert.numel() for expert in experts)
    active = sum(experts[e].numel() for e in chosen)
    assert parameters == 4 * active
    assert visit.flops == 2 * active * tokens + len(chosen) * tokens * width  # the last term adds the outputs up
    text("So $N$ in $6ND$ is the *active* parameters, and $N$ in bytes per parameter is all of them.")


def where_the_six_bends() -> None:
    """Where the 6 bends"""
    text(
        "$6N$ per token leaves out the one multiplication that has no parameters: attention's, of queries with keys "
        "and of weights with values, which grows with the sequence. And it counts one table of parameters that is "
        "never multiplied: the input embedding, which is looked up. With $N'$ for the rest,\n\n"
        "$$ C \\text{ per token} = 6N' + 12 \\cdot L \\cdot D \\cdot S. $$\n\n"
        "To check it, a model of the shape of Llama 3 70B, on the `meta` device: tensors with a shape and no memory, "
        "whose operations cost nothing and can be counted all the same."
    )
    width, layers, hidden, vocabulary = 8192, 80, 28672, 128256
    shapes = {"query": (width, width), "key": (width, 1024), "value": (width, 1024), "output": (width, width)}
    shapes |= {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}
    weights = {name: torch.empty(shape, device="meta", requires_grad=True) for name, shape in shapes.items()}
    head = torch.empty(width, vocabulary, device="meta", requires_grad=True)
    multiplied = layers * sum(w.numel() for w in weights.values()) + head.numel()  # @inspect multiplied
    norms, embedding = (2 * layers + 1) * width, vocabulary * width
    parameters = multiplied + norms + embedding  # @inspect parameters
    assert parameters == 70_553_706_496
    text("That is the published model to the last parameter. Now count a training step of it at three lengths:")
    ratios = {}
    for length in (2048, 8192, 131072):
        x = torch.empty(length, width, device="meta", requires_grad=True)  # (sequence, width)
        layer_flops = training_flops(transformer_layer, x, weights)  # @inspect layer_flops [FLOP]
        flops = layers * layer_flops + training_flops(torch.matmul, x, head)  # @inspect flops [FLOP] @stepover
        assert flops == 6 * multiplied * length + 12 * layers * width * length**2
        ratios[length] = flops / (6 * parameters * length)  # @inspect ratios
        attention_share = 12 * layers * width * length**2 / flops  # @inspect attention_share
    assert [round(ratio, 2) for ratio in ratios.values()] == [1.02, 1.14, 3.42]
    lengths = [2**k for k in range(10, 19)]  # @hide
    napkin = [(6 * multiplied + 12 * layers * width * s) / (6 * parameters) for s in lengths]  # @hide
    series = {"6N' + 12LDS": (lengths, napkin), "counted": (list(ratios), list(ratios.values()))}  # @hide
    plot(series, x_label="tokens in a sequence", y_label="FLOPs per token / 6N", x_scale="log", style="points")  # @hide
    text(
        f"At 2048 tokens the 6 is {ratios[2048] - 1:.0%} short; at 131072 attention is {attention_share:.0%} of the "
        f"work. "
        f"The {layers} layers are alike, so one was counted, with torch's own counter, and multiplied; the formula "
        f"holds to the last FLOP for the {multiplied / 1e9:.1f} billion parameters that multiply. "
        f"It counts all of $S^2$; a kernel that skips what the causal mask hides does half, 6 in place of 12."
    )


def transformer_layer(x: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """One layer of a Llama: attention with 64 heads that share 8 keys and values, then a gated feed-forward"""
    length, width = x.shape
    h = nn.functional.rms_norm(x, (width,))
    query = (h @ weights["query"]).view(length, 64, 128).transpose(0, 1)  # (heads, sequence, head width)
    key = (h @ weights["key"]).view(length, 8, 128).transpose(0, 1).repeat_interleave(8, dim=0)
    value = (h @ weights["value"]).view(length, 8, 128).transpose(0, 1).repeat_interleave(8, dim=0)
    scores = (query @ key.transpose(1, 2)).softmax(dim=-1)  # (heads, sequence, sequence)
    x = x + (scores @ value).transpose(0, 1).reshape(length, width) @ weights["output"]
    h = nn.functional.rms_norm(x, (width,))
    return x + (nn.functional.silu(h @ weights["gate"]) * (h @ weights["up"])) @ weights["down"]


def training_flops(forward: Callable[..., Tensor], *inputs: Any) -> int:
    """Count one forward and one backward pass with torch's counter, which counts matrix multiplications only"""
    with FlopCounterMode(display=False) as counter:
        forward(*inputs).sum().backward()
    return counter.get_total_flops()


def best_model_for_the_compute() -> None:
    """The best model for the compute, on the same napkin"""
    text(
        "Compute can buy parameters or tokens. The Chinchilla rule of thumb is about 20 tokens per parameter, so "
        "$C = 6N \\cdot 20N = 120N^2$ and $N = \\sqrt{C/120}$. What do 8 H100s make in two weeks?"
    )
    compute = 8 * 14 * SECONDS_PER_DAY * H100_SPARSE_BF16 / 2 * 0.5  # @inspect compute [FLOP]
    parameters = math.sqrt(compute / 120)  # @inspect parameters
    tokens = 20 * parameters  # @inspect tokens
    assert round(parameters / 1e9, 1) == 6.3
    assert round(tokens / 1e9) == 126
    text(
        f"{parameters / 1e9:.1f} billion parameters, {tokens / 1e9:.0f} billion tokens. The rule minimises the loss "
        f"for a training budget. A model that many people will use is trained smaller and longer, since every use "
        f"costs in proportion to its parameters: Llama 3 70B saw {15e12 / 70e9:.0f} tokens per parameter."
    )
    link(**REFERENCES["chinchilla"])


# ---------------------------------------------------------------------------------------------------------
# 2 Memory accounting


class FloatFormat(NamedTuple):
    """One sign bit, then these; the topmost `reserved_codes` patterns are infinities and NaNs."""

    exponent_bits: int
    mantissa_bits: int
    reserved_codes: int


def memory_accounting() -> None:
    """Memory accounting"""
    text(
        "Everything that training keeps is a **tensor**: parameters, gradients, optimizer states, activations, "
        "tokens. Whoever can say what one tensor takes can say what training takes."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine
    creating_tensors()
    bytes_of_a_tensor()
    formats = floating_point_formats()
    layouts_of(formats)
    formats_against_torch(formats)
    encode_by_hand(formats["fp16"])
    overflow(formats)
    range_and_precision()
    block_scaling(formats["fp4 E2M1"])
    speed_of_formats()
    where_tensors_live()


def creating_tensors() -> None:
    """Creating tensors"""
    literal = torch.tensor([[1.0, 2, 3], [4, 5, 6]])  # @inspect literal
    zeros = torch.zeros(2, 4)  # @inspect zeros
    ones = torch.ones(2, 4)  # @inspect ones
    normal = torch.randn(2, 4)  # @inspect normal
    unset = torch.empty(2, 4)  # @inspect unset.shape
    text(
        "`empty` asks for memory and leaves in it what was there before: right when the values come next, from a "
        "file or an initialiser, and otherwise a bug that may not show. An initialiser that fills it in place, here "
        "with normal numbers of deviation 0.5 of which those beyond ±1 are drawn again:"
    )
    nn.init.trunc_normal_(unset, std=0.5, a=-1, b=1)
    assert unset.abs().max() <= 1
    assert literal.dtype == zeros.dtype == ones.dtype == normal.dtype == torch.float32
    assert torch.tensor([1, 2, 3]).dtype == torch.int64  # whole numbers make an integer tensor
    text("`device=` says where a tensor lives. `meta` is nowhere: the shape is real, the memory is not.")
    nowhere = torch.zeros(1_000_000, 1_000_000, device="meta")  # @inspect nowhere.shape nowhere.device
    assert nowhere.nbytes == 4 * 10**12
    text(
        "The number of dimensions is a tensor's **rank**. A Transformer's activations have rank 3, a vector of width "
        "$D$ for each token of each sequence; inside attention the width is split over the heads, and the rank is 4."
    )
    batch, sequence, heads, head_width = 2, 8, 4, 16
    activations = torch.zeros(batch, sequence, heads * head_width)  # (B, S, D) @inspect activations.shape
    per_head = torch.zeros(batch, sequence, heads, head_width)  # (B, S, H, D/H) @inspect per_head.shape
    assert (activations.dim(), per_head.dim()) == (3, 4)
    assert activations.numel() == per_head.numel()


def bytes_of_a_tensor() -> None:
    """Bytes = elements × bytes per element"""
    x = torch.zeros(4, 8)  # @inspect x.dtype x.numel() x.element_size()
    assert x.numel() * x.element_size() == 4 * 8 * 4
    assert x.nbytes == x.untyped_storage().nbytes()  # what it says is what was allocated
    text(
        "That is all there is to it, at every size. GPT-3's feed-forward layers hold matrices of $4D \\times D$ "
        "with $D = 12288$. Asked of a `meta` tensor, it takes no memory to know:"
    )
    matrix = torch.empty(4 * 12288, 12288, device="meta")  # (49152, 12288)
    matrix_bytes = matrix.nbytes  # @inspect matrix_bytes [B]
    assert matrix_bytes == 2304 * 2**20
    assert matrix_bytes / 2**30 == 2.25
    assert round(matrix_bytes / 1e9, 2) == 2.42
    text(
        "So it is 2.25 GiB or 2.42 GB. The *2.3 GB* that notes print for this matrix is neither: it is 2304 MiB "
        "divided by a thousand."
    )
    dtypes = (torch.float64, torch.float32, torch.bfloat16, torch.float8_e4m3fn)
    gib = {str(dtype): matrix.to(dtype).nbytes / 2**30 for dtype in dtypes}  # @inspect gib
    assert list(gib.values()) == [4.5, 2.25, 1.125, 0.5625]
    text("The same matrix in 8, 4, 2 and 1 bytes per element. What is given up for the smaller ones comes next.")
    link(**REFERENCES["gpt-3"])


def floating_point_formats() -> dict[str, FloatFormat]:
    """Floating-point formats"""
    text(
        "A floating-point number is a sign bit, $k$ bits of exponent and $m$ bits of mantissa. With the exponent "
        "field $e$ and the mantissa field $f$ read as whole numbers and the **bias** $b = 2^{k-1} - 1$,\n\n"
        "$$ \\text{value} = \\begin{cases} (1 + f/2^m) \\cdot 2^{e - b} & e > 0 \\text{, normal} \\\\ "
        "(0 + f/2^m) \\cdot 2^{1 - b} & e = 0 \\text{, subnormal.} \\end{cases} $$\n\n"
        "The exponent buys **range**, the mantissa buys **precision**. A format is those two numbers and one decision: "
        "how many of the topmost patterns stand for infinity and NaN. IEEE formats reserve the whole topmost exponent, "
        "$2^m$ patterns; E4M3 reserves a single one, for NaN, and has no infinity; E2M1 reserves none."
    )
    formats = {  # exponent bits, mantissa bits, patterns reserved
        "fp64": FloatFormat(11, 52, 2**52),
        "fp32": FloatFormat(8, 23, 2**23),
        "tf32": FloatFormat(8, 10, 2**10),
        "fp16": FloatFormat(5, 10, 2**10),
        "bf16": FloatFormat(8, 7, 2**7),
        "fp8 E4M3": FloatFormat(4, 3, 1),
        "fp8 E5M2": FloatFormat(5, 2, 2**2),
        "fp4 E2M1": FloatFormat(2, 1, 0),
    }
    return formats


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
    """What a format can hold, read off four of its patterns"""
    patterns = 2 ** (form.exponent_bits + form.mantissa_bits)
    one = (2 ** (form.exponent_bits - 1) - 1) * 2**form.mantissa_bits
    return {
        "largest": decode(patterns - form.reserved_codes - 1, form),
        "smallest normal": decode(2**form.mantissa_bits, form),
        "smallest subnormal": decode(1, form),
        "eps": decode(one + 1, form) - decode(one, form),  # the gap above 1
    }


def layouts_of(formats: dict[str, FloatFormat]) -> None:
    """The layouts, and what follows from them"""
    text("Patterns of adjacent values are adjacent whole numbers, so a format's limits are four of its patterns.")
    fp16 = limits(formats["fp16"])  # @inspect fp16
    assert fp16["largest"] == (2 - 2**-10) * 2**15 == 65504
    assert fp16["smallest normal"] == 2**-14
    assert fp16["smallest subnormal"] == 2**-24
    rows = [layout_row(name, form) for name, form in formats.items()]  # @stepover @hide
    columns = ["format", "sign + exponent + mantissa", "bytes", "bias", "reserved exponents"]  # @hide
    table(rows, [*columns, "largest", "smallest normal", "smallest subnormal", "eps"])  # @hide
    bits = {name: bits_of(0.01, form) for name, form in formats.items()}  # @stepover @hide
    plot(draw_bits(bits), title="0.01 in every format")  # @hide
    text(
        "bf16 is the first half of fp32: the same range, and barely three digits. tf32 is fp32's range with fp16's "
        "precision; it exists only inside a tensor core, so a tf32 tensor takes 4 bytes and a "
        "`torch.dtype` for it does not exist. In E2M1, 0.01 is 0: that format does not work without a scale, and gets "
        "one below."
    )
    names = [name for name in formats if name != "fp64"]  # @hide
    ranges = {
        limit: [math.log10(limits(formats[name])[limit]) for name in names]
        for limit in ("largest", "smallest normal", "smallest subnormal")
    }  # @stepover @hide
    title = "The range of each format; fp64, from 10⁻³²⁴ to 10³⁰⁸, would dwarf them"  # @hide
    plot(ranges, x=names, y_label="power of ten", style="points", title=title)  # @hide


def layout_row(name: str, form: FloatFormat) -> tuple[str | int | float, ...]:
    """A format's row in the table of layouts"""
    k, m, reserved = form
    stored_bytes = 4.0 if name == "tf32" else (1 + k + m) / 8
    found = [f"{limit:.5g}" for limit in limits(form).values()]
    return (name, f"1 + {k} + {m}", stored_bytes, 2 ** (k - 1) - 1, reserved >> m, *found)


def bits_of(value: float, form: FloatFormat) -> tuple[str, str, str]:
    """Sign, exponent and mantissa of a positive value, in binary"""
    k, m, _ = form
    pattern = f"{encode(value, form):0{k + m}b}"
    return "0", pattern[:k], pattern[k:]


def formats_against_torch(formats: dict[str, FloatFormat]) -> None:
    """The same numbers, according to torch"""
    text(
        "`torch.finfo` states the largest, the smallest normal and the eps of a dtype. It knows no smallest subnormal; "
        "for that, torch is asked what it makes of the bit pattern 1."
    )
    dtypes = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    dtypes |= {"fp8 E4M3": torch.float8_e4m3fn, "fp8 E5M2": torch.float8_e5m2}
    integers = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
    for name, dtype in dtypes.items():
        ours, theirs = limits(formats[name]), torch.finfo(dtype)  # @stepover
        found = [ours[limit] for limit in ("largest", "smallest normal", "eps")]
        assert found == [theirs.max, theirs.smallest_normal, theirs.eps]
        integer = integers[dtype.itemsize]
        pattern_one = torch.tensor([1], dtype=integer).view(dtype)
        assert ours["smallest subnormal"] == pattern_one.double().item()
        stored = torch.tensor(0.01, dtype=torch.float64).to(dtype).view(integer)
        assert encode(0.01, formats[name]) == stored.item()  # @stepover
    text("And for the fp8 formats there are few enough patterns to compare all of the finite ones:")
    for name in ("fp8 E4M3", "fp8 E5M2"):
        finite = 128 - formats[name].reserved_codes
        theirs = torch.arange(finite, dtype=torch.uint8).view(dtypes[name]).tolist()
        ours = [decode(code, formats[name]) for code in range(finite)]  # @stepover
        assert ours == theirs
    assert [limits(formats[name])["largest"] for name in ("fp8 E4M3", "fp8 E5M2")] == [448, 57344]  # @stepover
    assert list(limits(formats["fp4 E2M1"]).values()) == [6, 1, 0.5, 0.5]  # @stepover
    finfo_of_fp4()
    link(**REFERENCES["fp8"])


def finfo_of_fp4() -> None:
    """What torch says of fp4"""
    if not hasattr(torch, "float4_e2m1fn_x2"):
        text(f"torch {torch.__version__} has no dtype for fp4, so it can't be asked.")
        return
    try:
        answer = f"it answers {torch.finfo(torch.float4_e2m1fn_x2).max}"
    except (NotImplementedError, TypeError, RuntimeError) as error:
        answer = f"it raises {type(error).__name__}"  # @inspect answer
    text(
        f"torch {torch.__version__} has a dtype for fp4, two values to a byte, to be stored and multiplied and no "
        f"more: asked for its largest number, {answer}."
    )


def encode_by_hand(fp16: FloatFormat) -> None:
    """0.01 in fp16, by hand"""
    text("Double 0.01 until it is between 1 and 2. Each doubling takes one from the exponent.")
    significand, exponent = 0.01, 0
    while significand < 1:
        significand, exponent = 2 * significand, exponent - 1  # @inspect significand exponent
    assert (significand, exponent) == (1.28, -7)
    exponent_field = exponent + 15  # @inspect exponent_field
    assert f"{exponent_field:05b}" == "01000"
    text("The leading 1 is not stored. The rest, 0.28, is doubled ten times more; what passes 1 is a mantissa bit.")
    digits, rest = "", significand - 1
    for _ in range(10):
        bit, rest = divmod(2 * rest, 1)
        digits += str(int(bit))  # @inspect digits rest
    text("What is left over is more than half a unit of the last place, so the mantissa is rounded up:")
    assert (digits, round(rest, 2)) == ("0100011110", 0.72)
    mantissa = int(digits, 2) + round(rest)  # @inspect mantissa
    assert (mantissa, f"{mantissa:010b}") == (287, "0100011111")
    code = exponent_field << 10 | mantissa
    stored = torch.tensor(0.01, dtype=torch.float16)  # @inspect stored
    assert hex(stored.view(torch.int16).item()) == hex(code) == "0x211f"
    assert encode(0.01, fp16) == code  # @stepover
    assert stored.item() == (1 + 287 / 1024) * 2**-7 == 0.01000213623046875
    traps_of_encoding(fp16)


def traps_of_encoding(fp16: FloatFormat) -> None:
    """Traps"""
    text(
        "Worked examples of this in circulation go wrong in four places:\n\n"
        '- "$1.010 \\cdot 2^{-6}$" (in binary, so 1.25) is another number;\n'
        "- six exponent bits would leave nine for the mantissa, and 17 bits in all with ten;\n"
        "- the exponent of a subnormal is $1 - 15$, not $0 - 15$: subnormals continue the spacing of the smallest "
        "normals down to zero, and with $0 - 15$ they would leave a gap below $2^{-14}$;\n"
        "- the smallest *positive* number has sign bit 0. With sign bit 1 it is negative."
    )
    assert decode(9 << 10 | 0b0100000000, fp16) == 1.25 * 2**-6 == 0.01953125  # @stepover
    assert 1 + fp16.exponent_bits + fp16.mantissa_bits == torch.finfo(torch.float16).bits
    largest_subnormal, smallest_normal = decode(1023, fp16), decode(1024, fp16)  # @stepover
    assert smallest_normal - largest_subnormal == 2**-24 == 2 ** (1 - 15) / 1024
    negative = torch.tensor([-0x8000 + 1], dtype=torch.int16).view(torch.float16)  # 1 000…001 @inspect negative
    assert negative.item() == -(2**-24)


def overflow(formats: dict[str, FloatFormat]) -> None:
    """Too large"""
    text(
        "The largest fp16 is 65504; the next step would be to 65536. What lies beyond halfway between them rounds to "
        "infinity."
    )
    below, halfway = torch.tensor([65519.0, 65520.0]).half().tolist()  # @inspect below halfway
    assert (below, halfway) == (65504, math.inf)
    assert torch.tensor(65520.0).bfloat16().item() == 65536  # bf16 rounds it, and has room
    e5m2 = torch.tensor(1e6).to(torch.float8_e5m2).item()  # @inspect e5m2
    assert e5m2 == math.inf
    e4m3 = torch.tensor(1e6).to(torch.float8_e4m3fn).item()  # @inspect e4m3
    assert str(e4m3) in ("448.0", "nan")
    largest = limits(formats["fp8 E4M3"])["largest"]  # @stepover
    if e4m3 == largest:
        text(f"E4M3 has no infinity to go to: torch {torch.__version__} **saturates**, a million becomes {e4m3:.0f}.")
    else:
        text(f"E4M3 has no infinity to go to: in torch {torch.__version__} a million becomes NaN; later it saturates.")


def range_and_precision() -> None:
    """Range matters to gradients, precision to updates"""
    text("Gradients are small numbers of very different sizes. This one fp16 can't tell from zero, and bf16 can:")
    small = torch.tensor(1e-8)
    assert small.half().item() == 0
    assert abs(small.bfloat16().item() / 1e-8 - 1) < 2**-8
    text("A weight update is a small change to a large number. This one bf16 can't see, and fp16 can:")
    updated = torch.tensor(1.001)
    assert updated.bfloat16().item() == 1
    assert updated.half().item() == 1 + 2**-10
    assert torch.finfo(torch.bfloat16).eps == 2**-7
    text(
        "So bf16 is for what is multiplied, and weights that take small steps are kept in fp32. Going back costs "
        "nothing: a bf16 number followed by sixteen zero bits *is* the same number in fp32. For all of the patterns:"
    )
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    as_fp32 = patterns.view(torch.bfloat16).float().view(torch.int32)
    assert torch.equal(as_fp32, patterns.int() << 16)
    text("A last trap: not every instability is underflow. Here is one in fp64, where nothing is too small to see:")
    w = torch.tensor(1.0, dtype=torch.float64)
    for _ in range(50):
        w = w - 2.1 * w  # gradient descent on w²/2 with a learning rate of 2.1
    assert round(w.item(), 2) == round(1.1**50, 2)
    text(f"It should have gone to 0 and is at {w.item():.0f}. More bits don't help: the learning rate is too large.")
    link(**REFERENCES["mixed precision"])


def block_scaling(fp4: FloatFormat) -> None:
    """Four bits and a scale: NVFP4"""
    text("E2M1 has eight magnitudes. Everything else about a tensor must be carried by a scale.")
    grid = torch.tensor([decode(code, fp4) for code in range(8)])  # @inspect grid @stepover
    assert grid.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    x = torch.randn(64, 16)  # 64 blocks of 16
    x[0, 0] = 1000.0  # one outlier
    text("One scale for the whole tensor must reach the outlier. Then the other blocks are lost, every number of them:")
    one_scale = round_to_grid(x, x.abs().max() / 6, grid)
    survivors = one_scale[1:].count_nonzero().item()  # @inspect survivors
    assert survivors == 0
    text(
        "**NVFP4** has a scale for each block of 16, itself a number in E4M3, and one fp32 scale for the tensor that "
        "brings the block scales into E4M3's range:"
    )
    tensor_scale = x.abs().max() / (6 * 448)  # fp32
    block_scales = (x.abs().amax(dim=1, keepdim=True) / 6 / tensor_scale).to(torch.float8_e4m3fn)  # (64, 1)
    scaled = round_to_grid(x, block_scales.float() * tensor_scale, grid)
    errors = [((y - x)[1:].norm() / x[1:].norm()).item() for y in (one_scale, scaled)]  # @inspect errors
    assert errors[1] < 0.15 < errors[0] == 1
    total_bits = 4 * x.numel() + 8 * block_scales.numel() + 32
    bits_per_value = total_bits / x.numel()  # @inspect bits_per_value
    assert bits_per_value == 4.5 + 32 / x.numel()
    text(
        f"The relative error falls from {errors[0]:.0%} to {errors[1]:.0%}, for half a bit a value: 4 bits, 8 bits "
        f"shared by 16, and 32 bits shared by all. Here that is done in fp32 arithmetic; Blackwell's tensor "
        f"cores do it in hardware, and only the values and scales are ever stored."
    )
    link(**REFERENCES["nvfp4"])


def round_to_grid(x: Tensor, scale: Tensor, grid: Tensor) -> Tensor:
    """Each number as the nearest ± grid point times its scale"""
    magnitudes = (x / scale).abs()
    nearest = (magnitudes[..., None] - grid).abs().argmin(dim=-1)
    return grid[nearest] * x.sign() * scale


def speed_of_formats() -> None:
    """Fewer bits, more speed"""
    text(
        "Memory is one reason for small formats. The other is speed: the area of a multiplier grows roughly with the "
        "square of the mantissa's bits, and tensor cores are built for the small ones. What an H100 promises, and what "
        "this machine does:"
    )
    h100_ratio = H100_SPARSE_BF16 / 2 / H100_FP32  # @inspect h100_ratio
    assert round(h100_ratio) == 15
    fp32_peak = peak_flops("float32")  # @inspect fp32_peak [FLOP/s]
    bf16_peak = peak_flops("bfloat16")  # @inspect bf16_peak [FLOP/s]
    rows = [("H100, dense", H100_FP32 / 1e12, H100_SPARSE_BF16 / 2e12, h100_ratio)]
    if fp32_peak is None or bf16_peak is None:
        text("No peak is known for this machine, so nothing can be said about its ratio.")
        return
    ratio = bf16_peak / fp32_peak  # @inspect ratio
    rows.append(("this machine", fp32_peak / 1e12, bf16_peak / 1e12, ratio))
    table(rows, ["machine", "fp32, TFLOP/s", "bf16, TFLOP/s", "ratio"])
    if ratio > 1.1:
        text(f"On this machine bf16 is {ratio:.1f} times as fast as fp32.")
    elif ratio >= 0.9:
        text("On this machine bf16 is no faster than fp32, and no slower: it saves memory only.")
    else:
        text(f"On this machine bf16 is **slower**: {ratio:.2f} of fp32's speed. {why_bf16_is_slow()}")


def why_bf16_is_slow() -> str:
    """Why a CPU may multiply bf16 slowly: what it says about its own instructions"""
    information = Path("/proc/cpuinfo")
    if device() != "cpu" or not information.exists():
        return "Why is not known here."
    flags = set(information.read_text().split()) & {"amx_bf16", "avx512_bf16", "bf16"}
    if flags:
        return f"It has instructions for bf16 ({', '.join(sorted(flags))}); this build of torch gains nothing by them."
    return "It has no instructions for bf16, so each number is widened to fp32, multiplied, and rounded again."


def where_tensors_live() -> None:
    """Where tensors live"""
    x = torch.zeros(32, 32)
    assert x.device.type == "cpu"
    text(
        "A tensor is made in the CPU's memory unless told otherwise. `to` moves it: that is, it *copies* it, unless it "
        "is there already, in which case it returns the very same tensor."
    )
    assert x.to("cpu") is x
    moved = x.to(device())  # @inspect moved.device
    assert moved.device.type == device()  # @stepover
    allocated_bytes = allocated_on_the_gpu()  # @inspect allocated_bytes [B]
    assert allocated_bytes in (None, 8192)
    transfer_bytes_per_second = transfer_rate()  # @inspect transfer_bytes_per_second [B/s]
    draw_both_memories(transfer_bytes_per_second)


def allocated_on_the_gpu() -> int | None:
    """What the GPU's allocator says"""
    if not torch.cuda.is_available():
        text(
            "Not run: no CUDA device. On one, `torch.cuda.memory_allocated` before and after two 32×32 matrices shows "
            "their bytes exactly, and the allocator's reserve and the CUDA context beside them."
        )
        return None
    before = torch.cuda.memory_allocated()  # @inspect before [B]
    a = torch.ones(32, 32, device="cuda")
    b = torch.ones(32, 32, device="cuda")
    after = torch.cuda.memory_allocated()  # @inspect after [B]
    assert after - before == 2 * (32 * 32 * 4) == 8192
    text("It is exact because each matrix takes a multiple of the 512 bytes in which the allocator hands out memory.")
    assert a.nbytes % 512 == 0
    first = a @ b
    workspace_bytes = torch.cuda.memory_allocated() - after - first.nbytes  # @inspect workspace_bytes [B]
    second = a @ b
    assert torch.cuda.memory_allocated() - after - workspace_bytes == first.nbytes + second.nbytes
    text(
        f"The first matmul of a process also allocates cuBLAS's workspace, {workspace_bytes} bytes just now (0 if an "
        f"earlier one had left it); the second takes its result's bytes and no more. Warm up before measuring."
    )
    memory_of_the_process()
    return after - before


def memory_of_the_process() -> None:
    """Where memory hides"""
    free_bytes, total_bytes = torch.cuda.mem_get_info()  # @inspect total_bytes [B]
    allocated_bytes = torch.cuda.memory_allocated()  # @inspect allocated_bytes [B]
    reserved_bytes = torch.cuda.memory_reserved()  # @inspect reserved_bytes [B]
    hidden_bytes = total_bytes - free_bytes - reserved_bytes  # @inspect hidden_bytes [B]
    assert allocated_bytes <= reserved_bytes <= total_bytes - free_bytes
    table(
        [
            ("allocated", allocated_bytes / 2**20, "live tensors"),
            ("reserved", reserved_bytes / 2**20, "what the caching allocator holds, in use or not"),
            ("context and others", hidden_bytes / 2**20, "CUDA's context, loaded kernels, other processes"),
        ],
        ["memory", "MiB", "what it is"],
    )
    text("`nvidia-smi` shows reserved and context together: it can't tell how much of it is tensors.")


def transfer_rate() -> float | None:
    """What moving costs"""
    if not torch.cuda.is_available():
        text("The transfer to a GPU: not run, no CUDA device. A copy within this machine's own memory, for comparison:")
        copy_rate()
        return None
    x = torch.randn(sizes().streamed_bytes // 16)  # a quarter of them, in fp32 @stepover
    transfer = measure(lambda: x.to("cuda"))  # @inspect transfer.seconds [s]
    bytes_per_second = x.nbytes / transfer.seconds  # @inspect bytes_per_second [B/s]
    within = copy_rate()
    assert bytes_per_second < within
    text(
        f"To the GPU: {bytes_per_second / 1e9:.1f} GB/s. Within the GPU's memory: {within / 1e9:.0f} GB/s, "
        f"{within / bytes_per_second:.0f} times as much. What is needed more than once belongs on the GPU."
    )
    return bytes_per_second


def copy_rate() -> float:
    """A copy within memory"""
    text("Every byte is read once and written once.")
    source = torch.rand(sizes().streamed_bytes // 8, device=device())  # half of them, in fp32 @stepover
    target = torch.empty_like(source)
    copy = measure(lambda: target.copy_(source))  # @inspect copy.seconds [s], copy.spread
    moved_bytes = 2 * source.nbytes  # @inspect moved_bytes [B]
    assert count(lambda: target.copy_(source)).bytes_moved == moved_bytes
    bytes_per_second = moved_bytes / copy.seconds  # @inspect bytes_per_second [B/s]
    peak = peak_bandwidth()  # @inspect peak [B/s]
    if peak is None:
        text(f"{bytes_per_second / 1e9:.1f} GB/s; no peak is known for this machine.")
    else:
        share = bytes_per_second / peak  # @inspect share
        roof = "roof, itself measured with a copy" if device() == "cpu" else "datasheet"  # @stepover
        text(f"{bytes_per_second / 1e9:.1f} GB/s, {share:.0%} of the {peak / 1e9:.0f} GB/s of this machine's {roof}.")
    return bytes_per_second


def draw_both_memories(transfer_bytes_per_second: float | None) -> None:
    """The two memories"""
    ram_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # @inspect ram_bytes [B]
    bandwidth = peak_bandwidth()
    known = {} if bandwidth is None else {"bandwidth": f"{bandwidth / 1e9:.0f} GB/s"}
    cpu = {"memory": f"{ram_bytes / 2**30:.0f} GiB"}
    if transfer_bytes_per_second is None:
        plot(draw_memories(cpu | known, None, "no link"), title="Where tensors live, on this machine")
        return
    gpu_bytes = torch.cuda.get_device_properties(0).total_memory  # @inspect gpu_bytes [B]
    gpu = {"memory": f"{gpu_bytes / 2**30:.0f} GiB"} | known
    rate = f"{transfer_bytes_per_second / 1e9:.1f} GB/s"
    plot(draw_memories(cpu, gpu, rate), title="Where tensors live, on this machine")


# ---------------------------------------------------------------------------------------------------------
# 3 Tensors from the inside


def tensors_from_the_inside() -> None:
    """Tensors from the inside"""
    text(
        "A tensor is a window onto a one-dimensional block of memory, its **storage**. The window is a data type and a "
        "few whole numbers: a size and a **stride** for each dimension, and an offset. Many operations make a new "
        "window and leave the memory alone. To know which is to know what is free."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine
    storage_and_strides()
    views()
    writing_through_a_view()
    expanding()
    contiguity()
    what_copies()
    what_views_and_copies_cost()
    elementwise_operations()
    causal_mask()
    matrix_multiplication()
    link(**REFERENCES["internals"])


def storage_and_strides() -> None:
    """Storage and strides"""
    x = torch.arange(16.0).view(4, 4)  # @inspect x, x.stride(), x.storage_offset()
    assert x.stride() == (4, 1)
    text(
        "A step down is 4 cells along the storage, a step to the right is 1: *row-major* order. An element's address "
        "is the offset plus each index times its stride."
    )
    row, column = 1, 2
    address = x.storage_offset() + row * x.stride(0) + column * x.stride(1)  # @inspect address
    assert address == 6
    assert x.untyped_storage().nbytes() == 16 * 4
    cells = torch.tensor([], dtype=x.dtype).set_(x.untyped_storage())  # the storage itself, as a line @inspect cells
    assert cells[address] == x[row, column]
    plot(draw_storage(x, (row, column)), title="x[1, 2], and the jumps that lead to it")  # @hide
    text("A block inside it is a window with the same strides and another offset:")
    block = x[1:3, 1:]  # @inspect block, block.stride(), block.storage_offset()
    assert (block.stride(), block.storage_offset()) == ((4, 1), 5)


def shares_storage(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors are windows onto the same memory"""
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def views() -> None:
    """Views share storage"""
    x = torch.arange(6.0).view(2, 3)  # @inspect x
    row = x[0]  # @inspect row, row.stride()
    column = x[:, 1]  # @inspect column, column.stride(), column.storage_offset()
    reshaped = x.view(3, 2)  # @inspect reshaped, reshaped.stride()
    transposed = x.transpose(0, 1)  # @inspect transposed, transposed.stride()
    left, right = x.split([1, 2], dim=1)  # @inspect left right
    text("A transpose moves nothing. It swaps the strides:")
    assert (x.stride(), transposed.stride()) == ((3, 1), (1, 3))
    assert (column.stride(), column.storage_offset()) == ((3,), 1)
    assert (left.shape, right.storage_offset()) == ((2, 1), 1)
    text("Not one of these is a copy. They are windows onto the six cells of `x`:")
    windows = {"x[0]": row, "x[:, 1]": column, "x.view(3, 2)": reshaped, "x.t()": transposed, "right": right}
    shared = {name: shares_storage(x, window) for name, window in windows.items()}  # @inspect shared @stepover
    assert set(shared.values()) == {True}
    assert {window.untyped_storage().nbytes() for window in windows.values()} == {x.nbytes}
    plot(draw_views({"x": x} | windows), title="Which cells each window covers")  # @hide
    plot(draw_storage(transposed, (1, 1)), title="x.t()[1, 1]: the same cells, the strides swapped")  # @hide
    text("`view(3, 2)` and `t()` have the same shape and the same cells, and hold different matrices:")
    assert reshaped.shape == transposed.shape
    assert reshaped.flatten().tolist() == [0, 1, 2, 3, 4, 5]
    assert transposed.flatten().tolist() == [0, 3, 1, 4, 2, 5]


def writing_through_a_view() -> None:
    """Writing through a view"""
    x = torch.zeros(2, 3)
    transposed = x.t()
    transposed[2, 1] = 100.0  # @inspect transposed x
    assert x[1, 2] == 100
    text("Written through one window, seen through the other. An in-place operation, `mul_` say, is such a write:")
    row = x[1]
    row.mul_(2)  # @inspect x
    assert x[1, 2] == 200
    text(
        "Notes sometimes say that in-place operations change only metadata. It is the other way round: `mul_`, `add_`, "
        "`relu_`, `copy_` change the *cells*, for everyone who looks at them, and leave the window as it was. The few "
        "that change a window in place are named after a view: `t_`, `squeeze_`, `unsqueeze_`, `transpose_`."
    )
    metadata, cells = (x.shape, x.stride()), x.flatten().tolist()
    x.t_()  # @inspect x, x.stride()
    assert (x.shape, x.stride()) == ((3, 2), (1, 3)) != metadata
    assert x.t().flatten().tolist() == cells
    text("An ordinary assignment is no such write: it makes a new tensor and moves the name to it.")
    y = x
    y = y + 1  # a new tensor, a new storage
    assert not shares_storage(x, y)


def expanding() -> None:
    """A stride of zero"""
    text("`expand` repeats a dimension without repeating a cell: a step along it goes nowhere.")
    bias = torch.tensor([[1.0], [2], [3]])  # (3, 1)
    expanded = bias.expand(3, 4)  # @inspect expanded, expanded.stride()
    assert expanded.stride() == (1, 0)
    claimed_bytes = expanded.nbytes  # elements × element size @inspect claimed_bytes [B]
    real_bytes = expanded.untyped_storage().nbytes()  # @inspect real_bytes [B]
    assert (claimed_bytes, real_bytes) == (48, 12)
    text(
        "Broadcasting is this, done for you: adding a (3, 1) to a (3, 4) never builds the larger one. "
        "(`repeat` does build it.) Elements × element size is therefore not what a view costs. Here it claims too "
        "much; for a slice it claims too little, because the slice keeps the whole storage alive:"
    )
    row = torch.zeros(1000, 4)[0]
    row_bytes, kept_bytes = row.nbytes, row.untyped_storage().nbytes()  # @inspect row_bytes [B], kept_bytes [B]
    assert (row_bytes, kept_bytes) == (16, 16000)
    text("And four elements that are one cell can't be written at once. torch refuses:")
    refusal = ""
    try:
        expanded.add_(1)
    except RuntimeError as error:
        refusal = str(error)  # @inspect refusal
    assert "single memory location" in refusal
    assert bias.repeat(1, 4).untyped_storage().nbytes() == claimed_bytes


def contiguity() -> None:
    """Contiguity"""
    x = torch.arange(6.0).view(2, 3)
    transposed = x.t()  # (3, 2) @inspect transposed, transposed.stride(), transposed.is_contiguous()
    text(
        "A tensor is **contiguous** when reading it row by row walks through its storage cell by cell. `x` is; its "
        "transpose isn't, and then no stride can make one dimension of its two:"
    )
    assert (x.is_contiguous(), transposed.is_contiguous()) == (True, False)
    refusal = ""
    try:
        transposed.view(6)
    except RuntimeError as error:
        refusal = str(error)  # @inspect refusal
    assert "Use .reshape(...) instead" in refusal
    text("`contiguous()` makes a copy with the cells in reading order, unless there is nothing to do:")
    copied = transposed.contiguous()  # @inspect copied, copied.stride()
    assert (copied.stride(), shares_storage(copied, transposed)) == ((2, 1), False)
    assert x.contiguous() is x
    text("`reshape` is `view` where that is possible, and `contiguous().view` where it is not: a copy you did not see.")
    assert shares_storage(x, x.reshape(3, 2))
    assert not shares_storage(transposed, transposed.reshape(6))
    assert transposed.reshape(6).tolist() == [0, 3, 1, 4, 2, 5]


def what_copies() -> None:
    """What copies"""
    x = torch.arange(6.0).view(2, 3)
    results = {
        "x[0:1] (a slice)": x[0:1],
        "x.t()": x.t(),
        "x.detach()": x.detach(),
        "x.float() (already fp32)": x.float(),
        "x + 0": x + 0,
        "x[torch.tensor([0])]": x[torch.tensor([0])],
        "x[x >= 0] (a mask)": x[x >= 0],
        "x.clone()": x.clone(),
        "x.bfloat16()": x.bfloat16(),
    }
    copies = {name: not shares_storage(x, result) for name, result in results.items()}  # @inspect copies @stepover
    assert list(copies.values()) == [False] * 4 + [True] * 5
    table([(name, "copy" if copied else "view") for name, copied in copies.items()], ["expression", "memory"])  # @hide
    text(
        "Slices give views; indexing with a tensor or a mask copies, even where a slice would say the same; arithmetic "
        "writes its result somewhere new. And a copy need not be contiguous: `clone` and arithmetic keep the order of "
        "the strides."
    )
    transposed = x.t()
    cloned, added = transposed.clone(), transposed + 1  # @inspect cloned.stride() added.stride()
    assert (cloned.stride(), cloned.is_contiguous()) == ((1, 3), False)
    assert added.stride() == (1, 3)
    ordered = transposed.clone(memory_format=torch.contiguous_format)
    assert ordered.is_contiguous()


def what_views_and_copies_cost() -> None:
    """What views and copies cost"""
    rows = math.isqrt(sizes().streamed_bytes // 16)  # a quarter of them, in fp32 @stepover
    x = torch.rand(rows, rows, device=device())  # @inspect x.shape @stepover
    view, copy = count(lambda: x.t()), count(lambda: x.t().contiguous())  # @inspect view.bytes_moved copy.bytes_moved
    assert view.bytes_moved == 0
    assert copy.bytes_moved == 2 * x.nbytes  # read once, written once
    assert (view.flops, copy.flops) == (0, 0)
    view_time, copy_time = measure(lambda: x.t()), measure(lambda: x.t().contiguous())
    seconds = {"view": view_time.seconds, "copy": copy_time.seconds}  # @inspect seconds [s]
    assert seconds["view"] < seconds["copy"]
    text(
        f"The transpose of {x.nbytes / 2**20:.0f} MiB takes {seconds['view'] * 1e6:.1f} µs as a view, and "
        f"{seconds['copy'] * 1e3:.2f} ms once it is made contiguous: "
        f"{copy.bytes_moved / seconds['copy'] / 1e9:.1f} GB/s, and not one FLOP. A view's time is bookkeeping: "
        f"it moves no bytes, however large the tensor."
    )


def elementwise_operations() -> None:
    """Elementwise operations"""
    x = torch.tensor([1.0, 4, 9])
    assert x.pow(2).tolist() == [1, 16, 81]
    assert x.sqrt().tolist() == [1, 2, 3]
    assert torch.allclose(x.rsqrt(), torch.tensor([1, 1 / 2, 1 / 3]))
    assert (x + x).tolist() == (x * 2).tolist() == [2, 8, 18]
    assert (x / 2).tolist() == [0.5, 2, 4.5]
    text(
        "`rsqrt` is one over the square root: what a normalisation layer multiplies by. One published example prints "
        "$\\sqrt{x^2}$ wrongly; it is $|x|$, in every element:"
    )
    signed = torch.tensor([-1.0, 4, -9])
    assert signed.pow(2).sqrt().tolist() == signed.abs().tolist() == [1, 4, 9]
    text("Each reads its operands once and writes its result once, and does little in between:")
    y, z = torch.randn(1000), torch.randn(1000)
    addition = count(lambda: y + z)  # @inspect addition.flops [FLOP], addition.bytes_moved [B]
    scaling = count(lambda: y * 2)  # @inspect scaling.flops [FLOP], scaling.bytes_moved [B]
    assert addition.flops == scaling.flops == 1000
    assert (addition.bytes_moved, scaling.bytes_moved) == (3 * y.nbytes, 2 * y.nbytes)


def causal_mask() -> None:
    """Triangles, and the causal mask"""
    ones = torch.ones(4, 4)
    upper = ones.triu()  # @inspect upper
    lower = ones.tril()  # @inspect lower
    assert upper.equal(lower.t())
    text(
        "Attention scores are laid out (query, key): row $i$ is what token $i$ looks at. A language model may look at "
        "itself and at what came before, keys $0 \\ldots i$: the **lower** triangle. Notes that reach for `triu` here "
        "have either transposed the scores or allowed the future and hidden the past."
    )
    scores = torch.randn(4, 4)  # (query, key)
    allowed = lower.bool()
    weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)  # @inspect weights
    assert weights[0].tolist() == [1, 0, 0, 0]  # the first token sees only itself
    assert (weights > 0).sum(dim=-1).tolist() == [1, 2, 3, 4]
    text("The test of a mask is that changing the future does not change the past. To the bit:")
    values = torch.randn(4, 8)  # (key, width)
    changed = values.clone()
    changed[3] = 1000.0  # another last token
    outputs, outputs_changed = weights @ values, weights @ changed
    assert torch.equal(outputs[:3], outputs_changed[:3])
    wrong = scores.masked_fill(~upper.bool(), -math.inf).softmax(dim=-1)
    leaked = ((wrong @ changed)[:3] != (wrong @ values)[:3]).any(dim=-1)  # @inspect leaked
    assert leaked.tolist() == [True, True, True]


def matrix_multiplication() -> None:
    """Matrix multiplication"""
    text("The operation that everything else in a model serves.")
    x = torch.ones(16, 32)
    w = torch.ones(32, 2)
    y = x @ w  # (16, 2) @inspect y.shape
    assert y.shape == (16, 2)
    assert y.unique().tolist() == [32]  # a sum over 32 ones
    text(
        "A model works on batches of sequences. `@` multiplies the last two dimensions and repeats that over the "
        "leading ones: a batch of $B$ sequences of $S$ tokens, each of width $D$, by one matrix."
    )
    batch, sequence, width, outputs = 2, 3, 4, 2
    x = torch.randint(-9, 10, (batch, sequence, width)).float()  # whole numbers: sums are exact
    w = torch.randint(-9, 10, (width, outputs)).float()
    y = x @ w  # (B, S, K) @inspect y.shape
    plot(draw_batched_matmul(x.shape, w.shape), title="batch × sequence × width, by width × outputs")  # @hide
    one_by_one = [[x[b, s] @ w for s in range(sequence)] for b in range(batch)]
    assert torch.equal(y, torch.stack([torch.stack(tokens) for tokens in one_by_one]))
    assert torch.equal(y, (x.view(batch * sequence, width) @ w).view(batch, sequence, outputs))
    product = count(lambda: x @ w)  # @inspect product.flops [FLOP]
    assert product.flops == 2 * batch * sequence * width * outputs
    text(
        "One matrix serves all tokens, so batch and sequence fold into one dimension: to the hardware this is one "
        "large multiplication, $2BSDK$ FLOPs. Where both sides have leading dimensions, as in attention, they pair up:"
    )
    heads = 5
    query, key = torch.randn(2, batch, heads, sequence, width)  # (B, H, S, D/H) each
    scores = query @ key.transpose(-2, -1)  # (B, H, S, S) @inspect scores.shape
    assert scores.shape == (batch, heads, sequence, sequence)


if __name__ == "__main__":
    main()
