"""PyTorch and resource accounting

An executable lecture: how much memory and how much compute the training of a language model takes, worked
out from the bottom up, each number derived, then counted, then measured on the machine that runs this file.

    python lecture.py                         runs it: every claim is an assert
    python -m trace_tools trace lecture.py    runs it and records what every line did

Each function that `main` calls is one section of the lecture; its docstring's first line is its title.
"""

from __future__ import annotations

import gc
import math
import os
import pickle
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial, wraps
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import torch
from einops import einsum, rearrange, reduce, repeat
from jaxtyping import Float, TypeCheckError, jaxtyped
from matplotlib.figure import Figure
from torch import Tensor, nn, optim
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from trace_tools import (
    Count,
    GpuState,
    Measurement,
    accelerator,
    ask,
    bytes_alive,
    count,
    decide,
    device,
    draw_batched_matmul,
    draw_bits,
    draw_chain,
    draw_gpu,
    draw_memories,
    draw_road_map,
    draw_roofline,
    draw_segments,
    draw_storage,
    draw_views,
    explore,
    fast_format,
    gpu_state,
    known_machine,
    known_machines,
    link,
    measure,
    memory_bytes,
    note,
    peak_bandwidth,
    peak_flops,
    peak_is_promised,
    plot,
    table,
    text,
)

# Datasheet figures of the GPU that the napkins assume (NVIDIA H100 Tensor Core GPU Datasheet, SXM).
H100_BF16 = 989.5e12  # FLOP/s, dense; the datasheet states 1979e12, with 2:4 sparsity
H100_FP32 = 67e12  # FLOP/s, without tensor cores
H100_MEMORY = 80e9  # bytes, as it is sold; `nvidia-smi` shows 81559 MiB, 7% more
PALM_MFU = 0.462  # of the 540B model's training, by its paper
GPT3_MFU = 0.213  # by the same paper
LLAMA3_SPEEDS = (380e12, 430e12)  # FLOP/s per H100 in steps of the 405B model, least and most, by its paper
H100_BANDWIDTH = 3.35e12  # bytes/s, of its memory
H100_CACHE = 50e6  # bytes of its second-level cache, and 4 tensor cores in a multiprocessor: REFERENCES["hopper"]

SECONDS_PER_DAY = 60 * 60 * 24

RECIPES = {  # bytes of a number: parameter, gradient, master copy, optimizer's state
    "all fp32": (4, 4, 0, 4),
    "bf16, fp32 states": (2, 2, 0, 4),
    "fp32, bf16 gradients": (4, 2, 0, 4),
    "bf16, fp32 master and states": (2, 2, 4, 4),
    "bf16, `torch.optim.AdamW`": (2, 2, 0, 2),
}

KEPT = ("all", "each block", "every √L-th", "nothing")  # of activations, by checkpointing

# name | title | authors | date | description, and below it the address
BIBLIOGRAPHY = """\
attention | Attention Is All You Need | Vaswani et al. | 2017
https://arxiv.org/abs/1706.03762
illustrated | The Illustrated Transformer | Jay Alammar | 2018
https://jalammar.github.io/illustrated-transformer/
annotated | The Annotated Transformer | Alexander Rush et al. | 2018, revised 2022
https://nlp.seas.harvard.edu/annotated-transformer/
transformer memory | Transformer Memory Arithmetic: Understanding all the Bytes in nanoGPT
https://erees.dev/transformer-memory/
transformer flops | Transformer FLOPs | Adam Casson | 2023
https://www.adamcasson.com/posts/transformer-flops
flops calculus | The FLOPs Calculus of Language Model Training | Dzmitry Bahdanau | 2022
https://medium.com/@dzmitrybahdanau/the-flops-calculus-of-language-model-training-3b19c1f025e4
transformer math | Transformer Math 101 | Anthony, Biderman and Schoelkopf, EleutherAI | 2023
https://blog.eleuther.ai/transformer-math/
kaplan | Scaling Laws for Neural Language Models | Kaplan et al. | 2020
https://arxiv.org/abs/2001.08361
chinchilla | Training Compute-Optimal Large Language Models | Hoffmann et al. | 2022
https://arxiv.org/abs/2203.15556
zero | ZeRO: Memory Optimizations Toward Training Trillion Parameter Models | Rajbhandari et al. | 2019
https://arxiv.org/abs/1910.02054
llama 3 card | Meta Llama 3 70B, model card | Meta | 2024
https://huggingface.co/meta-llama/Meta-Llama-3-70B
llama 3 | The Llama 3 Herd of Models | Llama Team, AI @ Meta | 2024
https://arxiv.org/abs/2407.21783
h100 | NVIDIA H100 Tensor Core GPU Datasheet | NVIDIA
https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet
hopper | NVIDIA Hopper Architecture In-Depth | NVIDIA | 2022
https://developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth/
gpt-3 | Language Models are Few-Shot Learners | Brown et al. | 2020
https://arxiv.org/abs/2005.14165
adamw | Decoupled Weight Decay Regularization | Loshchilov and Hutter | 2017
https://arxiv.org/abs/1711.05101
lion | Symbolic Discovery of Optimization Algorithms | Chen et al. | 2023
https://arxiv.org/abs/2302.06675
adafactor | Adafactor: Adaptive Learning Rates with Sublinear Memory Cost | Shazeer and Stern | 2018
https://arxiv.org/abs/1804.04235
mixed precision | Mixed Precision Training | Micikevicius et al. | 2017
https://arxiv.org/abs/1710.03740
fp8 | FP8 Formats for Deep Learning | Micikevicius et al. | 2022
https://arxiv.org/abs/2209.05433
nvfp4 | Introducing NVFP4 for Efficient and Accurate Low-Precision Inference | NVIDIA | 2025
https://developer.nvidia.com/blog/introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/
mx formats | Microscaling Data Formats for Deep Learning | Rouhani et al. | 2023
https://arxiv.org/abs/2310.10537
internals | PyTorch internals | Edward Z. Yang | 2019
https://blog.ezyang.com/2019/05/pytorch-internals/
einops | Einops: Clear and Reliable Tensor Manipulations with Einstein-like Notation | Alex Rogozhnikov | 2022
https://openreview.net/forum?id=oapKSVM2bcj
jaxtyping | jaxtyping: type annotations and runtime checking for shape and dtype | Patrick Kidger
https://docs.kidger.site/jaxtyping/
gpt-4 compute | Over 30 AI models have been trained at the scale of GPT-4 | Epoch AI | 2025
https://epoch.ai/data-insights/models-over-1e25-flop
executive order | Executive Order 14110 on Artificial Intelligence |  | 2023, revoked in 2025
https://www.federalregister.gov/documents/2023/11/01/2023-24283/safe-secure-and-trustworthy-development-and-use-of-artificial-intelligence
palm | PaLM: Scaling Language Modeling with Pathways | Chowdhery et al. | 2022 | MFU was defined here, in appendix B.
https://arxiv.org/abs/2204.02311
matmul guide | Matrix Multiplication Background User's Guide | NVIDIA
https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html
roofline | Roofline: An Insightful Visual Performance Model for Multicore Architectures | Williams et al. | 2009
https://dl.acm.org/doi/10.1145/1498765.1498785
brrr | Making Deep Learning Go Brrrr From First Principles | Horace He | 2022
https://horace.io/brrr_intro.html
scaling book | How to Scale Your Model | Austin et al. | 2025
https://jax-ml.github.io/scaling-book/
h200 | NVIDIA H200 Tensor Core GPU | NVIDIA
https://www.nvidia.com/en-us/data-center/h200/
b200 | NVIDIA DGX B200 | NVIDIA
https://www.nvidia.com/en-us/data-center/dgx-b200/
a100 | NVIDIA A100 Tensor Core GPU | NVIDIA
https://www.nvidia.com/en-us/data-center/a100/
autograd | Autograd mechanics | PyTorch documentation
https://docs.pytorch.org/docs/stable/notes/autograd.html
glorot | Understanding the difficulty of training deep feedforward neural networks | Glorot and Bengio | 2010
https://proceedings.mlr.press/v9/glorot10a.html
he | Delving Deep into Rectifiers: Surpassing Human-Level Performance on ImageNet Classification | He et al. | 2015
https://arxiv.org/abs/1502.01852
reproducibility | Reproducibility | PyTorch documentation
https://docs.pytorch.org/docs/stable/notes/randomness.html
llama | LLaMA: Open and Efficient Foundation Language Models | Touvron et al. | 2023
https://arxiv.org/abs/2302.13971
pinned memory | A guide on good usage of non_blocking and pin_memory() in PyTorch | PyTorch tutorials
https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
adagrad | Adaptive Subgradient Methods for Online Learning and Stochastic Optimization | Duchi, Hazan and Singer | 2011
https://jmlr.org/papers/v12/duchi11a.html
rmsprop | Neural Networks for Machine Learning, lecture 6 | Hinton, Srivastava and Swersky | 2012
https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf
adam | Adam: A Method for Stochastic Optimization | Kingma and Ba | 2014
https://arxiv.org/abs/1412.6980
muon | Muon: An optimizer for hidden layers in neural networks | Keller Jordan et al. | 2024
https://kellerjordan.github.io/posts/muon/
selective recomputation | Reducing Activation Recomputation in Large Transformer Models | Korthikanti et al. | 2022
https://arxiv.org/abs/2205.05198
flash attention | FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness | Dao et al. | 2022
https://arxiv.org/abs/2205.14135
sublinear | Training Deep Nets with Sublinear Memory Cost | Chen et al. | 2016
https://arxiv.org/abs/1604.06174
lora | LoRA: Low-Rank Adaptation of Large Language Models | Hu et al. | 2021
https://arxiv.org/abs/2106.09685
ultra-scale | The Ultra-Scale Playbook: Training LLMs on GPU Clusters | Hugging Face | 2025
https://huggingface.co/spaces/nanotron/ultrascale-playbook
weights only | Serialization semantics: torch.load with weights_only=True | PyTorch
https://docs.pytorch.org/docs/stable/notes/serialization.html
young | A first order approximation to the optimum checkpoint interval | John W. Young | 1974
https://doi.org/10.1145/361147.361115
fp8-lm | FP8-LM: Training FP8 Large Language Models | Peng et al. | 2023
https://arxiv.org/abs/2310.18313
deepseek-v3 | DeepSeek-V3 Technical Report | DeepSeek-AI | 2024
https://arxiv.org/abs/2412.19437
nemotron 3 super | Nemotron 3 Super: Open, Efficient Mixture-of-Experts Hybrid Mamba-Transformer Model | NVIDIA | 2026
https://arxiv.org/abs/2604.12374
nvfp4 training | Pretraining Large Language Models with NVFP4 | NVIDIA | 2025
https://arxiv.org/abs/2509.25149
transformer engine | Transformer Engine documentation | NVIDIA
https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/
amp | Automatic Mixed Precision package: torch.amp | PyTorch
https://docs.pytorch.org/docs/stable/amp.html
"""

REFERENCES = {  # what `link` takes, by name
    entry.split(" | ")[0]: {"url": url}
    | {
        field: value
        for field, value in zip(("title", "authors", "date", "description"), entry.split(" | ")[1:], strict=False)
        if value
    }
    for entry, url in zip(*2 * [iter(BIBLIOGRAPHY.splitlines())], strict=True)
}


def main() -> None:
    """PyTorch and resource accounting

    What does it take to train a language model? Bytes and FLOPs (additions and multiplications). After this lecture you
    can say, before anything has run, how many days and dollars a model will take, whether it fits into memory, and what
    the machine will wait for. Each number is derived, then counted, then measured by the program that you are reading.

    **You should know** some Python and NumPy, what matrix products, logarithms and probabilities are, and what a
    gradient is for. **You need** no GPU and no network: where a GPU is mentioned, its datasheet is quoted.
    """
    torch.set_float32_matmul_precision("highest")  # no tf32 until section 5, whatever the environment says @hide
    overview()
    napkin_math()
    memory_accounting()
    tensors_from_the_inside()
    einops_and_jaxtyping()
    compute_accounting()
    arithmetic_intensity()
    gradients()
    models()
    randomness_and_data()
    optimizers()
    training_loop()
    mixed_precision()
    memory_of_a_training_step()
    using_less_memory()
    saving_and_resuming()
    summary()


@dataclass(frozen=True)
class Sizes:
    """How large a thing must be to be measured on this machine; here, for a CPU."""

    streamed_bytes: int = 2**27  # far more than the caches hold
    matmul_side: int = 1024  # of a square matmul that compute limits by far
    half_matmul_side: int = 128  # the same in fp16, for which most CPUs have no instructions
    model_width: int = 512  # of the deep model whose step is timed
    model_batch: int = 256  # its rows
    token_file_bytes: int = 2**27  # of the tokens written to disk
    optimizer_width: int = 512  # of the 8 square layers whose step is timed
    activation_rows: int = 512  # of a batch whose activations outweigh a small model
    loop_width: int = 512  # of the model whose training loop is timed
    loop_rows: int = 256  # its batch
    step_width: int = 512  # of the layers whose training steps are compared
    step_batch: int = 256  # rows of such a step

    def side_of(self, itemsize: int) -> int:
        """Of a square matrix of half the bytes that are streamed"""
        return math.isqrt(self.streamed_bytes // 2 // itemsize)


@cache
def sizes() -> Sizes:
    """Choose every size that depends on the machine, here and nowhere else; once, so that they agree."""
    if device() == "cpu":
        return Sizes()
    gigabytes = memory_bytes() / 1e9  # of the card, whatever is in use: the same sizes on every day
    side = 8192 if gigabytes > 30 else 4096 if gigabytes > 5 else 2048  # then the largest part takes 4, 1 or ¼ GB
    return Sizes(
        streamed_bytes=2**30 if gigabytes > 7 else 2**28,
        matmul_side=side,
        half_matmul_side=side,
        model_width=side,
        model_batch=side,
        token_file_bytes=2**28,
        optimizer_width=side // 2,
        activation_rows=side**2 // 128,
        loop_width=side,
        loop_rows=2 * side,
        step_width=side,
        step_batch=side,
    )


# ---------------------------------------------------------------------------------------------------------
# 0 Overview


def overview() -> None:
    """Overview"""
    text(
        "How many days and dollars does it take to train a language model? Change the numbers below and see. Section 1 "
        "derives the formula, and the other sections derive the numbers that it takes on trust."
    )
    note(
        "Three minutes. Let someone call out a model size and a number of GPUs, and read off the bill. Then point at "
        "one line of code and at its value."
    )
    days_and_dollars()
    how_to_read_a_page()
    symbols_and_units()
    symbols_of_the_formulas()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. Training costs memory (bytes) and compute (FLOPs, a count; FLOP/s is a rate).\n"
        "2. GPUs are paid by the hour, busy or idle: twice the speed halves the bill.\n"
        "3. Derive a number, count it, measure it, and explain the difference."
    )


def days_and_dollars() -> None:
    """Days and dollars"""
    parameters, tokens, gpus = 8e9, 1e12, 64  # a model of 8 billion numbers, and a trillion tokens of text
    flops = 6 * parameters * tokens  # additions and multiplications @inspect flops [FLOP]
    flops_per_second = gpus * H100_BF16 * 0.4  # the GPUs reach 40% of their peak @inspect flops_per_second [FLOP/s]
    days = flops / flops_per_second / SECONDS_PER_DAY  # @inspect days [d]
    dollars = days * 24 * gpus * 2.0  # at 2 dollars for each hour of a GPU, assumed @inspect dollars [USD]
    explore(
        training_run,
        "{days} on {gpus} × {GPU}, and {dollars}: {flops} in {gpu_hours}. {tokens_per_parameter} tokens for each "
        "parameter; about 20 give the lowest loss for a given compute (section 1).",
        title="Days and dollars, for your own model and machine",
        inputs={
            "parameters": (parameters, 1e6, 1e13),
            "tokens": (tokens, 1e8, 1e15),
            "gpus": (gpus, 1, 200_000),
            "mfu": (0.4, 0.05, 1.0),
            "dollars_an_hour": (2.0, 0.1, 20.0),
        },
        menus={"GPU": gpus_of_the_table()},
        names={"gpus": "GPUs", "mfu": "MFU", "gpu_hours": "GPU-hours", "dollars_an_hour": "dollars an hour of a GPU"},
        units={"peak": "FLOP/s", "flops": "FLOP", "days": "days", "gpu_hours": "GPU-hours", "dollars": "dollars"},
        curve=("mfu", "days"),
        across="GPU",
    )  # @stepover @cover
    run = training_run(parameters, tokens, gpus, H100_BF16, 0.4, 2.0)  # @hide @stepover
    assert math.isclose(run["days"], days) and math.isclose(run["dollars"], dollars)  # @hide
    assert (round(days, 1), round(dollars, -3)) == (21.9, 67_000)  # @hide
    text(
        "MFU is the share of its peak speed that a GPU reaches in training. Double it, and the days and the money "
        "halve."
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


def how_to_read_a_page() -> None:
    """How to read a page"""
    stages = [
        ("napkin", "days and GPUs\nsection 1"),
        ("tensors", "bytes and FLOPs\nsections 2 to 7"),
        ("models and data", "parameters, tokens\nsections 8 and 9"),
        ("optimizers", "states\nsection 10"),
        ("training loop", "time of a step\nsections 11 and 12"),
        ("a whole run", "activations, files\nsections 13 to 15"),
    ]  # @hide
    plot(draw_road_map(stages), title="The lecture in six stages, and the costs that each stage adds")  # @hide
    text(
        "This lecture is a program. Each line shows the value that it computed, and ± or [a … b] if runs differed. A ✓ "
        "after an `assert` means that the claim held in every run. `f32[2, 3]` is a tensor, PyTorch's array, with its "
        "number format (fp32) and shape. `device()` is the GPU, or else the CPU. Capitals such as `H100_BF16` are "
        "constants from the datasheet of NVIDIA's H100 GPU.\n\n"
        "You learn *mechanics* (bytes and operations), a *mindset* (count before you run) and *intuition*."
    )


def symbols_and_units() -> None:
    """Symbols and units"""
    text(
        "A **token** is a piece of text, often part of a word. **FLOPs** are a *count* of additions and "
        "multiplications, **FLOP/s** a *rate*. In section 1's $C = 6ND$, $D$ is tokens; elsewhere it is a width. k, "
        "M, G, T, P, E are powers of 1000; Ki, Mi, Gi, Ti are powers of 1024. GPUs are sold in GB; many tools count in "
        "GiB and print GB."
    )
    weights_gib = 70e9 * 2 / 2**30  # 70 billion parameters of 2 bytes, which are 140 GB @inspect weights_gib
    assert round(weights_gib, 1) == 130.4
    text(
        "The models are Transformers. This lecture uses their shapes and derives their costs; for the architecture "
        "itself:"
    )
    for name in ("attention", "illustrated", "annotated"):  # @hide
        link(**REFERENCES[name])


def symbols_of_the_formulas() -> None:
    """Symbols of the formulas"""
    symbols = [
        ("$B$", "sequences (pieces of text) in a batch", "$N$", "parameters of a model"),
        ("$S$", "tokens in a sequence", "$L$", "layers"),
        ("$D$", "width: numbers per token", "$K$", "outputs of a layer"),
        ("$H$", "heads of attention (section 4)", "$V$", "different tokens: the vocabulary"),
        ("$T$", "tokens in a batch, $BS$", "$C$", "FLOPs of a training run"),
    ]  # @hide
    table(symbols, ["symbol", "meaning", "symbol ", "meaning "])  # @hide


# ---------------------------------------------------------------------------------------------------------
# 1 Napkin math


def napkin_math() -> None:
    """Napkin math"""
    text(
        "How long does a model take to train, and how large a model fits into memory? Two numbers answer both "
        "questions: 6 FLOPs for each parameter and token, and 16 bytes for each parameter."
    )
    note(
        "Six minutes. Let the room guess the days before you show them; most guesses are off by a factor of ten. "
        "If time is short, leave out the real run."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    time_to_train()
    where_the_six_comes_from()
    largest_model()
    napkin_against_reality()  # @deeper
    best_model_for_the_compute()  # @deeper
    where_the_six_bends()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. A run takes $C = 6ND$ FLOPs ($N$ parameters, $D$ tokens): 2 forward and 4 backward for each.\n"
        "2. Time = FLOPs / (GPUs × peak × MFU). Plan with the dense peak and an MFU of 0.4.\n"
        "3. AdamW takes 16 bytes per parameter, before activations: 1.12 TB for 70B parameters."
    )


def time_to_train() -> None:
    """How long does a 70B model take to train?"""
    text(
        "The model has 70 billion **parameters**, the numbers that training adjusts, and reads 15 trillion tokens on "
        "1024 H100s. Training reaches a share of a GPU's **peak** speed, the **model FLOPs utilization** (MFU)."
    )
    parameters, tokens, gpus = 70e9, 15e12, 1024
    total_flops = 6 * parameters * tokens  # @inspect total_flops [FLOP]
    promised = H100_BF16  # of one GPU, in bf16, a number format of 2 bytes @inspect promised [FLOP/s]
    mfu = 0.4
    lowest, highest = (speed / H100_BF16 for speed in LLAMA3_SPEEDS)  # of Llama 3 405B's steps, by its paper @hide
    assert (round(lowest, 2), round(highest, 2)) == (0.38, 0.43)  # @hide
    text(
        f"Large runs report an MFU of 0.3 to 0.5: PaLM {PALM_MFU:.2f}, Llama 3 405B {lowest:.2f} to {highest:.2f}. "
        "This lecture plans with 0.4; many texts plan with 0.5. (The datasheet also prints twice this peak, for *2:4 "
        "sparsity*, matrices with two zeros among every four weights. Training has none.)"
    )
    right = training_run(parameters, tokens, gpus, promised, mfu, 2.0)["days"]  # @hide @stepover
    ask(
        "Predict: how many days does the training take?",
        right,
        unit="days",
        within=0.05,
        hint="Divide the work of the run by the work of a day.",
        slips={
            right / 2: "That is the peak for sparse matrices.",
            right * mfu: "That is an MFU of 1.",
            right * gpus: "That is one GPU of the 1024.",
            right * 1000: "One day's work is about $3.5 \\times 10^{22}$ FLOPs. Check the exponent.",
        },
    )
    flops_per_day = promised * mfu * gpus * SECONDS_PER_DAY  # @inspect flops_per_day [FLOP]
    days = total_flops / flops_per_day  # @inspect days [d]
    dollars = days * 24 * gpus * 2.0  # at 2 dollars a GPU-hour, assumed @inspect dollars [USD]
    assert (total_flops, round(flops_per_day / 1e22, 3), round(days, 2)) == (6.3e24, 3.502, 179.91)  # @hide
    days_at = {m: round(days * mfu / m, 1) for m in (0.3, 0.4, 0.5, 0.6)}  # @hide
    assert days_at == {0.3: 239.9, 0.4: 179.9, 0.5: 143.9, 0.6: 119.9}  # @hide
    assert round(dollars / 2 / 1e6, 2) == 4.42  # million GPU-hours @hide
    text(
        f"Six months, and {dollars / 2e6:.2f} million GPU-hours. At an MFU of 0.3 it is {days_at[0.3]:.0f} days, at "
        f"0.5 {days_at[0.5]:.0f}."
    )
    link(**REFERENCES["h100"])
    link(**REFERENCES["llama 3"])


def where_the_six_comes_from() -> None:
    """Where the 6 comes from"""
    text(
        "The *forward pass* computes the loss, the number that training makes small. The *backward pass* computes each "
        "parameter's **gradient**: how the loss changes with it. Forward, "
        "each parameter meets each token in a multiplication and an addition: 2 FLOPs. Backward has two such products, "
        "for the gradient of the weights and for that of the inputs: 4 FLOPs."
    )
    tokens, width, outputs = 512, 128, 256
    x = torch.randn(tokens, width, requires_grad=True)  # the inputs
    w = torch.randn(width, outputs, requires_grad=True)  # the parameters
    upstream = torch.randn(tokens, outputs)  # the gradient of the outputs, from the layer above
    parameters = w.numel()
    forward = count(lambda: x @ w)  # `count` runs a function and counts its FLOPs @inspect forward.flops [FLOP]
    both = count(lambda: (x @ w).backward(upstream))  # forward and backward @inspect both.flops [FLOP]
    backward_flops = both.flops - forward.flops
    assert forward.flops == 2 * parameters * tokens
    assert backward_flops == 4 * parameters * tokens
    text(
        "The layer below needs the gradient of the inputs. So a run with $N$ parameters and $D$ tokens takes $C "
        "\\approx 6ND$ FLOPs, its **compute**. Attention's products, which $6ND$ leaves out, matter for long texts "
        "(section 8)."
    )
    link(**REFERENCES["kaplan"])


def napkin_against_reality() -> None:
    """The napkin against a real run"""
    text("Llama 3 70B read about 15T tokens. Its model card states 6.4 million GPU-hours on H100s.")
    available_flops = 6.4e6 * 3600 * H100_BF16  # at the peak, in all these hours @inspect available_flops [FLOP]
    implied_mfu = 6 * 70e9 * 15e12 / available_flops  # @inspect implied_mfu
    assert round(implied_mfu, 2) == 0.28  # @hide
    text(
        f"The napkin was too optimistic by a factor of {0.4 / implied_mfu:.1f}: good enough to decide, not to promise "
        "a date. Attention's FLOPs, which $6ND$ leaves out, explain a part; the card does not say how many hours were "
        "training steps."
    )
    link(**REFERENCES["llama 3 card"])


def best_model_for_the_compute() -> None:
    """The best model for the compute"""
    text(
        "Compute can buy parameters or tokens. About 20 tokens per parameter give the lowest loss (Hoffmann et al., "
        "2022, who trained *Chinchilla* by this rule). Then $C = 6N \\cdot 20N = 120N^2$. For 8 H100s and two weeks:"
    )
    compute = 8 * 14 * SECONDS_PER_DAY * H100_BF16 * 0.4  # @inspect compute [FLOP]
    parameters = math.sqrt(compute / 120)  # @inspect parameters
    tokens = 20 * parameters  # @inspect tokens
    assert math.isclose(6 * parameters * tokens, compute)  # @hide
    assert (round(parameters / 1e9, 1), round(tokens / 1e9)) == (5.6, 113)  # @hide
    text(
        f"A model for many users is smaller and trained for longer, since every use costs in proportion to its "
        f"parameters: Llama 3 70B read {15e12 / 70e9:.0f} tokens per parameter."
    )
    link(**REFERENCES["chinchilla"])


def largest_model() -> None:
    """What is the largest model that 8 H100s can train with AdamW?"""
    text(
        "For each parameter, training holds the parameter, its gradient, and the states of the **optimizer**, which "
        "turns gradients into changes. The usual one, AdamW, keeps two: running averages of the gradient and of its "
        "square (section 10). In the format fp32 each number takes 4 bytes: 16 in all."
    )
    ask(
        "Predict: how many billions of parameters fit into 8 H100s of 80 GB?",
        8 * H100_MEMORY / 16 / 1e9,
        unit="billion parameters",
        slips={
            H100_MEMORY / 16 / 1e9: "That is one GPU.",
            8 * H100_MEMORY / 4 / 1e9: "Those are the parameters alone, without gradients and states.",
        },
    )
    text(
        "*Mixed precision* computes in bf16 (2 bytes), because it is faster. It may keep a *master copy* of the "
        "parameters in fp32, so that small updates are not rounded away (section 12):"
    )
    # bytes of a parameter, gradient, master copy, optimizer states. RECIPES counts one state, AdamW has two:
    recipes = {name: (*others, 2 * state) for name, (*others, state) in RECIPES.items()}  # @hide
    held = [sum(parts) for parts in recipes.values()]  # bytes per parameter @hide
    assert held == [16, 12, 14, 16, 8]  # @hide
    formats = {4: torch.float32, 2: torch.bfloat16}  # by bytes @hide
    kept: list[bool] = []  # does a weight of 1 change when 0.001 is added? @hide
    for parameter, _, master, _ in recipes.values():  # the optimizer changes the master copy, if there is one @hide
        kept.append(bool(torch.ones((), dtype=formats[master or parameter]) + 0.001 > 1))  # @hide
    assert kept == [True, False, True, True, False]  # @hide
    largest = [round(8 * H100_MEMORY / total / 1e9, 1) for total in held]  # 10⁹ parameters @hide
    assert largest == [40.0, 53.3, 45.7, 40.0, 80.0]  # @hide
    signs = ["kept" if keeps else "**lost**" for keeps in kept]  # @hide
    rows = zip(recipes, recipes.values(), held, largest, signs, strict=True)  # @hide
    shown = ("all fp32", "bf16, fp32 master and states", "bf16, fp32 states")  # @hide
    columns = [
        "recipe",
        "parameters",
        "gradients",
        "master",
        "states",
        "bytes",
        "largest, 10⁹",
        "small updates",
    ]  # @hide
    table([(name, *parts, *others) for name, parts, *others in rows if name in shown], columns)  # @hide
    text(
        "With a master copy, mixed precision saves *no* memory here. The marked recipe rounds small updates away and "
        "needs a remedy such as stochastic rounding (section 12). So does `torch.optim.AdamW` on bf16 parameters, "
        f"whose states are in bf16 as well: {held[-1]} bytes.\n\n"
        "The table assumes *sharding*: each number is on one of the 8 GPUs (section 14). In plain *data parallelism* "
        "each GPU holds everything, so 5 billion is the limit. A 70B model needs:"
    )
    needed_bytes = 70e9 * 16  # @inspect needed_bytes [B]
    gpus = math.ceil(needed_bytes / H100_MEMORY)  # @inspect gpus
    assert H100_MEMORY / 16 == 5e9  # @hide
    assert (needed_bytes, gpus) == (1.12e12, 14)
    text("That is before **activations**, the results that the forward pass keeps for the backward pass (section 13).")


def where_the_six_bends() -> None:
    """Where the 6 bends"""
    text(
        "$6N$ per token leaves out the two products of attention (section 4), which have no parameters and grow with "
        "the sequence. It also counts the input embedding, a table of parameters that is looked up and never "
        "multiplied. With $N'$ for all other parameters,\n\n"
        "$$ C \\text{ per token} = 6N' + 12 \\cdot L \\cdot D \\cdot S. $$\n\n"
        "To check it, count a model of the shape of Llama 3 70B on the `meta` device: its tensors have a shape and no "
        "memory, and its operations can be counted although they compute nothing. (Rotary embeddings are left out: "
        "elementwise operations, which torch's counter does not count.)"
    )
    width, layers, hidden, vocabulary = 8192, 80, 28672, 128256
    shapes = {"query": (width, width), "key": (width, 1024), "value": (width, 1024), "output": (width, width)}
    shapes |= {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}
    weights = {name: torch.empty(shape, device="meta", requires_grad=True) for name, shape in shapes.items()}
    head = torch.empty(width, vocabulary, device="meta", requires_grad=True)
    multiplied = layers * sum(w.numel() for w in weights.values()) + head.numel()  # @inspect multiplied
    norms, embedding = (2 * layers + 1) * width, vocabulary * width
    parameters = multiplied + norms + embedding  # @inspect parameters
    assert parameters == 70_553_706_496  # the published model's
    ratios = {}
    for length in (2048, 8192, 131072):
        x = torch.empty(length, width, device="meta", requires_grad=True)  # (sequence, width)
        layer_flops = training_flops(transformer_layer, x, weights)  # the 80 layers are alike
        flops = layers * layer_flops + training_flops(torch.matmul, x, head)  # @stepover
        assert flops == 6 * multiplied * length + 12 * layers * width * length**2
        ratios[length] = flops / (6 * parameters * length)  # @inspect ratios
    assert [round(ratio, 2) for ratio in ratios.values()] == [1.02, 1.14, 3.42]  # @hide
    even = 6 * multiplied / (12 * layers * width)  # tokens, at which attention takes half @inspect even
    assert 6 < even / width < 7  # the rule says 6 D for layers of 12 D² parameters
    text(
        f"At 2048 tokens $6N$ is {ratios[2048] - 1:.0%} short. Attention takes half of the work at {even:,.0f} tokens, "
        f"{even / width:.1f} times the width. The formula counts all of $S^2$; a kernel (the program that a GPU runs "
        f"for an operation) that skips the scores hidden by the causal mask does half of it."
    )
    for name in ("flops calculus", "transformer math", "transformer memory", "transformer flops"):  # @hide
        link(**REFERENCES[name])


def grouped_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention whose heads share keys and values in groups; all (heads, sequence, head width)"""
    heads, length, width = query.shape
    key, value = (t.repeat_interleave(heads // len(t), dim=0) for t in (key, value))
    scores = query @ key.transpose(1, 2) / math.sqrt(width)  # (heads, sequence, sequence)
    hidden = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(diagonal=1)
    return scores.masked_fill(hidden, -math.inf).softmax(dim=-1) @ value


def transformer_layer(x: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """A layer as Llama's, without rotary embedding: attention with heads of 128, then a gated feed-forward"""
    length, width = x.shape
    h = nn.functional.rms_norm(x, (width,))
    query, key, value = ((h @ weights[n]).view(length, -1, 128).transpose(0, 1) for n in ("query", "key", "value"))
    mixed = grouped_attention(query, key, value)  # (heads, sequence, head width)
    x = x + mixed.transpose(0, 1).reshape(length, width) @ weights["output"]
    h = nn.functional.rms_norm(x, (width,))
    return x + (nn.functional.silu(h @ weights["gate"]) * (h @ weights["up"])) @ weights["down"]


def training_flops(forward: Callable[..., Tensor], *inputs: Any) -> int:
    """Count one forward and one backward pass with torch's counter, which counts matrix multiplications only"""
    with FlopCounterMode(display=False) as counter:
        forward(*inputs).sum().backward()
    return counter.get_total_flops()


# ---------------------------------------------------------------------------------------------------------
# 2 Memory accounting


class FloatFormat(NamedTuple):
    """One sign bit, then these; the topmost `reserved_codes` patterns are infinities and NaNs."""

    exponent_bits: int
    mantissa_bits: int
    reserved_codes: int


def memory_accounting() -> None:
    """Memory accounting"""
    in_fp32, in_bf16 = (70e9 * torch.finfo(dtype).bits / 8 for dtype in (torch.float32, torch.bfloat16))  # @hide
    text(
        "How many bytes does a tensor take, and how much does a smaller number format give up? 70 billion parameters "
        f"take {in_fp32 / 1e9:.0f} GB in fp32 and {in_bf16 / 1e9:.0f} GB in bf16."
    )
    note(
        "Five minutes. Range against precision is the point. Ask for 1.001 in bf16 before you show it; the layouts can "
        "be read at home."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    creating_tensors()
    bytes_of_a_tensor()
    layouts()
    range_and_precision()
    where_tensors_live()
    where_memory_hides()  # @deeper
    all_formats()  # @deeper
    encode_by_hand()  # @deeper
    overflow()  # @deeper
    block_scaling()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. Bytes = elements × bytes per element: 4 in fp32, 2 in bf16 and fp16, 1 in fp8.\n"
        "2. Exponent bits buy range, which gradients need; mantissa bits buy precision, which weights need.\n"
        "3. An H100 reads its own memory at 3350 GB/s, the CPU's at 64 GB/s. Section 3: which operations move bytes."
    )


def creating_tensors() -> None:
    """Creating tensors"""
    text("A **tensor** is an array of numbers of one format:")
    literal = torch.tensor([[1.0, 2, 3], [4, 5, 6]])  # @inspect literal
    zeros, normal = torch.zeros(2, 4), torch.randn(2, 4)  # also: torch.ones @inspect zeros normal
    unset = torch.empty(100, 100)  # whatever the memory held before @inspect unset.shape
    nn.init.trunc_normal_(unset, std=0.5, a=-1, b=1)  # fills it: normal, and drawn again beyond ±1
    assert unset.abs().max() <= 1  # @hide
    assert 0.42 < unset.std() < 0.46  # less than 0.5: the largest are missing @hide
    assert (literal.shape, literal.sum()) == ((2, 3), 21)  # @hide
    assert zeros.shape == normal.shape == (2, 4)  # @hide
    assert literal.dtype == zeros.dtype == normal.dtype == torch.float32  # @hide
    text(
        "`dtype=` chooses the format (`torch.float32`, `torch.bfloat16`, …) and `device=` the memory: `cpu`, `cuda` "
        "(an NVIDIA GPU's), or `meta` (a shape without memory). The number of dimensions is the **rank**, 3 between "
        "the layers of a Transformer and 4 inside attention:"
    )
    activations = torch.zeros(2, 8, 64, dtype=torch.bfloat16)  # (B, S, D) @inspect activations.dim()
    per_head = torch.zeros(2, 8, 4, 16, dtype=torch.bfloat16)  # (B, S, H, D/H) @inspect per_head.dim()
    assert activations.numel() == per_head.numel()  # @hide


def bytes_of_a_tensor() -> None:
    """Bytes = elements × bytes per element"""
    x = torch.zeros(4, 8)  # @inspect x.numel() x.element_size() x.nbytes
    assert x.numel() * x.element_size() == x.untyped_storage().nbytes()  # as many as were allocated
    text("GPT-3's layers hold matrices of $4D \\times D$ with $D = 12288$.")
    matrix = torch.empty(4 * 12288, 12288, device="meta")  # (49152, 12288)
    ask(
        "How many GiB does such a matrix take in fp32?",
        matrix.nbytes / 2**30,
        unit="GiB",
        hint="49152 × 12288 × 4 bytes; then divide by $2^{30}$.",
        why="2304 MiB, which is 2.25 GiB or 2.42 GB.",
        slips={
            matrix.nbytes / 1e9: "Those are GB, powers of 1000.",
            matrix.nbytes / 2**20 / 1000: "That is MiB divided by 1000: neither GiB nor GB, and often seen in print.",
            matrix.numel() / 2**30: "Those are elements. Each takes 4 bytes.",
        },
    )
    assert matrix.nbytes == 2304 * 2**20  # @hide
    assert round(matrix.nbytes / 1e9, 2) == 2.42  # @hide
    dtypes = (torch.float64, torch.float32, torch.bfloat16, torch.float8_e4m3fn)
    gib = {str(dtype): matrix.to(dtype).nbytes / 2**30 for dtype in dtypes}  # @inspect gib
    assert list(gib.values()) == [4.5, 2.25, 1.125, 0.5625]  # @hide
    link(**REFERENCES["gpt-3"])


def floating_point_formats() -> dict[str, FloatFormat]:
    """Exponent bits, mantissa bits, and how many patterns are reserved"""
    return {
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
        "smallest subnormal": decode(1, form),
        "eps": decode(one + 1, form) - decode(one, form),  # the gap above 1
    }


def bits_of(value: float, form: FloatFormat) -> tuple[str, str, str]:
    """Sign, exponent and mantissa of a positive value, in binary"""
    k, m, _ = form
    pattern = f"{encode(value, form):0{k + m}b}"
    return "0", pattern[:k], pattern[k:]


def layouts() -> None:
    """Floating-point formats"""
    text(
        "A floating-point number has a sign bit, bits of **exponent** (how large) and bits of **mantissa** (the "
        "digits). The exponent buys **range**, the mantissa **precision**. *eps* is the distance from 1 to the next "
        "number."
    )
    formats = floating_point_formats()  # @stepover @hide
    five = ("fp32", "fp16", "bf16", "fp8 E4M3", "fp4 E2M1")  # @hide
    bits = {name: bits_of(0.01, formats[name]) for name in five}  # @stepover @hide
    title = "0.01 in five formats: bf16 has the exponent of fp32, and fewer digits than fp16"  # @hide
    plot(draw_bits(bits), title=title)  # @hide
    rows = []  # @hide
    for name in five:  # @hide
        form = formats[name]  # @hide
        largest, _, smallest, eps = limits(form).values()  # @hide @stepover
        rows.append((name, (1 + form.exponent_bits + form.mantissa_bits) / 8, largest, smallest, eps))  # @hide
    table(rows, ["format", "bytes", "largest", "smallest above 0", "eps"])  # @hide
    text(
        "bf16 is the first half of fp32, with the same range and two to three decimal digits. Numbers in fp8 and fp4 "
        "need a scale, shared by a group (section 12)."
    )


def range_and_precision() -> None:
    """Range matters to gradients, precision to updates"""
    text(
        "Gradients are small, and their sizes differ by many powers of ten. They need range. In fp16 a small one "
        "*underflows* to 0, and a large one *overflows* to infinity:"
    )
    small, large = torch.tensor(1e-8), torch.tensor(1e5)
    in_fp16 = small.half().item(), large.half().item()  # underflow, and overflow @inspect in_fp16
    in_bf16 = small.bfloat16().item(), large.bfloat16().item()  # @inspect in_bf16
    assert in_fp16 == (0, math.inf)
    assert abs(in_bf16[0] / 1e-8 - 1) < 2**-8  # @hide
    text("An update is a small change to a larger number. It needs precision.")
    updated = torch.tensor(1.001)
    ask(
        "Predict: in bf16, a weight of 1 gets an update of 0.001. Its value afterwards?",
        updated.bfloat16().item(),
        within=1e-4,
        hint="In bf16 the next number after 1 is 1 + $2^{-7}$.",
        why="The update is less than half of the step to the next number, so it is rounded away.",
        slips={
            updated.half().item(): "bf16 has no number so near. fp16 has, with three more bits of mantissa.",
            1 + 2**-7: "That is the next number after 1. 1.001 is nearer to 1.",
        },
    )
    stored = {"fp32": updated.item(), "bf16": updated.bfloat16().item()}  # @inspect stored
    assert stored["bf16"] == 1
    assert torch.tensor(1 - 0.003).bfloat16().item() == 1 - 2**-8  # below 1 the steps are half as wide @hide
    assert torch.tensor(1 + 0.003).bfloat16().item() == 1  # @hide
    assert updated.half().item() == 1 + 2**-10  # @hide
    text("So bf16 is for the numbers that are multiplied; weights that take small steps are kept in fp32.")


def where_tensors_live() -> None:
    """Where tensors live"""
    x = torch.zeros(32, 32)  # in the CPU's memory
    moved = x.to(device())  # a copy in another memory, or `x` itself @inspect moved.device
    assert x.device.type == "cpu" and x.to("cpu") is x and moved.device.type == device()  # @hide
    h100 = known_machine("NVIDIA H100 80GB HBM3")  # @hide @stepover
    over_pcie = 128e9 / 2  # bytes/s: the link between CPU and GPU, PCIe 5, in one direction @hide
    rates = {
        "cores": f"4 tensor cores in each: {H100_BF16 / 1e12:.4g} TFLOP/s in bf16 together\n"
        f"ordinary cores: {H100_FP32 / 1e12:.0f} TFLOP/s in fp32",
        "cache": f"L2 cache: {H100_CACHE / 1e6:.0f} MB",
        "memory": f"HBM: {H100_MEMORY / 1e9:.0f} GB",
        "bandwidth": f"{H100_BANDWIDTH / 1e9:.0f} GB/s",
        "bus": f"{over_pcie / 1e9:.0f} GB/s",
    }  # @hide
    title = "An H100, by its datasheet: memory is slower with each step away from the cores"  # @hide
    plot(draw_gpu(h100.multiprocessors, rates), title=title)  # @hide
    times, faster = H100_BANDWIDTH / over_pcie, H100_BF16 / H100_FP32  # @hide
    assert (round(times), round(faster)) == (52, 15)  # @hide
    text(
        "A GPU computes in **multiprocessors**, each with ordinary cores and **tensor cores**. Tensor cores multiply "
        f"small matrices in bf16, {faster:.0f} times as fast as the ordinary cores do in fp32. The program for one "
        "operation is a **kernel**. It reads the GPU's memory (HBM, *high-bandwidth memory*) through a small fast "
        f"cache (L2). The link to the CPU's memory is {times:.0f} times slower: it moves 80 GB in "
        f"{H100_MEMORY / over_pcie:.2f} s at least, HBM in {H100_MEMORY / H100_BANDWIDTH * 1e3:.0f} ms."
    )
    link(**REFERENCES["hopper"])


def where_memory_hides() -> None:
    """Where memory hides, and what moving takes"""
    if device() != "cuda":
        text(
            "Not run: no CUDA device. On one, `torch.cuda.memory_allocated` before and after two 32×32 fp32 matrices "
            f"differs by exactly {2 * torch.empty(32, 32).nbytes} bytes. (The allocator hands out multiples of 512.) "
            "Besides *allocated* bytes the allocator keeps freed memory for later; all of it is *reserved*, and "
            "CUDA takes some for itself. `nvidia-smi` shows the reserved bytes and CUDA's own. The first matmul adds a "
            "workspace for its library, cuBLAS, so run once before you measure."
        )
        return
    allocated_bytes = allocated_on_the_gpu()  # @inspect allocated_bytes [B]
    assert allocated_bytes == 8192
    draw_both_memories(transfer_rate())


def allocated_on_the_gpu() -> int:
    """What the GPU's allocator says"""
    before = torch.cuda.memory_allocated()  # @inspect before [B]
    a = torch.ones(32, 32, device="cuda")
    b = torch.ones(32, 32, device="cuda")
    after = torch.cuda.memory_allocated()  # @inspect after [B]
    assert after - before == 2 * (32 * 32 * 4) == 8192
    text("It is exact because each matrix takes a multiple of 512 bytes, the allocator's unit.")
    assert a.nbytes % 512 == 0
    torch.cuda.reset_peak_memory_stats()
    first = a @ b
    kept_bytes = torch.cuda.memory_allocated() - after - first.nbytes  # @inspect kept_bytes [B]
    second = a @ b
    assert torch.cuda.memory_allocated() - after - kept_bytes == first.nbytes + second.nbytes
    freed_bytes = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()  # @inspect freed_bytes [B]
    library = "the library of matrix products (cuBLAS on NVIDIA's GPUs)"
    if freed_bytes:
        text(
            f"Each matmul also allocates a workspace for {library}, {freed_bytes} bytes, and frees it at once. The "
            f"workspace counts in the peak, and not in the bytes that are allocated afterwards."
        )
    elif kept_bytes:
        text(
            f"The first matmul of a process also allocates a workspace for {library}: {kept_bytes} bytes, which the "
            f"process keeps. The second matmul allocates its result and no more. So run once before measuring."
        )
    else:
        text(
            f"The first matmul of a process also allocates a workspace for {library}, and the process keeps it. An "
            f"earlier matmul did that here, so these two allocate their results and no more."
        )
    memory_of_the_process()
    return after - before


def memory_of_the_process() -> None:
    """The memory of a process"""
    free_bytes, total_bytes = torch.cuda.mem_get_info()  # @inspect total_bytes [B]
    allocated_bytes = torch.cuda.memory_allocated()  # @inspect allocated_bytes [B]
    reserved_bytes = torch.cuda.memory_reserved()  # @inspect reserved_bytes [B]
    hidden_bytes = total_bytes - free_bytes - reserved_bytes  # @inspect hidden_bytes [B]
    assert allocated_bytes <= reserved_bytes <= total_bytes - free_bytes
    table(
        [
            ("allocated", allocated_bytes / 2**20, "live tensors"),
            ("reserved", reserved_bytes / 2**20, "what the caching allocator holds, in use or not"),
            ("context and others", hidden_bytes / 2**20, "CUDA's own data, loaded programs, other processes"),
        ],
        ["memory", "MiB", "what it is"],
    )
    text("`nvidia-smi` shows reserved and context together, not how much of it is tensors.")


def transfer_rate() -> float:
    """What moving costs"""
    x = torch.ones(sizes().streamed_bytes // 16)  # a quarter of them, in fp32, in the CPU's memory @stepover
    transfer = measure(lambda: x.to("cuda"))  # @inspect transfer.seconds [s]
    bytes_per_second = x.nbytes / transfer.seconds  # @inspect bytes_per_second [B/s]
    within = copy_rate()
    rates = f"To the GPU: {bytes_per_second / 1e9:.1f} GB/s. Within the GPU's memory: {within / 1e9:.0f} GB/s."
    decide(
        within / bytes_per_second,
        than=(0.8, 1.25),
        above=f"{rates} Data that is needed more than once belongs on the GPU.",
        below=f"{rates} Here the way to the GPU is the faster of the two.",
        equal=f"{rates} Both are about as fast here.",
        undecided=f"{rates} Which is faster, the runs do not say.",
    )
    return bytes_per_second


def copy_rate() -> float:
    """A copy within memory"""
    source = torch.rand(sizes().streamed_bytes // 8, device=device())  # half of them, in fp32 @stepover
    target = torch.empty_like(source)
    copy = measure(lambda: target.copy_(source))  # @inspect copy.seconds [s], copy.spread
    moved_bytes = 2 * source.nbytes  # each is read once and written once @inspect moved_bytes [B]
    assert count(lambda: target.copy_(source)).bytes_moved == moved_bytes
    bytes_per_second = moved_bytes / copy.seconds  # @inspect bytes_per_second [B/s]
    peak = peak_bandwidth()  # @inspect peak [B/s]
    if peak is None:
        text(f"{bytes_per_second / 1e9:.1f} GB/s; no peak is known for this machine.")
    else:
        share = bytes_per_second / peak  # @inspect share
        source_of_peak = "datasheet" if peak_is_promised("memory") else "best copy or read that was measured before"
        text(f"{bytes_per_second / 1e9:.1f} GB/s: {share:.0%} of the {peak / 1e9:.0f} GB/s of the {source_of_peak}.")
    return bytes_per_second


def draw_both_memories(transfer_bytes_per_second: float) -> None:
    """The two memories"""
    ram_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # @inspect ram_bytes [B]
    gpu_bytes = torch.cuda.get_device_properties(0).total_memory  # @inspect gpu_bytes [B]
    bandwidth = peak_bandwidth()
    known = {} if bandwidth is None else {"bandwidth": f"{bandwidth / 1e9:.0f} GB/s"}
    cpu, gpu = {"memory": f"{ram_bytes / 2**30:.0f} GiB"}, {"memory": f"{gpu_bytes / 2**30:.0f} GiB"} | known
    title = "Where tensors live, on this machine, with the speed of the link between both memories"
    plot(draw_memories(cpu, gpu, f"{transfer_bytes_per_second / 1e9:.1f} GB/s"), title=title)


def all_formats() -> None:
    """All formats, by their bits"""
    text(
        "With $k$ bits of exponent and $m$ of mantissa, read as whole numbers $e$ and $f$, and the **bias** $b = "
        "2^{k-1} - 1$, which makes negative exponents possible,\n\n"
        "$$ \\text{value} = \\begin{cases} (1 + f/2^m) \\cdot 2^{e - b} & e > 0 \\text{, normal} \\\\ (0 + f/2^m) "
        "\\cdot 2^{1 - b} & e = 0 \\text{, subnormal.} \\end{cases} $$\n\n"
        "Most formats reserve the topmost exponent for infinity and NaN (*not a number*). tf32, with fp32's range and "
        "fp16's precision, exists only inside tensor cores."
    )
    formats = floating_point_formats()  # @stepover
    rows = [(name, f"1 + {form[0]} + {form[1]}", *limits(form).values()) for name, form in formats.items()]  # @stepover
    table(rows, ["format", "sign + exponent + mantissa", *limits(formats["fp16"])])  # @hide @stepover
    assert list(limits(formats["fp16"]).values())[:3] == [65504, 2**-14, 2**-24]  # @stepover @hide
    tf32, fp32 = limits(formats["tf32"]), limits(formats["fp32"])  # @stepover @hide
    assert (tf32["smallest normal"], tf32["eps"]) == (fp32["smallest normal"], 2**-10)  # @hide
    assert tf32["largest"] == (2 - 2**-10) * 2.0**127  # @hide
    text(
        "torch agrees wherever it has the format. `torch.finfo` knows no smallest subnormal, but bit pattern 1 shows "
        "it."
    )
    dtypes = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    dtypes |= {"fp8 E4M3": torch.float8_e4m3fn, "fp8 E5M2": torch.float8_e5m2}
    integers = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
    for name, dtype in dtypes.items():
        ours, theirs = limits(formats[name]), torch.finfo(dtype)  # @stepover
        integer = integers[dtype.itemsize]
        smallest = torch.tensor([1], dtype=integer).view(dtype).double().item()
        assert list(ours.values()) == [theirs.max, theirs.smallest_normal, smallest, theirs.eps]
        stored = torch.tensor(0.01, dtype=torch.float64).to(dtype).view(integer)  # @hide
        assert encode(0.01, formats[name]) == stored.item()  # @stepover @hide
    for name in ("fp8 E4M3", "fp8 E5M2"):  # few patterns: all that are finite @hide
        finite = 128 - formats[name].reserved_codes  # @hide
        values = torch.arange(finite, dtype=torch.uint8).view(dtypes[name]).tolist()  # @hide
        assert [decode(code, formats[name]) for code in range(finite)] == values  # @stepover @hide
    assert [limits(formats[name])["largest"] for name in ("fp8 E4M3", "fp8 E5M2")] == [448, 57344]  # @stepover @hide
    assert list(limits(formats["fp4 E2M1"]).values()) == [6, 1, 0.5, 0.5]  # @stepover @hide
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int16)  # every bf16 number
    as_fp32 = patterns.view(torch.bfloat16).float().view(torch.int32)
    assert torch.equal(as_fp32, patterns.int() << 16)  # in fp32 it is the same bits and sixteen zeros: exact
    link(**REFERENCES["fp8"])


def encode_by_hand() -> None:
    """0.01 in fp16, by hand"""
    text("Double 0.01 until it is between 1 and 2. Each doubling takes one from the exponent.")
    significand, exponent = 0.01, 0
    while significand < 1:
        significand, exponent = 2 * significand, exponent - 1  # @inspect significand exponent
    assert (significand, exponent) == (1.28, -7)  # @hide
    exponent_field = exponent + 15  # the bias of fp16 @inspect exponent_field
    text("The leading 1 is not stored. Double the rest, 0.28, ten times: whatever passes 1 is a mantissa bit.")
    digits, rest = "", significand - 1
    for _ in range(10):
        bit, rest = divmod(2 * rest, 1)
        digits += str(int(bit))  # @inspect digits rest
    assert f"{exponent_field:05b}" == "01000" and round(rest, 2) == 0.72  # @hide
    mantissa = int(digits, 2) + round(rest)  # the rest rounds up @inspect mantissa
    assert (mantissa, f"{mantissa:010b}") == (287, "0100011111")  # @hide
    stored = torch.tensor(0.01, dtype=torch.float16)  # @inspect stored
    assert hex(stored.view(torch.int16).item()) == hex(exponent_field << 10 | mantissa) == "0x211f"
    assert stored.item() == (1 + 287 / 1024) * 2**-7 == 0.01000213623046875
    assert decode(9 << 10 | 0b0100000000, FloatFormat(5, 10, 2**10)) == 1.25 * 2**-6 != 0.01  # @stepover @hide
    text(
        "Printed examples of this get it wrong in four ways: 1.010 · 2⁻⁶ in binary is 1.25/64, another number; fp16 "
        "has five exponent bits, not six; a subnormal has the exponent 1 − 15, not 0 − 15; and the smallest positive "
        "number has sign bit 0."
    )


def overflow() -> None:
    """Too large"""
    text("The largest fp16 is 65504; the next step would be to 65536. From halfway on, numbers become infinity:")
    below, halfway = torch.tensor([65519.0, 65520.0]).half().tolist()  # to fp16 @inspect below halfway
    assert (below, halfway) == (65504, math.inf)  # @hide
    assert torch.tensor(65520.0).bfloat16().item() == 65536  # bf16 rounds it
    assert torch.tensor(1e6).to(torch.float8_e5m2).item() == math.inf
    all_of_e4m3 = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()  # @hide
    assert (all_of_e4m3.isfinite().sum(), all_of_e4m3.isnan().sum()) == (254, 2)  # none is infinite @hide
    e4m3 = torch.tensor(1e6).to(torch.float8_e4m3fn).item()  # @inspect e4m3
    if math.isnan(e4m3):
        text(f"E4M3 has no infinity. In torch {torch.__version__} a million becomes NaN; later versions saturate.")
    else:
        text(f"E4M3 has no infinity. torch {torch.__version__} **saturates**, a million becomes {e4m3:.0f}.")


def block_scaling() -> None:
    """Four bits and a scale: NVFP4"""
    text("E2M1 has eight magnitudes, so a tensor of such numbers needs a scale:")
    fp4 = floating_point_formats()["fp4 E2M1"]  # @stepover
    grid = torch.tensor([decode(code, fp4) for code in range(8)])  # @inspect grid @stepover
    assert grid.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]  # @hide
    x = torch.randn(64, 16)  # 64 blocks of 16
    x[0, 0] = 1000.0  # one outlier
    one_scale = round_to_grid(x, x.abs().max() / 6, grid)  # one scale for all must reach the outlier
    assert one_scale[1:].count_nonzero() == 0  # every number of the other blocks has become 0
    text(
        "**NVFP4** has a scale for each block of 16, itself a number in E4M3, and one fp32 scale for the tensor that "
        "brings the block scales into E4M3's range:"
    )
    tensor_scale = x.abs().max() / (6 * 448)  # fp32
    block_scales = (x.abs().amax(dim=1, keepdim=True) / 6 / tensor_scale).to(torch.float8_e4m3fn)  # (64, 1)
    scales = block_scales.float() * tensor_scale
    scaled = round_to_grid(x, scales, grid)
    errors = [((y - x)[1:].norm() / x[1:].norm()).item() for y in (one_scale, scaled)]  # @inspect errors
    assert errors[1] < 0.1 < errors[0] == 1  # @hide
    assert math.isclose(scaled[0, 0].item(), 1000, rel_tol=1e-6)  # the outlier has a block, and a scale, of its own
    packed = pack(codes_of(x / scales, grid))  # (64, 8), two values to a byte @stepover
    assert torch.equal(values_of(unpack(packed), grid) * scales, scaled)  # @stepover @hide
    stored_bytes = packed.nbytes + block_scales.nbytes + tensor_scale.nbytes
    bits_per_value = 8 * stored_bytes / x.numel()  # @inspect bits_per_value
    assert bits_per_value == 4.5 + 32 / x.numel()
    text(
        f"The relative error falls from {errors[0]:.0%} to {errors[1]:.0%}, for half a bit a value: 8 bits shared by "
        f"16, and 32 bits shared by all. The MX formats, an open standard, have one scale of 8 bits for each block of "
        f"32: MXFP4 takes {4 + 8 / 32} bits and MXFP8 {8 + 8 / 32}."
    )
    link(**REFERENCES["nvfp4"])
    link(**REFERENCES["mx formats"])


def codes_of(x: Tensor, grid: Tensor) -> Tensor:
    """The 4 bits of each number: its sign, and the index of the nearest magnitude in the grid"""
    nearest = (x.abs()[..., None] - grid).abs().argmin(dim=-1)
    return (nearest + 8 * (x < 0)).to(torch.uint8)


def values_of(codes: Tensor, grid: Tensor) -> Tensor:
    """The numbers that codes stand for"""
    magnitudes = grid[codes.int() % 8]
    return torch.where(codes < 8, magnitudes, -magnitudes)


def round_to_grid(x: Tensor, scale: Tensor, grid: Tensor) -> Tensor:
    """Each number as the nearest ± grid point times its scale"""
    return values_of(codes_of(x / scale, grid), grid) * scale


def pack(codes: Tensor) -> Tensor:
    """Codes of 4 bits, two to a byte"""
    return codes[:, 0::2] | codes[:, 1::2] << 4


def unpack(packed: Tensor) -> Tensor:
    """The codes again"""
    return torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1)


# ---------------------------------------------------------------------------------------------------------
# 3 Tensors from the inside


def tensors_from_the_inside() -> None:
    """Tensors from the inside"""
    copied_gib = 2 * 49152 * 12288 * 4 / 2**30  # @hide
    text(
        "Which operations copy memory, and which only look at it differently? Transposing GPT-3's matrix of section 2 "
        f"moves no byte; copying it in the new order moves {copied_gib:.1f} GiB."
    )
    note(
        "Four minutes. Draw the storage as a line of cells and let the room compute one address. Then ask for each row "
        "of the table whether it copies."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    storage_and_strides()
    views()
    contiguity()
    matrix_multiplication()
    what_copies()  # @deeper
    expanding()  # @deeper
    metadata_and_order()  # @deeper
    elementwise_operations()  # @deeper
    what_views_and_copies_cost()  # @deeper
    link(**REFERENCES["internals"])
    text(
        "**In three lines.**\n\n"
        "1. A tensor is a storage, an offset, and a size and a stride per dimension.\n"
        "2. Slices, `view` and `transpose` are views of one storage: no bytes move, and a write through one shows in "
        "all.\n"
        "3. Arithmetic, indexing with tensors and `clone` copy; `contiguous` and `reshape` copy only if they must. "
        "Section 4 names the dimensions."
    )


def storage_and_strides() -> None:
    """Storage and strides"""
    text(
        "A tensor's numbers are in a one-dimensional block of memory, its **storage**. The tensor adds an *offset* "
        "into the storage, and for each dimension a size and a **stride**, the number of elements from one index to "
        "the next."
    )
    x = torch.arange(16.0).view(4, 4)  # 0 to 15, as 4 rows of 4 @inspect x x.stride() x.storage_offset()
    text(
        "A step down is 4 elements, a step to the right is 1: *row-major* order. An element's address is the offset "
        "plus each index times its stride."
    )
    row, column = 1, 2
    ask(
        "At which address of the storage, counted from 0, is `x[1, 2]`?",
        x.storage_offset() + row * x.stride(0) + column * x.stride(1),
        within=0,
        slips={row * x.stride(1) + column * x.stride(0): "The strides are swapped. The first is the row's."},
    )
    address = x.storage_offset() + row * x.stride(0) + column * x.stride(1)  # @inspect address
    cells = torch.tensor([]).set_(x.untyped_storage())  # the storage itself, as a line @hide
    assert (x.stride(), address) == ((4, 1), 6)  # @hide
    assert cells[address] == x[row, column]  # @hide
    assert x.untyped_storage().nbytes() == 16 * 4  # @hide
    title = "x[1, 2]: one jump of 4 for the row, two jumps of 1 for the column"  # @hide
    plot(draw_storage(x, (row, column)), title=title)  # @hide


def shares_storage(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors are views of the same storage"""
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def views() -> None:
    """Views share storage"""
    x = torch.arange(6.0).view(2, 3)  # @inspect x
    row, column = x[0], x[:, 1]  # @inspect column column.stride() column.storage_offset()
    reshaped = x.view(3, 2)  # @inspect reshaped reshaped.stride()
    transposed = x.transpose(0, 1)  # @inspect transposed transposed.stride()
    text("The transpose only swaps the strides. All of these are *views* of the same six elements:")
    windows = {"x[0]": row, "x[:, 1]": column, "x.view(3, 2)": reshaped, "x.t()": transposed}
    shared = {name: shares_storage(x, window) for name, window in windows.items()}  # @inspect shared
    assert set(shared.values()) == {True}  # @hide
    assert (x.stride(), transposed.stride()) == ((3, 1), (1, 3))  # @hide
    assert (column.stride(), column.storage_offset(), column.tolist()) == ((3,), 1, [1, 4])  # @hide
    assert row.tolist() == [0, 1, 2] and reshaped.flatten().tolist() == [0, 1, 2, 3, 4, 5]  # @hide
    assert transposed.flatten().tolist() == [0, 3, 1, 4, 2, 5]  # @hide
    title = "The elements that each view covers: x.view(3, 2) and x.t() cover all six, in another order"  # @hide
    plot(draw_views({"x": x} | windows), title=title)  # @hide
    text("An operation with a `_` at its end works *in place*, and every view shows the change:")
    row.mul_(100)  # @inspect row x
    assert x.tolist() == [[0, 100, 200], [3, 4, 5]] and transposed[2, 0] == 200


def contiguity() -> None:
    """Contiguity"""
    text(
        "A tensor is **contiguous** if reading it row by row follows its storage. `contiguous()` copies unless the "
        "tensor is in that order already. `reshape` is `view` where a view is possible, and otherwise a copy that is "
        "easily missed."
    )
    x = torch.arange(6.0).view(2, 3)
    transposed = x.t()  # (3, 2) @inspect transposed
    ask(
        "Which of these fails for the transpose?",
        "`.view(6)`",
        choices=["`.reshape(6)`", "`.contiguous()`", "`.view(6)`", "`.clone()`"],
        hint="Which of them never copies?",
        why="A view of one dimension has one stride, and the transpose's elements are not equally spaced.",
        slips={"`.reshape(6)`": "It copies where it can't make a view."},
    )
    assert (x.is_contiguous(), transposed.is_contiguous()) == (True, False)  # @hide
    refusal = ""  # @hide
    try:
        transposed.view(6)
    except RuntimeError as error:
        refusal = str(error)  # @inspect refusal
    assert "Use .reshape(...) instead" in refusal  # @hide
    copied = transposed.contiguous()  # @hide
    assert (copied.stride(), shares_storage(copied, transposed)) == ((2, 1), False)  # @hide @stepover
    assert x.contiguous() is x  # @hide
    assert shares_storage(x, x.reshape(3, 2))  # @hide @stepover
    assert not shares_storage(transposed, transposed.reshape(6))  # @hide @stepover
    assert transposed.reshape(6).tolist() == [0, 3, 1, 4, 2, 5]  # @hide
    moved = [count(x.t).bytes_moved, count(transposed.contiguous).bytes_moved]  # counted @inspect moved [B]
    assert moved == [0, 2 * x.nbytes]  # the copy reads and writes each number
    copied_gib = 2 * torch.empty(4 * 12288, 12288, device="meta").nbytes / 2**30  # GPT-3's @inspect copied_gib
    assert copied_gib == 4.5  # @hide


def what_copies() -> None:
    """What copies"""
    x = torch.arange(6.0).view(2, 3)  # @hide
    results = {
        "`x[0:1]` (a slice)": x[0:1],
        "`x.t()`": x.t(),
        "`x.float()` (already fp32)": x.float(),
        "`x + 0`, `x.clone()`": x + 0,
        "`x[torch.tensor([0])]`": x[torch.tensor([0])],
        "`x[x >= 0]` (a mask)": x[x >= 0],
        "`x.bfloat16()`": x.bfloat16(),
    }  # @hide
    copies = {name: not shares_storage(x, result) for name, result in results.items()}  # @hide @stepover
    assert list(copies.values()) == [False] * 3 + [True] * 4 and not shares_storage(x, x.clone())  # @hide
    text("No stride could describe the elements that an index tensor selects, so indexing with a tensor always copies:")
    whose = {
        name: "itself" if result is x else "copy" if copies[name] else "view" for name, result in results.items()
    }  # @hide
    assert [name for name, which in whose.items() if which == "itself"] == ["`x.float()` (already fp32)"]  # @hide
    table(list(whose.items()), ["expression, for a tensor `x` in fp32", "result"])  # @hide


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
    plot(draw_batched_matmul(x.shape, w.shape), title=title)  # @hide
    assert torch.equal(y[1, 2], x[1, 2] @ w)  # @hide
    rows = x.view(batch * sequence, width)  # a view: batch and sequence as one dimension
    assert torch.equal(y, (rows @ w).view(batch, sequence, outputs))
    product = count(lambda: x @ w)  # @inspect product.flops [FLOP]
    assert product.flops == 2 * batch * sequence * width * outputs == 96  # @hide
    text("One multiplication of $2BSDK$ FLOPs, as large as the whole batch.")


def expanding() -> None:
    """A stride of zero"""
    text("`expand` repeats a dimension without repeating elements: its stride is 0. Broadcasting does the same.")
    bias = torch.tensor([[1.0], [2], [3]])  # (3, 1)
    expanded = bias.expand(3, 4)  # @inspect expanded expanded.stride()
    assert expanded.stride() == (1, 0)  # @hide
    claimed_bytes = expanded.nbytes  # elements × element size @inspect claimed_bytes [B]
    real_bytes = expanded.untyped_storage().nbytes()  # @inspect real_bytes [B]
    assert (claimed_bytes, real_bytes) == (48, 12)
    text(
        "So elements × element size can be too much. For a slice it is too little, since a slice keeps the whole "
        "storage."
    )
    row = torch.zeros(1000, 4)[0]
    row_bytes, kept_bytes = row.nbytes, row.untyped_storage().nbytes()  # @inspect row_bytes [B], kept_bytes [B]
    assert (row_bytes, kept_bytes) == (16, 16000)  # @hide
    refusal = ""  # @hide
    try:
        expanded.add_(1)  # four elements at one address can't be written at once
    except RuntimeError as error:
        refusal = str(error)  # @inspect refusal
    assert "single memory location" in refusal  # @hide
    assert bias.repeat(1, 4).untyped_storage().nbytes() == claimed_bytes  # `repeat` does copy


def metadata_and_order() -> None:
    """Metadata changed in place, and copies that keep the order"""
    text(
        "An in-place operation changes elements. A few, named after views (`t_`, `squeeze_`, `transpose_`), change "
        "metadata instead."
    )
    x = torch.arange(6.0).view(2, 3)
    x.t_()  # @inspect x x.stride()
    assert (x.shape, x.stride(), x.t().flatten().tolist()) == ((3, 2), (1, 3), [0, 1, 2, 3, 4, 5])  # @hide
    text("A copy need not be contiguous: `clone` and arithmetic keep the order of the strides.")
    cloned, added = x.clone(), x + 1  # @inspect cloned.stride() added.stride()
    assert (cloned.stride(), cloned.is_contiguous(), added.stride()) == ((1, 3), False, (1, 3))
    assert not shares_storage(cloned, x)  # @stepover @hide


def elementwise_operations() -> None:
    """Elementwise operations"""
    x = torch.tensor([1.0, 4, 9])
    results = x.pow(2), x.sqrt(), x.rsqrt()  # the last, 1/√x, is used to normalize @inspect results
    assert torch.allclose(x.rsqrt(), torch.tensor([1, 1 / 2, 1 / 3]))  # @hide
    assert [r.tolist() for r in results[:2]] == [[1, 16, 81], [1, 2, 3]]  # @hide
    assert (x + x).tolist() == (x * 2).tolist() == [2, 8, 18]  # @hide
    signed = torch.tensor([-1.0, 4, -9])
    assert signed.pow(2).sqrt().tolist() == signed.abs().tolist() == [1, 4, 9]  # √(x²) = |x|, in print often x
    text("Each reads its operands once and writes its result once:")
    y, z = torch.randn(1000), torch.randn(1000)
    moved = count(lambda: y + z).bytes_moved, count(lambda: y * 2).bytes_moved  # @inspect moved [B]
    assert moved == (3 * y.nbytes, 2 * y.nbytes)


def what_views_and_copies_cost() -> None:
    """What views and copies cost"""
    rows = math.isqrt(sizes().streamed_bytes // 16)  # a quarter of them, in fp32 @stepover
    x = torch.rand(rows, rows, device=device())  # @inspect x.shape
    view, copy = count(lambda: x.t()), count(lambda: x.t().contiguous())  # @inspect view.bytes_moved copy.bytes_moved
    assert shares_storage(x, x.t()) and view.bytes_moved == 0  # @stepover @hide
    assert copy.bytes_moved == 2 * x.nbytes  # read once, written once @hide
    view_time, copy_time = measure(lambda: x.t(), lambda: x.t().contiguous())  # in turn
    seconds = {"view": view_time.seconds, "copy": copy_time.seconds}  # @inspect seconds [s]
    assert seconds["view"] < seconds["copy"]  # @hide
    measured = (
        f"The transpose of {x.nbytes / 1e6:.0f} MB took {seconds['view'] * 1e6:.1f} µs as a view, and "
        f"{seconds['copy'] * 1e3:.2f} ms once it was made contiguous, at "
        f"{copy.bytes_moved / seconds['copy'] / 1e9:.1f} GB/s."
    )  # @hide
    decide(
        seconds["copy"] / seconds["view"],
        than=10,
        above=f"{measured} A view moves no bytes, however large the tensor.",
        below=f"{measured} Here the tensor is so small that the copy hardly shows.",
        undecided=f"{measured} The runs disagree about the size of the difference.",
    )


# ---------------------------------------------------------------------------------------------------------
# 4 einops and jaxtyping


def einops_and_jaxtyping() -> None:
    """einops and jaxtyping"""
    layer_flops = 4 * 2 * 32 * 64**2 + 2 * 2 * 32**2 * 64  # @hide
    text(
        "Which dimension is `-2`? Code that names its dimensions can't get it wrong, and its cost can be read off the "
        f"names: {layer_flops:,} FLOPs for the small attention layer at the end of this section."
    )
    note(
        "Four minutes. The wrong transpose is the reason for all the rest: give people a moment to find the mistake "
        "before the shapes are printed."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    dimensions_by_position()
    dimensions_by_name()
    what_heads_cost()
    causal_mask()  # @deeper
    shapes_enforced()  # @deeper
    reduce_by_name()  # @deeper
    a_matrix_for_each_head()  # @deeper
    link(**REFERENCES["einops"])
    text(
        "**In three lines.**\n\n"
        "1. A dimension by position (`-2`) can silently become another one; a dimension by name can't.\n"
        "2. A product takes 2 FLOPs for each combination of its names.\n"
        "3. Attention's matrix products take $8BSD^2 + 4BS^2D$ FLOPs, with any number of heads. Section 5 times them."
    )


def dimensions_by_position() -> None:
    """Which one was -2?"""
    text(
        "In **attention**, tokens look at each other. Each token has three vectors, a *query*, a *key* and a *value*. "
        "The products of its query with all keys are its **scores**; `softmax` turns them into weights that sum to 1, "
        "and its result is the sum of the values with these weights. **Heads** do this side by side, each on a part of "
        "the width (*hidden*)."
    )
    x = torch.randn(2, 4, 8)  # (batch, sequence, hidden)
    scores = x @ x.transpose(-2, -1)  # each token with each other: (batch, sequence, sequence) @inspect scores.shape
    assert scores.shape == (2, 4, 4)  # @hide
    split = x.view(2, 4, 4, 2)  # the same, for 4 heads: (batch, sequence, heads, part)
    ask(
        "What does `split @ split.transpose(-2, -1)` multiply?",
        "the heads of each token with each other",
        choices=[
            "the tokens of each head with each other",
            "the heads of each token with each other",
            "it raises an error",
        ],
        hint="Which dimension is -2?",
        slips={"the tokens of each head with each other": "That was the intention. But -2 is now the heads."},
    )
    wrong = split @ split.transpose(-2, -1)  # @inspect wrong.shape
    by_head = split.transpose(1, 2)  # (batch, heads, sequence, part)
    right = by_head @ by_head.transpose(-2, -1)  # @inspect right.shape
    assert not torch.allclose(wrong, right)
    one_head = split[:, :, 3]  # (batch, sequence, part), of the last one @hide
    assert torch.allclose(right[:, 3], one_head @ one_head.transpose(1, 2), atol=1e-6)  # @hide
    text("With as many heads as tokens, no error is raised and a test of shapes passes.")


def dimensions_by_name() -> None:
    """Dimensions by name"""
    text("In einops, a product names the dimensions that meet. A name on the left only is summed over:")
    x = torch.arange(64.0).view(2, 4, 8)  # whole numbers: sums are exact
    split = rearrange(x, "batch sequence (heads part) -> batch sequence heads part", heads=4)  # @inspect split.shape
    scores = einsum(
        split, split, "batch query heads part, batch key heads part -> batch heads query key"
    )  # @inspect scores.shape
    by_position = split.transpose(1, 2) @ split.transpose(1, 2).transpose(-2, -1)
    by_letter = torch.einsum("bqhd,bkhd->bhqk", split, split)  # torch's own: letters only
    assert torch.equal(scores, by_position) and torch.equal(scores, by_letter)  # @hide
    assert torch.equal(split, x.view(2, 4, 4, 2)) and shares_storage(x, split)  # @hide @stepover
    merged = rearrange(split, "... heads part -> ... (heads part)")  # `...` is any other dimensions
    assert torch.equal(merged, x)  # @hide
    other = rearrange(x, "... (part heads) -> ... heads part", heads=4)  # the order in parentheses matters @hide
    assert other.shape == split.shape and torch.equal(other[..., 0, :], x[..., 0::4])  # @hide
    text(
        "The order in parentheses matters: `(part heads)` has the same shape and gives the first head every fourth "
        "number. jaxtyping uses such names as types, and `isinstance` checks them:"
    )
    patterns = ("batch sequence hidden", "... 9", "n n n")  # wrong: 9 numbers, and three equal sizes
    fits = {pattern: isinstance(x, Float[Tensor, pattern]) for pattern in patterns}  # @inspect fits
    assert list(fits.values()) == [True, False, False]  # @hide
    text("A pattern also states its cost, 2 FLOPs for each combination of all its names:")
    product = count(lambda: einsum(split, split, "b query heads part, b key heads part -> b heads query key"))
    assert product.flops == 2 * (2 * 4 * 4 * 4 * 2)  # b, query, heads, part, key


def attention(x: Tensor, weights: Tensor, heads: int) -> Tensor:
    """Attention without a mask; `x` is (batch, sequence, hidden), the four weights are (hidden, hidden)"""
    query, key, value = (rearrange(x @ w, "... (heads part) -> ... heads part", heads=heads) for w in weights[:3])
    scores = einsum(query, key, "batch query heads part, batch key heads part -> batch heads query key")
    shares = (scores / math.sqrt(query.shape[-1])).softmax(dim=-1)  # scores stay near 1, whatever the width
    mixed = einsum(shares, value, "batch heads query key, batch key heads part -> batch query heads part")
    return rearrange(mixed, "... heads part -> ... (heads part)") @ weights[3]


def matmul_flops_of_attention(x: Tensor, weights: Tensor, heads: int) -> int:
    """The FLOPs of the layer's matrix products, without those of the softmax"""
    counted = count(lambda: attention(x, weights, heads))  # @stepover
    return sum(
        flops for operator, flops in counted.flops_by_operator.items() if "mm" in operator
    )  # aten is torch's library of operations: aten.mm, of batches aten.bmm


def what_heads_cost() -> None:
    """What heads cost"""
    text(
        "An attention layer multiplies its input by three full matrices, for queries, keys and values, and its result "
        "by a fourth. Each head computes scores and weighted sums from its own part of the width."
    )
    batch, sequence, hidden = 1, 32, 64
    x, weights = torch.randn(batch, sequence, hidden), torch.randn(4, hidden, hidden) / math.sqrt(hidden)  # section 8
    out = attention(x, weights, heads=4)  # @inspect out.shape
    query, key, value = (x @ w for w in weights[:3])  # now by position @hide
    query, key, value = (t.view(batch, sequence, 4, 16).transpose(1, 2) for t in (query, key, value))  # @hide
    by_position = nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2)  # torch's own @hide
    assert torch.allclose(out, by_position.reshape(batch, sequence, hidden) @ weights[3], atol=1e-5)  # @hide
    ask(
        "With 16 heads instead of 1, how do the FLOPs of its matrix products change?",
        "not at all",
        choices=["a sixteenth", "a quarter", "sixteen times", "not at all"],
        hint="With more heads each head is narrower. And the four full matrices?",
        slips={
            "a sixteenth": "That would be so if each head had only its own block of the four matrices. They are full.",
            "sixteen times": "Sixteen times as many scores, each a product of vectors a sixteenth as long.",
        },
    )
    flops = [matmul_flops_of_attention(x, weights, heads) for heads in (1, 4, 16)]  # @inspect flops [FLOP] @stepover
    assert flops == [1_310_720, 1_310_720, 1_310_720]  # @hide
    assert flops[0] == 4 * 2 * batch * sequence * hidden**2 + 2 * 2 * batch * sequence**2 * hidden
    text(
        "Four products with full matrices (*projections*) of $2BSD^2$ FLOPs, and two of $2BS^2D$. More heads let a "
        "token look at several positions for the same FLOPs."
    )


def causal_mask() -> None:
    """The causal mask"""
    text(
        "Scores are laid out (query, key): row $i$ holds the weights of token $i$. In a language model attention is "
        "**causal**. A token may look at itself and at earlier tokens, so the allowed part is the *lower* triangle, "
        "`tril()`. (To select the part to hide, `triu(diagonal=1)` is right.)"
    )
    ones, scores = torch.ones(4, 4), torch.randn(4, 4)  # (query, key)
    lower = ones.tril()  # @inspect lower
    allowed = lower.bool()
    weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)  # softmax turns −∞ into 0 @inspect weights
    assert lower.equal(ones.triu().t())  # @hide
    assert weights[0].tolist() == [1, 0, 0, 0]  # the first token sees only itself
    assert (weights > 0).sum(dim=-1).tolist() == [1, 2, 3, 4]  # @hide
    text("A test of a mask: change the future, and the past stays the same to the bit.")
    values = torch.randn(4, 8)  # (key, width)
    changed = values.clone()
    changed[3] = 1000.0  # another last token
    assert torch.equal((weights @ values)[:3], (weights @ changed)[:3])
    wrong = scores.masked_fill(~lower.t().bool(), -math.inf).softmax(dim=-1)  # with the other triangle it fails:
    leaked = ((wrong @ changed)[:3] != (wrong @ values)[:3]).any(dim=-1)  # @inspect leaked
    assert leaked.tolist() == [True, True, True]  # @hide


def shapes_enforced() -> None:
    """Shapes enforced"""
    text("Python does not evaluate the annotation of a local variable. This one is wrong, and runs:")
    wrong: Float[Tensor, "batch sequence heads part"] = torch.ones(7)  # @inspect wrong.shape
    assert wrong.dim() == 1  # @hide
    text(
        "The annotations of arguments are kept. A **type checker** reads them at each call: usually *beartype* or "
        "*typeguard*, here one of a few lines. jaxtyping's decorator `jaxtyped` adds that within a call each name has "
        "one size."
    )

    def scores(
        query: Float[Tensor, "batch query hidden"], key: Float[Tensor, "batch key hidden"]
    ) -> Float[Tensor, "batch query key"]:
        return query @ key.transpose(-2, -1)

    checked_scores = jaxtyped(scores, typechecker=check_each_argument)
    one_query, key = torch.randn(1, 3, 4), torch.randn(2, 5, 4)
    assert scores(one_query, key).shape == (2, 3, 5)  # broadcasting hides the mistake @stepover
    refusal = ""  # @hide
    try:
        checked_scores(one_query, key)  # @stepover
    except TypeCheckError as error:
        refusal = str(error)
    assert "batch=1" in refusal.splitlines()
    assert checked_scores(torch.randn(2, 3, 4), key).shape == (2, 3, 5)  # @stepover @hide
    unchecked = jaxtyped(scores, typechecker=None)
    assert unchecked(one_query, key).shape == (2, 3, 5)  # without a checker `jaxtyped` checks no argument @stepover
    text(
        'Older code writes `TensorType["batch", "sequence"]`: *torchtyping*, by the same author, who replaced it with '
        "jaxtyping. In spite of its name, jaxtyping does not need JAX."
    )
    link(**REFERENCES["jaxtyping"])


def check_each_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """The smallest type checker: `isinstance` for each argument"""
    hints = get_type_hints(function)

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        given = dict(zip(hints, arguments, strict=False)) | named
        for name, argument in given.items():
            if hints[name] is not Any and not isinstance(argument, hints[name]):
                raise TypeError(f"{name} is no {hints[name]}")
        return function(*arguments, **named)

    return checked


def reduce_by_name() -> None:
    """Reductions by name"""
    x = torch.randint(-9, 10, (2, 4, 8)).float()  # (batch, sequence, hidden)
    assert torch.equal(reduce(x, "... hidden -> ...", "mean"), x.mean(dim=-1))
    assert torch.equal(reduce(x, "batch sequence hidden -> batch", "max"), x.amax(dim=(1, 2)))
    windows = reduce(x, "batch (window two) hidden -> batch window hidden", "mean", two=2)  # of two tokens each
    assert torch.equal(windows[:, 0], (x[:, 0] + x[:, 1]) / 2)
    text("A published pair of an old and a new way equates `x.mean(dim=-1)` with a sum. The claim of equality fails:")
    old = x.mean(dim=-1)
    assert torch.equal(reduce(x, "... hidden -> ...", "sum"), 8 * old) and old.any()


def a_matrix_for_each_head() -> None:
    """A matrix for each head"""
    text(
        "Some layers have groups: each head has a matrix that sees only its own part of the input. (Attention does not "
        "work this way.) By name it is one line:"
    )
    heads, part, outputs = 4, 8, 8
    x = torch.randint(-9, 10, (2, 3, heads * part)).float()  # (batch, sequence, hidden)
    w = torch.randint(-9, 10, (heads, part, outputs)).float()
    split = rearrange(x, "... (heads part) -> ... heads part", heads=heads)
    mixed = einsum(split, w, "... heads part, heads part out -> ... heads out")  # @inspect mixed.shape
    merged = rearrange(mixed, "... heads out -> ... (heads out)")
    rows = x.view(2, 3, heads, part).transpose(1, 2)  # by position: (batch, heads, sequence, part)
    assert torch.equal(merged, (rows @ w).transpose(1, 2).reshape(2, 3, heads * outputs))
    diagonal = torch.block_diag(*w)  # the heads' matrices along the diagonal, zeros elsewhere
    assert torch.equal(merged, x @ diagonal)  # @hide
    per_head = count(lambda: einsum(split, w, "... heads part, heads part out -> ... heads out"))
    assert count(lambda: x @ diagonal).flops == heads * per_head.flops  # the full matrix multiplies zeros as well


# ---------------------------------------------------------------------------------------------------------
# 5 Compute accounting


def compute_accounting() -> None:
    """Compute accounting"""
    two_weeks = 8 * 14 * SECONDS_PER_DAY * H100_BF16  # FLOPs of 8 H100s at their peak @hide
    text(
        f"**How many FLOPs does a model take, and which share of a GPU's peak does it reach?** The key figure: 8 H100s "
        f"at their peak do {two_weeks:.2g} FLOPs in two weeks, {two_weeks / 3.14e23:.0%} of GPT-3's training."
    )
    note(
        "Four minutes. Multiply one row by one column on the board, ask both questions, and read one row of the table "
        "of peaks."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    counts_and_rates()
    multiplying_by_hand()
    flops_of_the_rest()
    timing_properly()
    promised_peaks()
    model_flops_utilization()
    traps_of_utilization()  # @deeper
    switching_tf32()  # @deeper
    three_regimes()  # @deeper
    tiles_and_waves()  # @deeper
    time_on_a_gpu()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. A product of $(B, D)$ and $(D, K)$ takes $2BDK$ FLOPs.\n"
        "2. Warm up, synchronise, repeat; report median and spread.\n"
        "3. MFU = FLOPs / time / peak of the number format. Plan with 0.4. Section 6 explains what limits it."
    )


def counts_and_rates() -> None:
    """A count and a rate"""
    text(
        f"FLOPs are a count; FLOP/s is a rate; count / rate is a time. GPT-3 took 3.14e23 FLOPs by its paper, GPT-4 "
        f"about 2e25 by [an estimate]({REFERENCES['gpt-4 compute']['url']}). A US [order]"
        f"({REFERENCES['executive order']['url']}) of 2023, revoked in 2025, wanted runs above 1e26 reported."
    )
    gpt3_flops = 6 * 175e9 * 300e9  # 175B parameters, 300B tokens @inspect gpt3_flops [FLOP]
    assert math.isclose(gpt3_flops, 3.14e23, rel_tol=0.01)  # @hide
    two_weeks_flops = 8 * H100_BF16 * 14 * SECONDS_PER_DAY  # 8 H100s at their peak @inspect two_weeks_flops [FLOP]
    assert math.isclose(two_weeks_flops, 9.575e21, rel_tol=1e-3)  # @hide
    share = two_weeks_flops / gpt3_flops  # @inspect share
    assert round(share, 2) == 0.03


def multiplied_by_hand(x: Tensor, w: Tensor) -> tuple[Tensor, int]:
    """x @ w from scalars, and the number of operations that took"""
    y, flops = torch.zeros(len(x), w.shape[1]), 0
    for i, row in enumerate(x):
        for j, column in enumerate(w.t()):
            products = [a * b for a, b in zip(row, column, strict=True)]
            total, flops = products[0], flops + len(products)
            for product in products[1:]:
                total, flops = total + product, flops + 1
            y[i, j] = total
    return y, flops


def multiplying_by_hand() -> None:
    """One matrix multiplication, by hand"""
    text(
        "In a matrix product (*matmul*) of $(B, D)$ and $(D, K)$, each of the $BK$ results takes $D$ multiplications "
        "and $D - 1$ additions. The usual count is $2D$: hardware multiplies and adds in one instruction, starting "
        "from 0."
    )
    batch, width, outputs = 2, 5, 3  # B, D, K
    x = torch.arange(10.0).view(batch, width)
    w = torch.arange(15.0).view(width, outputs)
    y, exact_flops = multiplied_by_hand(x, w)  # @inspect exact_flops [FLOP] @stepover
    assert y.tolist() == (x @ w).tolist() == [[90, 100, 110], [240, 275, 310]]  # @hide
    assert exact_flops == batch * outputs * (2 * width - 1) == 54
    counted_flops = count(lambda: x @ w).flops  # @inspect counted_flops [FLOP]
    assert counted_flops == 2 * batch * width * outputs == exact_flops + batch * outputs  # @hide
    answer = count(lambda: torch.empty(4096, 512, device="meta") @ torch.empty(512, 128, device="meta")).flops  # @hide
    assert answer == 2 * 4096 * 512 * 128  # @hide
    ask(
        "How many FLOPs do 4096 tokens of width 512 take through a layer with 128 outputs?",
        answer=answer,
        unit="FLOP",
        hint="$2BDK$",
        slips={
            4096 * 512 * 128: "Each term is a multiplication *and* an addition: twice as many.",
            2 * 512 * 128: "That is for a single token.",
        },
    )


def random_product(rows: int, inner: int, columns: int, dtype: torch.dtype) -> Callable[[], Tensor]:
    """A product of random matrices (zeros take less power, and run faster than anything real)"""
    x = torch.randn(rows, inner, device=device(), dtype=dtype)
    w = torch.randn(inner, columns, device=device(), dtype=dtype)
    return lambda: x @ w


def counted_and_timed(rows: int, inner: int, columns: int, dtype: torch.dtype) -> tuple[Count, Measurement]:
    """Count and measure a product of random matrices"""
    product = random_product(rows, inner, columns, dtype)
    return count(product), timed(product)


def timed(f: Callable[[], Any]) -> Measurement:
    """Measure briefly: five samples"""
    return measure(f, repeats=5, min_seconds=0.02, max_seconds=0.2)


def timed_in_turn(*functions: Callable[[], Any]) -> list[Measurement]:
    """Measure what is compared: a sample of each, then the next of each, so that no change of clocks favours one"""
    return measure(*functions, repeats=5, min_seconds=0.02, max_seconds=0.2)


def times_as_long(slow: Measurement, fast: Measurement) -> list[float]:
    """How many times as long one took as the other, sample by sample"""
    return [a / b for a, b in zip(slow.samples_s, fast.samples_s, strict=False)]


def h100_at_best(flops: float, moved_bytes: float, peak: float = H100_BF16) -> float:
    """Seconds that an H100 needs at least: for the FLOPs or for the bytes, whichever takes longer"""
    return max(flops / peak, moved_bytes / H100_BANDWIDTH)


def flops_of_the_rest() -> None:
    """Counted and measured"""
    text(
        "torch's own counter knows matmuls, convolutions and attention; this lecture's `count` has a formula for each "
        "operation. *H100, at best* is not measured: the larger of FLOPs / peak and bytes / bandwidth by the datasheet."
    )
    n = sizes().matmul_side  # @hide @stepover
    x, v = torch.randn(n, n, device=device()), torch.randn(n, device=device())  # @hide
    operations = {"x + x": lambda: x + x, "x @ v": lambda: x @ v, "x @ x": lambda: x @ x}  # x is (n, n), v is (n)
    counted = [count(operation) for operation in operations.values()]  # @stepover
    seen_by_torch = [torch_counts(operation) for operation in operations.values()]  # @hide @stepover
    assert [c.flops for c in counted] == [n * n, 2 * n * n, 2 * n**3]
    assert seen_by_torch == [0, 0, 2 * n**3]  # @hide
    times = timed_in_turn(*operations.values())  # @hide @stepover
    best = [h100_at_best(c.flops, c.bytes_moved, H100_FP32) for c in counted]  # @hide @stepover
    rows = [
        (name, c.flops, seen, took.seconds, at_best)
        for name, c, seen, took, at_best in zip(operations, counted, seen_by_torch, times, best, strict=True)
    ]  # @hide
    columns = ["fp32", "FLOPs", "torch's counter", "measured here, s", "H100, at best, s"]  # @hide
    table(rows, columns, title=f"n = {n}")  # @hide
    faster = [2 * n / ratio for ratio in times_as_long(times[2], times[0])]  # in FLOP/s @hide @stepover
    decide(
        faster,
        than=2,
        above=(
            f"The matmul has {2 * n} times the FLOPs of the addition: a model's FLOPs are its matmuls' FLOPs. It also "
            f"runs at {statistics.median(faster):.0f} times the FLOP/s: section 6 explains why."
        ),
        below=f"The matmul has {2 * n} times the FLOPs of the addition, so a model's FLOPs are its matmuls' FLOPs.",
        undecided=f"The matmul has {2 * n} times the FLOPs of the addition, so a model's FLOPs are its matmuls' FLOPs.",
    )


def torch_counts(operation: Callable[[], Tensor]) -> int:
    """What torch's own counter says"""
    with FlopCounterMode(display=False) as counter:
        operation()
    return counter.get_total_flops()


def wait_for_the_device() -> None:
    """Wait until the device has done all it was told"""
    if device() != "cpu":
        getattr(torch, device()).synchronize()  # torch.cuda.synchronize()


def timed_by_hand(f: Callable[[], Any], calls: int) -> list[float]:
    """Seconds of each call, each from a quiet device to a quiet device"""
    seconds = []
    for _ in range(calls):
        wait_for_the_device()
        started = time.perf_counter()
        f()
        wait_for_the_device()
        seconds.append(time.perf_counter() - started)
    return seconds


def timing_properly() -> None:
    """Timing properly"""
    launched_s, floor_s = 10e-6, 2 * 8192**3 / H100_BF16  # @hide
    assert round(1e3 * floor_s, 2) == 1.11  # ms @hide
    text(
        f"**Warm up**: the first call chooses algorithms and allocates. **Synchronise**: a GPU call returns when its "
        f"work is queued. Without `torch.cuda.synchronize()` before you read the clock, a bf16 matmul of 8192³ on an "
        f"H100 seems to take {1e6 * launched_s:.0f} µs; it takes {1e3 * floor_s:.2f} ms or more. **Repeat**; report "
        f"the **median** and the **spread**: the range of the middle half of the times, over the median."
    )
    n = sizes().model_width  # @hide @stepover
    x = torch.randn(n, n, device=device())  # 512 or larger
    first, *rest = timed_by_hand(lambda: x @ x, 12)
    low, median, high = statistics.quantiles(rest, n=4)
    text(f"First call {1e6 * first:.0f} µs; the others {1e6 * median:.0f} µs, spread {(high - low) / median:.0%}.")
    assert low <= median <= high  # @hide
    if device() == "cuda":  # @hide
        timed_without_synchronizing()  # @hide


def timed_without_synchronizing() -> None:
    """The wrong number"""
    n = sizes().matmul_side  # @stepover
    x = torch.randn(n, n, device="cuda", dtype=getattr(torch, fast_format()))
    right = statistics.median(timed_by_hand(lambda: x @ x, 5))  # @inspect right [s] @stepover
    wrong = statistics.median(timed_too_early(lambda: x @ x) for _ in range(5))  # @inspect wrong [s] @stepover
    assert wrong < right / 2
    rate = 2 * n**3 / wrong  # @inspect rate [FLOP/s]
    text(
        f"Without synchronising, a matmul of {n}³ seems to take {wrong * 1e6:.0f} µs, {rate / 1e12:.0f} TFLOP/s. "
        f"That is the time to *queue* it. It takes {right * 1e6:.0f} µs."
    )


def timed_too_early(f: Callable[[], Any]) -> float:
    """Seconds until a call returns, which on a GPU is before its work is done"""
    wait_for_the_device()
    started = time.perf_counter()
    f()
    return time.perf_counter() - started


def promised_peaks() -> None:
    """Peaks from the datasheet"""
    text(
        f"Dense peaks in TFLOP/s. A GPU computes fp32 on its ordinary cores and the other formats on its tensor cores, "
        f"summed in fp32. (Summed in fp16, the RTX 3090 does 142.) Half the bits, twice the [peak]"
        f"({REFERENCES['h100']['url']}):"
    )
    formats = ("float32", "tf32", "bfloat16", "float8", "float4")  # @hide
    names = {
        "RTX 3090": "NVIDIA GeForce RTX 3090",
        "A100": "NVIDIA A100-SXM4-80GB",
        "H100, H200": "NVIDIA H100 80GB HBM3",
        "B200": "NVIDIA B200",
    }  # @hide
    promised = {name: known_machine(full).flops_per_second for name, full in names.items()}  # @hide @stepover
    rows = [(name, *(terascale(peaks.get(f)) for f in formats)) for name, peaks in promised.items()]  # @stepover @hide
    if all(peak_is_promised(form) for form in ("float32", fast_format())):  # @hide
        rows.append(("this machine", *(terascale(peak_flops(f)) for f in formats)))  # @hide @stepover
    table(rows, ["GPU", "fp32", "tf32", "bf16, fp16", "fp8", "fp4"])  # @hide
    a100, h100, b200 = promised["A100"], promised["H100, H200"], promised["B200"]  # @hide
    assert (a100["bfloat16"], a100["float32"]) == (312e12, 19.5e12)  # @hide
    assert (h100["bfloat16"], h100["float32"]) == (989.5e12, 67e12) == (H100_BF16, H100_FP32)  # @hide
    assert all(g["bfloat16"] == g["float16"] for g in promised.values())  # one column for both @hide
    assert [b200[f] for f in formats[2:]] == [2250e12, 4500e12, 9000e12]  # @hide
    assert known_machine("NVIDIA H200").flops_per_second == h100  # @hide @stepover


def terascale(rate: float | None) -> str | float:
    """A rate for a table, in units of 10¹²"""
    return "–" if rate is None else float(f"{rate / 1e12:.4g}")


def switching_tf32() -> None:
    """tf32, and its switch"""
    text(
        "Tensor cores multiply fp32 matrices as **tf32**: operands rounded to 10 bits of mantissa, sums kept in fp32. "
        "PyTorch does this for matmuls only if you ask for it with `torch.set_float32_matmul_precision('high')`; for "
        "convolutions it is the default. Rounded by hand:"
    )
    setting = (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)  # @inspect setting
    assert setting == ("highest", True)  # @hide
    x, w = torch.randn(256, 256), torch.randn(256, 256)  # @hide
    exact = x.double() @ w.double()  # @hide
    tf32_x, tf32_w = ((t.view(torch.int32) + 2**12 >> 13 << 13).view(torch.float32) for t in (x, w))
    errors = {"fp32": relative_error(x @ w, exact), "tf32": relative_error(tf32_x @ tf32_w, exact)}  # @stepover
    assert errors["fp32"] < 1e-6 < 1e-4 < errors["tf32"] < 2**-11  # half a unit of the last bit @inspect errors
    if device() == "cuda" and accelerator("cuda").has_tf32():  # @hide
        multiplied_by_tensor_cores(x, w, exact, errors["fp32"])  # @hide


def multiplied_by_tensor_cores(x: Tensor, w: Tensor, exact: Tensor, fp32_error: float) -> None:
    """The same product on this GPU"""
    torch.set_float32_matmul_precision("high")
    by_tensor_cores = relative_error((x.cuda() @ w.cuda()).cpu(), exact)  # @inspect by_tensor_cores @stepover
    torch.set_float32_matmul_precision("highest")
    assert 0 < by_tensor_cores < 2**-9  # cut off, not rounded, an operand loses less than 2⁻¹⁰
    how = "in tf32" if by_tensor_cores > 100 * fp32_error else "in fp32: the switch permits tf32, no more"
    text(f"With the switch on, this GPU is off by {by_tensor_cores:.1g}. It multiplied {how}.")


def relative_error(found: Tensor, exact: Tensor) -> float:
    """How far off, in units of the exact result"""
    return ((found.double() - exact).norm() / exact.norm()).item()


def model_flops_utilization() -> None:
    """MFU: achieved over promised"""
    text("**Model FLOPs utilization** = FLOPs that the model needs / time / peak *of the number format*.")
    answer = 6 * 8e9 * 8250 / H100_BF16  # @hide
    ask(
        "A model of 8B parameters trains in bf16 at 8,250 tokens/s on each H100. Which MFU is that?",
        answer=answer,
        within=0.02,
        hint="$6N$ FLOPs a token; the dense bf16 peak is 989.5 TFLOP/s.",
        slips={
            2 * 8e9 * 8250 / H100_BF16: "That is the forward pass alone; backward takes another $4N$.",
            6 * 8e9 * 8250 / 1979e12: "1979 TFLOP/s is the peak with sparsity (or in fp8).",
        },
    )
    mfu = 6 * 8e9 * 8250 / H100_BF16  # parameters, tokens/s @inspect mfu
    assert mfu < 1
    formats = {
        "float32": torch.float32,
        "tf32": torch.float32,
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
    }  # @hide
    shares = {
        form: utilization(form, dtype) for form, dtype in formats.items() if peak_is_promised(form)
    }  # @hide @stepover
    assert all(0 < share <= 1.3 for found in shares.values() for share in found)  # a clock may run faster @hide
    if shares:  # @hide
        rows = [(form, peak_flops(form), statistics.median(found)) for form, found in shares.items()]  # @hide @stepover
        table(rows, ["one large matmul", "peak, FLOP/s", "MFU"])  # @hide
    assert peak_flops("a format that nobody has built") is None  # @hide
    lowest, highest = (speed / H100_BF16 for speed in LLAMA3_SPEEDS)  # @hide
    text(
        f"GPT-3 reached {GPT3_MFU:.2f}, PaLM 540B {PALM_MFU:.2f} ([source]({REFERENCES['palm']['url']})), Llama 3 405B "
        f"{lowest:.2f} to {highest:.2f}. Below 0.3 look for the cause: memory, small operations, data, communication. "
        f"**HFU** (hardware) also counts FLOPs that run twice, for example with activation checkpointing (section 14)."
    )


def utilization(form: str, dtype: torch.dtype) -> list[float]:
    """The share of the peak that a large matmul gets, in each sample; none where no peak is known"""
    promised = peak_flops(form)
    if promised is None:
        return []
    side = sizes().half_matmul_side if form == "float16" else sizes().matmul_side
    torch.set_float32_matmul_precision("high" if form == "tf32" else "highest")  # "high": fp32 products run in tf32
    done, took = counted_and_timed(side, side, side, dtype)
    torch.set_float32_matmul_precision("highest")
    rates = [done.flops / seconds for seconds in took.samples_s]
    if not peak_is_promised(form):
        promised = max(promised, *rates)  # nobody promised: the best that was ever seen
    return [rate / promised for rate in rates]


def traps_of_utilization() -> None:
    """Find the error"""
    rtx3090 = known_machine("NVIDIA GeForce RTX 3090").flops_per_second  # @hide @stepover
    reported, like_over_like = 70.3e12 / rtx3090["float32"], 70.3e12 / rtx3090["bfloat16"]  # @hide
    assert (round(reported, 2), round(like_over_like, 2)) == (1.97, 0.99)  # @hide
    ask(
        f"A log reports a bf16 matmul on an RTX 3090: 70.3 TFLOP/s, MFU {reported:.2f}. What is the MFU?",
        answer=like_over_like,
        hint="See the table of peaks.",
        why="The log divided a bf16 speed by the fp32 peak. An MFU well above 1 is always a mistake.",
        slips={reported: "That is over the fp32 peak. Divide by the peak of the format that was used."},
    )


def three_regimes() -> None:
    """Three regimes"""
    text(
        "An operation has three costs: a fixed one to start it (Python, torch, a kernel launch), one for its bytes, "
        "one for its FLOPs. The largest decides. For a square matmul of growing $n$:"
    )
    dtype = getattr(torch, fast_format())  # @hide
    sides = [2**k for k in range(4, sizes().matmul_side.bit_length())]  # @stepover @hide
    square = [counted_and_timed(n, n, n, dtype) for n in sides]  # @stepover @hide
    rates = [done.flops / took.seconds for done, took in square]  # @hide
    peak = peak_flops(dtype) if peak_is_promised(dtype) else max(rates)  # @stepover @hide
    draw_costs("(n, n) @ (n, n)", sides, square, peak)  # @stepover @hide
    text(
        f"Small products take a constant time, {square[0][1].seconds * 1e6:.1f} µs here; large ones take $2n^3$ over "
        f"the peak. In 5 µs, the time of a launch, an H100 could do {5e-6 * H100_BF16 / 1e9:.1f} GFLOPs."
    )


def draw_costs(shape: str, sides: list[int], calls: list[tuple[Count, Measurement]], peak: float | None) -> None:
    """Measured, beside what each of the three costs would take alone"""
    bandwidth = peak_bandwidth()
    costs = {
        "measured": [took.seconds for _, took in calls],
        "fixed": [calls[0][1].seconds for _ in calls],
        "bytes": [] if bandwidth is None else [done.bytes_moved / bandwidth for done, _ in calls],
        "FLOPs": [] if peak is None else [done.flops / peak for done, _ in calls],
    }
    known = {name: seconds for name, seconds in costs.items() if seconds}
    title = f"{shape} and its three costs"
    plot(known, x=sides, x_label="n", y_label="s", title=title, x_scale="log", y_scale="log")


def tiles_and_waves() -> None:
    """Tiles and waves"""
    text(
        "A GPU's kernel cuts the result into tiles, say 128 × 256 numbers, and gives one to each multiprocessor: a "
        "*wave*. The last wave is rarely full. For an H100's 132 multiprocessors:"
    )
    tiles = {n: math.ceil(n / 128) * math.ceil(n / 256) for n in (8191, 8192, 8193)}
    waves = {n: math.ceil(count / 132) for n, count in tiles.items()}  # @inspect waves
    assert waves == {8191: 16, 8192: 16, 8193: 17}  # @hide
    assert known_machine("NVIDIA H100 80GB HBM3").multiprocessors == 132  # @hide @stepover
    text(
        f"By this model 8193 takes {waves[8193] / waves[8192] - 1:.0%} longer than 8192. Choose sizes that are "
        f"multiples of 64 or 128; see [NVIDIA's guide]({REFERENCES['matmul guide']['url']})."
    )


FIRST_CALLS = """
import sys, time, torch
torch.cuda.set_device(int(sys.argv[1]))
def seconds(f):
    started = time.perf_counter()
    f()
    torch.cuda.synchronize()
    return time.perf_counter() - started
print(seconds(lambda: torch.zeros(1, device="cuda")))  # the context
x = torch.rand(512, 512, device="cuda")
for f in (lambda: x @ x, x.sinh):
    print(*(seconds(f) for _ in range(10)))
"""


def time_on_a_gpu() -> None:
    """What only a GPU shows: time"""
    if device() != "cuda":
        text(
            "No CUDA device is in use here; with one, this part compares the time to queue an operation with the time "
            "to do it, measures what the first call of a process pays, and reads the GPU's clock and power during a "
            "matrix product."
        )
        return
    queued_and_done()  # @hide
    first_calls_of_a_process()  # @hide
    clock_and_power()  # @hide


def queued_and_done() -> None:
    """Queued, and done"""
    text(
        "An operation on a GPU takes two times. The CPU needs a few microseconds to *queue* it, whatever its size: "
        "Python, torch and the driver each do their part. The GPU needs the operation's bytes over its bandwidth, or "
        "its FLOPs over its peak, to *do* it. The two overlap, so a program takes about the longer of them. Beside "
        "each line of this lecture the trace has both, as launch time and device time."
    )
    ask(
        "Adding 1 to each of $n$ fp32 numbers in place moves $8n$ bytes. An H100 moves 3.35 TB/s. Suppose that the CPU "
        "needs 5 µs to queue an operation. Up to which $n$ does the GPU wait for the CPU?",
        5e-6 * H100_BANDWIDTH / 8,
        unit="numbers",
        within=0.03,
        hint="In 5 µs an H100 moves 3.35e12 × 5e-6 bytes.",
        slips={5e-6 * H100_BANDWIDTH / 4: "Each number is read and written: 8 bytes, not 4."},
    )
    small, large = (torch.zeros(n, device="cuda") for n in (2**10, sizes().streamed_bytes // 8))
    small.add_(1)  # @inspect small.nbytes [B]
    large.add_(1)  # @inspect large.nbytes [B]
    text("These two lines are queued in about the same time. Now the mean of 50 calls, by the CPU's clock:")
    lengths = [4**k for k in range(5, 14) if 8 * 4**k <= sizes().streamed_bytes]
    times = {n: time_to_queue_and_to_do(torch.zeros(n, device="cuda")) for n in lengths}  # @stepover
    curves = {name: [1e6 * both[i] for both in times.values()] for i, name in enumerate(("queued", "done"))}  # @hide
    scales = {"x_scale": "log", "y_scale": "log", "title": "x.add_(1), for each call"}  # @hide
    plot(curves, x=lengths, x_label="numbers", y_label="µs", **scales)  # @hide
    few, many = times[lengths[0]], times[lengths[-1]]  # s @inspect few many
    shares = [queued / done for queued, done in (few, many)]  # of the time, until all is queued @inspect shares
    assert shares[1] < shares[0] / 2
    text(
        f"A call on {lengths[0]:,} numbers is queued after {1e6 * few[0]:.1f} µs and done after {1e6 * few[1]:.1f} "
        f"µs. For {lengths[-1]:,} numbers the times are {1e6 * many[0]:.1f} and {1e6 * many[1]:.0f} µs. On the flat "
        f"part of the curve a program is **launch-bound**: the GPU does each operation in less time than the CPU "
        f"needs to queue the next one. Larger operations, or fewer of them, help; a faster GPU does not."
    )


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


def first_calls_of_a_process() -> None:
    """What a first call pays"""
    text(
        "The first operation of a process creates the GPU's **context**: the driver's data for this process. The first "
        "matrix product also creates a handle of the library cuBLAS and its workspace. And each kernel is loaded onto "
        "the GPU when it is used for the first time. A new process measures all three:"
    )
    ask(
        "A log says that 1000 products took 0.5 s, so 500 µs each. The first one took 0.3 s. How many µs did each of "
        "the others take?",
        (0.5 - 0.3) / 999 * 1e6,
        unit="µs",
        within=0.02,
        slips={500: "That is the average with the first product in it."},
    )
    answer = first_calls()  # @stepover
    if isinstance(answer, str):
        text(f"Not measured: a second process could not use the GPU. Its last line was: {answer}")
        return
    (context,), products, others = answer  # s @inspect context [s]
    firsts, later = zip(*((calls[0], statistics.median(calls[1:])) for calls in (products, others)), strict=True)
    names = ("x @ x", "x.sinh()")  # @hide
    rows = [("context", context, None), *zip(names, firsts, later, strict=True)]  # @hide
    table(rows, ["operation", "first call, s", "a later call, s"])  # @hide
    times_as_long = firsts[0] / later[0]  # @inspect times_as_long
    assert context + firsts[0] > later[0]
    text(
        f"For $x$ of 512 × 512 numbers the first product takes {times_as_long:.0f} times as long as the median of the "
        f"nine after it. A benchmark that keeps the first call reports the handle and the loading together with the "
        f"product."
    )


def first_calls() -> list[list[float]] | str:
    """Seconds of the context, of ten products and of ten `x.sinh()` in a new process, or why there are none"""
    command = [sys.executable, "-c", FIRST_CALLS, str(torch.cuda.current_device())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return "none within 120 s"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return [[float(seconds) for seconds in line.split()] for line in done.stdout.splitlines()]


def clock_and_power() -> None:
    """Clock and power beside an MFU"""
    text(
        "A datasheet's peak assumes a clock. Each multiprocessor's tensor cores do a fixed number of FLOPs in a clock "
        "cycle, a power of two, so the peak is multiprocessors × FLOPs per cycle × clock. A large product draws so "
        "much power that the driver lowers the clock, and the peak falls with it."
    )
    ask(
        "An H100 has 132 multiprocessors, and each does 4096 FLOPs per cycle in bf16. Which clock do the datasheet's "
        "989.5 TFLOP/s assume?",
        H100_BF16 / (132 * 4096) / 1e6,
        unit="MHz",
        within=0.01,
        slips={2 * H100_BF16 / (132 * 4096) / 1e6: "That is the peak with 2:4 sparsity; dense is half of it."},
    )
    n, form = sizes().matmul_side, fast_format()  # @inspect n form @stepover
    x = torch.randn(n, n, device="cuda", dtype=getattr(torch, form))
    took = timed(lambda: x @ x)  # @inspect took.seconds [s] @stepover
    rate = 2 * n**3 / took.seconds  # @inspect rate [FLOP/s]
    state = asked_while_it_works(lambda: x @ x, took.seconds)  # @inspect state @stepover
    if state is None or state.clock_mhz is None:
        text("Not read: nvidia-smi gave no clock of this GPU while the product ran.")
        return
    slowed_by = ", ".join(state.slowed_by or ["nothing that the driver names"])
    text(f"While the product ran, nvidia-smi reported: {state}. Clocks were held back by: {slowed_by}.")
    if state.watts is not None:
        picojoules = 1e12 * state.watts / rate  # for each FLOP @inspect picojoules
        text(f"At {rate / 1e12:.4g} TFLOP/s that power is {picojoules:.2g} pJ for each FLOP.")
    peak = peak_flops(form)  # @inspect peak [FLOP/s]
    if peak is not None and peak_is_promised(form) and state.fastest_mhz is not None:
        share_at_that_clock(rate, peak, 1e6 * state.clock_mhz, 1e6 * state.fastest_mhz)


def asked_while_it_works(f: Callable[[], object], call_s: float) -> GpuState | None:
    """What nvidia-smi reports in the middle of two seconds of work; None if it gave no answer before the work ended"""
    finished = torch.cuda.Event()
    started = time.perf_counter()
    for _ in range(math.ceil(2 / call_s)):
        f()  # returns at once, unless 1000 calls or so are waiting
    finished.record()
    time.sleep(min(1.0, max(0.0, 1.0 - (time.perf_counter() - started))))  # power is an average over up to a second
    state = gpu_state()
    working = not finished.query()
    torch.cuda.synchronize()
    return state if working else None


def share_at_that_clock(rate: float, peak: float, clock: float, fastest: float) -> None:
    """The peak at the clock that was read"""
    processors = torch.cuda.get_device_properties().multi_processor_count  # @inspect processors
    per_cycle = 2 ** round(math.log2(peak / processors / fastest))  # FLOPs of a multiprocessor @inspect per_cycle
    at_that_clock = processors * per_cycle * clock  # @inspect at_that_clock [FLOP/s]
    assert rate < 1.5 * at_that_clock
    text(
        f"With {per_cycle} FLOPs per cycle on each of {processors} multiprocessors, {clock / 1e6:.0f} MHz allow "
        f"{at_that_clock / 1e12:.4g} TFLOP/s. The product did {rate / 1e12:.4g} TFLOP/s: {rate / peak:.0%} of the "
        f"datasheet's peak, and {rate / at_that_clock:.0%} of the peak at this clock. The datasheet's clock is "
        f"{peak / processors / per_cycle / 1e6:.0f} MHz."
    )


# ---------------------------------------------------------------------------------------------------------
# 6 Arithmetic intensity and the roofline


class Operation(NamedTuple):
    """One operation: what was counted, and how long it took"""

    done: Count
    took: Measurement

    @property
    def rate(self) -> float:
        """FLOP/s, as measured"""
        return self.done.flops / self.took.seconds


def counted_and_measured(operations: dict[str, Callable[[], Any]]) -> dict[str, Operation]:
    """Count operations, and measure them in turn"""
    times = timed_in_turn(*operations.values())
    return {name: Operation(count(f), took) for (name, f), took in zip(operations.items(), times, strict=True)}


def arithmetic_intensity() -> None:
    """Arithmetic intensity and the roofline"""
    ridge = H100_BF16 / H100_BANDWIDTH  # FLOP/byte of an H100 @hide
    text(
        f"**Why does an operation stay below the peak?** It also moves bytes. Its **arithmetic intensity** is its "
        f"FLOPs per byte. The key figure: while an H100 fetches one byte it can do {ridge:.0f} FLOPs in bf16."
    )
    note(
        "Six minutes. Draw the roofline by hand: two times, two lines. Let the audience guess the ratio for the "
        "addition: most take the tensor cores' peak. Then place training, prefill and decoding on the line."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    two_times()
    machine_intensities()
    intensities()
    training_and_decoding()
    reading_the_cache()
    relu_against_gelu()  # @deeper
    key_value_cache()  # @deeper
    fusing()  # @deeper
    caches()  # @deeper
    bytes_on_a_gpu()  # @deeper
    text(
        f"**In three lines.**\n\n"
        f"1. Time ≥ the larger of FLOPs / peak and bytes / bandwidth.\n"
        f"2. Large matmuls (training, prefill) are compute-bound; elementwise operations and decoding are "
        f"memory-bound.\n"
        f"3. A memory-bound operation gains from fewer bytes per token (smaller formats, fusing, a batch that shares "
        f"the weights), not from fewer FLOPs. Section 7: why backward is 4 of the 6.\n\n"
        f"More: [roofline]({REFERENCES['roofline']['url']}), [brrr]({REFERENCES['brrr']['url']}), [scaling book]"
        f"({REFERENCES['scaling book']['url']})."
    )


def two_times() -> None:
    """Compute time or memory time: the larger one wins"""
    text(
        "FLOPs over FLOP/s is a time; bytes over bytes/s, the **bandwidth**, is another. A GPU loads the next numbers "
        "while it computes; with perfect overlap an operation takes the *larger* of the two."
    )
    answer = 4e9 / H100_BANDWIDTH / (1e9 / (H100_FP32 / 2))  # @hide
    ask(
        "An H100 adds 1 to each of 10⁹ bf16 numbers. How many times longer does it take to move the numbers than to "
        "add? PyTorch adds bf16 numbers in fp32, on the ordinary cores.",
        answer=answer,
        within=0.03,
        hint="67 TFLOP/s in fp32 counts a multiply-add instruction as two FLOPs; memory moves 3.35 TB/s.",
        slips={
            4e9 / H100_BANDWIDTH / (1e9 / H100_FP32): (
                "67 TFLOP/s is two FLOPs an instruction, an addition is one. (A kernel with packed bf16 additions, two "
                "in an instruction, would reach this; PyTorch's converts to fp32.)"
            ),
            4e9
            / H100_BANDWIDTH
            / (1e9 / H100_BF16): "That is the tensor cores' peak, and they only multiply matrices.",
            2e9 / H100_BANDWIDTH / (1e9 / (H100_FP32 / 2)): "Each number is read and written: 4 bytes, not 2.",
        },
    )
    additions_per_second = H100_FP32 / 2  # a multiply-add counts as two
    compute_s = 1e9 / additions_per_second  # @inspect compute_s [s]
    memory_s = (2 + 2) * 1e9 / H100_BANDWIDTH  # each number is read and written @inspect memory_s [s]
    assert round(memory_s / compute_s) == 40  # memory-bound
    assert math.isclose(memory_s / compute_s, answer)  # @hide


def machine_intensities() -> None:
    """The ridge"""
    text(
        f"Both times are equal at the **machine's intensity**, peak over bandwidth, also called the **ridge**. Below "
        f"it an operation is **memory-bound**, above it **compute-bound**. In FLOP/byte, by the datasheets of [A100]"
        f"({REFERENCES['a100']['url']}), [H100]({REFERENCES['h100']['url']}), [H200]({REFERENCES['h200']['url']}) and "
        f"[B200]({REFERENCES['b200']['url']}):"
    )
    names = {
        "A100 80GB": "NVIDIA A100-SXM4-80GB",
        "H100": "NVIDIA H100 80GB HBM3",
        "H200": "NVIDIA H200",
        "B200": "NVIDIA B200",
    }  # @hide
    machines = {name: known_machine(full) for name, full in names.items()}  # @hide @stepover
    ridges = {
        name: [
            round(m.flops_per_second[form] / m.bytes_per_second, 1) if form in m.flops_per_second else "–"
            for form in ("bfloat16", "float8", "float4")
        ]
        for name, m in machines.items()
    }  # @hide
    assert [ridge[0] for ridge in ridges.values()] == [153.0, 295.4, 206.1, 281.2]  # @hide
    assert (ridges["H100"][1], ridges["B200"][1:]) == (590.7, [562.5, 1125.0])  # @hide
    rows = [(name, m.bytes_per_second / 1e12, *ridges[name]) for name, m in machines.items()]  # @hide
    table(rows, ["GPU", "TB/s", "bf16", "fp8", "fp4"])  # @hide
    text(
        "Half the bits, twice the ridge. A matmul whose numbers are also *stored* in fp8 has twice the FLOP/byte and "
        "keeps up; a matmul stored in bf16 does not."
    )


def intensities() -> None:
    """The intensity of an operation"""
    text(
        "A square bf16 matmul does $2n^3$ FLOPs and moves at least $3n^2$ numbers of 2 bytes: $n/3$ FLOP/byte. On "
        "an H100 it is compute-bound from $n = 887$ on."
    )
    ridge = H100_BF16 / H100_BANDWIDTH  # @hide
    sides = [math.ceil(3 * H100_BF16 / bandwidth) for bandwidth in (H100_BANDWIDTH, 4.8e12)]  # H100, H200 @hide
    assert sides == [887, 619]  # @hide
    a, b = torch.randn(2, 512, 512).bfloat16()
    relu, matmul = count(a.relu), count(lambda: a @ b)
    intensity = [done.flops / done.bytes_moved for done in (relu, matmul)]  # FLOP/byte @inspect intensity
    assert intensity == [1 / 4, 512 / 3]
    dtype = getattr(torch, fast_format())  # @hide @stepover
    s, side = dtype.itemsize, sizes().side_of(dtype.itemsize)  # @hide @stepover
    x = torch.rand(side * side, device=device(), dtype=dtype)  # far more than the caches hold @hide
    y = torch.clone(x)  # `out=y`: results go to memory that is there already @hide
    matrix, v, short = x.view(side, side), x[:side], torch.empty_like(x[:side])  # @hide
    functions = {
        "ReLU": lambda: torch.clamp_min(x, 0, out=y),
        "GELU": lambda: torch.ops.aten.gelu.out(x, approximate="tanh", out=y),
        "dot": lambda: torch.dot(x, y),
        "matrix × vector": lambda: torch.mv(matrix, v, out=short),
    }  # @hide
    derived = {"ReLU": ("1 / 4", 1 / 4), "GELU": ("20 / 4", 5), "dot": ("2 / 4", 1 / 2)}  # @hide
    derived["matrix × vector"] = ("2 / 2", 1)  # @hide
    for n in (256, sizes().matmul_side):  # @hide @stepover
        functions[f"matmul {n}"] = partial(torch.mm, *x[: 2 * n * n].view(2, n, n))  # @hide
        derived[f"matmul {n}"] = (f"{n} / 3", n / 3)  # @hide
    operations = counted_and_measured(functions)  # @hide @stepover
    halves = {name: flops_and_bytes(o.done, 2 / s) for name, o in operations.items()}  # in bf16 @hide @stepover
    ratios = [flops / moved / derived[name][1] for name, (flops, moved) in halves.items()]  # @hide
    assert all(0.99 < ratio <= 1 for ratio in ratios)  # a vector and a result are left out @hide
    assert torch.equal(functions["GELU"](), gelu(x, approximate="tanh"))  # @hide
    assert torch.equal(short, torch.mv(matrix, v))  # @hide
    rows = [
        (
            name,
            derived[name][0],
            h100_at_best(*halves[name]),
            "memory" if flops / moved < ridge else "compute",
            o.took.seconds,
        )
        for (name, o), (flops, moved) in zip(operations.items(), halves.values(), strict=True)
    ]  # @hide
    columns = ["operation", "FLOP/byte, bf16", "H100, at best, s", "bound by", f"here, {fast_format()}, s"]  # @hide
    table(rows, columns)  # @stepover @hide
    text("GELU, a smooth ReLU, is counted with 20 FLOPs a number. It moves the same bytes: on an H100, the same time.")
    the_roofline(operations, halves)
    the_roofline_of_each_gpu()  # @deeper


def flops_and_bytes(done: Count, share: float) -> tuple[float, float]:
    """FLOPs and bytes of the same operation in another format, whose numbers take that share of the bytes"""
    return done.flops, done.bytes_moved * share


def the_roofline(operations: dict[str, Operation], halves: dict[str, tuple[float, float]]) -> None:
    """The roofline"""
    points = {
        name: (flops / moved, attainable(flops / moved, H100_BF16, H100_BANDWIDTH)["speed"])
        for name, (flops, moved) in halves.items()
    }  # @hide @stepover
    roofs = {"H100, bf16, by its datasheet": (H100_BF16, H100_BANDWIDTH)}  # @hide
    if peak_is_promised(fast_format()) and peak_is_promised("memory"):  # @hide
        roofs["this GPU, by its datasheet"] = (peak_flops(fast_format()), peak_bandwidth())  # @hide @stepover
        points = {name: (o.done.flops / o.done.bytes_moved, o.rate) for name, o in operations.items()}  # @hide
        where = "Each point was measured on this GPU."  # @hide
    else:
        where = "No point was measured: each is the best that an H100 can do at that intensity."  # @hide
    assert all(speed <= 1.3 * max(roof[0] for roof in roofs.values()) for _, speed in points.values())  # @hide
    text(
        f"The **roofline** plots speed against intensity: the rising part is bandwidth × intensity, the flat part the "
        f"peak. MFU ≤ min(1, intensity / ridge): a bound, not an equality. {where}"
    )
    plot(
        draw_roofline(roofs, points),
        title="On the slope, FLOP/s grow with the intensity: only the large matmul reaches the peak",
        x_scale="log",
        y_scale="log",
    )  # @hide


def the_roofline_of_each_gpu() -> None:
    """The roofline of each GPU"""
    at_30 = attainable(30, H100_BF16, H100_BANDWIDTH)  # @inspect at_30
    assert at_30["waits for memory"] and math.isclose(at_30["speed"], 30 * H100_BANDWIDTH)  # @hide
    explore(
        attainable,
        "At {intensity} FLOP/byte at most {speed} on {GPU}, {share} of its peak. {waits for memory?It waits for "
        "memory, up to {ridge} FLOP/byte|It is compute-bound, from {ridge} FLOP/byte on}.",
        title="The roofline of each GPU",
        inputs={"intensity": (30.0, 0.1, 2000.0)},
        menus={"GPU": gpus_of_the_table()},
        names={"intensity": "intensity, FLOP/byte", "share": "share of the peak", "ridge": "ridge, FLOP/byte"},
        units={"peak": "FLOP/s", "bandwidth": "B/s", "speed": "FLOP/s", "share": "%"},
        curve=("intensity", "speed"),
        across="GPU",
    )  # @stepover


def attainable(intensity: float, peak: float, bandwidth: float) -> dict[str, float]:
    """The roofline: which speed an operation can reach at most, and what it waits for"""
    speed = min(peak, intensity * bandwidth)
    ridge = peak / bandwidth
    return {"speed": speed, "share": speed / peak, "ridge": ridge, "waits for memory": intensity < ridge}


def relu_against_gelu() -> None:
    """Is ReLU faster than GELU?"""
    n = sizes().streamed_bytes // 16  # @hide @stepover
    x = torch.rand(n, device=device(), dtype=getattr(torch, fast_format())) - 0.5  # @hide @stepover
    y = torch.empty_like(x)  # @hide
    relu, smooth = counted_and_measured(
        {
            "ReLU": lambda: torch.clamp_min(x, 0, out=y),
            "GELU": lambda: torch.ops.aten.gelu.out(x, approximate="tanh", out=y),
        }
    ).values()  # @hide @stepover
    assert (smooth.done.flops, smooth.done.bytes_moved) == (20 * relu.done.flops, relu.done.bytes_moved)
    vector_intensity = H100_FP32 / H100_BANDWIDTH  # of an H100 without its tensor cores @inspect vector_intensity
    assert round(vector_intensity) == 20
    times = times_as_long(smooth.took, relu.took)  # @hide @stepover
    decide(
        times,
        than=1.2,
        below="Both wait for memory here: GELU takes as long as ReLU, for 20 times the FLOPs.",
        above=(
            f"On an H100 both are memory-bound: GELU's 5 FLOP/byte are below 20. Here GELU takes "
            f"{statistics.median(times):.1f} times as long: its tanh, not memory, is the limit."
        ),
        undecided="Here the samples don't agree on whether GELU takes longer.",
    )


def caches() -> None:
    """What a cache changes"""
    text("Bytes that are still in a cache move faster than bytes from main memory. Copies, by the bytes they touch:")
    largest = sizes().streamed_bytes // 2  # @hide @stepover
    source = torch.rand(largest // 4, device=device())  # @hide
    target = torch.empty_like(source).copy_(source)  # @hide
    lengths = [1, *(2**k for k in range(10, 29, 3) if 2**k < source.numel()), source.numel()]  # @hide
    copies = [timed(partial(target[:n].copy_, source[:n])) for n in lengths]  # @hide @stepover
    assert count(lambda: target.copy_(source)).bytes_moved == 2 * source.nbytes  # @hide
    touched = [2 * 4 * n for n in lengths]  # bytes @hide
    rates = [moved / copy.seconds for moved, copy in zip(touched, copies, strict=True)]  # @hide
    best = rates.index(max(rates))  # @hide
    plot(
        {"copy": rates},
        x=touched,
        x_label="bytes read and written",
        y_label="B/s",
        x_scale="log",
        y_scale="log",
        title="Small copies pay the fixed cost of a call; medium ones come from a cache; large ones from main memory",
        style="points",
    )  # @hide
    decide(
        [ratio * touched[best] / touched[-1] for ratio in times_as_long(copies[-1], copies[best])],
        than=1.3,
        above=(
            f"The fastest copy touches {touched[best] / 1e6:.1f} MB, at {rates[best] / 1e9:.0f} GB/s; main memory "
            f"gives {rates[-1] / 1e9:.0f}. An operation that seems to beat the roof has probably read a cache."
        ),
        below="No cache shows in the curve on this machine.",
        undecided="The samples don't agree on whether a cache shows in the curve.",
    )
    if device() == "cuda":  # @hide
        over_the_bus()  # @hide


def over_the_bus() -> None:
    """And over the bus"""
    host = torch.rand(sizes().streamed_bytes // 16).pin_memory()  # @stepover
    moved = timed(lambda: host.to("cuda", non_blocking=True))  # @stepover
    rate = host.nbytes / moved.seconds  # @inspect rate [B/s]
    assert rate < (peak_bandwidth() or math.inf)
    text(f"From the CPU's memory, over the bus: {rate / 1e9:.0f} GB/s.")


def training_and_decoding() -> None:
    """Training, prefill and decoding"""
    text(
        "A layer's product $(B, D) \\times (D, D)$ does $2BD^2$ FLOPs on $2(D^2 + 2BD)$ bytes in bf16. In training, "
        "$B$ is all tokens of the batch. A trained model first reads the prompt, all tokens at once (**prefill**), and "
        "then writes one token at a time (**decoding**); there $B$ is the number of sequences. With the ridge $I$, the "
        "product is compute-bound from $B = ID / (D - 2I)$ on:"
    )
    ridges = (H100_BF16 / H100_BANDWIDTH, 989.5e12 / 4.8e12)  # H100, H200
    batches = [ridge * 4096 / (4096 - 2 * ridge) for ridge in ridges]  # D = 4096 @inspect batches
    assert [math.ceil(batch) for batch in batches] == [346, 230]  # @hide
    weight = torch.empty(4096, 4096, dtype=torch.bfloat16, device="meta")  # @hide
    for batch, ridge in ((346, ridges[0]), (230, ridges[1])):  # @hide
        x = torch.empty(batch, 4096, dtype=torch.bfloat16, device="meta")  # @hide
        moved_bytes = x.nbytes + weight.nbytes + (x @ weight).nbytes  # @hide
        assert ridge <= count(torch.mm, x, weight).flops / moved_bytes < 1.005 * ridge  # @hide
    dtype = getattr(torch, fast_format())  # @hide @stepover
    s, d = dtype.itemsize, sizes().side_of(dtype.itemsize)  # @hide @stepover
    w = torch.randn(d, d, device=device(), dtype=dtype)  # @hide
    inputs = {batch: torch.randn(batch, d, device=device(), dtype=dtype) for batch in (1, 8, 64, 512)}  # @hide
    layer = counted_and_measured({batch: partial(torch.mm, x, w) for batch, x in inputs.items()})  # @hide @stepover
    assert all(o.done.bytes_moved == s * (d * d + 2 * batch * d) for batch, o in layer.items())  # @hide
    best = {b: h100_at_best(*flops_and_bytes(o.done, 2 / s)) for b, o in layer.items()}  # @hide @stepover
    rows = [
        (b, round(b * d / (d + 2 * b), 1), best[b], best[b] / b, o.took.seconds / b) for b, o in layer.items()
    ]  # @hide
    columns = ["B", "FLOP/byte", "H100, at best, s", "a token, s", f"a token here, {fast_format()}, s"]  # @hide
    table(rows, columns, title=f"One layer, D = {d}, in bf16: a batch shares the weights")  # @hide
    cheaper = [512 / ratio for ratio in times_as_long(layer[512].took, layer[1].took)]  # @hide @stepover
    decide(
        cheaper,
        than=2,
        above=(
            f"In a batch of 512 a token costs {best[1] / best[512] * 512:.0f} times less on an H100 and "
            f"{statistics.median(cheaper):.0f} times less here: servers batch requests."
        ),
        below="On this machine a token costs nearly as much in a batch of 512 as alone.",
        undecided="On this machine the samples disagree about the gain of a batch of 512.",
    )


def reading_the_cache() -> None:
    """The KV cache"""
    text(
        "Attention compares each new token with all earlier ones. Their keys and values are kept in the **KV cache**. "
        "Each sequence has its own, and reads all of it for each new token. In Llama 3 70B, 64 query heads share 8 "
        "heads of keys and values (grouped-query attention, **GQA**):"
    )
    token_bytes = 80 * 2 * 8 * 128 * 2  # layers, K and V, heads, width, bf16 @inspect token_bytes [B]
    assert token_bytes == 327_680  # @hide
    ask(
        "A cached number of 2 bytes takes a multiply-add for each query head that shares it. How many FLOPs per byte "
        "does attention do in decoding, with 64 query heads and 8 KV heads?",
        64 / 8,
        hint="How many query heads share a KV head? How many FLOPs is a multiply-add, and how many bytes a number?",
        slips={
            1: "That is multi-head attention, where each query head has keys and values of its own.",
            64: "Only 8 of the 64 query heads share a KV head.",
            16: "A multiply-add is 2 FLOPs, and a bf16 number is 2 bytes.",
        },
    )
    reading = []  # @hide
    for batch in (1, 64):  # @hide
        queries = torch.empty(batch, 8, 8, 128, dtype=torch.bfloat16, device="meta")  # (B, KV head, query, width) @hide
        keys = torch.empty(batch, 8, 128, 8192, dtype=torch.bfloat16, device="meta")  # (B, KV head, width, S) @hide
        reading.append(count(torch.matmul, queries, keys).flops / (queries.nbytes + keys.nbytes))  # @hide
    assert reading[0] == reading[1] and math.isclose(reading[0], 8, rel_tol=0.01)  # at any batch @hide
    latent = (2 * 128 * 576 + 2 * 128 * 512) / (2 * 576)  # @hide
    text(
        f"The intensity is the number of query heads that share a KV head: 1 without GQA, 8 here, {latent:.0f} in "
        f"[DeepSeek-V3]({REFERENCES['deepseek-v3']['url']}), whose 128 heads share one compressed vector. A larger "
        f"batch does not raise it: below the ridge, decoding's attention is memory-bound at any batch."
    )


def key_value_cache() -> None:
    """The floor under decoding"""
    text(
        "A decoding step reads the weights once (of the input embedding, one row) and every sequence's cache. Those "
        "bytes over the bandwidth are a **floor** for its time. Llama 3 70B on 8 H100s, 8192 tokens a sequence:"
    )
    llama = (70_553_706_496, 128256 * 8192, 80, 8)  # parameters, of these in the embedding, layers, KV heads
    context = 8192  # @hide
    sequence_bytes = context * 327_680  # @inspect sequence_bytes [B]
    steps = {b: decoding_step(*llama, context, b, 8, H100_BANDWIDTH, H100_MEMORY) for b in (1, 8, 64, 512)}
    assert [step["cache"] / sequence_bytes for step in steps.values()] == [1, 8, 64, 512]  # @hide
    floors = {b: step["seconds"] for b, step in steps.items()}  # @hide
    assert [round(1e3 * floors[b], 2) for b in (1, 64)] == [5.29, 11.6]  # ms @hide
    assert [step["fits"] for step in steps.values()] == [True, True, True, False]  # @hide
    rows = [(b, f * 1e3, b / f, "yes" if steps[b]["fits"] else "no") for b, f in floors.items()]  # @hide
    table(rows, ["sequences", "floor, ms per step", "tokens/s at most", "fits"])  # @hide
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
            "context": (context, 1, 10_000_000),
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
        "Written out, GELU is nine operations, and each reads its operands from memory and writes its result back. "
        "*Fused* into one kernel (a program that the GPU runs), each number is read once and written once."
    )
    small = torch.randn(1000)  # @hide
    assert torch.allclose(gelu_in_steps(small), gelu(small, approximate="tanh"), atol=1e-6)  # @hide @stepover
    answer = count(lambda: gelu_in_steps(small)).bytes_moved / (2 * small.nbytes)  # @hide
    dtype = getattr(torch, fast_format())  # @hide @stepover
    x = torch.rand(sizes().streamed_bytes // 8 // dtype.itemsize, device=device(), dtype=dtype)  # @hide @stepover
    ways = {"separate": partial(gelu_in_steps, x), "fused": partial(gelu, x, approximate="tanh")}
    separate, fused = counted_and_measured(ways).values()  # @stepover
    assert separate.done.flops == fused.done.flops
    assert sum(separate.done.operators.values()) == 9  # @hide
    assert (separate.done.bytes_moved, fused.done.bytes_moved) == (21 * x.nbytes, 2 * x.nbytes)
    gains = times_as_long(separate.took, fused.took)  # @stepover @hide
    decide(
        gains,
        than=1.1,
        above=f"{answer:.1f} times fewer bytes, the same FLOPs, {statistics.median(gains):.1f} times less time.",
        below=f"{answer:.1f} times fewer bytes, the same FLOPs; here the time does not fall.",
        undecided=f"{answer:.1f} times fewer bytes, the same FLOPs; the samples don't agree on the time.",
    )
    text("`torch.compile` finds and fuses such chains. FlashAttention (section 14) does it for attention.")


def bytes_on_a_gpu() -> None:
    """What only a GPU shows: bytes"""
    if device() != "cuda":
        text(
            "No CUDA device is in use here; with one, this part compares additions inside and outside of the L2 cache, "
            "the nine operations of GELU with the kernel that `torch.compile` makes of them, and attention in steps "
            "with FlashAttention."
        )
        return
    additions_in_the_cache()  # @hide
    compiled_gelu()  # @hide
    attention_in_steps_and_in_one_kernel()  # @hide


def additions_in_the_cache() -> None:
    """Inside the L2 cache, and outside"""
    cache_bytes = getattr(torch.cuda.get_device_properties(), "L2_cache_size", 0)  # @inspect cache_bytes [B]
    if not cache_bytes:
        text("This GPU does not report the size of its L2 cache, so nothing was measured.")
        return
    ask(
        "`torch.add(source, 1, out=target)` reads one fp32 tensor and writes another. An H100's L2 cache has 50 MB. Up "
        "to how many numbers do both tensors fit into it?",
        H100_CACHE / 8,
        unit="numbers",
        slips={H100_CACHE / 4: "Then one of the two fits. Both are needed."},
    )
    lengths = [cache_bytes // 16, sizes().streamed_bytes // 8]  # both tensors: half the cache, and far more than it
    rates = []
    for n in lengths:
        source, target = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")
        add = partial(torch.add, source, 1, out=target)
        moved_bytes = count(add).bytes_moved
        assert moved_bytes == 8 * n
        add_often = recorded(add, calls=20)  # one launch for 20 calls, so that launching is not measured @stepover
        target.zero_()  # without what the warm-up wrote
        took = timed(add_often)  # @stepover
        assert torch.equal(target, source + 1)
        rates.append([20 * moved_bytes / seconds for seconds in took.samples_s])
    near, far = (statistics.median(samples) for samples in rates)  # @inspect near [B/s], far [B/s]
    measured = f"{near / 1e9:.0f} GB/s inside of the cache, {far / 1e9:.0f} GB/s outside"
    decide(
        [a / b for a, b in zip(*rates, strict=False)],
        than=1.3,
        above=f"{measured}. A program that works on a small piece until it is finished gets the higher rate.",
        below=f"{measured}. What the cache gains does not show here.",
        undecided=f"{measured}. The samples do not agree on whether the cache gains anything here.",
    )


def recorded(f: Callable[[], object], calls: int) -> Callable[[], None]:
    """So many calls of `f` as a CUDA graph: what is returned queues all of their kernels at once"""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # warm up where the capture will not see it
        for _ in range(3):
            f()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            f()
    return graph.replay


def compiled_gelu() -> None:
    """Nine steps of GELU, compiled"""
    text(
        "`torch.compile` reads the function and generates a kernel for all of it. By the count above, the nine "
        "operations move 21 times the bytes of `x`, and one kernel moves 2 times."
    )
    dtype = getattr(torch, fast_format())  # @stepover
    x = torch.rand(sizes().streamed_bytes // 8 // dtype.itemsize, device=device(), dtype=dtype)  # @stepover
    compiled, kernels = compiled_with_kernels(gelu_in_steps, x)  # @inspect kernels @stepover
    if isinstance(compiled, str):
        text(f"Not run: {compiled}")
        return
    assert torch.allclose(compiled(x), nn.functional.gelu(x, approximate="tanh"), atol=0.02)  # @stepover
    assert kernels < 9
    added = [added_at_peak(partial(f, x), [x]) for f in (gelu_in_steps, compiled)]  # @inspect added [B] @stepover
    assert added[1] <= added[0]
    separate, fused = (timed(partial(f, x)) for f in (gelu_in_steps, compiled))  # @stepover
    kernel_count = "one kernel" if kernels == 1 else f"{kernels} kernels"
    found = (
        f"The compiler made {kernel_count} of nine. At its peak a call adds {added[0] / x.nbytes:.1f} times the bytes "
        f"of `x` in nine steps, and {added[1] / x.nbytes:.1f} times when it is compiled."
    )
    ratios = times_as_long(separate, fused)  # @inspect ratios @stepover
    decide(
        ratios,
        than=1.5,
        above=f"{found} The nine steps take {statistics.median(ratios):.1f} times as long; by their bytes, 10.5 times.",
        below=f"{found} Yet the nine steps do not take 1.5 times as long here.",
        undecided=f"{found} The samples do not agree on whether the nine steps take 1.5 times as long.",
    )


def compiled_with_kernels(f: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Callable[[Tensor], Tensor] | str, int]:
    """A compiled function and for how many kernels code was generated, or why there is none"""
    if device() == "cuda" and find_spec("triton") is None:
        return "Triton, which generates kernels for a GPU, is not installed.", 0
    from torch._inductor import metrics

    torch.compiler.reset()  # so that it compiles, also where this function was compiled before
    before = metrics.generated_kernel_count
    try:
        compiled = torch.compile(f, options={"compile_threads": 1})  # without processes of its own
        compiled(x)
    except RuntimeError as error:  # no C compiler, a GPU that Triton does not support, …
        return f"torch.compile failed: {str(error).strip().splitlines()[0]}", 0
    return compiled, metrics.generated_kernel_count - before


def attention_in_steps_and_in_one_kernel() -> None:
    """Attention in steps, and in one kernel"""
    text(
        "Attention in steps writes the $S \\times S$ scores of each head to memory and reads them back: once for the "
        "softmax, once for the product with the values. FlashAttention keeps them inside the multiprocessors and "
        "moves queries, keys, values and results only."
    )
    ask(
        "Per head, the scores are written and read twice, $4S^2$ numbers. Queries, keys, values and results are $4S "
        "\\cdot 64$ numbers. How many times as many is that at $S = 8192$?",
        4 * 8192**2 / (4 * 8192 * 64),
        why="torch does the steps in fp32, and makes copies, so its steps move even more bytes.",
        slips={8192.0: "The width of a head, 64, is in the denominator."},
    )
    heads, length, dtype = 8, sizes().matmul_side, getattr(torch, fast_format())  # @inspect length @stepover
    q, k, v = (torch.randn(1, heads, length, 64, device=device(), dtype=dtype) for _ in range(3))
    scores_bytes = heads * length**2 * q.element_size()  # @inspect scores_bytes [B]
    in_steps = partial(attention_by, [SDPBackend.MATH], q, k, v)
    in_one = partial(attention_by, [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION], q, k, v)
    added = [added_at_peak(in_steps, [q, k, v])]  # @stepover
    assert added[0] > scores_bytes
    if why := why_not_in_one(in_one):  # @stepover
        text(f"In steps, a call adds {added[0] / 1e6:.0f} MB at its peak. Not run in one kernel: {why}")
        return
    added.append(added_at_peak(in_one, [q, k, v]))  # @inspect added [B] @stepover
    assert added[1] < scores_bytes / 4
    steps, one = count(in_steps), count(in_one)  # @inspect steps.bytes_moved one.bytes_moved @stepover
    assert one.bytes_moved < steps.bytes_moved / 4
    difference = relative_error(in_one(), in_steps())  # @inspect difference @stepover
    assert difference < 0.02
    what_one_kernel_gains(timed(in_steps), timed(in_one), added, steps.bytes_moved / one.bytes_moved)  # @stepover


def attention_by(kernels: list[SDPBackend], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention, with a choice of kernels"""
    with sdpa_kernel(kernels):
        return scaled_dot_product_attention(q, k, v)


def why_not_in_one(in_one: Callable[[], Tensor]) -> str | None:
    """Why torch has no fused attention for this GPU; None if it has"""
    try:
        operators = count(in_one).operators
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "torch computes it in steps here as well." if "aten.bmm" in operators else None


def what_one_kernel_gains(steps: Measurement, one: Measurement, added: list[int], fewer_bytes: float) -> None:
    """The gain in time, beside those in memory and in bytes moved"""
    ratios = times_as_long(steps, one)  # @inspect ratios @stepover
    found = (
        f"At its peak a call adds {added[0] / 1e6:.0f} MB in steps and {added[1] / 1e6:.1f} MB in one kernel; it moves "
        f"{fewer_bytes:.0f} times fewer bytes."
    )
    decide(
        ratios,
        than=1.5,
        above=f"{found} It takes {statistics.median(ratios):.1f} times less time, for the same products.",
        below=f"{found} It is not 1.5 times faster here.",
        undecided=f"{found} The samples do not agree on whether it is 1.5 times faster here.",
    )


# ---------------------------------------------------------------------------------------------------------
# 7 Gradients


def gradients() -> None:
    """Gradients"""
    text(
        f"**Why does the backward pass cost twice the forward pass?** Training asks how the loss changes if a "
        f"parameter does. PyTorch's [**autograd**]({REFERENCES['autograd']['url']}) records each operation and then "
        f"applies the chain rule from the last to the first. The key figure: of the 6 FLOPs per parameter and token, 4 "
        f"are in the backward pass."
    )
    note(
        "Four minutes. The figure of the two layers, with the four products beside it, is the section. Stop at the "
        "fourth product and ask who needs it."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    one_gradient()
    two_layers_forward()
    two_layers_backward()
    which_gradients_exist()
    when_the_rule_is_exact()  # @deeper
    walking_back_twice()  # @deeper
    ratio_against_depth()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. `backward` adds to the `.grad` of each leaf that requires one; a gradient takes as many bytes as its "
        "tensor.\n"
        "2. Backward does two products per layer, each as large as the forward product: one for the weights' gradient, "
        "one for the inputs'.\n"
        "3. So training takes $2 + 4 = 6$ FLOPs per parameter and token. Section 8 counts the parameters."
    )


def one_gradient() -> None:
    """One gradient"""
    text("The smallest model has one weight per input. Its loss is $y = \\frac 1 2 (x \\cdot w - 5)^2$:")
    x = torch.tensor([1.0, 2, 3])
    w = torch.tensor([1.0, 1, 1], requires_grad=True)
    y = 0.5 * (x @ w - 5) ** 2
    assert y.item() == 0.5 * (1 + 2 + 3 - 5) ** 2 and w.grad is None  # @hide
    y.backward()  # @inspect w.grad
    assert w.grad.tolist() == [1, 2, 3]  # by the chain rule (x · w − 5) x, and x · w − 5 = 1


def which_gradients_exist() -> None:
    """Which gradients exist"""
    text(
        "A **leaf** is a tensor that no recorded operation computed, such as a parameter. After `backward`, leaves "
        "with `requires_grad=True` have a `.grad`. Gradients of intermediate results are computed, used and freed; "
        "`retain_grad` keeps one."
    )
    ask(
        "`x` is data, `w` requires a gradient, `h = x @ w`, then `(0.5 * (h - 4)**2).backward()`. Which has a `.grad`?",
        answer="w",
        choices=["x", "w", "h", "all three"],
        slips={
            "h": "Its gradient is computed, used and freed: `h` is not a leaf.",
            "all three": "`x` does not require a gradient, and that of `h` is freed.",
        },
    )
    x, w = torch.tensor([1.0, 2, 3]), torch.ones(3, requires_grad=True)
    h = x @ w
    kept = h - 4
    kept.retain_grad()
    (0.5 * kept**2).backward()  # @inspect w.grad
    recording = warnings.catch_warnings(record=True)  # torch warns about the question @hide
    caught = recording.__enter__()  # @hide
    warnings.simplefilter("always")  # @hide
    grads = {"x": x.grad, "w": w.grad, "h": h.grad, "h - 4": kept.grad}
    recording.__exit__(None, None, None)  # @hide
    exists = {name: grad is not None for name, grad in grads.items()}  # @inspect exists
    assert exists == {"x": False, "w": True, "h": False, "h - 4": True}
    assert kept.grad.item() == kept.item() == 2  # @hide
    assert any("not a leaf" in str(warning.message) for warning in caught)  # @hide
    assert (w.grad.shape, w.grad.nbytes, w.grad.tolist()) == (w.shape, w.nbytes, [2, 4, 6])  # @hide
    (0.5 * (x @ w - 4) ** 2).backward()  # a second time @inspect w.grad
    assert w.grad.tolist() == [4, 8, 12]  # added to [2, 4, 6]


def walking_back_twice() -> None:
    """Backward twice"""
    text(
        "Because `backward` adds, gradients of several batches can be collected (section 14), and a loop without "
        "`zero_grad` goes wrong silently. It also frees what it saved, unless you pass `retain_graph=True`:"
    )
    x = torch.tensor([1.0, 2, 3])
    w = torch.ones(3, requires_grad=True)
    y = 0.5 * (x @ w - 4) ** 2
    y.backward(retain_graph=True)  # @inspect w.grad
    y.backward()  # @inspect w.grad
    assert w.grad.tolist() == [4, 8, 12]  # @hide
    try:
        y.backward()
    except RuntimeError as error:
        refusal = str(error)  # @inspect refusal
    assert "backward through the graph a second time" in refusal  # @hide
    assert w.grad.tolist() == [4, 8, 12]  # @hide


def two_layers_forward() -> None:
    """Two layers, forward"""
    text("Now $B$ rows of width $D$, a layer from $D$ to $D$ and a layer from $D$ to $K$:")
    nodes = [("x", "B × D"), ("h1", "B × D"), ("h2", "B × K")]  # @hide
    there = ["@ w1:  2BDD", "@ w2:  2BDK"]  # @hide
    back = ["w1.grad  2BDD\n(x.grad  2BDD)", "w2.grad  2BDK\nh1.grad  2BDK"]  # @hide
    plot(
        draw_chain(nodes, there, back),
        title="Each layer does one product forward and two backward; the first layer can skip x.grad",
    )  # @hide
    batch, width, outputs = 32, 64, 16  # B, D, K
    x = torch.randn(batch, width)
    w1, w2 = torch.randn(width, width), torch.randn(width, outputs)
    forward = count(lambda: x @ w1 @ w2)  # @inspect forward.flops [FLOP]
    assert forward.flops == 2 * (w1.numel() + w2.numel()) * batch  # 2 per parameter and row
    assert forward.flops == 2 * batch * width * width + 2 * batch * width * outputs == 327_680  # @hide


def two_layers_backward() -> None:
    """Two layers, backward, by hand"""
    text(
        "Let $G = \\partial \\text{loss}/\\partial h_2$. Each layer computes the gradient of its *weights*, to learn, "
        "and of its *inputs*, for the layer before it."
    )
    ask(
        "Write the line for the gradient of `w1`, from `x` and the gradient of `h1`.",
        answer="`w1_grad = x.T @ h1_grad`",
        hint="The shapes (B, D) and (B, D) have to make (D, D).",
    )
    terms = [
        ("`w2.grad`", "`h1.T @ G`", "2BDK"),
        ("`h1.grad`", "`G @ w2.T`", "2BDK"),
        ("`w1.grad`", "`x.T @ h1.grad`", "2BDD"),
        ("`x.grad`", "`h1.grad @ w1.T`", "2BDD, not needed: `x` is data"),
    ]  # @hide
    table(terms, ["gradient", "product", "FLOPs"])  # @hide
    batch, width, outputs = 32, 64, 16  # B, D, K @hide
    x, upstream = torch.randn(batch, width), torch.randn(batch, outputs)  # upstream is G @hide
    w1, w2 = torch.randn(width, width, requires_grad=True), torch.randn(width, outputs, requires_grad=True)
    h1 = x @ w1
    h1.retain_grad()  # @hide
    (h1 @ w2).backward(upstream)  # `upstream` is G
    w2_grad = h1.detach().T @ upstream  # (D, B) @ (B, K)
    h1_grad = upstream @ w2.detach().T  # (B, K) @ (K, D)
    w1_grad = x.T @ h1_grad  # (D, B) @ (B, D)
    assert torch.allclose(w2_grad, w2.grad, atol=1e-4)  # @hide
    assert torch.allclose(h1_grad, h1.grad, atol=1e-4)  # @hide
    assert torch.allclose(w1_grad, w1.grad, atol=1e-4)  # by hand and by autograd
    assert x.grad is None  # @hide
    backward = count(lambda: torch.autograd.grad(x @ w1 @ w2, (w1, w2), upstream))  # forward and backward @hide
    assert backward.operators["aten.mm"] == 5  # 2 forward, 3 backward @hide
    assert backward.flops == 6 * batch * width * outputs + 4 * batch * width * width  # @hide
    text(
        "Backward takes $4BDK + 4BDD$, twice the forward pass, less the product for `x.grad`. In a language model the "
        "first layer's input comes from the embedding, which is trained, so the rule of 4 is exact."
    )


def when_the_rule_is_exact() -> None:
    """In a language model the rule is exact"""
    text("An *embedding* is a table of one vector per token. It learns, so the first layer's input needs a gradient:")
    vocabulary, batch, width, outputs = 100, 32, 64, 16
    tokens = torch.randint(vocabulary, (batch,))
    embedding = torch.randn(vocabulary, width, requires_grad=True)
    w1, w2 = torch.randn(width, width, requires_grad=True), torch.randn(width, outputs, requires_grad=True)
    h2 = embedding[tokens] @ w1 @ w2
    backward = count(lambda: torch.autograd.grad(h2, (embedding, w1, w2), torch.ones_like(h2)))
    products = backward.flops_by_operator["aten.mm"]  # @inspect products [FLOP]
    assert products == 4 * (w1.numel() + w2.numel()) * batch == 655_360


def ratio_against_depth() -> None:
    """The first layer's share"""
    text("For $L$ square layers on data, forward is $2BDDL$ and backward $4BDDL - 2BDD$: $6 - 2/L$ per parameter.")
    batch, width = 16, 32  # @hide
    ratios = {}
    for depth in (1, 2, 4, 8, 16, 32):
        weights = [torch.randn(width, width, requires_grad=True) for _ in range(depth)]  # @stepover
        flops = count(forward_and_backward, torch.randn(batch, width), weights).flops  # @stepover
        ratios[depth] = flops / (depth * width**2 * batch)  # @inspect ratios
        assert ratios[depth] == 6 - 2 / depth


def forward_and_backward(x: Tensor, weights: list[Tensor]) -> None:
    """Through all layers and back, for the gradients of the weights"""
    h = x
    for w in weights:
        h = h @ w
    torch.autograd.grad(h, weights, torch.ones_like(h))


# ---------------------------------------------------------------------------------------------------------
# 8 Models


class Linear(nn.Module):
    """A linear layer without bias, whose outputs start as large as its inputs."""

    def __init__(self, input_dim: int, output_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(input_dim, output_dim) / math.sqrt(input_dim))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight  # (…, input_dim) @ (input_dim, output_dim)


class Block(nn.Module):
    """A linear layer, then a ReLU."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()


class DeepLinear(nn.Module):
    """A stack of square linear layers, then a head with one output: D²·L + D parameters."""

    def __init__(self, dim: int, num_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Linear(dim, dim) for _ in range(num_layers)])
        self.head = Linear(dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)  # (B, D)
        return self.head(x).squeeze(-1)  # (B,)


def models() -> None:
    """Models"""
    text(
        "How many parameters and FLOPs does a Transformer language model have, and how many bytes will a training step "
        "hold? All three follow from its *shape* (width, layers, heads, vocabulary)."
    )
    note(
        "Five minutes. Draw the residual stream of the language model on the board. Leave the memory bar on the "
        "screen: sections 10 and 13 measure it, section 14 makes it smaller."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    the_deep_linear_model()
    weights_of_deviation_one()  # @deeper
    scale_against_depth()  # @deeper
    truncation_that_cuts_nothing()  # @deeper
    the_language_model()
    rotary_positions()  # @deeper
    parameters_of_the_language_model()
    mixture_of_experts()  # @deeper
    flops_of_the_language_model()
    memory_of_a_step_predicted()
    text(
        "**In three lines.**\n\n"
        "1. A layer has about $12 D^2$ parameters; input embedding and head have $V D$ each.\n"
        "2. FLOPs per token: 6 for each parameter in a product, plus attention's $12 L D S$; as many at $S = 6D$.\n"
        "3. Bytes of a step: 16 per parameter, plus activations and logits. Section 13 measures them."
    )


def the_deep_linear_model() -> None:
    """A module holds parameters"""
    text(
        "A *module* (`nn.Module`) holds a model's parameters: it registers each `nn.Parameter` that is assigned to it, "
        "and `parameters()` passes them to the optimizer. A plain tensor is not registered and never trained. The "
        "smallest model here has $L$ linear layers of width $D$ and a *head* with one output: $D^2 L + D$ parameters."
    )
    batch, dim, num_layers = 8, 64, 2
    model = DeepLinear(dim, num_layers).to(device())
    counts = {name: p.numel() for name, p in model.named_parameters()}  # @inspect counts
    x = torch.randn(batch, dim, device=device())  # (B, D)
    y = model(x)  # (B,) @inspect y.shape @stepover
    parameters = sum(counts.values())  # @hide
    assert parameters == dim**2 * num_layers + dim  # @hide
    assert count(lambda: model(x)).flops == 2 * parameters * batch and y.shape == (batch,)  # @stepover @hide


def weights_of_deviation_one() -> None:
    """How large the weights start"""
    text(
        "The **standard deviation** of random numbers with mean 0 is the root of their mean square, the **variance**. "
        "Each output of a layer is a sum of independent terms, one per input, and variances add up: with 16384 inputs, "
        "and inputs and weights of standard deviation 1, the outputs have $\\sqrt{16384} = 128$."
    )
    x, w = torch.randn(64, 16384), torch.randn(16384, 32)
    deviation = (x @ w).std().item()  # @inspect deviation
    rescaled = (x @ (w / math.sqrt(16384))).std().item()  # @inspect rescaled
    assert abs(deviation / 128 - 1) < 0.05  # @hide
    assert abs(rescaled - 1) < 0.05  # @hide
    text(
        "So weights start with standard deviation $1/\\sqrt{\\text{in}}$ (LeCun), or $\\sqrt{2/\\text{in}}$ before a "
        "ReLU, which sets half of the numbers to zero (He)."
    )


def scale_against_depth() -> None:
    """Scale against depth"""
    text(
        "A ReLU halves the mean square of its inputs, so the root mean square (RMS) falls by $\\sqrt 2$ per layer "
        "unless the weights make up for it. Twelve layers with three choices of the weights' scale. (Xavier Glorot's "
        "rule, $\\sqrt{2/(\\text{in} + \\text{out})}$, is a compromise between the scale of activations and that of "
        "gradients.)"
    )
    width, depth = 256, 12
    large = lecun = he = torch.randn(64, width)
    scales = []  # RMS of each after each layer
    for _ in range(depth):
        w = torch.randn(width, width) / math.sqrt(width)
        large = (large @ (math.sqrt(width) * w)).relu()  # standard deviation 1
        lecun = (lecun @ w).relu()
        he = (he @ (math.sqrt(2) * w)).relu()
        scales.append([h.square().mean().sqrt().item() for h in (large, lecun, he)])  # @stepover
    layers, curves = list(range(1, depth + 1)), [list(curve) for curve in zip(*scales, strict=True)]  # @hide
    series = {"standard deviation 1": curves[0], "He": curves[2], "LeCun": curves[1]}  # @hide
    series["2^(−L/2)"] = [2 ** (-layer / 2) for layer in layers]  # @hide
    title = "Only He's rule keeps the signal's scale behind ReLUs"  # @hide
    plot(series, x=layers, x_label="layers", y_label="RMS of a layer's outputs", y_scale="log", title=title)  # @hide
    factors = [last ** (1 / depth) for last in scales[-1]]  # per layer @inspect factors
    expected = [math.sqrt(width / 2), math.sqrt(1 / 2), 1.0]
    assert all(abs(found / factor - 1) < 0.05 for found, factor in zip(factors, expected, strict=True))
    link(**REFERENCES["glorot"])
    link(**REFERENCES["he"])


def truncation_that_cuts_nothing() -> None:
    """A truncation that cuts nothing"""
    text(
        "`trunc_normal_` draws numbers beyond its limits `a` and `b` again. The limits are values, not multiples of "
        "the standard deviation, so this call, which is often copied, cuts at 384 standard deviations:"
    )
    sigma = 1 / math.sqrt(16384)  # standard deviation
    weight = nn.init.trunc_normal_(torch.empty(16384, 64), std=sigma, a=-3, b=3)
    assert 3 / sigma == 384
    assert weight.abs().max() > 4 * sigma
    text("Limits of ±3 standard deviations need `sigma` in them; they make the standard deviation 1.3% smaller:")
    nn.init.trunc_normal_(weight, std=sigma, a=-3 * sigma, b=3 * sigma)
    inside = math.erf(3 / math.sqrt(2))  # the share of a normal distribution within ±3 @hide
    density = math.exp(-(3**2) / 2) / math.sqrt(2 * math.pi)  # of the normal distribution at 3 @hide
    assert round(math.sqrt(1 - 2 * 3 * density / inside), 3) == 0.987  # @hide
    assert abs(weight.std().item() / sigma / 0.987 - 1) < 0.004


@dataclass(frozen=True)
class Shape:
    """The numbers that decide what a Transformer costs."""

    vocabulary: int = 256  # V: every byte is a token
    context: int = 64  # S: the tokens that it sees at once
    width: int = 128  # D
    layers: int = 2  # L
    heads: int = 4  # H, of queries
    tied: bool = False  # whether the head is the embedding, used a second time
    kv_heads: int = 2  # K, heads of keys and values: each is shared by H/K heads of queries
    hidden: int = 384  # F, the width inside the feed-forward part


class Normalize(torch.autograd.Function):
    """x / RMS(x) · gain. Saves x and one number per row, as a GPU's fused kernel does, and not x / RMS(x)."""

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
    """Divides each row by its root mean square, then multiplies by a gain for each column."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return Normalize.apply(x, self.weight)


class Attention(nn.Module):
    """Each token looks at itself and at those before it; H/K heads of queries share a head of keys and values."""

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
    """RoPE: rotate each pair of numbers by an angle proportional to the token's position."""
    position = torch.arange(x.shape[1], device=x.device)  # (S,)
    pair = torch.arange(x.shape[-1] // 2, device=x.device)  # (D/2H,)
    angle = position[:, None, None] * 1000.0 ** (-2 * pair / x.shape[-1])  # from fast to slow (S, 1, D/2H)
    (a, b), cos, sin = x.chunk(2, dim=-1), angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)  # (B, S, H, D/H)


class Layer(nn.Module):
    """Attention, then SwiGLU; each behind a norm, each added to the residual stream."""

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
    """Tokens in, a logit for each possible next token out."""

    def __init__(self, shape: Shape) -> None:
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
        nn.init.normal_(self.head.weight, std=1 / shape.width)  # small logits: it starts by knowing nothing
        if shape.tied:
            self.embedding.weight = self.head.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)  # (B, S, D)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)  # (B, S, D)
        return self.head(self.norm(x))  # (B, S, V)


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of the next token, in nats: divided by ln 2, bits for each byte."""
    return cross_entropy(model(inputs).flatten(0, 1).float(), targets.flatten())


def parameters_by_part(shape: Shape) -> dict[str, int]:
    """Queries and output have D² weights each, keys and values D²·K/H each, SwiGLU 3·D·F."""
    d, of_keys = shape.width, shape.width // shape.heads * shape.kv_heads
    return {
        "embedding": shape.vocabulary * d,
        "attention": 2 * shape.layers * d * (d + of_keys),
        "feed-forward": 3 * shape.layers * d * shape.hidden,
        "norms": (2 * shape.layers + 1) * d,
        "head": 0 if shape.tied else shape.vocabulary * d,
    }


def flops_by_part(shape: Shape, batch: int) -> dict[str, int]:
    """6 for each token and each weight that multiplies it; and attention's two products with S keys."""
    tokens, d, weights = batch * shape.context, shape.width, parameters_by_part(shape)
    return {
        "attention's matrices": 6 * tokens * weights["attention"],
        "feed-forward": 6 * tokens * weights["feed-forward"],
        "scores and mixtures": 6 * tokens * 2 * shape.layers * d * shape.context,
        "logits": 6 * tokens * d * shape.vocabulary,
    }


def bytes_by_part(shape: Shape, batch: int) -> dict[str, int]:
    """In fp32, for each part where it is largest; section 13 explains the numbers that a layer saves."""
    parameters, tokens = sum(parameters_by_part(shape).values()), batch * shape.context
    of_keys = shape.width // shape.heads * shape.kv_heads
    # And each head's sum in the softmax; two norms' 1 / RMS; the rotary angles' sines and cosines.
    of_layer = tokens * (6 * shape.width + 2 * of_keys + 4 * shape.hidden + shape.heads + 2)
    angles = 4 * shape.context * shape.width // shape.heads // 2 * shape.layers  # of queries and of keys
    around = tokens * (2 * shape.width + 1)  # the last norm's input and output
    return {
        "parameters": 4 * parameters,
        "gradients": 4 * parameters,
        "optimizer states": 8 * parameters,
        "activations": 4 * (shape.layers * of_layer + around + angles) + 16 * tokens,  # and the tokens, 8 bytes each
        "logits": 4 * tokens * shape.vocabulary,  # their logarithms of probabilities: what cross-entropy keeps
    }


def the_language_model() -> None:
    """The model that stays: a Transformer"""
    text(
        "From here on, one small **Transformer language model** is used. Each byte is a token: $V = 256$. Its parts "
        "are those of Llama 3:\n\n- **Embedding**: $D$ numbers for each token. These rows are the *residual stream*; "
        "every layer adds to it.\n- **RMSNorm**: divides each row by its root mean square.\n- **Attention**: three "
        "matrices compute a *query*, a *key* and a *value* for each position. A position mixes the values of itself "
        "and of earlier positions (*causal*), weighted by how well its query matches their keys. **RoPE** rotates "
        "queries and keys by an angle proportional to their position. In **grouped-query attention** (GQA) several "
        "heads of queries share one head of keys and values: here 4 share 2. A fourth matrix projects the result back "
        "into the residual stream.\n- **SwiGLU**: $\\text{down}(\\text{silu}(\\text{gate}(h)) \\cdot \\text{up}(h))$ "
        "has three matrices and $F$ numbers inside; $\\text{silu}(z) = z / (1 + e^{-z})$.\n- **Head**: a number for "
        "each possible next token, its *logit*. A softmax turns logits into probabilities."
    )
    torch.manual_seed(0)  # @hide
    shape = Shape()  # @inspect shape
    model = LanguageModel(shape)
    tokens = torch.randint(shape.vocabulary, (8, shape.context))  # (B, S)
    logits = model(tokens)  # (B, S, V) @inspect logits @stepover
    assert logits.shape == (8, shape.context, shape.vocabulary)  # @hide
    assert abs(logits.std().item() * math.sqrt(shape.width) - 1) < 0.1  # small at first: it knows nothing @hide
    changed = tokens.clone()  # @hide
    changed[:, -1] = (tokens[:, -1] + 1) % shape.vocabulary  # @hide
    before_last = model(changed)[:, :-1]  # another last token changes nothing before it @hide @stepover
    assert torch.allclose(before_last, logits[:, :-1], atol=1e-6)  # @hide
    assert not torch.equal(model(changed)[:, -1], logits[:, -1])  # @stepover @hide
    first = model.layers[0]  # @hide
    up, down = (w.weight.std().item() * math.sqrt(w.in_features) for w in (first.up, first.down))  # @hide
    assert abs(up - 1) < 0.02 and abs(down * math.sqrt(2 * shape.layers) - 1) < 0.02  # @hide
    bits = loss_of(model, tokens[:, :-1], tokens[:, 1:]).item() / math.log(2)  # @inspect bits @stepover
    assert abs(bits - math.log2(model.shape.vocabulary)) < 0.1
    text(
        "The loss is the **cross-entropy**, the mean of $-\\log_2 p$, where $p$ is the probability that the model gave "
        "to the next token. Untrained, it gives each of 256 bytes about the same: 8 bits."
    )


def rotary_positions() -> None:
    """Rotary positions, and the layer written out"""
    text("RoPE keeps lengths, and the product of a query and a key depends on their *distance* alone:")
    query, key = torch.randn(2, 32)
    queries, keys = (rotated(row.expand(1, 12, 1, 32))[0, :, 0] for row in (query, key))  # at positions 0 to 11
    assert torch.allclose(queries.norm(dim=-1), query.norm().expand(12), rtol=1e-4)  # @hide
    products = queries @ keys.t()  # (12, 12) @inspect products
    assert torch.allclose(products[3, 1], products[11, 9], atol=1e-3)
    assert (products[3, 1] - products[3, 3]).abs() > 0.01
    cosines = nn.functional.cosine_similarity(
        torch.stack([keys[1][:16], keys[1][16:]]), torch.stack([key[:16], key[16:]]), dim=0
    )  # of the angle of each pair at position 1 @hide
    expected = torch.cos(1000.0 ** (-torch.arange(16) / 16))  # @hide
    assert torch.allclose(cosines, expected, atol=1e-5)  # @hide
    text("One layer of the model, with torch's norm, attention in steps, and each key and value head repeated:")
    shape = Shape()
    layer, x = Layer(shape), torch.randn(2, 16, shape.width, requires_grad=True)  # (B, S, D) @stepover
    steps = layer_in_steps(layer, x, shape)
    assert torch.allclose(layer(x), steps, atol=1e-5)  # @stepover
    weights = [x, *layer.parameters()]  # @hide
    gradients = [torch.autograd.grad(y.square().sum(), weights) for y in (layer(x), steps)]  # @hide @stepover
    assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(*gradients, strict=True))  # @hide


def layer_in_steps(layer: Layer, x: Tensor, shape: Shape) -> Tensor:
    """A layer without fused attention: scores, mask, softmax, mixture"""
    h = nn.functional.rms_norm(x, (shape.width,), layer.norm1.weight, eps=1e-6)
    attention, groups = layer.attention, shape.heads // shape.kv_heads
    query = rotated(rearrange(attention.query(h), "b s (h d) -> b s h d", h=shape.heads))
    key, value = (
        rearrange(part(h), "b s (k d) -> b s k d", k=shape.kv_heads) for part in (attention.key, attention.value)
    )
    key, value = (repeat(part, "b s k d -> b s (k g) d", g=groups) for part in (rotated(key), value))
    scores = einsum(query, key, "b s h d, b t h d -> b h s t") / math.sqrt(attention.head_width)
    allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()  # (S, S): from a position to earlier ones
    mixed = einsum(scores.masked_fill(~allowed, -math.inf).softmax(dim=-1), value, "b h s t, b t h d -> b s h d")
    x = x + attention.output(rearrange(mixed, "b s h d -> b s (h d)"))
    h = nn.functional.rms_norm(x, (shape.width,), layer.norm2.weight, eps=1e-6)
    return x + layer.down(nn.functional.silu(layer.gate(h)) * layer.up(h))


def parameters_of_the_language_model() -> None:
    """Parameters, by part"""
    llama = Shape(128_256, 8192, 8192, 80, 64, kv_heads=8, hidden=28_672)  # Llama 3 70B @hide
    llama_parts = parameters_by_part(llama)  # @stepover @hide
    ask(
        "Llama 3 70B has $D = 8192$, $L = 80$ layers, 64 heads of queries that share 8 of keys and values, $F = 28672$ "
        "$= 3.5 D$, and $V = 128256$, with an embedding and a head of their own. How many parameters, in billions?",
        sum(llama_parts.values()) / 1e9,
        unit="billion",
        within=0.02,
        hint="In units of $D^2$, a layer's query and output matrices are 1 each, keys and values 1/8 each. SwiGLU?",
        why="A layer has $2 + 2/8 + 3 \\cdot 3.5 = 12.75$ times $D^2$. Then $80 \\cdot 12.75 D^2 + 2VD$.",
        slips={
            (80 * 12.75 * 8192**2) / 1e9: "The layers alone. Embedding and head are $2VD$ more.",
            (80 * 14.5 * 8192**2 + 2 * 128_256 * 8192) / 1e9: "Eight heads of keys share 64: $1/8$, not 1.",
        },
    )
    shape = Shape()
    predicted = parameters_by_part(shape)  # @inspect predicted
    parameters = sum(p.numel() for p in LanguageModel(shape).parameters())  # @inspect parameters @stepover
    assert parameters == sum(predicted.values()) == 459_392
    assert sum(llama_parts.values()) == 70_553_706_496  # @hide
    with torch.device("meta"):  # shapes without numbers @hide
        tied = sum(p.numel() for p in LanguageModel(Shape(tied=True)).parameters())  # @stepover @hide
        gpt_3 = [w.numel() / 12_288**2 for w in transformer_weights(12_288).values() if w.ndim == 2]  # @stepover @hide
        of_llama = [w.numel() / 8192**2 for w in Layer(llama).parameters() if w.ndim == 2]  # @stepover @hide
        here = [w.numel() / 128**2 for w in Layer(shape).parameters() if w.ndim == 2]  # @stepover @hide
    assert tied == sum(parameters_by_part(Shape(tied=True)).values()) == parameters - 256 * 128  # @hide
    assert (sum(gpt_3), sum(of_llama), sum(here)) == (12, 12.75, 12)  # @hide
    rows = [
        ("GPT-3: LayerNorm, GELU, 96 heads", sum(gpt_3[:2]), sum(gpt_3[2:]), sum(gpt_3)),
        ("here: RMSNorm, SwiGLU, 4 heads share 2", sum(here[:4]), sum(here[4:]), sum(here)),
        ("Llama 3 70B: the same, 64 share 8", sum(of_llama[:4]), sum(of_llama[4:]), sum(of_llama)),
    ]  # @hide
    table(rows, ["layer", "attention", "feed-forward", "together"], title="Weights of one layer, in $D^2$")  # @hide
    text(
        "A layer has about $12 D^2$ weights in every generation. A **tied** head is the embedding, used a second time: "
        "$VD$ parameters less."
    )
    link(**REFERENCES["llama 3"])


def flops_of_the_language_model() -> None:
    """FLOPs, by part"""
    text(
        "Each token takes 6 FLOPs for every weight that multiplies it (section 7). The embedding is looked up and "
        "takes none. Attention adds two products without weights, queries with keys and probabilities with values: $12 "
        "L D S$ FLOPs per token."
    )
    ask(
        "The layers' matrices take $6 \\cdot 12 L D^2 = 72 L D^2$ FLOPs per token. At which sequence length $S$, in "
        "units of $D$, do attention's products take as many?",
        6,
        within=0,
        hint="Solve $12LDS = 72LD^2$ for $S$.",
        why="$S = 6D$, if every query is multiplied with all $S$ keys. A causal kernel skips the half that the mask "
        "hides, so there $S = 12D$. At $D = 8192$ that is 49,152 or 98,304 tokens.",
        slips={1: "At $S = D$ attention's products take a sixth of the matrices' FLOPs."},
    )
    shape = Shape(context=6 * 128)
    with torch.device("meta"):  # tensors with shapes and without numbers
        model = LanguageModel(shape)  # @stepover
        tokens = torch.zeros(1, shape.context, dtype=torch.long)  # (B, S)
    step = count(lambda: loss_of(model, tokens, tokens).backward())  # @stepover
    attention, matrices = (step.flops_by_operator[f"aten.{name}"] for name in ("bmm", "mm"))
    predicted = flops_by_part(shape, 1)  # @inspect predicted [FLOP]
    assert attention == matrices - predicted["logits"]  # @inspect attention [FLOP]
    assert attention + matrices == sum(predicted.values())  # @hide
    share = Shape().context / (6 * 128 + Shape().context)  # of the layers' FLOPs @hide
    text(f"At the 64 tokens that are trained here, attention is {share:.0%} of the layers' FLOPs.")


def memory_bars(bars: dict[str, dict[str, int]], title: str) -> None:
    """A bar for each account of bytes, stacked of its parts; one that is still to come is 0"""
    parts = dict.fromkeys(part for held in bars.values() for part in held)
    sizes = {part: [held.get(part, 0) for held in bars.values()] for part in parts}
    plot(sizes, x=list(bars), y_label="bytes", style="stacked", title=title)


def memory_of_a_step_predicted() -> None:
    """Bytes of a training step, predicted"""
    text(
        "A training step holds parameters, gradients and AdamW's states (16 bytes per parameter in fp32), "
        "**activations** (results of the forward pass that the backward pass needs) and the logits, counted separately:"
    )
    shape = Shape()
    predicted = bytes_by_part(shape, batch=8)  # @inspect predicted [B]
    model = LanguageModel(shape)  # @stepover @hide
    measured = {"parameters": sum(w.nbytes for w in model.parameters())}  # @hide
    assert measured["parameters"] == predicted["parameters"] == 4 * 459_392  # @hide
    assert sum(predicted[part] for part in ("parameters", "gradients", "optimizer states")) == 16 * 459_392  # @hide
    tokens = torch.zeros(8, shape.context + 1, dtype=torch.long)  # @hide
    later = saved_by_part(model, tokens[:, :-1], tokens[:, 1:])  # what sections 11 and 13 explain @stepover @hide
    assert abs(later["activations"] - predicted["activations"]) <= 4  # @hide
    assert later["logits"] == predicted["logits"]  # @hide
    title = "A step of 8 sequences: activations are the largest part, and only parameters exist so far"  # @hide
    memory_bars({"predicted": predicted, "measured so far": measured}, title)  # @stepover @hide
    total, share = sum(predicted.values()), predicted["activations"] / sum(predicted.values())  # @hide
    text(
        f"Together {total / 2**20:.1f} MiB for one step, {share:.0%} of them activations. Section 10 measures the "
        f"optimizer's states, section 13 the rest."
    )


def mixture_of_experts() -> None:
    """With experts, N counts the active parameters"""
    text(
        "In a *mixture of experts* a layer has several feed-forward parts, and a small *router* chooses a few of them "
        "for each token. Each token is multiplied by its own experts only:"
    )
    tokens, width, experts, active = 64, 32, 8, 2
    x = torch.randn(tokens, width)
    weights = torch.randn(experts, width, width) / math.sqrt(width)
    router = torch.randn(width, experts)
    scores = (x @ router).softmax(dim=-1)  # (tokens, experts)
    gates, chosen = scores.topk(active, dim=-1)  # (tokens, active) each
    visited = count(lambda: visit_experts(x, weights, gates, chosen))
    multiplied = sum(n for name, n in visited.flops_by_operator.items() if "mm" in name)  # @inspect multiplied [FLOP]
    assert multiplied == 2 * tokens * active * weights[0].numel()
    every = torch.einsum("td,edk->tek", x, weights)  # (tokens, experts, width) @hide
    all_gates = torch.where(scores >= gates[:, -1:], scores, 0)  # @hide
    assert torch.allclose(
        visit_experts(x, weights, gates, chosen), (all_gates[..., None] * every).sum(dim=1), atol=1e-5
    )  # the sum over all experts, with the gates of those not chosen set to zero @hide
    assert len(chosen.unique()) == experts  # different tokens, different experts @hide
    assert torch.allclose(scores.sum(dim=-1), torch.ones(tokens))  # @hide
    text(
        "So the $N$ of $6ND$ FLOPs is the *active* parameters, and the $N$ of bytes per parameter is all of them. The "
        "price of experts: memory holds all of them, at 16 bytes per parameter in training; and if each GPU holds some "
        "of the experts (*expert parallelism*), every token is sent to the GPUs of its experts and back, an "
        "*all-to-all* of $D$ numbers per token and expert in each direction and layer."
    )


def visit_experts(x: Tensor, weights: Tensor, gates: Tensor, chosen: Tensor) -> Tensor:
    """Multiply each token by the experts chosen for it, and add the results up, weighted by their gates"""
    y = torch.zeros_like(x)
    for expert, weight in enumerate(weights):
        token, slot = (chosen == expert).nonzero(as_tuple=True)
        y[token] += gates[token, slot, None] * (x[token] @ weight)
    return y


# ---------------------------------------------------------------------------------------------------------
# 9 Randomness and data


def randomness_and_data() -> None:
    """Randomness and data"""
    terabytes = 1.4e12 * 2 / 1e12  # of LLaMA's training set @hide
    text(
        f"Two questions: how does a run repeat itself to the last bit, and how does a training set of {terabytes:.1f} "
        f"TB (LLaMA's 1.4T tokens, two bytes each) reach a GPU with {H100_MEMORY / 1e12} TB of memory?"
    )
    note(
        "Three minutes. Draw the window of S + 1 tokens on the board: most people are wrong by one. Without a GPU, say "
        "in words how copies and work overlap."
    )
    seeds()
    generators()  # @deeper
    determinism_and_its_cost()  # @deeper
    tokens_on_disk()
    batches()
    pinned_memory()  # @deeper
    text_for_the_language_model()
    text(
        "**In three lines.**\n\n"
        "1. Seed torch, NumPy and Python: on the same machine the run then repeats itself to the bit.\n"
        "2. Store tokens in a raw file, two or four bytes each, and map it read-only. A batch is $B$ windows of "
        "$S + 1$ tokens.\n"
        "3. The text of the language model has 19,583 tokens for training; section 11 trains on them."
    )


def seeds() -> None:
    """Seeds"""
    text(
        "torch, NumPy and Python have a random generator each, and each needs its own seed. `np.random.seed` does not "
        "seed torch. Here each draws one number, and again after it is seeded again:"
    )
    draws = []
    for _ in range(2):
        torch.manual_seed(1)  # on the CPU and on every GPU
        np.random.seed(2)
        random.seed(3)
        draws.append([torch.rand(()).item(), float(np.random.rand()), random.random()])  # @inspect draws
    assert draws[0] == draws[1]
    np.random.seed(2)  # @hide
    assert torch.rand(()).item() != draws[0][0]  # NumPy's seed does nothing in torch @hide
    newer = np.random.default_rng(5)  # NumPy's newer generators have a state each @hide
    np.random.seed(2)  # @hide
    assert newer.random() == np.random.default_rng(5).random()  # @hide
    state = torch.get_rng_state()  # @hide
    first = torch.rand(2)  # @hide
    assert not torch.equal(torch.rand(2), first)  # @hide
    torch.set_rng_state(state)  # @hide
    assert torch.equal(torch.rand(2), first)  # @hide
    text(
        "A seed sets the generator's **state**, and each draw changes it. A run that is to be resumed saves the state "
        "with `torch.get_rng_state()` (section 15)."
    )
    once, again, other = (gradients_of_a_seed(seed) for seed in (0, 0, 1))  # @stepover @hide
    assert torch.equal(once, again) and not torch.equal(once, other)  # @hide
    text(
        f"With seeds set, all {len(once):,} gradients of the language model's first step are the same to the bit in "
        f"two runs here. On a GPU this also needs `torch.use_deterministic_algorithms(True)`: otherwise some "
        f"operations add in the order in which their threads finish."
    )


def generators() -> None:
    """A generator for the data"""
    text(
        "All code shares torch's state, so one more draw anywhere changes all later numbers. A `torch.Generator` of "
        "its own keeps the order of the data independent of the model:"
    )

    def batch_after(model_draws: int, generator: torch.Generator | None) -> list[int]:
        torch.manual_seed(0)
        torch.rand(model_draws)  # weights, for example
        return torch.randint(1000, (4,), generator=generator).tolist()

    shared = [batch_after(n, None) for n in (10, 11)]  # @inspect shared @stepover
    own = [batch_after(n, torch.Generator().manual_seed(0)) for n in (10, 11)]  # @inspect own @stepover
    assert shared[0] != shared[1]
    assert own[0] == own[1]


def gradients_of_a_seed(seed: int) -> Tensor:
    """The gradients of a first step, whose weights and batch are drawn from the seed"""
    torch.manual_seed(seed)
    model = LanguageModel(Shape())
    train, _ = lecture_tokens()
    inputs, targets = draw_batch(train, 4, 64, torch.Generator().manual_seed(seed))
    loss_of(model, inputs, targets).backward()
    return torch.cat([w.grad.flatten() for w in model.parameters()])


def determinism_and_its_cost() -> None:
    """Determinism, and what it costs"""
    text(
        "Seeds don't cover everything. A sum of floating-point numbers depends on its order. If many threads add to "
        "one number, the order differs from run to run. `torch.use_deterministic_algorithms(True)` makes "
        "torch choose another algorithm for such operations, and raise an error where it has none. It also fills what "
        "`empty` returns with NaN, so that a read of unset memory shows at once. (Older versions of torch also needed "
        "`CUBLAS_WORKSPACE_CONFIG=:4096:8` in the environment for matrix products on CUDA.)"
    )
    rows = torch.randint(1000, (2**16,), generator=torch.Generator().manual_seed(0)).to(device())
    values = torch.randn(2**16, 16, generator=torch.Generator().manual_seed(1)).to(device())

    def add_up() -> Tensor:
        return torch.zeros(1000, 16, device=device()).index_add_(0, rows, values)

    def add_up_in_order() -> Tensor:
        torch.use_deterministic_algorithms(True)
        try:
            return add_up()
        finally:
            torch.use_deterministic_algorithms(False)

    usual, repeated = ([way() for _ in range(5)] for way in (add_up, add_up_in_order))  # @stepover
    usual_time, repeated_time = timed_in_turn(add_up, add_up_in_order)  # @stepover
    torch.use_deterministic_algorithms(True)
    unset = torch.empty(1000, device=device())
    torch.use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()  # @hide
    assert all(torch.equal(sums, repeated[0]) for sums in repeated)
    assert torch.allclose(usual[0], repeated[0], atol=1e-3)
    assert unset.isnan().all()
    agreed = all(torch.equal(sums, usual[0]) for sums in usual)  # @inspect agreed
    text(f"Five deterministic runs agree to the bit. Five default runs {'also agree' if agreed else 'do not'} here.")
    factors = times_as_long(repeated_time, usual_time)  # @inspect factors @stepover
    decide(
        factors,
        than=1.1,
        above=f"Here the deterministic `index_add_` takes {statistics.median(factors):.1f} times as long.",
        below="Here the deterministic `index_add_` is no slower.",
        undecided="Here the samples don't agree on whether the deterministic `index_add_` takes longer.",
    )
    text("So it is switched on while a bug is hunted, and seldom throughout a long run.")
    link(**REFERENCES["reproducibility"])


def tokens_on_disk() -> None:
    """Tokens on disk"""
    text(
        "A tokenizer turns text into whole numbers, and a training set is one long row of them in a file. LLaMA's "
        "vocabulary has 32,000 tokens, so a token fits in two bytes."
    )
    answer = 15e12 * np.min_scalar_type(128_255).itemsize  # @hide
    assert answer == 60e12 and np.iinfo(np.uint16).max < 128_256  # @hide
    ask(
        "Llama 3 has a vocabulary of 128,256 and was trained on 15T tokens. How many bytes is that on disk, with "
        "NumPy's smallest type that can hold a token?",
        answer=answer,
        unit="B",
        hint="A `uint16` ends at 65,535.",
        slips={15e12 * 2: "128,255 does not fit into 2 bytes.", 15e12 * 8: "`int64` is needed only for the batch."},
    )
    data_bytes = 1.4e12 * np.dtype(np.uint16).itemsize  # LLaMA's @hide
    assert data_bytes == 2.8e12 and np.iinfo(np.uint16).max >= 32_000  # @hide
    text(
        "Such a file need not fit into memory. A **memory-mapped** file looks like an array. "
        "The operating system reads a page of it (often 4096 bytes) when the program touches it, and may drop the "
        "page again at any time:"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokens.bin")
        np.arange(32_000, dtype=np.uint16).tofile(path)  # the numbers and nothing else: no shape, no dtype
        tokens = np.memmap(path, dtype=np.uint16, mode="r")  # @inspect tokens[-1]
        assert path.stat().st_size == 2 * len(tokens)  # @hide
        memory_of_a_mapped_file(Path(folder, "large.bin"))  # @deeper
        open_it_read_only(path)  # @deeper
        raw_numbers_are_no_npy(Path(folder))  # @deeper
    link(**REFERENCES["llama"])


def anonymous_bytes() -> int | None:
    """This process's own memory, without what is mapped from files, as Linux counts it"""
    status = Path("/proc/self/status")
    found = re.search(r"RssAnon:\s*(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else None


def memory_of_a_mapped_file(path: Path) -> None:
    """What reading a mapped file costs in memory"""
    np.tile(np.arange(32_000, dtype=np.uint16), sizes().token_file_bytes // 64_000).tofile(path)  # @stepover
    before = anonymous_bytes()  # memory of the process's own @stepover
    tokens = np.memmap(path, dtype=np.uint16, mode="r")
    checksum = int(tokens[::1024].sum())  # a token from each half page @inspect checksum
    mapped = anonymous_bytes()  # @stepover
    loaded = np.array(tokens)
    after = anonymous_bytes()  # @stepover
    assert checksum == int(loaded[::1024].sum())
    if before is None or mapped is None or after is None:
        return
    gained = {"mapped": (mapped - before) / tokens.nbytes, "loaded": (after - mapped) / tokens.nbytes}
    assert gained["mapped"] < 0.1  # of the file's size @inspect gained
    assert gained["loaded"] < 1.1
    text(
        f"Reading the mapped file added {gained['mapped']:.0%} of its size to the process's own memory. Its pages "
        f"belong to the system's cache, which all processes share. The loaded array added {gained['loaded']:.0%}."
    )


def open_it_read_only(path: Path) -> None:
    """Trap: the default can write"""
    text("`np.memmap` opens a file for reading *and writing* unless told otherwise. An assignment goes to disk:")
    careless = np.memmap(path, dtype=np.uint16)  # @inspect careless.mode
    original = int(careless[0])
    careless[0] = original + 1
    careless.flush()
    tokens = np.memmap(path, dtype=np.uint16, mode="r")
    assert tokens[0] == original + 1
    refusal = ""
    try:
        tokens[0] = original
    except ValueError as error:
        refusal = str(error)  # @inspect refusal
    assert "read-only" in refusal
    assert careless.mode == "r+"


def raw_numbers_are_no_npy(folder: Path) -> None:
    """Trap: raw numbers are not .npy"""
    text(
        "`tofile` writes the numbers and nothing else: no shape, no dtype. `np.save` writes a header first. Each "
        "reader needs its own kind of file, and only `np.load` reports a wrong one:"
    )
    tokens = np.arange(1000, dtype=np.uint16)
    raw, npy = folder / "raw.bin", folder / "tokens.npy"
    tokens.tofile(raw)
    np.save(npy, tokens)
    raw_bytes, npy_bytes = raw.stat().st_size, npy.stat().st_size  # @inspect raw_bytes [B], npy_bytes [B]
    assert (raw_bytes, npy_bytes) == (2000, 2000 + 128)
    refusal = ""
    try:
        np.load(raw)
    except ValueError as error:
        refusal = str(error)  # @inspect refusal
    assert "pickle" in refusal
    misread = np.memmap(npy, dtype=np.uint16, mode="r")  # @inspect misread[:3].tolist()
    assert bytes(misread[:3]) == b"\x93NUMPY"  # the header, as tokens
    assert len(misread) == 1000 + 64
    text("Nor does a raw file know its dtype. Read with the wrong one, it is half as many tokens, and all nonsense:")
    assert len(np.memmap(raw, dtype=np.uint32, mode="r")) == 500
    text("For a file with a header, `np.load(path, mmap_mode='r')` is the map that understands it.")
    assert np.array_equal(np.load(npy, mmap_mode="r"), tokens)


def draw_batch(tokens: np.ndarray, batch: int, sequence: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw windows of the tokens; the targets are the same windows, one token later"""
    starts = torch.randint(len(tokens) - sequence, (batch, 1), generator=generator)  # (B, 1)
    positions = starts + torch.arange(sequence + 1)  # (B, S + 1)
    windows = torch.from_numpy(tokens[positions.numpy()].astype(np.int64))  # (B, S + 1): one array, not a list of them
    return windows[:, :-1], windows[:, 1:]


def batches() -> None:
    """Batches"""
    text(
        "A language model learns to predict the next token, at every position of a sequence at once. So a batch is "
        "$B$ windows of $S + 1$ tokens: the first $S$ are the inputs, the last $S$ the targets."
    )
    answer = len(np.lib.stride_tricks.sliding_window_view(np.arange(1000), 64 + 1))  # @hide
    assert answer == 1000 - 64  # @hide
    ask(
        "How many different windows of $S + 1$ tokens has a file of 1000 tokens, with $S = 64$?",
        answer=answer,
        within=0,
        slips={
            1000 - 65: "One too few: the window that ends with the last token counts.",
            1000: "The last 64 tokens can begin no window.",
            1000 // 65: "Windows may overlap.",
        },
    )
    generator = torch.Generator().manual_seed(0)
    tokens = np.arange(100)  # so that each token says where it came from
    inputs, targets = draw_batch(tokens, batch=2, sequence=4, generator=generator)  # @inspect inputs targets
    assert torch.equal(inputs + 1, targets)
    assert inputs.shape == targets.shape == (2, 4) and shares_storage(inputs, targets)  # @stepover @hide
    first_tokens = draw_batch(tokens[:7], batch=100, sequence=4, generator=generator)[0][:, 0]  # @stepover @hide
    assert sorted(set(first_tokens.tolist())) == [0, 1, 2]  # the last window is drawn @hide
    inputs, targets = draw_batch(tokens[:5], batch=1, sequence=4, generator=generator)  # @stepover @hide
    assert (inputs[0, 0], targets[0, -1]) == (0, 4)  # a file of one window @hide


def pinned_memory() -> None:
    """To the GPU: pinned memory"""
    text(
        "A GPU copies from the CPU's memory by itself, but only from memory that is guaranteed to stay where it is: "
        "**pinned**. A copy from ordinary, *pageable* memory goes through a pinned buffer piece by piece, and the CPU "
        "does that work. From pinned memory, with `non_blocking=True`, the call returns at once, and the CPU is free "
        "for the next batch; on a stream of its own the transfer overlaps the step. Pinning is itself a copy, so it is "
        "left to another thread: torch's loader does it with `DataLoader(pin_memory=True)`."
    )
    if device() != "cuda":
        batch_bytes = torch.empty(32, 4096, dtype=torch.int64, device="meta").nbytes  # @inspect batch_bytes [B]
        floor_s = batch_bytes / 64e9  # an H100's bus, PCIe Gen5, one way @inspect floor_s [s]
        text(
            f"Not run: no CUDA device. By its datasheet the bus to an H100 moves 64 GB/s each way: a batch of 32 × "
            f"4096 tokens takes {floor_s * 1e6:.0f} µs or more, little beside a training step."
        )
        return
    bandwidth_of_transfers()
    link(**REFERENCES["pinned memory"])


def bandwidth_of_transfers() -> None:
    """Pageable against pinned"""
    largest = sizes().streamed_bytes // 4  # @stepover
    lengths = [2**k for k in range(12, 31, 2) if 2**k <= largest]  # bytes @inspect lengths
    transfers = [times_of_transfer(length) for length in lengths]  # @stepover
    series = {
        way: [length / took[way].seconds for length, took in zip(lengths, transfers, strict=True)]
        for way in transfers[0]
    }  # @hide
    scales = {"x_scale": "log", "y_scale": "log"}  # @hide
    plot(series, x=lengths, x_label="bytes", y_label="bytes / s", title="CPU to GPU", **scales)  # @hide
    assert max(rates[0] for rates in series.values()) < max(rates[-1] for rates in series.values())
    what_pinning_brings(transfers[-1])


def times_of_transfer(length: int) -> dict[str, Measurement]:
    """How long a copy to the GPU takes from pageable memory, from pinned, and from memory pinned on the way"""
    source = torch.arange(length // 8).view(torch.uint8)
    pinned, target = source.pin_memory(), torch.empty(length, dtype=torch.uint8, device="cuda")
    ways = {
        "pageable": lambda: target.copy_(source),
        "pinned": lambda: target.copy_(pinned, non_blocking=True),
        "pinned on the way": lambda: target.copy_(source.pin_memory(), non_blocking=True),
    }
    times = timed_in_turn(*ways.values())
    assert torch.equal(target.cpu(), source)
    return dict(zip(ways, times, strict=True))


def what_pinning_brings(times: dict[str, Measurement]) -> None:
    """What pinning brings here"""
    gain = times_as_long(times["pageable"], times["pinned"])
    decide(
        gain,
        than=1.1,
        above=f"At the largest size a copy from pinned memory is {statistics.median(gain):.1f} times as fast.",
        below="On this machine a copy from pinned memory is no faster.",
        undecided="On this machine the samples don't agree on whether a copy from pinned memory is faster.",
    )
    decide(
        times_as_long(times["pinned on the way"], times["pageable"]),
        than=(0.95, 1.05),
        above="`x.pin_memory().to('cuda')` in the training loop is slower than doing nothing about it.",
        below="`x.pin_memory().to('cuda')` in the training loop is faster than doing nothing about it.",
        equal="`x.pin_memory().to('cuda')` in the training loop gains nothing.",
        undecided="`x.pin_memory().to('cuda')` in the training loop gains nothing that the samples agree on.",
    )
    text(
        "Pinning is itself a copy, into memory that has to be found first. Let another thread do it: "
        "`DataLoader(pin_memory=True)`."
    )


UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(n: int) -> str:
    """The name of a number below 1000"""
    hundreds, rest = divmod(n, 100)
    name = UNITS[rest] if rest < 20 else TENS[rest // 10] + (f"-{UNITS[rest % 10]}" if rest % 10 else "")
    return " ".join([*([UNITS[hundreds], "hundred"] if hundreds else []), *([name] if rest or not hundreds else [])])


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
        "The language model of section 8 learns to count in words, from one hundred to nine hundred ninety-nine. Each "
        "byte is a token. Ten numbers of each hundred are **held out**: training never shows them, so they test "
        "whether the model has learnt a rule or memorised the text."
    )
    train, held_out = lecture_tokens()  # @inspect len(train) len(held_out) @stepover
    print(bytes(held_out[:76]).decode())
    assert [in_words(n) for n in (100, 342, 719, 990)] == [
        "one hundred", "three hundred forty-two", "seven hundred nineteen", "nine hundred ninety"
    ]  # fmt: skip  # @hide
    numbers = [part.decode().split(", ") for part in map(bytes, (train, held_out))]  # @hide
    assert [len(part) for part in numbers] == [810, 90] and len({*numbers[0], *numbers[1]}) == 900  # @hide
    assert not train.flags.writeable and (len(train), len(held_out)) == (19_583, 2_238)  # @hide


# ---------------------------------------------------------------------------------------------------------
# 10 Optimizers


class OneByOne(optim.Optimizer):
    """Visit each parameter that has a gradient.

    Yields the parameter, its gradient, the dictionary of its state, and the options of its group, such as `lr`.
    """

    def visit(self) -> Iterator[tuple[Tensor, Tensor, dict[str, Any], dict[str, Any]]]:
        for group in self.param_groups:
            for w in group["params"]:
                if w.grad is not None:
                    yield w, w.grad, self.state[w], group


class SGD(OneByOne):
    """w ← w − lr · g"""

    def __init__(self, params: Any, lr: float = 0.01) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()  # what is done here is not recorded for a backward pass
    def step(self, closure: None = None) -> None:  # the argument is of torch's interface, and not used
        for w, g, _, group in self.visit():
            w -= group["lr"] * g


class Momentum(OneByOne):
    """m ← μ · m + g, a decayed sum; w ← w − lr · m"""

    def __init__(self, params: Any, lr: float = 0.01, momentum: float = 0.9) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for w, g, state, group in self.visit():
            if not state:
                state["sum"] = torch.zeros_like(w)
            state["sum"].mul_(group["momentum"]).add_(g)
            w -= group["lr"] * state["sum"]


class AdaGrad(OneByOne):
    """v ← v + g², a sum; w ← w − lr · g / (√v + ε)"""

    def __init__(self, params: Any, lr: float = 0.01, eps: float = 1e-10) -> None:
        super().__init__(params, {"lr": lr, "eps": eps})
        for group in self.param_groups:
            for w in group["params"]:
                self.state[w] = {"sum": torch.zeros_like(w)}

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for w, g, state, group in self.visit():
            state["sum"] += g * g
            w -= group["lr"] * g / (state["sum"].sqrt() + group["eps"])


class RMSProp(OneByOne):
    """v ← α · v + (1 − α) · g², an average; w ← w − lr · g / (√v + ε)"""

    def __init__(self, params: Any, lr: float = 0.01, alpha: float = 0.99, eps: float = 1e-8) -> None:
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for w, g, state, group in self.visit():
            if not state:
                state["average"] = torch.zeros_like(w)
            state["average"].mul_(group["alpha"]).add_((1 - group["alpha"]) * g * g)
            w -= group["lr"] * g / (state["average"].sqrt() + group["eps"])


class Adam(OneByOne):
    """m and v, averages of g and g², corrected for their start at 0; w ← w − lr · m / (√v + ε)"""

    def __init__(
        self, params: Any, lr: float = 0.001, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for w, g, state, group in self.visit():
            if not state:
                state |= {"step": torch.tensor(0.0), "m": torch.zeros_like(w), "v": torch.zeros_like(w)}
            beta1, beta2 = group["betas"]
            state["step"] += 1
            state["m"].mul_(beta1).add_((1 - beta1) * g)
            state["v"].mul_(beta2).add_((1 - beta2) * g * g)
            m = state["m"] / (1 - beta1 ** state["step"].item())  # bias correction
            v = state["v"] / (1 - beta2 ** state["step"].item())
            w -= group["lr"] * m / (v.sqrt() + group["eps"])


class AdamW(Adam):
    """Adam, and w ← w − lr · λ · w"""

    def __init__(self, params: Any, lr: float = 0.001, weight_decay: float = 0.01) -> None:
        super().__init__(params, lr)
        for group in self.param_groups:
            group["weight_decay"] = weight_decay

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for w, _, _, group in self.visit():
            w *= 1 - group["lr"] * group["weight_decay"]
        super().step()


class EpsilonInside(RMSProp):
    """RMSProp with ε inside the root: w ← w − lr · g / √(v + ε)"""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for w, g, state, group in self.visit():
            if not state:
                state["average"] = torch.zeros_like(w)
            state["average"].mul_(group["alpha"]).add_((1 - group["alpha"]) * g * g)
            w -= group["lr"] * g / (state["average"] + group["eps"]).sqrt()


class Uncorrected(Adam):
    """Adam without bias correction: w ← w − lr · m / (√v + ε)"""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for w, g, state, group in self.visit():
            if not state:
                state |= {"m": torch.zeros_like(w), "v": torch.zeros_like(w)}
            beta1, beta2 = group["betas"]
            state["m"].mul_(beta1).add_((1 - beta1) * g)
            state["v"].mul_(beta2).add_((1 - beta2) * g * g)
            w -= group["lr"] * state["m"] / (state["v"].sqrt() + group["eps"])


def optimizers() -> None:
    """Optimizers"""
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    state_bytes, moved_bytes = what_adamw_costs()  # per parameter, in fp32 @stepover @hide
    text(
        f"**How many bytes does an optimizer keep per parameter, and how long does a step take?** An **optimizer** "
        f"moves each weight against its gradient. Most remember earlier gradients in their **state**. The key figure: "
        f"AdamW in fp32 keeps **{state_bytes:.0f} bytes** per parameter."
    )
    note(
        "Three minutes. Read the table from top to bottom: each row adds one idea. Ask who knows when Adam allocates. "
        "The bytes matter more than the formulas: end with the 28 bytes of a step."
    )
    family = [
        ("SGD", "$w \\leftarrow w - \\eta g$", 0),
        ("momentum", "$m \\leftarrow \\mu m + g$; $w \\leftarrow w - \\eta m$", 4),
        ("AdaGrad", "$v \\leftarrow v + g^2$; $w \\leftarrow w - \\eta g / \\sqrt v$", 4),
        ("RMSProp", "AdaGrad with an average: $v \\leftarrow \\alpha v + (1 - \\alpha) g^2$", 4),
        ("Adam", "RMSProp with an average of $g$ for $g$; both corrected for starting at 0", 8),
        ("AdamW", "Adam; also $w \\leftarrow w - \\eta \\lambda w$ (weight decay)", 8),
    ]  # @hide
    table(family, ["optimizer", "update", "state, bytes per fp32 parameter"])  # @hide
    text(
        "$g$ is the gradient, $\\eta$ the learning rate; $\\mu$ and $\\alpha$, below 1, set how long an average "
        "remembers; $\\lambda$ pulls weights towards 0. A tiny ε, added to the root, avoids division by 0."
    )
    adapting_to_each_parameter()
    what_a_step_costs()
    when_states_are_allocated()  # @deeper
    parameter_groups()  # @deeper
    the_six_against_torch()  # @deeper
    what_is_often_copied_wrong()  # @deeper
    three_ways_to_take_a_step()  # @deeper
    optimizer_states()  # @deeper
    text(
        f"**In three lines.**\n\n"
        f"1. AdamW's state is {state_bytes:.0f} bytes per fp32 parameter.\n"
        f"2. It is allocated in the first step: a forward and backward pass that fits proves little.\n"
        f"3. A step is memory-bound: {moved_bytes:.0f} bytes per parameter. Section 11 takes many."
    )


def what_adamw_costs() -> tuple[float, float]:
    """Bytes of state, and bytes moved by one fused step, for each parameter in fp32"""
    w = nn.Parameter(torch.randn(2**16))
    w.grad = torch.randn_like(w)
    optimizer = optim.AdamW([w], fused=True)
    optimizer.step()
    state_bytes = sum(state.nbytes for state in optimizer.state[w].values() if state.dim() > 0)
    return state_bytes / w.numel(), count(optimizer.step).bytes_moved / w.numel()


def adapting_to_each_parameter() -> None:
    """AdaGrad, written out"""
    ask(
        "Three gradients are 100, −1 and 0.0001, the learning rate is 0.02. How far does AdaGrad's first step move the "
        "weight with the gradient 100?",
        0.02 * 100 / math.sqrt(100**2),
        hint="After one step the sum of squares is $g^2$.",
        slips={100 * 0.02: "That is SGD's step.", 0.02 / 100: "It divides by $|g|$, but it multiplies by $g$ as well."},
    )
    g, lr = torch.tensor([100.0, -1.0, 1e-4]), 0.02
    w, v = torch.zeros(3), torch.zeros(3)  # weights, and AdaGrad's state
    v += g * g  # a sum of squares
    w -= lr * g / (v.sqrt() + 1e-10)  # @inspect w
    assert torch.allclose(w, torch.tensor([-0.02, 0.02, -0.02]))
    same = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))]  # @hide
    for weight, optimizer_class in zip(same, (AdaGrad, optim.Adagrad), strict=True):  # @hide
        weight.grad = g.clone()  # @hide
        optimizer_class([weight], lr=lr).step()  # @hide @stepover
    assert all(torch.allclose(weight, w) for weight in same)  # @hide
    text(
        f"[AdaGrad's]({REFERENCES['adagrad']['url']}) sum only grows, so its steps only shrink; [RMSProp]"
        f"({REFERENCES['rmsprop']['url']}) and [Adam]({REFERENCES['adam']['url']}) use averages. [AdamW]"
        f"({REFERENCES['adamw']['url']}) keeps weight decay out of the averages; most language models train with it."
    )


def when_states_are_allocated() -> None:
    """When the state is allocated"""
    layer, n = nn.Linear(256, 128), 256 * 128 + 128  # n parameters
    optimizer = optim.AdamW(layer.parameters())
    layer(torch.randn(4, 256)).square().mean().backward()
    before = held_for_training(layer, optimizer)  # @hide @stepover
    optimizer.step()
    after = held_for_training(layer, optimizer)  # @hide @stepover
    optimizer.zero_grad()
    cleared = held_for_training(layer, optimizer)  # @hide @stepover
    moments = {"backward": before, "the first step": after, "zero_grad": cleared}  # @hide
    rows = [(name, *(size / n for size in held.values())) for name, held in moments.items()]  # @hide
    table(rows, ["bytes per parameter, after", "parameters", "gradients", "optimizer states"])  # @hide
    assert [held["optimizer states"] / n for held in (before, after, cleared)] == [0, 8, 8]  # @hide
    assert [held["gradients"] / n for held in (before, after, cleared)] == [4, 4, 0]  # @hide
    new = [make([nn.Parameter(torch.zeros(10))]) for make in (optim.Adam, optim.Adagrad)]  # @hide
    assert [state_numbers(one) for one in new] == [0, 10]  # @hide @stepover
    text(
        "AdamW allocates its state *in the first step* (AdaGrad already when it is made). `zero_grad()` drops the "
        "gradients (`set_to_none=True` is the default) and so frees their bytes."
    )
    if device() == "cuda":  # @hide
        model = DeepLinear(256, 4).to(device())  # @hide @stepover
        what_the_allocator_gets_back(model, optim.AdamW(model.parameters()))  # @hide


def parameter_groups() -> None:
    """Parameter groups"""
    text("Weight decay is meant for matrices, not for norms. A **parameter group** has its own options:")
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.RMSNorm(8))  # @hide
    matrices, norms = [model[0].weight], [model[1].weight]  # @hide
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=0.01)
    before = [w.detach().clone() for w in (*matrices, *norms)]  # @hide
    for w in model.parameters():  # @hide
        w.grad = torch.zeros_like(w)  # @hide
    optimizer.step()  # @hide
    assert torch.allclose(matrices[0], before[0] * (1 - 0.01 * 0.1), rtol=1e-5)  # @hide
    assert torch.equal(norms[0], before[1])  # @hide


def what_a_step_costs() -> None:
    """What a step costs"""
    answer = 1e3 * (4 * 4 + 3 * 4) * 1e9 / H100_BANDWIDTH  # @hide
    ask(
        f"AdamW reads a weight, its gradient and two states, and writes the weight and the states. How many "
        f"milliseconds does a step take at least for 1 billion fp32 parameters on an H100 with "
        f"{H100_BANDWIDTH / 1e12} TB/s?",
        answer,
        unit="ms",
        within=0.03,
        slips={
            1e3 * 16 * 1e9 / H100_BANDWIDTH: "It reads 16 bytes, and writes 12 of them again.",
            1e3 * 8 * 1e9 / H100_BANDWIDTH: "Those are the bytes of the states alone, read once.",
        },
    )
    w = nn.Parameter(torch.randn(2**16))
    w.grad = torch.randn_like(w)  # @hide
    optimizer = optim.AdamW([w], fused=True)  # one kernel
    optimizer.step()  # @hide
    moved = count(optimizer.step).bytes_moved / w.numel()  # bytes per parameter @inspect moved @cover
    assert round(moved) == 4 * 4 + 3 * 4  # a step counter adds a few bytes
    tokens = (moved / H100_BANDWIDTH) / (6 / H100_BF16)  # @hide
    assert round(tokens, -2) == 1400  # @hide
    text(
        f"In that time an H100 at its peak trains them on {tokens:.0f} tokens. In a batch of many times that, the "
        f"step's share is small."
    )


def held_for_training(model: nn.Module, optimizer: optim.Optimizer) -> dict[str, int]:
    """Bytes of parameters, of gradients, and of the optimizer's states without its step counters"""
    weights = list(model.parameters())
    states = [tensor for state in optimizer.state.values() for tensor in state.values() if tensor.ndim > 0]
    return {
        "parameters": sum(w.nbytes for w in weights),
        "gradients": sum(w.grad.nbytes for w in weights if w.grad is not None),
        "optimizer states": sum(tensor.nbytes for tensor in states),
    }


def ten_steps(optimizer_class: type[optim.Optimizer], dtype: torch.dtype = torch.float32, **options: Any) -> Tensor:
    """Ten steps on a regression, always from the same start; returns the weights"""
    generator = torch.Generator().manual_seed(7)
    x, target, start = torch.randn(3, 16, 16, generator=generator).to(dtype)
    w = nn.Parameter(start.clone())
    optimizer = optimizer_class([w], **options)
    for _ in range(10):
        optimizer.zero_grad()
        (x @ w - target).square().mean().backward()
        optimizer.step()
    return w.detach()


def farthest(found: Tensor, expected: Tensor) -> float:
    """How far apart two sets of weights are, where they are farthest"""
    return (found - expected).abs().max().item()


def the_six_against_torch() -> None:
    """The six against torch's own"""
    text("All six are written out as `torch.optim.Optimizer`s. Ten steps by that code and by `torch.optim`:")
    pairs = [
        (SGD, optim.SGD, {"lr": 0.1}),
        (Momentum, optim.SGD, {"lr": 0.1, "momentum": 0.8}),
        (AdaGrad, optim.Adagrad, {"lr": 0.1}),
        (RMSProp, optim.RMSprop, {"lr": 0.01, "alpha": 0.9}),
        (Adam, optim.Adam, {"lr": 0.01, "betas": (0.8, 0.99)}),
        (AdamW, optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    ]  # @hide
    start = ten_steps(SGD, lr=0.0)  # @hide @stepover
    rows = []  # @hide
    for ours, theirs, options in pairs:  # @hide
        found, expected = ten_steps(ours, **options), ten_steps(theirs, **options)  # @hide @stepover
        single, moved = farthest(found, expected), farthest(found, start)  # @hide @stepover
        found, expected = (ten_steps(which, torch.float64, **options) for which in (ours, theirs))  # @hide @stepover
        double = farthest(found, expected)  # @hide @stepover
        assert single < 1e-6 < 1e-2 < moved  # @hide
        assert double < 1e-13  # @hide
        rows.append((ours.__name__, moved, single, double))  # @hide
    table(rows, ["optimizer", "largest move", "difference, fp32", "difference, fp64"])  # @hide
    text("The differences are rounding: they shrink with the format. A wrong formula's would not.")


def groups_of(model: LanguageModel) -> list[dict[str, Any]]:
    """Matrices decay, the rest does not; embedding and head learn `factor` times as fast, which was found by trying"""
    rows = list({id(w): w for w in (model.embedding.weight, model.head.weight)}.values())  # one, if tied
    norms = [w for w in model.parameters() if w.ndim == 1]
    matrices = [w for w in model.layers.parameters() if w.ndim == 2]
    return [
        {"params": matrices, "weight_decay": 0.1, "factor": 1.0},
        {"params": rows, "weight_decay": 0.0, "factor": 12.0},  # 12 times the learning rate: found by trying
        {"params": norms, "weight_decay": 0.0, "factor": 1.0},
    ]


def what_is_often_copied_wrong() -> None:
    """Three details of the formulas"""
    lr, decay = 0.02, 0.1
    rmsprop, adam = ten_steps(optim.RMSprop, lr=lr), ten_steps(optim.Adam, lr=lr)  # @hide @stepover
    coupled, decoupled = (
        ten_steps(which, lr=lr, weight_decay=decay) for which in (optim.Adam, optim.AdamW)
    )  # @hide @stepover
    off = {
        "ε inside the root": farthest(ten_steps(EpsilonInside, lr=lr), rmsprop),
        "no bias correction": farthest(ten_steps(Uncorrected, lr=lr), adam),
        "decay added to the gradient": farthest(coupled, decoupled),
    }  # @hide @stepover
    table(list(off.items()), ["mistake", "distance from torch's weights after ten steps"])  # @hide
    assert min(off.values()) > 1e-3  # a thousand times what rounding does
    no_epsilon = [ten_steps(which, lr=lr, eps=0) for which in (EpsilonInside, optim.RMSprop)]  # @hide @stepover
    assert farthest(*no_epsilon) < 1e-6  # nothing else differs @hide
    text(
        "torch adds ε *outside* the root; inside, $10^{-8}$ acts as $10^{-4}$. Decay that is added to the gradient is "
        "divided by $\\sqrt v$, so weights with large gradients hardly decay."
    )


def state_numbers(optimizer: optim.Optimizer) -> int:
    """How many numbers an optimizer's state holds, without the step counters"""
    tensors = [t for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t)]
    return sum(t.numel() for t in tensors if t.dim() > 0)


def three_ways_to_take_a_step() -> None:
    """Three ways to take the same step"""
    text(
        "torch has AdamW three times: one tensor after another, **foreach** (each operation once, for all tensors; the "
        "default on a GPU) and **fused** (one kernel). Each moves and temporarily allocates different numbers of bytes:"
    )
    width = sizes().optimizer_width  # @hide @stepover
    weights = [nn.Parameter(torch.randn(width, width, device=device())) for _ in range(8)]  # @hide @stepover
    for w in weights:  # @hide
        w.grad = torch.randn_like(w)  # @hide
    parameters = sum(w.numel() for w in weights)  # @hide
    ways = {"one by one": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    steps, extra, moved = [], {}, {}  # @hide
    for name, way in ways.items():  # @hide
        optimizer = optim.AdamW(weights, lr=1e-6, **way)  # @hide
        optimizer.step()  # @hide
        step = count(optimizer.step)  # @hide
        held_bytes = 4 * 4 * parameters  # parameters, gradients, two states @hide
        extra[name] = round((step.peak_bytes - held_bytes) / parameters, 2)  # @hide
        moved[name] = round(step.bytes_moved / parameters, 2)  # @hide
        steps.append(optimizer.step)  # @hide
    timings = measure(*steps, repeats=5, min_seconds=0.03, max_seconds=0.08)  # @hide @stepover
    best = {name: h100_at_best(0, moved[name] * parameters) for name in ways}  # @hide @stepover
    rows = [
        (name, extra[name], moved[name], timing.seconds, best[name]) for name, timing in zip(ways, timings, strict=True)
    ]  # @hide
    columns = ["AdamW", "extra bytes per parameter", "bytes moved", "measured here, s", "H100, at best, s"]  # @hide
    table(rows, columns, title=f"{parameters / 1e6:.1f} million parameters in 8 tensors")  # @hide
    assert round(moved["fused"]) == 7 * 4  # reads w, g, m, v; writes w, m, v @hide
    assert 2 * moved["fused"] < moved["one by one"]  # @hide
    assert extra["fused"] < 0.01 < extra["one by one"] < extra["foreach"]
    text("*foreach* holds one more copy of the model during the step. If that does not fit, use `fused=True`.")
    if device() == "cuda":
        extra_according_to_the_gpu(weights, extra["foreach"])  # @hide


def extra_according_to_the_gpu(weights: list[nn.Parameter], counted: float) -> None:
    """The same extra, according to the GPU"""
    optimizer = optim.AdamW(weights, lr=1e-6, foreach=True)
    optimizer.step()
    let_autograd_finish()  # @stepover
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    optimizer.step()
    peak_bytes = torch.cuda.max_memory_allocated() - before  # @inspect peak_bytes [B]
    measured = peak_bytes / sum(w.numel() for w in weights)  # bytes per parameter @inspect measured
    assert 0.7 < measured / counted < 1.3  # its kernels may need some room of their own
    text(f"The GPU's allocator saw {measured:.2f} extra bytes per parameter; {counted:.2f} were counted.")


def orthogonalized(x: Tensor) -> Tensor:
    """The nearest matrix with all singular values near 1: five rounds of Newton and Schulz's iteration"""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = x / x.norm()
    for _ in range(5):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x


def what_the_allocator_gets_back(model: DeepLinear, optimizer: optim.Optimizer) -> None:
    """What the GPU's allocator gets back"""
    model(torch.randn(8, 256, device="cuda")).square().mean().backward()  # @stepover
    gradient_bytes = sum(w.grad.nbytes for w in model.parameters())  # @inspect gradient_bytes [B]
    let_autograd_finish()  # @stepover
    allocated = torch.cuda.memory_allocated()
    optimizer.zero_grad()
    returned_bytes = allocated - torch.cuda.memory_allocated()  # @inspect returned_bytes [B]
    assert returned_bytes == gradient_bytes


def optimizer_states() -> None:
    """Other optimizers, other states"""
    weight = nn.Parameter(torch.randn(256, 128))  # @hide
    weight.grad = torch.randn(256, 128)  # @hide
    optimizers = {
        "SGD": optim.SGD([weight]),
        "momentum": optim.SGD([weight], momentum=0.9),
        "AdaGrad": optim.Adagrad([weight]),
        "RMSProp": optim.RMSprop([weight]),
        "AdamW": optim.AdamW([weight]),
        "Adafactor": optim.Adafactor([weight]),
    }  # @hide
    held = {}  # bytes per parameter @hide
    for name, optimizer in optimizers.items():  # @hide
        optimizer.step()  # @hide
        held[name] = 4 * state_numbers(optimizer) / weight.numel()  # @hide @stepover
    assert list(held.values()) == [0, 4, 4, 4, 8, 4 * (256 + 128) / weight.numel()]  # @hide
    momentum = torch.randn(64, 4) @ torch.randn(4, 64) + 0.1 * torch.randn(64, 64)  # a few directions dominate @hide
    singular = torch.linalg.svdvals(orthogonalized(momentum))  # @hide @stepover
    assert singular.max() < 1.3 and singular[:32].min() > 0.5  # @hide
    muon_flops = count(partial(orthogonalized, momentum)).flops_by_operator["aten.mm"] / 64**3  # @hide @stepover
    assert muon_flops == 5 * 3 * 2  # @hide
    layer = nn.Linear(256, 128, bias=False).bfloat16()  # @hide
    optimizer = optim.AdamW(layer.parameters())  # @hide
    layer(torch.randn(4, 256).bfloat16()).square().mean().backward()  # @hide
    optimizer.step()  # @hide
    in_bf16 = sum(held_for_training(layer, optimizer).values()) / layer.weight.numel()  # @hide @stepover
    assert in_bf16 == 8  # 2 + 2 + 4 @hide
    text(
        f"Each took a step on a matrix of 256 × 128; the bytes of its state were counted:\n\n"
        f"- **[Adafactor]({REFERENCES['adafactor']['url']})** keeps one number per row and per column of the second "
        f"average: {held['Adafactor']:.2f} bytes per parameter, less for larger matrices.\n"
        f"- **[Lion]({REFERENCES['lion']['url']})** keeps one average: 4 bytes, as momentum, AdaGrad and RMSProp.\n"
        f"- **[Muon]({REFERENCES['muon']['url']})**, for matrices, keeps momentum (4 bytes) and makes the update "
        f"nearly orthogonal: five rounds of three matmuls, ${muon_flops:.0f}D$ FLOPs per parameter and step, against 6 "
        f"per parameter and token.\n"
        f"- **AdamW on bf16 parameters** keeps bf16 states: {in_bf16:.0f} bytes in all, and fewer digits in everything "
        f"(section 12)."
    )


# ---------------------------------------------------------------------------------------------------------
# 11 Training loop


def training_loop() -> None:
    """Training loop"""
    text(
        "How do you see in the first minute that a run of many days works? This section trains two models whose right "
        "answers are known: a vector of sixteen numbers, then the language model, which learns to count."
    )
    note(
        "Five minutes. Write the loop with the class, then leave out a line. Ask for the first loss of a language "
        "model. Read aloud what the model writes before and after training."
    )
    the_task()
    two_learning_rates()
    what_a_real_loop_adds()  # @deeper
    results_that_must_differ()  # @deeper
    loss_that_broadcasts()
    the_language_model_learns()
    loop_as_a_graph()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. Draw a batch, compute the loss, `zero_grad`, `backward`, `step`. Real loops vary the learning rate.\n"
        "2. Know the first loss, $\\ln V$ for a language model, and assert the shapes of prediction and target.\n"
        "3. Report tokens per second: at an MFU of 0.4 an H100 trains 8 billion parameters on 8,246 tokens a second. "
        "Section 12 halves the bits."
    )
    assert round(0.4 * H100_BF16 / (6 * 8e9)) == 8246  # @hide


def the_task() -> None:
    """A task with a known answer"""
    text(
        "Each $x$ is $D$ random numbers, and $y = x \\cdot (0, 1, \\dots, D - 1)$. The model is one vector of $D$ "
        "numbers. After training it should be $(0, 1, \\dots, D - 1)$. A model that always predicts 0 has a loss of "
        f"$0^2 + 1^2 + \\dots + 15^2 = {sum(d**2 for d in range(16))}$, so the first loss should be about that:"
    )
    x, y = linear_batch(4096, 16)  # @inspect x.shape y.shape
    model = DeepLinear(16, 0)  # a head only @stepover
    loss = nn.functional.mse_loss(model(x), y).item()  # the mean squared error @inspect loss @stepover
    difference = torch.arange(16.0) - model.head.weight.detach().squeeze()  # @hide
    expected = difference.square().sum().item()  # the mean over all x: each number has variance 1 @hide
    assert [w.shape for w in model.parameters()] == [(16, 1)] and abs(loss / expected - 1) < 0.1  # @hide
    assert abs(y.square().mean().item() / 1240 - 1) < 0.1  # @hide
    ask(
        "A language model with a vocabulary of 50257 has just been initialised, and gives each token about the same "
        "probability. What is its first cross-entropy loss, in nats?",
        nn.functional.cross_entropy(torch.zeros(1, 50257), torch.tensor([7])).item(),
        hint="$-\\ln$ of the probability of the right token.",
        slips={math.log2(50257): "That is in bits: torch takes the natural logarithm.", 1 / 50257: "The probability."},
    )


def linear_batch(rows: int, width: int) -> tuple[Tensor, Tensor]:
    """Random rows, and what the model should make of them"""
    x = torch.randn(rows, width)
    return x, x @ torch.arange(float(width))


def fit(num_layers: int, lr: float, steps: int = 60) -> tuple[DeepLinear, list[float], list[float]]:
    """Train on a new batch each step. Returns the model, its losses on one fixed batch, before each step and after the
    last, and the losses of the batches trained on, each taken before its step"""
    torch.default_generator.manual_seed(0)
    model = DeepLinear(16, num_layers)
    optimizer = SGD(model.parameters(), lr=lr)
    fixed_x, fixed_y = linear_batch(256, 16)  # never trained on
    losses, of_batches = [], []
    for _ in range(steps):
        with torch.no_grad():
            losses.append(nn.functional.mse_loss(model(fixed_x), fixed_y).item())
        x, y = linear_batch(32, 16)  # (B, D), (B,)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        of_batches.append(loss.item())
    with torch.no_grad():
        losses.append(nn.functional.mse_loss(model(fixed_x), fixed_y).item())
    return model, losses, of_batches


def two_learning_rates() -> None:
    """The loop, with two learning rates"""
    ask(
        "Find the error in this loop:\n\n"
        "```python\nfor x, y in batches:\n    loss = mse_loss(model(x), y)\n    loss.backward()\n    optimizer.step()\n"
        "```",
        "gradients of all steps add up",
        choices=["gradients of all steps add up", "step must come before backward", "the loss is never used"],
        why="`optimizer.zero_grad()` is missing, before `backward`.",
        slips={
            "step must come before backward": "Then it would take the gradients of the step before.",
            "the loss is never used": "`backward` uses it.",
        },
    )
    text("Sixty steps with each of two learning rates. The loss is computed on a fixed batch that is never trained on:")
    slow_model, slow, _ = fit(num_layers=0, lr=0.01)  # @stepover
    fast_model, fast, _ = fit(num_layers=0, lr=0.1)
    curves = {"lr = 0.01": slow, "lr = 0.1": fast}  # @hide
    plot(
        curves,
        x=list(range(len(slow))),
        x_label="steps",
        y_label="loss, fixed batch",
        y_scale="log",
        title="Both curves are straight: a step multiplies the loss by a constant, about (1 − 2 lr)²",
    )  # @hide
    assert slow[0] == fast[0] and len(slow) - 1 == 60  # the same start, on the same batch @hide
    assert fast[-1] < 1e-4 < 10 < slow[-1]  # @inspect slow[-1] fast[-1]
    found = fast_model.head.weight.detach().squeeze()  # @inspect found
    assert torch.allclose(found, torch.arange(16.0), atol=0.01)  # @hide
    assert not torch.allclose(slow_model.head.weight.detach().squeeze(), torch.arange(16.0), atol=0.1)  # @hide
    slow_step, fast_step = ((losses[-1] / losses[0]) ** (1 / 60) for losses in (slow, fast))  # @hide
    assert abs(slow_step / (1 - 2 * 0.01) ** 2 - 1) < 0.01  # @hide
    noise = 4 * 0.1**2 * 17 / 32  # a batch has 32 rows of 16 numbers, and its gradient is not quite 2e @hide
    assert abs(fast_step / ((1 - 2 * 0.1) ** 2 + noise) - 1) < 0.02  # @hide
    text("The larger rate has found the vector. With more layers the same rates can diverge:")
    ends = {n: fit(n, lr=0.1, steps=20)[1][-1] for n in (0, 1)}  # hidden layers: loss @inspect ends @stepover
    assert ends[0] < 100 and not ends[1] < 1e4  # @hide


def what_a_real_loop_adds() -> None:
    """What a real loop adds"""
    text(
        "**A schedule.** The learning rate rises over some steps (*warm-up*, while the optimizer's averages have seen "
        "few gradients), then falls along half a cosine, here to a tenth:"
    )
    rates = [learning_rate(step, steps=100, warm_up=10) for step in range(101)]  # @stepover
    plot({"learning rate / peak": rates}, x_label="step", y_label="share of the peak")  # @hide
    assert rates.index(max(rates)) == 9
    assert math.isclose(rates[9], 1)  # @hide
    assert math.isclose(rates[100], 0.1)
    assert math.isclose(rates[55], (1 + 0.1) / 2)  # half-way between the warm-up and the end @hide
    text(
        "**Clipping.** If the norm (the length) of all gradients, taken as one vector, exceeds a limit, they are "
        "scaled down to it. One batch with a huge gradient would otherwise stay in Adam's averages for many steps."
    )
    ask(
        "`nn.utils.clip_grad_norm_(parameters, max_norm)` does it. Write the line between `loss.backward()` and "
        "`optimizer.step()` that limits the norm of all gradients of `model` to 1.",
        "`nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)`",
    )
    moved = {}
    for optimizer_class in (optim.SGD, optim.Adam):
        weight = nn.Parameter(torch.zeros(100))
        weight.grad = torch.full((100,), 0.25)  # of norm 2.5
        norm = nn.utils.clip_grad_norm_([weight], max_norm=1.0).item()  # before clipping @inspect norm
        optimizer_class([weight], lr=0.01).step()
        moved[optimizer_class.__name__] = weight.norm().item() / 0.01  # in learning rates @inspect moved
    assert math.isclose(norm, 2.5, rel_tol=1e-6)  # @hide
    assert abs(moved["SGD"] - 1) < 1e-5
    assert abs(moved["Adam"] - math.sqrt(100)) < 1e-4
    text("SGD's step shrinks with the gradients. Adam's first does not: it divides by the gradient's size.")


def learning_rate(step: int, steps: int, warm_up: int) -> float:
    """Warm-up, then half a cosine to a tenth: the share of the peak rate"""
    if step < warm_up:
        return (step + 1) / warm_up
    done = (step - warm_up) / (steps - warm_up)
    return 0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2


def results_that_must_differ() -> None:
    """Trap: arguments that the loop ignores"""
    text(
        "A `fit(num_layers, lr)` that ignores its arguments raises no error, and its plots look right. So assert that "
        "the result changes with each argument, and with nothing else:"
    )
    base = fit(num_layers=0, lr=0.01)[1]  # @stepover
    assert fit(num_layers=0, lr=0.02)[1] != base  # @stepover
    assert fit(num_layers=1, lr=0.01)[1] != base  # @stepover
    assert fit(num_layers=0, lr=0.01)[1] == base  # to the bit @stepover


def loss_that_broadcasts() -> None:
    """Trap: a loss that broadcasts"""
    text(
        "torch *broadcasts*: it aligns two shapes from the right, and repeats a dimension of 1, or a missing one. Here "
        "every prediction is right:"
    )
    x, y = linear_batch(256, 16)
    perfect = x @ torch.arange(16.0).unsqueeze(1)  # (B, 1) @inspect perfect.shape y.shape
    with warnings.catch_warnings(record=True) as caught:  # @hide
        warnings.simplefilter("always")  # @hide
        loss = nn.functional.mse_loss(perfect, y).item()  # @inspect loss
    assert "broadcasting" in str(caught[0].message)  # @hide
    assert (perfect - y).shape == (256, 256)
    assert nn.functional.mse_loss(perfect.squeeze(-1), y).item() < 1e-9
    assert abs(loss / (2 * y.var(correction=0).item()) - 1) < 1e-4  # @hide
    text(
        f"`mse_loss` compared each of 256 predictions with all 256 targets. The loss is {loss:.0f}, twice that of "
        f"always predicting 0. torch prints one warning. Assert `prediction.shape == y.shape` before the loss."
    )


def loop_as_a_graph() -> None:
    """What only a GPU shows: the loop as a CUDA graph"""
    if device() != "cuda":
        text(
            "No CUDA device is in use here; with one, this part records the toy's step as a CUDA graph, which queues "
            "all of its kernels with one call, and compares time and losses."
        )
        return
    eager_and_replayed()  # @hide


def eager_and_replayed() -> None:
    """The toy's step, queued with one call"""
    text(
        "The toy's step is launch-bound (section 5). A **CUDA graph** records the kernels of one step, with the "
        "addresses of their tensors. After that, one call queues all of them: no Python and no torch runs in between. "
        "So each batch must be copied to the same addresses, and nothing in the step may depend on a value that only "
        "the GPU knows."
    )
    ask(
        "A step has 40 kernels. Queueing takes 5 µs for each of them, doing it takes 2 µs. By how many times does a "
        "graph speed up the step at most, if its single call takes no time?",
        5 / 2,
        hint="Before, the GPU waits for the CPU. After, only the GPU's own time counts.",
        slips={40: "The kernels still have to run, one after another.", 7 / 2: "Queueing and doing overlap."},
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    batches = [[part.to(device()) for part in linear_batch(32, 16)] for _ in range(20)]
    eager_losses, eager = toy_losses(batches, graph=False)  # @inspect eager_losses @stepover
    graph_losses, replayed = toy_losses(batches, graph=True)  # @inspect graph_losses @stepover
    assert all(math.isclose(a, b, rel_tol=1e-3) for a, b in zip(eager_losses, graph_losses, strict=True))
    assert graph_losses[-1] < graph_losses[0]
    before, after = timed(eager), timed(replayed)  # @inspect before.seconds [s], after.seconds [s] @stepover
    found = f"The losses of {len(batches)} steps agree"
    ratios = times_as_long(before, after)  # @inspect ratios @stepover
    decide(
        ratios,
        than=1.3,
        above=f"{found}, and a step takes {statistics.median(ratios):.1f} times less time.",
        below=f"{found}, and a step takes about the same time here.",
        undecided=f"{found}. The samples do not agree on whether a step takes less time.",
    )


def toy_losses(batches: list[list[Tensor]], *, graph: bool) -> tuple[list[float], Callable[[], object]]:
    """Train the toy on these batches, each step eager or replayed; its losses, and one more step, to be timed"""
    torch.default_generator.manual_seed(1)
    model = DeepLinear(16, 1).to(device())
    optimizer = SGD(model.parameters(), lr=3e-3)
    x, y = (part.clone() for part in batches[0])
    loss = torch.zeros((), device=device())

    def step() -> None:
        optimizer.zero_grad()
        found = nn.functional.mse_loss(model(x), y)
        found.backward()
        optimizer.step()
        loss.copy_(found.detach())

    initial = [w.detach().clone() for w in model.parameters()]
    run = recorded(step, calls=1) if graph else step
    with torch.no_grad():
        for w, value in zip(model.parameters(), initial, strict=True):
            w.copy_(value)  # the graph's warm-up has trained it
    losses = []
    for new_x, new_y in batches:
        x.copy_(new_x)
        y.copy_(new_y)
        run()
        losses.append(loss.item())
    return losses, run


@dataclass
class LanguageRun:
    """Everything that a run of training carries from one step to the next."""

    model: LanguageModel
    optimizer: optim.Optimizer
    generator: torch.Generator  # of the data
    steps: int  # planned: the schedule depends on it
    step: int = 0


def new_language_run(steps: int, where: str, seed: int = 0) -> LanguageRun:
    """A run at its first step"""
    torch.manual_seed(seed)
    model = LanguageModel(Shape()).to(where)
    optimizer = optim.AdamW(groups_of(model), betas=(0.9, 0.95), fused=True)  # v follows faster than with 0.999
    return LanguageRun(model, optimizer, torch.Generator().manual_seed(seed), steps)


def train_step(run: LanguageRun, tokens: np.ndarray, batch: int = 8) -> Tensor:
    """One step of training; returns its loss"""
    for group in run.optimizer.param_groups:
        group["lr"] = 3e-3 * group["factor"] * learning_rate(run.step, run.steps, warm_up=10)
    where = run.model.head.weight.device
    inputs, targets = (part.to(where) for part in draw_batch(tokens, batch, run.model.shape.context, run.generator))
    run.optimizer.zero_grad()
    loss = loss_of(run.model, inputs, targets)
    loss.backward()
    nn.utils.clip_grad_norm_(run.model.parameters(), max_norm=1.0)
    run.optimizer.step()
    run.step += 1
    return loss.detach()


@torch.no_grad()
def bits_of_model(model: LanguageModel, tokens: np.ndarray) -> float:
    """Bits for each byte, of windows side by side"""
    context, where = model.shape.context, model.head.weight.device
    windows = (len(tokens) - 1) // context
    text_ids = torch.from_numpy(tokens[: windows * context + 1].astype(np.int64)).to(where)
    return loss_of(model, text_ids[:-1].view(windows, context), text_ids[1:]).item() / math.log(2)


@torch.no_grad()
def continued(model: LanguageModel, prompt: bytes, length: int) -> str:
    """Write on after a prompt, always the most likely byte"""
    written = list(prompt)
    for _ in range(length):
        seen = torch.tensor([written[-model.shape.context :]], device=model.head.weight.device)  # (1, at most S)
        written.append(int(model(seen)[0, -1].argmax()))
    return bytes(written).decode(errors="replace")


@torch.no_grad()
def numbers_right(model: LanguageModel) -> int:
    """How many of the 90 held-out numbers the model writes without an error after the text before them"""
    numbers = [n for n in range(100, 1000) if is_held_out(n)]
    texts = [", ".join(map(in_words, range(n - 3, n + 1))) + "," for n in numbers]
    windows = torch.tensor([list(text.encode())[-model.shape.context - 1 :] for text in texts])  # (90, S + 1)
    windows = windows.to(model.head.weight.device)
    as_likeliest = model(windows[:, :-1]).argmax(dim=-1) == windows[:, 1:]  # (90, S)
    written = zip(numbers, as_likeliest, strict=True)
    return sum(bool(bytes_right[-len(in_words(n)) - 1 :].all()) for n, bytes_right in written)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run a function on one thread: every sum is taken in one order, so that its results are the same each time"""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def the_language_model_learns() -> None:
    """The language model learns to count"""
    text(
        "Now the language model: the text of section 9, AdamW, a learning rate that rises and falls, 250 steps of 8 "
        "windows of 64 bytes. The test: after the text before it, does the model write the next number without an "
        "error? It is asked for the 90 numbers that it has never seen."
    )
    train, held_out = lecture_tokens()  # @stepover
    run = new_language_run(steps=250, where=device())  # @stepover
    what_it_learns(run, train, held_out)
    second_step_checked(train)  # @stepover @hide
    tokens_a_second(run, train)


@one_thread()
def what_it_learns(run: LanguageRun, train: np.ndarray, held_out: np.ndarray) -> None:
    """What it learns"""
    prompt = b"two hundred fifty-eight, two hundred fifty-nine, "
    rows = [(0, bits_of_model(run.model, held_out), numbers_right(run.model))]  # @stepover @hide
    untrained = continued(run.model, prompt, 40)  # @stepover @hide
    for _ in range(2):  # @hide
        losses = [train_step(run, train) for _ in range(run.steps // 2)]  # @stepover
        rows.append((run.step, bits_of_model(run.model, held_out), numbers_right(run.model)))  # @stepover @hide
    table(rows, ["step", "bits per byte, held out", "right, of 90"])  # @hide
    _, bits, right = zip(*rows, strict=True)  # @hide
    assert abs(bits[0] - math.log2(256)) < 0.2  # knows nothing @hide
    assert right[0] == 0 and right[-1] >= 30  # has learnt a rule
    assert bits[-1] < 0.6 and losses[-1].item() / math.log(2) < bits[-1] + 0.2  # @hide
    apart = [bits_of_model(run.model, held_out[i : i + 65]) for i in (0, 64)]  # two windows, one by one @hide
    assert math.isclose(sum(apart) / 2, bits_of_model(run.model, held_out[:129]), rel_tol=1e-4)  # @hide
    trained = continued(run.model, prompt, 160)  # @stepover @hide
    assert sum(c.isascii() for c in trained) / len(trained) > 0.9  # @hide
    scores = run.model(torch.tensor([list(b"two hundred")], device=device()))[0, -1]  # @hide
    assert continued(run.model, b"two hundred", 1).encode()[-1] == scores.argmax()  # the likeliest byte @hide
    text(
        f"At first each byte costs $\\log_2 256 = 8$ bits. After {run.step} steps, which read the training text "
        f"{run.step * 8 * 64 / len(train):.1f} times, the model writes {right[-1]} of the 90 new numbers without an "
        f"error. The untrained model and the trained one continue the same two numbers:"
    )
    text(f"```text\n{readable(untrained)}\n```")
    print(readable(trained))


def readable(written: str) -> str:
    """Replace what can't be printed by a dot"""
    return "".join(c if c.isascii() and c.isprintable() else "·" for c in written.replace("`", "'"))


def second_step_checked(train: np.ndarray) -> None:
    """The second step: `.grad` is the gradient of its batch alone, of norm 1, and the rate is a fifth of the peak"""
    run = new_language_run(steps=80, where="cpu")  # @stepover
    train_step(run, train)  # @stepover
    state = run.generator.get_state()
    inputs, targets = draw_batch(train, 8, 64, run.generator)  # what the second step will draw @stepover
    weights = list(run.model.parameters())
    gradients = torch.autograd.grad(loss_of(run.model, inputs, targets), weights)  # @stepover
    run.generator.set_state(state)
    train_step(run, train)  # @stepover
    norm = torch.cat([g.flatten() for g in gradients]).norm().item()  # before clipping
    assert norm > 1
    assert all(torch.allclose(w.grad, g / norm, atol=1e-6) for w, g in zip(weights, gradients, strict=True))
    rates = [group["lr"] for group in run.optimizer.param_groups]  # embedding and head: 12 times
    assert np.allclose(rates, [0.003 * 2 / 10, 12 * 0.003 * 2 / 10, 0.003 * 2 / 10])


def saved_by_part(model: LanguageModel, inputs: Tensor, targets: Tensor) -> dict[str, int]:
    """Bytes that a forward pass leaves for the backward pass: activations and logits"""
    saved = saved_by_autograd(lambda: loss_of(model, inputs, targets), model.parameters())
    logits = sum(t.nbytes for t in saved if t.shape == (targets.numel(), model.shape.vocabulary))
    return {"activations": sum(t.nbytes for t in saved) - logits, "logits": logits}


def measured_by_part(
    model: LanguageModel, optimizer: optim.Optimizer, inputs: Tensor, targets: Tensor
) -> dict[str, int]:
    """Bytes of a step in fp32, by part: what is held, and what a forward pass leaves for the backward pass"""
    return held_for_training(model, optimizer) | saved_by_part(model, inputs, targets)


def tokens_a_second(run: LanguageRun, train: np.ndarray) -> None:
    """Tokens each second, and its MFU"""
    text(
        "A model of 8 billion parameters, on H100s, at an MFU of 0.4: $0.4 \\cdot 989.5 \\cdot 10^{12} / (6 \\cdot 8 "
        "\\cdot 10^9)$ = 8,246 tokens per second and GPU. Here:"
    )
    step = measure(lambda: train_step(run, train), repeats=5, max_seconds=0.3)  # @stepover
    rate = 8 * run.model.shape.context / step.seconds  # @inspect rate [tokens/s]
    flops = sum(flops_by_part(run.model.shape, 8).values())  # @inspect flops [FLOP] @stepover
    peak = peak_flops("float32")  # @inspect peak [FLOP/s]
    mfu = None if peak is None else flops / step.seconds / peak  # @hide
    small = "Its products are small, so starting them takes most of the time."  # @hide
    text(
        f"This model trains on {rate:,.0f} tokens a second here"
        + ("; no peak is known for this machine. " if mfu is None else f", an MFU of {mfu:.2f}. ")
        + (small if mfu is not None and mfu < 0.3 else "")
    )


# ---------------------------------------------------------------------------------------------------------
# 12 Mixed precision


AUTOCAST_ON_CUDA = {  # result of each operation under autocast to bf16, by the documentation of torch.amp
    "x @ x": "bfloat16",
    "relu(h)": "bfloat16",
    "h + x": "float32",
    "exp(h)": "float32",
    "sum(h)": "float32",
    "softmax(h)": "float32",
    "layer_norm(h)": "float32",
    "cross_entropy(h, labels)": "float32",
}

FP4_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of E2M1


def mixed_precision() -> None:
    """Mixed precision"""
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    text(
        f"**Which numbers may have 16, 8 or 4 bits?** Half the bits mean half the bytes and twice the peak. "
        f"[Mixed precision]({REFERENCES['mixed precision']['url']}) multiplies in few bits, sums in fp32, and keeps "
        f"weights and optimizer states in fp32. The key figure: with it, AdamW takes 16 bytes per parameter, as before."
    )
    note(
        "Five minutes. Start with the hundred updates that are lost and take bets. Read autocast's table row by row. "
        "Then one outlier and four bits: the block scale is the idea of this decade's formats."
    )
    updates_that_vanish()
    which_operator_runs_in_which_dtype()
    gradients_that_vanish()
    eight_bits_and_fewer()
    rounding_at_random()  # @deeper
    dynamic_loss_scaling()  # @deeper
    copies_of_autocast()  # @deeper
    three_steps_side_by_side()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. Matmuls in bf16; weights, states and updates in fp32: 16 bytes per parameter with AdamW.\n"
        "2. bf16 needs no loss scale; fp16 does.\n"
        "3. fp8 and fp4 need a scale per block: 8.25 or 4.5 bits a number. Section 13 adds up a step's bytes."
    )


def largest_lost_updates() -> tuple[float, float]:
    """The largest powers of two that are lost when added to 1 in bf16, and when taken away from it"""
    one = torch.tensor(1.0, dtype=torch.bfloat16)
    added = max(2.0**-k for k in range(20) if one + 2.0**-k == 1)
    taken = max(2.0**-k for k in range(20) if one - 2.0**-k == 1)
    return added, taken


def updates_that_vanish() -> None:
    """Updates that vanish"""
    ask(
        "A bf16 weight of 1 receives a hundred updates of +0.001, one after the other. What is it then?",
        (torch.ones((), dtype=torch.bfloat16) + 1e-3).item(),  # and the next hundred times the same
        within=0,
        hint="The numbers next to 1 in bf16 are 1.0078 and 0.9961.",
        slips={1.1: "Each update is rounded before the next one comes."},
    )
    master = torch.ones(1)  # fp32
    bf16 = master.bfloat16()
    for _ in range(100):
        bf16 += 1e-3
        master += 1e-3
    assert bf16 == 1 and math.isclose(master, 1.1, rel_tol=1e-5)  # @inspect bf16 master
    half_a_step = torch.finfo(torch.bfloat16).eps / 2  # @hide
    one = torch.tensor(1.0, dtype=torch.bfloat16)  # @hide
    assert one + 0.99 * half_a_step == 1 < one + 1.01 * half_a_step  # @hide
    assert one - 0.49 * half_a_step == 1 > one - 0.51 * half_a_step  # @hide
    up, down = largest_lost_updates()  # @stepover @hide
    assert (round(up, 4), round(down, 5)) == (0.0039, 0.00195)  # @hide
    text(
        "Beside a weight of 1, bf16 loses every update that adds up to 0.0039, or subtracts up to 0.0019. So an fp32 "
        "copy takes the updates. With *autocast* the parameter itself is that copy; other programs, such as "
        "Megatron, keep bf16 parameters and a separate fp32 **master**. Both hold 16 bytes per parameter:"
    )
    rows = [("autocast", 4, 4, "–", 8, 16), ("bf16 parameters, fp32 master", 2, 2, 4, 8, 16)]  # @hide
    assert all(sum(size for size in row[1:-1] if size != "–") == row[-1] for row in rows)  # @hide
    table(rows, ["bytes", "parameter", "gradient", "master", "AdamW's state", "sum"])  # @hide


def rounding_at_random() -> None:
    """Rounding at random"""
    text(
        "**Stochastic rounding** keeps small updates without a master: round up or down at random, right on average. A "
        "thousand bf16 weights of 1 with a hundred updates of 0.001 each:"
    )
    weights = torch.ones(1000)
    for _ in range(100):
        weights = rounded_at_random(weights + 1e-3)  # @stepover
    assert torch.equal(weights, weights.bfloat16().float())  # they are bf16 numbers @hide
    mean, spread = weights.mean().item(), weights.std().item()  # @inspect mean spread
    assert abs(mean - 1.1) < 0.005
    assert 0.02 < spread < 0.05  # @hide
    text("The mean is right; the standard deviation is the noise that replaces the master's 4 bytes.")


def rounded_at_random(x: Tensor) -> Tensor:
    """fp32 to the bf16 number above or below: add random bits below the last digit kept, and cut"""
    noise = torch.randint(0, 2**16, x.shape, dtype=torch.int32)
    return ((x.view(torch.int32) + noise) & -(2**16)).view(torch.float32)


def gradients_that_vanish() -> None:
    """Loss scaling, for fp16 only"""
    weight = torch.ones(4, dtype=torch.float16, requires_grad=True)  # @hide
    (weight * 1e-8).sum().backward()  # @hide
    assert weight.grad.tolist() == [0, 0, 0, 0]  # @hide
    ((weight * 1e-8).sum() * 1024).backward()  # @hide
    assert 0 < (weight.grad.float() / 1024 / 1e-8 - 1).abs().max() < 0.01  # @hide
    weight = weight.bfloat16().detach().requires_grad_()  # @hide
    (weight * 1e-8).sum().backward()  # @hide
    assert 0 < (weight.grad.float() / 1e-8 - 1).abs().max() < 2**-8  # @hide
    text(
        "A gradient of 1e-8 becomes 0 in fp16. **Loss scaling** multiplies the loss, and so every gradient, by 1024 "
        "(say) and divides at the end in fp32. `torch.amp.GradScaler` finds the factor. bf16 has fp32's range and "
        "needs no scaling, which is why training moved to it."
    )


def dynamic_loss_scaling() -> None:
    """GradScaler in action"""
    text(
        "For fp16: **scale** the loss, **backward**, **step** (skipped if a gradient is infinite or NaN), **update** "
        "(halve the scale after a skipped step, double it after `growth_interval` good ones; 2000 by default). Before "
        "clipping gradients call `scaler.unscale_(optimizer)`. (`torch.cuda.amp.GradScaler` is deprecated.)"
    )
    weight = nn.Parameter(torch.tensor([100.0]))
    optimizer = optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", growth_interval=3)
    scales = [scaler.get_scale()]
    for _ in range(16):
        loss = weight.half() * 8  # its gradient is 8, and passes through fp16
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    skipped = sum(after < before for before, after in pairwise(scales))  # @inspect skipped
    taken = (100 - weight.item()) / 8  # each step with a learning rate of 1 moves it by 8 @hide
    assert torch.amp.GradScaler("cpu").get_growth_interval() == 2000  # @hide
    assert (skipped, taken) == (7, 9)  # @hide
    assert (scales[0], min(scales)) == (2.0**16, 2.0**12)  # @hide
    assert 8 * min(scales) <= torch.finfo(torch.float16).max < 8 * 2 * min(scales)  # @hide


def dtypes_under_autocast(where: str) -> dict[str, str]:
    """The dtype of each operation's result under autocast; x is fp32, h is bf16"""
    x, h = torch.rand(4, 4, device=where), torch.rand(4, 4, device=where).bfloat16()
    labels = torch.zeros(4, dtype=torch.int64, device=where)
    with torch.autocast(where, dtype=torch.bfloat16):
        results = {
            "x @ x": x @ x,
            "relu(h)": h.relu(),
            "h + x": h + x,
            "exp(h)": h.exp(),
            "sum(h)": h.sum(),
            "softmax(h)": h.softmax(dim=0),
            "layer_norm(h)": nn.functional.layer_norm(h, (4,)),
            "cross_entropy(h, labels)": nn.functional.cross_entropy(h, labels),
        }
    return {name: str(result.dtype).removeprefix("torch.") for name, result in results.items()}


def which_operator_runs_in_which_dtype() -> None:
    """Autocast: which operation in which dtype"""
    text(
        "`with torch.autocast(device, dtype=torch.bfloat16):` around the forward pass chooses a format for each "
        "operation. Matmuls are cast to bf16. Operations that lose too much are cast to fp32. All others keep their "
        "input format; with two formats, the wider one. Here `x` is fp32 and `h` bf16:"
    )
    found = {where: dtypes_under_autocast(where) for where in sorted({"cpu", device()})}  # @hide @stepover
    cuda = found.get("cuda", AUTOCAST_ON_CUDA)  # @hide
    columns = [
        "operation",
        "CUDA, measured" if "cuda" in found else "CUDA, from the documentation",
        "CPU, measured",
    ]  # @hide
    table([(name, cuda[name], found["cpu"][name]) for name in cuda], columns)  # @hide
    for dtypes in (*found.values(), AUTOCAST_ON_CUDA):  # @hide
        assert dtypes["x @ x"] == dtypes["relu(h)"] == "bfloat16"  # @hide
        assert dtypes["h + x"] == dtypes["cross_entropy(h, labels)"] == "float32"  # @hide
    assert cuda == AUTOCAST_ON_CUDA  # @hide
    differing = [name for name in cuda if cuda[name] != found["cpu"][name]]  # @hide
    text(
        f"A GPU's list of fp32 operations ([documentation]({REFERENCES['amp']['url']})) is longer than a CPU's: "
        f"{len(differing)} of these {len(cuda)} differ."
    )


def training_step(model: nn.Module, optimizer: optim.Optimizer, x: Tensor, *, autocast: torch.dtype | None) -> None:
    """Forward, backward, optimizer"""
    with torch.autocast(x.device.type, dtype=autocast or torch.bfloat16, enabled=autocast is not None):
        y = model(x)
    optimizer.zero_grad()
    y.float().square().mean().backward()
    optimizer.step()


def step_in(name: str, autocast: torch.dtype | None, *what: Any) -> None:
    """A training step in one of the formats"""
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    training_step(*what, autocast=autocast)


def three_steps_side_by_side() -> None:
    """A step in fp32, in tf32, in 16 bits"""
    width, batch = sizes().step_width, sizes().step_batch  # @hide @stepover
    model = nn.Sequential(*(nn.Linear(width, width, device=device()) for _ in range(2)))  # @hide @stepover
    optimizer = optim.AdamW(model.parameters())  # @hide
    x = torch.randn(batch, width, device=device())  # (B, D) @hide
    # Where a GPU has no bf16, in fp16: without loss scaling it learns worse, but no faster.
    half = torch.float16 if device() == "cuda" and fast_format() == "float16" else torch.bfloat16  # @hide
    in_half = "fp16 autocast" if half is torch.float16 else "bf16 autocast"  # @hide
    formats: dict[str, torch.dtype | None] = {"fp32": None, in_half: half}  # @hide
    if device() == "cuda" and accelerator("cuda").has_tf32():  # @hide
        formats["tf32"] = None  # @hide
    steps = {name: partial(step_in, name, autocast, model, optimizer, x) for name, autocast in formats.items()}  # @hide
    by_operator = {name: count(step).flops_by_operator for name, step in steps.items()}  # @hide @stepover
    matmul_flops = {
        name: sum(n for op, n in flops.items() if "mm" in op) for name, flops in by_operator.items()
    }  # @hide
    took = measure(*steps.values(), repeats=5, min_seconds=0.1, max_seconds=1)  # @hide @stepover
    torch.set_float32_matmul_precision("highest")  # @hide
    forward = 2 * 2 * batch * width**2  # @hide
    assert set(matmul_flops.values()) == {3 * forward - forward // 2}  # without the gradient of x @hide
    peaks = {"fp32": H100_FP32, "tf32": 494.7e12, in_half: H100_BF16}  # @hide
    rows = [
        (name, one.seconds, matmul_flops[name] / one.seconds, matmul_flops[name] / peaks[name])
        for name, one in zip(steps, took, strict=True)
    ]  # @hide
    columns = ["step", "measured here, s", "FLOP/s", "H100's matmuls, at best, s"]  # @hide
    table(rows, columns, title=f"{batch} × {width}, two layers")  # @hide
    ratios = times_as_long(took[0], took[1])  # @hide @stepover
    decide(
        ratios,
        than=(0.9, 1.1),
        above=f"A step under autocast is {statistics.median(ratios):.1f} times as fast as in fp32 here.",
        below=f"A step under autocast is slower here: {statistics.median(ratios):.2f} of fp32's speed.",
        equal="A step under autocast takes about as long as in fp32 here.",
        undecided="The samples do not agree on whether a step under autocast takes less time here.",
    )
    speed_of_fp8()  # @stepover @hide


def to_fp8(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A tensor in fp8, and the scale that brings it back: its largest element becomes the format's largest"""
    scale = x.abs().max() / torch.finfo(dtype).max
    return (x / scale).to(dtype), scale


def in_fp8(x: Tensor) -> Tensor:
    """Round to E4M3, whose largest number is 448"""
    return x.to(torch.float8_e4m3fn).float()


def in_fp4(x: Tensor) -> Tensor:
    """Round to E2M1, whose largest number is 6"""
    grid = torch.tensor(FP4_MAGNITUDES)
    return grid[torch.bucketize(x.abs(), (grid[1:] + grid[:-1]) / 2)] * x.sign()


def power_of_two(scales: Tensor) -> Tensor:
    """The 8-bit scales of the MX formats, rounded up so that no number overflows"""
    return 2 ** scales.log2().ceil()


def e4m3_scale(scales: Tensor) -> Tensor:
    """The 8-bit scales of NVFP4, with one fp32 scale for the tensor"""
    tensor_scale = scales.max() / 448
    return in_fp8(scales / tensor_scale) * tensor_scale


def scaled_in_blocks(
    x: Tensor, block: int, largest: float, to_format: Callable[[Tensor], Tensor], to_scale: Callable[[Tensor], Tensor]
) -> Tensor:
    """Round x to a format with one scale per block"""
    blocks = x.view(-1, block)
    scales = to_scale(blocks.abs().amax(dim=1, keepdim=True) / largest)  # the block's largest number fits
    return (to_format(blocks / scales) * scales).view(x.shape)


def eight_bits_and_fewer() -> None:
    """Eight bits and four: a scale for each block"""
    text(
        "Numbers of 8 or 4 bits need a **scale** that brings them into the format's range. One outlier sets the scale "
        "of everything that shares it, so Blackwell's tensor cores take one scale per *block*: 32 numbers (MXFP8, "
        "MXFP4) or 16 (NVFP4), 8 bits each."
    )
    ask(
        "NVFP4 has 4 bits a number and an 8-bit scale per 16 numbers. How many bits is that per number?",
        4 + 8 / 16,
        unit="bits",
        within=0,
        slips={4.25: "That is MXFP4, with blocks of 32.", 12: "16 numbers share the scale."},
    )
    x = torch.randn(2**16)
    x[0] = 100  # one outlier
    ways = {
        "fp8, one scale": (2**16, 448, in_fp8, power_of_two),
        "MXFP8": (32, 448, in_fp8, power_of_two),
        "fp4, one scale": (2**16, 6, in_fp4, power_of_two),
        "MXFP4": (32, 6, in_fp4, power_of_two),
        "NVFP4": (16, 6, in_fp4, e4m3_scale),
    }  # block, largest number, format, format of the scale
    errors = {name: relative_error(scaled_in_blocks(x, *way)[32:], x[32:]) for name, way in ways.items()}  # @stepover
    assert round(errors["fp4, one scale"], 3) == 1 > 5 * errors["NVFP4"]
    assert errors["MXFP8"] < 0.03 and errors["NVFP4"] < errors["MXFP4"]  # @hide
    bits = {
        name: (4 if way[1] == 6 else 8) + (8 / way[0] if way[0] < 2**16 else 0) for name, way in ways.items()
    }  # @hide
    assert [bits[name] for name in ("MXFP8", "MXFP4", "NVFP4")] == [8.25, 4.25, 4.5]  # @hide
    rows = [(name, bits[name], f"{100 * error:.1f}%") for name, error in errors.items()]  # @hide
    table(rows, ["format", "bits a number", "error of the others, with one outlier of 100"])  # @hide
    gradients = 10 ** (-6 + 5 / 3 * torch.randn(2**14))  # over ten powers of ten @hide
    formats = (torch.float8_e4m3fn, torch.float8_e5m2)  # @hide
    lost = [(to_fp8(gradients, dtype)[0].float() == 0).float().mean().item() for dtype in formats]  # @hide @stepover
    in_blocks = (scaled_in_blocks(gradients, *ways["MXFP8"]) == 0).float().mean().item()  # @hide @stepover
    assert in_blocks < lost[0] / 2 and lost[1] < lost[0] / 2  # @hide
    text(
        f"fp8's exponent absorbs this outlier; in fp4 with one scale all other numbers become 0. Of gradients "
        f"whose logarithms are normally distributed, over ten powers of ten, fp8 (E4M3) with one scale turns "
        f"{lost[0]:.0%} into 0, MXFP8 {in_blocks:.0%}.\n\n"
        f"Only most matmuls of linear layers use these formats. Attention, norms, embedding and head stay in bf16 or "
        f"fp32, master weights in fp32. Hopper's fp8 tensor cores keep only about 14 bits of a sum, so [DeepSeek-V3]"
        f"({REFERENCES['deepseek-v3']['url']}) (section 3.3.2) moves it to fp32 every 128 products. [Nemotron 3 Super]"
        f"({REFERENCES['nemotron 3 super']['url']}) (120B, 12B active) was pre-trained in NVFP4 on 25T tokens."
    )
    more_about_fp8()  # @deeper


def more_about_fp8() -> None:
    """Recipes and sources"""
    text(
        f"- With one scale per tensor, [fp8 training]({REFERENCES['fp8']['url']}) uses **E4M3** (one more digit) for "
        f"weights and activations and **E5M2** (more range) for gradients. With block scales E4M3 serves for both.\n"
        f"- NVIDIA's [Transformer Engine]({REFERENCES['transformer engine']['url']}) supplies layers and recipes; "
        f"[FP8-LM]({REFERENCES['fp8-lm']['url']}) also kept gradients and one of Adam's states in 8 bits.\n"
        f"- [NVFP4 training]({REFERENCES['nvfp4 training']['url']}) rounds gradients stochastically and spreads "
        f"outliers with a rotation.\n"
        f"- **Inference** adopts a format first: weights are cast once, and decoding waits for bytes (section 6).\n"
        f"- In torch the product is `torch.nn.functional.scaled_mm`."
    )
    assert hasattr(nn.functional, "scaled_mm") or hasattr(torch, "_scaled_mm")  # @hide


def speed_of_fp8() -> float | None:
    """Multiplying fp8 on this machine"""
    if device() != "cuda":
        return None
    capability = torch.cuda.get_device_capability()  # @inspect capability
    if capability < (8, 9):
        text(f"fp8: not run, this GPU's compute capability is {capability}, and its tensor cores begin at (8, 9).")
        return None
    width = sizes().step_width  # @stepover
    x, w = torch.randn(2, width, width, device="cuda")
    (x8, x_scale), (w8, w_scale) = to_fp8(x, torch.float8_e4m3fn), to_fp8(w, torch.float8_e4m3fn)  # @stepover
    scaled_mm = partial(torch._scaled_mm, scale_a=x_scale, scale_b=w_scale, out_dtype=torch.bfloat16)
    try:
        product = scaled_mm(x8, w8.t())  # the right matrix has to be stored by columns
    except (RuntimeError, ValueError, TypeError) as error:  # which of them, is the kernel's choice
        text(f"fp8: not run. torch {torch.__version__} says: {str(error).partition(chr(10))[0]}")
        return None
    expected = (x8.float() @ w8.float().t()) * (x_scale * w_scale)
    off = relative_error(product, expected)  # @inspect off @stepover
    assert off < 2**-5  # a result in bf16, and sums of about 14 bits
    x16, w16 = x.bfloat16(), w.bfloat16()
    fp8, bf16 = (took.seconds for took in measure(lambda: scaled_mm(x8, w8.t()), lambda: x16 @ w16.t(), repeats=10))
    rows = [(n, s, 2 * width**3 / s) for n, s in (("bf16", bf16), ("fp8", fp8))]  # @hide
    table(rows, ["product", "s", "FLOP/s"], title=f"{width} × {width} by {width} × {width}")  # @hide
    text(f"fp8 is {bf16 / fp8:.2f} times as fast as bf16 here. The datasheet promises twice.")
    return bf16 / fp8


def copies_of_autocast() -> None:
    """What autocast adds to parameters"""
    text(
        "Autocast makes bf16 copies of the weights in the forward pass; backward frees them layer by layer while the "
        "gradients appear. The peak of 16 layers, in bytes per parameter, without and with gradients from before:"
    )
    layers = nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(16)))
    x, losses = torch.randn(2, 256), []
    optimizer = optim.AdamW(layers.parameters())  # @hide

    def forward() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            losses.append(layers(x).float().square().mean())

    def backward() -> None:
        losses.pop().backward()

    peaks = []  # @hide
    for gradients_from_before in (False, True):  # @hide
        forward()  # @hide
        backward()  # @hide
        optimizer.step()  # @hide
        if not gradients_from_before:  # @hide
            optimizer.zero_grad()  # @hide
        weights = list(layers.parameters())  # @hide
        states = [s for w in weights for s in optimizer.state[w].values()]  # @hide
        gradients = [w.grad for w in weights if w.grad is not None]  # @hide
        readings = bytes_alive([*weights, *states, *gradients], forward, backward)  # @hide @stepover
        peaks.append(max(map(max, readings)) / sum(w.numel() for w in weights))  # @hide
    assert all(w.dtype == w.grad.dtype == torch.float32 for w in weights)  # @hide
    assert 16.1 < peaks[0] < 16.2  # @hide
    assert 18 < peaks[1] < 18.2  # @hide
    text(
        f"{peaks[0]:.2f} and {peaks[1]:.2f}. Autocast saves activations (not half of them, because the residual stream "
        f"stays fp32), but no parameter memory."
    )


# ---------------------------------------------------------------------------------------------------------
# 13 The memory of a training step


def memory_of_a_training_step() -> None:
    """The memory of a training step"""
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    text(
        "How many bytes does a training step hold, and when? Parameters, gradients and optimizer "
        "states are so many bytes per parameter (sections 1 and 10). **Activations**, the results of the forward pass "
        "that the backward pass needs, grow with the batch:\n\n$$ \\text{memory} = \\text{parameters} + "
        "\\text{gradients} + \\text{optimizer states} + \\text{activations}. $$"
    )
    note(
        "Five minutes. Let the audience count the saved tensors of the tiny model by hand before the table answers. "
        "Leave the figure of two steps on the screen."
    )
    saved_by_the_tiny_model()
    what_each_layer_saves()  # @deeper
    memory_of_the_language_model()
    activations_of_a_transformer()
    timeline_of_two_steps()
    logits_of_a_language_model()  # @deeper
    memory_in_pieces()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. A layer keeps about 34 to 41 bytes per token and unit of width in bf16, if its scores are not kept.\n"
        "2. Without sharding, activations outweigh the rest from about $5.6 D$ tokens per GPU on.\n"
        "3. The peak comes in the second backward pass. Section 14 makes it smaller."
    )


def saved_by_the_tiny_model() -> None:
    """What autograd saves"""
    text(
        "Section 8's deep linear model with $B = 2$ rows, width $D = 4$ and $L = 2$ layers has 36 parameters, 36 "
        "gradients and, with AdaGrad (one state per parameter), 36 states. A first estimate of the activations is one "
        "number per row, layer and column, $BDL = 16$: 496 bytes in all, in fp32."
    )
    batch, width, layers = 2, 4, 2
    model = DeepLinear(width, layers)  # @stepover
    x, y = torch.randn(batch, width), torch.randn(batch)  # (B, D), (B,)
    saved = saved_by_autograd(lambda: nn.functional.mse_loss(model(x), y), model.parameters())  # @stepover @hide
    ask(
        "How many numbers does autograd *really* save in the forward pass of this model and its `mse_loss`, not "
        "counting parameters?",
        sum(tensor.numel() for tensor in saved),
        within=0,
        hint="The gradient of `x @ w` with respect to `w` is `x.T @ upstream`: a layer saves its *input*. The loss?",
        slips={
            16: "The outputs of the two layers. The first layer also saves its input, and the loss saves numbers.",
            24: "The inputs of all three layers. The loss also needs the predictions and the targets.",
        },
    )
    text("Autograd passes each tensor that it saves to a *hook*, a function that we set:")
    saved = saved_by_autograd(lambda: nn.functional.mse_loss(model(x), y), model.parameters())
    sizes_saved = [tensor.numel() for tensor in saved]  # @inspect sizes_saved
    assert sizes_saved == [8, 8, 8, 2, 2] and sum(sizes_saved) == 28
    optimizer = AdaGrad(model.parameters())  # @stepover @hide
    nn.functional.mse_loss(model(x), y).backward()  # @stepover @hide
    optimizer.step()  # @stepover @hide
    states = [s for held in optimizer.state.values() for s in held.values()]  # @hide
    held = [
        sum(t.numel() for t in part) for part in (model.parameters(), [w.grad for w in model.parameters()], states)
    ]  # @hide
    assert held == [36, 36, 36] and 4 * (sum(held) + batch * width * layers) == 496  # @hide
    step, napkin = training_flops(model, x), 6 * batch * held[0]  # @stepover @hide
    assert (napkin, step) == (432, 368) and napkin - step == 2 * batch * width * width == 64  # section 7 @hide
    text(
        "The inputs of three layers (8 each), the predictions and the targets (2 each). Under `torch.no_grad()` a "
        "forward pass saves nothing."
    )


def saved_by_autograd(forward: Callable[[], object], held: Iterable[Tensor] = ()) -> list[Tensor]:
    """What a forward pass saves for the backward pass: a tensor for each storage, without those held anyway"""
    saved: dict[int, Tensor] = {}  # by storage

    def pack(tensor: Tensor) -> Tensor:
        saved.setdefault(id(tensor.untyped_storage()), tensor.detach())
        return tensor.detach()  # an alias without a graph: the tensor itself could refer to its graph, a cycle

    with saved_tensors_hooks(pack, lambda tensor: tensor):  # called when a tensor is saved, and when it is used
        forward()
    for tensor in held:
        saved.pop(id(tensor.untyped_storage()), None)
    return list(saved.values())


def what_each_layer_saves() -> None:
    """What each kind of layer saves"""
    text(
        "The derivative of a ReLU can be computed from its *output*; so can that of a sigmoid, $y(1 - y)$, or of a "
        "softmax. GELU and SiLU fall before they rise, so two inputs share one output: autograd saves their *input*."
    )
    layers = {"linear": Linear(64, 64), "ReLU": nn.ReLU(), "sigmoid": nn.Sigmoid()}  # @stepover
    layers |= {"softmax": nn.Softmax(dim=-1), "GELU": nn.GELU(), "SiLU": nn.SiLU()}
    found = {name: saved_by_layer(layer) for name, layer in layers.items()}  # @inspect found @stepover
    assert [name for name, saved in found.items() if saved == "input"] == ["linear", "GELU", "SiLU"]
    assert [name for name, saved in found.items() if saved == "output"] == ["ReLU", "sigmoid", "softmax"]  # @hide
    text("The output of a ReLU is the next layer's input, which is saved anyway: GELU costs one tensor more per layer.")
    x = torch.randn(32, 64)
    relus = nn.Sequential(*[Block(64) for _ in range(8)])  # @stepover
    gelus = gelu_blocks(64, 8)  # @stepover
    of_relus = saved_by_autograd(lambda: relus(x), [x, *relus.parameters()])  # @stepover
    of_gelus = saved_by_autograd(lambda: run_blocks(gelus, x), [x, *gelus.parameters()])  # @stepover
    assert (len(of_relus), len(of_gelus)) == (8, 15)


def saved_by_layer(layer: nn.Module) -> str:
    """Which of a layer's input and output autograd saves"""
    x = torch.randn(32, 64, requires_grad=True)
    results: list[Tensor] = []
    saved = saved_by_autograd(lambda: results.append(layer(x)), layer.parameters())
    names = [name for name, t in (("input", x), ("output", results[0])) if any(shares_storage(t, s) for s in saved)]
    return " and ".join(names) or "nothing"


def let_autograd_finish() -> None:
    """Wait for the thread that runs backward passes on a GPU: it may hold gradients after `backward` has returned"""
    if device() != "cuda":
        return
    with torch.enable_grad():  # it does one thing after the other: once it has done this, all before is freed
        torch.zeros(1, device="cuda", requires_grad=True).sum().backward()
    allocated_bytes = -1
    while allocated_bytes != torch.cuda.memory_allocated():  # and until what that needed is freed as well
        allocated_bytes = torch.cuda.memory_allocated()
        time.sleep(0.01)


def freed_after_a_product() -> int:
    """The bytes of the workspace that a matmul on a GPU allocates and frees again; 0 where the process keeps it"""
    one, product = torch.ones(2, 1, 1, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    torch.mm(one, one, out=product)
    return torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()


def added_at_peak(f: Callable[[], object], held: Iterable[Tensor]) -> int:
    """The most bytes that a call of `f` adds to what is held, by torch's allocator on a GPU, else by following them"""
    if device() != "cuda":
        return count(f).peak_bytes - sum(tensor.nbytes for tensor in held)
    f()  # a workspace that the process keeps is allocated in the first call
    let_autograd_finish()
    workspace_bytes = freed_after_a_product()  # of the matmul at the peak, and no activation
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    f()
    return torch.cuda.max_memory_allocated() - before - workspace_bytes


def kept_for_backward(model: LanguageModel, inputs: Tensor, targets: Tensor) -> int:
    """Bytes that a forward pass keeps for the backward pass, parameters not among them"""
    saved = saved_by_autograd(lambda: loss_of(model, inputs, targets), model.parameters())
    return sum(tensor.nbytes for tensor in saved)


def memory_of_the_language_model() -> None:
    """The language model's memory"""
    text(
        "A layer of section 8's language model saves **19 numbers for each token and unit of width**: inputs (2) and "
        "outputs (2) of its norms; queries (1), shared keys and values (½ each), their mixture (1); and four tensors "
        "of width $F = 3D$ in SwiGLU (12). Predicted and measured:"
    )
    shape, batch = Shape(), 8
    predicted = bytes_by_part(shape, batch)  # @inspect predicted [B] @stepover
    model = LanguageModel(shape)  # @stepover
    train, _ = lecture_tokens()  # @stepover @hide
    inputs, targets = draw_batch(train, batch, shape.context, torch.Generator().manual_seed(0))  # @stepover @hide
    loss_of(model, inputs, targets).backward()  # @stepover
    optimizer = optim.AdamW(model.parameters())
    optimizer.step()
    measured = measured_by_part(model, optimizer, inputs, targets)  # @inspect measured [B] @stepover
    assert measured["activations"] - predicted["activations"] == 4  # the count that the mean loss divides by
    assert all(measured[part] == predicted[part] for part in predicted if part != "activations")  # @hide
    share = predicted["activations"] / sum(predicted.values())  # @hide
    title = f"A step of 8 sequences: every part as predicted; activations are {share:.0%}"  # @hide
    memory_bars({"predicted": predicted, "measured": measured}, title)  # @stepover @hide


def activations_of_a_transformer() -> None:
    """A large Transformer's activations"""
    text(
        "In bf16, a layer of GPT-3 saves, for $T$ tokens (Korthikanti et al.),\n\n$$ T D \\left( 34 + 5 \\, \\frac{H "
        "S}{D} \\right) \\text{ bytes:} $$\n\n16 numbers of 2 bytes, and 1 byte for each of two *dropouts*, which set "
        "numbers to zero at random. The second term is attention's $S \\times S$ scores in $H$ heads; "
        "**FlashAttention** never writes them to memory. Current layers use SwiGLU, not GELU, and no dropout. "
        "Counted on small layers of the same proportions:"
    )
    rows = activations_of_three_layers()  # @stepover @hide
    columns = ["layer, with FlashAttention", "bytes per token and width", "counted"]  # @hide
    table(rows, columns)  # @hide
    scores = 5 * 96 * 2048 / 12288  # GPT-3: H, S, D @hide
    sequence_bytes = activations_of_gpt_3()  # counted on the meta device @stepover @hide
    assert abs(sequence_bytes / (96 * 2048 * 12288 * (34 + scores)) - 1) < 1e-4  # @hide
    share = scores / (34 + scores)  # @hide
    assert (scores, round(share, 2)) == (80, 0.7)  # @hide
    scores_counted()  # @stepover @hide
    that_layer_is_torchs()  # @stepover @hide
    text(
        f"In GPT-3's shape the second term is {scores:.0f}: without FlashAttention, one sequence of 2048 tokens leaves "
        f"**{sequence_bytes / 1e9:.0f} GB**, the memory of {sequence_bytes / H100_MEMORY:.1f} H100s, {share:.0%} of it "
        "scores."
    )
    ask(
        "A layer's $12 D^2$ parameters take 16 bytes each (bf16, fp32 master and states); $T$ tokens on a GPU leave "
        "$34 T D$ bytes. With $D = 12288$ and no sharding, from which $T$ on do activations outweigh the rest?",
        16 * 12 / 34 * 12288,
        unit="tokens",
        hint="Solve $16 \\cdot 12 D^2 = 34 T D$ for $T$.",
        why="$T = 192/34 \\cdot D = 5.6 D$. (In fp32, with about twice the bytes per token, about $3D$.) $T$ is the "
        "tokens of one GPU's micro-batch, not of the whole batch: two sequences of 2048 are 4096 tokens, far less. But "
        "if the 16 bytes are sharded over $n$ GPUs (section 14), the crossing is at $5.6 D / n$.",
        slips={
            3 * 12288: "That is fp32: about 64 bytes per token and width.",
            12288: "At $T = D$: $34 D^2$ and $192 D^2$.",
        },
    )
    assert round(16 * 12 / 34, 1) == 5.6 and 16 * 12 / (4 * 16) == 3  # of D @hide
    link(**REFERENCES["selective recomputation"])
    link(**REFERENCES["flash attention"])


def activations_of_three_layers() -> list[tuple[str, float, float]]:
    """Bytes saved per token and unit of width in bf16: by the formula, and counted on small layers"""
    x = torch.randn(8, 32, 512).bfloat16()  # (B, S, D)
    of_gpt_3 = saved_by_gpt_layer(x, transformer_weights(512), 8, attention_in_one) / x.numel()
    llama_2 = Shape(width=768, heads=8, kv_heads=8, hidden=2048)  # F = 8/3 D
    llama_3 = Shape(width=1024, heads=8, kv_heads=1, hidden=3584)  # of the 70B model's proportions
    formulas = [34.0, *(bytes_saved_per_width(s.kv_heads / s.heads, s.hidden / s.width) for s in (llama_2, llama_3))]
    assert [round(formula, 1) for formula in formulas] == [34, 37.3, 40.5]
    counted = [of_gpt_3, *(saved_by_layer_in_bf16(shape) for shape in (llama_2, llama_3))]
    assert all(0 <= one / formula - 1 < 0.01 for one, formula in zip(counted, formulas, strict=True))  # sums of rows
    names = ("GPT-3: GELU, dropout", "SwiGLU, $F = 8/3 D$", "Llama 3 70B: $F = 3.5 D$, 8 KV heads for 64")
    return [(n, round(f, 1), round(c, 1)) for n, f, c in zip(names, formulas, counted, strict=True)]


def bytes_saved_per_width(shared: float, hidden: float) -> float:
    """Of a layer with SwiGLU in bf16, for each token and unit of width; K/H and F/D are given"""
    return 2 * (2 + 2 + 1 + 2 * shared + 1 + 4 * hidden)  # norms, queries, keys and values, mixture, SwiGLU


def saved_by_layer_in_bf16(shape: Shape) -> float:
    """Bytes that autograd saves in section 8's layer, for each token and unit of width"""
    layer, x = Layer(shape).bfloat16(), torch.randn(8, 32, shape.width).bfloat16()
    return sum(t.nbytes for t in saved_by_autograd(lambda: layer(x), layer.parameters())) / x.numel()


def scores_counted() -> None:
    """The formula's second term: counted for three lengths"""
    batch, width, heads = 2, 64, 4
    weights, saved, fused = transformer_weights(width), {}, {}  # bytes; fused: attention in one kernel
    for length in (32, 64, 128):
        x = torch.randn(batch, length, width).bfloat16()  # (B, S, D)
        saved[length] = saved_by_gpt_layer(x, weights, heads, attention_in_steps)
        fused[length] = saved_by_gpt_layer(x, weights, heads, attention_in_one)
        formula = batch * length * (34 * width + 5 * heads * length)
        assert 0 <= saved[length] - formula <= 16 * length * batch  # means and deviations of two norms
        assert 0 <= fused[length] - batch * length * (34 * width + 4 * heads) <= 16 * length * batch
    assert fused[128] == 2 * fused[64] == 4 * fused[32]
    assert saved[128] > 2.5 * saved[64]


def activations_of_gpt_3() -> int:
    """Bytes that autograd saves for one sequence in GPT-3's 96 layers, on the meta device"""
    with torch.device("meta"):
        weights = transformer_weights(12288)
        x = torch.empty(2, 2048, 12288, dtype=torch.bfloat16)  # (B, S, D)
        return 96 * saved_by_gpt_layer(x, weights, 96, attention_in_steps) // 2


def saved_by_gpt_layer(x: Tensor, weights: dict[str, Tensor], heads: int, attend: Callable[..., Tensor]) -> int:
    """Bytes that autograd saves in one layer: of whole storages, since queries, keys and values share one"""
    saved = saved_by_autograd(lambda: gpt_layer(x, weights, heads, attend), weights.values())
    return sum(tensor.untyped_storage().nbytes() for tensor in saved)


def transformer_weights(width: int) -> dict[str, Tensor]:
    """The matrices and norms of one layer, in bf16"""
    shapes = {"attention": (width, 3 * width), "output": (width, width)}
    shapes |= {"up": (width, 4 * width), "down": (4 * width, width)}
    weights = {name: torch.randn(shape) / math.sqrt(shape[0]) for name, shape in shapes.items()}
    weights |= {"norm 1": torch.ones(width), "norm 2": torch.ones(width)}
    return {name: w.bfloat16().requires_grad_() for name, w in weights.items()}


def gpt_layer(x: Tensor, weights: dict[str, Tensor], heads: int, attend: Callable[..., Tensor]) -> Tensor:
    """Attention, then a feed-forward network, each behind a layer norm and followed by dropout"""
    batch, length, width = x.shape
    h = nn.functional.layer_norm(x, (width,), weights["norm 1"])
    split = (h @ weights["attention"]).view(batch, length, 3, heads, width // heads)
    query, key, value = split.permute(2, 0, 3, 1, 4)  # (B, H, S, D/H) each
    mixed = attend(query, key, value).transpose(1, 2).reshape(batch, length, width)
    x = x + dropout(mixed @ weights["output"])
    h = nn.functional.layer_norm(x, (width,), weights["norm 2"])
    return x + dropout(nn.functional.gelu(h @ weights["up"]) @ weights["down"])


def attention_in_steps(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Scores, softmax, dropout, mixture: each result is a tensor in memory"""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (B, H, S, S)
    return dropout(scores.softmax(dim=-1)) @ value


def attention_in_one(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same without dropout, in one kernel"""
    return nn.functional.scaled_dot_product_attention(query, key, value)


def dropout(x: Tensor) -> Tensor:
    """Zero a tenth of the numbers, unless under no_grad, and save one byte per number for which"""
    return torch.native_dropout(x, 0.1, torch.is_grad_enabled())[0]


def that_layer_is_torchs() -> None:
    """Without dropout the layer of GPT-3 gives what torch's layer gives"""
    width, heads = 64, 4
    weights = {name: w.detach().float() for name, w in transformer_weights(width).items()}  # @stepover
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, activation="gelu", batch_first=True, norm_first=True, bias=False
    ).eval()
    names = {"attention": "self_attn.in_proj_weight", "output": "self_attn.out_proj.weight"}
    names |= {"up": "linear1.weight", "down": "linear2.weight", "norm 1": "norm1.weight", "norm 2": "norm2.weight"}
    layer.load_state_dict({names[name]: w.t() for name, w in weights.items()})
    x = torch.randn(2, 32, width)  # (B, S, D)
    with torch.no_grad():
        for attend in (attention_in_steps, attention_in_one):
            assert torch.allclose(gpt_layer(x, weights, heads, attend), layer(x), atol=1e-5)  # @stepover
    zeroed = (dropout(torch.ones(10_000)) == 0).float().mean().item()  # @inspect zeroed @stepover
    assert abs(zeroed - 0.1) < 0.01
    assert abs(weights["down"].std().item() * math.sqrt(4 * width) - 1) < 0.05  # as section 8 initialises


def logits_of_a_language_model() -> None:
    """The largest tensor of all"""
    with torch.device(device()):  # @hide
        h, w = torch.randn(64, 16), torch.randn(16, 2048, requires_grad=True)  # @hide
        target = torch.randint(2048, (64,))  # @hide
    text("Two ways to write the head and its loss, where `h @ w` are the logits of `h`:")

    def inline() -> None:
        cross_entropy(h @ w, target).backward()

    def in_a_variable() -> None:
        logits = h @ w  # alive to the end of the function
        cross_entropy(logits, target).backward()

    held_bytes, small_bytes = h.nbytes + w.nbytes + target.nbytes, 4 * 64 * 2048  # @hide
    copies = {}  # @hide
    for training_step in (inline, in_a_variable):  # @hide
        copies[training_step.__name__] = (count(training_step).peak_bytes - held_bytes) / small_bytes  # @stepover @hide
    assert 3 <= copies["inline"] < 3.1  # @hide
    assert 0.99 < copies["in_a_variable"] - copies["inline"] < 1.01  # @hide
    llama_logits = torch.empty(8, 4096, 128256, device="meta")  # (B, S, V) @hide
    assert round(llama_logits.nbytes / 1e9, 1) == 16.8  # @hide
    text(
        f"Eight sequences of 4096 tokens and Llama 3's vocabulary of 128,256 make {llama_logits.nbytes / 1e9:.1f} GB "
        f"of logits in fp32. At its peak the first function holds {copies['inline']:.0f} such tensors "
        f"(log-probabilities, their gradient, the gradient of the logits), the second {copies['in_a_variable']:.0f}. "
        "*Chunked* cross-entropy takes a part of the tokens at a time."
    )


def timeline_of_two_steps() -> None:
    """Two steps, operation by operation"""
    ask(
        "Two training steps of the language model, from a fresh optimizer. When is most memory in use?",
        "in the second backward pass",
        choices=[
            "at the end of the first forward pass",
            "in the first backward pass",
            "in the second backward pass",
            "in the optimizer's step",
        ],
        hint="When does AdamW make its averages?",
        slips={
            "at the end of the first forward pass": "All activations are there, but not yet the first gradients.",
            "in the first backward pass": "The optimizer has no states yet.",
            "in the optimizer's step": "The activations are freed by then.",
        },
    )
    first, second, parameter_bytes, state_bytes = two_steps(batch=8)  # @stepover
    draw_timeline(first, second)  # @stepover @hide
    summits = [max(max(phase) for phase in step) for step in (first, second)]  # @inspect summits [B]
    assert [max(step[1]) for step in (first, second)] == summits  # both in the backward pass
    assert summits[1] - summits[0] == first[2][-1] - first[1][-1] == state_bytes  # the optimizer made it, and keeps it
    assert first[1].index(summits[0]) < len(first[1]) / 4  # early in it @hide
    assert first[1][-1] - first[0][0] == parameter_bytes  # it leaves the gradients, and nothing else @hide
    assert second[2][-1] == second[0][0]  # from now on every step ends where it began @hide
    text(
        f"The second step peaks higher by the optimizer's states, {state_bytes / 2**20:.2f} MiB: **a job that survives "
        f"its first step can run out of memory in its second.** (With few tokens, the peak is in the optimizer.) On a "
        f"GPU, torch's allocator also reserves more than the tensors need. The peak is {summits[1] / 2**20:.1f} MiB, "
        f"less than the sum of the parts: activations are freed while gradients appear."
    )
    activations = second[0][-1] - second[0][0]  # @hide
    assert activations > summits[1] / 2  # @hide


def two_steps(batch: int) -> tuple[list[list[int]], list[list[int]], int, int]:
    """Bytes alive in forward pass, backward pass and optimizer of two steps; bytes of parameters and of states

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
    state_bytes = sum(s.nbytes for held in optimizer.state.values() for s in held.values())
    return alive[:3], alive[3:], sum(w.nbytes for w in model.parameters()), state_bytes


def draw_timeline(first: list[list[int]], second: list[list[int]]) -> None:
    """Both steps in one figure, with their phases and peaks marked"""
    peaks = [max(max(phase) for phase in step) for step in (first, second)]
    colours = {"forward": "#2f6fdd", "backward": "#d9480f", "optimizer": "#1a8f58"}

    def drawn(width: float) -> Figure:
        figure = Figure(figsize=(min(8, width), 3.6), layout="constrained")
        axes = figure.add_subplot(xlabel="operation", ylabel="MiB in use")
        start, highest = 0, max(peaks) / 2**20
        for number, (step, summit) in enumerate(zip((first, second), peaks, strict=True), start=1):
            for level, ((name, colour), alive) in enumerate(zip(colours.items(), step, strict=True)):
                xs, ys = range(start, start + len(alive)), [n / 2**20 for n in alive]
                axes.plot(xs, ys, color=colour, linewidth=1.6, label=f"step {number}: {name}")
                axes.fill_between(xs, ys, color=colour, alpha=0.15, linewidth=0)
                above = 1.17 if width >= 8 else 1.17 + 0.12 * level  # no room for one beside the other
                axes.text(start + len(alive) / 2, highest * above, name, color=colour, fontsize=9, ha="center")
                if max(alive) == summit:
                    peak = (start + alive.index(summit), max(ys))
                    axes.plot(*peak, "o", color="#7a828e", label=f"peak of step {number}")
                    axes.annotate(f"peak: {peak[1]:.1f} MiB", peak, (4, 5), textcoords="offset points", fontsize=9)
                start += len(alive)
            axes.axvline(start, color="#7a828e", linewidth=0.8, linestyle="--")
        axes.set_ylim(0, highest * (1.28 if width >= 8 else 1.52))
        axes.spines[["top", "right"]].set_visible(False)
        return figure

    plot(drawn, title="Both steps peak early in the backward pass; the second one has the optimizer's states as well")


def memory_in_pieces() -> None:
    """Out of memory, with memory to spare"""
    text(
        "A tensor needs one contiguous piece of memory. Ten tensors of 1 GB fill 10 GB, then every second one is "
        "freed. Half of the memory is free, and there is no room for 2 GB: the memory is **fragmented**."
    )
    used = [block % 2 == 0 for block in range(10)]
    free_gb = used.count(False)  # @inspect free_gb
    pieces = "".join("x" if taken else "." for taken in used).split("x")
    longest_gb = max(len(piece) for piece in pieces)  # @inspect longest_gb
    assert longest_gb < 2 < free_gb
    text(
        "torch keeps freed blocks of a GPU's memory and hands them out in parts: *reserved* memory is what it took "
        "from the driver, *allocated* memory is in live tensors. Sequences of changing length leave holes. An error "
        "that reports a large number as *reserved but unallocated* means them; the option `expandable_segments` helps. "
        "`torch.cuda.memory._record_memory_history()`, then `_dump_snapshot(file)`, records who holds each block."
    )
    if device() == "cuda" and torch.cuda.get_allocator_backend() == "native":  # @hide
        memory_in_real_pieces()  # @hide


def memory_in_real_pieces() -> None:
    """The same on this GPU"""
    gc.collect()
    torch.cuda.empty_cache()  # so that little but live tensors is reserved
    longest = max(free_blocks())  # a piece must be longer, so that none goes there @inspect longest [B] @stepover
    piece = max(sizes().streamed_bytes // 16, 2**21 * (1 + longest // 2**21))  # @inspect piece [B] @stepover
    torch.empty(10 * piece, dtype=torch.uint8, device="cuda")  # freed at once: the allocator keeps its 10 pieces
    pieces = [torch.empty(piece, dtype=torch.uint8, device="cuda") for _ in range(10)]  # cut out of them
    del pieces[::2]
    reserved, allocated = torch.cuda.memory_reserved(), torch.cuda.memory_allocated()  # @inspect reserved allocated
    assert reserved - allocated >= 5 * piece  # freed, and still reserved
    text("Every second piece was freed. The blocks of their segment, by the snapshot (`x` in use, `.` free):")
    segments = torch.cuda.memory_snapshot()  # @stepover
    [blocks] = [s["blocks"] for s in segments if 0 <= pieces[0].data_ptr() - s["address"] < s["total_size"]]
    picture = "".join("." if block["state"] == "inactive" else "x" for block in blocks)  # @inspect picture
    assert ".x.x.x." in picture
    wanted = max(free_blocks()) + piece  # no free block is as large @inspect wanted [B] @stepover
    assert wanted < reserved - allocated
    message = refused(wanted, reserved + piece // 2)  # this process may not reserve another piece @stepover
    what_the_message_says(message, wanted, reserved - allocated)
    torch.cuda.empty_cache()
    kept = torch.cuda.memory_reserved()  # @inspect kept [B]
    assert message is None or kept >= 10 * piece  # a segment with a live tensor stays
    pieces.clear()
    torch.cuda.empty_cache()
    returned = kept - torch.cuda.memory_reserved()  # @inspect returned [B]
    assert returned >= 5 * piece
    text(
        f"`empty_cache` returns segments without a live tensor to the driver, for other processes. While every second "
        f"piece was in use, {kept / 2**20:.0f} of {reserved / 2**20:.0f} MiB stayed reserved; after the last piece was "
        f"freed, {returned / 2**20:.0f} MiB went back. It never moves a tensor, so it does not close holes."
    )


def free_blocks() -> list[int]:
    """Bytes of each block that the allocator has reserved and that is not in use; at least a 0"""
    blocks = [block for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]]
    return [0, *(block["size"] for block in blocks if block["state"] == "inactive")]


def refused(wanted: int, limit: int) -> str | None:
    """The error for so many bytes, if the process may reserve no more than `limit`; None if there is room"""
    fraction = getattr(torch.cuda, "get_per_process_memory_fraction", lambda: 1.0)()  # torch 2.6 can't say
    total = torch.cuda.get_device_properties().total_memory
    torch.cuda.set_per_process_memory_fraction(limit / total)
    try:
        torch.empty(wanted, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        return str(error).splitlines()[0]
    finally:
        torch.cuda.set_per_process_memory_fraction(fraction)
    return None


def what_the_message_says(message: str | None, wanted: int, unallocated: int) -> None:
    """How to read it"""
    if message is None:
        text(
            f"The allocator found {wanted / 2**20:.0f} MiB nevertheless: with expandable segments it moves free pages "
            f"to where they are needed."
        )
        return
    assert "Tried to allocate" in message
    text(
        f"Asked for {wanted / 2**20:.0f} MiB, under a limit that lets it reserve no more, the allocator raised "
        f"`torch.OutOfMemoryError`:\n\n> {message}\n\n"
        f"Read three numbers. *Tried to allocate* is the tensor. *Allocated by PyTorch* is live tensors: if that is "
        f"nearly everything, the step is too large. *Reserved by PyTorch but unallocated* is holes: here "
        f"{unallocated / 2**20:.0f} MiB, more than was asked for, and still no hole is long enough."
    )


# ---------------------------------------------------------------------------------------------------------
# 14 Using less memory


def using_less_memory() -> None:
    """Using less memory"""
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    text("If a training step does not fit into memory, which of its terms can be made smaller, and at which price?")
    note(
        "Seven minutes. Accumulation first, because it costs no FLOPs; then let the audience guess the price of a "
        "checkpoint. The network's table is needed in section 16."
    )
    gradient_accumulation()
    traps_of_accumulation()  # @deeper
    activation_checkpointing()
    checkpointing_a_block()  # @deeper
    memory_against_recomputation()  # @deeper
    what_fits()  # @deeper
    zero_stages()
    when_the_network_is_the_limit()
    map_of_the_rest()
    text(
        "**In three lines.**\n\n"
        "1. Accumulation divides the activations by the number of micro-batches and costs no FLOPs.\n"
        "2. A checkpoint per layer keeps one input per layer, for at most a third more FLOPs.\n"
        "3. ZeRO-3 divides the 16 bytes by the GPUs, and needs about 1,000 tokens per GPU to hide its traffic."
    )


def gradient_accumulation() -> None:
    """Gradient accumulation"""
    text(
        "`backward()` *adds* to `.grad`. So a batch can be processed in equal **micro-batches**, a backward pass for "
        "each and then one step of the optimizer. Only one micro-batch's activations exist at a time."
    )
    ask(
        "The batch comes in `pieces` equal micro-batches, and `loss` is the mean over one of them. Write the line that "
        "adds its gradient, so that the sum is the gradient of the whole batch's mean.",
        "(loss / pieces).backward()",
        why="The batch's mean is the mean of the means. Without the division the gradient is `pieces` times too large.",
    )
    shape, batch = Shape(), 8  # @hide
    model = LanguageModel(shape)  # @stepover @hide
    train, _ = lecture_tokens()  # @stepover @hide
    inputs, targets = draw_batch(train, batch, shape.context, torch.Generator().manual_seed(0))  # @stepover @hide

    def step(pieces: int) -> None:
        for x, y in zip(inputs.chunk(pieces), targets.chunk(pieces), strict=True):
            (loss_of(model, x, y) / pieces).backward()

    whole = gradients_of(model, lambda: step(1))  # @stepover
    rows, flops = [], []
    for pieces in (1, 2, 4):
        kept = kept_for_backward(model, inputs.chunk(pieces)[0], targets.chunk(pieces)[0])  # @stepover
        predicted = bytes_by_part(shape, batch // pieces)  # @stepover @hide
        assert kept == predicted["activations"] + predicted["logits"] + 4  # the count of the mean loss @hide
        gradients = gradients_of(model, partial(step, pieces))  # @stepover
        flops.append(count(partial(step, pieces)).flops_by_operator["aten.mm"])  # @stepover
        rows.append((pieces, kept, relative_difference(gradients, whole)))  # @stepover
    table(rows, ["micro-batches", "activations and logits, bytes", "gradients differ by"])  # @hide
    assert len(set(flops)) == 1 and max(row[2] for row in rows) < 1e-6
    assert rows[2][1] < rows[0][1] / 3.9  # @hide
    text(
        "Same gradient up to rounding, same FLOPs. The price: each micro-batch reads the weights and gradients again. "
        "So the batch is chosen for the optimization (a gradient's noise falls with $1/\\sqrt B$), the micro-batch for "
        "the machine. Where micro-batches differ in length, weight each loss by its tokens."
    )


def activation_checkpointing() -> None:
    """Activation checkpointing"""
    text(
        "`torch.utils.checkpoint` runs a function and saves only its input. When the backward pass arrives, it runs "
        "the function again and saves everything. The language model does so for each layer if `recompute` is set."
    )
    ask(
        "With a checkpoint for each layer, by which factor do the FLOPs of a step grow, at most?",
        4 / 3,
        hint="Forward 2, backward 4.",
        why="$(2 + 2 + 4) / (2 + 4)$, if everything were computed again.",
        slips={
            2: "Only the forward pass is done twice, and it is a third of the work.",
            1.5: "The forward pass is a third of the FLOPs, not half.",
        },
    )
    shape, batch = Shape(), 8  # @hide
    model = LanguageModel(shape)  # @stepover @hide
    train, _ = lecture_tokens()  # @stepover @hide
    inputs, targets = draw_batch(train, batch, shape.context, torch.Generator().manual_seed(0))  # @stepover @hide
    step = partial(backward_of, model, inputs, targets)
    plain_gradients, plain = gradients_of(model, step), count(step)  # @stepover
    model.recompute = True
    gradients, again = gradients_of(model, step), count(step)  # @stepover
    assert torch.equal(gradients, plain_gradients)
    more = again.flops / plain.flops  # @inspect more
    assert 1.15 < more < 4 / 3
    peaks = [plain.peak_bytes, again.peak_bytes]  # @hide
    kept = kept_for_backward(model, inputs, targets)  # @stepover @hide
    tokens = batch * shape.context  # @hide
    layer_inputs = 4 * shape.layers * tokens * shape.width  # @hide
    around = 4 * tokens * (2 * shape.width + 1) + 16 * tokens  # @hide
    predicted = bytes_by_part(shape, batch) | {"activations": layer_inputs + around}  # @stepover @hide
    assert kept == predicted["activations"] + predicted["logits"] + 4  # @hide
    bars_of_less_memory(model, inputs, targets, predicted)  # @stepover @hide
    text(
        "Here the gradients are the same to the bit. The bars count what stays saved. The peak, without the "
        f"optimizer's states, falls from {peaks[0] / 2**20:.1f} to {peaks[1] / 2**20:.1f} MiB: one layer at a time is "
        f"whole again. The FLOPs grow by {more:.2f}, not 4/3, because the second run stops at the last saved tensor."
    )


def backward_of(model: LanguageModel, inputs: Tensor, targets: Tensor) -> None:
    """A forward and a backward pass"""
    loss_of(model, inputs, targets).backward()


def bars_of_less_memory(model: LanguageModel, inputs: Tensor, targets: Tensor, recomputing: dict[str, int]) -> None:
    """The memory of a step: plainly, in four micro-batches, and with a checkpoint for each layer"""
    optimizer = optim.AdamW(model.parameters())
    optimizer.step()
    bars = {}
    for name, pieces, recompute, predicted in (
        ("plain", 1, False, bytes_by_part(model.shape, len(inputs))),
        ("in 4 parts", 4, False, bytes_by_part(model.shape, len(inputs) // 4)),
        ("recompute", 1, True, recomputing),
    ):
        model.recompute = recompute
        bars[name] = predicted
        piece = inputs.chunk(pieces)[0], targets.chunk(pieces)[0]
        bars[f"{name} ✓"] = measured_by_part(model, optimizer, *piece)
    memory_bars(bars, "A step by part, predicted and ✓ measured: both ways shrink activations only")


def accumulate(model: nn.Module, x: Tensor, y: Tensor, micro_batch: int) -> None:
    """Add a batch's gradients to `.grad`, a micro-batch at a time"""
    for some_x, some_y in zip(x.split(micro_batch), y.split(micro_batch), strict=True):
        loss = nn.functional.mse_loss(model(some_x), some_y)
        (loss * len(some_x) / len(x)).backward()  # its share of the batch's mean


def gradients_of(model: nn.Module, fill: Callable[[], object]) -> Tensor:
    """All gradients that `fill` leaves in `.grad`, in one vector"""
    model.zero_grad()
    fill()
    return torch.cat([w.grad.flatten() for w in model.parameters() if w.grad is not None])


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """How far two vectors are apart, relative to the second"""
    return ((found - expected).norm() / expected.norm()).item()


def traps_of_accumulation() -> None:
    """Traps of accumulation"""
    model = DeepLinear(64, 2)  # @stepover
    x, y = torch.randn(64, 64), torch.randn(64)
    at_once = gradients_of(model, lambda: nn.functional.mse_loss(model(x), y).backward())  # @stepover
    text("**Forgetting to divide.** Four micro-batches, each with its own mean, and no shares:")
    undivided = gradients_of(model, lambda: [loss.backward() for loss in losses_of_parts(model, x, y, 16)])  # @stepover
    times_too_large = (undivided.norm() / at_once.norm()).item()  # @inspect times_too_large
    assert abs(times_too_large - 4) < 1e-4
    text("**A mean of means** is the mean only if the parts are equally long. In parts of 16, and of 48 and 16:")
    errors = {}
    for micro_batch in (16, 48):
        found = gradients_of(model, mean_of_means(model, x, y, micro_batch).backward)  # @stepover
        errors[micro_batch] = relative_difference(found, at_once)  # @inspect errors @stepover
    assert errors[16] < 1e-6 < 1e-2 < errors[48]
    unequal = relative_difference(gradients_of(model, partial(accumulate, model, x, y, 48)), at_once)  # @stepover
    assert unequal < 1e-6  # each part weighted by its rows @inspect unequal
    text(
        f"{errors[48]:.0%} off, without an error message. Language models meet this in every batch: sequences differ "
        "in length and padding does not count, so each micro-batch's loss is weighted by its number of *counted "
        "tokens*."
    )
    text(
        "**Rows that affect each other.** BatchNorm subtracts the mean of the rows of *its* micro-batch, so "
        "micro-batches change the function. RMSNorm and LayerNorm use one row at a time.\n\n**A micro-batch larger "
        "than the batch**, such as 256 rows of a batch of 64, raises no error and saves nothing. (64 rows through 16 "
        "layers of width 1024 leave 2 MiB in bf16, in any case.)"
    )
    assert len(x.split(256)) == 1 and 2 * 64 * 1024 * 16 == 2 * 2**20  # @hide


def losses_of_parts(model: nn.Module, x: Tensor, y: Tensor, micro_batch: int) -> list[Tensor]:
    """The mean loss of each part by itself"""
    parts = zip(x.split(micro_batch), y.split(micro_batch), strict=True)
    return [nn.functional.mse_loss(model(some_x), some_y) for some_x, some_y in parts]


def mean_of_means(model: nn.Module, x: Tensor, y: Tensor, micro_batch: int) -> Tensor:
    """What is right for equal parts and wrong for others"""
    return torch.stack(losses_of_parts(model, x, y, micro_batch)).mean()


def gelu_blocks(width: int, layers: int) -> nn.ModuleList:
    """Linear layers with a GELU behind each: two tensors are saved per block"""
    return nn.ModuleList([nn.Sequential(Linear(width, width), nn.GELU()) for _ in range(layers)])


def run_blocks(blocks: nn.ModuleList, x: Tensor) -> Tensor:
    """One block after another"""
    for block in blocks:
        x = block(x)
    return x


def run_in_segments(blocks: nn.ModuleList, x: Tensor, length: int) -> Tensor:
    """The same, keeping only the input of each segment of so many blocks"""
    for start in range(0, len(blocks), length):
        x = checkpoint(run_blocks, blocks[start : start + length], x, use_reentrant=False)
    return x


def checkpointing_a_block() -> None:
    """What a checkpoint does, operator by operator"""
    blocks = gelu_blocks(64, 8)  # @stepover
    x = torch.randn(256, 64)
    plain = count(lambda: run_blocks(blocks, x).sum().backward())  # @stepover
    checkpointed = count(lambda: run_in_segments(blocks, x, 1).sum().backward())  # @stepover
    assert checkpointed.peak_bytes < 0.75 * plain.peak_bytes  # @inspect checkpointed.peak_bytes plain.peak_bytes
    assert (plain.operators["aten.mm"], checkpointed.operators["aten.mm"]) == (23, 31)
    assert plain.operators["aten.gelu"] == checkpointed.operators["aten.gelu"] == 8
    extra_flops = checkpointed.flops_by_operator["aten.mm"] - plain.flops_by_operator["aten.mm"]
    assert extra_flops == 2 * 256 * 64**2 * 8  # one forward pass @inspect extra_flops [FLOP]
    text(
        "Eight blocks, a linear layer and a GELU each: each product ran once more, and no GELU did, because the second "
        "run stops once all saved tensors exist. A checkpointed function must do the same thing twice; dropout does, "
        "because `checkpoint` restores the random generators. (`use_reentrant=False` is the current implementation.) "
        "Two checkpoints that save nothing: around a linear layer and its **ReLU**, which would have saved only the "
        "block's input; and one around the **whole network**, which moves the peak into the backward pass:"
    )
    relus = nn.ModuleList([Block(16) for _ in range(16)])  # @stepover
    saved = {}
    for name, stack, length in (("ReLU", relus, 1), ("whole", gelu_blocks(16, 16), 16)):
        plain, again = (count(gradients_through, stack, torch.randn(512, 16), part) for part in (None, length))
        saved[name] = 1 - again.peak_bytes / plain.peak_bytes  # @inspect saved
        assert again.flops_by_operator["aten.mm"] > 1.3 * plain.flops_by_operator["aten.mm"]
    assert abs(saved["ReLU"]) < 0.01 and -0.1 < saved["whole"] < 0.01
    blocks, x = gelu_blocks(16, 9), torch.randn(32, 16)  # @stepover @hide
    ways = [partial(backward_keeping, blocks, x, keep) for keep in KEPT]  # @hide
    gradients = [gradients_of(blocks, way) for way in ways]  # @stepover @hide
    assert max(relative_difference(other, gradients[0]) for other in gradients) < 1e-6  # @stepover @hide


def gradients_through(blocks: nn.ModuleList, x: Tensor, length: int | None) -> tuple[Tensor, ...]:
    """A forward and backward pass, in checkpointed segments of so many blocks, or plainly"""
    y = run_blocks(blocks, x) if length is None else run_in_segments(blocks, x, length)
    return torch.autograd.grad(y.sum(), list(blocks.parameters()))


def from_the_start(blocks: nn.ModuleList, x: Tensor) -> None:
    """Forward and backward pass that keep no activation at all: each block's input is computed from x again"""
    with torch.no_grad():
        upstream = torch.ones_like(run_blocks(blocks, x))  # the gradient of the sum of the outputs
    for depth in reversed(range(len(blocks))):
        with torch.no_grad():
            h = run_blocks(blocks[:depth], x)
        h = h.detach().requires_grad_()
        blocks[depth](h).backward(upstream)
        upstream = h.grad


def backward_keeping(blocks: nn.ModuleList, x: Tensor, keep: str) -> None:
    """Forward and backward pass, by what is kept in between: one of KEPT"""
    root = math.isqrt(len(blocks))
    if keep == "nothing":
        from_the_start(blocks, x)
    elif keep == "all":
        run_blocks(blocks, x).sum().backward()
    else:
        run_in_segments(blocks, x, 1 if keep == "each block" else root).sum().backward()


def memory_against_recomputation() -> None:
    """How much to forget"""
    text(
        "For $L$ blocks (a linear layer and its GELU each), keep **all**: memory $O(L)$. Keep **each block's input** "
        "($O(L)$, smaller) or **every $\\sqrt L$-th** input, and recompute one *segment* of $\\sqrt L$ blocks at a "
        "time ($O(\\sqrt L)$), either for one extra forward pass. Or keep **nothing** and compute each input from the "
        "start: $O(1)$, for $O(L^2)$ compute."
    )
    draw_what_is_kept(36)  # @stepover @hide
    depths = (4, 9, 16, 36)  # @hide
    found = {layers: strategies_at(layers) for layers in depths}  # @stepover @hide
    peaks = {keep: [found[n][keep][0] for n in depths] for keep in KEPT}  # @hide
    flops = {keep: [found[n][keep][1] for n in depths] for keep in KEPT}  # @hide
    assert flops["all"] == [3 * n - 1 for n in depths]  # @hide
    assert flops["each block"] == flops["every √L-th"] == [4 * n - 1 for n in depths]  # @hide
    assert flops["nothing"] == [n * (n - 1) // 2 + 4 * n for n in depths]  # @hide
    growth = {name: peak[-1] / peak[0] for name, peak in peaks.items()}  # @hide
    assert growth["all"] > 7.5 > growth["each block"] > 5 > growth["every √L-th"] > 2 > 1.2 > growth["nothing"]  # @hide
    (all_peak, all_passes), (peak, passes) = found[36]["all"], found[36]["every √L-th"]  # @hide
    text(
        f"Keeping every sixth of 36 inputs takes **{all_peak / peak:.1f} times less** memory for "
        f"**{passes / all_passes - 1:.0%}** more FLOPs. (FlashAttention recomputes attention's scores alone, under 1% "
        "of the FLOPs of GPT-3's layer.)"
    )
    what_the_strategies_cost()  # @deeper


def what_fits() -> None:
    """What fits"""
    text(
        "Together: 16 bytes per parameter ($12D^2$ in a layer; Llama 3 70B has $12.75D^2$), section 13's activations, "
        "three tensors like the logits. Without "
        "FlashAttention each of attention's scores takes 2 bytes more, or 5 with GPT-3's dropout. (With checkpoints, "
        "one layer is whole after the logits are freed; the larger counts.)"
    )
    gpt_3 = training_memory(96, 12288, 50257, 1, 2048, 34, 5, 2, H100_MEMORY)  # @stepover @hide
    assert math.isclose(gpt_3["activations"], activations_of_gpt_3(), rel_tol=1e-4)  # @stepover @hide
    assert round(gpt_3["billions"]) == 175 and round(gpt_3["logits"] / 1e9, 2) == 1.24 and not gpt_3["fits"]  # @hide
    llama_3 = bytes_saved_per_width(8 / 64, 3.5)  # @stepover @hide
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
                "Llama 3 70B's": {"saved": llama_3, "scores": 2},
                "SwiGLU, F = 8/3 D": {"saved": bytes_saved_per_width(1, 8 / 3), "scores": 2},
                "GPT-3's": {"saved": 34, "scores": 5},
            },
            "kept": {
                "every activation": {"kept": 2},
                "none of the scores: FlashAttention": {"kept": 1},
                "each block's input": {"kept": 0},
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


def draw_what_is_kept(layers: int) -> None:
    """The two tensors of each block when the backward pass begins, for each strategy"""
    root, last = math.isqrt(layers), range(layers - 1, layers)
    kept = {"all": range(0), "each block": range(layers), "every √L-th": range(0, layers, root), "nothing": range(0)}
    again = {"all": range(layers), "each block": last, "every √L-th": range(layers - root, layers), "nothing": last}
    figure = draw_segments(layers, {keep: (kept[keep], again[keep]) for keep in KEPT})
    title = f"{layers} blocks as the backward pass begins: a few inputs and one segment are enough"
    plot(figure, title=title)


@cache
def strategies_at(layers: int) -> dict[str, tuple[float, int]]:
    """For each strategy: the peak, in units of one layer's output; matmul FLOPs, in units of its forward pass"""
    rows, width = sizes().activation_rows, 16
    with torch.device(device()):
        blocks, x = gelu_blocks(width, layers), torch.randn(rows, width)
    backward_keeping(blocks, x, "all")  # from now on the gradients are there
    held = [x, *blocks.parameters(), *(w.grad for w in blocks.parameters())]
    held_bytes = sum(tensor.nbytes for tensor in held)
    found = {}
    for keep in KEPT:
        run = partial(backward_keeping, blocks, x, keep)
        counted = count(run)
        added_bytes = added_at_peak(run, held) if device() == "cuda" else counted.peak_bytes - held_bytes
        passes = counted.flops_by_operator["aten.mm"] // (2 * rows * width**2)
        found[keep] = (added_bytes / x.nbytes, passes)
    return found


def what_the_strategies_cost() -> None:
    """What it costs"""
    layers, root = 36, 6  # @hide
    found = strategies_at(layers)  # @stepover @hide
    claimed = {"all": (2 * layers, 3 * layers), "each block": (layers + 2, 4 * layers)}  # peak and FLOPs @hide
    claimed |= {"every √L-th": (3 * root, 4 * layers), "nothing": (5, layers * (layers - 1) // 2 + 4 * layers)}  # @hide
    rows = []  # @hide
    for name, (peak, passes) in found.items():  # @hide
        peak_claimed, passes_claimed = claimed[name]  # @hide
        assert 0.85 < peak / peak_claimed < 1.25  # @hide
        assert 0.98 < passes / passes_claimed < 1.2  # @hide
        rows.append((name, peak_claimed, round(peak, 2), passes_claimed, passes))  # @hide
    columns = ["keep", "peak: claimed", "measured", "FLOPs: claimed", "counted"]  # @hide
    table(rows, columns, title=f"{layers} blocks: peaks in outputs of a layer, FLOPs in its forward passes")  # @hide
    fewer, more = found["all"][0] / found["every √L-th"][0], found["every √L-th"][1] / found["all"][1]  # @hide
    assert 5 > fewer > 3 > 1.4 > more > 1.3  # @hide
    text(
        "A block saves two tensors, its input and GELU's. Segments of $k$ blocks need about $L/k + 2k$ tensors, so "
        "$k = \\sqrt{L/2}$ is best here, and $\\sqrt L$ is close."
    )
    link(**REFERENCES["sublinear"])


def zero_stages() -> None:
    """Over several GPUs: ZeRO"""
    text(
        "In **data parallelism** each GPU holds the whole model and processes a part of the batch; an **all-reduce** "
        "gives every GPU the sum of the gradients. In a ring each GPU sends $2(n-1)/n$ numbers per parameter: each "
        "adds its part to a chunk and passes it on (*reduce-scatter*), then the sums go round (*all-gather*). **ZeRO** "
        "leaves each of $n$ GPUs a *shard* of the optimizer's states (stage 1), gradients (2) and parameters (3; in "
        "PyTorch **FSDP**, `fully_shard`):"
    )
    n, numbers = 8, 1024  # @hide
    halves = torch.empty(2, numbers, dtype=torch.bfloat16)  # @hide
    parts = {"parameters": halves[:1], "gradients": halves[1:], "states and master": torch.empty(3, numbers)}  # @hide
    held: dict[str, list[float]] = {part: [] for part in parts}  # @hide
    sharded = ("parameters", "gradients", "states and master")  # @hide
    for stage in range(4):  # @hide
        for part, tensor in parts.items():  # @hide
            mine = tensor.chunk(n, dim=1)[0] if part in sharded[3 - stage :] else tensor  # @hide
            held[part].append(mine.nbytes / numbers)  # @hide
    per_gpu = [sum(of_stage) for of_stage in zip(*held.values(), strict=True)]  # @hide
    assert per_gpu == [16, 4 + 12 / n, 2 + 14 / n, 16 / n]  # @hide
    largest = [round(H100_MEMORY / gpu_bytes / 1e9, 1) for gpu_bytes in per_gpu]  # @hide
    assert largest == [5.0, 14.5, 21.3, 40.0]  # @hide
    stages = ["none", "stage 1", "stage 2", "stage 3"]  # @hide
    title = "Bytes per parameter on each of 8 GPUs: each stage shards one part more"  # @hide
    plot(held, x=stages, y_label="bytes per parameter", style="stacked", title=title)  # @hide
    text(
        "Of 16 bytes per parameter, $4 + 12/n$, $2 + 14/n$ and $16/n$ stay: 8 H100s hold models of 14.5, 21.3 and 40 "
        "billion parameters; plain data parallelism holds 5."
    )
    link(**REFERENCES["zero"])


def when_the_network_is_the_limit() -> None:
    """The roofline of the network"""
    text(
        "Sharding trades memory for traffic, and a network has a roofline. NVLink joins the GPUs of a server: an H100 "
        "sends 450 GB/s (the datasheet's 900 adds both directions). InfiniBand joins the servers, at 50 GB/s per card. "
        "In a *collective*, an exchange of all GPUs, each server needs the data once, so its 8 cards share the work: "
        "400 GB/s. In a step ZeRO-3 gathers each parameter twice and sums its gradient: 3 bf16 numbers, 6 bytes. With "
        "$T$ tokens on each GPU, $6T$ FLOPs are done per parameter: $T$ FLOP per byte. At an MFU of 0.4, compute "
        "covers the traffic from:"
    )
    links = {"NVLink": 450e9, "8 cards": 8 * 50e9, "1 card": 50e9}  # bytes/s of a collective
    sent = {"all-reduce; ZeRO-1, ZeRO-2": 2 * 2, "ZeRO-3": 3 * 2}  # bytes per parameter and step
    tokens = {way: [size / rate * 0.4 * H100_BF16 / 6 for rate in links.values()] for way, size in sent.items()}
    rows = [(way, *map(round, needed)) for way, needed in tokens.items()]  # @hide
    table(rows, ["tokens per GPU, at least", *links])  # @hide
    assert [round(needed) for needed in tokens["ZeRO-3"]] == [880, 990, 7916]
    flops, moved = 6 * 12 * 8192**2 / 8, 4 * 2 * 2 * 8192  # per token, layer and GPU of 8: 4 all-reduces, bf16 @hide
    assert flops / moved == 4.5 * 8192 / 8 == 4608 > 0.4 * H100_BF16 / links["NVLink"]  # FLOP/byte @hide
    text(
        "ZeRO-3 gathers the parameters for each micro-batch, so it is a micro-batch that needs so many tokens. "
        "**Tensor parallelism** cuts each matrix over $n$ GPUs and all-reduces activations four times per layer, $4.5 "
        "D/n$ FLOP per byte. The next product waits for each of them, so it stays inside a server."
    )
    link(**REFERENCES["h100"])
    link(**REFERENCES["scaling book"])


def map_of_the_rest() -> None:
    """A map of the other ways"""
    techniques = [
        ("FlashAttention, fused kernels", "intermediates stay on the chip", "activations", "special kernels"),
        ("tensor parallelism", "each matrix cut", "all four", "four all-reduces per layer"),
        ("sequence parallelism", "norms cut along $S$, with tensor parallelism", "activations", "the same traffic"),
        ("context parallelism", "a part of each sequence per GPU", "activations", "keys and values in a ring"),
        ("expert parallelism", "some experts per GPU", "parameters, gradients, states", "all-to-all per layer"),
        ("pipeline parallelism", "some layers per GPU", "parameters, gradients, states", "idle while it fills"),
        ("offloading", "kept in CPU memory", "states, parameters", "transfers per step"),
        ("8-bit states", "one byte, and a factor per block", "states, to a quarter", "rounding"),
        ("factored states (Adafactor)", "sums of rows and columns", "states", "an approximation"),
        ("LoRA", "train thin products beside frozen matrices", "gradients, states", "less can be learned"),
    ]  # @hide
    table(techniques, ["technique", "idea", "makes smaller", "price"])  # @hide
    text(
        "**Ask first which term is the largest**: only that one is worth making smaller. A model that trains at "
        "$S = 2048$ and runs out of memory at $S = 32768$ has too many activations: checkpoints help, then context "
        "parallelism. 8-bit states do not."
    )
    link(**REFERENCES["ultra-scale"])
    link(**REFERENCES["lora"])


# ---------------------------------------------------------------------------------------------------------
# 15 Saving and resuming


def saving_and_resuming() -> None:
    """Saving and resuming"""
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    np.random.seed(0)  # @hide
    random.seed(0)  # @hide
    text(
        "Which parts must a run save, and how often? Hardware breaks, and every step since the last save is computed "
        "again. If a resumed run ends with **the same bits** as an undisturbed one, no part was forgotten."
    )
    note("Three minutes. Ask who has resumed a run and missed a part. Skip the formula if time is short.")
    what_is_saved()
    with tempfile.TemporaryDirectory() as folder:  # @hide
        language_model_killed_and_resumed(Path(folder))
        writing_a_checkpoint(Path(folder))  # @deeper
    how_often_to_save()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. Save the model, optimizer, scheduler, scaler, step, position in the data and every random generator.\n"
        "2. Write to a second file, flush it, rename it. Then kill a run on purpose and compare bits.\n"
        "3. Save every $\\sqrt{2Ms}$ seconds, with $M$ seconds between failures and $s$ for a save. Section 16 uses it."
    )


def what_is_saved() -> None:
    """What a checkpoint holds"""
    text(
        "A *checkpoint*, here, is a file with all that one step leaves for the next: parameters and optimizer states, "
        "4 + 8 bytes per parameter in fp32 with AdamW. A resumed run also needs:"
    )
    small = [
        ("step, learning-rate scheduler", "they decide the next learning rate"),
        ("loss scale", "only with fp16 (section 12)"),
        ("position in the data", "or some examples are seen twice"),
        ("random generators", "of Python, NumPy, torch and each GPU"),
    ]  # @hide
    table(small, ["part", "why"])  # @hide


@one_thread()
def language_model_killed_and_resumed(folder: Path) -> None:
    """The language model, killed and resumed"""
    text(
        "One run takes eight steps. Another takes four and saves. A new model, from another seed, loads the file and "
        "takes the other four:"
    )
    train, _ = lecture_tokens()  # @stepover @hide
    start = partial(new_language_run, steps=8, where="cpu")  # makes a model, its optimizer and its generator
    whole, run = start(), start()  # @stepover
    expected = [train_step(whole, train).item() for _ in range(8)]  # the losses @inspect expected @stepover
    before = [train_step(run, train).item() for _ in range(4)]  # @stepover
    parts = {"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict()}
    parts |= {"generator": run.generator.get_state(), "step": run.step}
    path = folder / "model.pt"  # @hide
    save_atomically(parts, path)  # @stepover
    file_bytes = path.stat().st_size  # @hide
    del run, parts
    resumed, saved = start(seed=1), torch.load(path)  # a new model, and a dictionary: nothing is restored yet @stepover
    resumed.model.load_state_dict(saved["model"])
    resumed.optimizer.load_state_dict(saved["optimizer"])
    resumed.generator.set_state(saved["generator"])
    resumed.step = saved["step"]
    after = [train_step(resumed, train).item() for _ in range(4)]  # @inspect after @stepover
    assert before + after == expected
    assert all(torch.equal(a, b) for a, b in zip(resumed.model.parameters(), whole.model.parameters(), strict=True))
    parameters = sum(w.numel() for w in whole.model.parameters())  # @hide
    assert 12 * parameters < file_bytes < 12.3 * parameters  # @hide
    text(f"Losses and weights are equal bit for bit. The file has {file_bytes / parameters:.1f} bytes per parameter.")
    link(**REFERENCES["reproducibility"])


def save_atomically(checkpoint: dict[str, Any], path: Path) -> None:
    """Write a checkpoint so that at every moment `path` holds a whole one, even if the power fails"""
    partial_file = path.with_suffix(".partial")  # the same folder, so the same file system
    with partial_file.open("wb") as file:
        torch.save(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())  # wait until its bytes are on the disk
    os.replace(partial_file, path)  # one step: the name means the old file, then the new one
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # the new name is in the folder, which must reach the disk as well
    os.close(folder)


def best_interval(between_failures: float, save_time: float) -> float:
    """The seconds between saves for which the least time is lost"""
    return math.sqrt(2 * between_failures * save_time)


def share_lost(interval: float, save_time: float, between_failures: float) -> float:
    """The share of time that goes into saving, and into repeating lost work: half an interval a failure"""
    return save_time / interval + interval / 2 / between_failures


def how_often_to_save() -> None:
    """How often to save"""
    text(
        "Saving every $\\tau$ seconds costs $s/\\tau$ of the time if a save holds up training for $s$ seconds. "
        "Failures come every $M$ seconds, and each loses half an interval on average, $\\tau/(2M)$ of the time. The "
        "sum is least where both are equal:\n\n"
        "$$ \\tau = \\sqrt{2 M s}. $$\n\n"
        "Llama 3's 405B run had 419 unexpected interruptions in 54 days. Assume $s$ = 30 seconds."
    )
    between_failures, save_time = 54 * SECONDS_PER_DAY / 419, 30.0  # seconds
    ask(
        "After how many minutes should the run save again?",
        best_interval(between_failures, save_time) / 60,
        unit="min",
        within=0.03,
        hint="In seconds: $M$ = 54 × 86,400 / 419.",
        slips={
            math.sqrt(between_failures * save_time) / 60: "The 2 is missing, because a failure loses half an interval."
        },
    )
    interval = best_interval(between_failures, save_time)  # @inspect interval [s] @stepover
    lost = share_lost(interval, save_time, between_failures)  # @inspect lost @stepover
    assert (round(between_failures / 3600, 1), round(interval / 60)) == (3.1, 14)  # @hide
    grid = [interval * 2 ** (k / 8) for k in range(-24, 25)]  # @hide
    shares = [share_lost(tau, save_time, between_failures) for tau in grid]  # @hide @stepover
    assert min(shares) == shares[24] and grid[16] == interval / 2  # @hide
    assert math.isclose(shares[16], 1.25 * lost) and math.isclose(shares[32], 1.25 * lost)  # @hide
    simulated = simulated_share_lost(interval, save_time, between_failures)  # @hide @stepover
    assert abs(simulated / lost - 1) < 0.1  # the formula, against failures at random @hide
    minutes = [tau / 60 for tau in grid]  # @hide
    saved, repeated = [save_time / tau for tau in grid], [tau / 2 / between_failures for tau in grid]  # @hide
    series = {"saving": saved, "repeating": repeated, "together": shares}  # @hide
    title = "The time lost is least where saving and repeating cost the same, and the curve is flat there"  # @hide
    plot(
        series, x=minutes, x_label="minutes between saves", y_label="share of time", x_scale="log", title=title
    )  # @hide
    hourly = share_lost(3600, save_time, between_failures)  # @hide @stepover
    text(
        f"Under these assumptions the run would have saved every {interval / 60:.0f} minutes and lost {lost:.1%} of "
        f"its time; with a save each hour, {hourly:.1%}. Reloading comes on top. Large runs save while they train "
        "(`async_save`), which makes $s$ smaller."
    )
    link(**REFERENCES["young"])
    link(**REFERENCES["llama 3"])


def simulated_share_lost(interval: float, save_time: float, between_failures: float) -> float:
    """The share of time lost with failures at random: intervals that were saved before a failure are kept"""
    generator = torch.Generator().manual_seed(0)
    gaps = torch.empty(20_000, dtype=torch.float64).exponential_(1 / between_failures, generator=generator)  # s
    kept = (gaps / (interval + save_time)).floor() * interval
    return 1 - (kept.sum() / gaps.sum()).item()


def writing_a_checkpoint(folder: Path) -> None:
    """Writing and loading a checkpoint safely"""
    text(
        "A run that is killed while it overwrites its checkpoint has neither the old one nor the new one. So it writes "
        "to a second file and renames it: within one file system a rename is *atomic*, and whoever opens the name gets "
        "the old file or the new one. Two calls of `fsync` guard against a power cut:"
    )
    save_atomically({"numpy": np.random.get_state()}, folder / "states.pt")
    text(
        "`torch.save` writes a pickle, and unpickling can run any code that the file's author chose. So `torch.load` "
        "by default (`weights_only=True`) accepts tensors, numbers, strings and containers of them. NumPy's generator "
        "state has an array in it, and is refused:"
    )
    refusal = ""  # @hide
    try:
        torch.load(folder / "states.pt")
    except pickle.UnpicklingError as error:
        refusal = str(error).partition(".")[0]  # @inspect refusal
    assert "Weights only load failed" in refusal  # @hide
    text("Save plain data instead, with a tensor for the array. Then all generators draw the same again:")
    states = generator_states()
    save_atomically(states, folder / "states.pt")  # @stepover
    drawn = [float(np.random.normal()), random.random(), torch.rand(1).item()]  # @inspect drawn
    set_generator_states(torch.load(folder / "states.pt"))
    again = [float(np.random.normal()), random.random(), torch.rand(1).item()]  # @inspect again
    assert again == drawn
    of_70b = 12 * 70e9  # @hide
    minutes, shard_gb = of_70b / 1e9 / 60, of_70b / 1024 / 1e9  # @hide
    assert (round(minutes), round(shard_gb, 2)) == (14, 0.82)  # @hide
    text(
        f"A 70B model's checkpoint of {of_70b / 1e12:.2f} TB takes {minutes:.0f} minutes to write to one disk at 1 "
        f"GB/s (assumed). So on a cluster each GPU writes its own shard: {shard_gb:.2f} GB each on 1024 GPUs."
    )
    link(**REFERENCES["weights only"])


def generator_states() -> dict[str, Any]:
    """The state of every random generator, as tensors, numbers and tuples of them"""
    algorithm, words, *rest = np.random.get_state()
    states = {"torch": torch.get_rng_state(), "python": random.getstate()}
    states["numpy"] = (algorithm, torch.tensor(words.tolist()), *rest)  # its words are an array: converted
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def set_generator_states(states: dict[str, Any]) -> None:
    """Put every random generator back"""
    torch.set_rng_state(states["torch"])
    random.setstate(states["python"])
    algorithm, words, *rest = states["numpy"]
    np.random.set_state((algorithm, words.numpy().astype(np.uint32), *rest))
    if "cuda" in states:
        torch.cuda.set_rng_state_all(states["cuda"])


# ---------------------------------------------------------------------------------------------------------
# 16 Summary


def summary() -> None:
    """Summary"""
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    text("Given a model, its data and a number of GPUs: how long does training take, does it fit, and what limits it?")
    note(
        "Four minutes, and ten more for sizing the run together. Let each rule be explained by whoever remembers its "
        "section."
    )
    rules_of_thumb()
    when_memory_when_compute()  # @deeper
    size_a_run()
    what_to_do_with_it()


def shown_in(number: int, section: Callable[..., Any], part: Callable[..., Any]) -> str:
    """A link to the part of a section that backs a rule"""
    title = str(part.__doc__).partition("\n")[0]
    anchor = "-".join(re.findall("[a-z0-9]+", title.lower()))[:60]
    page = f"{number:02d}-{section.__name__.replace('_', '-')}"
    return f"[{number}]({page}.html#{anchor})"


def rules_of_thumb() -> None:
    """Rules of thumb"""
    rules = {
        "training takes $6ND$ FLOPs: 2 forward, 4 backward": (1, napkin_math, where_the_six_comes_from),
        "time = FLOPs / (peak × MFU); plan with 0.4": (5, compute_accounting, model_flops_utilization),
        "attention adds $12LDS$ per token, as much as the matrices at $S = 6D$": (
            8,
            models,
            flops_of_the_language_model,
        ),
        "measure warmed up, synchronized, repeated; take the median": (5, compute_accounting, timing_properly),
        "bytes = elements × bytes per element": (2, memory_accounting, bytes_of_a_tensor),
        "a layer has about $12D^2$ parameters": (8, models, parameters_of_the_language_model),
        "AdamW holds 16 bytes per parameter": (1, napkin_math, largest_model),
        "in bf16 a layer saves 34 to 41 bytes per token and width": (
            13,
            memory_of_a_training_step,
            activations_of_a_transformer,
        ),
        "run two steps before you believe that it fits": (13, memory_of_a_training_step, timeline_of_two_steps),
        "micro-batches divide activations, not FLOPs": (14, using_less_memory, gradient_accumulation),
        "recomputing costs at most a forward pass: 8 for 6": (14, using_less_memory, memory_against_recomputation),
        "ZeRO-3 leaves $16/n$ bytes per parameter": (14, using_less_memory, zero_stages),
        "ZeRO-3 needs about 1,000 tokens per GPU to cover its traffic": (
            14,
            using_less_memory,
            when_the_network_is_the_limit,
        ),
        "multiply in bf16, keep weights and states in fp32": (12, mixed_precision, updates_that_vanish),
        "start weights at $1/\\sqrt{D}$, before a ReLU at $\\sqrt{2/D}$": (8, models, weights_of_deviation_one),
        "save every √(2 × time between failures × save time)": (15, saving_and_resuming, how_often_to_save),
    }  # @hide
    table([(rule, shown_in(*place)) for rule, place in rules.items()], ["rule", "section"])  # @stepover @hide
    tokens, width = 512, 256  # @hide
    x, w = torch.randn(tokens, width, requires_grad=True), torch.randn(width, width, requires_grad=True)  # @hide
    forward = count(lambda: x @ w).flops / (tokens * w.numel())  # per parameter and token @hide
    y = x @ w  # @hide
    backward = count(lambda: torch.autograd.grad(y, (x, w), torch.ones_like(y))).flops / (tokens * w.numel())  # @hide
    assert (forward, backward) == (2, 4)  # @hide
    llama = Shape(128_256, 131_072, 8192, 80, 64, kv_heads=8, hidden=28_672)  # @hide
    bend = sum(flops_by_part(llama, 1).values()) / (6 * 70_553_706_496 * llama.context)  # over 6ND @stepover @hide
    assert round(bend, 2) == 3.42  # @hide


def when_memory_when_compute() -> None:
    """When memory, when compute"""
    text(
        "An operation with fewer FLOPs per byte than the machine's ridge (H100 in bf16: 295) is limited by memory. In "
        "*decoding*, the keys and values of earlier tokens are read from the **KV cache**. Weights are shared by all "
        "sequences of a batch; each sequence has its own cache. So its intensity is the number of query heads that "
        "share a KV head, whatever the batch (about twice that in DeepSeek's MLA, where one vector is both key and "
        "value):"
    )
    mha = intensity_of_a_cache(heads=1, key_width=128, value_width=128, cached=2 * 128)  # @stepover
    gqa = intensity_of_a_cache(heads=8, key_width=128, value_width=128, cached=2 * 128)  # Llama 3 70B @stepover
    mla = intensity_of_a_cache(heads=128, key_width=576, value_width=512, cached=576)  # DeepSeek-V3 @stepover
    assert (mha, gqa, round(mla)) == (1, 8, 242)
    width = 4096  # @hide
    weight = torch.empty(width, width, device="meta", dtype=torch.bfloat16)  # (D, D) @hide
    products = []  # @hide
    for rows in (1, 512, 8192):  # @hide
        x = torch.empty(rows, width, device="meta", dtype=torch.bfloat16)  # (rows, D), and so is the result @hide
        intensity = count(partial(torch.matmul, x, weight)).flops / (x.nbytes + weight.nbytes + x.nbytes)  # @hide
        assert math.isclose(intensity, rows * width / (2 * rows + width))  # @hide
        products.append(intensity)  # @hide
    assert [round(intensity, 1) for intensity in products] == [1.0, 409.6, 1638.4]  # @hide
    relu = count(x.relu).flops / (2 * x.nbytes)  # @hide
    assert relu == 1 / 4  # @hide
    intensities = {
        "ReLU": relu,
        "KV cache, multi-head attention": mha,
        "KV cache, Llama 3 70B (GQA: 8 share)": gqa,
        "KV cache, DeepSeek-V3 (MLA: 128 share a latent)": mla,
        "weights, decoding 1 sequence ($D = 4096$)": products[0],
        "weights, decoding 512 sequences": products[1],
        "weights, training or prefill, 8192 tokens": products[2],
    }  # @hide
    ridge = H100_BF16 / H100_BANDWIDTH  # @hide
    assert round(ridge, 1) == 295.4  # @hide
    assert [i < ridge for i in intensities.values()] == [True] * 5 + [False] * 2  # @hide
    lines = [(n, f"{i:.4g}", "memory" if i < ridge else "compute") for n, i in intensities.items()]  # @hide
    table(lines, ["operation", "FLOP/byte", "H100 limit"])  # @hide
    text(
        "**Memory-bound**: move fewer bytes per token (fuse, smaller formats, more sequences per read of the weights). "
        "**Compute-bound**: use faster formats or fewer FLOPs. **Neither**, with a low MFU: launches, data, network."
    )
    link(**REFERENCES["deepseek-v3"])


def intensity_of_a_cache(heads: int, key_width: int, value_width: int, cached: int) -> float:
    """FLOPs per byte of cache in bf16: `heads` queries share it; `cached` numbers are kept per token"""
    with torch.device("meta"):
        query, keys = torch.empty(1, heads, key_width), torch.empty(1, key_width, 2048)
        probabilities, values = torch.empty(1, heads, 2048), torch.empty(1, 2048, value_width)
        cache = torch.empty(2048, cached, dtype=torch.bfloat16)
    flops = count(partial(torch.bmm, query, keys)).flops + count(partial(torch.bmm, probabilities, values)).flops
    return flops / cache.nbytes


def size_a_run() -> None:
    """Size a run yourself"""
    parameters, tokens, gpus, width, layers = 13e9, 260e9, 64, 5120, 40  # @hide
    days = 6 * parameters * tokens / (gpus * H100_BF16 * 0.4) / SECONDS_PER_DAY  # @hide
    shards = 16 * parameters / gpus / 1e9  # @hide
    layer = 2 * 12 * width**2 / 1e9  # in bf16 @hide
    saved = 2048 * width * layers * bytes_saved_per_width(1, 2.7) / 1e9  # @stepover @hide
    logits = 3 * 4 * 2048 * 32000 / 1e9  # @hide
    inputs = 2048 * width * 2 * layers / 1e9  # @hide
    free = H100_MEMORY / 1e9 - shards - 3 * layer - 3  # @hide
    assert (round(days, 2), shards, round(layer, 2)) == (9.27, 3.25, 0.63)  # @hide
    text(
        "13 billion parameters (40 layers of width 5120, $F = 2.7D$, vocabulary 32000), 260 billion tokens in "
        f"sequences of 2048, 64 H100s, ZeRO-3. At an MFU of 0.4, $6ND$ FLOPs take {days:.1f} days. Each GPU holds, in "
        "GB:"
    )
    rows = [
        ("shards: $16 N / 64$", round(shards, 2)),
        ("2 gathered layers and one layer's gradients: $3 \\cdot 12 D^2 \\cdot 2$ bytes", round(3 * layer, 2)),
        ("CUDA context and network buffers (assumed; 2 to 4)", 3.0),
        ("per sequence: activations, at 37.6 bytes per token, layer and width", round(saved, 2)),
        ("per sequence: three tensors like the logits, fp32", round(logits, 2)),
        ("per sequence, with a checkpoint per layer: 40 inputs, in place of activations", round(inputs, 2)),
    ]  # @hide
    table(rows, ["part", "GB"])  # @hide
    plain, with_checkpoints = free / (saved + logits), free / (inputs + max(saved / layers, logits))  # @hide
    ask(
        "How many sequences fit on a GPU at once with a checkpoint per layer? (The logits are freed before a layer is "
        "computed again: only the larger of logits and one layer counts.)",
        math.floor(with_checkpoints),
        within=0,
        hint="How much of the 80 GB is left for sequences, and how many bytes does each need?",
        why="$(80 - 3.25 - 1.89 - 3) / (0.84 + 0.79)$. Without checkpoints 4 fit.",
        slips={
            math.floor(plain): "That is without checkpoints.",
            math.floor((80 - shards) / (inputs + logits)): "Gathered layers, gradients and buffers also need memory.",
        },
    )
    assert (math.floor(plain), math.floor(with_checkpoints)) == (4, 44)  # @hide
    seconds = 3 * 2 * parameters / 50e9  # @hide
    needed = seconds * 0.4 * H100_BF16 / (6 * parameters)  # tokens @hide
    ask(
        f"ZeRO-3 brings $3 \\cdot 2 \\cdot 13 \\cdot 10^9$ bytes = 78 GB to each GPU per step: {seconds:.1f} s "
        "through its own network card, at 50 GB/s. From how many tokens per GPU does computing take as long?",
        needed,
        unit="tokens",
        within=0.03,
        hint="$6NT$ FLOPs at 0.4 of 989.5 TFLOP/s.",
        why="The model's size cancels: section 14's number holds for any. 4 sequences have 8192 tokens, which is "
        "enough; with checkpoints 44 fit. If the 8 cards of a server share the work, 990 tokens are enough.",
        slips={needed / 0.4: "That is at the peak. The MFU is 0.4.", needed / 3: "Each parameter is sent three times."},
    )
    assert round(needed) == 7916 < 4 * 2048 and round(needed / 8) == 990  # @hide


def what_to_do_with_it() -> None:
    """What to do with it"""
    text(
        "**Before** a run, calculate: does it fit, and for how many days? **On the first steps**, count: $6ND$ FLOPs, "
        "16 bytes per parameter? **While it runs**, measure the MFU: is memory, compute or network the limit?"
    )
    for name in ("scaling book", "ultra-scale", "brrr", "transformer math"):
        link(**REFERENCES[name])


if __name__ == "__main__":
    from trace_tools.lecture.run_plain import run

    run(main)
