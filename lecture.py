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
import mmap
import os
import pickle
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import torch
from einops import EinopsError, einsum, rearrange, reduce, repeat
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor, nn, optim
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from trace_tools import (
    ask,
    count,
    decide,
    device,
    explore,
    link,
    measure,
    note,
    peak_bandwidth,
    peak_flops,
    plot,
    table,
    text,
)
from trace_tools.accelerators import accelerator
from trace_tools.drawings import (
    draw_adam,
    draw_batched_matmul,
    draw_bits,
    draw_chain,
    draw_gpu,
    draw_memories,
    draw_rings,
    draw_road_map,
    draw_roofline,
    draw_segments,
    draw_storage,
    draw_views,
)
from trace_tools.machines.known_machines import known_machine, known_machines
from trace_tools.metering.measurement import Count, Measurement
from trace_tools.metering.timeline import bytes_alive

# Datasheet figures of the GPU that the napkins assume (NVIDIA H100 Tensor Core GPU Datasheet, SXM).
H100_SPARSE_BF16 = 1979e12  # FLOP/s, with 2:4 sparsity: half of every four weights are zero
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
    "hopper": {
        "url": "https://developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth/",
        "title": "NVIDIA Hopper Architecture In-Depth",
        "authors": "NVIDIA",
        "date": "2022",
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
    "bfloat16": {
        "url": ""
        "https://cloud.google.com/blog/products/ai-machine-learning/bfloat16-the-secret-to-high-performance-on-cloud-tpus",
        "title": "BFloat16: The secret to high performance on Cloud TPUs",
        "authors": "Wang and Kanwar",
        "date": "2019",
    },
    "nvfp4": {
        "url": "https://developer.nvidia.com/blog/introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/",
        "title": "Introducing NVFP4 for Efficient and Accurate Low-Precision Inference",
        "authors": "NVIDIA",
        "date": "2025",
    },
    "mx formats": {
        "url": "https://arxiv.org/abs/2310.10537",
        "title": "Microscaling Data Formats for Deep Learning",
        "authors": "Rouhani et al.",
        "date": "2023",
    },
    "internals": {
        "url": "https://blog.ezyang.com/2019/05/pytorch-internals/",
        "title": "PyTorch internals",
        "authors": "Edward Z. Yang",
        "date": "2019",
    },
    "einops": {
        "url": "https://openreview.net/forum?id=oapKSVM2bcj",
        "title": "Einops: Clear and Reliable Tensor Manipulations with Einstein-like Notation",
        "authors": "Alex Rogozhnikov",
        "date": "2022",
    },
    "jaxtyping": {
        "url": "https://docs.kidger.site/jaxtyping/",
        "title": "jaxtyping: type annotations and runtime checking for shape and dtype",
        "authors": "Patrick Kidger",
    },
    "gpt-4 compute": {
        "url": "https://epoch.ai/data-insights/models-over-1e25-flop",
        "title": "Over 30 AI models have been trained at the scale of GPT-4",
        "authors": "Epoch AI",
        "date": "2025",
    },
    "gpt-2": {
        "url": "https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf",
        "title": "Language Models are Unsupervised Multitask Learners",
        "authors": "Radford et al.",
        "date": "2019",
    },
    "executive order": {
        "url": ""
        "https://www.federalregister.gov/documents/2023/11/01/2023-24283/safe-secure-and-trustworthy-development-and-use-of-artificial-intelligence",
        "title": "Executive Order 14110: Safe, Secure, and Trustworthy Development and Use of Artificial Intelligence",
        "date": "2023, revoked in 2025",
    },
    "palm": {
        "url": "https://arxiv.org/abs/2204.02311",
        "title": "PaLM: Scaling Language Modeling with Pathways",
        "authors": "Chowdhery et al.",
        "date": "2022",
        "description": "MFU was defined here, in appendix B.",
    },
    "matmul guide": {
        "url": "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",
        "title": "Matrix Multiplication Background User's Guide",
        "authors": "NVIDIA",
    },
    "roofline": {
        "url": "https://dl.acm.org/doi/10.1145/1498765.1498785",
        "title": "Roofline: An Insightful Visual Performance Model for Multicore Architectures",
        "authors": "Williams, Waterman and Patterson",
        "date": "2009",
    },
    "brrr": {
        "url": "https://horace.io/brrr_intro.html",
        "title": "Making Deep Learning Go Brrrr From First Principles",
        "authors": "Horace He",
        "date": "2022",
    },
    "scaling book": {
        "url": "https://jax-ml.github.io/scaling-book/",
        "title": "How to Scale Your Model",
        "authors": "Austin et al.",
        "date": "2025",
    },
    "h200": {
        "url": "https://www.nvidia.com/en-us/data-center/h200/",
        "title": "NVIDIA H200 Tensor Core GPU",
        "authors": "NVIDIA",
    },
    "a100": {
        "url": "https://www.nvidia.com/en-us/data-center/a100/",
        "title": "NVIDIA A100 Tensor Core GPU",
        "authors": "NVIDIA",
    },
    "autograd": {
        "url": "https://docs.pytorch.org/docs/stable/notes/autograd.html",
        "title": "Autograd mechanics",
        "authors": "PyTorch documentation",
    },
    "glorot": {
        "url": "https://proceedings.mlr.press/v9/glorot10a.html",
        "title": "Understanding the difficulty of training deep feedforward neural networks",
        "authors": "Glorot and Bengio",
        "date": "2010",
    },
    "he": {
        "url": "https://arxiv.org/abs/1502.01852",
        "title": "Delving Deep into Rectifiers: Surpassing Human-Level Performance on ImageNet Classification",
        "authors": "He et al.",
        "date": "2015",
    },
    "reproducibility": {
        "url": "https://docs.pytorch.org/docs/stable/notes/randomness.html",
        "title": "Reproducibility",
        "authors": "PyTorch documentation",
    },
    "llama": {
        "url": "https://arxiv.org/abs/2302.13971",
        "title": "LLaMA: Open and Efficient Foundation Language Models",
        "authors": "Touvron et al.",
        "date": "2023",
    },
    "pinned memory": {
        "url": "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
        "title": "A guide on good usage of non_blocking and pin_memory() in PyTorch",
        "authors": "PyTorch tutorials",
    },
    "adagrad": {
        "url": "https://jmlr.org/papers/v12/duchi11a.html",
        "title": "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization",
        "authors": "Duchi, Hazan and Singer",
        "date": "2011",
    },
    "rmsprop": {
        "url": "https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf",
        "title": "Neural Networks for Machine Learning, lecture 6",
        "authors": "Hinton, Srivastava and Swersky",
        "date": "2012",
    },
    "adam": {
        "url": "https://arxiv.org/abs/1412.6980",
        "title": "Adam: A Method for Stochastic Optimization",
        "authors": "Kingma and Ba",
        "date": "2014",
    },
    "muon": {
        "url": "https://kellerjordan.github.io/posts/muon/",
        "title": "Muon: An optimizer for hidden layers in neural networks",
        "authors": "Keller Jordan et al.",
        "date": "2024",
    },
    "selective recomputation": {
        "url": "https://arxiv.org/abs/2205.05198",
        "title": "Reducing Activation Recomputation in Large Transformer Models",
        "authors": "Korthikanti et al.",
        "date": "2022",
    },
    "flash attention": {
        "url": "https://arxiv.org/abs/2205.14135",
        "title": "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness",
        "authors": "Dao et al.",
        "date": "2022",
    },
    "sublinear": {
        "url": "https://arxiv.org/abs/1604.06174",
        "title": "Training Deep Nets with Sublinear Memory Cost",
        "authors": "Chen et al.",
        "date": "2016",
    },
    "lora": {
        "url": "https://arxiv.org/abs/2106.09685",
        "title": "LoRA: Low-Rank Adaptation of Large Language Models",
        "authors": "Hu et al.",
        "date": "2021",
    },
    "ultra-scale": {
        "url": "https://huggingface.co/spaces/nanotron/ultrascale-playbook",
        "title": "The Ultra-Scale Playbook: Training LLMs on GPU Clusters",
        "authors": "Hugging Face",
        "date": "2025",
    },
    "weights only": {
        "url": "https://docs.pytorch.org/docs/stable/notes/serialization.html",
        "title": "Serialization semantics: torch.load with weights_only=True",
        "authors": "PyTorch",
    },
    "young": {
        "url": "https://doi.org/10.1145/361147.361115",
        "title": "A first order approximation to the optimum checkpoint interval",
        "authors": "John W. Young",
        "date": "1974",
    },
    "fp8-lm": {
        "url": "https://arxiv.org/abs/2310.18313",
        "title": "FP8-LM: Training FP8 Large Language Models",
        "authors": "Peng et al.",
        "date": "2023",
    },
    "deepseek-v3": {
        "url": "https://arxiv.org/abs/2412.19437",
        "title": "DeepSeek-V3 Technical Report",
        "authors": "DeepSeek-AI",
        "date": "2024",
    },
    "nvfp4 training": {
        "url": "https://arxiv.org/abs/2509.25149",
        "title": "Pretraining Large Language Models with NVFP4",
        "authors": "NVIDIA",
        "date": "2025",
    },
    "transformer engine": {
        "url": "https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/",
        "title": "Transformer Engine documentation",
        "authors": "NVIDIA",
    },
    "amp": {
        "url": "https://docs.pytorch.org/docs/stable/amp.html",
        "title": "Automatic Mixed Precision package: torch.amp",
        "authors": "PyTorch",
    },
}


def main() -> None:
    """PyTorch and resource accounting

    What does it take to train a language model? Bytes and FLOPs (additions and multiplications). After this lecture you
    can say, before anything has run, how many days and dollars a model will take, whether it fits into memory, and what
    the machine will wait for. Each number is derived, then counted, then measured by the program that you are reading.

    **You should know** some Python and NumPy, what matrix products, logarithms and probabilities are, and what a
    gradient is for. **You need** no GPU and no network: where a GPU is mentioned, its datasheet is quoted.
    """
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
    saved_parameters: int = 2**18  # enough for a file whose writing can be timed
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
    gpu = accelerator(device())
    free_bytes, _ = gpu.memory_info()  # others may be on this GPU, and what they hold is not to be had
    gigabytes = (free_bytes + gpu.reserved_bytes()) / 1e9  # what this process holds already is
    # Between the sizes that cards have, so that some more or less in use is no other lecture.
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
        saved_parameters=2**24,
        step_width=side,
        step_batch=side,
    )


# ---------------------------------------------------------------------------------------------------------
# 0 Overview


def overview() -> None:
    """Overview"""
    text(
        f"After this page you can read all the others: you know the symbols, the units, and what stands beside a line "
        f"of code. The key figure: the weights of a model of 70 billion parameters, 2 bytes each, are "
        f"{140e9 / 1e9:.0f} GB, which many tools show as {140e9 / 2**30:.1f}."
    )
    note(
        "Ten minutes. Start with the bill, because it is why anyone counts. Then show how to read a page: step into a "
        "function to see its lines, step over it to see only its result."
    )
    efficiency_is_money()
    what_there_is_to_learn()
    symbols_and_units()
    where_the_transformer_is_explained()
    text(
        "**In three lines.**\n\n"
        "1. Training uses up memory (bytes) and compute (FLOPs, a count; FLOP/s is a rate).\n"
        "2. Half the speed doubles the bill. So derive a number before a run, count it and measure it in the run.\n"
        "3. GB and GiB differ, and so do a count and a rate: say which one is meant."
    )


def efficiency_is_money() -> None:
    """Efficiency is money"""
    text(
        "Training a language model (it predicts how a text goes on) uses up two resources: **memory**, counted in "
        "bytes, and **compute**, counted in floating-point operations (**FLOPs**). The question behind this lecture "
        "is:\n\n"
        "> What is the best model that fixed resources can buy?\n\n"
        "GPUs, processors that do thousands of multiplications at once, are rented by the hour, however busy they "
        "are. Here is one training run at a quarter and at half of the speed that they promise:"
    )
    tokens, flops_per_token = 1e9, 6e12  # of the run; a token is a piece of text
    promised = 1e15  # FLOP/s of one GPU
    slow_hours = tokens * flops_per_token / (0.25 * promised) / 3600  # GPU-hours @inspect slow_hours
    fast_hours = tokens * flops_per_token / (0.5 * promised) / 3600  # @inspect fast_hours
    assert (round(slow_hours), fast_hours) == (6667, slow_hours / 2)
    ask(
        "The slower run is paid for, and then the speed is doubled. What else does the same bill buy?",
        "twice the tokens, in the same GPU-hours",
        choices=["twice the time", "twice the tokens, in the same GPU-hours", "four times the tokens"],
        why="The bill is for GPU-hours. At the same bill the hours are the same, and the work done in them doubles.",
        slips={"twice the time": "The time is what is paid for: the same bill is the same time."},
    )
    affordable_tokens = slow_hours * 3600 * 0.5 * promised / flops_per_token  # in as many hours, at half the promise
    assert affordable_tokens == 2 * tokens  # @inspect affordable_tokens
    text("So you work out what a run will take before it, count while it runs, and compare afterwards.")


def what_there_is_to_learn() -> None:
    """What there is to learn"""
    text(
        "- **Mechanics**: what PyTorch does with every byte and every operation.\n"
        "- **Mindset**: account for resources, always. *Derive* a number, *count* it, *measure* it, and explain the "
        "difference.\n"
        "- **Intuition**: which cost will dominate, before anything has run."
    )
    stages = [
        ("napkin", "days and GPUs\nsection 1"),
        ("tensors", "bytes and FLOPs\nsections 2 to 7"),
        ("models and data", "parameters, tokens\nsections 8 and 9"),
        ("optimizers", "states\nsection 10"),
        ("training loop", "time of a step\nsections 11 and 12"),
        ("a whole run", "activations, files\nsections 13 to 15"),
    ]  # @hide
    plot(draw_road_map(stages), title="The road, and what is accounted for along it")  # @hide
    text(
        f"This lecture is a program. Beside a line stands what that line did on the machine named on this page:\n\n"
        f"- **A value** is that of one run. *varies*: runs differed, and the range of all stands beside it, 13 "
        f"[10 … 14] (*first runs*: those of a process that has just begun). *follows from a clock*: it was computed "
        f"from a time.\n"
        f"- **A time** has ± half the range of its runs behind it; *with measuring*: counting or timing is in it.\n"
        f"- **An `assert` is a claim**: ✓ says that it was executed, and held in every run.\n"
        f"- **A tensor** (an array): `f32[2, 3]` is its format (fp32, which torch calls `float32`) and shape, `f32[]` "
        f"a single number; *storage s24* names the memory it lies in (section 3).\n"
        f"- **A function** that is called: its code stands below the call, or the call names the section where it "
        f"does. What comes from the lecture's own tools is explained where it is used.\n\n"
        f"Sentences that depend on the hardware were chosen by what was measured on it. *Dispatch* is what PyTorch "
        f"does before an operation's arithmetic begins, some microseconds. `device()` is the GPU, if there is one, "
        f"and `sizes()` holds the sizes to work with, larger ones on a GPU. The constants in capitals are from the "
        f"datasheet of a GPU, NVIDIA's H100: `H100_MEMORY` is {H100_MEMORY / 1e9:.0f} GB, `H100_BANDWIDTH`, how fast "
        f"it is read, {H100_BANDWIDTH / 1e12} TB/s, `H100_SPARSE_BF16` {H100_SPARSE_BF16 / 1e12:.0f} TFLOP/s, of "
        f"which a *dense* product, one without zeros to skip, can use half (section 1)."
    )


def symbols_and_units() -> None:
    """Symbols and units"""
    symbols = [
        ("$B$", "sequences (stretches of text) in a batch", "$N$", "parameters of a model"),
        ("$S$", "tokens in a sequence", "$L$", "layers"),
        ("$D$", "width: numbers per token", "$K$", "outputs of a layer of width $D$"),
        ("$H$", "heads of attention (section 3)", "$V$", "entries of the vocabulary: different tokens"),
        ("$T$", "tokens in a batch, $BS$", "$C$", "FLOPs of a training run"),
    ]  # @hide
    table(symbols, ["symbol", "meaning", "symbol ", "meaning "])  # @hide
    text(
        "A **token** is a piece of text, often part of a word. The literature on scaling writes $6ND$ (section 1) "
        "with $D$ for the tokens of a training run. Here $D$ is a width, except where $6ND$ is quoted."
    )
    gigabyte, gibibyte = 10**9, 2**30  # bytes @inspect gigabyte gibibyte
    weights_gib = 70e9 * 2 / gibibyte  # @inspect weights_gib
    assert round(weights_gib, 1) == 130.4
    text(
        f"k, M, G, T, P, E are powers of 1000; Ki, Mi, Gi, Ti are powers of 1024. The difference grows: "
        f"{70e9 * 2 / gigabyte:.0f} GB are {weights_gib:.1f} GiB, and a TiB is {2**40 / 10**12 - 1:.0%} more than a "
        f"TB. Disks and files are sold and listed in GB; many tools count in GiB and print GB."
    )
    ask(
        "A saved model of 500 GB is copied to a disk with 470 GiB free. How many GiB does it take?",
        500e9 / gibibyte,
        unit="GiB",
        hint="Bytes first, then divide by $2^{30}$.",
        why="It fits.",
        slips={
            500e9 / 2**20 / 1000: "That mixes both: MiB, divided by 1000.",
            500 * 1.024**3: "The other way round: a GiB is larger than a GB, so there are fewer of them.",
        },
    )
    shown_gb = 81559 * 2**20 / gigabyte  # what `nvidia-smi` shows for an H100: 81559 MiB @inspect shown_gb
    assert round(shown_gb, 1) == 85.5 and round(81559 / 1024, 1) == 79.6  # GB, GiB
    text(
        f"A GPU's memory fits neither. An H100 is sold with {H100_MEMORY / 1e9:.0f} GB, and NVIDIA's monitor "
        f"`nvidia-smi` shows 81559 MiB: that is {81559 / 1024:.1f} GiB, or {shown_gb:.1f} GB. The lecture calculates "
        f"with what is sold; drivers and libraries take some of the difference."
    )
    ask(
        "A monitor shows `gib` GiB. Write the line that computes `gb` from it.",
        "gb = gib * 2**30 / 1e9",
        why="Bytes first, then GB: 7% more of them.",
    )
    text(
        "**FLOPs** are a *count*: work. **FLOP/s** is a *rate*: speed. The spelling FLOPS is read both ways, so it "
        "does not appear here. A multiplication is one FLOP, and so is an addition. A rate times a time is a count: a "
        "*PFLOP/s-day* is the work of $10^{15}$ FLOP/s for a day. (A *GPU-hour* is a time: one GPU, rented for one "
        "hour.)"
    )
    pflop_s_day = 1e15 * SECONDS_PER_DAY  # @inspect pflop_s_day [FLOP]
    assert pflop_s_day == 8.64e19
    ask(
        "A run does the same work in twice the time. What is still the same?",
        "its PFLOP/s-days",
        choices=["its GPU-hours", "its FLOP/s", "its PFLOP/s-days"],
        why="A rate times a time counts work: half the rate, twice the time.",
        slips={
            "its GPU-hours": "GPUs times hours: it counts what is rented, whatever is done with it.",
            "its FLOP/s": "Half as many: a rate is work over time.",
        },
    )
    ask(
        "GPT-3 (OpenAI, 2020, 175 billion parameters) took $3.14 \\times 10^{23}$ FLOPs. How many PFLOP/s-days is "
        "that?",
        3.14e23 / pflop_s_day,
        unit="PFLOP/s-days",
        hint="Divide by the count above.",
        slips={3.14e23 / 1e15: "Those are seconds at one PFLOP/s, not days."},
    )
    ask(
        'Find the error: "our GPUs did $8.64 \\times 10^{19}$ FLOPs at 2 PFLOP/s, in 43.2 seconds". How long did '
        "it take, in seconds?",
        pflop_s_day / 2e15,
        unit="s",
        why="A count divided by a rate is a time: half a day here. The report lost a factor of 1000.",
        slips={43.2: "That is the report's number.", SECONDS_PER_DAY: "That is at 1 PFLOP/s."},
    )


def where_the_transformer_is_explained() -> None:
    """Where the Transformer is explained"""
    text(
        "The models are Transformers, the architecture of today's language models. This lecture uses their shapes and "
        "does not derive them. For the architecture itself:"
    )
    for name in ("attention", "illustrated", "annotated"):
        link(**REFERENCES[name])
    text("The same accounting, for the Transformer as a whole:")
    for name in ("transformer math", "transformer memory", "transformer flops"):
        link(**REFERENCES[name])


# ---------------------------------------------------------------------------------------------------------
# 1 Napkin math


def napkin_math() -> None:
    """Napkin math"""
    needed_bytes = 70e9 * (4 + 4 + 4 + 4)  # @hide
    text(
        f"After this section you can answer two questions with a few multiplications: how long does a model take to "
        f"train, and how large a model fits into memory? The key figure: training 70 billion parameters in "
        f"fp32 takes at least {needed_bytes / 1e12:.2f} TB of memory, as much as {needed_bytes / H100_MEMORY:.0f} "
        "large GPUs have."
    )
    note(
        "Ten minutes. Let the room guess the days before you show them; most guesses are off by a factor of ten. "
        "If time is short, leave out the real run."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    time_to_train()
    largest_model()
    where_the_six_comes_from()
    napkin_against_reality()
    best_model_for_the_compute()
    where_the_six_bends()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. A run takes $C = 6ND$ FLOPs ($N$ parameters, $D$ here the tokens): 2 forward and 4 backward for each.\n"
        "2. Time = FLOPs / (GPUs × peak × MFU). The peak is the dense one, and an MFU of 0.5 is good.\n"
        "3. AdamW in fp32 holds 16 bytes per parameter, before activations."
    )


def time_to_train() -> None:
    """How long does a 70B model take to train?"""
    text(
        "The model has 70 billion **parameters**, the numbers that training adjusts. The text has 15 trillion tokens. "
        "There are 1024 H100s, GPUs for data centres. Training takes 6 FLOPs for each parameter and each token, as "
        "is worked out below."
    )
    parameters, tokens, gpus = 70e9, 15e12, 1024
    total_flops = 6 * parameters * tokens  # @inspect total_flops [FLOP]
    assert total_flops == 6.3e24
    text(
        f"The speed is what the datasheet promises, the **peak**, times the share of it that training reaches: the "
        f"**model FLOPs utilization**, MFU. The H100's datasheet (its faster form, SXM) says "
        f"{H100_SPARSE_BF16 / 1e12:.0f} TFLOP/s for bf16, a number format of 2 bytes. That assumes *2:4 sparsity*, two "
        f"zeros among every four weights. Training has no such zeros, so its *dense* peak is half of that. An MFU of "
        f"0.5 is good: Google's PaLM reached {PALM_MFU:.2f}."
    )
    promised = H100_SPARSE_BF16 / 2  # @inspect promised [FLOP/s]
    mfu = 0.5
    flops_per_day = promised * mfu * gpus * SECONDS_PER_DAY  # @inspect flops_per_day [FLOP]
    assert round(flops_per_day / 1e22, 3) == 4.377
    ask(
        "Predict before you go on: how many days does the training take?",
        total_flops / flops_per_day,
        unit="days",
        within=0.05,
        hint="The work of the run, divided by the work of a day.",
        slips={
            total_flops / flops_per_day / 2: "Half: that is the sparse peak, or an MFU of 1.",
            total_flops / flops_per_day * gpus: "That is one GPU. There are 1024.",
        },
    )
    days = total_flops / flops_per_day  # @inspect days [d]
    assert round(days, 2) == 143.93
    days_at = {m: round(days * mfu / m, 1) for m in (0.3, 0.4, 0.5, 0.6)}  # @inspect days_at
    assert days_at == {0.3: 239.9, 0.4: 179.9, 0.5: 143.9, 0.6: 119.9}
    plot({"days": list(days_at.values())}, x=list(days_at), x_label="MFU", y_label="days", style="bars")  # @hide
    gpu_hours = days * 24 * gpus  # @inspect gpu_hours
    assert round(gpu_hours / 1e6, 2) == 3.54
    dollars_an_hour = 2.0  # assumed; rents change by the month
    dollars = gpu_hours * dollars_an_hour  # @inspect dollars [USD]
    text(
        f"{days:.0f} days: a little under five months. In money: {gpu_hours / 1e6:.2f} million GPU-hours, which at an "
        f"assumed {dollars_an_hour:.0f} dollars an hour is {dollars / 1e6:.1f} million dollars."
    )
    run = training_run(parameters, tokens, gpus, promised, mfu, dollars_an_hour)  # all of it at once @inspect run
    assert math.isclose(run["days"], days) and math.isclose(run["dollars"], dollars)
    explore(
        training_run,
        "{days} on {gpus} × {GPU}, and {dollars}: {flops} in {gpu_hours}. {tokens_per_parameter} tokens for each "
        "parameter; 20 are best for a given compute (below).",
        title="Days and dollars, of your own model and machine",
        inputs={
            "parameters": (parameters, 1e6, 1e13),
            "tokens": (tokens, 1e8, 1e15),
            "gpus": (gpus, 1, 200_000),
            "mfu": (mfu, 0.05, 1.0),
            "dollars_an_hour": (dollars_an_hour, 0.1, 20.0),
        },
        menus={"GPU": gpus_of_the_table()},
        names={"gpus": "GPUs", "mfu": "MFU", "gpu_hours": "GPU-hours", "dollars_an_hour": "dollars an hour of a GPU"},
        units={"peak": "FLOP/s", "flops": "FLOP", "days": "days", "gpu_hours": "GPU-hours", "dollars": "dollars"},
        curve=("mfu", "days"),
        across="GPU",
    )  # @stepover
    errors_of_the_training_time(total_flops, flops_per_day)
    a_peak_rounded_too_early(total_flops)  # @deeper
    link(**REFERENCES["h100"])
    link(**REFERENCES["palm"])


def training_run(
    parameters: float, tokens: float, gpus: float, peak: float, mfu: float, dollars_an_hour: float
) -> dict[str, float]:
    """What a training run takes: 6 FLOPs for each parameter and token, at a share of the peak"""
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
    """Each GPU that the tools know a dense bf16 peak of, an H100 first: FLOP/s, bytes/s, bytes"""
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


def errors_of_the_training_time(total_flops: float, flops_per_day: float) -> None:
    """Find the error"""
    ask(
        "Someone writes that this cluster does $4.4 \\times 10^{19}$ FLOPs a day. How many years would the run take?",
        total_flops / 4.4e19 / 365,
        unit="years",
        within=0.05,
        why="The true number a day is about 1000 times that: the exponent is 3 too small. Say a result in years or "
        "dollars, and see whether it is sane.",
        slips={total_flops / 4.4e19: "Those are days."},
    )
    assert round(flops_per_day / 4.4e19, -1) == 990  # times too few FLOPs a day
    ask(
        "Write the line that computes `days` from `parameters`, `tokens`, `gpus`, `peak` (FLOP/s) and `mfu`.",
        "days = 6 * parameters * tokens / (gpus * peak * mfu) / 86_400",
        why="The same line as above, in one: work, over speed, over the seconds of a day.",
    )


def a_peak_rounded_too_early(total_flops: float) -> None:
    """Rounded too early"""
    ask(
        "Someone else computes 142.5 days, with an MFU of 0.5 and the dense peak. What happened?",
        "the peak was rounded to 1000 TFLOP/s, and then a day's work",
        choices=[
            "the sparse peak was used",
            "a year was counted as 360 days",
            "the peak was rounded to 1000 TFLOP/s, and then a day's work",
            "the backward pass was forgotten",
        ],
        why="The peak alone gives 142.4 days. Round once, at the end.",
        slips={
            "the sparse peak was used": "That would halve the days.",
            "the backward pass was forgotten": "That would leave a third of the days.",
        },
    )
    day = 1000e12 * 0.5 * 1024 * SECONDS_PER_DAY  # at the rounded peak @inspect day [FLOP]
    rounded_twice = total_flops / round(day, -20)  # @inspect rounded_twice [d]
    assert (round(total_flops / day, 1), round(rounded_twice, 1)) == (142.4, 142.5)


def largest_model() -> None:
    """What is the largest model that 8 H100s can train with AdamW?"""
    text(
        "For each parameter, training holds the parameter itself; its **gradient**, which says how the loss (what "
        "training makes small) changes with it; and the states of the **optimizer**, the rule that turns gradients "
        "into changes. AdamW, the usual one, keeps two running averages for each parameter, of its gradients and of "
        "their squares (section 10).\n\n"
        "A number takes 4 bytes in the format fp32 and 2 in bf16 (section 2). *Mixed precision* computes in bf16, and "
        "may keep a *master copy* of the parameters in fp32, so that small changes are not rounded away (section 12)."
    )
    # bytes of a parameter, gradient, master copy, optimizer states. RECIPES counts one state, AdamW has two:
    recipes = {name: (*others, 2 * state) for name, (*others, state) in RECIPES.items()}  # @inspect recipes
    held = [sum(parts) for parts in recipes.values()]  # bytes per parameter @inspect held
    assert held == [16, 12, 14, 16, 8]
    names = ["fp32", "fp32 states", "bf16 grads", "master", "all bf16"]  # @hide
    parts = zip(
        ("parameters", "gradients", "master copy", "states"), zip(*recipes.values(), strict=True), strict=True
    )  # @hide
    plot(
        {part: list(each) for part, each in parts},
        x=names,
        y_label="bytes",
        style="stacked",
        title="Bytes per parameter, in the order of the recipes",
    )  # @hide
    ask(
        "Predict: how many billions of parameters fit into 8 H100s of 80 GB at 16 bytes per parameter?",
        8 * H100_MEMORY / held[0] / 1e9,
        unit="billion parameters",
        slips={
            H100_MEMORY / held[0] / 1e9: "That is one GPU.",
            8 * H100_MEMORY / 4 / 1e9: "Those are the parameters alone, without gradients and states.",
        },
    )
    memory_bytes = 8 * H100_MEMORY  # @inspect memory_bytes [B]
    largest = [round(memory_bytes / total / 1e9, 1) for total in held]  # 10⁹ parameters @inspect largest
    assert largest == [40.0, 53.3, 45.7, 40.0, 80.0]
    rows = [(name, *recipes[name], sum(recipes[name]), n) for name, n in zip(recipes, largest, strict=True)]  # @hide
    table(rows, ["recipe", "parameters", "gradients", "master", "states", "bytes", "largest, 10⁹"])  # @hide
    text(
        "With a master copy, mixed precision saves *no* memory here; it is used because it is faster. PyTorch's AdamW "
        "makes its averages in the format of the parameters: in bf16 for bf16.\n\n"
        "The table assumes *sharding*: each number is on one of the 8 GPUs (section 14). In plain *data parallelism* "
        "each GPU works on a part of the batch and holds a full copy of all this, and one GPU's memory is the limit:"
    )
    assert H100_MEMORY / held[0] == 5e9
    text("And what a 70B model needs at 16 bytes per parameter:")
    needed_bytes = 70e9 * held[0]  # @inspect needed_bytes [B]
    gpus = math.ceil(needed_bytes / H100_MEMORY)  # @inspect gpus
    assert (needed_bytes, gpus) == (1.12e12, 14)
    text("That is before **activations**, what computing the loss leaves in memory for the gradients (section 13).")


def where_the_six_comes_from() -> None:
    """Where the 6 comes from"""
    text(
        "The *forward pass* computes the loss, the *backward pass* the gradients. Almost all of both is matrix "
        "multiplication. Forward, each parameter meets each token in one multiplication and one addition: 2 FLOPs. "
        "Backward, a layer needs the gradient of its weights, and that of its inputs to hand on."
    )
    ask(
        "And backward? Choose what the 6 FLOPs per parameter and token are.",
        "2 forward, 2 for the gradient of the weights, 2 for the gradient of the inputs",
        choices=[
            "2 forward, 2 backward, 2 for the optimizer",
            "2 passes of 3: multiply, add, and store",
            "2 forward, 2 for the gradient of the weights, 2 for the gradient of the inputs",
            "2 forward, 4 for what is done between the multiplications",
        ],
        slips={
            "2 forward, 2 backward, 2 for the optimizer": "The optimizer works once per step, not once per token.",
            "2 passes of 3: multiply, add, and store": "Storing is no FLOP, and the two passes are not alike.",
            "2 forward, 4 for what is done between the multiplications": "Nothing else between them takes many FLOPs.",
        },
    )
    tokens, width, outputs = 512, 128, 256
    x = torch.randn(tokens, width, requires_grad=True)  # its gradient will be asked for
    w = torch.randn(width, outputs, requires_grad=True)  # the parameters
    y = x @ w  # (tokens, outputs)
    upstream = torch.randn(tokens, outputs)  # the gradient of the loss with respect to y
    parameters = w.numel()
    text("`count` calls a function and counts its FLOPs; `torch.autograd.grad` is a backward pass:")
    forward = count(lambda: x @ w)  # @inspect forward.flops [FLOP]
    assert forward.flops == 2 * parameters * tokens == 2**25
    for_w_alone = count(
        lambda: torch.autograd.grad(y, w, upstream, retain_graph=True)
    )  # keep the record of what was computed: another pass follows
    assert for_w_alone.flops == 2 * parameters * tokens  # @inspect for_w_alone.flops [FLOP]
    backward = count(lambda: torch.autograd.grad(y, (x, w), upstream, retain_graph=True))
    assert backward.flops == 4 * parameters * tokens  # @inspect backward.flops [FLOP]
    x_gradient, w_gradient = torch.autograd.grad(y, (x, w), upstream)  # by two multiplications:
    assert torch.allclose(x_gradient, upstream @ w.t(), atol=1e-3)
    assert torch.allclose(w_gradient, x.t() @ upstream, atol=1e-3)
    text(
        "The gradient of the inputs is what the layer below needs for its own backward pass. So a run with $N$ "
        "parameters takes $C \\approx 6ND$ FLOPs, its **compute**, with $D$ here the number of tokens."
    )
    link(**REFERENCES["kaplan"])
    link(**REFERENCES["flops calculus"])


def napkin_against_reality() -> None:
    """The napkin against a real run"""
    text(
        "Llama 3 70B was trained on about 15T tokens on H100s, and its description (model card) states the GPU-hours. "
        "Which MFU do they imply?"
    )
    reported_gpu_hours = 6.4e6
    total_flops = 6 * 70e9 * 15e12
    available_flops = reported_gpu_hours * 3600 * H100_SPARSE_BF16 / 2  # @inspect available_flops [FLOP]
    implied_mfu = total_flops / available_flops  # @inspect implied_mfu
    assert round(implied_mfu, 2) == 0.28
    lowest, highest = (
        speed / (H100_SPARSE_BF16 / 2) for speed in LLAMA3_SPEEDS
    )  # of Llama 3 405B, by its paper @inspect lowest highest
    assert (round(lowest, 2), round(highest, 2)) == (0.38, 0.43)
    assert implied_mfu < lowest
    with_attention = implied_mfu * (
        1 + 12 * 80 * 8192 * 8192 / (6 * 70e9)
    )  # 80 layers of width 8192, 8192 tokens @hide
    text(
        f"An MFU of {implied_mfu:.2f} by $6ND$; about {with_attention:.1f} with the FLOPs of attention (section 3), "
        f"which the Llama 3 paper counts. For the steps of the larger Llama 3 405B it gives {lowest:.2f} to "
        f"{highest:.2f} ({LLAMA3_SPEEDS[0] / 1e12:.0f} to {LLAMA3_SPEEDS[1] / 1e12:.0f} TFLOP/s per GPU). What else "
        f"the reported hours pay for, the card does not say. The napkin, with its MFU of 0.5, was too optimistic by a "
        f"factor of {0.5 / implied_mfu:.1f}: good enough to decide, not to promise a date."
    )
    link(**REFERENCES["llama 3 card"])
    link(**REFERENCES["llama 3"])


def best_model_for_the_compute() -> None:
    """The best model for the compute"""
    text(
        "Compute can buy parameters or tokens. For the lowest loss a rule of thumb (Hoffmann et al., 2022; "
        "*Chinchilla* is the model that they made by it) is about 20 tokens per parameter. Then $C = 6N \\cdot 20N = "
        "120N^2$. What do 8 H100s make in two weeks, at an MFU of 0.5?"
    )
    compute = 8 * 14 * SECONDS_PER_DAY * H100_SPARSE_BF16 / 2 * 0.5  # @inspect compute [FLOP]
    parameters = math.sqrt(compute / 120)  # @inspect parameters
    tokens = 20 * parameters  # @inspect tokens
    assert math.isclose(6 * parameters * tokens, compute)
    assert round(parameters / 1e9, 1) == 6.3
    assert round(tokens / 1e9) == 126
    text(
        f"{parameters / 1e9:.1f} billion parameters, {tokens / 1e9:.0f} billion tokens. A model for many users is made "
        f"smaller than that and trained for longer, since every use costs in proportion to its parameters: Llama 3 70B "
        f"saw {15e12 / 70e9:.0f} tokens per parameter."
    )
    ask(
        "Derive: with 100 times the compute, how many times as many parameters does the rule ask for?",
        math.sqrt(100 * compute / 120) / parameters,
        hint="$N$ grows with the square root of $C$.",
        why="Ten times the parameters, and ten times the tokens.",
        slips={100: "Then there would be compute for the same tokens only: $C$ grows with parameters *and* tokens."},
    )
    link(**REFERENCES["chinchilla"])


def where_the_six_bends() -> None:
    """Where the 6 bends"""
    text(
        "$6N$ per token leaves out two multiplications without parameters, in the layers where tokens look at each "
        "other: attention (section 3), with its queries, keys and values. They grow with the sequence. And it counts "
        "one table of parameters that is never multiplied, unless it is the head as well: the input embedding, which "
        "is looked up. With $N'$ for the rest,\n\n"
        "$$ C \\text{ per token} = 6N' + 12 \\cdot L \\cdot D \\cdot S. $$\n\n"
        "To check it, a model of the shape of Llama 3 70B, on the `meta` device: tensors with a shape and no memory, "
        "whose operations compute nothing and can be counted all the same."
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
        f"work. The {layers} layers are alike, so one was counted, with torch's own counter, and multiplied. The "
        f"formula counts all of $S^2$; a kernel (the program that a GPU runs for an operation) that skips what the "
        f"causal mask hides does half of the model's FLOPs, 6 in place of 12 (7, since it computes the scores again "
        f"for its backward pass)."
    )
    what_the_layer_leaves_out()


def what_the_layer_leaves_out() -> None:
    """What the layer leaves out"""
    text(
        "The layer has no rotary embedding, which turns queries and keys by their positions: a few elementwise "
        "operations, none of which torch's counter counts. For one layer alone the order of earlier tokens would not "
        "matter. "
        "The rest, put together from torch's own parts, on a small example:"
    )
    length, width, hidden = 5, 512, 64  # four heads of 128, which share two keys and values
    shapes = {"query": (width, width), "key": (width, 256), "value": (width, 256), "output": (width, width)}
    shapes |= {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}
    weights = {name: torch.randn(shape) / math.sqrt(shape[0]) for name, shape in shapes.items()}
    x, norm = torch.randn(length, width), nn.RMSNorm(width, elementwise_affine=False)
    query = rearrange(norm(x) @ weights["query"], "length (heads width) -> 1 heads length width", heads=4)
    shared = "length (keys width) -> 1 (keys two) length width"  # each serves two heads
    key, value = (repeat(norm(x) @ weights[name], shared, keys=2, two=2) for name in ("key", "value"))
    mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    y = x + rearrange(mixed, "1 heads length width -> length (heads width)") @ weights["output"]
    gated = nn.functional.silu(norm(y) @ weights["gate"]).mul(norm(y) @ weights["up"])
    assert torch.allclose(transformer_layer(x, weights), y + gated @ weights["down"], atol=1e-4)


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
        f"After this section you can say how many bytes a tensor takes, and what a smaller number format gives up. "
        f"Everything that training keeps is a tensor. The key figure: 70 billion parameters take "
        f"{in_fp32 / 1e9:.0f} GB in fp32, and {in_bf16 / 1e9:.0f} GB in bf16."
    )
    note(
        "Fifteen minutes. Range against precision is the point: the table of formats can be read at home. Ask for "
        "1.001 in bf16 before you show it."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    creating_tensors()
    bytes_of_a_tensor()
    layouts()
    overflow()
    range_and_precision()
    where_tensors_live()
    more_bits_do_not_help()  # @deeper
    where_memory_hides()  # @deeper
    formats_against_torch()  # @deeper
    encode_by_hand()  # @deeper
    block_scaling()  # @deeper
    speed_of_formats()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. Bytes = elements × bytes per element: 4 in fp32, 2 in bf16 and fp16, 1 in fp8.\n"
        "2. Exponent bits buy range, which gradients need; mantissa bits buy precision, which weights need.\n"
        "3. A tensor lives in one memory; moving it to a GPU is a copy over a link slower than the GPU's own memory."
    )


def creating_tensors() -> None:
    """Creating tensors"""
    text("A **tensor** is an array of numbers of one format, with any number of dimensions:")
    literal = torch.tensor([[1.0, 2, 3], [4, 5, 6]])  # @inspect literal
    zeros = torch.zeros(2, 4)  # @inspect zeros
    ones = torch.ones(2, 4)  # @inspect ones
    normal = torch.randn(2, 4)  # @inspect normal
    unset = torch.empty(100, 100)  # @inspect unset.shape
    text(
        "`empty` leaves in its memory what was there before. Here it is filled with normally distributed numbers, "
        "mostly within ±0.5 (their standard deviation); those beyond ±1 are drawn again:"
    )
    nn.init.trunc_normal_(unset, std=0.5, a=-1, b=1)
    assert unset.abs().max() <= 1
    assert 0.42 < unset.std() < 0.46  # less than 0.5: the largest are missing
    assert (literal.shape, literal.sum()) == ((2, 3), 21)
    assert zeros.shape == ones.shape == normal.shape == (2, 4)  # @hide
    assert literal.dtype == zeros.dtype == ones.dtype == normal.dtype == torch.float32  # @hide
    assert torch.tensor([1, 2, 3]).dtype == torch.int64  # whole numbers make an integer tensor
    text(
        "`dtype=` says in which format numbers are stored (`torch.float32`, `torch.bfloat16`, …), `device=` in which "
        "memory: `cpu`, `cuda` (an NVIDIA GPU's), or `meta`, which is none. A tensor on the `meta` device has a shape "
        "only:"
    )
    nowhere = torch.zeros(1_000_000, 1_000_000, device="meta")  # @inspect nowhere.shape nowhere.device
    assert nowhere.nbytes == 4 * 10**12
    ask(
        "Write the line that makes `x`, zeros in bf16 of shape (2, 8, 64), in the memory of a GPU.",
        'x = torch.zeros(2, 8, 64, dtype=torch.bfloat16, device="cuda")',
        why='Zeros made first and moved with `.to("cuda")` would cross from the CPU\'s memory for nothing.',
    )
    text(
        "The number of dimensions is a tensor's **rank**. In a Transformer, what flows from layer to layer has rank "
        "3: a vector of width $D$ for each token of each sequence. In *attention* (section 3) the width is split over "
        "several *heads*, and the rank is 4."
    )
    batch, sequence, heads, head_width = 2, 8, 4, 16
    activations = torch.zeros(batch, sequence, heads * head_width)  # (B, S, D) @inspect activations.shape
    per_head = torch.zeros(batch, sequence, heads, head_width)  # (B, S, H, D/H) @inspect per_head.shape
    assert (activations.dim(), activations.shape) == (3, (2, 8, 64))
    assert (per_head.dim(), per_head.shape) == (4, (2, 8, 4, 16))
    assert activations.numel() == per_head.numel()


def bytes_of_a_tensor() -> None:
    """Bytes = elements × bytes per element"""
    x = torch.zeros(4, 8)  # @inspect x.dtype x.numel() x.element_size()
    assert x.numel() * x.element_size() == 4 * 8 * 4
    assert x.nbytes == x.untyped_storage().nbytes()  # what it says is what was allocated
    text("The same at every size. GPT-3's layers hold matrices of $4D \\times D$ with $D = 12288$.")
    matrix = torch.empty(4 * 12288, 12288, device="meta")  # (49152, 12288)
    ask(
        "How many GiB does such a matrix take in fp32?",
        matrix.nbytes / 2**30,
        unit="GiB",
        hint="49152 × 12288 × 4 bytes; then divide by $2^{30}$.",
        why="2304 MiB. Divided by 1024 that is GiB; divided by 1000 it is no unit at all.",
        slips={
            matrix.nbytes / 1e9: "Those are GB, powers of 1000.",
            matrix.nbytes / 2**20 / 1000: "That is MiB divided by 1000: neither GiB nor GB, and often seen in print.",
            matrix.numel() / 2**30: "Those are elements. Each takes 4 bytes.",
        },
    )
    matrix_bytes = matrix.nbytes  # @inspect matrix_bytes [B]
    assert matrix_bytes == 2304 * 2**20
    assert matrix_bytes / 2**30 == 2.25
    assert round(matrix_bytes / 1e9, 2) == 2.42
    dtypes = (torch.float64, torch.float32, torch.bfloat16, torch.float8_e4m3fn)  # the last has 8 bits (below)
    gib = {str(dtype): matrix.to(dtype).nbytes / 2**30 for dtype in dtypes}  # @inspect gib
    assert list(gib.values()) == [4.5, 2.25, 1.125, 0.5625]
    text("That is with 8, 4, 2 and 1 bytes per element. What the smaller ones give up comes next.")
    printed = 70e9 * torch.bfloat16.itemsize / 2**30  # @hide
    ask(
        f'Find the error: a tool says that 70 billion parameters in bf16 take "{printed:.0f} GB". How many GB is it?',
        70e9 * torch.bfloat16.itemsize / 1e9,
        unit="GB",
        within=0.01,
        why="The tool divided by $2^{30}$ and printed GB.",
        slips={70e9 * torch.float32.itemsize / 1e9: "That is fp32.", printed: "Those are GiB."},
    )
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
    """What a format can hold, read off four of its patterns"""
    patterns = 2 ** (form.exponent_bits + form.mantissa_bits)
    one = (2 ** (form.exponent_bits - 1) - 1) * 2**form.mantissa_bits
    return {
        "largest": decode(patterns - form.reserved_codes - 1, form),
        "smallest normal": decode(2**form.mantissa_bits, form),
        "smallest subnormal": decode(1, form),
        "eps": decode(one + 1, form) - decode(one, form),  # the gap above 1
    }


def layouts() -> None:
    """Floating-point formats"""
    text(
        "A floating-point number is written as in scientific notation, in base 2: a sign bit, $k$ bits of exponent "
        "(how large) and $m$ bits of mantissa (the digits). With these two fields read as whole numbers $e$ and $f$, "
        "and the **bias** $b = 2^{k-1} - 1$, which makes exponents negative, too,\n\n"
        "$$ \\text{value} = \\begin{cases} (1 + f/2^m) \\cdot 2^{e - b} & e > 0 \\text{, normal} \\\\ (0 + f/2^m) "
        "\\cdot 2^{1 - b} & e = 0 \\text{, subnormal.} \\end{cases} $$\n\n"
        "The exponent buys **range**, the mantissa **precision**. Most formats reserve the topmost exponent, $2^m$ of "
        "the possible bit patterns, for infinity and NaN (*not a number*)."
    )
    formats = floating_point_formats()  # @stepover
    text(
        "A format's limits are four numbers: the largest that is finite, the first with $e = 1$, "
        "the first after zero, and the one after the number 1, whose distance from 1 is **eps**."
    )
    fp16 = limits(formats["fp16"])  # @inspect fp16
    assert fp16["largest"] == (2 - 2**-10) * 2**15 == 65504
    assert fp16["smallest normal"] == 2**-14
    assert fp16["smallest subnormal"] == 2**-24
    rows = [layout_row(name, form) for name, form in formats.items()]  # @stepover @hide
    columns = ["format", "sign + exponent + mantissa", "bytes", "bias", "exponents reserved"]  # @hide
    table(rows, [*columns, "largest", "smallest normal", "smallest subnormal", "eps"])  # @hide
    bits = {name: bits_of(0.01, form) for name, form in formats.items()}  # @stepover @hide
    plot(draw_bits(bits), title="0.01 in every format")  # @hide
    text(
        "bf16 is the first half of fp32: the same range, and two to three decimal digits. tf32, with fp32's range and "
        "fp16's precision, exists only inside *tensor cores*, the part of a GPU that multiplies small matrices."
    )
    tf32, fp32 = limits(formats["tf32"]), limits(formats["fp32"])  # @inspect tf32 @stepover
    assert (tf32["smallest normal"], tf32["eps"]) == (fp32["smallest normal"], fp16["eps"])
    assert tf32["largest"] == (2 - 2**-10) * 2.0**127
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
    return (name, f"1 + {k} + {m}", stored_bytes, 2 ** (k - 1) - 1, reserved >> m, *limits(form).values())


def bits_of(value: float, form: FloatFormat) -> tuple[str, str, str]:
    """Sign, exponent and mantissa of a positive value, in binary"""
    k, m, _ = form
    pattern = f"{encode(value, form):0{k + m}b}"
    return "0", pattern[:k], pattern[k:]


def formats_against_torch() -> None:
    """The same numbers, according to torch"""
    text(
        "`torch.finfo` states the largest, the smallest normal and the eps of a dtype. It knows no smallest subnormal; "
        "for that, torch is asked what it makes of the bit pattern 1."
    )
    formats = floating_point_formats()  # @stepover
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
    text("The fp8 formats have few patterns, so all finite ones are compared:")
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
        f"torch {torch.__version__} has a dtype for fp4, two values to a byte, which can be stored and multiplied. "
        f"Asked for its largest number, {answer}."
    )


def encode_by_hand() -> None:
    """0.01 in fp16, by hand"""
    fp16 = floating_point_formats()["fp16"]  # @stepover
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
    ask(
        "Derive, without doubling again: what is the exponent field of 0.02 in fp16, as a whole number?",
        encode(0.02, fp16) >> fp16.mantissa_bits,
        within=0,
        hint="0.02 is twice 0.01.",
        why="The mantissa stays, the exponent grows by one.",
        slips={exponent_field: "That is 0.01's.", exponent + 1: "That is the exponent. The field adds the bias, 15."},
    )
    errors_of_encoding(fp16)


def errors_of_encoding(fp16: FloatFormat) -> None:
    """Find the error"""
    wrong = {
        "0.01 is $1.010 \\cdot 2^{-6}$ in binary": "That is 1.25/64, another number.",
        "fp16 has six exponent bits and ten of mantissa": "With the sign that would be 17 bits.",
        "a subnormal has the exponent $0 - 15$": "It is $1 - 15$: with $-15$ there would be a gap below $2^{-14}$.",
        "the smallest positive fp16 has sign bit 1": "With sign bit 1 it is negative.",
    }
    right = "subnormals continue the spacing of the smallest normals down to zero"
    ask(
        "Five statements from worked examples of fp16. Four are wrong. Which one is right?",
        right,
        choices=[*wrong, right],
        slips=wrong,
    )
    assert decode(9 << 10 | 0b0100000000, fp16) == 1.25 * 2**-6 != 0.01  # @stepover
    assert 1 + fp16.exponent_bits + fp16.mantissa_bits == torch.finfo(torch.float16).bits
    largest_subnormal, smallest_normal = decode(1023, fp16), decode(1024, fp16)  # @stepover
    assert smallest_normal - largest_subnormal == decode(1, fp16) == 2**-24  # the same spacing @stepover
    negative = torch.tensor([-0x8000 + 1], dtype=torch.int16).view(torch.float16)  # 1 000…001 @inspect negative
    assert negative.item() == -(2**-24)


def overflow() -> None:
    """Too large"""
    formats = floating_point_formats()  # @hide @stepover
    small = ["fp16", "bf16", "fp8 E4M3", "fp8 E5M2"]  # @hide
    [able] = [name for name in small if limits(formats[name])["largest"] >= 100_000]  # @hide @stepover
    ask(
        "Which of these formats can hold 100,000?",
        able,
        choices=small,
        hint="Look at *largest* in the table.",
        slips={
            "fp16": "Its largest number is 65504.",
            "fp8 E5M2": "It has fp16's exponent, and its largest number is 57344.",
        },
    )
    text("The largest fp16 is 65504; the next step would be to 65536. From halfway on, numbers become infinity:")
    below, halfway = torch.tensor([65519.0, 65520.0]).half().tolist()  # to fp16 @inspect below halfway
    assert (below, halfway) == (65504, math.inf)
    assert torch.tensor(65520.0).bfloat16().item() == 65536  # bf16 rounds it
    assert torch.tensor(1e6).to(torch.float8_e5m2).item() == math.inf
    all_of_e4m3 = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()  # their bits, read as E4M3
    assert (all_of_e4m3.isfinite().sum(), all_of_e4m3.isnan().sum()) == (254, 2)  # none is infinite
    e4m3 = torch.tensor(1e6).to(torch.float8_e4m3fn).item()  # @inspect e4m3
    if math.isnan(e4m3):
        text(f"E4M3 has no infinity: in torch {torch.__version__} a million becomes NaN; later versions saturate.")
    else:
        text(f"E4M3 has no infinity: torch {torch.__version__} **saturates**, a million becomes {e4m3:.0f}.")


def range_and_precision() -> None:
    """Range matters to gradients, precision to updates"""
    text("Gradients are small numbers of very different sizes. This one *underflows* to zero in fp16, not in bf16:")
    small = torch.tensor(1e-8)
    assert small.half().item() == 0
    assert abs(small.bfloat16().item() / 1e-8 - 1) < 2**-8
    text("An optimizer's update of a weight is a small change to a larger number.")
    updated = torch.tensor(1.001)
    ask(
        "Predict: a weight of 1 gets an update of 0.001. What is it afterwards in bf16?",
        updated.bfloat16().item(),
        within=1e-4,
        hint="In bf16 the next number after 1 is 1 + $2^{-7}$.",
        why="The update is less than half of the step to the next number: it is rounded away.",
        slips={
            updated.half().item(): "bf16 has no number so near. fp16 has, with three more bits of mantissa.",
            1 + 2**-7: "That is the next number after 1. 1.001 is nearer to 1.",
        },
    )
    assert updated.bfloat16().item() == 1
    assert torch.tensor(1 - 0.003).bfloat16().item() == 1 - 2**-8  # below 1 the steps are half as wide
    assert torch.tensor(1 + 0.003).bfloat16().item() == 1
    assert updated.half().item() == 1 + 2**-10
    assert torch.finfo(torch.bfloat16).eps == 2**-7
    text(
        "So bf16 is for what is multiplied, and weights that take small steps are kept in fp32. The way back is "
        "exact: a bf16 number followed by sixteen zero bits is the same number in fp32, for all patterns:"
    )
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    as_fp32 = patterns.view(torch.bfloat16).float().view(torch.int32)  # the same bits, read as another format
    assert len(patterns) == len(patterns.unique()) == 2**16  # each once
    assert torch.equal(as_fp32, patterns.int() << 16)
    link(**REFERENCES["mixed precision"])


def more_bits_do_not_help() -> None:
    """Where more bits do not help"""
    text("Not every instability comes from few bits. Here is one in fp64, in 50 steps of gradient descent on $w^2/2$:")
    w = torch.tensor(1.0, dtype=torch.float64)
    for _ in range(50):
        w = w - 2.1 * w  # the gradient is w, the learning rate 2.1
    assert math.isclose(w.item(), 1.1**50, rel_tol=1e-12)
    text(f"It should go to 0 and is at {w.item():.0f}. The learning rate is too large, and more bits don't help.")


def block_scaling() -> None:
    """Four bits and a scale: NVFP4"""
    text("E2M1 has eight magnitudes, so a tensor of such numbers needs a scale:")
    fp4 = floating_point_formats()["fp4 E2M1"]  # @stepover
    grid = torch.tensor([decode(code, fp4) for code in range(8)])  # @inspect grid @stepover
    assert grid.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    x = torch.randn(64, 16)  # 64 blocks of 16
    x[0, 0] = 1000.0  # one outlier
    text("One scale for the whole tensor must reach the outlier. Then every number of the other blocks becomes 0:")
    one_scale = round_to_grid(x, x.abs().max() / 6, grid)
    survivors = one_scale[1:].count_nonzero().item()  # @inspect survivors
    assert (one_scale[0, 0].item(), survivors) == (1000, 0)
    text(
        "**NVFP4** has a scale for each block of 16, itself a number in E4M3, and one fp32 scale for the tensor that "
        "brings the block scales into E4M3's range:"
    )
    tensor_scale = x.abs().max() / (6 * 448)  # fp32
    block_scales = (x.abs().amax(dim=1, keepdim=True) / 6 / tensor_scale).to(torch.float8_e4m3fn)  # (64, 1)
    scales = block_scales.float() * tensor_scale
    scaled = round_to_grid(x, scales, grid)
    errors = [((y - x)[1:].norm() / x[1:].norm()).item() for y in (one_scale, scaled)]  # @inspect errors
    assert errors[1] < 0.1 < errors[0] == 1
    assert math.isclose(scaled[0, 0].item(), 1000, rel_tol=1e-6)  # the outlier has a block, and a scale, of its own
    packed = pack(codes_of(x / scales, grid))  # (64, 8), two values to a byte
    assert torch.equal(values_of(unpack(packed), grid) * scales, scaled)  # @stepover
    stored_bytes = packed.nbytes + block_scales.nbytes + tensor_scale.nbytes
    bits_per_value = 8 * stored_bytes / x.numel()  # @inspect bits_per_value
    assert bits_per_value == 4.5 + 32 / x.numel()
    text(
        f"The relative error falls from {errors[0]:.0%} to {errors[1]:.0%}, for half a bit a value: 4 bits, 8 bits "
        f"shared by 16, and 32 bits shared by all. Here it is computed in fp32; the tensor cores of NVIDIA's Blackwell "
        f"GPUs do it in hardware."
    )
    ask(
        "The MX formats, an open standard, have one scale of 8 bits for each block of 32, and no scale for the tensor. "
        "How many bits a value does MXFP4 take?",
        (32 * 4 + 8) / 32,
        unit="bits",
        slips={bits_per_value: "That is NVFP4.", (16 * 4 + 8) / 16: "That is a block of 16."},
    )
    link(**REFERENCES["nvfp4"])
    link(**REFERENCES["mx formats"])


def codes_of(x: Tensor, grid: Tensor) -> Tensor:
    """The 4 bits of each number: its sign, and the place of the nearest magnitude in the grid"""
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


def speed_of_formats() -> None:
    """Fewer bits, more speed"""
    text(
        "Memory is one reason for small formats. The other is speed: a hardware multiplier for fewer bits is smaller, "
        "so that more of them fit on a chip. What an H100 promises, and the best that was measured or is promised for "
        "this machine:"
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
    decide(
        ratio,
        than=(0.9, 1.1),
        above=f"On this machine bf16 is {ratio:.1f} times as fast as fp32.",
        below=f"On this machine bf16 is **slower**: {ratio:.2f} of fp32's speed. {bf16_instructions()}",
        undecided="On this machine bf16 is no faster than fp32, and no slower, as far as the runs agree: here it saves "
        "memory only.",
    )
    link(**REFERENCES["bfloat16"])


def bf16_instructions() -> str:
    """What a CPU says about its instructions for bf16"""
    information = Path("/proc/cpuinfo")
    if device() != "cpu" or not information.exists():
        return "The cause was not looked for."
    flags = set(information.read_text().split()) & {"amx_bf16", "avx512_bf16", "bf16"}
    if flags:
        return f"And yet this CPU lists instructions for bf16 ({', '.join(sorted(flags))}). The cause was not measured."
    return (
        "This CPU lists no instructions for bf16. Without them each number is widened to fp32, multiplied, and rounded "
        "again; that this is the whole cause was not measured."
    )


def where_tensors_live() -> None:
    """Where tensors live"""
    x = torch.zeros(32, 32)
    assert x.device.type == "cpu"
    text(
        "A tensor is made in the CPU's memory, unless told otherwise. `to` moves it: it returns a *copy* in the other "
        "memory, or the very same tensor if it is there already."
    )
    assert x.to("cpu") is x
    moved = x.to(device())  # `device()` is a GPU, if there is one @inspect moved.device
    assert moved.device.type == device()
    h100 = known_machine("NVIDIA H100 80GB HBM3")  # @hide @stepover
    over_pcie = 128e9 / 2  # bytes/s: the link between CPU and GPU, PCIe 5, in one direction
    rates = {
        "cores": f"4 tensor cores in each: {H100_SPARSE_BF16 / 2e12:.4g} TFLOP/s in bf16 together\n"
        f"ordinary cores: {H100_FP32 / 1e12:.0f} TFLOP/s in fp32",
        "cache": f"L2 cache: {H100_CACHE / 1e6:.0f} MB",
        "memory": f"HBM: {H100_MEMORY / 1e9:.0f} GB",
        "bandwidth": f"{H100_BANDWIDTH / 1e9:.0f} GB/s",
        "bus": f"{over_pcie / 1e9:.0f} GB/s",
    }  # @hide
    plot(draw_gpu(h100.multiprocessors, rates), title="An H100, by its datasheet")  # @hide
    text(
        "A GPU computes in its **multiprocessors**. Each has ordinary cores and a few **tensor cores**, which only "
        "multiply small matrices. The program that they run for one operation is a **kernel**. What it needs comes "
        "from the GPU's own memory (HBM, *high-bandwidth memory*) through a cache (L2), a small fast memory of what "
        "was used last. The way from the CPU's memory is slow:"
    )
    times = H100_BANDWIDTH / over_pcie  # @inspect times
    assert round(times) == 52
    ask(
        "How long does it take at least to fill an H100's 80 GB from the CPU's memory?",
        H100_MEMORY / over_pcie,
        unit="s",
        slips={
            H100_MEMORY / (2 * over_pcie): "That is both directions at once.",
            H100_MEMORY / H100_BANDWIDTH: "That is at the rate of the GPU's own memory.",
        },
    )
    text(f"The GPU's own memory is {times:.0f} times as fast. What is needed more than once belongs there.")
    link(**REFERENCES["h100"])
    link(**REFERENCES["hopper"])


def where_memory_hides() -> None:
    """Where memory hides, and what moving takes"""
    allocated_bytes = allocated_on_the_gpu()  # @inspect allocated_bytes [B]
    assert allocated_bytes in (None, 8192)
    transfer_bytes_per_second = transfer_rate()  # @inspect transfer_bytes_per_second [B/s]
    draw_both_memories(transfer_bytes_per_second)


def allocated_on_the_gpu() -> int | None:
    """What the GPU's allocator says"""
    if device() != "cuda":
        text(
            "Not run: no CUDA device. On one, `torch.cuda.memory_allocated` before and after two 32×32 fp32 matrices "
            f"differs by exactly {2 * torch.empty(32, 32).nbytes} bytes. (The allocator hands out multiples of 512.) "
            "Beside such *allocated* bytes, the allocator keeps freed memory for later; what it holds in all is "
            "*reserved*, and CUDA takes some for itself. `nvidia-smi` shows what is reserved and CUDA's own."
        )
        return None
    before = torch.cuda.memory_allocated()  # @inspect before [B]
    a = torch.ones(32, 32, device="cuda")
    b = torch.ones(32, 32, device="cuda")
    after = torch.cuda.memory_allocated()  # @inspect after [B]
    assert after - before == 2 * (32 * 32 * 4) == 8192
    text("It is exact because each matrix takes a multiple of 512 bytes, the unit in which the allocator hands out.")
    assert a.nbytes % 512 == 0
    first = a @ b
    workspace_bytes = torch.cuda.memory_allocated() - after - first.nbytes  # @inspect workspace_bytes [B]
    second = a @ b
    assert torch.cuda.memory_allocated() - after - workspace_bytes == first.nbytes + second.nbytes
    text(
        f"The first matmul of a process also allocates a workspace for cuBLAS, NVIDIA's library of matrix products: "
        f"{workspace_bytes} bytes just now (0 if an earlier one had left it). The second takes its result's bytes and "
        f"no more. So run once before measuring."
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
    text("`nvidia-smi` shows reserved and context together: it can't tell how much of it is tensors.")


def transfer_rate() -> float | None:
    """What moving costs"""
    if device() != "cuda":
        text("A transfer to a GPU: not run, no CUDA device. A copy within this machine's memory, for comparison:")
        copy_rate()
        return None
    x = torch.randn(sizes().streamed_bytes // 16)  # a quarter of them, in fp32 @stepover
    transfer = measure(lambda: x.to("cuda"))  # @inspect transfer.seconds [s]
    bytes_per_second = x.nbytes / transfer.seconds  # @inspect bytes_per_second [B/s]
    within = copy_rate()
    rates = f"To the GPU: {bytes_per_second / 1e9:.1f} GB/s. Within the GPU's memory: {within / 1e9:.0f} GB/s."
    decide(
        within / bytes_per_second,
        than=(0.8, 1.25),
        above=f"{rates} What is needed more than once belongs on the GPU.",
        below=f"{rates} Here the way to the GPU is the faster of the two.",
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
        source_of_peak = "best copy or read that was measured before" if device() == "cpu" else "datasheet"
        text(f"{bytes_per_second / 1e9:.1f} GB/s: {share:.0%} of the {peak / 1e9:.0f} GB/s of the {source_of_peak}.")
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
    copied_gib = 2 * 49152 * 12288 * 4 / 2**30  # @hide
    text(
        f"After this section you can say which operations copy memory, and which only look at it differently. The key "
        f"figure: transposing GPT-3's matrix of section 2 moves no byte; copying it in the new order moves "
        f"{copied_gib:.1f} GiB."
    )
    note(
        "Ten minutes. Draw the storage as a line of cells and let the room compute one address. The table of what "
        "copies is worth a question for each row."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    storage_and_strides()
    views()
    writing_through_a_view()
    contiguity()
    what_copies()
    causal_mask()
    matrix_multiplication()
    changing_metadata_in_place()  # @deeper
    copies_that_keep_the_order()  # @deeper
    testing_a_mask()  # @deeper
    what_views_and_copies_cost()  # @deeper
    expanding()  # @deeper
    elementwise_operations()  # @deeper
    link(**REFERENCES["internals"])
    text(
        "**In three lines.**\n\n"
        "1. A tensor is a storage, an offset, and a size and a stride per dimension.\n"
        "2. Slices, `view` and `transpose` make views of the same storage: no bytes move, and writing to one "
        "is seen in all.\n"
        "3. Arithmetic, indexing with tensors and `clone` copy; `contiguous` and `reshape` copy where they must."
    )


def storage_and_strides() -> None:
    """Storage and strides"""
    text(
        "A tensor is a view of a one-dimensional block of memory, its **storage**. What makes the view is a data type, "
        "an *offset* into the storage, and for each dimension a size and a **stride**: how many elements to go along "
        "the storage for one step in that dimension."
    )
    x = torch.arange(16.0).view(4, 4)  # 0 to 15, as 4 rows of 4 @inspect x, x.stride(), x.storage_offset()
    assert x.stride() == (4, 1)
    text(
        "A step down is 4 elements along the storage, a step to the right is 1: *row-major* order. An element's place "
        "is the offset plus each index times its stride."
    )
    row, column = 1, 2
    ask(
        "At which place of the storage, counted from 0, is `x[1, 2]`?",
        x.storage_offset() + row * x.stride(0) + column * x.stride(1),
        within=0,
        slips={row * x.stride(1) + column * x.stride(0): "The strides are swapped: the first is the row's."},
    )
    address = x.storage_offset() + row * x.stride(0) + column * x.stride(1)  # @inspect address
    assert address == 6
    assert x.untyped_storage().nbytes() == 16 * 4
    cells = torch.tensor([]).set_(x.untyped_storage())  # the storage itself, as a line @inspect cells
    assert cells[address] == x[row, column]
    plot(draw_storage(x, (row, column)), title="x[1, 2], and the jumps that lead to it")  # @hide
    text("A block inside it is a view with the same strides and another offset:")
    block = x[1:3, 1:]  # @inspect block, block.stride(), block.storage_offset()
    assert (block.shape, block.stride(), block.storage_offset()) == ((2, 3), (4, 1), 5)


def shares_storage(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors are views of the same storage"""
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
    assert (row.tolist(), column.tolist()) == ([0, 1, 2], [1, 4])
    assert (left.shape, right.storage_offset()) == ((2, 1), 1)  # @hide
    text("`x.untyped_storage()` is the storage of `x`, and `data_ptr()` is the address at which something begins.")
    ask(
        "Write a line that is true if the tensors `a` and `b` share their storage.",
        "a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()",
        hint="Both tensors and storages have a `data_ptr()`.",
        why="`a.data_ptr()` alone is not enough: it is where the view begins, and views begin at different places.",
    )
    text("There is no copy among these. They are views of the six elements of `x`:")
    windows = {"x[0]": row, "x[:, 1]": column, "x.view(3, 2)": reshaped, "x.t()": transposed, "right": right}
    shared = {name: shares_storage(x, window) for name, window in windows.items()}  # @inspect shared @stepover
    assert set(shared.values()) == {True} == {shares_storage(right, row)}  # and so with each other @stepover
    plot(draw_views({"x": x} | windows), title="Which elements each view covers")  # @hide
    plot(draw_storage(transposed, (1, 1)), title="x.t()[1, 1]: the same storage, the strides swapped")  # @hide
    text("`view(3, 2)` and `t()` have the same shape and the same storage, and are different matrices:")
    assert reshaped.shape == transposed.shape
    assert reshaped.flatten().tolist() == [0, 1, 2, 3, 4, 5]
    assert transposed.flatten().tolist() == [0, 3, 1, 4, 2, 5]


def writing_through_a_view() -> None:
    """Writing through a view"""
    x = torch.zeros(2, 3)
    transposed = x.t()
    transposed[2, 1] = 100.0  # @inspect transposed x
    assert x.tolist() == [[0, 0, 0], [0, 0, 100]]
    text(
        "`mul_`, `add_`, `copy_` and most other operations whose names end in `_` work *in place*: they make no new "
        "tensor."
    )
    ask(
        "Which of these statements about in-place operations such as `row.mul_(2)` is true?",
        "they change the elements, which every view of them then sees",
        choices=[
            "they change only the metadata (size, stride, offset)",
            "they change the elements, which every view of them then sees",
            "they change a copy",
        ],
        slips={
            "they change only the metadata (size, stride, offset)": "That is what views do. In place, it is the "
            "other way round: the elements change and the metadata stays.",
            "they change a copy": "They make no new tensor: that is what *in place* says.",
        },
    )
    row = x[1]
    row.mul_(2)  # @inspect x
    assert x.tolist() == [[0, 0, 0], [0, 0, 200]]
    text("What is written through one view is seen through the others.")


def changing_metadata_in_place() -> None:
    """Metadata changed in place, and names"""
    text("A few operations change metadata in place, and are named after views: `t_`, `squeeze_`, `transpose_`.")
    x = torch.arange(6.0).view(2, 3)
    metadata, cells = (x.shape, x.stride()), x.flatten().tolist()
    x.t_()  # @inspect x, x.stride()
    assert (x.shape, x.stride()) == ((3, 2), (1, 3)) != metadata
    assert x.t().flatten().tolist() == cells
    text("An assignment writes nothing: it gives a name to a tensor, here to a new one, which `+` made.")
    y = x
    assert y is x
    y = y + 1  # a new tensor, a new storage
    assert not shares_storage(x, y)


def expanding() -> None:
    """A stride of zero"""
    text("`expand` repeats a dimension without repeating elements: with a stride of 0, each step stays in place.")
    bias = torch.tensor([[1.0], [2], [3]])  # (3, 1)
    expanded = bias.expand(3, 4)  # @inspect expanded, expanded.stride()
    assert expanded.stride() == (1, 0)
    claimed_bytes = expanded.nbytes  # elements × element size @inspect claimed_bytes [B]
    real_bytes = expanded.untyped_storage().nbytes()  # @inspect real_bytes [B]
    assert (claimed_bytes, real_bytes) == (48, 12)
    text(
        "Broadcasting does the same: adding a (3, 1) to a (3, 4) never builds the larger one. (`repeat` does build "
        "it.) So elements × element size is not what a view takes. Here it says too much; for a slice it says too "
        "little, because a slice keeps the whole storage alive:"
    )
    row = torch.zeros(1000, 4)[0]
    row_bytes, kept_bytes = row.nbytes, row.untyped_storage().nbytes()  # @inspect row_bytes [B], kept_bytes [B]
    assert (row_bytes, kept_bytes) == (16, 16000)
    text("Four elements at one place of the storage can't be written at once. torch refuses:")
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
        "A tensor is **contiguous** if reading it row by row goes through its storage one element after the other. `x` "
        "is, its transpose isn't."
    )
    text(
        "`clone()` makes a copy. `contiguous()` makes one with the elements in reading order, unless they are in that "
        "order already. `reshape` is `view` where that is possible, and `contiguous().view` where it is not: a copy "
        "easily missed."
    )
    ask(
        "Which of these fails for the transpose?",
        "`.view(6)`",
        choices=["`.reshape(6)`", "`.contiguous()`", "`.view(6)`", "`.clone()`"],
        hint="Which of them never copies?",
        why="A view of one dimension has one stride, and the transpose's elements are not equally spaced.",
        slips={"`.reshape(6)`": "It copies where it can't make a view."},
    )
    assert (x.is_contiguous(), transposed.is_contiguous()) == (True, False)
    refusal = ""
    try:
        transposed.view(6)
    except RuntimeError as error:
        refusal = str(error)  # @inspect refusal
    assert "Use .reshape(...) instead" in refusal
    copied = transposed.contiguous()  # @inspect copied, copied.stride()
    assert (copied.stride(), shares_storage(copied, transposed)) == ((2, 1), False)
    assert x.contiguous() is x
    assert shares_storage(x, x.reshape(3, 2)) and not shares_storage(transposed, transposed.reshape(6))
    assert transposed.reshape(6).tolist() == [0, 3, 1, 4, 2, 5]
    text("The bytes that both move, counted; and what the copy moves for GPT-3's matrix of section 2:")
    moved = [count(x.t).bytes_moved, count(transposed.contiguous).bytes_moved]  # @inspect moved [B]
    assert moved == [0, 2 * x.nbytes]  # each number is read and written
    copied_gib = 2 * torch.empty(4 * 12288, 12288, device="meta").nbytes / 2**30  # @inspect copied_gib
    assert copied_gib == 4.5


def what_copies() -> None:
    """What copies"""
    x = torch.arange(6.0).view(2, 3)
    some = {"`x[0:1]`": x[0:1], "`x[torch.tensor([0])]`": x[torch.tensor([0])], "`x.float()`": x.float()}  # @hide
    [copying] = [name for name, result in some.items() if not shares_storage(x, result)]  # @hide @stepover
    ask(
        "`x` is an fp32 tensor. Which of these expressions copies?",
        copying,
        choices=list(some),
        hint="For which is there always an offset, a size and a stride that describe the result?",
        why="The places that an index tensor names need not be equally spaced, so no stride could describe them.",
        slips={"`x.float()`": "It copies where `x` has another format. Here it returns `x` itself."},
    )
    results = {
        "x[0:1] (a slice)": x[0:1],
        "x.t()": x.t(),
        "x.detach()": x.detach(),  # without the record for gradients
        "x.float() (already fp32)": x.float(),
        "x + 0": x + 0,
        "x[torch.tensor([0])]": x[torch.tensor([0])],
        "x[x >= 0] (a mask)": x[x >= 0],
        "x.clone()": x.clone(),
        "x.bfloat16()": x.bfloat16(),
    }
    copies = {name: not shares_storage(x, result) for name, result in results.items()}  # @inspect copies @stepover
    assert list(copies.values()) == [False] * 4 + [True] * 5
    same = ("x[0:1] (a slice)", "x[torch.tensor([0])]")  # the same elements, once in place and once copied @hide
    assert results[same[0]].tolist() == results[same[1]].tolist() == [[0, 1, 2]]  # @hide
    assert results["x + 0"].tolist() == x.tolist() and torch.equal(results["x[x >= 0] (a mask)"], x.flatten())  # @hide
    whose = {name: "itself" if result is x else "copy" if copies[name] else "view" for name, result in results.items()}
    assert [name for name, which in whose.items() if which == "itself"] == ["x.float() (already fp32)"]  # @hide
    table(list(whose.items()), ["expression", "memory"])  # @hide
    text(
        "Slices give views; indexing with a tensor copies, be it of places or of `True` and `False` (a *mask*), even "
        "where a slice would select the same; "
        "arithmetic makes a new tensor."
    )


def copies_that_keep_the_order() -> None:
    """Copies that keep the order of the strides"""
    text("A copy need not be contiguous: `clone` and arithmetic keep the order of the strides.")
    transposed = torch.arange(6.0).view(2, 3).t()
    cloned, added = transposed.clone(), transposed + 1  # @inspect cloned.stride() added.stride()
    assert (cloned.stride(), cloned.is_contiguous()) == ((1, 3), False)
    assert not shares_storage(cloned, transposed)  # @stepover
    assert added.stride() == (1, 3)
    ordered = transposed.clone(memory_format=torch.contiguous_format)
    assert ordered.is_contiguous()


def what_views_and_copies_cost() -> None:
    """What views and copies cost"""
    rows = math.isqrt(sizes().streamed_bytes // 16)  # a quarter of them, in fp32 @stepover
    x = torch.rand(rows, rows, device=device())  # @inspect x.shape
    view, copy = count(lambda: x.t()), count(lambda: x.t().contiguous())  # @inspect view.bytes_moved copy.bytes_moved
    assert shares_storage(x, x.t()) and view.bytes_moved == 0  # @stepover
    assert copy.bytes_moved == 2 * x.nbytes  # read once, written once
    view_time, copy_time = measure(lambda: x.t()), measure(lambda: x.t().contiguous())
    seconds = {"view": view_time.seconds, "copy": copy_time.seconds}  # @inspect seconds [s]
    assert seconds["view"] < seconds["copy"]
    measured = (
        f"The transpose of {x.nbytes / 1e6:.0f} MB took {seconds['view'] * 1e6:.1f} µs as a view, and "
        f"{seconds['copy'] * 1e3:.2f} ms once it was made contiguous, at "
        f"{copy.bytes_moved / seconds['copy'] / 1e9:.1f} GB/s."
    )
    decide(
        seconds["copy"] / seconds["view"],
        than=10,
        above=f"{measured} A view moves no bytes, however large the tensor.",
        below=f"{measured} Here the tensor is so small that the copy hardly shows.",
        undecided=f"{measured} How large the difference is, the runs do not agree.",
    )


def elementwise_operations() -> None:
    """Elementwise operations"""
    x = torch.tensor([1.0, 4, 9])
    assert x.pow(2).tolist() == [1, 16, 81]
    assert x.sqrt().tolist() == [1, 2, 3]
    assert torch.allclose(x.rsqrt(), torch.tensor([1, 1 / 2, 1 / 3]))
    assert (x + x).tolist() == (x * 2).tolist() == [2, 8, 18]
    assert (x / 2).tolist() == [0.5, 2, 4.5]
    text("`rsqrt` is one over the square root: what a normalisation layer multiplies by.")
    ask(
        "What is `x.pow(2).sqrt()` for `x = -9`?",
        torch.tensor(-9.0).pow(2).sqrt().item(),
        within=0,
        why="$\\sqrt{x^2} = |x|$.",
        slips={-9: "A root is never negative.", 81: "That is the square."},
    )
    signed = torch.tensor([-1.0, 4, -9])
    assert signed.pow(2).sqrt().tolist() == signed.abs().tolist() == [1, 4, 9]
    text("Each reads its operands once and writes its result once:")
    y, z = torch.randn(1000), torch.randn(1000)
    addition = count(lambda: y + z)  # @inspect addition.bytes_moved [B]
    scaling = count(lambda: y * 2)  # @inspect scaling.bytes_moved [B]
    assert (addition.bytes_moved, scaling.bytes_moved) == (3 * y.nbytes, 2 * y.nbytes)


def causal_mask() -> None:
    """Triangles, and the causal mask"""
    text(
        "**Attention** is the operation in which tokens look at each other. Each token has three vectors: a *query*, "
        "a *key*, and a *value*. Its query is multiplied with the keys of all tokens (inner products); from these "
        "scores, `softmax` makes weights that sum to 1, and its result is the sum of the values so weighted. Several "
        "*heads* do so side by side, each on a part of the width. Scores are laid out (query, key): row $i$ is what "
        "token $i$ looks at. In a language model attention is **causal**: a token may look at itself and at what came "
        "before."
    )
    ask(
        "Which part of the scores is allowed?",
        "the lower triangle, `tril()`",
        choices=["the upper triangle, `triu()`", "the lower triangle, `tril()`"],
        hint="The first token sees only itself.",
        slips={
            "the upper triangle, `triu()`": "That shows the future and hides the past. (To name what is *hidden*, "
            "`triu(diagonal=1)` is right.)"
        },
    )
    ones = torch.ones(4, 4)
    lower = ones.tril()  # @inspect lower
    assert lower.equal(ones.triu().t())
    scores = torch.randn(4, 4)  # (query, key)
    allowed = lower.bool()
    weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)  # of −∞ it makes 0 @inspect weights
    assert weights[0].tolist() == [1, 0, 0, 0]  # the first token sees only itself
    assert (weights > 0).sum(dim=-1).tolist() == [1, 2, 3, 4]


def testing_a_mask() -> None:
    """The test of a mask"""
    text("Changing the future does not change the past, to the bit:")
    scores, lower = torch.randn(4, 4), torch.ones(4, 4).tril()  # (query, key)
    weights = scores.masked_fill(~lower.bool(), -math.inf).softmax(dim=-1)
    values = torch.randn(4, 8)  # (key, width)
    changed = values.clone()
    changed[3] = 1000.0  # another last token
    outputs, outputs_changed = weights @ values, weights @ changed
    assert torch.equal(outputs[:3], outputs_changed[:3])
    text("With the other triangle, every token but the last sees what comes after it:")
    wrong = scores.masked_fill(~lower.t().bool(), -math.inf).softmax(dim=-1)
    assert (wrong > 0).sum(dim=-1).tolist() == [4, 3, 2, 1]
    leaked = ((wrong @ changed)[:3] != (wrong @ values)[:3]).any(dim=-1)  # @inspect leaked
    assert leaked.tolist() == [True, True, True]


def matrix_multiplication() -> None:
    """Matrix multiplication"""
    text(
        "`@` multiplies matrices. With more dimensions it multiplies the last two and repeats that over the leading "
        "ones: here a batch of $B$ sequences of $S$ tokens, each of width $D$, by one matrix."
    )
    batch, sequence, width, outputs = 2, 3, 4, 2
    x = torch.arange(24.0).view(batch, sequence, width)  # whole numbers: sums are exact
    w = torch.arange(8.0).view(width, outputs)
    y = x @ w  # (B, S, K) @inspect y.shape
    plot(draw_batched_matmul(x.shape, w.shape), title="batch × sequence × width, by width × outputs")  # @hide
    one_by_one = [[x[b, s] @ w for s in range(sequence)] for b in range(batch)]
    assert torch.equal(y, torch.stack([torch.stack(tokens) for tokens in one_by_one]))
    assert torch.equal(y, (x.view(batch * sequence, width) @ w).view(batch, sequence, outputs))
    product = count(lambda: x @ w)  # @inspect product.flops [FLOP]
    assert product.flops == 2 * batch * sequence * width * outputs == 96
    text(
        "One matrix serves all tokens, so batch and sequence can be one dimension: one large multiplication of "
        "$2BSDK$ FLOPs. Where both sides have leading dimensions, as in attention, they are paired:"
    )
    heads, head_width = 2, 2  # D = 4, split over 2 heads
    query, key = torch.randn(2, batch, heads, sequence, head_width)  # (B, H, S, D/H) each
    scores = query @ key.transpose(-2, -1)  # (B, H, S, S) @inspect scores.shape
    assert scores.shape == (batch, heads, sequence, sequence)
    assert torch.allclose(scores[1, 0], query[1, 0] @ key[1, 0].t())  # a pair: one sequence, one head
    assert count(torch.matmul, query, key.transpose(-2, -1)).flops == 2 * batch * width * sequence**2


# ---------------------------------------------------------------------------------------------------------
# 4 einops and jaxtyping


def einops_and_jaxtyping() -> None:
    """einops and jaxtyping"""
    layer_flops = 4 * 2 * 32 * 64**2 + 2 * 2 * 32**2 * 64  # @hide
    text(
        f"After this section you can write tensor code that says what each dimension is, and read its cost off the "
        f"names, with two small libraries. The key figure: the matrix products of a small attention layer take "
        f"{layer_flops:,} FLOPs, which can be read off its names."
    )
    note(
        "Ten minutes. The wrong transpose of the first part is the reason for all the rest: give people a minute to "
        "find the mistake before the shapes are printed."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    dimensions_by_position()
    shapes_as_documentation()
    einsum_by_name()
    rearrange_by_name()
    what_heads_cost()
    shapes_enforced()  # @deeper
    reduce_by_name()  # @deeper
    a_matrix_for_each_head()  # @deeper
    link(**REFERENCES["einops"])
    text(
        "**In three lines.**\n\n"
        "1. A dimension by position (`-2`) can silently become another one; a dimension by name can't.\n"
        "2. einops names what is multiplied, summed and rearranged; a product takes 2 FLOPs for each combination of "
        "its names.\n"
        "3. jaxtyping writes shapes down, and `isinstance` checks them. Heads buy no FLOPs: the projections are "
        "full matrices."
    )


def dimensions_by_position() -> None:
    """Which one was -2?"""
    text(
        "PyTorch knows dimensions by position, people know them by name. Here is a line of every attention layer: each "
        "token of a sequence against each other. (*Hidden* is what much code calls the width $D$.)"
    )
    x = torch.randn(2, 4, 8)  # (batch, sequence, hidden)
    scores = x @ x.transpose(-2, -1)  # (batch, sequence, sequence) @inspect scores.shape
    assert scores.shape == (2, 4, 4)
    ask(
        "Now the hidden dimension is split over heads: `split` is (batch, sequence, heads, part), with a part of $D/H$ "
        "numbers for each head. What does "
        "`split @ split.transpose(-2, -1)` multiply?",
        "the heads of each token with each other",
        choices=[
            "the tokens of each head with each other",
            "the heads of each token with each other",
            "nothing: it raises an error",
        ],
        hint="Which dimension is -2?",
        slips={"the tokens of each head with each other": "That is what was meant. But -2 is now the heads."},
    )
    split = x.view(2, 4, 4, 2)  # (batch, sequence, heads, part)
    wrong = split @ split.transpose(-2, -1)  # @inspect wrong.shape
    right = split.transpose(1, 2) @ split.transpose(1, 2).transpose(-2, -1)  # (batch, heads, sequence, sequence)
    assert wrong.shape == right.shape == (2, 4, 4, 4)
    assert not torch.allclose(wrong, right)
    one_head = split[:, :, 3]  # (batch, sequence, part), of the last one
    assert torch.allclose(right[:, 3], one_head @ one_head.transpose(1, 2), atol=1e-6)
    text(
        "There are as many heads as tokens here, so even the shape is right. No error is raised, and a test of shapes "
        "would pass. A dimension that is counted from the end is right only as long as nobody adds one after it."
    )


def shapes_as_documentation() -> None:
    """Shapes as documentation"""
    text("In jaxtyping's notation a type says what a number is and what each dimension is called:")
    x: Float[Tensor, "batch sequence hidden"] = torch.randn(2, 3, 8)  # @inspect x.shape
    text(
        "By itself that checks nothing: Python does not even evaluate the annotation of a local variable. This one is "
        "wrong, and runs:"
    )
    wrong: Float[Tensor, "batch sequence heads part"] = torch.ones(7)  # @inspect wrong.shape
    assert wrong.dim() == 1
    text("`isinstance` does check: the number of dimensions, the kind of number, and sizes; `...` is any dimensions.")
    patterns = ["batch sequence hidden", "batch hidden", "... hidden", "... 8"]
    ask(
        "`x` has the shape (2, 3, 8). Which pattern does it *not* fit?",
        next(pattern for pattern in patterns if not isinstance(x, Float[Tensor, pattern])),
        choices=patterns,
        why="That has two dimensions, and `x` has three.",
    )
    fits = {pattern: isinstance(x, Float[Tensor, pattern]) for pattern in patterns}  # @inspect fits @stepover
    assert list(fits.values()) == [True, False, True, True]
    assert not isinstance(x, Float[Tensor, "... 9"])
    assert not isinstance(x.int(), Float[Tensor, "..."])
    text("A name stands for one size. Used twice in an annotation, it demands that the sizes agree:")
    assert isinstance(torch.ones(3, 3), Float[Tensor, "n n"])
    assert not isinstance(torch.ones(3, 4), Float[Tensor, "n n"])


def shapes_enforced() -> None:
    """Shapes enforced"""
    text("What a name stands for is forgotten from one `isinstance` to the next, unless a context keeps it:")
    longer, shorter = torch.ones(3, 8), torch.ones(1, 8)
    assert isinstance(longer, Float[Tensor, "sequence hidden"]) and isinstance(
        shorter, Float[Tensor, "sequence hidden"]
    )
    with jaxtyped("context"):
        assert isinstance(longer, Float[Tensor, "sequence hidden"])
        assert not isinstance(shorter, Float[Tensor, "sequence hidden"])
    the_arguments_of_a_function()
    without_a_checker(longer)
    text(
        'Older code writes `TensorType["batch", "sequence"]`. That is *torchtyping*, by the same author, who has put '
        "jaxtyping in its place. In spite of its name, jaxtyping does not need JAX."
    )
    link(**REFERENCES["jaxtyping"])


def the_arguments_of_a_function() -> None:
    """The arguments of a function"""
    text("The annotations of a function's arguments are kept, so that other code can read them:")

    def scores(
        query: Float[Tensor, "batch query hidden"], key: Float[Tensor, "batch key hidden"]
    ) -> Float[Tensor, "batch query key"]:
        return query @ key.transpose(-2, -1)

    text(
        "A **type checker** reads them at each call: usually *beartype* or *typeguard*, here one of a few lines, so "
        "that the lecture needs neither. jaxtyping's decorator adds that within a call `batch` is one number, and has "
        "the result checked as well."
    )
    checked_scores = jaxtyped(scores, typechecker=check_each_argument)
    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    assert checked_scores(query, key).shape == (2, 3, 5)  # @stepover
    text("Now a batch of one query and a batch of two keys. Broadcasting accepts it, and hides the mistake:")
    one_query = torch.randn(1, 3, 4)
    assert scores(one_query, key).shape == (2, 3, 5)  # @stepover
    refusal = ""
    try:
        checked_scores(one_query, key)  # @stepover
    except TypeCheckError as error:
        refusal = str(error)
    assert "batch=1" in refusal.splitlines()
    text("The mistake of this section's beginning, heads where the sequence should be, has one dimension too many:")
    caught, split = False, torch.randn(2, 4, 4, 2)  # (batch, sequence, heads, part)
    assert scores(split, split).shape == (2, 4, 4, 4)  # @stepover
    try:
        checked_scores(split, split)  # @stepover
    except TypeCheckError:
        caught = True
    assert caught


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


def without_a_checker(matrix: Tensor) -> None:
    """Without a checker"""
    text("Without a checker, `@jaxtyped` checks no argument, and no local variable ever:")

    @jaxtyped(typechecker=None)
    def is_square(x: Float[Tensor, "batch query hidden"]) -> bool:
        y: Float[Tensor, "columns rows hidden"] = x
        return isinstance(x, Float[Tensor, "rows columns"]) and isinstance(y, Float[Tensor, "columns rows"])

    assert matrix.dim() == 2
    assert not is_square(matrix)  # @stepover
    assert is_square(torch.ones(3, 3))  # @stepover
    text(
        "Both annotations ask for three dimensions, and a matrix passed. All that the decorator did was to make the "
        "two `isinstance`s share their names: `rows` in the first is `rows` in the second."
    )


def einsum_by_name() -> None:
    """Products by name"""
    text("In einops a product says which dimensions meet. What is named on the left only is summed over.")
    x = torch.arange(48.0).view(2, 3, 8)  # whole numbers: sums are exact
    y = torch.arange(80.0).view(2, 5, 8)
    by_position = x @ y.transpose(-2, -1)  # (batch, query, key)
    by_letter = torch.einsum("bqh,bkh->bqk", x, y)  # torch's own: letters only
    by_name = einsum(x, y, "batch query hidden, batch key hidden -> batch query key")  # @inspect by_name.shape
    assert torch.equal(by_name, by_position) and torch.equal(by_name, by_letter)
    text(
        "`...` stands for any leading dimensions, so the same line serves with heads and without, if they come before "
        "the sequence:"
    )
    anywhere = einsum(x, y, "... query hidden, ... key hidden -> ... query key")
    assert torch.equal(anywhere, by_position)
    # with a dimension of one head:
    with_heads = einsum(x[:, None], y[:, None], "... query hidden, ... key hidden -> ... query key")
    assert with_heads.shape == (2, 1, 3, 5)
    text(
        "Nothing checks that the queries stand where `query` says. Where dimensions may move, name all of them: "
        "`batch query heads part, batch key heads part -> batch heads query key` takes the split from above as it "
        "is, and nothing is transposed.\n\n"
        "The pattern also states the cost: 2 FLOPs, a multiplication and an addition, for each combination of all its "
        "names (where each name that is summed stands in both operands, unlike $b$ in `a b, c -> a c`)."
    )
    ask(
        "Batch 4, 10 queries, 20 keys, hidden 64: how many FLOPs does the product of each query with each key take?",
        2 * (4 * 10 * 20 * 64),
        unit="FLOPs",
        within=0,
        slips={
            4 * 10 * 20 * 64: "Multiplications and additions: twice that.",
            2 * (4 * 10 * 20): "The hidden dimension is summed over, and costs as well.",
        },
    )
    product = count(lambda: einsum(x, y, "... query hidden, ... key hidden -> ... query key"))
    assert product.flops == 2 * (2 * 3 * 5 * 8)  # batch, query, key, hidden @inspect product.flops [FLOP]
    text("Nothing on the right: everything is summed. The inner product of two tensors is a pattern too:")
    assert einsum(x, x, "batch query hidden, batch query hidden ->") == x.square().sum()


def reduce_by_name() -> None:
    """Reductions by name"""
    x = torch.randint(-9, 10, (2, 3, 8)).float()  # (batch, sequence, hidden)
    assert torch.equal(reduce(x, "... hidden -> ...", "sum"), x.sum(dim=-1))
    assert torch.equal(reduce(x, "... hidden -> ...", "mean"), x.mean(dim=-1))
    assert torch.equal(reduce(x, "... hidden -> ...", "max"), x.amax(dim=-1))
    old, new = x.mean(dim=-1), reduce(x, "... hidden -> ...", "sum")  # @inspect old new
    ask(
        'Find the error: `x.mean(dim=-1)` and `reduce(x, "... hidden -> ...", "sum")` have been printed as the old and '
        "the new way to write one thing. By which factor do they differ, with a hidden dimension of 8?",
        (new[old != 0] / old[old != 0]).mean().item(),
        hint="What does a mean do that a sum doesn't?",
        why="A claim that the two are equal would have found it.",
    )
    assert not torch.equal(new, old)
    assert torch.equal(new, 8 * old)
    text("Several dimensions can be reduced at once, and parts of one, here the mean over windows of two tokens:")
    assert torch.equal(reduce(x, "batch sequence hidden -> batch", "max"), x.amax(dim=(1, 2)))
    windows = reduce(x[:, :2], "batch (window two) hidden -> batch window hidden", "mean", two=2)
    assert torch.equal(windows[:, 0], (x[:, 0] + x[:, 1]) / 2)


def rearrange_by_name() -> None:
    """Rearranging by name"""
    x = torch.randn(2, 3, 8)  # (batch, sequence, hidden)
    permuted = rearrange(x, "batch sequence hidden -> batch hidden sequence")  # @inspect permuted.shape
    assert torch.equal(permuted, x.permute(0, 2, 1))
    text("A hidden dimension of 8 can be 2 heads of 4 numbers, side by side. Parentheses split it:")
    split = rearrange(x, "... (heads part) -> ... heads part", heads=2)  # @inspect split.shape
    assert torch.equal(split, x.view(2, 3, 2, 4))
    merged = rearrange(split, "... heads part -> ... (heads part)")
    assert torch.equal(merged, x)
    ask(
        "Write the line that makes (batch, heads, sequence, part) of `x` at once.",
        'rearrange(x, "batch sequence (heads part) -> batch heads sequence part", heads=2)',
        hint="Split on the left, and say the new order on the right.",
    )
    by_head = rearrange(x, "batch sequence (heads part) -> batch heads sequence part", heads=2)
    assert torch.equal(by_head, split.transpose(1, 2))
    ask(
        'Find the error: heads are split by `rearrange(x, "... (part heads) -> ... heads part", heads=2)`, '
        "and the result's shape is right. What does the first head get?",
        "every second number",
        choices=["the first half of the numbers", "every second number", "all numbers"],
        hint="Inside the parentheses, the last name is the one that changes from each number to the next.",
        slips={"the first half of the numbers": "So it should be: `(heads part)` does that."},
    )
    text("The order inside the parentheses matters, and the shape does not show it:")
    other = rearrange(x, "... (part heads) -> ... heads part", heads=2)
    assert other.shape == split.shape
    assert torch.equal(other[..., 0, :], x[..., 0::2]) and torch.equal(split[..., 0, :], x[..., :4])
    text("A division with a remainder is an error, and the message says which:")
    refusal = ""
    try:
        rearrange(x, "... (heads part) -> ... heads part", heads=3)
    except EinopsError as error:
        refusal = str(error).strip()  # @inspect refusal
    assert "can't divide axis of length 8 in chunks of 3" in refusal
    text("Names move no bytes: einops makes a view where it can, and copies only where it must.")
    assert shares_storage(x, split) and shares_storage(x, permuted)  # @stepover
    flattened = rearrange(x, "batch sequence hidden -> batch (hidden sequence)")
    assert not shares_storage(x, flattened)  # @stepover
    assert count(lambda: rearrange(x, "... (heads part) -> ... heads part", heads=2)).bytes_moved == 0


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
        "An attention layer, its heads by name. It multiplies its input by three full matrices, for queries, keys and "
        "values, and its result by a fourth. Only the scores, and the sums of values that they weight, are computed "
        "head by head."
    )
    batch, sequence, hidden = 1, 32, 64
    x, weights = torch.randn(batch, sequence, hidden), torch.randn(4, hidden, hidden) / math.sqrt(hidden)  # section 8
    out = attention(x, weights, heads=4)  # @inspect out.shape
    query, key, value = (x @ w for w in weights[:3])  # now by position
    query, key, value = (t.view(batch, sequence, 4, 16).transpose(1, 2) for t in (query, key, value))
    by_position = nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2)  # torch's own
    assert torch.allclose(out, by_position.reshape(batch, sequence, hidden) @ weights[3], atol=1e-5)
    ask(
        "With 16 heads in place of 1, how do the FLOPs of its matrix products change?",
        "not at all",
        choices=["a sixteenth", "a quarter", "sixteen times", "not at all"],
        hint="A head is narrower by as much as there are more heads. And what of the four full matrices?",
        slips={
            "a sixteenth": "That would be so if each head had only its own block of the four matrices. They are full.",
            "sixteen times": "There are sixteen times as many scores, each a sixteenth as wide.",
        },
    )
    flops = [matmul_flops_of_attention(x, weights, heads) for heads in (1, 4, 16)]  # @inspect flops [FLOP]
    assert flops == [1_310_720, 1_310_720, 1_310_720]
    assert flops[0] == 4 * 2 * batch * sequence * hidden**2 + 2 * 2 * batch * sequence**2 * hidden
    text(
        "Four multiplications by full matrices (*projections*) of $2BSD^2$, and two products of $2BS^2D$, with any "
        "number of heads. More heads do not make attention cheaper; they let a token look at several places for the "
        "same FLOPs."
    )


def a_matrix_for_each_head() -> None:
    """A matrix for each head"""
    text(
        "What attention does *not* do: give each head a matrix that sees only this head's part of the input. It is a "
        "good exercise in splitting, multiplying and merging all the same, and used where layers have groups."
    )
    heads, part, outputs = 4, 8, 8
    x = torch.randint(-9, 10, (2, 3, heads * part)).float()  # (batch, sequence, hidden)
    w = torch.randint(-9, 10, (heads, part, outputs)).float()
    split = rearrange(x, "... (heads part) -> ... heads part", heads=heads)
    mixed = einsum(split, w, "... heads part, heads part out -> ... heads out")  # @inspect mixed.shape
    merged = rearrange(mixed, "... heads out -> ... (heads out)")  # @inspect merged.shape
    text("By position it takes a `view`, two `transpose`s, a `reshape`, and a comment that says which is which:")
    rows = x.view(2, 3, heads, part).transpose(1, 2)  # (batch, heads, sequence, part)
    by_position = (rows @ w).transpose(1, 2).reshape(2, 3, heads * outputs)
    assert torch.equal(merged, by_position)
    text("It is one multiplication by a matrix with the heads' matrices along its diagonal and zeros elsewhere:")
    diagonal = torch.block_diag(*w)  # (hidden, hidden) @inspect diagonal.shape
    assert torch.equal(merged, x @ diagonal)
    per_head = count(lambda: einsum(split, w, "... heads part, heads part out -> ... heads out"))
    whole = count(lambda: x @ diagonal)
    assert whole.flops == heads * per_head.flops  # @inspect per_head.flops [FLOP], whole.flops [FLOP]
    text(f"That leaves out the products with zeros, and takes 1/{heads} of the FLOPs. A full matrix has no such zeros.")


# ---------------------------------------------------------------------------------------------------------
# 5 Compute accounting


def compute_accounting() -> None:
    """Compute accounting"""
    years = 6 * 175e9 * 300e9 / (8 * H100_SPARSE_BF16 / 2) / (365 * SECONDS_PER_DAY)  # GPT-3, on 8 H100s @hide
    text(
        f"Compute decides how long training takes. After this section you can count the FLOPs of a matrix product, "
        f"time it properly, and say which share of a machine's promise it gets. The key figure: GPT-3's training is "
        f"{years:.1f} years of 8 H100s at everything their datasheet promises."
    )
    note(
        "Ten minutes. Ask for the FLOPs of one matrix product before anything is shown, and do the hand "
        "multiplication in full; the table of peaks only needs the row of the machine at hand. If time is "
        "short, skip the counts of everything else."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    counts_and_rates()
    multiplying_by_hand()
    flops_of_matmuls()
    flops_of_the_rest()
    timing_properly()
    timed_without_synchronizing()
    promised_peaks()
    model_flops_utilization()
    traps_of_utilization()  # @deeper
    hardware_flops_utilization()  # @deeper
    how_well_a_median_is_known()  # @deeper
    what_the_device_says()  # @deeper
    peaks_follow_bytes()  # @deeper
    switching_tf32()  # @deeper
    three_regimes()  # @deeper
    tiles_and_waves()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. A product of $(B, D)$ and $(D, K)$ takes $2BDK$ FLOPs, and a model's FLOPs are its "
        "products'.\n"
        "2. Time it warmed up, synchronised and repeated; report the median and the spread.\n"
        "3. MFU is the FLOPs the model needs, over time, over the peak *of that number format*: 0.5 is good, and well "
        "above 1 there is a mistake."
    )


def counts_and_rates() -> None:
    """A count, a rate, and some landmarks"""
    text(
        "A training run has a number of FLOPs, a GPU has FLOP/s, and the quotient is a time. GPT-3, with 175B "
        "parameters and 300B tokens, by section 1's rule and as its paper states it:"
    )
    gpt3_flops = 6 * 175e9 * 300e9  # @inspect gpt3_flops [FLOP]
    stated_flops = 3.14e23
    assert math.isclose(gpt3_flops, stated_flops, rel_tol=0.01)
    answer = 8 * 14 * SECONDS_PER_DAY * H100_SPARSE_BF16 / 2  # @hide
    ask(
        "How many FLOPs can 8 H100s do in two weeks, if they do all that the datasheet promises for dense bf16?",
        answer=answer,
        unit="FLOP",
        within=0.02,
        hint="The dense peak is 989.5 TFLOP/s; a day has 86,400 s.",
        slips={
            8 * 7 * SECONDS_PER_DAY * H100_SPARSE_BF16 / 2: "That is one week.",
            8 * 14 * SECONDS_PER_DAY * H100_SPARSE_BF16: "That is the peak with 2:4 sparsity; dense is half of it.",
            14 * SECONDS_PER_DAY * H100_SPARSE_BF16 / 2: "That is a single H100.",
        },
    )
    dense_peak = H100_SPARSE_BF16 / 2  # @inspect dense_peak [FLOP/s]
    two_weeks_flops = 8 * dense_peak * 14 * SECONDS_PER_DAY  # @inspect two_weeks_flops [FLOP]
    assert math.isclose(two_weeks_flops, 9.575e21, rel_tol=1e-3)
    assert math.isclose(two_weeks_flops, answer)  # @hide
    landmarks = {
        "8 H100s for two weeks, at peak": two_weeks_flops,
        "GPT-3 (2020), stated": stated_flops,
        "GPT-4 (2023), outsiders' guess": 2e25,
        "US: a run to be reported (2023, revoked in 2025)": 1e26,
    }
    years = {name: flops / two_weeks_flops * 14 / 365 for name, flops in landmarks.items()}  # on 8 H100s, at peak
    rows = [(name, flops, round(years[name], 2)) for name, flops in landmarks.items()]  # @hide
    table(rows, ["landmark", "FLOPs", "years of 8 H100s at peak"])  # @hide
    link(**REFERENCES["gpt-4 compute"])
    link(**REFERENCES["executive order"])


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
        "In a matrix product (*matmul*), each of the $B \\times K$ results of $(B, D) \\times (D, K)$ is a sum of $D$ "
        "products: $D$ multiplications and $D - 1$ additions."
    )
    batch, width, outputs = 2, 5, 3
    x = torch.arange(10.0).view(batch, width)  # (B, D), whole numbers: sums are exact
    w = torch.arange(15.0).view(width, outputs)  # (D, K)
    y, exact_flops = multiplied_by_hand(x, w)  # @inspect y exact_flops [FLOP] @stepover
    assert y.tolist() == (x @ w).tolist() == [[90, 100, 110], [240, 275, 310]]
    assert exact_flops == batch * outputs * (2 * width - 1) == 54
    counted_flops = count(lambda: x @ w).flops  # @inspect counted_flops [FLOP]
    assert counted_flops == 2 * batch * width * outputs == exact_flops + batch * outputs
    overstated = [1 / (2 * d - 1) for d in (width, 12288)]  # here, and at GPT-3's width @inspect overstated
    assert math.isclose(overstated[0], counted_flops / exact_flops - 1)
    assert f"{overstated[1]:.4%}" == "0.0041%"  # 1/24575 @hide
    text(
        f"The usual count, $2BDK$, has one addition more for each result: hardware multiplies and adds in one "
        f"instruction, starting from zero. At GPT-3's width the difference is {overstated[1]:.3%}."
    )
    answer = count(lambda: torch.empty(64, 512, device="meta") @ torch.empty(512, 128, device="meta")).flops  # @hide
    assert answer == 2 * 64 * 512 * 128  # @hide
    ask(
        "How many FLOPs does a batch of 64 rows of width 512 take through a layer with 128 outputs?",
        answer=answer,
        unit="FLOP",
        hint="$2BDK$",
        slips={
            64 * 512 * 128: "Each term is a multiplication *and* an addition: twice as many.",
            2 * 512 * 128: "That is for a single row.",
        },
    )


def counted_and_timed(rows: int, inner: int, columns: int, dtype: torch.dtype) -> tuple[Count, Measurement]:
    """Count and measure a product of random matrices (zeros take less power, and run faster than anything real)"""
    x = torch.randn(rows, inner, device=device(), dtype=dtype)
    w = torch.randn(inner, columns, device=device(), dtype=dtype)
    return count(lambda: x @ w), timed(lambda: x @ w)


def timed(f: Callable[[], Any]) -> Measurement:
    """Measure briefly: five samples"""
    return measure(f, repeats=5, min_seconds=0.02, max_seconds=0.2)


def times_as_long(slow: Measurement, fast: Measurement) -> list[float]:
    """How many times as long one took as the other, sample by sample"""
    return [a / b for a, b in zip(slow.samples_s, fast.samples_s, strict=False)]


def flops_of_matmuls() -> None:
    """Claimed, counted, measured"""
    n = sizes().matmul_side  # @stepover
    text("$2BDK$, whichever dimension is the small one. The first two have the same FLOPs:")
    rows, times, counted = [], [], []
    for b, d, k in ((n // 8, n, n), (n, n // 8, n), (n, n, n)):
        done, took = counted_and_timed(b, d, k, torch.float32)  # @stepover
        assert done.flops == 2 * b * d * k
        rate = done.flops / took.seconds  # @inspect rate [FLOP/s]
        times.append(took)
        counted.append(done.flops)
        rows.append((f"({b}, {d}) @ ({d}, {k})", 2 * b * d * k, done.flops, took.seconds, rate))  # @hide
    assert counted[0] == counted[1] == counted[2] / 8
    table(rows, ["fp32 matmul", "claimed, FLOPs", "counted", "measured, s", "FLOP/s"])  # @hide
    decide(
        times_as_long(times[1], times[0]),
        than=(0.8, 1.25),
        above="The second takes longer than the first: a FLOP is not always worth the same time. Section 6 says why.",
        below="The first takes longer than the second: a FLOP is not always worth the same time. Section 6 says why.",
        undecided="Their times are about equal here. That need not be so: section 6 says why.",
    )


def flops_of_the_rest() -> None:
    """Everything else"""
    text(
        "An *elementwise* operation on $n \\times n$ numbers takes a few FLOPs for each. torch's own counter knows "
        "products of matrices, convolutions (other sums of products) and attention only, and no matrix "
        "times a vector. This lecture's `count` has a formula for each operation: an addition, a multiplication, a "
        "comparison is 1 FLOP, an exponential 8."
    )
    n = sizes().matmul_side  # @stepover
    x, v = torch.randn(n, n, device=device()), torch.randn(n, device=device())
    operations = (lambda: x + x, lambda: x @ v, lambda: x @ x)
    counted = [count(operation).flops for operation in operations]  # @inspect counted [FLOP]
    assert counted == [n * n, 2 * n * n, 2 * n**3]
    seen_by_torch = [torch_counts(operation) for operation in operations]  # @inspect seen_by_torch [FLOP] @stepover
    assert seen_by_torch == [0, 0, 2 * n**3]
    addition, _, product = (timed(operation) for operation in operations)  # @stepover
    more_flops = counted[2] / counted[0]  # @inspect more_flops
    assert more_flops == 2 * n
    faster = [more_flops / ratio for ratio in times_as_long(product, addition)]  # in FLOP/s @inspect faster @stepover
    decide(
        faster,
        than=2,
        above=(
            f"The product has {more_flops:.0f} times the FLOPs of the addition: that is why a model's FLOPs are its "
            f"products' FLOPs. It also does them {statistics.median(faster):.0f} times as fast."
        ),
        below=f"The product has {more_flops:.0f} times the FLOPs of the addition, and does them no faster here.",
        undecided=f"The product has {more_flops:.0f} times the FLOPs; whether it does them faster, runs don't agree.",
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
    text(
        "**Warm up**: a first call chooses algorithms, allocates, fills caches. **Synchronise**: a GPU's call returns "
        "when the work is queued, not when it is done. **Repeat**, and report the **median**, which one interruption "
        "can't move, with the **spread**: the range of the times' middle half, over the median."
    )
    n = sizes().model_width  # @stepover
    x = torch.randn(n, n, device=device())
    started = time.perf_counter()
    samples = timed_by_hand(lambda: x @ x, 12)  # @stepover
    assert 0 < sum(samples) < time.perf_counter() - started  # one after the other
    plot(
        {"seconds": samples}, x_label="call", y_label="s", style="points", title=f"{len(samples)} calls of one matmul"
    )  # @hide
    first, rest = samples[0], samples[1:]  # @inspect first [s]
    median = statistics.median(rest)  # @inspect median [s]
    low, _, high = statistics.quantiles(rest, n=4)  # the middle half lies between them
    spread = (high - low) / median  # @inspect spread
    decide(
        [first / one for one in rest],
        than=1.2,
        above=f"The first call took {first / median:.1f} times the median: it has to be left out.",
        below="The first call took no longer than the others: nothing was left to warm up.",
        undecided="The samples do not agree on whether the first call takes longer than the others.",
    )
    text(
        f"The spread, {spread:.0%}, says how far single calls scatter. `measure` does these things, and calls a short "
        f"function many times a sample, because reading a clock takes time, too:"
    )
    tiny = timed(x.t)  # @inspect tiny.calls_per_sample tiny.seconds [s] @stepover
    assert tiny.calls_per_sample > 1


def how_well_a_median_is_known() -> None:
    """How well a median is known"""
    text(
        "The spread is not the median's uncertainty: a median of $n$ samples is known about $\\sqrt n$ times as well "
        "as a single one. Draw 100 samples around 1 and 100 around 1.05, both with a spread of 13%. Does the larger "
        "median belong to the slower operation? 5000 times over:"
    )
    generator = torch.Generator().manual_seed(0)
    standard_deviation = 0.13 / 1.349  # a normal distribution's quartiles are 1.349 standard deviations apart
    noise = standard_deviation * torch.randn(2, 5000, 100, generator=generator)  # (operation, trial, sample)
    fast, slow = 1 + noise[0], 1.05 * (1 + noise[1])
    quartiles = fast.flatten()[:100_000].quantile(torch.tensor([0.25, 0.75]))  # @inspect quartiles
    assert abs(quartiles[1] - quartiles[0] - 0.13) < 0.002
    by_one_sample = (fast < slow).float().mean().item()  # ranked right @inspect by_one_sample
    by_the_median = (fast.median(dim=1).values < slow.median(dim=1).values).float().mean().item()
    assert 0.6 < by_one_sample < 0.7 < 0.99 < by_the_median  # @inspect by_the_median
    text(
        f"A single pair of samples ranks them right in {by_one_sample:.0%} of the trials, the medians in "
        f"{by_the_median:.1%}, though 5% is well inside the spread. That is chance within *one* process. Processes "
        f"differ among themselves as well, in what else runs and in where their memory lies, and no number of samples "
        f"of one process shows that: compare several."
    )


def timed_without_synchronizing() -> None:
    """The wrong number"""
    n = 8192
    floor_s = 2 * n**3 / (H100_SPARSE_BF16 / 2)  # on an H100, at its peak @inspect floor_s [s]
    assert round(floor_s * 1e3, 2) == 1.11  # ms
    ask(
        f"A program starts a clock, calls `x @ w` on an H100 with two bf16 matrices of {n}², stops the clock "
        f"after 10 µs, and reports {2 * n**3 / 10e-6 / 1e12:,.0f} TFLOP/s. Which line is missing, and where?",
        answer="`torch.cuda.synchronize()`, before the clock is started and before it is stopped.",
        why=f"The call returns when the work is queued. The work itself takes {floor_s * 1e3:.1f} ms or more.",
    )
    if device() != "cuda":
        text(
            f"Not run: no CUDA device. By the datasheet the product takes an H100 at least {floor_s * 1e3:.1f} ms. On "
            f"a CPU a call returns when it is done, so the mistake can't be made here."
        )
        return
    n = sizes().matmul_side  # @stepover
    x = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
    right = statistics.median(timed_by_hand(lambda: x @ x, 5))  # @inspect right [s] @stepover
    wrong = statistics.median(timed_too_early(lambda: x @ x) for _ in range(5))  # @inspect wrong [s] @stepover
    assert wrong < right / 2
    rate = 2 * n**3 / wrong  # @inspect rate [FLOP/s]
    text(
        f"Without synchronising, a matmul of {n}³ seems to take {wrong * 1e6:.0f} µs, {rate / 1e12:.0f} TFLOP/s. "
        f"That is the time to *ask* for it. It takes {right * 1e6:.0f} µs."
    )


def timed_too_early(f: Callable[[], Any]) -> float:
    """Seconds until a call returns, which on a GPU is before its work is done"""
    wait_for_the_device()
    started = time.perf_counter()
    f()
    return time.perf_counter() - started


def what_the_device_says() -> None:
    """What the device says of itself"""
    if device() != "cuda":
        text("`torch.cuda.get_device_properties`: not run, no CUDA device. What PyTorch knows about the CPU:")
        threads = torch.get_num_threads()  # @inspect threads
        capability = torch.backends.cpu.get_cpu_capability()  # the widest instructions it will use @inspect capability
        text(
            f"{threads} thread{'' if threads == 1 else 's'}, {capability} instructions, and nothing about how fast "
            "that is."
        )
        return
    found = torch.cuda.get_device_properties(0)  # @inspect found.name
    processors, total_bytes = found.multi_processor_count, found.total_memory  # @inspect processors total_bytes [B]
    cache_bytes = getattr(found, "L2_cache_size", None)  # @inspect cache_bytes [B]
    known = known_machine(found.name)  # @stepover
    assert known is None or processors <= known.multiprocessors  # fewer, where it is only a part
    text(
        f"{found.name}: {processors} multiprocessors, {total_bytes / 2**30:.0f} GiB, and a second-level cache of "
        f"{'unknown size' if cache_bytes is None else f'{cache_bytes / 2**20:.0f} MiB'}. How fast it is, it does "
        f"not say: that is in the datasheet."
    )


def promised_peaks() -> None:
    """What is promised"""
    text(
        "Dense peaks, in TFLOP/s, from the datasheets. fp32 runs on a GPU's ordinary cores, the other formats on its "
        "tensor cores (section 2). No datasheet promises anything for a CPU: its peak is the best that was measured, "
        "with a large product in each format, before the lecture began."
    )
    formats = ("float32", "tf32", "float16", "bfloat16", "float8")
    names = ("NVIDIA GeForce RTX 3090", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H200")
    promised = {name: known_machine(name).flops_per_second for name in names}  # @stepover
    here = {form: peak_flops(form) for form in formats}  # @inspect here [FLOP/s]
    rows = [(name, *(terascale(peaks.get(f)) for f in formats)) for name, peaks in promised.items()]  # @stepover @hide
    table([*rows, ("this machine", *(terascale(here[f]) for f in formats))], ["machine", *formats])  # @stepover @hide
    a100, h100 = promised["NVIDIA A100-SXM4-80GB"], promised["NVIDIA H100 80GB HBM3"]
    assert (a100["bfloat16"], a100["float32"]) == (312e12, 19.5e12)
    assert (h100["bfloat16"], h100["float32"]) == (989.5e12, 67e12)
    assert h100["bfloat16"] == H100_SPARSE_BF16 / 2
    link(**REFERENCES["h100"])


def peaks_follow_bytes() -> None:
    """Peaks follow the bytes of a number"""
    h100 = known_machine("NVIDIA H100 80GB HBM3").flops_per_second  # @stepover
    steps = [round(h100[few] / h100[many], 2) for few, many in (("float8", "bfloat16"), ("bfloat16", "tf32"))]
    stored = [dtype.itemsize for dtype in (torch.float8_e4m3fn, torch.bfloat16, torch.float32)]  # bytes; tf32 in fp32's
    assert steps == [stored[1] / stored[0], stored[2] / stored[1]]  # @inspect steps stored
    tf32_bits = 1 + 8 + 10  # sign, exponent, mantissa
    text(
        f"On the H100's tensor cores FP8 is {steps[0]:.0f} times as fast as bf16, and bf16 {steps[1]:.0f} times as "
        f"fast as tf32. That follows the bytes in which a number is stored, not its bits: tf32 has {tf32_bits}, only "
        f"{tf32_bits - 16} more than bf16."
    )


def terascale(rate: float | None) -> str | float:
    """A rate for a table, in units of 10¹²"""
    return "–" if rate is None else float(f"{rate / 1e12:.4g}")


def switching_tf32() -> None:
    """tf32, and its switch"""
    text(
        "On tensor cores, fp32 matrices can be multiplied as **tf32**: the operands are rounded to 10 bits of "
        "mantissa, the sums kept in fp32. For matrix products PyTorch does that only when told to. For "
        "convolutions it does it *by default*:"
    )
    torch.set_float32_matmul_precision("highest")  # no tf32: the default, unless the environment says otherwise
    setting = torch.get_float32_matmul_precision()  # "highest": no; "high": tf32 @inspect setting
    in_convolutions = torch.backends.cudnn.allow_tf32  # @inspect in_convolutions
    assert (setting, in_convolutions) == ("highest", True)
    x, w = torch.randn(256, 256), torch.randn(256, 256)
    exact = x.double() @ w.double()
    tf32_x, tf32_w = ((t.view(torch.int32) + 2**12 >> 13 << 13).view(torch.float32) for t in (x, w))
    lowest_bit = (tf32_x.view(torch.int32) & -tf32_x.view(torch.int32)).min().item()  # that is set in any
    assert lowest_bit == 2**13  # 32 − 13 bits are left, 19
    errors = {"fp32": relative_error(x @ w, exact), "tf32": relative_error(tf32_x @ tf32_w, exact)}  # @stepover
    assert errors["fp32"] < 1e-6 < 1e-4 < errors["tf32"] < 2**-11  # half a unit of the last bit @inspect errors
    text(
        f"Rounded by hand, the product is off by {errors['tf32']:.1g}, where fp32 is off by {errors['fp32']:.1g}: "
        f"three digits, given up for speed."
    )
    if device() == "cuda" and peak_flops("tf32") is not None:
        torch.set_float32_matmul_precision("high")
        by_tensor_cores = relative_error((x.cuda() @ w.cuda()).cpu(), exact)  # @inspect by_tensor_cores @stepover
        torch.set_float32_matmul_precision("highest")
        assert errors["fp32"] / 2 < by_tensor_cores < 2**-9  # cut off, not rounded, an operand loses less than 2⁻¹⁰
        how = "in tf32" if by_tensor_cores > 100 * errors["fp32"] else "in fp32: the switch allows, it does not oblige"
        text(f"This GPU, allowed to, is off by {by_tensor_cores:.1g}: it multiplied {how}.")
    else:
        text("By tensor cores: not run, there is no tf32 here.")


def relative_error(found: Tensor, exact: Tensor) -> float:
    """How far off, in units of the exact result"""
    return ((found.double() - exact).norm() / exact.norm()).item()


def model_flops_utilization() -> None:
    """MFU: achieved over promised"""
    text(
        "**Model FLOPs utilization** is the FLOPs that the model needs, divided by the time taken, over the promised "
        "FLOP/s *of that number format*. First for the easiest workload there is, one large matrix product:"
    )
    reached = {}
    fp32, bf16, fp16 = torch.float32, torch.bfloat16, torch.float16
    for form, dtype in {"float32": fp32, "tf32": fp32, "bfloat16": bf16, "float16": fp16}.items():
        shares = utilization(form, dtype)  # of the peak, one for each sample; none where no peak is known @stepover
        if shares:
            reached[form] = statistics.median(shares)
        assert all(0 < share <= 1.2 for share in shares)  # a clock may run faster than the datasheet's
    rows = [(form, peak_flops(form), share) for form, share in reached.items()]  # @stepover @hide
    table(rows, ["format", "peak, FLOP/s", "MFU"])  # @hide
    if device() == "cpu" and rows:
        text(
            "On this CPU the peak was measured, too: the best of several sizes and of two layouts, with the second "
            "matrix as it is and transposed, in fp32 as a convolution, too, which another library computes. In this "
            "table it is as it is; a small share means that this CPU is slow with that layout of the format, or that "
            "library with this CPU."
        )
    text("Where no peak is known there is no MFU; a tool that takes 1 FLOP/s for it prints an MFU in the billions:")
    assert peak_flops("a format that nobody has built") is None
    lowest, highest = (speed / (H100_SPARSE_BF16 / 2) for speed in LLAMA3_SPEEDS)  # @hide
    text(
        f"A training run gets less. The PaLM paper, where MFU was defined (attention's FLOPs are counted there, too), "
        f"gives for GPT-3 {GPT3_MFU:.2f}, for its own 540B model {PALM_MFU:.2f}; section 1's Llama 3 405B has "
        f"{lowest:.2f} to {highest:.2f}. So **0.5 is good**. Below 0.3 look for the cause: waiting for memory, many "
        f"small operations, slow data, GPUs that wait for each other."
    )
    ask(
        "A step on `tokens` tokens took `seconds` on one GPU. Write the line for its `mfu`.",
        "mfu = 6 * parameters * tokens / seconds / peak",
        why="`peak` is that of the number format in which the products were computed. This is $6ND$; for long "
        "sequences attention's FLOPs are added.",
    )
    link(**REFERENCES["palm"])


def hardware_flops_utilization() -> None:
    """HFU: what the hardware really did"""
    x, w = torch.randn(8, 16, requires_grad=True), torch.randn(16, 32, requires_grad=True)  # @hide
    forward, step = (
        count(lambda: x @ w).flops,
        count(lambda: (x @ w).sum().backward()).flops_by_operator["aten.mm"],
    )  # @hide
    answer = (forward + step) / step  # the step, and the forward pass again @hide
    assert answer == 8 / 6  # @hide
    ask(
        "**HFU**, hardware FLOPs utilization, counts what the hardware really did. *Activation checkpointing* (section "
        "14) saves memory by running every forward pass a second time. By which factor is HFU then above MFU?",
        answer=answer,
        hint="Per parameter and token, a forward pass takes 2 FLOPs and a backward pass 4.",
        slips={
            2: "Only the forward pass is repeated.",
            3 / 2: "A forward pass is a third of the step, not half.",
        },
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
    if device() == "cpu":
        promised = max(promised, *rates)  # nobody promised: the best that was ever seen
    return [rate / promised for rate in rates]


def traps_of_utilization() -> None:
    """Find the error"""
    rtx3090 = known_machine("NVIDIA GeForce RTX 3090").flops_per_second  # @stepover
    reported = 70.3e12 / rtx3090["float32"]  # an MFU @inspect reported
    like_over_like = 70.3e12 / rtx3090["bfloat16"]  # @hide
    assert (round(reported, 2), round(like_over_like, 2)) == (1.97, 0.99)  # @hide
    ask(
        f"A log says: bf16 matmul on an RTX 3090, 70.3 TFLOP/s, MFU {reported:.2f}. What is the MFU?",
        answer=like_over_like,
        hint=(
            f"The 3090's peaks are {rtx3090['float32'] / 1e12:.4g} TFLOP/s in fp32 and "
            f"{rtx3090['bfloat16'] / 1e12:.4g} in bf16."
        ),
        why="The log divided a speed in bf16 by the peak of fp32. An MFU well above 1 is always a mistake somewhere.",
        slips={reported: "That is over the peak of fp32. Divide by the peak of the format that was used."},
    )
    ask(
        "Another: 5.4e14 FLOPs took 0.1 s, that is 540 TFLOP/s. How many TFLOP/s is it?",
        answer=5.4e14 / 0.1 / 1e12,
        unit="TFLOP/s",
        why=f"That is {5.4e14 / 0.1 / (H100_SPARSE_BF16 / 2):.1f} times an H100's peak: one of the two is wrong, too.",
        slips={540: "That would be in 1 s.", 54: "Divide by 0.1, don't multiply by it."},
    )


def three_regimes() -> None:
    """Three regimes"""
    text(
        "Why isn't it always the peak? An operation has three costs: a fixed one for being started at all (in Python "
        "and torch; on a GPU also the *launch* of its kernel), one for moving its bytes, one for its FLOPs. The "
        "largest decides. First a square matmul, $3n^2$ numbers and $2n^3$ FLOPs; then a matrix times one column, "
        "$n^2$ numbers and $2n^2$ FLOPs."
    )
    dtype = torch.bfloat16 if device() == "cuda" else torch.float32
    sides = [2**k for k in range(4, sizes().matmul_side.bit_length())]  # @stepover
    longest = sizes().side_of(dtype.itemsize)  # @stepover
    square = [counted_and_timed(n, n, n, dtype) for n in sides]  # @stepover
    lengths = [2**k for k in range(4, longest.bit_length())]
    column = [counted_and_timed(n, n, 1, dtype) for n in lengths]  # @stepover
    rates = [done.flops / took.seconds for done, took in square]  # @inspect rates [FLOP/s]
    assert [done.flops for done, _ in square] == [2 * n**3 for n in sides]
    assert [done.bytes_moved for done, _ in column] == [(n * n + 2 * n) * dtype.itemsize for n in lengths]
    peak = max(rates) if device() == "cpu" else peak_flops(dtype)  # @inspect peak [FLOP/s] @stepover
    draw_costs("(n, n) @ (n, n)", sides, square, peak)  # @stepover
    draw_costs("(n, n) @ (n, 1)", lengths, column, peak)  # @stepover
    column_share = max(done.flops / took.seconds for done, took in column) / max(rates)  # @inspect column_share
    text(
        f"With n = 16, where nearly nothing is moved or computed, a call takes {square[0][1].seconds * 1e6:.1f} µs "
        f"here. At its best the square one does {max(rates) / rates[0]:.0f} times the FLOP/s that it does there. The "
        f"column, at its best, does {column_share:.0%} of the square's best: the bytes of a matrix cost more than two "
        f"FLOPs for each number. Which of the two large costs it will be, the operation alone tells: section 6."
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
        "A GPU's kernel cuts the result into tiles, of 128 × 256 numbers say, and gives each multiprocessor a tile at "
        "a time: a *wave* for all of them. Tiles at the edge are cut off, the last wave is rarely full, and by "
        "this model the time is that of whole waves. For an H100:"
    )
    processors = known_machine("NVIDIA H100 80GB HBM3").multiprocessors  # @inspect processors @stepover
    tiles = {n: math.ceil(n / 128) * math.ceil(n / 256) for n in (8191, 8192, 8193)}  # @inspect tiles
    waves = {n: math.ceil(count / processors) for n, count in tiles.items()}  # @inspect waves
    assert waves == {8191: 16, 8192: 16, 8193: 17}
    slower = waves[8193] / waves[8192]  # @inspect slower
    assert slower > tiles[8193] / tiles[8192]  # what counts is begun waves, not tiles
    text(f"One more row and column than 8192 begins another wave: {slower - 1:.2%} more time, by this model.")
    sides = list(range(256, 8193, 256))
    used = {n: wave_efficiency(n, processors) for n in sides}  # @stepover
    plot(
        {"H100": list(used.values())}, x=sides, x_label="n", y_label="part of the tensor cores at work", style="steps"
    )  # @hide
    assert math.isclose(used[8192], tiles[8192] / (waves[8192] * processors))
    assert min(used.values()) < 0.5 < 0.9 < used[8192] < used[7168]
    text(
        "So sizes should be large, and multiples of 64 or 128, to make whole tiles. Powers of two are nothing special: "
        "7168 fills its waves better than 8192. Alignment matters besides: rows that don't start at multiples of 16 "
        "bytes can't be loaded in the widest pieces. Here, measured:"
    )
    n = sizes().matmul_side // 2  # @stepover
    dtype = torch.bfloat16 if device() == "cuda" else torch.float32
    _, odd = counted_and_timed(n - 1, n - 1, n - 1, dtype)  # @inspect odd.seconds [s] @stepover
    _, even = counted_and_timed(n, n, n, dtype)  # @inspect even.seconds [s] @stepover
    decide(
        [ratio * (n / (n - 1)) ** 3 for ratio in times_as_long(odd, even)],  # per FLOP
        than=(0.9, 1.1),
        above=f"A matmul of {n} does its FLOPs faster than one of {n - 1}: padding the smaller would pay.",
        below=f"On this machine {n - 1} does its FLOPs *faster* than {n}.",
        undecided=f"On this machine {n} is not faster than {n - 1} by 10% in all samples, nor slower.",
    )
    link(**REFERENCES["matmul guide"])


def wave_efficiency(n: int, processors: int) -> float:
    """Part of the multiprocessors' time that goes into an n × n result, in tiles of 128 × 256"""
    tiles = math.ceil(n / 128) * math.ceil(n / 256)
    waves = math.ceil(tiles / processors)
    return (n / 128) * (n / 256) / (waves * processors)


# ---------------------------------------------------------------------------------------------------------
# 6 Arithmetic intensity and the roofline


class Operation(NamedTuple):
    """One operation: what was counted, and how long it took"""

    done: Count
    took: Measurement

    @property
    def intensity(self) -> float:
        """FLOPs per byte, as counted"""
        return self.done.flops / self.done.bytes_moved

    @property
    def rate(self) -> float:
        """FLOP/s, as measured"""
        return self.done.flops / self.took.seconds


def counted_and_measured(f: Callable[..., Any], *inputs: Tensor) -> Operation:
    """Count and measure one operation"""
    return Operation(count(f, *inputs), timed(lambda: f(*inputs)))


def arithmetic_intensity() -> None:
    """Arithmetic intensity and the roofline"""
    ridge = H100_SPARSE_BF16 / 2 / H100_BANDWIDTH  # FLOP/byte of an H100 @hide
    text(
        f"An operation moves bytes and does FLOPs; which of the two it waits for is decided by one quotient, its "
        f"**arithmetic intensity**: FLOPs per byte. After this section you can say of an operation, before running it, "
        f"what it will wait for and how fast it can be. The key figure: in the time in which an H100 fetches one byte "
        f"it can do {ridge:.0f} FLOPs in bf16."
    )
    note(
        "Ten minutes. Draw the roofline by hand first, with the two times; then place ReLU and a large "
        "product on it. Let the audience guess the ratio for the addition: most take the tensor cores' peak."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    two_times()
    intensities()
    compute_bound_from()
    training_and_decoding()
    caches()  # @deeper
    key_value_cache()  # @deeper
    fusing()  # @deeper
    link(**REFERENCES["roofline"])
    link(**REFERENCES["brrr"])
    link(**REFERENCES["scaling book"])
    text(
        "**In three lines.**\n\n"
        "1. An operation takes at least its FLOPs over the peak, and at least its bytes over the "
        "bandwidth; the larger time decides.\n"
        "2. Operations of few FLOPs per byte wait for memory, as products with a single vector do; large matrix "
        "products wait for arithmetic: a square one in bf16 from three times the machine's intensity on.\n"
        "3. Where memory decides, moving fewer bytes gains time (smaller formats, larger batches, fused operations) "
        "and doing fewer FLOPs does not."
    )


def two_times() -> None:
    """Two times, and the larger counts"""
    h100 = known_machine("NVIDIA H100 80GB HBM3")  # @stepover
    h200, a100 = known_machine("NVIDIA H200"), known_machine("NVIDIA A100-SXM4-80GB")  # @stepover
    text(
        "FLOPs divided by FLOP/s is a time; bytes divided by bytes/s, the **bandwidth**, is another. While some "
        "numbers are computed, the next can be on their way. With perfect overlap an operation takes the *larger* of "
        "the two (without any, their sum: at most twice as long). An H100's 67 TFLOP/s in fp32 count an instruction "
        "that multiplies and adds as two FLOPs."
    )
    answer = 4e9 / h100.bytes_per_second / (1e9 / (h100.flops_per_second["float32"] / 2))  # @hide
    ask(
        "An H100 adds 1 to each of 10⁹ bf16 numbers. How many times longer does it take to move the numbers than to "
        "add? Additions run on the ordinary cores, at the rate of fp32: tensor cores only multiply matrices.",
        answer=answer,
        within=0.03,
        hint="67 TFLOP/s counts a multiplication and an addition in one instruction; memory moves 3.35 TB/s.",
        slips={
            4e9 / h100.bytes_per_second / (1e9 / h100.flops_per_second["float32"]): (
                "67 TFLOP/s is two FLOPs an instruction. An addition is one: half of it."
            ),
            4e9 / h100.bytes_per_second / (1e9 / h100.flops_per_second["bfloat16"]): (
                "That is the tensor cores' peak, and tensor cores only multiply matrices."
            ),
            2e9 / h100.bytes_per_second / (1e9 / (h100.flops_per_second["float32"] / 2)): (
                "Each number is read and written: 4 bytes, not 2."
            ),
        },
    )
    additions_per_second = h100.flops_per_second["float32"] / 2  # one in each instruction @inspect additions_per_second
    bandwidth = h100.bytes_per_second  # @inspect bandwidth [B/s]
    compute_s = 1e9 / additions_per_second  # @inspect compute_s [s]
    memory_s = (2 + 2) * 1e9 / bandwidth  # each number is read and written @inspect memory_s [s]
    assert round(memory_s / compute_s) == 40
    assert math.isclose(memory_s / compute_s, answer)  # @hide
    text(
        f"The additions would be done {memory_s / compute_s:.0f} times while the numbers are moved: the operation is "
        f"**memory-bound**."
    )
    ask(
        "An operation does `flops` and moves `moved_bytes`. Write an expression that is true if it is memory-bound.",
        "moved_bytes / bandwidth > flops / peak",
        why="Or, the same: `flops / moved_bytes < peak / bandwidth`.",
    )
    text(
        "Both times are equal where an operation's intensity is the **machine's intensity**, peak over bandwidth, "
        "or **ridge**. For matrix products the peak is that of the tensor cores:"
    )
    machines = {"H100": h100, "H200": h200, "A100 80GB": a100}
    intensity = {name: m.flops_per_second["bfloat16"] / m.bytes_per_second for name, m in machines.items()}
    rounded = {name: round(value, 1) for name, value in intensity.items()}  # FLOP/byte, dense bf16 @inspect rounded
    assert rounded == {"H100": 295.4, "H200": 206.1, "A100 80GB": 153.0}
    here = intensity_here()  # @inspect here @stepover
    peaks = (peak_flops(roofline_format()), peak_bandwidth())  # @hide @stepover
    assert (here is None) is (None in peaks)  # no intensity without both peaks @hide
    assert here is None or math.isclose(1 / peaks[1], here / peaks[0])  # a byte and its FLOPs: equal times @hide
    if here is None:
        text("No peaks are known for this machine.")
    else:
        text(f"This machine's, in {roofline_format()}, is {here:.1f}. An operation with less waits for memory.")
    for name in ("h100", "h200", "a100"):
        link(**REFERENCES[name])


def roofline_format() -> str:
    """The number format that this machine is measured in: CPUs widen bf16 to fp32 for most operations"""
    return "bfloat16" if device() == "cuda" else "float32"


def intensity_here() -> float | None:
    """This machine's FLOP/byte"""
    peak, bandwidth = peak_flops(roofline_format()), peak_bandwidth()
    return None if peak is None or bandwidth is None else peak / bandwidth


def intensities() -> None:
    """Intensities: derived, counted, measured"""
    text(
        "What is measured is bf16 on a GPU and fp32 on a CPU (`roofline_format()`). With $s$ bytes a number (2 in "
        "bf16), FLOPs over bytes:\n\n"
        "- **ReLU**, $\\max(x, 0)$, reads $n$ numbers, compares each, writes $n$: $1 / (2s)$. **GELU**, a smooth "
        "ReLU, does about 20 FLOPs for the same bytes.\n"
        "- **A dot product** does 2 FLOPs for 2 numbers read: $1 / s$.\n"
        "- **A matrix times a vector** does 2 FLOPs for each number of the matrix: $2 / s$. The vector is reused, the "
        "matrix is not.\n"
        "- **A matrix times a matrix** uses *every* number more than once: $2n^3$ FLOPs for $3n^2$ numbers, $2n / "
        "(3s)$."
    )
    dtype = getattr(torch, roofline_format())  # @stepover
    s, side = dtype.itemsize, sizes().side_of(dtype.itemsize)  # @inspect s side @stepover
    x = torch.rand(side * side, device=device(), dtype=dtype)  # far more than the caches hold
    y = torch.clone(x)  # `out=y`: results go to memory that is there already
    matrix, v, short = x.view(side, side), x[:side], torch.empty_like(x[:side])
    operations = {
        "ReLU": counted_and_measured(lambda: torch.clamp_min(x, 0, out=y)),
        "GELU": counted_and_measured(lambda: torch.ops.aten.gelu.out(x, approximate="tanh", out=y)),
        "dot": counted_and_measured(torch.dot, x, y),
        "matrix × vector": counted_and_measured(lambda: torch.mv(matrix, v, out=short)),
    }  # @stepover
    derived = {"ReLU": 1 / (2 * s), "GELU": 20 / (2 * s), "dot": 1 / s, "matrix × vector": 2 / s}
    for n in (64, 256, sizes().matmul_side):  # @stepover
        a, b = x[: 2 * n * n].view(2, n, n)
        operations[f"matmul {n}"], derived[f"matmul {n}"] = counted_and_measured(torch.mm, a, b), 2 * n / (3 * s)
    ratios = {name: operations[name].intensity / value for name, value in derived.items()}  # @inspect ratios
    assert all(0.99 < ratio <= 1 for ratio in ratios.values())  # a vector and a result are left out
    assert math.isclose(operations["matrix × vector"].intensity, 2 * operations["dot"].intensity, rel_tol=0.01)
    assert torch.equal(y, gelu(x, approximate="tanh")) and torch.equal(short, torch.mv(matrix, v))  # @hide
    show_operations(operations, derived)  # @stepover
    the_roofline(operations)
    relu_against_gelu(operations)  # @deeper
    what_a_small_product_pays(operations)  # @deeper
    utilization_is_bounded(operations)  # @deeper


def show_operations(operations: dict[str, Operation], derived: dict[str, float]) -> None:
    """The table of operations"""
    rows = []
    for name, o in operations.items():
        bytes_per_second = o.done.bytes_moved / o.took.seconds
        rows.append((name, derived[name], o.intensity, o.took.seconds, bytes_per_second, o.rate))
    table(rows, ["operation", "FLOP/byte, derived", "counted", "measured, s", "B/s", "FLOP/s"])


def compute_bound_from() -> None:
    """From which size on a matmul is compute-bound"""
    h100 = known_machine("NVIDIA H100 80GB HBM3")  # @stepover
    ridge = h100.flops_per_second["bfloat16"] / h100.bytes_per_second
    answer = math.ceil(3 * ridge)  # @hide
    ask(
        "By the roofline, from which $n$ on does an H100 stop waiting for memory in a square bf16 matmul?",
        answer=answer,
        hint=f"Its intensity is {ridge:.1f} FLOP/byte, the matmul's $n/3$.",
        slips={
            math.ceil(ridge): "That is the intensity needed; the matmul's is a third of $n$.",
            math.ceil(1.5 * ridge): "A bf16 number is 2 bytes: $2n^3$ FLOPs for $2 \\cdot 3n^2$ bytes.",
        },
    )
    sides = {}
    for name in ("NVIDIA H100 80GB HBM3", "NVIDIA H200"):
        machine = known_machine(name)  # @stepover
        sides[name] = math.ceil(3 * machine.flops_per_second["bfloat16"] / machine.bytes_per_second)  # @inspect sides
    assert list(sides.values()) == [887, 619]
    assert answer == sides["NVIDIA H100 80GB HBM3"]  # @hide
    here, itemsize = intensity_here(), getattr(torch, roofline_format()).itemsize  # @inspect here itemsize @stepover
    if here is not None:
        side = math.ceil(3 / 2 * itemsize * here)  # 2n³ FLOPs over 3n² numbers @inspect side
        text(f"On this machine, from n = {side} on, in {roofline_format()}.")


def relu_against_gelu(operations: dict[str, Operation]) -> None:
    """Is ReLU faster than GELU?"""
    relu, gelu = operations["ReLU"], operations["GELU"]
    more_flops = gelu.done.flops / relu.done.flops  # @inspect more_flops
    assert gelu.done.bytes_moved == relu.done.bytes_moved
    times = times_as_long(gelu.took, relu.took)  # @inspect times @stepover
    text(f"{more_flops:.0f} times the FLOPs, and the same bytes. Where both wait for memory, they take the same time.")
    decide(
        times,
        than=1.2,
        below="So it is here: choosing ReLU *for speed* would gain nothing.",
        above=(
            f"Here they don't: GELU takes {statistics.median(times):.1f} times as long. The roof of matrix "
            f"products is not the roof of a tanh, which runs on ordinary instructions."
        ),
        undecided="Here the samples don't agree on whether GELU takes longer.",
    )
    if device() == "cpu":
        few = torch.rand(2**17) - 0.5  # fits into a cache
        near = timed(lambda: nn.functional.gelu(few, approximate="tanh"))  # @inspect near.seconds [s] @stepover
        numbers = relu.done.flops / few.numel()  # times as many, from memory
        decide(
            [ratio / numbers for ratio in times_as_long(gelu.took, near)],
            than=1.3,
            below="On numbers that lie in a cache, GELU takes no less for each: it does not wait for memory.",
            above="On numbers that lie in a cache, GELU takes less for each: it waits for memory, too.",
            undecided="Whether numbers in the cache are faster to work on, the samples don't agree.",
        )
    h100 = known_machine("NVIDIA H100 80GB HBM3")  # @stepover
    vector_intensity = h100.flops_per_second["float32"] / h100.bytes_per_second  # @inspect vector_intensity
    assert round(vector_intensity) == 20
    text(
        f"An H100 without its tensor cores has an intensity of {vector_intensity:.0f} FLOP/byte: elementwise "
        f"operations have a lower roof than products, but one well above GELU's 5."
    )


def caches() -> None:
    """What a cache does to this"""
    text(
        "The bytes so far are the least that must be moved, and bandwidth was that of main memory. What fits into a "
        "cache moves faster, if it is used again before something else takes its place. Copies, by the bytes that they "
        "touch:"
    )
    largest = sizes().streamed_bytes // 2  # @stepover
    source = torch.rand(largest // 4, device=device())
    target = torch.empty_like(source).copy_(source)
    lengths = [1, *(2**k for k in range(10, 29, 3) if 2**k < source.numel()), source.numel()]
    copies = [timed(partial(target[:n].copy_, source[:n])) for n in lengths]  # @stepover
    assert count(lambda: target.copy_(source)).bytes_moved == 2 * source.nbytes
    touched = [2 * 4 * n for n in lengths]  # bytes
    rates = [moved / copy.seconds for moved, copy in zip(touched, copies, strict=True)]
    scales = {"x_scale": "log", "y_scale": "log"}  # @hide
    plot({"copy": rates}, x=touched, x_label="bytes read and written", y_label="B/s", style="points", **scales)  # @hide
    best = rates.index(max(rates))
    main_memory, fastest = rates[-1], rates[best]  # @inspect main_memory [B/s], fastest [B/s]
    decide(
        times_as_long(copies[1], copies[0]),
        than=1.3,
        below=f"Copying {lengths[1]} numbers takes no longer than copying one: what small copies cost is the start.",
        above=f"Copying {lengths[1]} numbers takes longer than copying one.",
        undecided=f"Whether copying {lengths[1]} numbers takes longer than copying one, the samples don't agree.",
    )
    decide(
        [ratio * touched[best] / touched[-1] for ratio in times_as_long(copies[-1], copies[best])],
        than=1.3,
        above=(
            f"The fastest touches {touched[best] / 1e6:.1f} MB: {fastest / 1e9:.0f} GB/s, "
            f"{fastest / main_memory:.1f} times what main memory gives. An operation that seems to beat the roof has "
            f"probably measured a cache."
        ),
        below="No cache shows in the curve on this machine.",
        undecided="Whether a cache shows in the curve, the samples don't agree.",
    )
    over_the_bus()


def over_the_bus() -> None:
    """And over the bus"""
    if device() != "cuda":
        text("From the CPU's memory to a GPU: not run, no CUDA device. Section 9 comes back to it.")
        return
    host = torch.rand(sizes().streamed_bytes // 16).pin_memory()  # @stepover
    moved = timed(lambda: host.to("cuda", non_blocking=True))  # @stepover
    rate = host.nbytes / moved.seconds  # @inspect rate [B/s]
    assert rate < (peak_bandwidth() or math.inf)
    text(f"From the CPU's memory, over the bus: {rate / 1e9:.0f} GB/s. Seen from there, everything is memory-bound.")


def the_roofline(operations: dict[str, Operation]) -> None:
    """The roofline"""
    text(
        "All of it in one figure, the **roofline**: intensity across, speed upwards, both logarithmic. The slope is "
        "bandwidth × intensity, the flat part the peak, and they meet at the ridge. No operation that fetches its "
        "bytes from memory can be above (from a cache, it can); how far it is below is what is left to gain."
    )
    streaming = [o.done.bytes_moved / o.took.seconds for name, o in operations.items() if "matmul" not in name]
    best_matmul = max(o.rate for name, o in operations.items() if "matmul" in name)  # @inspect best_matmul [FLOP/s]
    measured = (best_matmul, max(streaming))  # FLOP/s, B/s @inspect measured
    promised = (peak_flops(roofline_format()) or 0.0, peak_bandwidth() or 0.0)  # @inspect promised @stepover
    # A CPU has no datasheet: its roof is the best that was measured, in either place.
    best = (max(measured[0], promised[0]), max(measured[1], promised[1]))
    roof = promised if device() == "cuda" and all(promised) else best  # @inspect roof
    roofs = {"an H100's datasheet, bf16": (H100_SPARSE_BF16 / 2, H100_BANDWIDTH), "this machine": roof}  # @hide
    roofs |= {"this machine, measured in this section": measured} if roof is promised else {}  # @hide
    points = {name: (o.intensity, o.rate) for name, o in operations.items()}  # @hide
    plot(
        draw_roofline(roofs, points), title="An H100's roofline, and this machine's", x_scale="log", y_scale="log"
    )  # @hide
    ridge = roof[0] / roof[1]  # @inspect ridge
    bound = {name: "memory" if o.intensity < ridge else "compute" for name, o in operations.items()}  # @inspect bound
    assert (
        operations["ReLU"].intensity < operations["matmul 64"].intensity < operations["matmul 256"].intensity
    )  # @hide
    waiting = ", ".join(name for name, which in bound.items() if which == "memory")
    text(
        f"This machine's ridge is at {ridge:.1f} FLOP/byte, by the best that was measured before the lecture or here. "
        f"Left of it memory is the roof: {waiting}. The fixed cost of being started (dispatch) is in neither roof, "
        f"and a roof is an upper bound: an operation whose arithmetic is no product, as GELU's, may stay below both. "
        f"On the slope it helps to move fewer bytes: smaller formats, larger batches, or several operations *fused* "
        f"into one kernel."
    )
    ask(
        "A product runs at 30 FLOP/byte on an H100. Which speed can it reach at most?",
        attainable(30, H100_SPARSE_BF16 / 2, H100_BANDWIDTH)["speed"] / 1e12,
        unit="TFLOP/s",
        hint="Is 30 left or right of the ridge?",
        slips={H100_SPARSE_BF16 / 2e12: "That is the flat part. The ridge is at 295 FLOP/byte."},
    )
    text("The roof, as a function of three numbers:")
    at_30 = attainable(30, H100_SPARSE_BF16 / 2, H100_BANDWIDTH)  # @inspect at_30
    assert at_30["waits for memory"] and math.isclose(at_30["speed"], 30 * H100_BANDWIDTH)
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


def what_a_small_product_pays(operations: dict[str, Operation]) -> None:
    """What a small product pays"""
    text("What a product of 64 × 64 costs beside one of 1 × 1, which has nothing to move or to compute:")
    one = torch.rand(1, 1, device=device(), dtype=getattr(torch, roofline_format()))
    start = timed(lambda: one @ one)  # nothing but the fixed cost @inspect start.seconds [s] @stepover
    decide(
        times_as_long(operations["matmul 64"].took, start),
        than=2,
        below="A product of 1 × 1 takes more than half as long as one of 64 × 64, which mostly pays the fixed cost.",
        above="A product of 1 × 1 takes less than half as long as one of 64 × 64: the fixed cost is not most of it.",
        undecided="Whether a product of 64 × 64 mostly pays the fixed cost, the samples don't agree.",
    )


def utilization_is_bounded(operations: dict[str, Operation]) -> None:
    """MFU is bounded by intensity"""
    text(
        "On the slope an operation reaches intensity over accelerator intensity of the peak, *at most*. So "
        "$\\text{MFU} \\le \\min(1, \\text{intensity} / I)$: a bound, not an equality."
    )
    h100 = known_machine("NVIDIA H100 80GB HBM3")  # @stepover
    ridge = h100.flops_per_second["bfloat16"] / h100.bytes_per_second
    answer = count(torch.randn(1000).bfloat16().relu).intensity / ridge  # @hide
    assert round(answer, 5) == 0.00085  # @hide
    ask(
        "Which MFU can a bf16 ReLU reach on an H100 at most, however well it is written?",
        answer=answer,
        hint="Its intensity is 1/4 FLOP/byte.",
        slips={1 / ridge: "One FLOP takes 4 bytes: 2 read and 2 written."},
    )
    peak, here = peak_flops(roofline_format()), intensity_here()  # @inspect peak [FLOP/s], here @stepover
    if peak is None or here is None:
        text("No peaks are known for this machine.")
        return
    bounds = {name: min(1.0, o.intensity / here) for name, o in operations.items()}
    mfus = {name: o.rate / peak for name, o in operations.items()}
    rows = [(name, bounds[name], mfus[name], mfus[name] / bounds[name]) for name in mfus]  # @hide
    table(rows, ["operation", "bound", "MFU", "MFU / bound"])  # @hide
    if device() == "cuda":
        for name, mfu in mfus.items():
            assert mfu <= bounds[name] * 1.2  # a datasheet rounds, and caches help
        return
    text(
        "Nothing is claimed about these: the roof is no datasheet's. It was measured at other moments, and some "
        "operations move their bytes faster than others."
    )


def share_of_the_roof(few_rows: Operation) -> None:
    """How near a product of few rows comes to what its roof allows"""
    peak, bandwidth = peak_flops(roofline_format()), peak_bandwidth()
    if peak is None or bandwidth is None:
        return
    allowed = min(peak, bandwidth * few_rows.intensity)  # FLOP/s
    shares = [few_rows.done.flops / seconds / allowed for seconds in few_rows.took.samples_s]
    reached = f"With 8 rows the product reaches {statistics.median(shares):.0%} of what its roof allows"
    decide(
        shares,
        than=0.5,
        above=f"{reached}.",
        below=f"{reached}: a roof is an upper bound, and nothing promises that an operation comes near it.",
        undecided=f"{reached}.",
    )


def training_and_decoding() -> None:
    """Training and decoding"""
    text(
        "Training multiplies large matrices by large matrices. **Decoding**, writing with a trained model, makes one "
        "token of a text at a time, so for one text each weight is loaded to be used *once*. One layer and a batch of "
        "$B$ texts, $(B, D) \\times (D, D)$ in bf16: $2BD^2$ FLOPs and $2(D^2 + 2BD)$ bytes."
    )
    answer = math.ceil(295.4 * 4096 / (4096 - 2 * 295.4))  # @hide
    ask(
        "One such layer with $D = 4096$, in bf16 on an H100, whose ridge is at 295.4 FLOP/byte: from which batch on "
        "does it no longer wait for memory?",
        answer=answer,
        hint="Set FLOPs over bytes equal to 295.4 and solve for $B$.",
        slips={295: "That leaves out the bytes of inputs and outputs, $4BD$.", 148: "A bf16 number is 2 bytes."},
    )
    text("With more rows $B$ the intensity grows, and meets the machine's, $I$, at\n\n$$ B = \\frac{I D}{D - 2I}. $$")
    weight = torch.empty(4096, 4096, dtype=torch.bfloat16, device="meta")
    for batch, ridge in ((346, 295.4), (230, 206.1)):  # H100, H200
        x = torch.empty(batch, 4096, dtype=torch.bfloat16, device="meta")
        moved_bytes = x.nbytes + weight.nbytes + (x @ weight).nbytes
        found = count(torch.mm, x, weight).flops / moved_bytes  # FLOP/byte @inspect found
        assert batch == math.ceil(ridge * 4096 / (4096 - 2 * ridge))
        assert ridge <= found < 1.005 * ridge
    dtype = getattr(torch, roofline_format())  # @stepover
    s, d = dtype.itemsize, sizes().side_of(dtype.itemsize)  # @inspect s d @stepover
    w = torch.randn(d, d, device=device(), dtype=dtype)
    layer = {}
    for batch in (1, 8, 64, 512):
        x = torch.randn(batch, d, device=device(), dtype=dtype)
        layer[batch] = counted_and_measured(torch.mm, x, w)  # @stepover
        assert layer[batch].done.bytes_moved == s * (d * d + 2 * batch * d)
    rows = [(b, o.intensity, o.took.seconds, o.took.seconds / b, o.rate) for b, o in layer.items()]  # @hide
    table(rows, ["batch", "FLOP/byte", "measured, s", "per token, s", "FLOP/s"], title=f"One layer, D = {d}")  # @hide
    cheaper = [512 / ratio for ratio in times_as_long(layer[512].took, layer[1].took)]  # a token, in a batch of 512
    decide(
        cheaper,
        than=2,
        above=(
            f"A token costs about {statistics.median(cheaper):.0f} times less in a batch of 512 than alone. That is "
            f"why servers batch requests; a single user leaves most of the hardware idle: alone, the layer does "
            f"{layer[1].rate / layer[512].rate:.1%} of that batch's FLOP/s."
        ),
        below="On this machine a token costs nearly as much in a batch of 512 as alone.",
        undecided="On this machine the samples don't agree on what a batch of 512 saves.",
    )
    share_of_the_roof(layer[8])  # @stepover @hide
    text(
        "These are products with the *weights*, which a batch shares. The keys and values of a text's own past are "
        "read for each text separately, however many there are."
    )


def key_value_cache() -> None:
    """The KV cache, and the floor under decoding"""
    text(
        "In decoding the keys and values of earlier tokens are kept, since computing them again would cost a forward "
        "pass: the **KV cache**. In the shape of "
        "Llama 3 70B: 80 layers, keys and values, 8 heads of 128 each, in bf16."
    )
    token = torch.empty(80, 2, 8, 128, dtype=torch.bfloat16, device="meta")  # (layers, K and V, heads, head width)
    token_bytes = token.nbytes  # @inspect token_bytes [B]
    assert token_bytes == 327_680
    text("Is reading them ever compute-bound? Each of the 8 heads of keys serves 8 queries. Counted, for two batches:")
    reading = []
    for batch in (1, 64):
        queries = torch.empty(batch, 8, 8, 128, dtype=torch.bfloat16, device="meta")  # (B, head, query, width)
        keys = torch.empty(batch, 8, 128, 8192, dtype=torch.bfloat16, device="meta")  # (B, head, width, S)
        moved_bytes = queries.nbytes + keys.nbytes + (queries @ keys).nbytes
        reading.append(count(torch.matmul, queries, keys).flops / moved_bytes)  # FLOP/byte @inspect reading
    assert 7 < reading[0] == reading[1] < 8
    ask(
        "Find the error: with 512 sequences at once, 512 is more than 346, so decoding is compute-bound. What still "
        "waits for memory?",
        answer="the weights" if reading[1] > 295.4 else "the cache",
        choices=["the weights", "the cache", "nothing"],
        slips={
            "the weights": "They are read once for all sequences.",
            "nothing": "Each sequence reads a cache of its own (a common beginning apart).",
        },
    )
    text(
        f"{reading[0]:.1f} FLOP/byte at any batch, far below the ridge: attention over the cache waits for memory.\n\n"
        f"Each step reads the weights once (but for the input embedding, where a token looks up one row) and the "
        f"whole cache. That many bytes over the bandwidth is a **floor**. On 8 H100s:"
    )
    llama = (70_553_706_496, 128256 * 8192, 80, 8)  # parameters, of these in the embedding, layers, heads
    context = 8192
    sequence_bytes = context * token_bytes  # @inspect sequence_bytes [B]
    steps = {b: decoding_step(*llama, context, b, 8, H100_BANDWIDTH, H100_MEMORY) for b in (1, 8, 64, 512)}
    assert [step["cache"] / sequence_bytes for step in steps.values()] == [1, 8, 64, 512]
    floors = {b: step["seconds"] for b, step in steps.items()}  # @inspect floors [s]
    assert [round(1e3 * floors[b], 2) for b in (1, 64)] == [5.29, 11.6]  # ms
    even = steps[1]["weights"] / sequence_bytes  # sequences whose caches are as many bytes as the weights @inspect even
    assert 51 < even < 52
    fits = {b: step["fits"] for b, step in steps.items()}  # @inspect fits
    assert list(fits.values()) == [True, True, True, False] and steps[512]["room"] == 185
    rows = [(b, f * 1e3, b / f, "yes" if fits[b] else "no") for b, f in floors.items()]  # @hide
    table(rows, ["sequences of 8192 tokens", "floor, ms per step", "tokens/s at most", "fits in 8 H100s"])  # @hide
    text(
        f"Batching shares the weights, not the cache: from {even:.0f} sequences of this length on the cache is most of "
        f"the bytes, throughput stops growing in proportion, and then the memory is full."
    )
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
        "Written out, GELU is nine operations, and each one reads its operands from memory and writes its result "
        "back. *Fused* into one kernel, a number is read once, all of it happens inside the processor, and one number "
        "is written."
    )
    small = torch.randn(1000)
    assert torch.allclose(gelu_in_steps(small), nn.functional.gelu(small, approximate="tanh"), atol=1e-6)  # @stepover
    answer = count(lambda: gelu_in_steps(small)).bytes_moved / (2 * small.nbytes)  # @hide
    ask(
        "How many times as many bytes do the nine operations move as the one kernel?",
        answer=answer,
        hint="Write the operations down. How many read one tensor, how many read two? $x \\cdot x$ reads one. Each "
        "writes one.",
        slips={9: "Three of the nine read two tensors: $(x \\cdot x) \\cdot x$, for one."},
    )
    dtype = getattr(torch, roofline_format())  # @stepover
    x = torch.rand(sizes().streamed_bytes // 8 // dtype.itemsize, device=device(), dtype=dtype)  # @stepover
    separate = counted_and_measured(gelu_in_steps, x)  # @inspect separate.intensity @stepover
    fused = counted_and_measured(
        lambda: nn.functional.gelu(x, approximate="tanh")
    )  # @inspect fused.intensity @stepover
    assert separate.done.flops == fused.done.flops
    assert sum(separate.done.operators.values()) == 9
    assert (separate.done.bytes_moved, fused.done.bytes_moved) == (21 * x.nbytes, 2 * x.nbytes)
    assert separate.done.bytes_moved / fused.done.bytes_moved == answer  # @hide
    gains = times_as_long(separate.took, fused.took)  # @inspect gains @stepover
    decide(
        gains,
        than=1.1,
        above=f"Not one FLOP less, and the time falls by a factor of {statistics.median(gains):.1f}.",
        below="Not one FLOP less; and here the time does not fall.",
        undecided="Not one FLOP less; whether the time falls, the samples don't agree.",
    )
    text(
        "`torch.compile` finds such chains and fuses them; FlashAttention (section 14) is the same idea for all of "
        "attention."
    )


# ---------------------------------------------------------------------------------------------------------
# 7 Gradients


def gradients() -> None:
    """Gradients"""
    text(
        "Training asks how the loss would change if a parameter did. PyTorch's **autograd** records what is computed "
        "and then goes back through it. After this section you can say which gradients it computes, what each costs, "
        "and where section 1's 6 is not quite 6. The key figure: of the 6 FLOPs for each parameter and row, 4 are on "
        "the way back, and a first layer that works on data saves 2 of its 4."
    )
    note(
        "Eight minutes. The figure of the two layers, with the four products written beside it, is the whole "
        "section. Stop at the fourth product and ask who needs it."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    one_gradient()
    which_gradients_exist()
    two_layers_forward()
    two_layers_backward()
    backward_term_by_term()
    when_the_rule_is_exact()  # @deeper
    checked_by_differences()  # @deeper
    walking_back_twice()  # @deeper
    autograd_does_the_same()  # @deeper
    ratio_against_depth()  # @deeper
    link(**REFERENCES["autograd"])
    text(
        "**In three lines.**\n\n"
        "1. `backward` adds to the `.grad` of leaves that require one; each gradient takes its "
        "tensor's bytes.\n"
        "2. Each layer's backward pass is two products of the size of its forward pass: one for its weights, one for "
        "its inputs.\n"
        "3. So backward is twice forward, $2 + 4 = 6$ FLOPs per parameter and row, less one product where the first "
        "layer's input is data."
    )


def one_gradient() -> None:
    """One gradient"""
    text("The smallest model there is, one weight per input, and the loss $y = \\frac 1 2 (x \\cdot w - 5)^2$:")
    x = torch.tensor([1.0, 2, 3])
    w = torch.tensor([1.0, 1, 1], requires_grad=True)
    prediction = x @ w  # @inspect prediction
    y = 0.5 * (prediction - 5) ** 2  # @inspect y
    assert y.item() == 0.5 * (1 + 2 + 3 - 5) ** 2
    assert w.grad is None
    answer = (int(prediction.item()) - 5) * 3  # @hide
    ask(
        "What is the last entry of the gradient of $y$ with respect to $w$?",
        answer=answer,
        within=0,
        hint="The chain rule: the derivative of the square, times that of $x \\cdot w$.",
        slips={
            prediction.item() * 3: "The 5 is missing: the square's derivative is $x \\cdot w - 5$.",
            prediction.item() - 5: "That is the square's derivative; each weight's is that times its $x$.",
        },
    )
    y.backward()  # @inspect w.grad
    text("By the chain rule the gradient is $(x \\cdot w - 5) \\, x$, and the prediction was 1 too high:")
    assert prediction.item() - 5 == 1
    assert w.grad.tolist() == [1, 2, 3]
    assert w.grad[2] == answer  # @hide


def checked_by_differences() -> None:
    """The gradient checked without any rule"""
    text(
        "Change one weight a little, up and down, and see what becomes of the loss. For a quadratic the quotient is "
        "exact but for rounding."
    )
    x = torch.tensor([1.0, 2, 3])
    w = torch.tensor([1.0, 1, 1], requires_grad=True)
    (0.5 * (x @ w - 5) ** 2).backward()
    start = torch.ones(3, dtype=torch.float64)
    nudges = 1e-3 * torch.eye(3, dtype=torch.float64)

    def loss_at(weights: Tensor) -> Tensor:
        return 0.5 * (x.double() @ weights - 5) ** 2

    changes = [(loss_at(start + nudge) - loss_at(start - nudge)).item() for nudge in nudges]  # @stepover
    quotients = [change / 2e-3 for change in changes]  # @inspect quotients
    farthest = max(abs(q - g) for q, g in zip(quotients, w.grad.tolist(), strict=True))  # @inspect farthest
    assert farthest < 1e-9


def which_gradients_exist() -> None:
    """Which gradients exist"""
    text(
        "A **leaf** is a tensor without a recorded history: made, or computed from what needs no gradient. After "
        "`backward`, a `.grad` is found on leaves with `requires_grad=True`, such as parameters. Gradients of what "
        "lies between are computed too, and thrown away as soon as they have been used; `retain_grad` keeps one."
    )
    x = torch.tensor([1.0, 2, 3])
    w = torch.ones(3, requires_grad=True)
    ask(
        "`x` is data, `w` requires a gradient, `h = x @ w`, and then `(0.5 * h**2).backward()`. Which has a `.grad`?",
        answer="w",
        choices=["x", "w", "h", "all three"],
        slips={
            "h": "It is computed, and thrown away: `h` is no leaf.",
            "all three": "Nobody asked for that of `x`, and that of `h` is thrown away.",
        },
    )
    thrown_away = x @ w  # @inspect thrown_away.is_leaf thrown_away.requires_grad
    kept = thrown_away - 4
    kept.retain_grad()
    (0.5 * kept**2).backward()
    with warnings.catch_warnings(record=True) as caught:  # torch warns about the question
        warnings.simplefilter("always")
        nothing = thrown_away.grad  # @inspect nothing
    grads = {"x": x.grad, "w": w.grad, "x @ w": nothing, "x @ w - 4": kept.grad}
    exists = {name: grad is not None for name, grad in grads.items()}  # @inspect exists
    assert exists == {"x": False, "w": True, "x @ w": False, "x @ w - 4": True}
    assert kept.grad.item() == kept.item() == 2
    assert any("not a leaf" in str(warning.message) for warning in caught)
    text(
        "Each gradient has by default its tensor's shape and dtype, so it takes its tensor's bytes. And `backward` "
        "*adds* to it:"
    )
    assert (w.grad.shape, w.grad.nbytes, w.grad.tolist()) == (w.shape, w.nbytes, [2, 4, 6])
    (0.5 * (x @ w - 4) ** 2).backward()  # @inspect w.grad
    assert w.grad.tolist() == [4, 8, 12]


def walking_back_twice() -> None:
    """Backward twice"""
    x = torch.tensor([1.0, 2, 3])
    w = torch.ones(3, requires_grad=True)
    (0.5 * (x @ w - 4) ** 2).backward()  # @inspect w.grad
    once = w.grad.clone()
    y = 0.5 * (x @ w - 4) ** 2
    y.backward()  # @inspect w.grad
    text(
        "That `backward` adds makes it possible to collect the gradients of several batches (section 14), and makes a "
        "loop without `zero_grad` go wrong quietly."
    )
    assert w.grad.tolist() == [4, 8, 12]
    answer = round((w.grad[0].item() + once[0].item()) / once[0].item())  # @hide
    assert answer == 3  # @hide
    ask(
        "Find the error: a loop calls `loss.backward()` and `optimizer.step()`, and nothing else. Its gradients barely "
        "change from step to step. How many times the right gradient does the third step use?",
        answer=answer,
        within=0,
        why="`.grad` holds the sum of all three. `optimizer.zero_grad()` is missing.",
        slips={1: "`backward` adds to what is there."},
    )
    text(
        "What the backward pass needs, the saved activations, is freed as it goes. A second pass, where anything was "
        "saved, fails:"
    )
    refusal = ""
    try:
        y.backward()
    except RuntimeError as error:
        refusal = str(error)  # @inspect refusal
    assert "backward through the graph a second time" in refusal
    assert w.grad.tolist() == [4, 8, 12]


def two_layers_forward() -> None:
    """Two layers, forward"""
    text(
        "Now with matrices, and an account of the FLOPs: $B$ rows of width $D$, a layer from $D$ to $D$, and a layer "
        "from $D$ to $K$."
    )
    nodes = [("x", "B × D"), ("h1", "B × D"), ("h2", "B × K")]  # @hide
    there = ["@ w1:  2BDD", "@ w2:  2BDK"]  # @hide
    back = ["w1.grad  2BDD\n(x.grad  2BDD)", "w2.grad  2BDK\nh1.grad  2BDK"]  # @hide
    plot(draw_chain(nodes, there, back), title="x → h1 → h2, and back")  # @hide
    batch, width, outputs = 32, 64, 16  # B, D, K
    x = torch.randn(batch, width)  # (B, D)
    w1 = torch.randn(width, width)  # (D, D)
    w2 = torch.randn(width, outputs)  # (D, K)
    h1 = x @ w1  # (B, D) @inspect h1.shape
    h2 = h1 @ w2  # (B, K) @inspect h2.shape
    assert h2.shape == (batch, outputs)
    forward = count(lambda: x @ w1 @ w2)  # @inspect forward.flops [FLOP]
    assert forward.flops == 2 * batch * width * width + 2 * batch * width * outputs == 327_680
    text("Two FLOPs for each parameter and each row, as in section 1:")
    assert forward.flops == 2 * (w1.numel() + w2.numel()) * batch


def two_layers_backward() -> None:
    """Two layers, backward, by hand"""
    text(
        "Let $G = \\partial \\text{loss}/\\partial h_2$ be given. Each layer computes two gradients: that of its "
        "*weights*, to learn, and that of its *inputs*, to hand on."
    )
    ask(
        "Write the line for the gradient of `w1`, from `x` and the gradient of `h1`.",
        answer="`w1_grad = x.T @ h1_grad`",
        hint="Shapes: (B, D) and (B, D) have to make (D, D).",
    )
    ask(
        "Find the error: someone writes `w2_grad = G.T @ h1`, and no error is raised. What is wrong with it?",
        "it is the transpose of the gradient",
        choices=["it is the transpose of the gradient", "it is the gradient of `h1`", "nothing"],
        hint="`w2` is (D, K).",
        why="A gradient has the shape of its tensor. With $K = D$ even a test of shapes would pass.",
    )
    terms = [
        ("`w2.grad`", "`h1.T @ G`", "(D, B) @ (B, K)", "2BDK"),
        ("`h1.grad`", "`G @ w2.T`", "(B, K) @ (K, D)", "2BDK"),
        ("`w1.grad`", "`x.T @ h1.grad`", "(D, B) @ (B, D)", "2BDD"),
        ("`x.grad`", "`h1.grad @ w1.T`", "(B, D) @ (D, D)", "2BDD, if asked for"),
    ]  # @hide
    table(terms, ["gradient", "is", "shapes", "FLOPs"])  # @hide
    batch, width, outputs = 32, 64, 16  # B, D, K
    x = torch.randn(batch, width)
    w1, w2 = torch.randn(width, width, requires_grad=True), torch.randn(width, outputs, requires_grad=True)
    h1 = x @ w1
    h1.retain_grad()
    h2 = h1 @ w2
    upstream = torch.randn(batch, outputs)  # G, the gradient of the loss with respect to h2
    h2.backward(upstream)
    w2_grad = h1.detach().T @ upstream  # (D, B) @ (B, K)
    h1_grad = upstream @ w2.detach().T  # (B, K) @ (K, D)
    w1_grad = x.T @ h1_grad  # (D, B) @ (B, D)
    assert torch.allclose(w2_grad, w2.grad, atol=1e-4)  # @inspect w2_grad
    assert torch.allclose(h1_grad, h1.grad, atol=1e-4)
    assert torch.allclose(w1_grad, w1.grad, atol=1e-4)
    assert x.grad is None
    text(
        "That is all of it: a transpose in each, to make the shapes fit, which costs nothing (section 3), and matrix "
        "multiplications of the sizes of the forward pass. Nobody asked for `x.grad`, so it was not computed."
    )


def backward_term_by_term() -> None:
    """Backward, term by term"""
    text("The same at a size that takes this machine some time: claimed, counted, and measured, one term at a time.")
    batch, width, outputs = sizes().model_batch, sizes().model_width, sizes().model_width // 2  # @stepover
    dtype = torch.bfloat16 if device() == "cuda" else torch.float32  # @inspect batch width outputs dtype
    x, h1, w1 = (torch.randn(n, width, device=device()).to(dtype) for n in (batch, batch, width))
    w2, upstream = (torch.randn(n, outputs, device=device()).to(dtype) for n in (width, batch))
    answer = (4 * outputs + 2 * width) / (2 * outputs + 2 * width)  # @hide
    ask(
        "Here $K = D/2$, and nobody asks for `x.grad`. Backward over forward, in FLOPs?",
        answer=answer,
        hint="$4BDK + 2BDD$ over $2BDK + 2BDD$",
        slips={2: "That is with `x.grad`.", 3 / 2: "That is for $K = D$."},
    )
    done = {
        "forward": counted_and_measured(lambda: x @ w1 @ w2),
        "w2.grad": counted_and_measured(lambda: h1.T @ upstream),
        "h1.grad": counted_and_measured(lambda: upstream @ w2.T),
        "w1.grad": counted_and_measured(lambda: x.T @ h1),  # h1 for its gradient, which has the same shape
        "x.grad": counted_and_measured(lambda: h1 @ w1.T),
    }  # @stepover
    first, second = 2 * batch * width * width, 2 * batch * width * outputs  # 2BDD, 2BDK @inspect first second
    assert [term.done.flops for term in done.values()] == [first + second, second, second, first, first]
    rows = [(name, o.done.flops, o.took.seconds, o.rate) for name, o in done.items()]  # @hide
    table(rows, ["term", "counted, FLOP", "measured, s", "FLOP/s"])  # @hide
    forward, *backward = [done[name] for name in ("forward", "w2.grad", "h1.grad", "w1.grad")]
    in_flops = sum(term.done.flops for term in backward) / forward.done.flops  # @inspect in_flops
    assert math.isclose(in_flops, 4 / 3)
    assert math.isclose(in_flops, answer)  # @hide
    in_time = [
        sum(parts) for parts in zip(*(times_as_long(term.took, forward.took) for term in backward), strict=False)
    ]
    text(f"Backward over forward is {in_flops:.2f} in FLOPs and {statistics.median(in_time):.2f} in time.")  # @stepover
    decide(
        [ratio / in_flops for ratio in in_time],
        than=(0.75, 1.25),
        above="The backward products take more than a quarter longer than their FLOPs say.",
        below="The backward products take less than three quarters of what their FLOPs say.",
        undecided="They agree within 25%.",
    )
    text(
        "The rule of thumb, *backward is twice the forward pass*, $4BDD + 4BDK$, counts four products. Training "
        "does three: the first layer's input is data, whose gradient nobody needs."
    )


def autograd_does_the_same() -> None:
    """What autograd does, counted"""
    batch, width, outputs = 32, 64, 16  # B, D, K
    x, upstream = torch.randn(batch, width), torch.randn(batch, outputs)
    w1, w2 = torch.randn(width, width, requires_grad=True), torch.randn(width, outputs, requires_grad=True)
    h2 = x @ w1 @ w2
    text("`torch.autograd.grad` on the two layers:")
    backward = count(lambda: torch.autograd.grad(h2, (w1, w2), upstream))
    assert backward.operators["aten.mm"] == 3  # @inspect backward.operators
    assert backward.flops == 4 * batch * width * outputs + 2 * batch * width * width  # @inspect backward.flops [FLOP]
    text("And when somebody asks for `x.grad`, the fourth product is there:")
    x.requires_grad_()
    h2 = x @ w1 @ w2
    with_inputs = count(lambda: torch.autograd.grad(h2, (x, w1, w2), upstream))  # @inspect with_inputs.flops [FLOP]
    assert with_inputs.operators["aten.mm"] == 4
    assert with_inputs.flops == 2 * count(lambda: x @ w1 @ w2).flops


def when_the_rule_is_exact() -> None:
    """In a language model the rule is exact for the weights"""
    text(
        "In a language model the first matrix multiplication does not work on data. It works on rows of the "
        "*embedding*, a table of one vector per token, which is learned as well. So the gradient of the first layer's "
        "input is needed after all:"
    )
    vocabulary, batch, width, outputs = 100, 32, 64, 16
    tokens = torch.randint(vocabulary, (batch,))
    embedding = torch.randn(vocabulary, width, requires_grad=True)
    w1, w2 = torch.randn(width, width, requires_grad=True), torch.randn(width, outputs, requires_grad=True)
    parameters = w1.numel() + w2.numel()  # those that are multiplied
    h2 = embedding[tokens] @ w1 @ w2
    backward = count(lambda: torch.autograd.grad(h2, (embedding, w1, w2), torch.ones_like(h2)))
    products = backward.flops_by_operator["aten.mm"]  # @inspect backward.flops_by_operator
    assert products == 4 * parameters * batch == 655_360
    text("The lookup itself multiplies nothing. Its backward pass only adds each row's gradient to where it came from.")
    lookup = count(lambda: embedding[tokens])
    assert lookup.flops == 0


def ratio_against_depth() -> None:
    """The first layer's share"""
    text(
        "How much the rule overstates depends on how much of the model the first layer is. For $L$ square layers, "
        "forward $2BDDL$, backward $4BDDL - 2BDD$: per parameter and row that is exactly $6 - 2/L$."
    )
    batch, width = 16, 32
    ratios = {}
    for depth in (1, 2, 4, 8, 16, 32):
        weights = [torch.randn(width, width, requires_grad=True) for _ in range(depth)]  # @stepover
        flops = count(forward_and_backward, torch.randn(batch, width), weights).flops  # @stepover
        ratios[depth] = flops / (depth * width**2 * batch)  # @inspect ratios
        assert ratios[depth] == 6 - 2 / depth
    depths = list(range(1, 33))  # @hide
    napkin = {"6 − 2/L": (depths, [6 - 2 / depth for depth in depths])}  # @hide
    counted = {"counted": (list(ratios), list(ratios.values()))}  # @hide
    plot(napkin | counted, x_label="layers", y_label="FLOPs per parameter and row", style="points")  # @hide
    text(
        f"One layer alone takes {ratios[1]:.0f}; 32 layers take {ratios[32]:.2f}. This is the difference that the "
        f"napkins of the deep linear model (section 8) will show."
    )
    ask(
        "A model of 4 equal square layers, trained on data: how many FLOPs for each parameter and row?",
        answer=ratios[4],
        within=0,
        hint="Count products: each layer has one forward and two backward, but for the first.",
        slips={
            6: "That counts `x.grad`.",
            4: "That is the backward pass with `x.grad`; the forward pass takes 2 more.",
        },
    )


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
    parts = parameters_by_part(Shape())  # @stepover @hide
    in_layers = parts["attention"] + parts["feed-forward"]  # @hide
    text(
        f"After this section you can count a Transformer's parameters and FLOPs by part, and choose the scale of its "
        f"weights so that signals neither vanish nor explode. The key figure: of the {sum(parts.values()):,} "
        f"parameters of the language model that is carried through from here on, {in_layers / sum(parts.values()):.0%} "
        f"are in its layers' matrices."
    )
    note(
        "Ten minutes. The figure of RMS against depth carries the first half, the language model the second: draw its "
        "stream on the board. Leave the memory bar on the screen; the next sections fill it."
    )
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    parameters_are_tensors()
    weights_of_deviation_one()
    scale_against_depth()
    three_initializations()  # @deeper
    truncation_that_cuts_nothing()  # @deeper
    layers_and_blocks()  # @deeper
    the_deep_linear_model()
    step_of_the_deep_model()  # @deeper
    the_language_model()
    residual_streams()  # @deeper
    turned_by_their_place()  # @deeper
    the_layer_of_torch()  # @deeper
    flops_of_the_language_model()
    mixture_of_experts()  # @deeper
    memory_of_a_step_predicted()
    moving_a_model()  # @deeper
    what_moving_leaves_behind()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. Weights of standard deviation $1/\\sqrt{\\text{in}}$ keep a signal's scale through a linear layer, "
        "$\\sqrt{2/\\text{in}}$ through one with a ReLU.\n"
        "2. The layers of a Transformer have $12 L D^2$ parameters, embedding and head $V D$ each; a step takes 6 "
        "FLOPs for each token and weight that multiplies it, and attention's scores on top.\n"
        "3. What a training step will hold (parameters, gradients, states, activations, logits) follows from the shape "
        "before anything has run."
    )


def parameters_are_tensors() -> None:
    """A parameter is a tensor"""
    ask(
        "A *module* (`nn.Module`) is an object that holds a model's parameters: it registers each `nn.Parameter` that "
        "is assigned to it, and `parameters()` lists them for the optimizer. Find the error: a module's constructor "
        "says `self.scale = torch.ones(64, requires_grad=True)`.",
        "parameters() does not find it",
        choices=["nothing: it requires a gradient", "parameters() does not find it", "its gradient stays None"],
        hint="How does a module know what is to be trained?",
        why="A plain tensor is not registered: no optimizer gets it, `to` does not move it, and what is saved "
        "(`state_dict`) lacks it. `nn.Parameter(torch.ones(64))` is.",
        slips={
            "nothing: it requires a gradient": "So do tensors that nobody trains.",
            "its gradient stays None": "It gets a gradient; no optimizer uses it.",
        },
    )
    module = nn.Module()
    module.registered = nn.Parameter(torch.ones(64))
    module.overlooked = torch.ones(64, requires_grad=True)
    names = [name for name, _ in module.named_parameters()]  # @inspect names
    assert names == list(module.state_dict()) == ["registered"]
    assert module.registered.requires_grad and module.overlooked.requires_grad  # as if both were trained @hide
    assert sum(parameter.numel() for parameter in module.parameters()) == 64  # @hide
    text("An `nn.Parameter` requires a gradient without being asked to.")


def weights_of_deviation_one() -> None:
    """Weights that are too large"""
    text(
        "The **variance** of random numbers with mean 0 is their mean square, the **standard deviation** its root. "
        "Fill a matrix with numbers of standard deviation 1 and multiply. Each output is a sum of independent terms "
        "of standard deviation 1, one for each input; their variances add up."
    )
    answer = math.sqrt(16384)  # @hide
    ask(
        "A layer has 16384 inputs. Inputs and weights are drawn with standard deviation 1. What is the outputs'?",
        answer=answer,
        within=0.02,
        hint="What is the variance of one term? How many are there?",
        slips={16384: "That is the variance. The standard deviation is its root.", 1: "A sum of many terms is larger."},
    )
    input_dim, output_dim = 16384, 32
    x = torch.randn(64, input_dim)
    w = torch.randn(input_dim, output_dim)
    deviation = (x @ w).std().item()  # @inspect deviation
    assert abs(deviation / 128 - 1) < 0.05
    assert abs(deviation / answer - 1) < 0.05  # @hide
    text(
        f"The numbers are {deviation:.0f} times as large, and the next layer would do it again. So weights are scaled:"
    )
    rescaled = (x @ (w / math.sqrt(input_dim))).std().item()  # @inspect rescaled
    assert abs(rescaled - 1) < 0.05
    text("This is LeCun's rule: weights of standard deviation $1/\\sqrt{\\text{in}}$.")


def three_initializations() -> None:
    """Three rules, and what torch does"""
    text(
        "Xavier Glorot's rule is a compromise: activations keep their scale with $1/\\sqrt{\\text{in}}$, gradients on "
        "their way back with $1/\\sqrt{\\text{out}}$. The two agree for square matrices only."
    )
    inputs, outputs = 1024, 256
    rules = {
        "LeCun, √(1 / in)": math.sqrt(1 / inputs),
        "Xavier, √(2 / (in + out))": math.sqrt(2 / (inputs + outputs)),
        "He, √(2 / in)": math.sqrt(2 / inputs),
        "`nn.Linear`, √(1 / 3in)": math.sqrt(1 / (3 * inputs)),
    }
    weight = torch.empty(outputs, inputs)  # (out, in): the way round that torch stores it
    found = {
        "LeCun, √(1 / in)": nn.init.kaiming_normal_(weight, nonlinearity="linear").std().item(),
        "Xavier, √(2 / (in + out))": nn.init.xavier_normal_(weight).std().item(),
        "He, √(2 / in)": nn.init.kaiming_normal_(weight, nonlinearity="relu").std().item(),
        "`nn.Linear`, √(1 / 3in)": nn.Linear(inputs, outputs).weight.std().item(),
    }
    rows = [(rule, rules[rule], found[rule], found[rule] / rules[rule]) for rule in rules]  # @hide
    table(rows, ["rule", "standard deviation", "in torch", "ratio"])  # @hide
    worst = max(abs(found[rule] / rules[rule] - 1) for rule in rules)  # @inspect worst
    assert worst < 0.01
    text(
        "The last row is a surprise to many: `nn.Linear` draws evenly from $\\pm 1/\\sqrt{\\text{in}}$, and that has a "
        "standard deviation smaller by $\\sqrt 3$. And `nn.init` takes its matrices as (out, in). Handed one the other "
        "way round, as the layers of this lecture store theirs, it mistakes outputs for inputs:"
    )
    mistaken = nn.init.kaiming_normal_(torch.empty(inputs, outputs), nonlinearity="linear").std().item()
    assert abs(mistaken * math.sqrt(outputs) - 1) < 0.01  # @inspect mistaken
    link(**REFERENCES["glorot"])


def scale_against_depth() -> None:
    """Scale against depth"""
    text(
        "A ReLU sets half of its inputs to zero, which halves the mean of their squares: the root mean square (RMS) "
        "falls by $\\sqrt 2$ in each layer. Kaiming He's rule puts the $\\sqrt 2$ into the weights."
    )
    answer = math.sqrt(1 / 2) ** 12  # @hide
    ask(
        "LeCun's weights, 12 layers with ReLU, inputs of RMS 1. What is the RMS of the last layer's outputs?",
        answer=answer,
        within=0.05,
        hint="Each ReLU halves the mean of the *squares*.",
        slips={2.0**-12: "The squares are halved, the RMS falls by √2.", 1: "That would be He's rule."},
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
    plot(series, x=layers, x_label="layers", y_label="RMS of a layer's outputs", y_scale="log")  # @hide
    factors = [last ** (1 / depth) for last in scales[-1]]  # per layer @inspect factors
    expected = [math.sqrt(width / 2), math.sqrt(1 / 2), 1.0]
    assert all(abs(found / factor - 1) < 0.05 for found, factor in zip(factors, expected, strict=True))
    assert all(first != last for first, last in zip(scales[0], scales[-1], strict=True))  # none stands still @hide
    assert abs(math.log(curves[1][-1] / answer)) < depth * 0.05  # @hide
    beyond = 1 + sum(layer[0] < 65504 for layer in scales)  # the first layer beyond fp16 @hide
    text(
        f"LeCun's weights leave {curves[1][-1]:.1%} of the signal and He's {curves[2][-1]:.0%}, where {answer:.1%} "
        f"and 100% were expected; random matrices of this width scatter so. With weights of standard deviation 1, the "
        f"RMS passes fp16's largest number after {beyond} layers, and single activations before."
    )
    assert beyond == math.ceil(math.log(65504, math.sqrt(width / 2)))  # @hide
    ask(
        "Write the line that draws the weights of a layer with `n` inputs, `m` outputs and a ReLU behind it.",
        answer="`w = torch.randn(n, m) * math.sqrt(2 / n)`",
        hint="He's rule.",
    )
    link(**REFERENCES["he"])


def truncation_that_cuts_nothing() -> None:
    """A truncation that cuts nothing"""
    text(
        "A normal distribution has tails, and a large model has so many weights that some of them are far out. "
        "`trunc_normal_` draws those again. This call looks as if it cut at three standard deviations:"
    )
    input_dim = 16384
    sigma = 1 / math.sqrt(input_dim)  # standard deviation
    weight = nn.init.trunc_normal_(torch.empty(input_dim, 64), std=sigma, a=-3, b=3)
    answer = 3 / sigma  # @hide
    ask(
        "Find the error: at how many standard deviations does it cut?",
        answer=answer,
        hint="`a` and `b` are values.",
        slips={3: "`a` and `b` are not in units of the standard deviation."},
    )
    cut = 3 / sigma  # @inspect cut
    assert cut == 384
    assert cut == answer  # @hide
    largest = weight.abs().max().item() / sigma  # in standard deviations @inspect largest
    beyond_three = (weight.abs() > 3 * sigma).float().mean().item()  # @inspect beyond_three
    tails = 1 - math.erf(3 / math.sqrt(2))  # of an untruncated normal distribution @inspect tails
    assert abs(beyond_three / tails - 1) < 0.2
    text(f"Nothing was cut: the largest is at {largest:.1f} standard deviations. What was meant has `sigma` in it:")
    nn.init.trunc_normal_(weight, std=sigma, a=-3 * sigma, b=3 * sigma)
    assert weight.abs().max() <= 3 * sigma
    deviation = weight.std().item() / sigma  # @inspect deviation
    density = math.exp(-(3**2) / 2) / math.sqrt(2 * math.pi)  # of the normal distribution at 3
    truncated = math.sqrt(1 - 2 * 3 * density / (1 - tails))  # its deviation between ±3 @inspect truncated
    assert round(truncated, 3) == 0.987
    assert abs(deviation / truncated - 1) < 0.004
    text(f"The price is {1 - truncated:.1%} of the standard deviation: little beside the factors of √2 and √3 above.")


def layers_and_blocks() -> None:
    """A layer, a block, a stack"""
    with torch.device("meta"):  # shapes without numbers @hide
        answer = sum(p.numel() for p in DeepLinear(512, 4).parameters())  # @stepover @hide
    ask(
        "How many parameters have 4 linear layers of width 512, without biases, and an output layer (*head*) with one "
        "output?",
        answer=answer,
        within=0,
        hint="$D^2 L + D$",
        slips={4 * 512**2: "The head is missing: 512 more.", 4 * (512**2 + 512): "There is one head, and no bias."},
    )
    assert answer == 512**2 * 4 + 512  # @hide
    text("LeCun's rule in a module, a ReLU behind it, and some of those in a row.")
    layer = Linear(input_dim=256, output_dim=128)  # @inspect layer.weight.shape
    x = torch.randn(64, 256)
    y = layer(x)  # (64, 128) @inspect y.shape y.std()
    assert y.shape == (64, 128)
    assert abs(y.std().item() - 1) < 0.05
    block = Block(256)
    assert torch.equal(block(x), (x @ block.linear.weight).relu())
    depth = 8
    stack = nn.Sequential(*[Block(256) for _ in range(depth)])  # @stepover
    counts = {name: p.numel() for name, p in stack.named_parameters()}  # @inspect counts
    assert list(counts)[:2] == ["0.linear.weight", "1.linear.weight"]
    assert sum(counts.values()) == depth * 256**2
    shrunk = stack(x).square().mean().sqrt().item()  # @inspect shrunk @stepover
    assert 0.8 < shrunk / 2 ** (-depth / 2) < 1.25


def the_deep_linear_model() -> None:
    """The smallest model: deep and linear"""
    text(
        "Where every number must be seen, the lecture uses a toy: $L$ linear layers of width $D$ and a head with one "
        "output, $D^2 L + D$ parameters (`Linear` is our own: its weight is (in, out), that of `nn.Linear` (out, "
        "in)). It models cost only: without a ReLU, one matrix could do the same."
    )
    batch, dim, num_layers = 8, 64, 2
    model = DeepLinear(dim, num_layers)
    counts = {name: p.numel() for name, p in model.named_parameters()}  # @inspect counts
    parameters = sum(counts.values())  # @inspect parameters
    assert parameters == dim**2 * num_layers + dim
    x = torch.randn(batch, dim)  # (B, D)
    y = model(x)  # (B,) @inspect y.shape
    assert y.shape == (batch,)
    assert count(lambda: model(x)).flops == 2 * parameters * batch
    one_matrix = model.layers[0].weight @ model.layers[1].weight @ model.head.weight  # (D, 1)
    assert torch.allclose(y, (x @ one_matrix).squeeze(-1), atol=1e-5)


def step_of_the_deep_model() -> None:
    """Forward and backward, large"""
    text(
        "At a size that keeps this machine busy: 6 FLOPs per parameter and token, with the rows of a batch for tokens."
    )
    width, batch, num_layers = sizes().model_width, sizes().model_batch, 4  # @inspect width batch @stepover
    dtype = torch.bfloat16 if device() == "cuda" else torch.float32  # @inspect dtype
    with torch.device(device()):  # drawn where it is needed @stepover
        model = DeepLinear(width, num_layers).to(dtype)
        x = torch.randn(batch, width).to(dtype)  # (B, D)
    parameters = sum(p.numel() for p in model.parameters())  # @inspect parameters
    weights = list(model.parameters())

    def loss() -> Tensor:
        return model(x).square().mean()

    forward = count(loss)  # @stepover
    step = count(lambda: torch.autograd.grad(loss(), weights))  # @stepover
    counted = (forward.flops_by_operator["aten.mm"], step.flops_by_operator["aten.mm"])  # @inspect counted [FLOP]
    assert counted == (2 * parameters * batch, 6 * parameters * batch - 2 * batch * width**2)
    everything_else = step.flops / counted[1] - 1  # @inspect everything_else
    assert 0 < everything_else < 1e-3
    forward_time = measure(loss, repeats=5, min_seconds=0.05, max_seconds=0.2)  # @stepover
    step_time = measure(
        lambda: torch.autograd.grad(loss(), weights), repeats=5, min_seconds=0.05, max_seconds=0.3
    )  # @stepover
    passes_against_the_napkin(2 * parameters * batch, counted, (forward_time.seconds, step_time.seconds))
    missing = 2 * batch * width**2 / 1e9  # @hide
    text(
        f"The forward pass is the napkin to the last FLOP. The backward pass is short by one product of {missing:.3g} "
        f"GFLOP: nobody asked for the gradient of `x`. The loss, which is no matrix multiplication, adds "
        f"{everything_else:.5%} and is left out of the table."
    )
    in_flops, in_time = counted[1] / counted[0], times_as_long(step_time, forward_time)  # @stepover
    text(f"Both passes over the first alone: {in_flops:.2f} in FLOPs, {statistics.median(in_time):.2f} in time.")
    decide(
        [ratio / in_flops for ratio in in_time],
        than=(0.75, 1.33),
        above="More than a third longer than the FLOPs say: other things take time, too.",
        below="Much less than the FLOPs say: the first pass takes more time than its share.",
        undecided="As far as the samples agree, time follows the FLOPs to within a third.",
    )
    how_much_of_the_roof([counted[1] / seconds for seconds in step_time.samples_s], dtype)


def passes_against_the_napkin(napkin: int, counted: tuple[int, int], seconds: tuple[float, float]) -> None:
    """Napkin, counted, measured"""
    passes = [
        ("forward", napkin, counted[0], seconds[0]),
        ("backward", 2 * napkin, counted[1] - counted[0], seconds[1] - seconds[0]),
        ("both", 3 * napkin, counted[1], seconds[1]),
    ]
    rows = [(name, n, flops, flops / n, s, flops / s) for name, n, flops, s in passes]
    columns = ["pass", "napkin, FLOP", "counted, FLOP", "counted / napkin", "measured, s", "FLOP/s"]  # @hide
    table(rows, columns)  # @hide


def how_much_of_the_roof(rates: list[float], dtype: torch.dtype) -> None:
    """How much of the machine that was"""
    peak, reached = peak_flops(str(dtype).removeprefix("torch.")), statistics.median(rates)  # @inspect peak [FLOP/s]
    if peak is None:
        text(f"{reached / 1e12:.2f} TFLOP/s; no peak is known for this machine.")
        return
    mfu = reached / peak  # @inspect mfu
    promise = f"{reached / 1e12:.3g} of {peak / 1e12:.3g} TFLOP/s"
    decide(
        [rate / peak for rate in rates],
        than=(0.5, 1.05),
        above=f"{promise}: more than the peak that was measured at another moment.",
        below=f"{promise}: an MFU of {mfu:.2f}, less than the 0.5 that is called good.",
        undecided=f"{promise}: an MFU of {mfu:.2f}.",
    )


@dataclass(frozen=True)
class Shape:
    """The numbers that decide what a Transformer costs."""

    vocabulary: int = 256  # V: every byte is a token
    context: int = 64  # S: the tokens that it sees at once
    width: int = 128  # D
    layers: int = 2  # L
    heads: int = 4  # H
    tied: bool = False  # whether the head is the embedding, used a second time


class Attention(nn.Module):
    """Each token looks at itself and at those before it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query = nn.Linear(shape.width, shape.width, bias=False)
        self.key = nn.Linear(shape.width, shape.width, bias=False)
        self.value = nn.Linear(shape.width, shape.width, bias=False)
        self.output = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            rearrange(part(x), "b s (h d) -> b s h d", h=self.heads) for part in (self.query, self.key, self.value)
        )
        by_head = [part.transpose(1, 2) for part in (turned(query), turned(key), value)]  # (B, H, S, D/H) each
        mixed = scaled_dot_product_attention(*by_head, is_causal=True)  # (B, H, S, D/H)
        return self.output(rearrange(mixed, "b h s d -> b s (h d)"))  # (B, S, D)


def turned(x: Tensor) -> Tensor:
    """Each pair of numbers is a point in the plane, turned by an angle that grows with the token's place: the angle
    between a query and a key then says how far apart they are."""
    place = torch.arange(x.shape[1], device=x.device)  # (S,)
    pair = torch.arange(x.shape[-1] // 2, device=x.device)  # (D/2H,)
    angle = place[:, None, None] * 1000.0 ** (-2 * pair / x.shape[-1])  # from fast to slow (S, 1, D/2H)
    (a, b), cos, sin = x.chunk(2, dim=-1), angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)  # (B, S, H, D/H)


class Layer(nn.Module):
    """Attention, then two matrices with a GELU between them; each behind a norm, each added to the stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width, bias=False)
        self.attention = Attention(shape)
        self.norm2 = nn.LayerNorm(shape.width, bias=False)
        self.up = nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.down = nn.Linear(4 * shape.width, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))  # (B, S, D)
        return x + self.down(gelu(self.up(self.norm2(x))))  # (B, S, 4D) inside, (B, S, D) out


class LanguageModel(nn.Module):
    """Tokens in, a logit for each possible next token out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, self.recompute = shape, False  # True saves memory: section 14
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList([Layer(shape) for _ in range(shape.layers)])
        self.norm = nn.LayerNorm(shape.width, bias=False)
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
    """What the shape says: the layers' matrices are 12·L·D²."""
    d = shape.width
    return {
        "embedding": shape.vocabulary * d,
        "attention": 4 * shape.layers * d**2,
        "feed-forward": 8 * shape.layers * d**2,
        "norms": (2 * shape.layers + 1) * d,
        "head": 0 if shape.tied else shape.vocabulary * d,
    }


def flops_by_part(shape: Shape, batch: int) -> dict[str, int]:
    """6 for each token and each weight that multiplies it; and attention's two products with S keys."""
    tokens, d = batch * shape.context, shape.width
    return {
        "attention's matrices": 6 * tokens * 4 * shape.layers * d**2,
        "feed-forward": 6 * tokens * 8 * shape.layers * d**2,
        "scores and mixtures": 6 * tokens * 2 * shape.layers * d * shape.context,
        "logits": 6 * tokens * d * shape.vocabulary,
    }


def bytes_by_part(shape: Shape, batch: int) -> dict[str, int]:
    """In fp32, for each part where it is largest: 16 numbers for each token, layer and unit of width."""
    parameters, tokens = sum(parameters_by_part(shape).values()), batch * shape.context
    # Beside the 16: each head's sum in the softmax; two norms' means and deviations; the rotary angles' sines, cosines.
    of_layer = tokens * (16 * shape.width + shape.heads + 4)
    angles = 4 * shape.context * shape.width // shape.heads // 2 * shape.layers  # of queries and of keys
    around = tokens * (2 * shape.width + 2)  # the last norm's input and output
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
        "From here on one model is carried through: a **Transformer language model**, trained in seconds. A token is "
        "a byte, so the vocabulary has 256 entries. Its parts:\n\n"
        "- **Embedding**: a row of $D$ numbers for each token. The rows of a sequence are its *residual stream*, to "
        "which every layer adds.\n"
        "- **Norm**: brings each row back to standard deviation 1.\n"
        "- **Attention**: three matrices make a *query*, a *key* and a *value* of each row. A place takes a mixture "
        "of values, its own and earlier ones, weighted by how well its query fits their keys. (Queries and keys are "
        "turned by angles that grow with the place, so that the angle between two says how far apart they are.) A "
        "fourth matrix brings it into the stream.\n"
        "- **Feed-forward**: two matrices with a GELU between them. No layer adds a constant (`bias=False`).\n"
        "- **Head**: gives each possible next token a number, its *logit*; a softmax makes probabilities of them. (It "
        "is no head of attention.)"
    )
    torch.manual_seed(0)  # @hide
    shape = Shape()  # its context: tokens that it sees at once @inspect shape.width shape.layers shape.context
    model = LanguageModel(shape)
    tokens = torch.randint(shape.vocabulary, (8, shape.context))  # (B, S)
    logits = model(tokens)  # (B, S, V) @inspect logits
    assert logits.shape == (8, shape.context, shape.vocabulary)  # @hide
    assert abs(logits.std().item() * math.sqrt(shape.width) - 1) < 0.1  # small at first: it knows nothing @hide
    text("Attention is *causal*. Another last token changes nothing before it:")
    changed = tokens.clone()
    changed[:, -1] = (tokens[:, -1] + 1) % shape.vocabulary
    assert torch.equal(model(changed)[:, :-1], logits[:, :-1])  # @stepover
    assert not torch.equal(model(changed)[:, -1], logits[:, -1])  # @stepover @hide
    text(
        "Matrices start by LeCun's rule. Those whose results are added to the stream, $2L$ of them, start smaller by "
        "$1/\\sqrt{2L}$, so that the stream does not grow with depth:"
    )
    up, down = (w.weight.std().item() * math.sqrt(w.in_features) for w in (model.layers[0].up, model.layers[0].down))
    assert abs(up - 1) < 0.02 and abs(down * math.sqrt(2 * shape.layers) - 1) < 0.02  # @inspect up down
    loss_before_learning(model, tokens)
    parameters_of_the_language_model(shape, model)


def loss_before_learning(model: LanguageModel, tokens: Tensor) -> None:
    """What it knows before it learns"""
    text(
        "Its loss is the **cross-entropy**: the mean of $-\\log p$, where $p$ is the probability that it gave to the "
        "byte that did come next. $\\log_2$ counts bits, the natural logarithm *nats*."
    )
    ask(
        "What is the loss of a model that knows nothing, in bits for each byte?",
        math.log2(model.shape.vocabulary),
        unit="bits",
        hint="All 256 bytes are as likely.",
        why="$-\\log_2 (1/256) = \\log_2 256$. In nats, which is what `cross_entropy` returns, it is $\\ln 256$.",
        slips={math.log(256): "That is in nats. A nat is $1/\\ln 2$ bits.", 1 / 256: "That is the probability."},
    )
    bits = loss_of(model, tokens[:, :-1], tokens[:, 1:]).item() / math.log(2)  # @inspect bits @stepover
    assert abs(bits - math.log2(model.shape.vocabulary)) < 0.1


def parameters_of_the_language_model(shape: Shape, model: LanguageModel) -> None:
    """Its parameters, by part"""
    predicted = parameters_by_part(shape)  # @inspect predicted
    parameters = sum(p.numel() for p in model.parameters())  # @inspect parameters
    assert parameters == sum(predicted.values())
    in_layers = sum(p.numel() for p in model.layers.parameters() if p.ndim == 2)
    assert in_layers == 12 * shape.layers * shape.width**2
    tied = sum(p.numel() for p in LanguageModel(Shape(tied=True)).parameters())  # @inspect tied @stepover
    assert tied == sum(parameters_by_part(Shape(tied=True)).values())
    text(
        f"The layers' matrices are the well-known $12 L D^2$, here {in_layers / parameters:.0%} of all. The head can "
        f"be **tied** to the embedding: one matrix, used twice. That saves {1 - tied / parameters:.0%} of this model, "
        f"and less of one whose vocabulary is small beside $12 L D$."
    )
    d, layers_of_gpt2, vocabulary = 768, 12, 50_257  # @hide
    gpt2 = parameters_by_part(Shape(vocabulary, 1024, d, layers_of_gpt2, 12))  # @hide
    ask(
        "GPT-2 small has $V = 50257$, $D = 768$ and $L = 12$. How many parameters does tying save?",
        gpt2["head"],
        hint="The head has a row of $D$ numbers for each entry of the vocabulary.",
        why=f"$V D$, {gpt2['head'] / sum(gpt2.values()):.0%} of the {sum(gpt2.values()) / 1e6:.0f} million that it "
        f"has untied (its table of places, and constants that layers add, not counted).",
        slips={12 * 12 * d**2: "Those are the layers' matrices, which stay."},
    )


def residual_streams() -> None:
    """Why what is added starts small"""
    text(
        "Each layer of the model *adds* to the stream twice: $h \\leftarrow h + \\text{norm}(h) \\, W$, once for "
        "attention and once for the feed-forward part. The norm gives each such branch inputs of RMS 1, whatever came "
        "before, and $n$ independent branches add up to an RMS of $\\sqrt{1 + n}$. GPT-2 therefore draws the last "
        "matrix of each branch smaller by $1 / \\sqrt n$, and so does the model above:"
    )
    width = 256
    scales = {}
    for branches in (6, 24):
        plain = scaled = torch.randn(64, width)
        for _ in range(branches):
            w = torch.randn(width, width) / math.sqrt(width)
            plain = plain + nn.functional.rms_norm(plain, (width,)) @ w
            scaled = scaled + nn.functional.rms_norm(scaled, (width,)) @ w / math.sqrt(branches)  # @stepover
        scales[branches] = [h.square().mean().sqrt().item() for h in (plain, scaled)]  # RMS @inspect scales @stepover
        assert abs(scales[branches][0] / math.sqrt(1 + branches) - 1) < 0.1
        assert abs(scales[branches][1] / math.sqrt(2) - 1) < 0.1
    text(
        f"Without the factor the stream of {branches} branches ends {scales[branches][0]:.1f} times as large as it "
        f"began, and each branch adds less and less to it; with it, {scales[branches][1]:.2f} times, at any depth."
    )
    link(**REFERENCES["gpt-2"])


def turned_by_their_place() -> None:
    """Why queries and keys are turned"""
    text(
        "Attention by itself, its mask apart, does not know where a token stands. So each pair of numbers in a query "
        "or key is turned, like a point in a plane, by an angle that grows with the place (*rotary* embedding, RoPE). "
        "Lengths stay as they are, and the product of a query and a key depends on their *distance* alone:"
    )
    query, key = torch.randn(2, 32)
    queries, keys = (turned(row.expand(1, 12, 1, 32))[0, :, 0] for row in (query, key))  # at places 0 to 11
    assert torch.allclose(queries.norm(dim=-1), query.norm().expand(12), rtol=1e-4)
    products = queries @ keys.t()  # (12, 12) @inspect products
    assert torch.allclose(products[3, 1], products[11, 9], atol=1e-3)
    assert (products[3, 1] - products[3, 3]).abs() > 0.01
    text("The first pair turns by 1 radian from one place to the next, each later pair more slowly:")
    cosines = nn.functional.cosine_similarity(
        torch.stack([keys[1][:16], keys[1][16:]]), torch.stack([key[:16], key[16:]]), dim=0
    )  # of the angle of each pair at place 1
    expected = torch.cos(1000.0 ** (-torch.arange(16) / 16))
    assert torch.allclose(cosines, expected, atol=1e-5)


def the_layer_of_torch() -> None:
    """torch's own layer"""
    text(
        "torch has this layer, without the turning. At the first place the angle is 0: with the same weights, a "
        "sequence of one token has to come out of both alike."
    )
    shape = Shape()
    ours = Layer(shape)  # @stepover
    theirs = nn.TransformerEncoderLayer(
        shape.width, shape.heads, 4 * shape.width, 0.0, "gelu", batch_first=True, norm_first=True, bias=False
    )  # 0.0: no dropout @stepover
    three = (ours.attention.query, ours.attention.key, ours.attention.value)
    weights = {"self_attn.in_proj_weight": torch.cat([part.weight for part in three])}
    weights |= {"self_attn.out_proj.weight": ours.attention.output.weight}
    weights |= {"linear1.weight": ours.up.weight, "linear2.weight": ours.down.weight}
    weights |= {"norm1.weight": ours.norm1.weight, "norm2.weight": ours.norm2.weight}
    theirs.load_state_dict(weights)
    x = torch.randn(8, 1, shape.width)  # (B, S, D)
    assert torch.allclose(ours(x), theirs(x), atol=1e-5)  # @stepover


def flops_of_the_language_model() -> None:
    """Its FLOPs, by part"""
    text(
        "Six FLOPs for each token and weight that multiplies it (section 1), and two products without weights: queries "
        "with keys, the *scores*, and their mixture of values. A step of 8 sequences, counted on the `meta` device, "
        "where tensors have shapes and no numbers:"
    )
    shape, batch = Shape(), 8
    predicted = flops_by_part(shape, batch)  # @inspect predicted [FLOP]
    with torch.device("meta"):
        model = LanguageModel(shape)
        tokens = torch.zeros(batch, shape.context, dtype=torch.long)  # (B, S)
    step = count(lambda: loss_of(model, tokens, tokens).backward())  # @stepover
    products = step.flops_by_operator["aten.mm"] + step.flops_by_operator["aten.bmm"]  # @inspect products [FLOP]
    assert products == sum(predicted.values())
    by_part = parameters_by_part(shape)
    napkin = 6 * sum(by_part.values()) * batch * shape.context  # @inspect napkin [FLOP]
    assert abs(napkin / products - 1) < 0.002
    too_many = 6 * by_part["embedding"] * batch * shape.context  # @hide
    assert napkin - too_many + predicted["scores and mixtures"] == products + 6 * by_part["norms"] * batch * 64  # @hide
    longer = Shape(context=128, layers=4, tied=True)  # @hide
    napkin_of_longer = 6 * sum(parameters_by_part(longer).values()) * batch * longer.context  # @hide
    missing = sum(flops_by_part(longer, batch).values()) / napkin_of_longer - 1  # @hide
    assert missing > 0.1  # @hide
    ask(
        f"The napkin, 6 FLOPs for each parameter and token, is right to {abs(napkin / products - 1):.1%}. What does "
        f"that show?",
        "It is an accident of this shape",
        choices=[
            "The napkin counts everything that matters",
            "It is an accident of this shape",
            "Attention's scores are negligible",
        ],
        hint="Which weights multiply nothing? Which products have no weights?",
        why=f"The embedding is looked up, not multiplied: {too_many:,} FLOPs too many. The scores have no weights: "
        f"{predicted['scores and mixtures']:,} too few. The two are equal where $2 L S = V$. With a context of 128, "
        f"4 layers and a tied head the true count is {missing:.0%} above the napkin.",
        slips={
            "Attention's scores are negligible": f"They are {predicted['scores and mixtures'] / products:.0%} here, "
            "and their share grows with the context."
        },
    )


def memory_bars(bars: dict[str, dict[str, int]], title: str) -> None:
    """A bar for each account of bytes, stacked of its parts; one that is still to come is 0"""
    parts = dict.fromkeys(part for held in bars.values() for part in held)
    sizes = {part: [held.get(part, 0) for held in bars.values()] for part in parts}
    plot(sizes, x=list(bars), y_label="bytes", style="stacked", title=title)


def memory_of_a_step_predicted() -> None:
    """What a step of it will hold"""
    predicted = bytes_by_part(Shape(), batch=8)  # @stepover @hide
    text(
        "A training step holds parameters, gradients, the optimizer's states, what the forward pass leaves for the "
        "backward pass (*activations*), and the logits, counted apart. All five follow from the shape; sections 10 to "
        "13 measure and explain them. Here are the first three:"
    )
    per_parameter = predicted["parameters"] + predicted["gradients"] + predicted["optimizer states"]  # @hide
    ask(
        "How many MiB do parameters, gradients and AdamW's states take, all in fp32?",
        per_parameter / 2**20,
        unit="MiB",
        hint="Section 1: so many bytes for each of its 459,392 parameters.",
        slips={
            4 * 459_392 / 2**20: "The parameters alone.",
            16 * 459_392 / 1e6: "Those are MB, powers of 1000.",
            8 * 459_392 / 2**20: "AdamW keeps two numbers more for each parameter.",
        },
    )
    shape = Shape()
    model = LanguageModel(shape)  # @stepover
    predicted = bytes_by_part(shape, batch=8)  # @inspect predicted [B]
    measured = {"parameters": sum(w.nbytes for w in model.parameters())}  # @inspect measured [B]
    assert measured["parameters"] == predicted["parameters"] == 4 * 459_392
    assert per_parameter == 16 * 459_392  # @hide
    tokens = torch.zeros(8, shape.context + 1, dtype=torch.long)  # @hide
    later = saved_by_part(model, tokens[:, :-1], tokens[:, 1:])  # what sections 11 and 13 explain @stepover @hide
    assert abs(later["activations"] - predicted["activations"]) <= 4  # @hide
    assert later["logits"] == predicted["logits"]  # @hide
    memory_bars({"predicted": predicted, "measured so far": measured}, "A step of 8 sequences")  # @stepover @hide


def moving_a_model() -> None:
    """Moving a model"""
    text("On a module, `to` converts the parameters *in place*, and returns the module itself:")
    model = LanguageModel(Shape())  # @stepover
    w, before = model.head.weight, list(model.parameters())
    assert model.to(device(), torch.bfloat16) is model  # @stepover
    assert w is model.head.weight and w.dtype == torch.bfloat16
    assert all(new is old for new, old in zip(model.parameters(), before, strict=True))  # @hide
    assert {(w.device.type, w.dtype) for w in model.parameters()} == {(device(), torch.bfloat16)}  # @stepover @hide
    ask(
        "An optimizer was given the parameters, and has made its states for them, tensors of its own. Then comes "
        "`model.to(torch.bfloat16)`. What does the optimizer hold?",
        answer="bf16 parameters, fp32 states",
        choices=["fp32 parameters, fp32 states", "bf16 parameters, fp32 states", "bf16 parameters, bf16 states"],
        hint="Which of these tensors does the module know?",
        slips={
            "fp32 parameters, fp32 states": "The parameters stay the same objects, and were converted in place.",
            "bf16 parameters, bf16 states": "The module does not know the states.",
        },
    )
    text("So an optimizer's states are left behind, on a GPU even in another memory. First `to`, then the optimizer.")


def what_moving_leaves_behind() -> None:
    """What moving leaves behind"""
    text("The states of an optimizer that has made them already are not converted:")
    model = DeepLinear(256, 4)  # @stepover
    optimizer = optim.Adagrad(model.parameters())  # it makes its states at once, Adam at the first step @stepover
    allocated = torch.cuda.memory_allocated() if device() == "cuda" else None
    model.to(device(), torch.bfloat16)  # @stepover
    states = [state["sum"] for state in optimizer.state.values()]
    assert {(state.device.type, state.dtype) for state in states} == {("cpu", torch.float32)}  # @stepover
    parameter_bytes = sum(p.nbytes for p in model.parameters())  # @inspect parameter_bytes [B]
    assert parameter_bytes == 2 * (256**2 * 4 + 256)
    if allocated is None:
        text("What the GPU's allocator says of it: not run, no CUDA device.")
        return
    rises = torch.cuda.memory_allocated() - allocated  # @inspect rises [B]
    assert rises >= parameter_bytes
    text(f"The allocator has handed out {rises} bytes since, for the parameters' {parameter_bytes}.")


def mixture_of_experts() -> None:
    """With experts, N counts the active parameters"""
    text(
        "In a *mixture of experts* a layer has several weight matrices, and a small *router* chooses a few of them for "
        "each token. Memory holds all experts; a token is multiplied by its own."
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
    text("It is the sum over *all* experts, with the gates of those not chosen set to zero:")
    every = torch.einsum("td,edk->tek", x, weights)  # (tokens, experts, width)
    all_gates = torch.where(scores >= gates[:, -1:], scores, 0)
    assert torch.allclose(
        visit_experts(x, weights, gates, chosen), (all_gates[..., None] * every).sum(dim=1), atol=1e-5
    )
    assert len(chosen.unique()) == experts  # different tokens, different experts
    assert torch.allclose(scores.sum(dim=-1), torch.ones(tokens))
    text("So the $N$ of $6ND$ FLOPs is the *active* parameters, and the $N$ of bytes per parameter is all of them.")
    ask(
        "A model has 8 experts in each layer and uses 2 for each token; the experts are 90% of its parameters. By "
        "which factor is a step cheaper, in FLOPs, than that of a dense model with as many parameters?",
        1 / (0.1 + 0.9 * active / experts),
        hint="What share of the parameters is active?",
        slips={experts / active: "Only the experts are chosen from; the rest multiplies every token."},
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
        f"After this section you can make a run repeat itself to the last bit, and bring tokens from a disk to a GPU "
        f"without reading them all into memory. The key figure: LLaMA's training set, two bytes a token, is "
        f"{terabytes:.1f} TB."
    )
    note(
        "Eight minutes. Show one seed that does nothing, and the mapped file; the question about windows "
        "catches most people by one. Without a GPU, say in words how copies and work overlap."
    )
    seeds()
    seeds_that_do_nothing()  # @deeper
    generators()
    numbers_depend_on_how_many()  # @deeper
    tokens_on_disk()
    batches()
    what_an_epoch_draws()  # @deeper
    seeds_of_workers()  # @deeper
    three_ways_to_gather()  # @deeper
    text_for_the_language_model()
    the_same_run_twice()
    determinism_and_its_cost()  # @deeper
    pinned_memory()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. Seed torch, NumPy and Python, and give the data a generator of its own: on the same machine the run "
        "repeats itself to the bit.\n"
        "2. Tokens lie in a raw file, two or four bytes each, mapped read-only; a batch is windows of $S + 1$ tokens.\n"
        "3. A language model has to beat a table of how often each byte comes, and one of pairs: count their bits "
        "first."
    )


def seeds() -> None:
    """Seeds"""
    text(
        "A program that trains has at least three sources of random numbers: torch's, NumPy's and Python's own. Each "
        "has its own seed."
    )
    ask(
        "A script begins with `np.random.seed(0)`. Which of these draws the same numbers each time it is run?",
        answer="np.random.rand()",
        choices=["torch.rand(())", "np.random.rand()", "random.random()", "np.random.default_rng().random()"],
        slips={
            "torch.rand(())": "torch has a seed of its own.",
            "random.random()": "Python's generator is another one.",
            "np.random.default_rng().random()": "NumPy's newer generators have a state of their own.",
        },
    )
    text("`torch.manual_seed` sets torch's, on the CPU and on every GPU:")
    draws = []
    for _ in range(2):
        torch.manual_seed(1)
        np.random.seed(2)
        random.seed(3)
        draws.append([torch.rand(()).item(), float(np.random.rand()), random.random()])  # @inspect draws
    assert draws[0] == draws[1]
    torch.manual_seed(4)  # @hide
    assert torch.rand(()).item() != draws[0][0]  # another seed, another number @hide
    text("What a seed sets is a **state**, and it moves on with each draw. It can be read and put back:")
    state = torch.get_rng_state()  # @inspect state.shape state.dtype
    first = torch.rand(2)
    assert not torch.equal(torch.rand(2), first)
    torch.set_rng_state(state)
    assert torch.equal(torch.rand(2), first)
    text("To be resumed, a run saves this state (section 15): the seed alone would start the sequence over.")


def seeds_that_do_nothing() -> None:
    """Trap: a seed that does nothing"""
    text("`np.random.seed` at the top of a script seeds nothing in torch:")
    torch.manual_seed(0)
    numpy_draws, torch_draws = [], []
    for _ in range(2):
        np.random.seed(0)
        numpy_draws.append(float(np.random.rand()))  # @inspect numpy_draws
        torch_draws.append(torch.rand(()).item())  # @inspect torch_draws
    assert numpy_draws[0] == numpy_draws[1]
    assert torch_draws[0] != torch_draws[1]
    text("Nor does it seed NumPy's newer generators, which have no global state to set:")
    newer = np.random.default_rng(5)
    np.random.seed(0)
    assert newer.random() == np.random.default_rng(5).random()
    assert newer.random() != np.random.default_rng(5).random()  # its state is its own, and has moved on


def generators() -> None:
    """A generator for the data"""
    text(
        "One state is shared by everyone, so one more draw anywhere changes everything after it. A `torch.Generator` "
        "of its own keeps the data's order independent of what the model draws:"
    )

    def batch_after(model_draws: int, generator: torch.Generator | None) -> list[int]:
        torch.manual_seed(0)
        torch.rand(model_draws)  # for weights, say
        return torch.randint(1000, (4,), generator=generator).tolist()

    shared = [batch_after(n, None) for n in (10, 11)]  # @inspect shared @stepover
    own = [batch_after(n, torch.Generator().manual_seed(0)) for n in (10, 11)]  # @inspect own @stepover
    assert shared[0] != shared[1]
    assert own[0] == own[1]


def numbers_depend_on_how_many() -> None:
    """The same seed, other numbers"""
    text(
        "A seed does not promise the same numbers everywhere. It promises them for the same call, on the same kind of "
        "device, with the same version. Asking for more normal numbers is another call; on the CPU, from sixteen on "
        "they are made another way:"
    )
    torch.manual_seed(0)
    eight = torch.randn(8)
    torch.manual_seed(0)
    sixteen = torch.randn(16)
    same = (eight == sixteen[:8]).sum().item()  # @inspect same
    assert same < 8
    text(
        "On a GPU many threads draw at once, each from its own part of the sequence. How many there are depends on "
        "the model of the GPU, so as soon as a tensor has more elements than there are threads, **the same seed gives "
        "different numbers on different GPUs**. What must compare across machines is drawn on the CPU, as in most "
        "of this lecture."
    )
    if device() != "cuda":
        text("The GPU's numbers beside the CPU's: not run, no CUDA device.")
        return
    torch.manual_seed(0)
    on_the_gpu = torch.randn(8, device="cuda").cpu()
    assert not torch.equal(on_the_gpu, eight)
    gpu = torch.cuda.get_device_properties(0)
    threads = gpu.multi_processor_count * gpu.max_threads_per_multi_processor  # @inspect threads
    text(f"This GPU runs {threads} threads at once; a tensor of {2**20} elements is already larger.")
    assert threads < 2**20


def determinism_and_its_cost() -> None:
    """Determinism, and what it costs"""
    text(
        "Seeds don't cover everything. A sum of floating-point numbers depends on its order, and where many threads "
        "add to the same place, the order is that of arrival. `torch.use_deterministic_algorithms(True)` makes "
        "torch choose another algorithm for such operations, and raise an error where it has none. It also fills what "
        "`empty` returns with NaN, so that a read of unset memory shows at once. (Older versions of torch also needed "
        "`CUBLAS_WORKSPACE_CONFIG=:4096:8` in the environment for matrix products on CUDA.)"
    )
    rows = torch.randint(1000, (2**16,), generator=torch.Generator().manual_seed(0)).to(device())
    values = torch.randn(2**16, 16, generator=torch.Generator().manual_seed(1)).to(device())

    def add_up() -> Tensor:
        return torch.zeros(1000, 16, device=device()).index_add_(0, rows, values)

    usual, usual_time = [add_up() for _ in range(5)], timed(add_up)  # @stepover
    torch.use_deterministic_algorithms(True)
    repeated, repeated_time = [add_up() for _ in range(5)], timed(add_up)  # @stepover
    unset = torch.empty(1000, device=device())
    torch.use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()  # @hide
    assert all(torch.equal(sums, repeated[0]) for sums in repeated)
    assert torch.allclose(usual[0], repeated[0], atol=1e-3)
    assert unset.isnan().all()
    agreed = all(torch.equal(sums, usual[0]) for sums in usual)  # @inspect agreed
    luck = "agree, too" if agreed else "do not"
    text(f"Five deterministic runs agree to the bit. Five by default {luck}.")
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
        "A tokenizer turns text into whole numbers; a training set is one long row of them. LLaMA was trained on 1.4T "
        "tokens from a vocabulary of 32000, so a token fits in two bytes:"
    )
    assert np.iinfo(np.uint16).max >= 32_000
    data_bytes = 1.4e12 * np.dtype(np.uint16).itemsize  # @inspect data_bytes [B]
    assert data_bytes == 2.8e12
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
    text(
        "That does not fit in memory, and need not. A **memory-mapped** file looks like an array; the operating "
        "system reads a page of it (often 4096 bytes) when it is touched, and may drop it again at any time."
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokens.bin")
        rounds = sizes().token_file_bytes // 64_000  # through the whole vocabulary @stepover
        np.tile(np.arange(32_000, dtype=np.uint16), rounds).tofile(path)
        assert path.stat().st_size == 64_000 * rounds  # the numbers and nothing else
        memory_of_a_mapped_file(path)
        one_token_of_a_cold_file(Path(folder, "cold.bin"))  # @deeper
        open_it_read_only(path)  # @deeper
        raw_numbers_are_no_npy(Path(folder))  # @deeper
    link(**REFERENCES["llama"])


def anonymous_bytes() -> int | None:
    """This process's own memory, without what is mapped from files, as Linux counts it"""
    status = Path("/proc/self/status")
    found = re.search(r"RssAnon:\s*(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else None


def memory_of_a_mapped_file(path: Path) -> None:
    """What it takes to read it all"""
    ask(
        "A file is mapped, and a program reads a token from each half page of it. How much memory of its own has it "
        "gained?",
        "next to none",
        choices=["next to none", "one page", "as much as the file has"],
        why="The pages belong to the file. The system's cache holds them, for all processes, while there is room.",
        slips={"as much as the file has": "An array that holds the file takes that."},
    )
    before = anonymous_bytes()  # memory of its own @stepover
    tokens = np.memmap(path, dtype=np.uint16, mode="r")
    checksum = int(tokens[::1024].sum())  # a token from each half page @inspect checksum
    mapped = anonymous_bytes()  # @stepover
    room = mmap.mmap(-1, tokens.nbytes, flags=mmap.MAP_PRIVATE)  # new memory; `np.fromfile` may reuse what was freed
    loaded = np.frombuffer(room, dtype=np.uint16)
    loaded[:] = tokens
    after = anonymous_bytes()  # @stepover
    assert checksum == int(loaded[::1024].sum())
    assert not tokens.flags.writeable  # @hide
    if before is None or mapped is None or after is None:
        text("Not measured: this operating system does not say.")
        return
    gained = {"mapped": (mapped - before) / tokens.nbytes, "loaded": (after - mapped) / tokens.nbytes}
    assert after >= loaded.nbytes == tokens.nbytes  # @hide
    assert gained["mapped"] < 0.1  # of the file's size @inspect gained
    assert 0.9 < gained["loaded"] < 1.1
    text(
        f"The map added {gained['mapped']:.0%} of the file's size to the process's memory, the loaded array "
        f"{gained['loaded']:.0%}."
    )
    ask(
        "Write the line that maps the file `tokens.bin`, four bytes a token, so that nothing can be written to it.",
        '`tokens = np.memmap("tokens.bin", dtype=np.uint32, mode="r")`',
        why="Without `mode`, `np.memmap` opens it for writing, and an assignment goes to disk.",
    )


def bytes_from_disk() -> int | None:
    """What has been read from disk for this process, as Linux counts it"""
    account = Path("/proc/self/io")
    fields = dict(line.split(":", 1) for line in account.read_text().splitlines()) if account.exists() else {}
    return int(fields["read_bytes"]) if "read_bytes" in fields else None


def one_token_of_a_cold_file(path: Path) -> None:
    """What one token reads"""
    np.arange(2**23).astype(np.uint16).tofile(path)  # 16 MiB: 0 to 65,535, again and again
    with path.open("rb") as file:
        if not hasattr(os, "posix_fadvise") or bytes_from_disk() is None:
            text("What one token reads: not measured, this operating system does not say.")
            return
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # out of the system's cache
    before = bytes_from_disk()
    token = np.memmap(path, dtype=np.uint16, mode="r")[2**22 + 5]
    read_bytes = bytes_from_disk() - before  # @stepover
    assert token == 5
    if read_bytes == 0:
        text("A token of a file that is not in memory: not measured, the folder for temporary files is in memory.")
        return
    ask(
        "A file of 16 MiB is mapped, and none of it is in memory. A program reads one token, 2 bytes, in its middle. "
        "How much is read from the disk?",
        answer="one page" if read_bytes <= 4096 else "many pages",
        choices=["2 bytes", "one page", "many pages", "the whole file"],
        slips={
            "2 bytes": "A disk is read in pages.",
            "one page": "The system reads ahead: what lies near may be wanted next.",
            "the whole file": "Only what lies near.",
        },
    )
    assert 4096 <= read_bytes <= 2**24 + 2**20  # @inspect read_bytes [B]
    text(f"Here {read_bytes // 4096} pages. The system reads ahead, which helps reading in order, not at random.")


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
        "`tofile` writes the numbers and nothing else: no shape, no dtype. `np.save` writes a header first. Neither "
        "file can be read as the other, but only one of the two readers says so:"
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
    places = starts + torch.arange(sequence + 1)  # (B, S + 1)
    windows = torch.from_numpy(tokens[places.numpy()].astype(np.int64))  # (B, S + 1), one array
    return windows[:, :-1], windows[:, 1:]


def batches() -> None:
    """Batches"""
    text(
        "A language model is trained to predict the next token, at every place of a sequence at once. So a batch is "
        "$B$ windows of $S + 1$ tokens: the first $S$ are the inputs, the last $S$ the targets."
    )
    generator = torch.Generator().manual_seed(0)
    tokens = np.arange(100)  # so that each token says where it came from
    inputs, targets = draw_batch(tokens, batch=2, sequence=4, generator=generator)  # @inspect inputs targets
    assert inputs.shape == targets.shape == (2, 4)
    assert torch.equal(inputs + 1, targets)
    assert shares_storage(inputs, targets)  # views of one array @stepover
    ask(
        "Find the error: `x = tokens[i : i + S]` and `y = tokens[i + 1 : i + S]`.",
        "the last target is missing",
        choices=["the last target is missing", "x is one token too long", "y must not overlap x"],
        slips={
            "x is one token too long": "It has $S$ tokens, as it should.",
            "y must not overlap x": "Each token but the first and the last is a target here and an input there.",
        },
        why="$S$ targets end at `i + S + 1`.",
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
    text(
        "A loader whose starts end one too early never trains on the last token. `draw_batch` reaches it, here with 7 "
        "tokens and $S = 4$:"
    )
    first_tokens = draw_batch(tokens[:7], batch=100, sequence=4, generator=generator)[0][:, 0]  # @stepover
    starts = sorted(set(first_tokens.tolist()))  # @inspect starts
    assert starts == [0, 1, 2]
    inputs, targets = draw_batch(tokens[:5], batch=1, sequence=4, generator=generator)  # @stepover @hide
    assert (inputs[0, 0], targets[0, -1]) == (0, 4)  # a file of one window @hide


def what_an_epoch_draws() -> None:
    """What an epoch draws"""
    text(
        "Places drawn at random are drawn *with replacement*. After an epoch (as many tokens as the file has) some "
        "tokens were seen several times, and some never."
    )
    answer = math.exp(-1)  # @hide
    ask(
        "How large a share of the tokens was never seen?",
        answer=answer,
        within=0.03,
        hint="With $n$ draws, each misses a given token with probability $1 - 1/n$.",
        slips={0: "That is so without replacement.", 0.5: "$(1 - 1/n)^n$ is not a half."},
    )
    generator = torch.Generator().manual_seed(0)
    tokens, sequence = 2**20, 64
    starts = torch.randint(tokens - sequence, (tokens // sequence,), generator=generator)
    seen = torch.zeros(2, tokens, dtype=torch.bool)
    seen[0, starts[:, None] + torch.arange(sequence)] = True
    never = 1 - seen[0].float().mean().item()  # @inspect never
    assert abs(never - math.exp(-1)) < 0.01
    assert abs(never - answer) < 0.01  # @hide
    text("To see each token once, cut the file into windows that don't overlap, and shuffle these:")
    order = torch.randperm(tokens // sequence, generator=generator) * sequence
    seen[1, order[:, None] + torch.arange(sequence)] = True
    assert seen[1].all()
    text("Either way windows run across the ends of documents. With documents of 1 to 2000 tokens:")
    lengths = torch.randint(1, 2001, (tokens // 500,), generator=generator)
    document = torch.arange(len(lengths)).repeat_interleave(lengths)[:tokens]  # of each token
    crossing = (document[starts] != document[starts + sequence]).float().mean().item()  # @inspect crossing
    assert 0 < crossing < 1.2 * sequence / 1000.5  # one end in 1000 tokens
    text(
        f"{crossing:.1%} of these windows hold parts of two. A special token marks the end of a document; whether "
        f"attention may look across it is the mask's decision."
    )


def seeds_of_workers() -> None:
    """Workers that draw the same"""
    text(
        "A `DataLoader` with several worker processes gives each a copy of the dataset. torch seeds the global "
        "generators of each worker differently. A generator that the *dataset* holds is copied, state and all, so "
        "all workers draw the same:"
    )
    augmentation = np.random.default_rng(0)
    copies = [pickle.loads(pickle.dumps(augmentation)) for _ in range(2)]  # as two workers get it
    draws = [copy.random() for copy in copies]  # @inspect draws
    assert draws[0] == draws[1]
    text("Make one in each worker instead, from a seed of its own:")
    own = [np.random.default_rng(seed).random() for seed in np.random.SeedSequence(0).spawn(2)]  # @inspect own
    assert own[0] != own[1]


def three_ways_to_gather() -> None:
    """Three ways to gather a batch"""
    text("The same batch, gathered by the loader above, by stacking slices, and from a list of arrays:")
    tokens = np.arange(2**16, dtype=np.uint16)
    starts = torch.randint(2**16 - 512, (64, 1), generator=torch.Generator().manual_seed(0))
    places = (starts + torch.arange(513)).numpy()  # (B, S + 1)
    firsts = starts.flatten().tolist()
    slices = [tokens[first : first + 513].astype(np.int64) for first in firsts]  # @stepover

    def indexed() -> Tensor:
        return torch.from_numpy(tokens[places].astype(np.int64))

    def stacked() -> Tensor:
        return torch.from_numpy(np.stack([tokens[first : first + 513] for first in firsts]).astype(np.int64))

    assert torch.equal(indexed(), stacked())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch itself warns about the last
        assert torch.equal(indexed(), torch.tensor(slices))
        times = [timed(indexed), timed(stacked), timed(lambda: torch.tensor(slices))]  # @stepover
    names = ["one indexing", "stacked slices", "torch.tensor(list of arrays)"]  # @hide
    table([(n, t.seconds) for n, t in zip(names, times, strict=True)], ["64 windows of 513 tokens", "s"])  # @hide
    slower = times_as_long(times[2], times[1])  # @inspect slower @stepover
    decide(
        slower,
        than=2,
        above=(
            f"The last looks harmless and takes {statistics.median(slower):.0f} times as long as the one before (torch "
            f"warns about it). Make one array first."
        ),
        below="Here the last is not much slower than the one before.",
        undecided="Here the samples don't agree on how much slower the last is.",
    )


def pinned_memory() -> None:
    """To the GPU: pinned memory"""
    text(
        "A GPU copies from the CPU's memory by itself, but only from memory that is guaranteed to stay where it is: "
        "**pinned**. A copy from ordinary, *pageable* memory goes through a pinned buffer piece by piece, and the CPU "
        "does that work. From pinned memory, with `non_blocking=True`, the call returns at once, and the CPU is free "
        "for the next batch. Pinning is itself a copy, so it is left to another thread: torch's loader does it with "
        "`DataLoader(pin_memory=True)`."
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
    calls_that_return_at_once()  # @deeper
    overlapping_transfers()  # @deeper
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
    times = {
        "pageable": timed(lambda: target.copy_(source)),
        "pinned": timed(lambda: target.copy_(pinned, non_blocking=True)),
        "pinned on the way": timed(lambda: target.copy_(source.pin_memory(), non_blocking=True)),
    }
    assert torch.equal(target.cpu(), source)
    return times


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
        undecided="`x.pin_memory().to('cuda')` in the training loop gains nothing that the samples agree on.",
    )
    text(
        "Pinning is itself a copy, into memory that has to be found first. Let another thread do it: "
        "`DataLoader(pin_memory=True)`."
    )


def calls_that_return_at_once() -> None:
    """How soon the call returns"""
    text("A GPU takes its work from queues, called **streams**. What stands in one stream runs in order.")
    source = torch.ones(sizes().streamed_bytes // 4, dtype=torch.uint8)  # @stepover
    pinned, target = source.pin_memory(), torch.zeros(len(source), dtype=torch.uint8, device="cuda")
    whole = measure(lambda: target.copy_(pinned, non_blocking=True), repeats=5, max_seconds=0.3)
    target.zero_()
    early = [timed_too_early(lambda: target.copy_(pinned, non_blocking=True)) for _ in range(5)]  # @stepover
    returned_s = statistics.median(early)  # @inspect returned_s [s], whole.seconds [s]
    assert returned_s < whole.seconds / 2
    assert target.min() == 1
    text(
        f"The call came back after {1e6 * returned_s:.0f} µs, the copy took {1e6 * whole.seconds:.0f}. In between, "
        f"the source must not be changed, and nothing but the GPU's own work may rely on the target: what reads it in "
        f"the same stream waits. Nothing waits the other way round: after `y = x.to('cpu', non_blocking=True)`, `y` "
        f"holds whatever was there before until the device is synchronised."
    )


def overlapping_transfers() -> None:
    """The next transfer during this step"""
    text("Copies and kernels use different parts of a GPU. On two streams they run at the same time:")
    batches = [torch.randn(4096, 4096).pin_memory() for _ in range(4)]  # 64 MiB each @stepover
    weight = torch.randn(4096, 1024, device="cuda")
    moved = batches[0].to("cuda")
    transfer = measure(lambda: moved.copy_(batches[0], non_blocking=True), repeats=5, max_seconds=0.2).seconds
    product = measure(lambda: moved @ weight, repeats=5, max_seconds=0.2).seconds
    rounds = max(1, round(transfer / product))  # so that both take about the same time @inspect rounds

    def work(batch: Tensor) -> Tensor:
        for _ in range(rounds):
            result = batch @ weight
        return result

    side = torch.cuda.Stream()  # one for all calls: the allocator keeps memory apart for each stream
    worked = timed(lambda: work(moved)).seconds
    in_turn = timed(lambda: copy_then_work(batches, work))
    at_once = timed(lambda: copy_while_working(batches, work, side))
    assert torch.equal(copy_then_work(batches, work), copy_while_working(batches, work, side))  # @stepover
    parts = {"transfer": transfer, "work": worked, "floor": max(transfer, worked)}  # nothing can be faster
    seconds = parts | {"in turn": in_turn.seconds / len(batches), "at once": at_once.seconds / len(batches)}
    table(list(seconds.items()), ["per batch", "s"])  # @hide
    assert seconds["at once"] > seconds["floor"] / 2  # @inspect seconds
    decide(
        times_as_long(in_turn, at_once),
        than=1.1,
        above="The copies are hidden behind the work, but for the first, which has nothing to hide behind.",
        below="On this machine nothing was hidden: the two take as long at once as in turn.",
        undecided="Whether the copies are hidden behind the work, the samples don't agree.",
    )


def copy_then_work(batches: list[Tensor], work: Callable[[Tensor], Tensor]) -> Tensor:
    """Each batch is copied, then worked on"""
    for batch in batches:
        result = work(batch.to("cuda", non_blocking=True))
    return result


def copy_while_working(batches: list[Tensor], work: Callable[[Tensor], Tensor], side: torch.cuda.Stream) -> Tensor:
    """Each batch is worked on while the next is copied on a stream of its own"""
    main_stream = torch.cuda.current_stream()
    side.wait_stream(main_stream)
    with torch.cuda.stream(side):
        arriving = batches[0].to("cuda", non_blocking=True)
    for following in [*batches[1:], None]:
        main_stream.wait_stream(side)  # this batch has arrived
        batch = arriving
        batch.record_stream(main_stream)  # its memory is not reused before the work is done
        if following is not None:
            with torch.cuda.stream(side):
                arriving = following.to("cuda", non_blocking=True)
        result = work(batch)
    return result


def lecture_tokens() -> tuple[np.ndarray, np.ndarray]:
    """The bytes of this lecture, mapped: the last tenth is held out"""
    tokens = np.memmap(__file__, dtype=np.uint8, mode="r")
    cut = len(tokens) * 9 // 10
    return tokens[:cut], tokens[cut:]


def bits_of_bytes(train: np.ndarray, held_out: np.ndarray) -> float:
    """Bits for each held-out byte, if each is as likely as it was in training"""
    counts = np.bincount(train, minlength=256) + 1  # none is impossible
    return float(-np.log2(counts / counts.sum())[held_out].mean())


def bits_of_pairs(train: np.ndarray, held_out: np.ndarray) -> float:
    """The same, if it depends on the byte before"""
    counts = np.ones((256, 256))
    np.add.at(counts, (train[:-1], train[1:]), 1)
    return float(-np.log2(counts / counts.sum(axis=1, keepdims=True))[held_out[:-1], held_out[1:]].mean())


def text_for_the_language_model() -> None:
    """A text for the model"""
    text(
        "The language model will read this lecture's own source: nothing to download, and its bytes are its tokens, so "
        "the file is mapped as it is. The last tenth is held out, to measure the loss on text that it was not trained "
        "on."
    )
    train, held_out = lecture_tokens()  # @inspect len(train) len(held_out)
    share = len(held_out) / (len(train) + len(held_out))  # @hide
    assert abs(share - 0.1) < 1e-4  # @hide
    inputs, targets = draw_batch(train, batch=8, sequence=64, generator=torch.Generator().manual_seed(0))  # @stepover
    assert inputs.shape == targets.shape == (8, 64)  # @inspect inputs.dtype
    loaded, _ = draw_batch(np.array(train), 8, 64, torch.Generator().manual_seed(0))  # not mapped @stepover
    assert torch.equal(inputs, loaded)
    first_window = bytes(inputs[0])  # @inspect first_window.decode(errors="replace")
    assert first_window in train.tobytes()
    text(
        "Two simple models, for comparison: how often each byte comes, and how often each pair. Bits per held-out byte:"
    )
    one, two = bits_of_bytes(train, held_out), bits_of_pairs(train, held_out)  # @inspect one two
    assert two < one < 8
    counts, others = (
        torch.from_numpy(np.bincount(part, minlength=256)).double() for part in (train, held_out)
    )  # @hide
    nats = cross_entropy((counts + 1).log(), others / others.sum())  # @hide
    assert math.isclose(one, nats.item() / math.log(2))  # @hide
    pairs = [np.histogram2d(part[:-1], part[1:], 256, [[0, 256]] * 2)[0] for part in (train, held_out)]  # @hide
    counts, others = map(torch.from_numpy, pairs)  # @hide
    nats = cross_entropy((counts + 1).log(), others / others.sum(), reduction="sum")  # @hide
    assert math.isclose(two, nats.item() / math.log(2))  # @hide
    assert bits_of_pairs(np.full(1000, 2), np.array([0, 2])) == 8  # after a byte that never came @hide
    assert not train.flags.writeable  # @hide
    ask(
        "A model needs 2.25 nats for each byte. How many bits is that?",
        2.25 / math.log(2),
        unit="bits",
        why="$2.25 / \\ln 2$.",
        slips={2.25 * math.log(2): "A bit is less than a nat, so there are more of them."},
    )


def gradients_of_a_seed(seed: int) -> Tensor:
    """Weights, a batch, the gradients of its loss: whatever is drawn follows from the seed"""
    torch.manual_seed(seed)
    model = LanguageModel(Shape())
    train, _ = lecture_tokens()
    inputs, targets = draw_batch(train, 4, 64, torch.Generator().manual_seed(seed))
    loss_of(model, inputs, targets).backward()
    return torch.cat([w.grad.flatten() for w in model.parameters()])


def the_same_run_twice() -> None:
    """The same step, twice"""
    text(
        "All together, on the CPU: the language model's weights, a batch, a forward and a backward pass. With every "
        "source seeded, all 459,392 gradients agree to the last bit:"
    )
    once, again, other = (gradients_of_a_seed(seed) for seed in (0, 0, 1))  # @stepover
    assert len(once) == 459_392  # @hide
    assert torch.equal(once, again)
    assert not torch.equal(once, other)  # another seed
    text(
        "On a GPU that takes `torch.use_deterministic_algorithms(True)` as well: some of its operations add in "
        "whatever order their parts finish, and a sum of floats depends on its order."
    )


# ---------------------------------------------------------------------------------------------------------
# 10 Optimizers


class OneByOne(optim.Optimizer):
    """What the optimizers have in common: they visit each parameter that has a gradient.

    With it go its gradient, the dictionary of what is remembered of it, and the options of its group, such as `lr`.
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
    """m and v, averages of g and g², each divided by what it lacks at the start; w ← w − lr · m / (√v + ε)"""

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
    """Adam, and beside it w ← w − lr · λ · w"""

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
    """Adam without bias correction: w ← w − lr · m / (√v + ε), with m and v as they are"""

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
        f"After this section you can say how many bytes an optimizer keeps for each parameter, when it allocates them, "
        f"and what one step costs. The key figure: AdamW in fp32 keeps **{state_bytes:.0f} bytes** for each parameter, "
        f"and a step reads and writes **{moved_bytes:.0f}**."
    )
    text(
        "A gradient says in which direction the loss grows. An **optimizer** steps against it, and decides how far, "
        "also from what it remembers of earlier gradients: its **state**."
    )
    note(
        "Ten minutes. Write SGD on the board and add one memory after the other; ask who knows when Adam allocates. "
        "The bytes matter more than the formulas: end with the 28 bytes of a step."
    )
    family = [
        ("SGD", "—", "$w \\leftarrow w - \\eta g$", 0),
        ("momentum", "a sum of gradients", "$m \\leftarrow \\mu m + g$, then $w \\leftarrow w - \\eta m$", 1),
        ("AdaGrad", "a sum of squares", "$v \\leftarrow v + g^2$, then $w \\leftarrow w - \\eta g / \\sqrt v$", 1),
        ("RMSProp", "an average of squares", "AdaGrad, with $v \\leftarrow \\alpha v + (1 - \\alpha) g^2$", 1),
        ("Adam", "an average of each", "RMSProp with momentum, corrected for its first steps", 2),
        ("AdamW", "an average of each", "Adam, and $w \\leftarrow w - \\eta \\lambda w$ beside it", 2),
    ]  # @hide
    table(family, ["optimizer", "remembers", "update", "numbers per parameter"])  # @hide
    text(
        "$g$ is the gradient, $\\eta$ the learning rate, $\\lambda$ the *weight decay*, which draws weights towards 0; "
        "$\\mu$ and $\\alpha$, below 1, say how much of what is remembered is kept; ε, tiny, in the code prevents a "
        "division by 0."
    )
    gradient_descent()
    momentum_as_an_average()  # @deeper
    adapting_to_each_parameter()
    adam_and_adamw()
    steps_under_a_constant_gradient()  # @deeper
    the_six_against_torch()  # @deeper
    what_is_often_copied_wrong()  # @deeper
    one_step_from_inside()  # @deeper
    parameter_groups()
    when_states_are_allocated()
    when_others_allocate()  # @deeper
    states_of_a_real_step()  # @deeper
    optimizer_states()  # @deeper
    what_zero_grad_frees()
    zeros_are_not_nothing()  # @deeper
    what_a_step_costs()
    three_ways_to_take_a_step()  # @deeper
    optimizer_flops()  # @deeper
    orthogonal_steps()  # @deeper
    text(
        f"**In three lines.**\n\n"
        f"1. Optimizers differ in what they remember: 0, 1 or 2 numbers for each parameter; AdamW's two are "
        f"{state_bytes:.0f} bytes in fp32.\n"
        f"2. Most allocate their state in the first step: that the first forward and backward pass fit into memory "
        f"proves little.\n"
        f"3. A step multiplies no matrices: it moves {moved_bytes:.0f} bytes a parameter at best, and takes at least "
        f"as long as memory needs for that."
    )


def what_adamw_costs() -> tuple[float, float]:
    """Bytes of state, and bytes moved by one fused step, for each parameter in fp32"""
    w = nn.Parameter(torch.randn(2**16))
    w.grad = torch.randn_like(w)
    optimizer = optim.AdamW([w], fused=True)
    optimizer.step()
    state_bytes = sum(state.nbytes for state in optimizer.state[w].values() if state.dim() > 0)
    return state_bytes / w.numel(), count(optimizer.step).bytes_moved / w.numel()


def gradient_descent() -> None:
    """SGD and momentum"""
    text("Each optimizer here is a `torch.optim.Optimizer`, written out. SGD steps against the gradient:")
    w = nn.Parameter(torch.tensor([1.0, -2.0]))
    w.grad = torch.tensor([10.0, 0.5])
    optimizer = SGD([w], lr=0.02)
    optimizer.step()  # @inspect w
    assert torch.allclose(w, torch.tensor([1 - 0.02 * 10, -2 - 0.02 * 0.5]))
    text("Momentum steps along a decayed *sum* of gradients. With the same gradient it grows towards a limit:")
    ask(
        "With $\\mu = 0.95$ and a gradient that stays the same, how many times the gradient does the sum become?",
        1 / (1 - 0.95),
        hint="A geometric series: $1 + \\mu + \\mu^2 + \\dots$",
        slips={0.95 / (1 - 0.95): "The newest gradient counts in full: the series begins with 1."},
    )
    start, optimizer = w.detach().clone(), Momentum([w], lr=0.03, momentum=0.9)
    w.grad = torch.ones(2)
    for _ in range(10):
        optimizer.step()  # @stepover
    decayed_sum = optimizer.state[w]["sum"]  # @inspect decayed_sum
    assert torch.allclose(decayed_sum, torch.full((2,), (1 - 0.9**10) / (1 - 0.9)))
    sums = [(1 - 0.9**t) / (1 - 0.9) for t in range(1, 11)]  # after each step
    assert torch.allclose(start - w, torch.full((2,), 0.03 * sum(sums)))


def momentum_as_an_average() -> None:
    """Momentum as an average"""
    text(
        f"The sum's limit is $1/(1 - \\mu)$, {1 / (1 - 0.9):.0f} times the gradient with the usual $\\mu = 0.9$. "
        f"Papers often define momentum as an *average*, $m \\leftarrow \\mu m + (1 - \\mu) g$. That is the same path "
        f"with the learning rate $\\eta/(1 - \\mu)$, so a learning rate can't be carried over from one definition to "
        f"the other:"
    )
    average, by_average = 0.0, 0.0
    v = nn.Parameter(torch.zeros(1))
    by_sum = Momentum([v], lr=0.01, momentum=0.9)  # @stepover
    for g in torch.randn(10):
        v.grad = g.view(1)
        by_sum.step()  # @stepover
        average = 0.9 * average + (1 - 0.9) * g.item()
        by_average -= 0.01 / (1 - 0.9) * average
    assert abs(v.item() - by_average) < 1e-6 < abs(v.item())


def adapting_to_each_parameter() -> None:
    """AdaGrad and RMSProp"""
    text(
        "Gradients of different parameters differ by orders of magnitude. AdaGrad divides each by the root of the sum "
        "of its own squares."
    )
    ask(
        "Gradients of 100, −1 and 0.0001, a learning rate of 0.02. How far does AdaGrad's first step move the weight "
        "whose gradient is 100?",
        0.02 * 100 / math.sqrt(100**2),
        hint="After one step the sum of squares is $g^2$.",
        slips={100 * 0.02: "That is SGD's step.", 0.02 / 100: "It divides by $|g|$, but it multiplies by $g$ as well."},
    )
    w = nn.Parameter(torch.zeros(3))
    w.grad = torch.tensor([100.0, -1.0, 1e-4])
    optimizer = AdaGrad([w], lr=0.02)
    optimizer.step()  # @inspect w
    assert torch.allclose(w, torch.tensor([-0.02, 0.02, -0.02]))
    for _ in range(3):
        optimizer.step()  # @stepover
    assert optimizer.state[w]["sum"][0] == 4 * 100**2
    text(
        "A sum of squares only grows, so AdaGrad's steps only shrink. RMSProp keeps an *average* in its place, and so "
        "follows the gradients of the last $1/(1 - \\alpha)$ steps."
    )
    link(**REFERENCES["adagrad"])
    link(**REFERENCES["rmsprop"])


def adam_and_adamw() -> None:
    """Adam and AdamW"""
    text(
        "Adam takes both ideas: $m$, an average of gradients, for the direction, and $v$, an average of their "
        "squares, for the scale. Both start at 0 and keep a share $\\beta$ of themselves in each step, so after $t$ "
        "equal gradients they hold a share of $1 - \\beta^t$ of what they would hold in the end. Adam divides by that "
        "(**bias correction**), so its first step, too, is one learning rate long:"
    )
    w = nn.Parameter(torch.tensor([1.0, -1.0]))
    w.grad = torch.tensor([100.0, 1e-3])
    optimizer = Adam([w], lr=0.01)
    optimizer.step()  # @inspect w, optimizer.state[w]
    assert torch.allclose(w, torch.tensor([1 - 0.01, -1 - 0.01]))
    found = {name: (0.0, optimizer.state[w][name][0].item()) for name in ("m", "v")}  # @hide
    found |= {"g": (w.grad[0].item(), w.grad[0].item()), "w": (1.0, w[0].item())}  # @hide
    plot(draw_adam(found, w.element_size()), title="Adam's first step, for the first of the two weights")  # @hide
    text("AdamW does the same, and shrinks each weight by the share $\\eta\\lambda$ in each step:")
    decayed = nn.Parameter(torch.tensor([1.0, -1.0]))
    decayed.grad = w.grad
    AdamW([decayed], lr=0.01, weight_decay=0.1).step()  # @inspect decayed
    assert torch.allclose(decayed, (1 - 0.01 * 0.1) * torch.tensor([1.0, -1.0]) - 0.01)
    link(**REFERENCES["adam"])
    link(**REFERENCES["adamw"])


def steps_under_a_constant_gradient() -> None:
    """How far each one goes"""
    text(
        "One parameter, a gradient that is always 3, and the length of each step in learning rates: what each "
        "optimizer remembers, and which of them care how large the gradient is."
    )
    family = {"momentum": Momentum, "AdaGrad": AdaGrad, "RMSProp": RMSProp, "Adam": Adam, "uncorrected": Uncorrected}
    paths = {name: step_lengths(optimizer, steps=50) for name, optimizer in family.items()}  # @stepover
    plot(paths, x=list(range(1, 51)), x_label="step", y_label="length / learning rate", y_scale="log")  # @hide
    t = torch.arange(1, 51, dtype=torch.float64)
    expected = {
        "momentum": 3 * (1 - 0.9**t) / (1 - 0.9),
        "AdaGrad": 1 / t.sqrt(),
        "RMSProp": 1 / (1 - 0.99**t).sqrt(),
        "Adam": torch.ones(50),
        "uncorrected": (1 - 0.9**t) / (1 - 0.999**t).sqrt(),
    }
    ratios = torch.stack([torch.tensor(paths[name], dtype=t.dtype) / expected[name] for name in paths])
    worst = (ratios - 1).abs().max().item()  # @inspect worst
    assert worst < 1e-6
    first = {name: lengths[0] for name, lengths in paths.items()}  # @inspect first
    longest = max(paths["uncorrected"])  # @inspect longest
    assert longest == max(paths["uncorrected"][5:30]) > 2 * first["uncorrected"]  # not at the start
    text(
        f"Momentum's steps are in proportion to the gradient; the others' do not depend on it. AdaGrad slows down for "
        f"good. RMSProp starts with a step of {first['RMSProp']:.0f} learning rates, because its average starts at 0. "
        f"Adam's correction makes every step {first['Adam']:.0f}; without it the first is {first['uncorrected']:.2f}, "
        f"and the longest, some steps later, {longest:.1f}. Bias correction, and a warm-up of the learning rate, guard "
        f"a run's *start*. They do not make the rest safe: large runs have loss spikes in mid-training, too; PaLM's "
        f"authors report about twenty, at irregular intervals."
    )
    link(**REFERENCES["palm"])


def step_lengths(optimizer_class: type[optim.Optimizer], steps: int) -> list[float]:
    """How far one parameter moves in each step, over the learning rate, with a gradient that is always 3"""
    w = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    w.grad = torch.full_like(w, 3.0)
    optimizer = optimizer_class([w], lr=0.01)
    lengths = []
    for _ in range(steps):
        before = w.item()
        optimizer.step()
        lengths.append((before - w.item()) / 0.01)
    return lengths


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
    text("The same ten steps from the same start, by the code above and by `torch.optim`. In fp32, and in fp64:")
    pairs = [
        (SGD, optim.SGD, {"lr": 0.1}),
        (Momentum, optim.SGD, {"lr": 0.1, "momentum": 0.8}),
        (AdaGrad, optim.Adagrad, {"lr": 0.1}),
        (RMSProp, optim.RMSprop, {"lr": 0.01, "alpha": 0.9}),
        (Adam, optim.Adam, {"lr": 0.01, "betas": (0.8, 0.99)}),
        (AdamW, optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    ]
    start = ten_steps(SGD, lr=0.0)  # @stepover
    rows = []
    for ours, theirs, options in pairs:
        found, expected = ten_steps(ours, **options), ten_steps(theirs, **options)  # @stepover
        single, moved = farthest(found, expected), farthest(found, start)  # @stepover
        found, expected = (ten_steps(which, torch.float64, **options) for which in (ours, theirs))  # @stepover
        double = farthest(found, expected)  # @stepover
        assert single < 1e-6 < 1e-2 < moved
        assert double < 1e-13
        rows.append((ours.__name__, moved, single, double))
    table(rows, ["optimizer", "largest way gone", "difference, fp32", "difference, fp64"])  # @hide
    text(
        "What remains is rounding: the order of the operations differs, so they are equal to a few units in the last "
        "place, not bit for bit, and in fp64 the differences shrink as the unit does. A wrong formula's would not."
    )


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
    text("Three details that are easy to miss. How far ten steps end from torch's, where each is got wrong:")
    lr, decay = 0.02, 0.1
    rmsprop, adam = ten_steps(optim.RMSprop, lr=lr), ten_steps(optim.Adam, lr=lr)  # @stepover
    coupled, decoupled = (ten_steps(which, lr=lr, weight_decay=decay) for which in (optim.Adam, optim.AdamW))
    off = {
        "ε inside the root": farthest(ten_steps(EpsilonInside, lr=lr), rmsprop),
        "no bias correction": farthest(ten_steps(Uncorrected, lr=lr), adam),
        "decay added to the gradient": farthest(coupled, decoupled),
    }  # @inspect off @stepover
    assert min(off.values()) > 1e-3  # a thousand times what rounding does
    no_epsilon = [ten_steps(which, lr=lr, eps=0) for which in (EpsilonInside, optim.RMSprop)]  # @stepover
    assert farthest(*no_epsilon) < 1e-6  # nothing else differs
    text("torch adds ε *outside* the root. Inside, $10^{-8}$ acts as its root, $10^{-4}$. RMSProp, a gradient of 1e-4:")
    steps = {}
    for optimizer_class in (RMSProp, EpsilonInside):
        w = nn.Parameter(torch.zeros(1))
        w.grad = torch.full((1,), 1e-4)
        optimizer_class([w], lr=lr).step()  # @stepover
        steps[optimizer_class.__name__] = -w.item() / lr  # in learning rates @inspect steps
    assert 0.09 < steps["EpsilonInside"] / steps["RMSProp"] < 0.11
    assert abs(steps["RMSProp"] - 1 / math.sqrt(1 - 0.99)) < 0.1
    text(
        f"Its first step is {steps['RMSProp']:.1f} learning rates long with ε outside, {steps['EpsilonInside']:.1f} "
        f"with ε inside. And the W of AdamW: decay is a step of its own. Added to the gradient it would be divided by "
        f"$\\sqrt v$ too, so that weights with large gradients would hardly decay."
    )
    ask(
        "Find the error in this update of Adam, after `t` steps:\n\n"
        "```python\nm = b1 * m + (1 - b1) * g\nv = b2 * v + (1 - b2) * g**2\nw -= lr * m / (v.sqrt() + eps)\n```",
        "m and v are not corrected for their start at 0",
        choices=[
            "ε belongs inside the root",
            "m and v are not corrected for their start at 0",
            "v must be a sum, not an average",
        ],
        why=f"Without the correction the first step is {step_lengths(Uncorrected, 1)[0]:.2f} learning rates long.",
        slips={
            "ε belongs inside the root": "Adam and torch add it outside.",
            "v must be a sum, not an average": "That would be AdaGrad.",
        },
    )


def parameter_groups() -> None:
    """Parameter groups"""
    text(
        "Weight decay is meant for matrices; norm layers are usually left out of it, here embedding and head, too. A "
        "**parameter group** is a list of parameters with options of its own. The language model's, one step with "
        "gradients of zero:"
    )
    model = LanguageModel(Shape())  # @stepover
    optimizer = optim.AdamW(groups_of(model), lr=0.01)
    before = {name: w.detach().clone() for name, w in model.named_parameters()}
    for w in model.parameters():
        w.grad = torch.zeros_like(w)
    optimizer.step()
    kept = [name for name, w in model.named_parameters() if torch.equal(w, before[name])]  # @inspect kept
    assert all(name.startswith(("embedding", "head", "norm")) or ".norm" in name for name in kept)  # @hide
    assert len(kept) == 2 + 2 * model.shape.layers + 1  # @hide
    assert torch.allclose(model.layers[0].up.weight, before["layers.0.up.weight"] * (1 - 0.01 * 0.1), rtol=1e-5)
    ask(
        "Find the error: to keep norms from decaying, someone writes "
        "`optim.AdamW([w for w in model.parameters() if w.ndim == 2], weight_decay=0.1)`.",
        "the norms are not trained",
        choices=["the norms are not trained", "the norms decay all the same", "the head is left out"],
        why="An optimizer changes what it was given. The norms belong into a second group, with `weight_decay` 0.",
        slips={
            "the norms decay all the same": "The optimizer does not know of them.",
            "the head is left out": "It is a matrix.",
        },
    )
    ask(
        "With $\\eta = 0.003$ and $\\lambda = 0.1$, what share of a weight is left after 1000 steps in which its "
        "gradient is zero?",
        (1 - 3e-3 * 0.1) ** 1000,
        hint="Each step multiplies by $1 - \\eta\\lambda$.",
        slips={(1 - 0.1) ** 1000: "$\\lambda$ alone is not the share: the learning rate multiplies it."},
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


def one_step_from_inside() -> None:
    """One step from inside"""
    text("AdaGrad once more, in the deep linear model of section 8: what one step reads, and what it changes.")
    model = DeepLinear(dim=4, num_layers=2)  # @stepover
    optimizer = AdaGrad(model.parameters(), lr=0.01)  # @stepover
    head = model.head.weight  # (4, 1)
    before = [p.detach().clone() for p in model.parameters()]
    sums = [optimizer.state[p]["sum"] for p in model.parameters()]
    assert [s.shape for s in sums] == [(4, 4), (4, 4), head.shape]
    x = torch.randn(2, 4)  # (B, D) @stepover
    model(x).square().mean().backward()  # @inspect head, head.grad, optimizer.state[head]["sum"] @stepover
    assert {s.abs().max().item() for s in sums} == {0.0}
    optimizer.step()  # @inspect head, head.grad, optimizer.state[head]["sum"] @stepover
    text("The state has become the gradient's square, and every parameter has moved by the learning rate, up or down:")
    assert all(torch.equal(s, p.grad.square()) for s, p in zip(sums, model.parameters(), strict=True))
    ways = torch.cat([(p - old).flatten() for p, old in zip(model.parameters(), before, strict=True)])
    assert torch.allclose(ways.abs(), torch.full((36,), 0.01), rtol=1e-3)
    against = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert torch.equal(ways.sign(), -against.sign())
    parameter_bytes = sum(p.nbytes for p in model.parameters())  # @inspect parameter_bytes [B]
    state_bytes = sum(t.nbytes for p in model.parameters() for t in optimizer.state[p].values())
    assert state_bytes == parameter_bytes  # @inspect state_bytes [B]
    text("As many bytes again as the parameters. (torch's own AdaGrad also keeps a `step` counter for each tensor.)")


def when_states_are_allocated() -> None:
    """When the state is allocated"""
    ask(
        "Adam has been made, and no step taken. How many numbers of state does it hold for each parameter?",
        state_numbers(optim.Adam([nn.Parameter(torch.randn(10))])),
        within=0,
        slips={2: "After its first step. Before it, there is nothing."},
    )
    text("Most optimizers allocate their state *in the first step*. The language model's first:")
    model = LanguageModel(Shape())  # @stepover
    optimizer = optim.AdamW(groups_of(model))
    train, _ = lecture_tokens()  # @stepover
    inputs, targets = draw_batch(train, 8, 64, torch.Generator().manual_seed(0))  # @stepover
    loss_of(model, inputs, targets).backward()  # @stepover
    before = held_for_training(model, optimizer)  # @inspect before [B]
    optimizer.step()
    after = held_for_training(model, optimizer)  # @inspect after [B] @stepover
    assert (before["optimizer states"], after["optimizer states"]) == (0, 8 * 459_392)
    predicted = bytes_by_part(model.shape, batch=8)  # @stepover @hide
    assert all(predicted[part] == size for part, size in after.items())  # @hide
    bars = {"predicted": predicted, "before step 1": before, "after step 1": after}  # @hide
    memory_bars(bars, "The language model, measured so far")  # @stepover @hide
    text(
        "That the first forward and backward pass fit into memory proves little, then. Activations and logits are "
        "measured in section 11."
    )


def when_others_allocate() -> None:
    """When the others allocate"""
    text("In numbers per parameter:")
    rows = []
    for make in (optim.SGD, optim.Adagrad, optim.RMSprop, optim.Adam, optim.AdamW):
        w = nn.Parameter(torch.randn(1000))
        w.grad = torch.randn(1000)
        optimizer = make([w])
        held = [state_numbers(optimizer)]  # @stepover
        optimizer.step()
        held.append(state_numbers(optimizer))  # @stepover
        rows.append((make.__name__, held[0] / 1000, held[1] / 1000, ", ".join(optimizer.state[w])))
    table(rows, ["optimizer", "at construction", "after the first step", "state"])  # @hide
    assert [(before, after) for _, before, after, _ in rows] == [(0, 0), (1, 1), (0, 1), (0, 2), (0, 2)]
    text("AdaGrad alone allocates when it is made. Section 13 says which step has the highest peak.")


def state_numbers(optimizer: optim.Optimizer) -> int:
    """How many numbers an optimizer's state holds, without the step counters"""
    tensors = [t for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t)]
    return sum(t.numel() for t in tensors if t.dim() > 0)


def three_ways_to_take_a_step() -> None:
    """Three ways to take the same step"""
    text(
        "torch has AdamW three times. One by one, as above: a few operations for each tensor. **foreach**: each "
        "operation once, for all tensors together. **fused**: everything in one kernel. They do the "
        "same arithmetic, and differ in what they move and in what they hold meanwhile:"
    )
    width = sizes().optimizer_width  # @inspect width @stepover
    weights = [nn.Parameter(torch.randn(width, width, device=device())) for _ in range(8)]  # @stepover
    for w in weights:
        w.grad = torch.randn_like(w)
    parameters = sum(w.numel() for w in weights)
    ways = {"one by one": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    rows, extra, moved, samples_s = [], {}, {}, {}
    for name, way in ways.items():
        optimizer = optim.AdamW(weights, lr=1e-6, **way)
        optimizer.step()
        step = count(optimizer.step)
        held_bytes = 4 * 4 * parameters  # parameters, gradients, two states
        extra[name] = round((step.peak_bytes - held_bytes) / parameters, 2)  # @inspect extra
        moved[name] = round(step.bytes_moved / parameters, 2)  # @inspect moved
        timing = measure(optimizer.step, repeats=5, min_seconds=0.03, max_seconds=0.08)
        samples_s[name] = timing.samples_s
        rows.append((name, sum(step.operators.values()), extra[name], moved[name], 1e3 * timing.seconds))
    columns = ["AdamW", "operators", "extra bytes per parameter", "bytes moved per parameter", "ms"]  # @hide
    table(rows, columns, title=f"{parameters / 1e6:.1f} million parameters in 8 tensors")  # @hide
    assert round(moved["fused"]) == 7 * 4  # reads w, g, m, v; writes w, m, v
    assert 2 * moved["fused"] < moved["one by one"]
    assert extra["fused"] < 0.01 < extra["one by one"] < extra["foreach"]
    fused_is_faster(samples_s["one by one"], samples_s["fused"])
    what_a_step_holds_meanwhile()
    extra_according_to_the_gpu(weights, extra["foreach"])


def fused_is_faster(one_by_one_s: Sequence[float], fused_s: Sequence[float]) -> None:
    """What fusing brings here"""
    gains = [slow / fast for slow, fast in zip(one_by_one_s, fused_s, strict=False)]  # one a sample
    gain = statistics.median(gains)
    decide(
        gains,
        than=(0.9, 1.1),
        above=f"On this machine *fused* takes the step {gain:.1f} times as fast as *one by one*.",
        below=f"On this machine *fused* is slower: {gain:.2f} of the speed of *one by one*, for fewer bytes.",
        undecided="On this machine *fused* and *one by one* take about the same time, as far as the samples agree.",
    )


def what_a_step_holds_meanwhile() -> None:
    """What a step holds meanwhile"""
    text("How much is held *extra* during a step depends on how the same parameters are divided into tensors:")
    rows, one_by_one = [], {}
    for tensors in (1, 8, 64):
        weights = [nn.Parameter(torch.randn(2**16 // tensors)) for _ in range(tensors)]
        for w in weights:
            w.grad = torch.randn_like(w)
        extra = [extra_of_a_step(weights, foreach=foreach) for foreach in (False, True)]  # @stepover
        one_by_one[tensors] = extra[0]
        rows.append((tensors, *extra))
        assert 4 <= extra[1] < 4.1  # foreach: one more copy of the model
    table(rows, ["tensors", "extra bytes per parameter, one by one", "foreach"])  # @hide
    assert one_by_one[1] > 4 > one_by_one[8] > 7 * one_by_one[64]  # @inspect one_by_one
    text(
        f"One by one needs room for intermediate results of its *largest tensor*: {one_by_one[1]:.0f} bytes per "
        f"parameter where one tensor holds all, {one_by_one[64]:.2f} where there are 64 (a result of the tensor before "
        f"is still there). *foreach*, torch's choice on "
        f"a GPU, holds an intermediate result of *all* tensors at once: one more copy of the model, for the moment of "
        f"the step. A run that has no room for it ends in its first step; `fused=True` or `foreach=False` is the way "
        f"out."
    )


def extra_of_a_step(weights: list[nn.Parameter], *, foreach: bool) -> float:
    """The most bytes that a step of AdamW adds to parameters, gradients and states, per parameter"""
    optimizer = optim.AdamW(weights, foreach=foreach)
    optimizer.step()
    parameters = sum(w.numel() for w in weights)
    return round(count(optimizer.step).peak_bytes / parameters - 16, 2)


def orthogonal_steps() -> None:
    """Muon: steps whose directions are all equally long"""
    text(
        "**Muon** (2024) is for matrices only: momentum, and then the update is made nearly *orthogonal*, so that all "
        "of its singular values are near 1. Five rounds of a polynomial do it, with matrix multiplications alone:"
    )
    momentum = torch.randn(64, 4) @ torch.randn(4, 64) + 0.1 * torch.randn(64, 64)  # a few directions dominate
    before, after = (torch.linalg.svdvals(m) for m in (momentum, orthogonalized(momentum)))  # @stepover
    assert before[0] / before[32] > 20  # @inspect before
    assert after.max() < 1.3  # @inspect after
    assert after[:32].min() > 0.5
    counted = count(partial(orthogonalized, momentum)).flops_by_operator["aten.mm"]  # @inspect counted [FLOP]
    assert counted == 5 * 3 * 2 * 64**3
    text(
        f"Muon keeps one number per parameter, AdamW two. Its price is FLOPs: 5 rounds of 3 products are "
        f"${counted / 64**3:.0f}D$ FLOPs for each of the $D^2$ parameters of a square matrix, beside 6 for each token "
        f"of the batch: a share of $5D$ over the batch's tokens. Embeddings, norms and the head are left to AdamW."
    )
    if hasattr(optim, "Muon"):
        weight = nn.Parameter(torch.randn(64, 64))
        weight.grad = momentum
        optimizer = optim.Muon([weight])
        optimizer.step()
        assert state_numbers(optimizer) == weight.numel()  # @stepover
    link(**REFERENCES["muon"])


def orthogonalized(x: Tensor) -> Tensor:
    """The nearest matrix with all singular values near 1: five rounds of Newton and Schulz's iteration"""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = x / x.norm()
    for _ in range(5):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x


def extra_according_to_the_gpu(weights: list[nn.Parameter], counted: float) -> None:
    """The same extra, according to the GPU"""
    if device() != "cuda":
        text("The peak that the GPU's allocator saw: not run, no CUDA device.")
        measured = None  # @inspect measured
        return
    optimizer = optim.AdamW(weights, lr=1e-6, foreach=True)
    optimizer.step()
    let_autograd_finish()  # @stepover
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    optimizer.step()
    peak_bytes = torch.cuda.max_memory_allocated() - before  # @inspect peak_bytes [B]
    measured = peak_bytes / sum(w.numel() for w in weights)  # bytes per parameter @inspect measured
    assert 0.7 < measured / counted < 1.3  # its kernels may need some room of their own
    text(f"The GPU's allocator saw {measured:.2f} bytes per parameter come and go; {counted:.2f} were counted.")


def what_zero_grad_frees() -> None:
    """What zero_grad frees"""
    ask(
        "`backward` adds to `.grad`, so `optimizer.zero_grad()` clears it between steps. "
        "What does a weight's `w.grad` hold then?",
        "nothing: it is None",
        choices=["zeros", "nothing: it is None", "what it held before"],
        why="`set_to_none=False` would write zeros, and keep the memory.",
        slips={
            "zeros": "That was the default before torch 2.0. It keeps the memory.",
            "what it held before": "Then the next gradient would be added to it.",
        },
    )
    text(
        "`zero_grad()` does not write zeros: by "
        "default it drops the tensors (`set_to_none=True`), and their memory is free until the next backward pass. "
        "Weak references, which keep nothing alive, show that they are gone:"
    )
    model = LanguageModel(Shape())  # @stepover
    optimizer = optim.AdamW(model.parameters())
    model(torch.zeros(1, 64, dtype=torch.long)).sum().backward()  # @stepover
    gradient_bytes = sum(w.grad.nbytes for w in model.parameters())  # @inspect gradient_bytes [B]
    watched = [(weakref.ref(w.grad), w.grad.nbytes) for w in model.parameters()]
    optimizer.zero_grad()
    freed_bytes = sum(size for alive, size in watched if alive() is None)  # @inspect freed_bytes [B]
    assert freed_bytes == gradient_bytes == 4 * 459_392


def zeros_are_not_nothing() -> None:
    """Zero is not the same as none"""
    text(
        "A parameter whose gradient is `None` is skipped by the step. One whose gradient is *zero* is not: it decays, "
        "and where there is momentum it keeps moving."
    )
    model = DeepLinear(256, 4).to(device())  # @stepover
    optimizer = optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    what_the_allocator_gets_back(model, optimizer)
    before = model.head.weight.detach().clone()
    optimizer.step()
    assert torch.equal(model.head.weight, before)
    assert len(optimizer.state) == 0  # nothing was even allocated
    model.head.weight.grad = torch.zeros_like(before)
    optimizer.step()
    assert torch.allclose(model.head.weight, before * (1 - 0.01 * 0.1))
    optimizer.zero_grad(set_to_none=False)
    held_bytes = model.head.weight.grad.nbytes  # @inspect held_bytes [B]
    assert held_bytes == before.nbytes
    assert not torch.equal(model.head.weight, before)


def what_the_allocator_gets_back(model: DeepLinear, optimizer: optim.Optimizer) -> None:
    """What the GPU's allocator gets back"""
    if device() != "cuda":
        text("What the GPU's allocator says of cleared gradients: not run, no CUDA device.")
        return
    model(torch.randn(8, 256, device="cuda")).square().mean().backward()  # @stepover
    gradient_bytes = sum(w.grad.nbytes for w in model.parameters())  # @inspect gradient_bytes [B]
    let_autograd_finish()  # @stepover
    allocated = torch.cuda.memory_allocated()
    optimizer.zero_grad()
    returned_bytes = allocated - torch.cuda.memory_allocated()  # @inspect returned_bytes [B]
    assert returned_bytes == gradient_bytes


def what_a_step_costs() -> None:
    """What a step costs"""
    text(
        "A step does a few operations on each number that it reads, so it waits for memory (section 6). At best it "
        "reads the weight, its gradient and both states once, and writes weight and states once. torch's `fused` "
        "AdamW, one kernel, does just that:"
    )
    model = LanguageModel(Shape())  # @stepover
    for w in model.parameters():
        w.grad = torch.zeros_like(w)
    optimizer = optim.AdamW(model.parameters(), fused=True)
    optimizer.step()
    moved = count(optimizer.step).bytes_moved / 459_392  # bytes per parameter @inspect moved
    assert abs(moved / (4 * 4 + 3 * 4) - 1) < 1e-3
    ask(
        "At least how many milliseconds does such a step take for 1 billion parameters in fp32, on an H100 with "
        f"{H100_BANDWIDTH / 1e12} TB/s?",
        1e3 * moved * 1e9 / H100_BANDWIDTH,
        unit="ms",
        within=0.03,
        slips={
            1e3 * 16 * 1e9 / H100_BANDWIDTH: "It reads 16 bytes, and writes 12 of them again.",
            1e3 * 8 * 1e9 / H100_BANDWIDTH: "Those are the bytes of the states alone, read once.",
        },
    )
    step_s, token_s = moved / H100_BANDWIDTH, 6 / (H100_SPARSE_BF16 / 2)  # for each parameter
    tokens = step_s / token_s  # whose training takes as long as the step @inspect tokens
    assert round(tokens, -2) == 1400
    text(
        f"At the peaks of an H100 that is as long as forward and backward pass of {tokens:.0f} tokens, for a model of "
        f"any size. With a batch of a million tokens that is nothing; with small batches it is not."
    )


def optimizer_flops() -> None:
    """The optimizer's share"""
    parameters = 2**15
    weight = nn.Parameter(torch.randn(parameters))
    weight.grad = torch.randn(parameters)
    optimizer = optim.AdamW([weight], foreach=False)  # one operation after another
    step = count(optimizer.step)
    flops_per_parameter = step.flops / parameters  # @inspect flops_per_parameter step.uncounted
    tokens_per_step = 16e6  # of Llama 3 405B
    share = flops_per_parameter / (6 * tokens_per_step)  # @inspect share
    assert 0 < share < 1e-6
    text(
        f"AdamW takes {flops_per_parameter:.0f} FLOPs per parameter and step. The 6 is per parameter and *token*, and "
        f"a step of Llama 3 405B has {tokens_per_step / 1e6:.0f} million tokens. The optimizer's share of the FLOPs is "
        f"one part in {1 / share / 1e6:.1f} million."
    )


def states_of_a_real_step() -> None:
    """The same bytes, in real tensors"""
    text(
        "Section 1's table of bytes is arithmetic. Here a layer takes a step with PyTorch's own AdamW, in fp32 and in "
        "bf16, and what is in memory afterwards is added up:"
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
        "The 4 bytes more are a `step` counter, one per tensor. On bf16 parameters AdamW keeps bf16 averages: half the "
        "memory, and fewer digits in everything. Mixed precision keeps them in fp32 (section 12)."
    )
    link(**REFERENCES["adamw"])


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
        f"Adafactor does not drop the second average: it keeps one number per row and one per column of it, "
        f"{per_parameter['Adafactor']:.2f} bytes per parameter here, and less the larger the matrix. "
        f"Lion, which PyTorch does not have, keeps one average: 4 bytes."
    )
    ask(
        "Momentum, everything in fp32: how many billions of parameters fit into 8 H100s?",
        8 * H100_MEMORY / (4 + 4 + per_parameter["momentum"]) / 1e9,
        unit="billion parameters",
        slips={8 * H100_MEMORY / 16 / 1e9: "That is AdamW, with two averages. Momentum keeps one."},
    )
    link(**REFERENCES["adafactor"])
    link(**REFERENCES["lion"])


# ---------------------------------------------------------------------------------------------------------
# 11 Training loop


def training_loop() -> None:
    """Training loop"""
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    _, fast, _ = fit(num_layers=0, lr=0.1)  # @stepover @hide
    text(
        f"After this section you can write a training loop, know what its first loss must be, and find the mistakes "
        f"that raise no error. The key figure: on a task whose answer is known, {len(fast) - 1} steps take the loss "
        f"from **{fast[0]:.0f}** to **{fast[-1]:.0e}**."
    )
    note(
        "Ten minutes. Write the loop with them, then break it: a missing line, a shape that broadcasts. Ask for the "
        "first loss of a language model. Let the class read aloud what the model has written."
    )
    the_task()
    two_learning_rates()
    is_the_training_loss_flattering()  # @deeper
    same_rates_with_hidden_layers()  # @deeper
    what_a_real_loop_adds()
    arguments_that_nobody_reads()  # @deeper
    loss_that_broadcasts()
    cost_of_looking()  # @deeper
    the_language_model_learns()
    speed_of_the_loop()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. Batch, loss, `zero_grad`, `backward`, `step`; a real loop adds schedule and clipping.\n"
        "2. Know the loss of a model that knows nothing, claim every shape, and see a change for every argument that "
        "you change.\n"
        "3. Report tokens per second and MFU: $6N$ FLOPs a token over the time, over the peak."
    )


def the_task() -> None:
    """A task whose answer is known"""
    text(
        "Each $x$ is $D$ random numbers, and $y = x \\cdot (0, 1, \\dots, D - 1)$. A model without hidden layers is "
        "one vector; trained, it should be that vector. Before training, how bad is it?"
    )
    x, y = linear_batch(4096, 16)  # @inspect x.shape y.shape
    model = DeepLinear(16, 0)  # a head only @stepover
    loss = nn.functional.mse_loss(model(x), y).item()  # the mean squared error @inspect loss @stepover
    assert [w.shape for w in model.parameters()] == [(16, 1)]  # @hide
    difference = torch.arange(16.0) - model.head.weight.detach().squeeze()
    expected = difference.square().sum().item()  # the mean over all x: each has variance 1 @inspect expected
    assert abs(loss / expected - 1) < 0.1
    saying_zero = y.square().mean().item()  # the loss of predicting 0 @hide
    assert abs(saying_zero / 1240 - 1) < 0.1  # 0² + 1² + … + 15² @hide
    text(
        f"Always saying 0 would, for the same reason, lose $0^2 + 1^2 + \\dots + 15^2 = "
        f"{sum(d**2 for d in range(16))}$; the random vector loses {loss:.0f}. A first loss that is far from what a "
        f"model without knowledge must lose is a mistake."
    )
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
    ask(
        "The loss is the mean of $(e \\cdot x)^2$, where $e$ is how far the weights are off; its gradient, over all "
        "$x$, is $2e$. With a learning rate of 0.1, by which factor would a step on it multiply the *loss*?",
        (1 - 2 * 0.1) ** 2,
        hint="A step multiplies the error of each weight by $1 - 2 \\cdot lr$.",
        slips={
            1 - 2 * 0.1: "That is the factor of the weights' error. The loss is its square.",
            (1 - 0.1) ** 2: "The gradient of $e^2$ is $2e$.",
        },
    )
    text("Sixty steps with each rate. Their loss is taken on a fixed batch that is never trained on, to compare them:")
    _, slow, _ = fit(num_layers=0, lr=0.01)  # @stepover
    fast_model, fast, _ = fit(num_layers=0, lr=0.1)  # @stepover
    curves = {"lr = 0.01": slow, "lr = 0.1": fast}  # @hide
    plot(curves, x=list(range(len(slow))), x_label="steps", y_label="loss, fixed batch", y_scale="log")  # @hide
    assert slow[0] == fast[0] and len(slow) - 1 == 60  # the same start, on the same batch @hide
    assert fast[-1] < 1e-4 < 10 < slow[-1] < slow[0] / 2  # @inspect slow[-1] fast[-1]
    found = fast_model.head.weight.detach().squeeze()  # @inspect found
    assert torch.allclose(found, torch.arange(16.0), atol=0.01)
    slow_step, fast_step = ((losses[-1] / losses[0]) ** (1 / 60) for losses in (slow, fast))
    assert abs(slow_step / (1 - 2 * 0.01) ** 2 - 1) < 0.01  # @inspect slow_step
    noise = 4 * 0.1**2 * 17 / 32  # a batch has 32 rows of 16 numbers, and its gradient is not quite 2e @hide
    assert abs(fast_step / ((1 - 2 * 0.1) ** 2 + noise) - 1) < 0.02  # @hide
    text(
        f"The larger rate has found the vector. With the smaller, a step should multiply the loss by "
        f"{(1 - 0.02) ** 2:.4f}, and did by {slow_step:.4f}; with the larger by {(1 - 0.2) ** 2:.2f}, and did by "
        f"{fast_step:.2f}, since the gradient of a batch of 32 is noisy."
    )


def is_the_training_loss_flattering() -> None:
    """Is the training loss flattering?"""
    _, slow, slow_batches = fit(num_layers=0, lr=0.01)  # @stepover
    ratios = [batch / fixed for batch, fixed in zip(slow_batches, slow, strict=False)]
    ratio, spread = statistics.mean(ratios), statistics.stdev(ratios)  # @inspect ratio spread
    assert abs(ratio - 1) < 0.1 < spread
    seen, unseen = losses_after_memorising()  # @inspect seen unseen @stepover
    assert seen < unseen / 10
    text(
        f"Not here: each batch is new, and its loss is taken *before* its step. On average it is {ratio:.2f} times the "
        f"fixed batch's, only noisy (standard deviation {spread:.2f}). It is flattering where data are seen again: "
        f"after 200 steps on *one* batch of 8 rows the loss is {seen:.1g} on that batch and {unseen:.0f} on others."
    )


def losses_after_memorising() -> tuple[float, float]:
    """Train on one batch of 8 rows again and again; the loss on it, and on rows never seen"""
    model = DeepLinear(16, 0)
    optimizer = SGD(model.parameters(), lr=0.05)
    x, y = linear_batch(8, 16)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        new_x, new_y = linear_batch(256, 16)
        return nn.functional.mse_loss(model(x), y).item(), nn.functional.mse_loss(model(new_x), new_y).item()


def same_rates_with_hidden_layers() -> None:
    """The same rates, with hidden layers"""
    text("A learning rate is not a property of a task. The same task, the same rates, and hidden layers in between:")
    ends = {}
    for num_layers in (0, 1, 2):
        ends[num_layers] = {lr: fit(num_layers, lr)[1][-1] for lr in (0.01, 0.1)}  # @inspect ends @stepover
    diverged = {n: [lr for lr, loss in by_rate.items() if not loss < 1e4] for n, by_rate in ends.items()}
    assert diverged == {0: [], 1: [0.1], 2: [0.01, 0.1]}  # @inspect diverged
    assert ends[1][0.01] < ends[0][0.1]
    rows = [(n, *(float(f"{loss:.3g}") for loss in by_rate.values())) for n, by_rate in ends.items()]  # @hide
    table(rows, ["hidden layers", "loss after 60 steps, lr = 0.01", "lr = 0.1"])  # @hide
    text(
        "With one hidden layer only the smaller rate is stable, and it gets further than the larger rate did without: "
        "each factor's gradient is multiplied by the other factor. With two, both runs diverge."
    )


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


def arguments_that_nobody_reads() -> None:
    """Trap: arguments that nobody reads"""
    text(
        "A `fit(num_layers, lr)` that ignores what it was given runs without an error, and its plots look right. "
        "What tells is a claim that results *differ*, and that nothing else makes them differ:"
    )
    base = fit(num_layers=0, lr=0.01)[1]  # @stepover
    assert fit(num_layers=0, lr=0.02)[1] != base  # @stepover
    assert fit(num_layers=1, lr=0.01)[1] != base  # @stepover
    assert fit(num_layers=0, lr=0.01)[1] == base  # to the bit @stepover


def loss_that_broadcasts() -> None:
    """Trap: a loss that broadcasts"""
    text(
        "torch *broadcasts*: it aligns two shapes from the right, and where one has a 1, or nothing, takes that as "
        "often as the other needs."
    )
    ask(
        "Find the error: `loss = mse_loss(prediction, y)` with `prediction.shape == (256, 1)` and `y.shape == (256,)`.",
        "every prediction is compared with every target",
        choices=[
            "nothing: the shapes agree but for a 1",
            "torch raises an error",
            "every prediction is compared with every target",
        ],
        slips={
            "nothing: the shapes agree but for a 1": "Aligned from the right they are (256, 1) and (1, 256).",
            "torch raises an error": "It warns, and computes.",
        },
    )
    x, y = linear_batch(256, 16)
    perfect = x @ torch.arange(16.0).unsqueeze(1)  # (B, 1) @inspect perfect.shape y.shape
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loss = nn.functional.mse_loss(perfect, y).item()  # @inspect loss
    assert "broadcasting" in str(caught[0].message)
    assert (perfect - y).shape == (256, 256)
    assert nn.functional.mse_loss(perfect.squeeze(-1), y).item() < 1e-9
    assert abs(loss / (2 * y.var(correction=0).item()) - 1) < 1e-4  # @hide
    text(
        f"Every prediction is perfect, and the loss is {loss:.0f}, twice what always saying 0 loses. torch warns, "
        f"once. So claim the shape:"
    )
    assert perfect.squeeze(-1).shape == y.shape != perfect.shape


def cost_of_looking() -> None:
    """The cost of looking"""
    text(
        "`loss.item()` makes a Python number of the loss. On a GPU the loop runs ahead, queueing work; to return a "
        "number it has to wait until the queue is empty. On a CPU nothing is queued, and there is nothing to wait for."
    )
    if device() != "cuda":
        text("What it costs on a GPU: not run, no CUDA device.")
        return
    x = torch.randn(64, 64, device="cuda")
    model = DeepLinear(64, 4).to("cuda")  # @stepover

    def steps(*, looking: bool) -> None:
        for _ in range(20):
            loss = model(x).square().mean()
            if looking:
                loss.item()

    silent, looking = (  # @stepover
        measure(partial(steps, looking=look), repeats=10, min_seconds=0.05) for look in (False, True)
    )
    ratios = [long / short for long, short in zip(looking.samples_s, silent.samples_s, strict=False)]
    decide(
        ratios,
        than=1.1,
        above=f"Twenty small forward passes with an `item()` each take {statistics.median(ratios):.1f} times as long.",
        below="Twenty small forward passes with an `item()` each take no longer here.",
        undecided="Whether twenty small forward passes take longer with an `item()` each, the samples do not agree.",
    )


def speed_of_the_loop() -> None:
    """Steps per second, FLOP/s, MFU"""
    text(
        "One step from zero_grad to optimizer, of the toy above and of a deep linear model of a size that suits this "
        "machine: 6 FLOPs per parameter and row, over the time, over the peak."
    )
    dtype = torch.bfloat16 if device() == "cuda" else torch.float32  # @inspect dtype
    peak = peak_flops(dtype)  # @inspect peak [FLOP/s]
    shapes = {"toy": (16, 1, 32), "large": (sizes().loop_width, 4, sizes().loop_rows)}  # @stepover
    rows, rates, samples, operators = [], {}, {}, {}
    for name, (width, num_layers, batch) in shapes.items():
        step, _ = one_step(width, num_layers, batch, dtype)  # @stepover
        napkin = 6 * batch * (width**2 * num_layers + width)
        counts = count(step)
        counted = counts.flops_by_operator["aten.mm"]
        assert counted == napkin - 2 * batch * width**2  # x.grad, which nobody asks for
        timing = measure(step, min_seconds=0.06, max_seconds=0.3)
        rates[name], samples[name] = counted / timing.seconds, [counted / s for s in timing.samples_s]
        operators[name] = timing.seconds / sum(counts.operators.values())  # seconds for each
        mfu = None if peak is None else round(rates[name] / peak, 4)
        rows.append((name, napkin, counted, round(1 / timing.seconds, 1), rates[name], mfu))
    columns = ["model", "claimed: 6 · P · B", "counted, FLOPs", "measured: steps/s", "FLOP/s", "MFU"]  # @hide
    table(rows, columns)  # @hide
    assert rates["toy"] < rates["large"]  # FLOP/s
    missing = [1 - counted / napkin for _, napkin, counted, *_ in rows]  # @hide
    text(f"(The counts lack the gradient of `x`: {missing[0]:.0%} of the toy, {missing[1]:.0%} of the large model.)")
    share_of_the_update(shapes["large"], dtype)
    if peak is None:
        text("No peak is known for this machine, so there is no MFU. The rates stand for themselves.")
        return
    in_products = rows[0][2] / peak  # seconds of the toy's FLOPs at the peak @inspect in_products [s]
    text(
        f"The toy's step takes {1e6 * operators['toy']:.0f} µs for each operator; at the peak, all of its products "
        f"together would take {1e6 * in_products:.1f} µs."
    )
    say_what_the_loop_reaches([rate / peak for rate in samples["large"]])


def one_step(width: int, num_layers: int, batch: int, dtype: torch.dtype) -> tuple[Callable[[], None], ...]:
    """A training step on the device, and its update alone; on one batch, so that no time goes into data"""
    with torch.device(device()):
        model = DeepLinear(width, num_layers).to(dtype)
        x, y = torch.randn(batch, width, dtype=dtype), torch.randn(batch, dtype=dtype)
    optimizer = SGD(model.parameters(), lr=1e-6)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    return step, optimizer.step


def say_what_the_loop_reaches(utilizations: list[float]) -> None:
    """What the utilization of the large model says"""
    middle = statistics.median(utilizations)
    spread = f"The large model reaches an MFU of {middle:.2f}"
    decide(
        utilizations,
        than=0.5,
        above=f"{spread}: good.",
        below=f"{spread}: short of good, which begins at 0.5.",
        undecided=f"{spread}; its samples are on both sides of 0.5, where good begins.",
    )
    text(
        "MFU counts the FLOPs that the model needs. What section 14 computes a second time, to save memory, is not "
        "among them: it raises the work and the time, and MFU, rightly, falls."
    )


def share_of_the_update(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    """What the update takes"""
    width, num_layers, batch = shape
    step, update = one_step(width, num_layers, batch, dtype)  # @stepover
    seconds = [measure(f, min_seconds=0.02, max_seconds=0.1).seconds for f in (step, update)]  # @stepover
    update_share = seconds[1] / seconds[0]  # @inspect update_share
    text(
        f"The large model's update, which reads and writes every weight and multiplies no matrices, takes about "
        f"{update_share:.0%} of the step. That share falls as the batch grows: the update is the same for any number "
        f"of rows."
    )


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
def continued(model: LanguageModel, prompt: bytes, length: int, temperature: float = 0.8) -> str:
    """Draw bytes from the model's probabilities; a temperature below 1 makes likely ones likelier"""
    generator, where = torch.Generator().manual_seed(0), model.head.weight.device
    written = list(prompt)
    for _ in range(length):
        seen = torch.tensor([written[-model.shape.context :]], device=where)  # (1, at most S)
        probabilities = (model(seen)[0, -1].cpu() / temperature).softmax(dim=-1)  # (V,)
        written.append(int(torch.multinomial(probabilities, 1, generator=generator)))
    return bytes(written).decode(errors="replace")


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
    """The language model learns"""
    text(
        "All of it together: the lecture's bytes, the model, AdamW with its groups, the schedule, clipping. Eighty "
        "steps of 8 windows of 64 bytes:"
    )
    train, held_out = lecture_tokens()  # @stepover
    run = new_language_run(steps=80, where=device())  # @stepover
    what_it_learns(run, train, held_out)
    second_step_checked(train)  # @deeper
    what_its_step_holds(train)
    tokens_a_second(run, train)


@one_thread()
def what_it_learns(run: LanguageRun, train: np.ndarray, held_out: np.ndarray) -> None:
    """What it learns"""
    before = bits_of_model(run.model, held_out[:8192])  # @inspect before @stepover
    losses = [train_step(run, train) for _ in range(run.steps)]  # @stepover
    after = bits_of_model(run.model, held_out[:8192])  # @inspect after @stepover
    one, two = bits_of_bytes(train, held_out[:8192]), bits_of_pairs(train, held_out[:8192])  # @stepover
    assert 7.9 < before < 8.1
    apart = [bits_of_model(run.model, held_out[i : i + 65]) for i in (0, 64)]  # two windows, one by one @hide
    assert math.isclose(sum(apart) / 2, bits_of_model(run.model, held_out[:129]), rel_tol=1e-6)  # @hide
    assert after < one - 1 and after < two
    bits = [loss.item() / math.log(2) for loss in losses]  # @hide
    lines = {
        "the model": bits,
        "bytes counted": [one] * len(bits),
        "pairs of bytes counted": [two] * len(bits),
    }  # @hide
    plot(lines, x_label="step", y_label="bits for each byte", title="What it learns")  # @hide
    text(
        f"From {before:.2f} bits for each held-out byte to {after:.2f}: better than a table of bytes ({one:.2f}) and "
        f"one of pairs ({two:.2f}) on the same 8192 held-out bytes, after reading {run.steps * 8 * 64:,} bytes of "
        f"{len(train):,}. What it writes after `    text(`, before training and now:"
    )
    torch.manual_seed(0)  # @hide
    untrained = continued(LanguageModel(Shape()), b"    text(", 40)  # @stepover
    trained = continued(run.model.cpu(), b"    text(", 160)  # @stepover
    assert share_of_ascii(trained) > 0.9 > share_of_ascii(untrained)
    scores = run.model(torch.tensor([list(b"    text(")]))[0, -1]  # @hide
    coldest = continued(run.model, b"    text(", 1, temperature=1e-3)  # @hide
    assert coldest.encode()[-1] == scores.argmax()  # without warmth, the likeliest byte @hide
    text(f"```text\n{readable(untrained)}\n```")
    print(readable(trained))
    run.model.to(device())  # @hide


def readable(written: str) -> str:
    """What can be printed of a text; a dot for every other character"""
    return "".join(c if c.isascii() and (c.isprintable() or c == "\n") else "·" for c in written.replace("`", "'"))


def second_step_checked(train: np.ndarray) -> None:
    """Its second step, checked"""
    text("The second step's `.grad` is that of its batch alone, of norm 1, and the rate is a fifth of the peak, 0.003:")
    run = new_language_run(steps=80, where="cpu")  # @stepover
    train_step(run, train)  # @stepover
    state = run.generator.get_state()
    inputs, targets = draw_batch(train, 8, 64, run.generator)  # what the second step will draw @stepover
    weights = list(run.model.parameters())
    gradients = torch.autograd.grad(loss_of(run.model, inputs, targets), weights)  # @stepover
    run.generator.set_state(state)
    train_step(run, train)  # @stepover
    norm = torch.cat([g.flatten() for g in gradients]).norm().item()  # before clipping @inspect norm
    assert norm > 1
    assert all(torch.allclose(w.grad, g / norm, atol=1e-6) for w, g in zip(weights, gradients, strict=True))
    rates = [group["lr"] for group in run.optimizer.param_groups]  # embedding and head: 12 times @inspect rates
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


def what_its_step_holds(train: np.ndarray) -> None:
    """What its step holds"""
    text(
        "Now every part of section 8's bar can be measured, on the CPU. What a forward pass leaves for the backward "
        "pass, torch shows to a *hook*, a function that is called with each such tensor (section 13):"
    )
    run = new_language_run(steps=1, where="cpu")  # @stepover
    train_step(run, train)  # @stepover
    inputs, targets = draw_batch(train, 8, 64, run.generator)  # @stepover
    measured = measured_by_part(run.model, run.optimizer, inputs, targets)  # @stepover
    predicted = bytes_by_part(run.model.shape, batch=8)  # @inspect predicted [B] measured [B] @stepover
    assert all(
        abs(measured[part] - size) <= 4 for part, size in predicted.items()
    )  # 4 bytes more: the number by which the loss is divided
    activations = measured["activations"] / sum(measured.values())  # @hide
    bars = {"predicted": predicted, "measured": measured}  # @hide
    memory_bars(bars, "The language model, a step of 8 windows")  # @stepover @hide
    text(
        f"The activations are {activations:.0%} of it; section 13 explains them. (Gradients come while activations go, "
        f"so that the peak of a step is a little less than this sum.)"
    )


def share_of_ascii(written: str) -> float:
    """How much of a text is ASCII, as most of this lecture is"""
    return sum(c.isascii() for c in written) / len(written)


def tokens_a_second(run: LanguageRun, train: np.ndarray) -> None:
    """Tokens each second, and its MFU"""
    ask(
        "A model of 8 billion parameters trains on H100s (989.5 TFLOP/s in bf16) with an MFU of 0.4. How many tokens "
        "per second does each of them get through?",
        0.4 * H100_SPARSE_BF16 / 2 / (6 * 8e9),
        hint="$6N$ FLOPs for each token.",
        slips={
            0.4 * H100_SPARSE_BF16 / 2 / (2 * 8e9): "2N is the forward pass alone.",
            H100_SPARSE_BF16 / 2 / (6 * 8e9): "At the peak. The MFU is 0.4.",
        },
    )
    step = measure(lambda: train_step(run, train), repeats=5, max_seconds=0.3)  # @stepover
    rate = 8 * run.model.shape.context / step.seconds  # @inspect rate [tokens/s]
    flops = sum(flops_by_part(run.model.shape, 8).values())  # @inspect flops [FLOP] @stepover
    peak = peak_flops("float32")  # @inspect peak [FLOP/s]
    if peak is None:
        text(f"{rate:,.0f} tokens each second; no peak is known for this machine.")
        return
    mfu = flops / step.seconds / peak  # @inspect mfu
    decide(
        [flops / seconds / peak for seconds in step.samples_s],
        than=(0.3, 0.6),
        above=f"An MFU of {mfu:.2f}, against this machine's largest fp32 products: good.",
        below=f"An MFU of {mfu:.2f}, against this machine's largest fp32 products: low enough to look for the cause.",
        undecided=f"An MFU of {mfu:.2f}, against this machine's largest fp32 products.",
    )


# ---------------------------------------------------------------------------------------------------------
# 12 Mixed precision


def mixed_precision() -> None:
    """Mixed precision"""
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    up, down = largest_lost_updates()  # @stepover @hide
    faster = H100_SPARSE_BF16 / 2 / H100_FP32  # @hide
    text(
        f"After this section you can say which numbers may have 16 bits and which must not, scale a loss, and read "
        f"what torch's autocast does. The key figure: beside a weight of 1, bf16 loses every update that adds less "
        f"than **{up:.4f}** or takes away less than **{down:.4f}**."
    )
    text(
        f"An H100's peak in bf16 is {faster:.1f} times that in fp32 (section 5), and a number takes half the bytes. "
        f"But fp16 runs out of range, bf16 out of digits (section 2). *Mixed precision* gives each number what it "
        f"needs:\n\n"
        f"1. **Multiply in 16 bits.** Weights and activations are cast for the matrix multiplications, whose sums are "
        f"kept in fp32.\n"
        f"2. **Keep fp32 master weights**, and optimizer states in fp32. Updates are small, and must not be rounded "
        f"away.\n"
        f"3. In fp16, **scale the loss**, so that small gradients do not become zero. bf16 has fp32's range and needs "
        f"no scaling."
    )
    note(
        "Eight minutes. Start with the hundred updates that are lost and take bets. The table of autocast's dtypes "
        "is worth reading aloud, row by row. End with what changed in the memory bar."
    )
    updates_that_vanish()
    rounding_at_random()  # @deeper
    gradients_that_vanish()
    the_window_of_loss_scales()  # @deeper
    dynamic_loss_scaling()
    clipping_scaled_gradients()  # @deeper
    scaling_bf16_does_nothing()  # @deeper
    which_operator_runs_in_which_dtype()
    three_recipes_learn()
    three_steps_side_by_side()  # @deeper
    language_model_under_autocast()
    mixed_precision_by_hand()  # @deeper
    copies_of_autocast()  # @deeper
    eight_bits_and_fewer()  # @deeper
    link(**REFERENCES["mixed precision"])
    link(**REFERENCES["amp"])
    text(
        "**In three lines.**\n\n"
        "1. Matrix multiplications in bf16; weights, states and updates in fp32.\n"
        "2. fp16 needs a loss scale, because small gradients become zero; bf16 needs none.\n"
        "3. Autocast saves activations (not half of them: the residual stream stays fp32) and no parameter memory."
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
    text("Once in bf16, and once in fp32, the *master*, with a bf16 copy to multiply with:")
    master = torch.tensor([1.0, 1 / 16])  # and a smaller weight
    bf16 = master.bfloat16()
    for _ in range(100):
        bf16 += 1e-3
        master += 1e-3
        copy = master.bfloat16()  # what the next forward pass would use
    assert bf16[0] == 1  # none of the hundred arrived @inspect bf16 master copy
    assert bf16[1] == 1 / 16 + 100 * 2**-10  # here each did, rounded: the weight is smaller
    assert math.isclose(master[0], 1.1, rel_tol=1e-5)
    assert abs(copy[0] - 1.1) < 2**-8
    assert copy.dtype == bf16.dtype == torch.bfloat16  # @hide
    half_a_step = torch.finfo(torch.bfloat16).eps / 2  # @inspect half_a_step
    one = torch.tensor(1.0, dtype=torch.bfloat16)
    assert one + 0.99 * half_a_step == 1 < one + 1.01 * half_a_step
    assert one - 0.49 * half_a_step == 1 > one - 0.51 * half_a_step  # below 1 the numbers are twice as dense
    assert (one - 0.003).item() == 1 - 2**-8 == 0.99609375  # @hide
    assert 1.25 * one + 1.25 * half_a_step > 1.25  # the share lost is largest just above a power of two @hide
    text(
        f"Added to 1, whatever is below {half_a_step:.4f} is lost, each time anew. Downwards, where numbers are twice "
        f"as dense, half of that still counts: $1 - 0.003$ becomes {(one - 0.003).item():.4f}. In the master the "
        f"updates add up, and once they have, the copy moves."
    )


def rounding_at_random() -> None:
    """Rounding at random"""
    text(
        "There is a second way to keep small updates without a master: round up or down *at random*, with the "
        "probability that makes the result right on average (**stochastic rounding**). A thousand bf16 weights of 1, "
        "each with a hundred updates of 0.001:"
    )
    weights = torch.ones(1000)
    for _ in range(100):
        weights = rounded_at_random(weights + 1e-3)  # @stepover
    assert torch.equal(weights, weights.bfloat16().float())  # they are bf16 numbers
    mean, spread = weights.mean().item(), weights.std().item()  # @inspect mean spread
    assert abs(mean - 1.1) < 0.005
    assert 0.02 < spread < 0.05
    text(
        f"Their mean is {mean:.3f}, which is right; each has an error of about {spread:.3f} (standard deviation). It "
        f"replaces 4 bytes of master by noise."
    )


def rounded_at_random(x: Tensor) -> Tensor:
    """fp32 to the bf16 number above or below: add random bits below the last digit kept, and cut"""
    noise = torch.randint(0, 2**16, x.shape, dtype=torch.int32)
    return ((x.view(torch.int32) + noise) & -(2**16)).view(torch.float32)


def gradients_that_vanish() -> None:
    """Gradients that vanish, and loss scaling"""
    ask(
        "What is the smallest power of two by which a gradient of 1e-8 must be multiplied to be more than 0 in fp16?",
        min(2.0**k for k in range(20) if torch.tensor(1e-8 * 2.0**k).half() > 0),
        within=0,
        hint="fp16's smallest number is $2^{-24}$, about 6e-8, and rounding is to the nearest.",
        slips={8: "What is more than half of the smallest number is rounded up to it.", 1: "1e-8 itself becomes 0."},
    )
    text("A gradient of 1e-8, written down in fp16, becomes zero:")
    weight = torch.ones(4, dtype=torch.float16, requires_grad=True)
    (weight * 1e-8).sum().backward()
    assert weight.grad.tolist() == [0, 0, 0, 0]  # @inspect weight.grad
    text("Multiply the *loss* by 1024, and the chain rule multiplies every gradient by it. Divide at the end, in fp32:")
    loss = (weight * 1e-8).sum()
    (loss * 1024).backward()
    gradient = weight.grad.float() / 1024  # @inspect gradient
    assert 0 < (gradient / 1e-8 - 1).abs().max() < 0.01
    text("The same without any scaling in bf16:")
    weight = weight.bfloat16().detach().requires_grad_()
    (weight * 1e-8).sum().backward()
    assert 0 < (weight.grad.float() / 1e-8 - 1).abs().max() < 2**-8  # @inspect weight.grad


def the_window_of_loss_scales() -> None:
    """The window of loss scales"""
    text(
        "Too small a scale and the small gradients are zero; too large a scale and the large ones are infinite. Take "
        "gradients spread over five powers of ten on either side of 1e-6. (Made up; the paper below shows the "
        "histogram of a real network, and it is wide too.)"
    )
    gradients = 10 ** (-6 + 5 / 3 * torch.randn(20_000))
    exponents = list(range(0, 41, 2))
    scaled = [(gradients * 2.0**k).half() for k in exponents]  # @stepover
    vanished = [(s == 0).float().mean().item() for s in scaled]  # @stepover
    overflowed = [s.isinf().float().mean().item() for s in scaled]  # @stepover
    x_label = "loss scale, power of two"  # @hide
    plot({"zero": vanished, "infinite": overflowed}, x=exponents, x_label=x_label, y_label="share")  # @hide
    drawn_from = statistics.NormalDist(-6, 5 / 3)  # powers of ten
    expected = [drawn_from.cdf(math.log10(2.0 ** (-25 - k))) for k in exponents]  # half of the smallest subnormal
    assert max(abs(share - e) for share, e in zip(vanished, expected, strict=True)) < 0.015
    assert overflowed == sorted(overflowed)
    harmless = [k for k, n, o in zip(exponents, vanished, overflowed, strict=True) if n < 0.01 and o == 0]
    assert min(vanished[0], overflowed[-1]) > 0.1
    assert 6 < harmless[0] < harmless[-1] < 18  # @inspect harmless
    text(
        f"Unscaled, {vanished[0]:.0%} of them are lost. Between $2^{{{harmless[0]}}}$ and $2^{{{harmless[-1]}}}$ "
        f"fewer than one in a hundred is, and none overflows. A single infinity spoils the whole step, a zero only "
        f"its own weight; so the scale should be large, and come down whenever something overflows."
    )
    in_bf16 = gradients.bfloat16()
    assert in_bf16.count_nonzero() == len(gradients)


def dynamic_loss_scaling() -> None:
    """A scale that finds itself"""
    default = torch.amp.GradScaler("cpu").get_growth_interval()  # @stepover @hide
    text(
        f"`torch.amp.GradScaler` finds the scale. Every step: **scale** the loss, **backward**, **step** (it divides "
        f"the gradients, and leaves the step out if one is infinite or NaN), **update** (halve the scale after such a "
        f"step; double it after `growth_interval` good ones, {default} by default, three here):"
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
    plot({"scale": scales}, x_label="step", y_label="loss scale", y_scale="log", style="steps")  # @hide
    left_out = sum(after < before for before, after in pairwise(scales))  # @inspect left_out
    taken = (100 - weight.item()) / 8  # each step with a learning rate of 1 moves it by 8 @inspect taken
    assert (left_out, taken) == (7, 9)
    assert (scales[0], min(scales)) == (2.0**16, 2.0**12)  # @hide
    assert 8 * min(scales) <= torch.finfo(torch.float16).max < 8 * 2 * min(scales)
    text(
        f"It starts at {scales[0]:.0f}, comes down until 8 times the scale fits into fp16, and tries the double again "
        f"and again: {left_out} steps of 16 are left out here, one in {default + 1} with the default."
    )
    ask(
        "Find the error: `scaler.scale(loss).backward()`, `clip_grad_norm_(weights, 1.0)`, `scaler.step(optimizer)`.",
        "scaled gradients are clipped",
        choices=["scaled gradients are clipped", "clipping needs the loss, not gradients", "update() must come first"],
        hint=f"How large are the gradients there, with a scale of {scales[0]:.0f}?",
        why="Divide first: `scaler.unscale_(optimizer)`.",
        slips={
            "clipping needs the loss, not gradients": "It does work on gradients.",
            "update() must come first": "`update` comes last: it looks at what `step` found.",
        },
    )


def clipping_scaled_gradients() -> None:
    """Clipping scaled gradients"""
    text("To clip gradients, divide them by the scale first:")
    weight = nn.Parameter(torch.full((4,), 100.0))
    optimizer, scaler = optim.SGD([weight], lr=1.0), torch.amp.GradScaler("cpu", init_scale=2.0**12)
    scaler.scale((weight.half() * 8).float().sum()).backward()
    assert weight.grad.tolist() == [8 * 2**12] * 4  # @inspect weight.grad
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [8] * 4  # @inspect weight.grad
    norm = nn.utils.clip_grad_norm_([weight], max_norm=1.0).item()  # before clipping @inspect norm
    assert norm == 8 * math.sqrt(4)
    text("(`torch.cuda.amp.GradScaler`, the older name, is deprecated.)")


def scaling_bf16_does_nothing() -> None:
    """A GradScaler around bf16"""
    ask(
        "Which of these needs a `GradScaler`?",
        "autocast to fp16",
        choices=["autocast to fp16", "autocast to bf16", "both"],
        hint="Which format runs out of exponents?",
        slips={"autocast to bf16": "bf16 has fp32's exponents.", "both": "bf16 has fp32's exponents."},
    )
    text(
        "Around bf16 it does nothing useful: bf16 has fp32's exponents, and a factor that is a power of two changes "
        "exponents only. The weights after ten steps, with and without:"
    )
    x = torch.randn(64, 16)
    ends, factors = [], []
    for enabled in (False, True):
        weight = nn.Parameter(torch.linspace(-1, 1, 16).view(16, 1))
        optimizer = optim.AdamW([weight], lr=0.01)
        scaler = torch.amp.GradScaler("cpu", enabled=enabled)
        for _ in range(10):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = x @ weight  # (64, 1), in bf16
            optimizer.zero_grad()
            scaler.scale(y.float().square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        ends.append(weight.detach())
        factors.append(scaler.get_scale())  # @inspect factors
    assert factors == [1, 2**16]
    assert ends[0].equal(ends[1])  # bit for bit @inspect ends
    assert not ends[0].equal(torch.linspace(-1, 1, 16).view(16, 1))
    text("Equal to the bit. What it costs: a pass over all gradients, and a wait for the GPU in each step.")


def dtypes_under_autocast(where: str) -> dict[str, str]:
    """The dtype of each operation's result under autocast; x is fp32, h is bf16"""
    x, h = torch.rand(4, 4, device=where), torch.rand(4, 4, device=where).bfloat16()
    labels = torch.zeros(4, dtype=torch.int64, device=where)
    with torch.autocast(where, dtype=torch.bfloat16):
        results = {
            "x @ x": x @ x,
            "linear(x, x)": nn.functional.linear(x, x),
            "relu(h)": h.relu(),
            "h + x": h + x,
            "exp(h)": h.exp(),
            "sum(h)": h.sum(),
            "softmax(h)": h.softmax(dim=0),
            "layer_norm(h)": nn.functional.layer_norm(h, (4,)),
            "mse_loss(h, h)": nn.functional.mse_loss(h, h),
            "cross_entropy(h, labels)": nn.functional.cross_entropy(h, labels),
        }
    return {name: str(result.dtype).removeprefix("torch.") for name, result in results.items()}


def which_operator_runs_in_which_dtype() -> None:
    """Autocast: which operation in which dtype"""
    text(
        "`with torch.autocast(…):` chooses a format for each operation. There are three groups: matrix "
        "multiplications are cast down, operations that lose too much are cast up to fp32 (more of them on a GPU than "
        "on a CPU), and all others take what comes, of two formats the wider one."
    )
    ask(
        "Inside `torch.autocast` to bf16, `h` is bf16 and `x` fp32. In which format is the result of `h + x`?",
        "float32",
        choices=["bfloat16", "float32", "an error"],
        why="It takes what comes, and where operands differ torch computes in the wider format.",
        slips={"bfloat16": "Only what loses little, and gains much, is cast down: matrix multiplications."},
    )
    found = {where: dtypes_under_autocast(where) for where in sorted({"cpu", device()})}  # @inspect found @stepover
    rows = [[name, *(dtypes[name] for dtypes in found.values())] for name in found["cpu"]]  # @hide
    table(rows, ["operation", *found])  # @hide
    for dtypes in found.values():
        assert dtypes["x @ x"] == dtypes["linear(x, x)"] == dtypes["relu(h)"] == "bfloat16"
        assert dtypes["mse_loss(h, h)"] == dtypes["h + x"] == "float32"
    x = torch.rand(4, 4)  # @hide
    assert (x @ x).dtype == torch.float32  # outside, nothing is cast @hide
    with torch.autocast("cpu", dtype=torch.bfloat16):  # @hide
        assert (x.double() @ x.double()).dtype == torch.float64  # and fp64 is left alone even inside @hide
    differing = [name for name in found["cpu"] if found["cpu"][name] != found.get("cuda", found["cpu"])[name]]  # @hide
    if differing:  # @hide
        text(f"The two devices' lists differ: here in {', '.join(f'`{name}`' for name in differing)}.")  # @hide
    ask(
        "Write the line under which the forward pass on a GPU multiplies in bf16.",
        '`with torch.autocast("cuda", dtype=torch.bfloat16):`',
        why="The backward pass stays outside: it runs each operation in the dtype of its forward.",
    )


def losses_of(recipe: str, x: Tensor, y: Tensor) -> list[float]:
    """Train a small model on y; `recipe` is fp32, autocast or bf16"""
    torch.default_generator.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1))
    dtype = torch.bfloat16 if recipe == "bf16" else torch.float32
    model.to(device(), dtype)
    optimizer = optim.AdamW(model.parameters(), lr=2e-4)
    losses = []
    for _ in range(120):
        with torch.autocast(device(), dtype=torch.bfloat16, enabled=recipe == "autocast"):
            prediction = model(x.to(dtype))  # (256, 1)
        assert prediction.dtype == (torch.float32 if recipe == "fp32" else torch.bfloat16)
        assert prediction.shape == y.shape
        loss = nn.functional.mse_loss(prediction, y)  # y is fp32, and so is the loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def three_recipes_learn() -> None:
    """The three recipes, learning"""
    text("A small model, trained all in fp32, with autocast, and with everything in bf16:")
    x = torch.randn(256, 16).to(device())
    y = x[:, :1] * x[:, 1:2]  # (256, 1)
    losses = {recipe: losses_of(recipe, x, y) for recipe in ("fp32", "autocast", "bf16")}  # @stepover
    plot(losses, x_label="step", y_label="loss")  # @hide
    learned = {recipe: max(curve) - min(curve) for recipe, curve in losses.items()}  # @inspect learned
    assert abs(losses["fp32"][0] - 1) < 0.5  # what a model that knows nothing loses: the variance of y @hide
    assert max(abs(a / b - 1) for a, b in zip(losses["autocast"], losses["fp32"], strict=True)) < 0.01
    assert learned["bf16"] < 0.9 * learned["fp32"]
    weights = nn.Linear(16, 64).bfloat16().weight.detach()  # between ±1/4
    too_large = (weights + 2e-4 == weights).float().mean().item()  # for a step of one learning rate @inspect too_large
    assert abs(too_large - 3 / 4) < 0.05  # from 1/16 on
    text(
        f"Autocast follows fp32 so closely that the curves can't be told apart. Pure bf16 has learned "
        f"{learned['bf16'] / learned['fp32']:.0%} of what they have: for {too_large:.0%} of such "
        f"a layer's initial weights, a step of one learning rate is rounded away in bf16."
    )


def training_step(model: nn.Module, optimizer: optim.Optimizer, x: Tensor, *, autocast: bool) -> None:
    """Forward, backward, optimizer"""
    with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=autocast):
        y = model(x)
    optimizer.zero_grad()
    y.float().square().mean().backward()
    optimizer.step()


def three_steps_side_by_side() -> None:
    """A step in fp32, in tf32, in bf16"""
    width, batch = sizes().step_width, sizes().step_batch  # @inspect width batch @stepover
    model = nn.Sequential(*(nn.Linear(width, width, device=device()) for _ in range(2)))  # @stepover
    optimizer = optim.AdamW(model.parameters())
    x = torch.randn(batch, width, device=device())  # (B, D)
    steps = {"fp32": False, "bf16 autocast": True} | ({"tf32": False} if device() == "cuda" else {})
    timings, matmul_flops = {}, {}
    for name, autocast in steps.items():  # @stepover
        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
        step = partial(training_step, model, optimizer, x, autocast=autocast)
        by_operator = count(step).flops_by_operator
        matmul_flops[name] = sum(n for operator, n in by_operator.items() if "mm" in operator)
        timings[name] = measure(step, repeats=5, min_seconds=0.1, max_seconds=1)
    torch.set_float32_matmul_precision("highest")
    forward = 2 * 2 * batch * width**2
    assert set(matmul_flops.values()) == {3 * forward - forward // 2}  # the first layer's input needs no gradient
    seconds = {name: timing.seconds for name, timing in timings.items()}  # @inspect seconds [s]
    rates = {name: matmul_flops[name] / s for name, s in seconds.items()}  # @inspect rates [FLOP/s]
    rows = [(n, s, rates[n], seconds["fp32"] / s) for n, s in seconds.items()]  # @hide
    table(rows, ["step", "s", "FLOP/s", "times fp32's speed"], title=f"{batch} × {width}, two layers")  # @hide
    text(f"Every variant multiplies the same {matmul_flops['fp32'] / 1e9:,.2f} GFLOP; only their format differs.")
    say_how_fast(timings["fp32"].samples_s, timings["bf16 autocast"].samples_s)
    if "tf32" not in seconds:
        text("tf32, a way in which tensor cores multiply fp32 numbers: not run, no CUDA device.")


def say_how_fast(fp32_s: Sequence[float], autocast_s: Sequence[float]) -> None:
    """What autocast brought"""
    ratios = [long / short for long, short in zip(fp32_s, autocast_s, strict=False)]
    ratio = statistics.median(ratios)
    decide(
        ratios,
        than=(0.9, 1.1),
        above=f"On this machine a step under autocast is {ratio:.1f} times as fast as in fp32.",
        below=(
            f"On this machine a step under autocast is *slower*: {ratio:.2f} of the speed of fp32. What remains is the "
            f"memory."
        ),
        undecided="On this machine a step under autocast takes about as long as in fp32, as far as the samples agree.",
    )


def to_fp8(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A tensor in fp8, and the scale that brings it back: its largest element becomes the format's largest"""
    scale = x.abs().max() / torch.finfo(dtype).max
    return (x / scale).to(dtype), scale


def eight_bits_and_fewer() -> None:
    """Eight bits, and fewer"""
    text(
        "fp8 has so little range that every tensor is stored with a scale. Two formats share the work: **E4M3**, one "
        "more digit, for weights and activations; **E5M2**, more range, for gradients."
    )
    e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2
    x, w = torch.randn(256, 256), torch.randn(256, 256)
    errors = {}
    for dtype in (e4m3, e5m2):
        x8, scale = to_fp8(x, dtype)  # @stepover
        errors[dtype] = relative_error(x8.float() * scale, x)  # @inspect errors @stepover
    assert 1.7 < errors[e5m2] / errors[e4m3] < 2.3  # one digit less, twice the error
    text("Gradients spread over ten powers of ten, made up as for the loss scales. How many become zero?")
    gradients = 10 ** (-6 + 5 / 3 * torch.randn(20_000))
    lost = {dtype: (to_fp8(gradients, dtype)[0].float() == 0).float().mean().item() for dtype in (e4m3, e5m2)}
    assert lost[e5m2] < lost[e4m3] / 2  # @inspect lost
    text("And a product, multiplied in fp8 and summed in fp32: each product of two fp8 numbers is exact there.")
    (x8, x_scale), (w8, w_scale) = to_fp8(x, e4m3), to_fp8(w, e4m3)  # @stepover
    product = (x8.float() @ w8.float()) * (x_scale * w_scale)
    product_error = relative_error(product, x @ w)  # @inspect product_error @stepover
    assert errors[e4m3] < product_error < 2 * errors[e4m3]
    text(
        f"Each number is off by {errors[e4m3]:.1%}, and so the product by {product_error:.1%}: the errors are "
        f"independent, and in a long sum they average out as well as the terms do."
    )
    fp8_speed = speed_of_fp8()  # times bf16's @inspect fp8_speed
    where_fp8_stands(fp8_speed)


def speed_of_fp8() -> float | None:
    """Multiplying fp8 on this machine"""
    if device() != "cuda":
        text("fp8 on tensor cores: not run, no CUDA device. On a GPU that has such, `torch._scaled_mm` uses them.")
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
    assert off < 2**-5  # a result in bf16, and sums in a little less than fp32
    x16, w16 = x.bfloat16(), w.bfloat16()
    fp8 = measure(lambda: scaled_mm(x8, w8.t()), repeats=10).seconds
    bf16 = measure(lambda: x16 @ w16.t(), repeats=10).seconds
    rows = [(n, s, 2 * width**3 / s) for n, s in (("bf16", bf16), ("fp8", fp8))]  # @hide
    table(rows, ["product", "s", "FLOP/s"], title=f"{width} × {width} by {width} × {width}")  # @hide
    text(f"fp8 is {bf16 / fp8:.2f} times as fast as bf16 here. The datasheet promises twice.")
    return bf16 / fp8


def where_fp8_stands(fp8_speed: float | None) -> None:
    """Where they stand"""
    if fp8_speed is None:
        text("So nothing is said here of fp8's speed; the datasheet of an H100 promises twice bf16's.")
    text(
        f"- **Training in fp8.** The multiplications of linear layers are in fp8; attention, norms, the head and the "
        f"master weights are not. NVIDIA's Transformer Engine supplies the layers, and recipes of scales: with one for "
        f"each tensor, E4M3 forward and E5M2 backward by default; with one byte of scale for each block of 32 (MXFP8, "
        f"on Blackwell: {8 + 8 / 32} bits a number), E4M3 for both. FP8-LM also kept gradients and one of Adam's "
        f"states in 8 bits. DeepSeek-V3 was trained in fp8 with one scale per 128 numbers of activations, and E4M3 for "
        f"everything: with scales that fine, range stops being the problem.\n"
        f"- **Training in four bits.** For NVFP4 (section 2: {4 + 8 / 16} bits a number; MXFP4, with blocks of 32, "
        f"{4 + 8 / 32}) NVIDIA reports a 12B model trained on 10T tokens, with some layers left in bf16, gradients "
        f"rounded at random, and outliers spread out by a rotation.\n"
        f"- **Inference** comes first every time: weights are cast once, there are no updates to lose, and decoding "
        f"waits for bytes (section 6), so that half the bytes take about half the time."
    )
    public = "`torch.nn.functional.scaled_mm` is the public name, with block scales."  # @hide
    private = "there is only `torch._scaled_mm`; the underscore says: not a public name."  # @hide
    text(f"In torch {torch.__version__}, {public if hasattr(nn.functional, 'scaled_mm') else private}")
    for name in ("fp8", "fp8-lm", "transformer engine", "deepseek-v3", "nvfp4 training"):
        link(**REFERENCES[name])


def saved_with_copies(model: LanguageModel, inputs: Tensor, targets: Tensor) -> dict[str, int]:
    """Bytes that a forward pass leaves for the backward pass, the weights that it cast to bf16 apart"""
    saved = saved_by_autograd(lambda: loss_of(model, inputs, targets), model.parameters())
    cast = [w.detach().bfloat16().t() for w in model.parameters()]  # a linear layer multiplies with the transpose
    in_bf16 = [t for t in saved if t.dtype == torch.bfloat16]
    copies = sum(t.nbytes for t in in_bf16 if any(torch.equal(t, w) for w in cast))
    parts = saved_by_part(model, inputs, targets)  # @stepover
    return parts | {"activations": parts["activations"] - copies, "bf16 copies": copies}


def language_model_under_autocast() -> None:
    """The language model under autocast"""
    ask(
        "Which part of the language model's memory bar does autocast make smaller?",
        "activations",
        choices=["parameters", "gradients", "optimizer states", "activations"],
        hint="What is cast, and what is the result of a cast multiplication?",
        slips={
            "parameters": "They are the masters, in fp32.",
            "gradients": "Gradients of fp32 parameters are fp32.",
            "optimizer states": "They stay in fp32.",
        },
    )
    run = new_language_run(steps=1, where="cpu")  # @stepover
    train, _ = lecture_tokens()  # @stepover
    train_step(run, train)  # @stepover
    inputs, targets = draw_batch(train, 8, 64, torch.Generator().manual_seed(0))  # @stepover
    saved, losses = {}, {}
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            saved[enabled] = saved_with_copies(run.model, inputs, targets)  # @stepover
            losses[enabled] = loss_of(run.model, inputs, targets).item()  # @inspect losses @stepover
    share = saved[True]["activations"] / saved[False]["activations"]  # @inspect share saved
    assert 0.5 < share < 0.7
    assert saved[True]["logits"] == saved[False]["logits"]  # the loss is taken in fp32
    multiplied = sum(w.numel() for w in run.model.parameters() if w.ndim == 2) - run.model.embedding.weight.numel()
    assert saved[True]["bf16 copies"] == 2 * multiplied
    assert abs(losses[True] / losses[False] - 1) < 1e-3
    held = held_for_training(run.model, run.optimizer)  # @stepover @hide
    bars = {"fp32": held | saved[False], "autocast to bf16": held | saved[True]}  # @hide
    memory_bars(bars, "The language model, a step of 8 windows, by part")  # @stepover @hide
    text(
        f"Activations shrink to {share:.2f} of what they were, not to a half: the residual stream and what the norms "
        f"work on stay fp32. The bf16 copies of the weights come on top, {saved[True]['bf16 copies'] / 2**20:.2f} "
        f"MiB; they are freed during the backward pass. The loss differs by {abs(losses[True] - losses[False]):.5f}, "
        f"of {losses[False]:.2f}."
    )


def mixed_precision_by_hand() -> None:
    """Section 1's recipes, by hand"""
    text(
        "`torch.optim` does not mix formats by itself. Written out, three steps of Adam by each recipe of section 1, "
        "and the bytes per parameter that stay:"
    )
    fp32, bf16 = torch.float32, torch.bfloat16
    batches = torch.randn(3, 4, 256)  # (steps, rows, width)
    held = []  # bytes per parameter
    for dtype, gradient_dtype, master in [(fp32, fp32, False), (bf16, bf16, False), (fp32, bf16, False)]:
        weight = torch.randn(256, 128).to(dtype).requires_grad_()
        others = train_by_hand(weight, batches, gradient_dtype, master=master)
        held.append((weight.nbytes + sum(t.nbytes for t in others)) / weight.numel())  # @inspect held
    weight = torch.randn(256, 128).to(bf16).requires_grad_()
    others = train_by_hand(weight, batches, bf16, master=True)
    held.append((weight.nbytes + sum(t.nbytes for t in others)) / weight.numel())  # @inspect held
    assert held == [16, 12, 14, 16]
    assert torch.equal(weight, others[-1].bfloat16())  # the weight is its master copy, rounded
    adam_by_hand_is_adam()
    moves_of_the_first_step()


def adam_update(gradient: Tensor, first: Tensor, second: Tensor, step: int) -> Tensor:
    """What a step of Adam subtracts from a weight; `first` and `second` are its averages, changed in place"""
    first.lerp_(gradient.float(), 1 - 0.9)  # of the gradient
    second.lerp_(gradient.float().square(), 1 - 0.999)  # of its square
    mean = first / (1 - 0.9**step)  # averages that began at zero are too small at first
    deviation = (second / (1 - 0.999**step)).sqrt() + 1e-8
    return 1e-3 * mean / deviation


def train_by_hand(weight: Tensor, batches: Tensor, gradient_dtype: torch.dtype, *, master: bool) -> list[Tensor]:
    """A step of Adam for each batch, with fp32 averages; returns all that stays in memory beside the weight"""
    first, second = torch.zeros(weight.shape), torch.zeros(weight.shape)
    master_weight = weight.detach().float().clone()
    for step, x in enumerate(batches, start=1):
        (x.to(weight.dtype) @ weight).square().mean().backward()
        assert weight.grad is not None
        gradient, weight.grad = weight.grad.to(gradient_dtype), None
        update = adam_update(gradient, first, second, step)
        with torch.no_grad():
            if master:
                master_weight -= update
                weight.copy_(master_weight)
            else:
                weight -= update.to(weight.dtype)
    return [gradient, first, second, master_weight] if master else [gradient, first, second]


def adam_by_hand_is_adam() -> None:
    """It is Adam"""
    text("That this is the optimizer's rule, five steps from the same start with five batches:")
    batches, start = torch.randn(5, 4, 256), torch.randn(256, 128)
    weight = start.clone().requires_grad_()
    optimizer = optim.AdamW([weight], lr=1e-3, weight_decay=0)
    for x in batches:
        optimizer.zero_grad()
        (x @ weight).square().mean().backward()
        optimizer.step()
    for master in (False, True):
        by_hand = start.clone().requires_grad_()
        train_by_hand(by_hand, batches, torch.float32, master=master)  # @stepover
        difference = (weight - by_hand).abs().max().item()  # @inspect difference
        assert difference < 1e-6
    assert (weight - start).abs().max() > 2e-3  # and it went somewhere


def moves_of_the_first_step() -> None:
    """How far the first step goes"""
    text(
        "In the first step both averages are the gradient's own, so that almost every weight moves by the learning "
        "rate, whether its gradient is large or small. The exceptions are gradients that are not large beside the "
        "$\\epsilon = 10^{-8}$ in the denominator:"
    )
    gradients = torch.tensor([10.0, -1e-3, 1e-8, 0.0])
    moves = adam_update(gradients, torch.zeros(4), torch.zeros(4), 1) / 1e-3  # in learning rates @inspect moves
    weight = nn.Parameter(torch.zeros(4))
    weight.grad = gradients
    optim.AdamW([weight], lr=1e-3).step()
    assert torch.allclose(moves, torch.tensor([1, -1, 0.5, 0]), rtol=1e-4)
    assert torch.allclose(moves, -weight.detach() / 1e-3, rtol=1e-4)


def copies_of_autocast() -> None:
    """What autocast adds to parameters"""
    text(
        "The bf16 copies of the weights are made in the forward pass and freed in the backward pass, layer by layer, "
        "while the gradients appear. What is the largest sum? Sixteen layers with a small batch, followed operator by "
        "operator:"
    )
    layers = nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(16)))
    x, losses = torch.randn(2, 256), []
    optimizer = optim.AdamW(layers.parameters())

    def forward() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            losses.append(layers(x).float().square().mean())

    def backward() -> None:
        losses.pop().backward()

    peaks = []  # bytes per parameter
    for gradients_from_before in (False, True):
        forward()
        backward()
        optimizer.step()
        if not gradients_from_before:
            optimizer.zero_grad()
        weights = list(layers.parameters())
        states = [s for w in weights for s in optimizer.state[w].values()]
        gradients = [w.grad for w in weights if w.grad is not None]
        readings = bytes_alive([*weights, *states, *gradients], forward, backward)  # @stepover
        peaks.append(max(map(max, readings)) / sum(w.numel() for w in weights))  # @inspect peaks
    assert all(w.dtype == w.grad.dtype == torch.float32 for w in weights)
    assert 16.1 < peaks[0] < 16.2
    assert 18 < peaks[1] < 18.2
    largest = [round(8 * H100_MEMORY / peak / 1e9, 1) for peak in peaks]  # 10⁹ parameters @inspect largest
    text(
        f"{peaks[0]:.2f} bytes per parameter in the usual loop, which drops the gradients before the forward pass: one "
        f"layer's copy more than fp32. It is {peaks[1]:.2f} where old gradients are still there, as when gradients of "
        f"several batches are added up: then all copies stand beside all gradients. On 8 H100s that is "
        f"{largest[0]} and {largest[1]} billion parameters. Autocast buys speed and smaller activations, not smaller "
        f"parameters."
    )


# ---------------------------------------------------------------------------------------------------------
# 13 The memory of a training step


def memory_of_a_training_step() -> None:
    """The memory of a training step"""
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    sequence_bytes = activations_of_gpt_3()  # @stepover @hide
    text(
        f"After this section you can add up what a training step holds, ask autograd what it saves, and say when the "
        f"peak comes. The key figure: one sequence of 2048 tokens leaves **{sequence_bytes / 1e9:.0f} GB** of "
        f"activations in a model of GPT-3's shape, the memory of {sequence_bytes / H100_MEMORY:.1f} H100s."
    )
    text(
        "A training step holds four things, logits counted as activations:\n\n"
        "$$ \\text{memory} = \\text{parameters} + \\text{gradients} + \\text{optimizer states} + \\text{activations}. "
        "$$\n\nThe first three are so many bytes per parameter. **Activations** are the results of the forward pass "
        "that the backward pass needs; they grow with the batch. They go while the gradients come, so this sum is a "
        "little more than the peak."
    )
    note(
        "Ten minutes. Let them count the saved tensors of the tiny model by hand before the hooks answer. "
        "GPT-3's activations are the surprise; the timeline is the figure to leave on the wall."
    )
    four_terms()
    what_autograd_saves()
    a_hook_that_keeps_a_cycle()  # @deeper
    flops_of_the_same_step()  # @deeper
    activations_against_the_peak()  # @deeper
    what_each_layer_saves()  # @deeper
    memory_of_the_language_model()
    batch_size_decides()  # @deeper
    activations_of_a_transformer()
    that_layer_is_torchs()  # @deeper
    what_autocast_keeps()  # @deeper
    logits_of_a_language_model()
    timeline_of_two_steps()
    two_steps_of_a_small_batch()  # @deeper
    memory_in_pieces()  # @deeper
    text(
        "**In three lines.**\n\n1. Parameters, gradients and states are so many bytes per parameter; activations grow "
        "with the number of tokens in the batch.\n2. What autograd saves can be asked, to the byte, with hooks, also "
        "of a model that has shapes and no memory.\n3. Where activations dominate, the peak comes early in the "
        "backward pass, and is higher in the second step, by the optimizer's states."
    )


def four_terms() -> None:
    """Four terms"""
    text(
        "Small enough to write every number down: section 8's deep linear model with $B = 2$ rows, width $D = 4$, "
        "$L = 2$ layers, and AdaGrad, which keeps one number per parameter. After one real step, in fp32:"
    )
    batch, width, layers = 2, 4, 2
    model = DeepLinear(width, layers)  # @stepover
    optimizer = AdaGrad(model.parameters())  # @stepover
    x, y = torch.randn(batch, width), torch.randn(batch)  # (B, D), (B,)
    nn.functional.mse_loss(model(x), y).backward()  # @stepover
    optimizer.step()  # @stepover
    states = [s for held in optimizer.state.values() for s in held.values()]
    numbers = {
        "parameters": sum(w.numel() for w in model.parameters()),
        "gradients": sum(w.grad.numel() for w in model.parameters()),
        "states": sum(s.numel() for s in states),
    }  # @inspect numbers
    assert numbers == {"parameters": 36, "gradients": 36, "states": 36}
    text("For the activations, a first estimate: each hidden layer leaves one number per row and column, $BDL$.")
    estimate = batch * width * layers  # @inspect estimate
    total_bytes = 4 * (sum(numbers.values()) + estimate)  # @inspect total_bytes [B]
    assert (estimate, total_bytes) == (16, 496)
    ask(
        "How many numbers does autograd *really* save in the forward pass of this model and its `mse_loss`, beside the "
        "parameters?",
        sum(t.numel() for t in saved_by_autograd(lambda: nn.functional.mse_loss(model(x), y), model.parameters())),
        within=0,
        hint="The gradient of `x @ w` with respect to `w` is `x.T @ upstream`: a layer saves its *input*. The loss?",
        slips={
            16: "The outputs of the hidden layers. But the first layer saves its input as well, and so does the loss.",
            24: "The inputs of all layers. The loss needs the predictions and the targets, too.",
        },
    )


def saved_by_autograd(forward: Callable[[], object], held: Iterable[Tensor] = ()) -> list[Tensor]:
    """What a forward pass saves for the backward pass: a tensor for each storage, without those held anyway"""
    saved: dict[int, Tensor] = {}  # by storage

    def pack(tensor: Tensor) -> Tensor:
        saved.setdefault(id(tensor.untyped_storage()), tensor.detach())
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda tensor: tensor):  # called when a tensor is saved, and when it is used
        forward()
    for tensor in held:
        saved.pop(id(tensor.untyped_storage()), None)
    return list(saved.values())


def what_autograd_saves() -> None:
    """What autograd really saves"""
    text(
        "Autograd hands each tensor that it saves to *hooks*, functions that one may set. Parameters are among these "
        "tensors, and are left out here: they are in memory in any case."
    )
    batch, width, layers = 2, 4, 2
    model = DeepLinear(width, layers)  # @stepover
    x, y = torch.randn(batch, width), torch.randn(batch)
    saved = saved_by_autograd(lambda: nn.functional.mse_loss(model(x), y), model.parameters())  # @stepover
    sizes_saved = [tensor.numel() for tensor in saved]  # @inspect sizes_saved
    assert sizes_saved == [8, 8, 8, 2, 2]
    names = [
        "x, for the first layer's gradient",
        "h1, for the second's",
        "h2, for the head's",
        "predictions",
        "y",
    ]  # @hide
    rows = [(name, str(tuple(t.shape)), t.numel()) for name, t in zip(names, saved, strict=True)]  # @hide
    table(rows, ["saved", "shape", "numbers"])  # @hide
    assert sum(sizes_saved) == 28 == batch * width * layers + x.numel() + y.numel() + batch
    text(
        f"{sum(sizes_saved)}, not {batch * width * layers}: the input and what the loss needs, which are there once "
        f"however deep the model."
    )
    ask(
        "No backward pass will follow. Write the line, ending in a colon, under which a forward pass saves nothing.",
        "with torch.no_grad():",
        why="Each result is then freed as soon as the next layer has used it. `torch.inference_mode()` does it, too.",
    )


def a_hook_that_keeps_a_cycle() -> None:
    """Trap: a hook that keeps what it packs"""
    text(
        "`saved_by_autograd` keeps `tensor.detach()`, an alias without a graph, and not the tensor itself. A ReLU "
        "saves its *result*. If the hook returns that very tensor, the result refers to its graph and the graph to the "
        "result: a cycle, part of it in C++, which Python's garbage collector cannot see. (The documentation of the "
        "hooks warns of it.)"
    )

    def keep(tensor: Tensor) -> Tensor:
        return tensor

    left = {}
    for pack in (keep, Tensor.detach):
        x = torch.randn(1000, requires_grad=True)
        with saved_tensors_hooks(pack, keep):
            result = x.relu()
        watched = weakref.ref(result)
        del result
        if watched() is not None:
            gc.collect()
        left[pack.__name__] = watched() is not None
        if watched() is not None:
            watched().sum().backward()  # a backward pass frees what was saved, and so ends the cycle
            assert watched() is None
    assert left == {"keep": True, "detach": False}  # @inspect left
    results = [x.relu()]
    saved_by_autograd(lambda: results.append(x.relu()))  # @stepover
    watched = weakref.ref(results.pop())
    assert watched() is None
    text("With such a hook a measurement of memory would itself hold the activations of each call for good.")


def flops_of_the_same_step() -> None:
    """The FLOPs of the same step"""
    batch, width, layers = 2, 4, 2
    model = DeepLinear(width, layers)  # @stepover
    parameters = sum(w.numel() for w in model.parameters())
    napkin = 6 * batch * parameters  # @inspect napkin [FLOP]
    counted = training_flops(model, torch.randn(batch, width))  # @inspect counted [FLOP] @stepover
    input_wanted = training_flops(model, torch.randn(batch, width, requires_grad=True))  # @stepover
    assert (napkin, counted) == (432, 368)
    assert napkin - counted == 2 * batch * width * width == 64
    assert input_wanted == napkin
    rows = [("as it runs", napkin, counted, round(counted / napkin, 3))]
    rows.append(("with x.grad asked for", napkin, input_wanted, input_wanted / napkin))
    table(rows, ["training step", "6 · B · parameters", "counted, FLOPs", "counted / napkin"])
    text(
        f"The {napkin - counted} FLOPs that are missing are section 7's: nobody asked for the gradient of `x`, so the "
        f"first layer skips one product. (Matrix multiplications only, by torch's own counter.)"
    )


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


def added_at_peak(f: Callable[[], object], held: Iterable[Tensor]) -> int:
    """The most bytes that a call of `f` adds to what is held, by torch's allocator on a GPU, else by following them"""
    if device() != "cuda":
        return count(f).peak_bytes - sum(tensor.nbytes for tensor in held)
    f()  # the workspaces of its kernels are allocated by the first call, and stay
    let_autograd_finish()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    f()
    return torch.cuda.max_memory_allocated() - before


def activations_against_the_peak() -> None:
    """Activations, against the measured peak"""
    text(
        "A larger model of this kind, so that activations dominate, at three depths. A training pass and the same "
        "forward pass under `torch.no_grad()`; what they add, at most, to the parameters and the batch that were "
        "there before."
    )
    rows, width = sizes().activation_rows, 64  # @inspect rows @stepover
    one_layer = 4 * rows * width  # bytes of one layer's output @inspect one_layer [B]
    x, y = torch.randn(rows, width).to(device()), torch.randn(rows).to(device())
    trained, inferred, cells = {}, {}, []
    for layers in (4, 8, 16):
        saved_bytes, trained[layers], inferred[layers] = activations_at_depth(layers, x, y)  # @stepover
        assert saved_bytes == layers * one_layer
        assert saved_bytes + one_layer <= trained[layers] < saved_bytes + 1.5 * one_layer
        assert 1.99 * one_layer < inferred[layers] < 2.5 * one_layer
        over = round(trained[layers] / saved_bytes, 3)
        cells.append((layers, layers * one_layer, saved_bytes, trained[layers], over))
    table(cells, ["L", "claimed: BDL, bytes", "counted: saved", "measured: peak", "measured / counted"])
    assert abs(inferred[4] - inferred[16]) < one_layer / 50  # an allocator may round up
    added = {"training": trained, "no_grad": inferred}  # @hide
    curves = {name: [n / 2**20 for n in by_depth.values()] for name, by_depth in added.items()}  # @hide
    plot(curves, x=list(trained), x_label="layers", y_label="MiB at the peak, over what is held")  # @hide
    upstream = (trained[16] - 16 * one_layer) / one_layer  # in layers @inspect upstream
    whose = "torch's allocator" if device() == "cuda" else "following every storage to its end"
    text(
        f"Measured by {whose}. What was saved is the estimate, to the byte. The peak is about {upstream:.2f} layers "
        f"higher, whatever the depth: it comes early in the backward pass, when next to nothing has been freed, and "
        f"the gradient of a layer's output and the first gradients of weights are there too."
    )
    why_inference_takes_less(inferred[16] / one_layer)


def why_inference_takes_less(layers_held: float) -> None:
    """Why a GPU runs models that it can't train"""
    weight = nn.Parameter(torch.randn(64, 64))
    optimizer = optim.AdamW([weight])
    (torch.randn(4, 64) @ weight).square().mean().backward()
    optimizer.step()
    states = [s for s in optimizer.state[weight].values() if s.dim() > 0]
    training = sum(t.nbytes for t in (weight, weight.grad, *states)) / weight.numel()  # @inspect training
    inference = weight.detach().bfloat16().nbytes / weight.numel()  # @inspect inference
    assert training / inference == 8
    text(
        f"Without gradients a forward pass needs a layer's input and output, {layers_held:.1f} layers at any depth. "
        f"That is one reason why a GPU can run a model that it can't train. The other holds before any activation: "
        f"training in fp32 with AdamW takes {training:.0f} bytes per parameter, inference in bf16 {inference:.0f}."
    )


def activations_at_depth(layers: int, x: Tensor, y: Tensor) -> tuple[int, int, int]:
    """Bytes saved, and the most that training and inference add, for a model of so many layers"""
    model = DeepLinear(x.shape[1], layers).to(device())
    held = [x, y, *model.parameters()]
    saved_bytes = sum(t.nbytes for t in saved_by_autograd(lambda: model(x), held))
    trained_bytes = added_at_peak(lambda: training_pass(model, x, y), held)
    with torch.no_grad():
        return saved_bytes, trained_bytes, added_at_peak(lambda: model(x), [x, *model.parameters()])


def training_pass(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """One forward and one backward pass; the gradients are dropped again"""
    nn.functional.mse_loss(model(x), y).backward()
    model.zero_grad()


def what_each_layer_saves() -> None:
    """What each kind of layer saves"""
    layers = {"linear": Linear(64, 64), "ReLU": nn.ReLU(), "sigmoid": nn.Sigmoid()}  # @stepover
    layers |= {"softmax": nn.Softmax(dim=-1), "GELU": nn.GELU(), "SiLU": nn.SiLU(), "identity": nn.Identity()}
    found = {name: saved_by_layer(layer) for name, layer in layers.items()}  # @stepover
    ask(
        "Of which of these functions does autograd have to save the *input*, because the output does not tell the "
        "derivative?",
        next(name for name in ("ReLU", "sigmoid", "GELU") if found[name] == "input"),
        choices=["ReLU", "sigmoid", "GELU"],
        hint="Can you tell from $y$ alone what $dy/dx$ is?",
        slips={
            "ReLU": "Its derivative is 1 where the output is positive, else 0.",
            "sigmoid": "Its derivative is $y(1 - y)$.",
        },
    )
    text(
        "Not every layer needs its input. The derivative of a ReLU can be read off its output, and so can that of a "
        "sigmoid, $y(1 - y)$, or of a softmax. GELU's can't: it falls before it rises, so that two inputs share one "
        "output."
    )
    assert [name for name, saved in found.items() if saved == "input"] == ["linear", "GELU", "SiLU"]
    assert [name for name, saved in found.items() if saved == "output"] == ["ReLU", "sigmoid", "softmax"]
    table(list(found.items()), ["layer", "saves its"])
    text("A ReLU's output is the next layer's input, saved anyway: one tensor a layer. GELU's input is one more.")
    depth = 8
    relus = nn.Sequential(*[Block(64) for _ in range(depth)])  # @stepover
    gelus = nn.Sequential(*[nn.Sequential(Linear(64, 64), nn.GELU()) for _ in range(depth)])  # @stepover
    x = torch.randn(32, 64)
    of_relus = saved_by_autograd(lambda: relus(x), [x, *relus.parameters()])  # @stepover
    of_gelus = saved_by_autograd(lambda: gelus(x), [x, *gelus.parameters()])  # @stepover
    assert {t.shape for t in of_relus + of_gelus} == {x.shape}
    assert (len(of_relus), len(of_gelus)) == (depth, 2 * depth - 1)
    text(
        f"Changing one function takes the activations of {depth} layers from {len(of_relus)} tensors to "
        f"{len(of_gelus)}. (The last layer's output is saved only where it is needed: by the ReLU that made it, or by "
        "what comes next.)"
    )


def saved_by_layer(layer: nn.Module) -> str:
    """Which of a layer's input and output autograd saves"""
    x = torch.randn(32, 64, requires_grad=True)
    results: list[Tensor] = []
    saved = saved_by_autograd(lambda: results.append(layer(x)), layer.parameters())
    names = [name for name, t in (("input", x), ("output", results[0])) if any(shares_storage(t, s) for s in saved)]
    return " and ".join(names) or "nothing"


def batch_size_decides() -> None:
    """The one term that the batch decides"""
    text(
        "The deep linear model, larger, with bf16 parameters and gradients and fp32 AdamW states. For $P$ parameters "
        "and $B$ rows, in bytes:\n\n"
        "$$ 2P + 2P + 8P + 2BDL. $$\n\n"
        "On the `meta` device the tensors have shapes and no memory, and autograd saves them like any other."
    )
    width, layers = 1024, 16
    with torch.device("meta"):
        model = DeepLinear(width, layers).bfloat16()  # @stepover
    states = [torch.zeros_like(w, dtype=torch.float32) for w in model.parameters() for _ in range(2)]
    parameters = sum(w.numel() for w in model.parameters())  # @inspect parameters
    fixed_bytes = sum(2 * w.nbytes for w in model.parameters()) + sum(s.nbytes for s in states)
    assert fixed_bytes == (2 + 2 + 8) * parameters  # @inspect fixed_bytes [B]
    tokens = 64 * 2048  # 64 sequences @inspect tokens
    activation_bytes = {n: saved_on_meta(model, n) for n in (64, 512, 6144, 32768, tokens)}  # @stepover
    assert activation_bytes == {n: 2 * n * width * layers for n in activation_bytes}  # @inspect activation_bytes [B]
    rows_seen = list(activation_bytes)  # @hide
    gib = {"parameters, gradients, states": [fixed_bytes / 2**30] * len(rows_seen)}  # @hide
    gib["activations"] = [n / 2**30 for n in activation_bytes.values()]  # @hide
    plot(gib, x=rows_seen, x_label="rows in the batch", y_label="GiB", x_scale="log", y_scale="log")  # @hide
    assert activation_bytes[512] < fixed_bytes < activation_bytes[32768]
    equal_at = fixed_bytes / (2 * width * layers)  # rows @inspect equal_at
    assert abs(equal_at / (6 * width) - 1) < 1e-3
    text(
        f"They meet where $2BDL = 12D^2L$: at $6D$ rows, {equal_at:.0f} here. A batch of 64 is nothing, "
        f"{activation_bytes[64] / fixed_bytes:.0%} of the rest. But a row is a *token*, and 64 sequences of 2048 "
        f"are {tokens} of them: {activation_bytes[tokens] / 2**30:.0f} GiB of activations over a model that takes "
        f"{fixed_bytes / 2**30:.2f} GiB."
    )
    ask(
        "The same kind of model with $D = 4096$ and any number of layers: from how many tokens in the batch do the "
        "activations weigh more than parameters, gradients and states together?",
        12 * 4096 / 2,
        hint="$2BDL$ against $12D^2L$.",
        slips={4096.0: "At $D$ tokens the activations are a sixth: $2D^2L$ bytes beside $12D^2L$."},
    )


def saved_on_meta(model: DeepLinear, rows: int) -> int:
    """Bytes of activations of a batch that is only a shape"""
    x = torch.empty(rows, model.head.weight.shape[0], dtype=torch.bfloat16, device="meta")
    return sum(t.nbytes for t in saved_by_autograd(lambda: model(x), [x, *model.parameters()]))


def activations_of_a_transformer() -> None:
    """A large Transformer's activations"""
    text(
        "GPT-3's layers save more: for dropout, which sets numbers to zero at random, and attention's scores, $S "
        "\\times S$ numbers per head. Korthikanti et al. add such a layer up, in 16 bits:\n\n"
        "$$ T D \\left( 34 + 5 \\, \\frac{H S}{D} \\right) \\text{ bytes per layer}, $$\n\n"
        "with $H$ heads: 34 is the 16 numbers from above, 2 bytes each, and two masks of dropout (which numbers it "
        "set to zero), 1 byte each; each of the $T H S$ scores takes 5: the softmax's result (2), its mask (1), and "
        "what dropout leaves of it (2). Counted, for a small layer:"
    )
    batch, width, heads = 2, 64, 4
    weights = transformer_weights(width)  # @stepover
    saved, fused, formula = {}, {}, {}  # bytes; fused: attention in one kernel
    for length in (32, 64, 128):
        x = torch.randn(batch, length, width).bfloat16()  # (B, S, D)
        saved[length] = saved_by_gpt_layer(x, weights, heads, attention_in_steps)  # @stepover
        fused[length] = saved_by_gpt_layer(x, weights, heads, attention_in_one)  # @stepover
        formula[length] = activations_of_a_layer(width, heads, batch, length, fused=0)
        assert 0 <= saved[length] - formula[length] <= 16 * length * batch  # means and deviations of two norms
    rows = [(s, formula[s], saved[s], round(saved[s] / formula[s], 4), fused[s]) for s in saved]  # @hide
    table(rows, ["S", "claimed, bytes", "counted: saved", "counted / claimed", "in one kernel"])  # @hide
    assert fused[128] == 2 * fused[64] == 4 * fused[32]
    assert 0 <= fused[128] - activations_of_a_layer(width, heads, batch, 128, fused=1) <= 16 * 128 * batch
    assert saved[128] > 2.5 * saved[64]
    scores = 5 * 96 * 2048 / 12288  # GPT-3: H, S, D @inspect scores
    sequence_bytes = activations_of_gpt_3()  # counted on the meta device @stepover
    sequence_gb = sequence_bytes / 1e9  # @inspect sequence_gb
    assert abs(sequence_gb * 1e9 / (96 * 2048 * 12288 * (34 + scores)) - 1) < 1e-4
    share = scores / (34 + scores)  # @inspect share
    assert (scores, round(share, 2), round(1 / (1 - share), 2)) == (80, 0.7, 3.35)
    text(
        f"In GPT-3's shape the second term is {scores:.0f} beside the 34, {share:.0%} of {sequence_gb:.0f} GB "
        f"for one sequence through all 96 layers, counted on the `meta` device, where tensors have shapes and no "
        f"memory. **FlashAttention** never writes the scores to memory: in the last column, twice the length is twice "
        f"the bytes."
    )
    ask(
        "A layer with $D = 4096$, 32 heads, $S = 4096$, without FlashAttention: what share of its activations are "
        "the scores?",
        5 * 32 / (34 + 5 * 32),
        hint="$5HS/D$ against $34 + 5HS/D$.",
        slips={5 * 32 / 34: "That is the ratio of the two terms. The share is the second over their sum."},
    )
    link(**REFERENCES["selective recomputation"])
    link(**REFERENCES["flash attention"])


def activations_of_a_layer(width: float, heads: float, batch: float, length: float, fused: float) -> float:
    """Bytes that a layer like GPT-3's leaves in 16 bits; fused attention keeps no scores, a sum for each head"""
    scores = 4 * heads if fused > 0 else 5 * heads * length  # fused: the sum in softmax's denominator
    return batch * length * (34 * width + scores)


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
    """That layer is torch's"""
    text("Without dropout it gives what `nn.TransformerEncoderLayer` gives, whichever way attention is computed:")
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
    ask(
        "Each token gets one **logit** for every entry of the vocabulary. Eight sequences of 4096 tokens, Llama 3's "
        "vocabulary of 128256: how many GB of logits, in fp32?",
        4 * 8 * 4096 * 128256 / 1e9,
        unit="GB",
        slips={2 * 8 * 4096 * 128256 / 1e9: "That is in bf16. The loss is computed in fp32."},
    )
    llama_logits = torch.empty(8, 4096, 128256, device="meta")  # (B, S, V)
    assert round(llama_logits.nbytes / 1e9, 1) == 16.8
    text("How many such tensors are there at the peak? A last layer by itself:")
    h, w = torch.randn(64, 16).to(device()), torch.randn(16, 2048).to(device()).requires_grad_()
    target = torch.randint(2048, (64,)).to(device())

    def inline() -> None:
        cross_entropy(h @ w, target).backward()

    def in_a_variable() -> None:
        logits = h @ w  # alive to the end of the function
        cross_entropy(logits, target).backward()

    held_bytes, small_bytes = h.nbytes + w.nbytes + target.nbytes, 4 * 64 * 2048
    copies = {}
    for training_step in (inline, in_a_variable):
        copies[training_step.__name__] = (count(training_step).peak_bytes - held_bytes) / small_bytes  # @stepover
    assert 3 <= copies["inline"] < 3.1  # @inspect copies
    assert 0.99 < copies["in_a_variable"] - copies["inline"] < 1.01
    logits_beside_the_rest(round(copies["in_a_variable"]))  # @stepover @hide
    text(
        f"There are {copies['inline']:.0f}: log-probabilities, their gradient, the gradient of the logits. With "
        f"`logits = model(x)`, as most loops are written, the variable keeps one more. In a small model with a large "
        f"vocabulary that outweighs all else; then the loss is computed for a part of the tokens at a time."
    )
    logits_gb = 4 * 8192 * 50257 * 4 / 1e9  # @hide
    ask(
        'Find the error: *"Our logits are 4 × 8192 × 50257 numbers in fp32, so they need 6.6 GB."* How many GB at the '
        "peak, with `logits = model(x)`?",
        round(copies["in_a_variable"]) * logits_gb,
        unit="GB",
        within=0.03,
        slips={
            round(copies["inline"]) * logits_gb: "The variable `logits` keeps a fourth tensor alive.",
            logits_gb: "The logits alone. The loss and the backward pass make tensors of that size, too.",
        },
    )


def logits_beside_the_rest(copies: int) -> None:
    """GPT-2 small's shape, eight sequences of 1024 tokens: the bytes at the beginning of the backward pass"""
    parts = bytes_by_part(Shape(vocabulary=50_257, context=1024, width=768, layers=12, heads=12, tied=True), batch=8)
    del parts["gradients"]  # none are there yet
    parts["logits"] *= copies
    assert parts["logits"] > sum(parts.values()) / 2
    gigabytes = {"GB": [n / 1e9 for n in parts.values()]}
    names = [f"{part} × {copies}" if part == "logits" else part for part in parts]
    plot(gigabytes, x=names, y_label="GB", style="bars", title="GPT-2 small in fp32, 8 × 1024 tokens, at the peak")


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
            "in the optimizer's step": "The activations are gone by then.",
        },
    )
    first, second, parameter_bytes, state_bytes = two_steps(batch=8)  # @stepover
    draw_timeline(first, second)  # @stepover @hide @cover
    summits = [max(max(phase) for phase in step) for step in (first, second)]  # @inspect summits [B]
    assert [max(step[1]) for step in (first, second)] == summits  # both in the backward pass
    assert first[1].index(summits[0]) < len(first[1]) / 10  # early in it
    assert first[1][-1] - first[0][0] == parameter_bytes  # it leaves the gradients, and nothing else
    assert summits[1] - summits[0] == first[2][-1] - first[1][-1] == state_bytes  # what the optimizer made, and kept
    assert second[2][-1] == second[0][0]  # from now on every step ends where it began
    text(
        "The peak is early in the backward pass. The first step's optimizer allocates its states, "
        f"{state_bytes / 2**20:.2f} MiB, and they stay: by exactly that much the second step peaks higher. **A job "
        "that survives its first step can run out of memory in its second.** After that nothing new comes: run two "
        "steps with the longest sequences before you believe that it fits."
    )


def two_steps_of_a_small_batch() -> None:
    """When the second step is no higher"""
    first, second, parameter_bytes, state_bytes = two_steps(batch=1)  # @stepover
    summits = [[max(phase) for phase in step] for step in (first, second)]  # of each phase @inspect summits [B]
    assert [max(step) for step in summits] == [summits[0][2]] * 2  # the optimizer's, in both
    assert summits[1][1] - summits[0][1] == state_bytes
    text(
        "With one sequence in place of eight the activations are small beside the states. Then the highest point is in "
        "the optimizer, in both steps, and the second step is no higher than the first. So the condition is: the "
        "second step needs more than the first wherever the *backward* pass has the peak."
    )
    ask(
        "Each step begins with `optimizer.zero_grad()`. If it stood behind the forward pass: how many MiB more would "
        "be in use when the second forward pass ends?",
        parameter_bytes / 2**20,
        unit="MiB",
        within=0.02,
        hint="What would still be there while the activations are made?",
        why="The old gradients, as many bytes as the parameters.",
    )


def memory_in_pieces() -> None:
    """Out of memory, with memory to spare"""
    text(
        "A tensor must lie in one piece. Ten tensors of 1 GB fill a piece of 10 GB, and every second one is freed. "
        "Half of it is free then, and there is no room for 2 GB: the memory is **fragmented**."
    )
    used = [block % 2 == 0 for block in range(10)]
    free_gb = used.count(False)  # @inspect free_gb
    pieces = "".join("x" if taken else "." for taken in used).split("x")
    longest_gb = max(len(piece) for piece in pieces)  # @inspect longest_gb
    assert longest_gb < 2 < free_gb
    text(
        "torch keeps freed blocks of a GPU's memory for later, and hands them out in parts, "
        "so sequences of changing length leave such holes. An error that says *reserved but unallocated* with a large "
        "number means them; the allocator's option `expandable_segments` helps. Who holds what, at every moment, is "
        "drawn from a snapshot: `torch.cuda.memory._record_memory_history()`, then `_dump_snapshot(file)`."
    )


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
    """Both steps in one figure, and their phases in a table"""
    curves = {"first step": [*first[0], *first[1], *first[2]], "second step": [*second[0], *second[1], *second[2]]}
    series = {name: (list(range(len(curve))), curve) for name, curve in curves.items()}
    plot(series, x_label="operation", y_label="bytes", style="steps", title="The memory of two training steps")
    cells = []
    for name, step in (("first", first), ("second", second)):
        for phase, alive in zip(("forward", "backward", "optimizer"), step, strict=True):
            mebibytes = [round(n / 2**20, 2) for n in (alive[0], max(alive), alive[-1])]
            cells.append((name, phase, len(alive) - 2, *mebibytes))
    table(cells, ["step", "phase", "operations", "MiB before", "MiB at most", "MiB after"])


def kept_for_backward(model: LanguageModel, inputs: Tensor, targets: Tensor) -> int:
    """Bytes that a forward pass keeps for the backward pass, parameters not among them"""
    saved = saved_by_autograd(lambda: loss_of(model, inputs, targets), model.parameters())
    return sum(tensor.nbytes for tensor in saved)


def memory_of_the_language_model() -> None:
    """The language model's memory"""
    text(
        "Now the language model that is carried through, in fp32 with AdamW. A layer saves **16 numbers for each token "
        "and unit of width**: its norms' inputs (2) and outputs (2), queries, keys and values (3), their mixture (1), "
        "what goes into the GELU (4) and comes out (4)."
    )
    shape, batch = Shape(), 8
    predicted = bytes_by_part(shape, batch)  # @inspect predicted [B] @stepover
    model = LanguageModel(shape)  # @stepover
    train, _ = lecture_tokens()  # @stepover
    inputs, targets = draw_batch(train, batch, shape.context, torch.Generator().manual_seed(0))  # @stepover
    loss_of(model, inputs, targets).backward()  # @stepover
    optimizer = optim.AdamW(model.parameters())
    optimizer.step()
    measured = measured_by_part(model, optimizer, inputs, targets)  # @inspect measured [B] @stepover
    assert measured["activations"] - predicted["activations"] == 4  # the number of targets, one float
    assert all(measured[part] == predicted[part] for part in predicted if part != "activations")
    memory_bars({"predicted": predicted, "measured": measured}, "Where the memory of a step goes")  # @stepover @hide
    share = predicted["activations"] / sum(predicted.values())  # @inspect share
    text(
        f"All was predicted but 4 bytes: the number by which the loss is divided. Activations are {share:.0%} here; "
        f"they and the *logits*, the model's outputs, grow with the tokens $T = BS$ of a batch, the rest does not."
    )
    ask(
        "Such a layer has $12 D^2$ parameters, at 16 bytes, and leaves $4 \\cdot 16 D T$ bytes of activations. With "
        "GPT-3's $D = 12288$: from which $T$ on do the activations outweigh the rest?",
        3 * 12288,
        unit="tokens",
        hint="Solve $16 \\cdot 12 D^2 = 64 D T$ for $T$.",
        why="$T = 3D$. A batch of a large model has millions of tokens, so what section 14 teaches is not optional.",
        slips={12288: "At $T = D$ the activations are a third of the rest: $64 D^2$ beside $192 D^2$."},
    )


def saved_under(
    model: Callable[[Tensor], Tensor], weights: Iterable[Tensor], x: Tensor, dtype: torch.dtype | None
) -> tuple[int, int]:
    """The bytes of activations, and of copies of weights, that a forward pass saves; `dtype` for autocast"""
    weights = list(weights)
    with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        saved = saved_by_autograd(lambda: model(x), weights)
    shapes = {shape for w in weights for shape in (w.shape, w.shape[::-1])}
    copies = sum(t.nbytes for t in saved if t.shape in shapes)
    return sum(t.untyped_storage().nbytes() for t in saved) - copies, copies


def what_autocast_keeps() -> None:
    """What stays in fp32, and what shrinks"""
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())
    x = torch.randn(512, 64, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(x)  # @inspect y.dtype
    y.float().square().mean().backward()  # outside: backward runs each operation in the dtype of its forward
    assert y.dtype == torch.bfloat16
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}
    text(
        "Under autocast (section 12) the parameters stay in fp32. What it makes smaller is what is saved for the "
        "backward pass:"
    )
    saved_in_fp32, no_copies = saved_under(model, model.parameters(), x, None)  # @stepover
    saved_in_bf16, copies = saved_under(model, model.parameters(), x, torch.bfloat16)  # @stepover
    assert saved_in_fp32 == 4 * (4 * x.numel())  # two inputs of layers, two of GELUs @inspect saved_in_fp32 [B]
    assert saved_in_bf16 == saved_in_fp32 / 2  # @inspect saved_in_bf16 [B]
    weights = sum(p.numel() for p in model.parameters() if p.dim() == 2)
    assert (no_copies, copies) == (0, 2 * weights)  # @inspect copies [B]
    text("Here, half. In a Transformer layer less is gained. A layer of GPT-3's kind, with fp32 weights:")
    layer_weights = {name: w.detach().float().requires_grad_() for name, w in transformer_weights(256).items()}
    layer = partial(gpt_layer, weights=layer_weights, heads=8, attend=attention_in_one)
    x = torch.randn(2, 96, 256, requires_grad=True)  # (B, S, D)
    plain, _ = saved_under(layer, layer_weights.values(), x, None)  # @stepover
    cast, layer_copies = saved_under(layer, layer_weights.values(), x, torch.bfloat16)  # @stepover
    ratio = cast / plain  # @inspect ratio
    assert 0.52 < ratio < 0.7
    assert layer_copies == 2 * sum(w.numel() for w in layer_weights.values() if w.dim() == 2)
    text(
        f"{ratio:.2f} of the bytes: the sum that each layer adds to, the *residual stream*, and what the norms save "
        f"stay in fp32, and masks have one byte in either case. The bf16 copies of the weights come on top while they "
        f"are saved."
    )
    text(
        "It does not shrink parameters: with a master there are 4 bytes of it and 2 of a copy, where fp32 has 4. "
        "`model.bfloat16()` does shrink everything, but bf16 weights without a master are not this recipe: the updates "
        "vanish."
    )
    ask(
        "A colleague switches from fp32 to bf16 parameters and gradients with fp32 master weights and AdamW states. "
        "How many bytes per parameter are saved, activations apart?",
        (4 + 4 + 8) - (2 + 2 + 4 + 8),
        within=0,
        hint="Add up parameters, gradients, master and states on both sides.",
        slips={4: "The master weights are 4 more.", 8: "The states stay in fp32."},
    )


# ---------------------------------------------------------------------------------------------------------
# 14 Using less memory


def using_less_memory() -> None:
    """Using less memory"""
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    found = strategies_at(36)  # @stepover @hide
    (plain_peak, plain_passes), (peak, passes) = found["all"], found["every √L-th"]  # @hide
    text(
        f"After this section you can fit a batch that does not fit: by **gradient accumulation** (the batch in smaller "
        f"pieces), by **activation checkpointing** (forget, and compute again), or by another way, chosen by the term "
        f"of section 13 that is the largest. The key figure: 36 layers of which every sixth keeps its input need "
        f"**{plain_peak / peak:.1f} times less** memory for **{passes / plain_passes - 1:.0%}** more FLOPs."
    )
    note(
        "Ten minutes. Accumulation first, because it costs no FLOPs; then let them guess what a checkpoint costs. "
        "The map at the end is for questions."
    )
    gradient_accumulation()
    why_large_batches()  # @deeper
    activations_of_a_micro_batch()  # @deeper
    what_accumulation_saves_and_costs()  # @deeper
    traps_of_accumulation()  # @deeper
    activation_checkpointing()
    memory_against_recomputation()
    what_fits()
    checkpointing_a_block()  # @deeper
    time_of_recomputing()  # @deeper
    traps_of_checkpointing()  # @deeper
    selective_recomputation()  # @deeper
    zero_stages()
    all_reduce_in_a_ring()  # @deeper
    traffic_of_the_stages()  # @deeper
    map_of_the_rest()
    low_rank_adaptation()  # @deeper
    cache_that_grows()  # @deeper
    text(
        "**In three lines.**\n\n1. Micro-batches divide the activations and leave the FLOPs and the gradient as they "
        "are, if the loss is a mean over rows that do not affect each other.\n2. A checkpoint trades a segment's "
        "activations for one more forward pass through it; every $\\sqrt L$-th layer makes the memory $O(\\sqrt "
        "L)$.\n3. Ask first which of the terms is the largest: only that one is worth making smaller."
    )


def gradient_accumulation() -> None:
    """Gradient accumulation"""
    text(
        "`backward()` *adds* to `.grad`; that is why there is a `zero_grad()`. So a batch can be worked on in equal "
        "**micro-batches**: a backward pass for each, and one step of the optimizer at the end. Only one micro-batch's "
        "activations are in memory at a time."
    )
    ask(
        "The batch comes in `pieces` equal micro-batches, and `loss` is the mean over one of them. Write the line that "
        "adds its gradient, so that the sum is the gradient of the whole batch's mean.",
        "(loss / pieces).backward()",
        why="The batch's mean is the mean of the means. Without the division the gradient is `pieces` times too large.",
    )
    shape, batch = Shape(), 8
    model = LanguageModel(shape)  # @stepover
    train, _ = lecture_tokens()  # @stepover
    inputs, targets = draw_batch(train, batch, shape.context, torch.Generator().manual_seed(0))  # @stepover

    def step(pieces: int) -> None:
        for x, y in zip(inputs.chunk(pieces), targets.chunk(pieces), strict=True):
            (loss_of(model, x, y) / pieces).backward()

    whole = gradients_of(model, lambda: step(1))  # @stepover
    rows, flops = [], []
    for pieces in (1, 2, 4):
        kept = kept_for_backward(model, inputs.chunk(pieces)[0], targets.chunk(pieces)[0])  # @stepover
        predicted = bytes_by_part(shape, batch // pieces)  # @stepover
        assert kept == predicted["activations"] + predicted["logits"] + 4  # the number of targets, one float
        gradients = gradients_of(model, partial(step, pieces))  # @stepover
        flops.append(count(partial(step, pieces)).flops_by_operator["aten.mm"])  # @stepover
        rows.append((pieces, kept, relative_difference(gradients, whole)))  # @stepover
    table(rows, ["micro-batches", "activations and logits, bytes", "gradients differ by"])  # @hide
    assert len(set(flops)) == 1
    assert rows[2][1] < rows[0][1] / 3.9
    assert max(row[2] for row in rows) < 1e-6
    text(
        "The gradient is the same up to rounding (sums of floats depend on their order), and so are the FLOPs. The "
        "price is bytes: weights and gradients are read again for each micro-batch."
    )
    ask(
        "A batch of 64 sequences would leave 32 GB of activations, and 10 GB are free. What is the largest "
        "micro-batch that divides 64 and fits?",
        max(rows for rows in (1, 2, 4, 8, 16, 32, 64) if 32e9 * rows / 64 <= 10e9),
        within=0,
        slips={20: "20 sequences would fit, but 20 does not divide 64.", 32: "Half of 32 GB is 16 GB."},
    )
    ask(
        "Find the error. Parts of 48 and 16 rows: `loss = (mse(part_1) + mse(part_2)) / 2`, then `loss.backward()`.",
        "each row of the short part counts three times as much",
        choices=[
            "the sum must not be divided",
            "each row of the short part counts three times as much",
            "there must be two backward passes",
        ],
        hint="By what is a row's squared error divided in each part?",
        why="Sequences of different length do this in every batch: weight each loss by its number of counted tokens.",
        slips={
            "the sum must not be divided": "Then the gradient is about twice too large, and still weighted wrongly.",
            "there must be two backward passes": "One through the sum gives the same gradient.",
        },
    )


def why_large_batches() -> None:
    """Why large batches at all?"""
    text(
        "For the machine: the weights are read once for all rows of a batch, so the intensity of $x \\cdot w$ in bf16 "
        "is $2BD^2$ FLOPs over $2(D^2 + 2BD)$ bytes, about $B$ while $B$ is small. For the mathematics: the gradient "
        "of a batch is an average, and its standard deviation falls as $1/\\sqrt B$."
    )
    width = 512
    w = torch.randn(width, width).bfloat16()
    intensities = {}  # FLOP/byte
    for rows in (1, 32, 512):
        x = torch.randn(rows, width).bfloat16()
        intensities[rows] = count(torch.matmul, x, w).intensity
        assert intensities[rows] == rows * width / (width + 2 * rows)
    noise = {}  # the standard deviation of a gradient over 200 batches
    for rows in (4, 64):
        x, error = torch.randn(200, rows, 16), torch.randn(200, rows, 1)
        gradients = (2 * x * error).mean(dim=1)  # (200, 16), of the mean squared error of x · w
        noise[rows] = gradients.std(dim=0).mean().item()  # @inspect intensities noise
    calmer = noise[4] / noise[64]  # @inspect calmer
    assert abs(calmer / math.sqrt(64 / 4) - 1) < 0.1
    text(
        f"Sixteen times the rows, and only {calmer:.1f} times less noise. So the size of a batch is chosen for the "
        f"optimization (4 to 16 million tokens for Llama 3's 405B), and the machine works on as much of it at once as "
        f"fits. These need not be the same number."
    )
    link(**REFERENCES["llama 3"])


def activations_of_a_micro_batch() -> None:
    """The arithmetic of a micro-batch"""
    batch, width, layers = 64, 1024, 16
    with torch.device("meta"):
        model = DeepLinear(width, layers).bfloat16()  # @stepover
    whole_bytes = 2 * batch * width * layers  # @inspect whole_bytes [B]
    assert whole_bytes == saved_on_meta(model, batch) == 2 * 2**20  # @stepover
    micro_bytes = {rows: saved_on_meta(model, rows) for rows in (64, 16, 4, 1)}  # @inspect micro_bytes [B] @stepover
    assert micro_bytes == {rows: whole_bytes * rows // batch for rows in micro_bytes}
    text(
        f"The deep linear model of section 8, {layers} layers of width {width} in bf16, a batch of {batch} rows: "
        f"{whole_bytes / 2**20:.0f} MiB of activations. They scale with the rows that are worked on *at once*: "
        f"{micro_bytes[4] / 2**20:.3f} MiB for a micro-batch of 4."
    )


def activation_checkpointing() -> None:
    """Activation checkpointing"""
    text(
        "Do not save what can be computed again. `torch.utils.checkpoint` runs a function and saves nothing but its "
        "input; when the backward pass arrives there, it runs the function once more, saves, and goes on. The "
        "language model does so for each of its layers if `recompute` is set (`use_reentrant=False` chooses the newer "
        "of torch's two ways)."
    )
    ask(
        "With a checkpoint for each layer, how many times the FLOPs of a step is that, at most?",
        4 / 3,
        hint="Forward 2, backward 4.",
        why="$(2 + 2 + 4) / (2 + 4)$, if everything were computed again.",
        slips={
            2: "Only the forward pass is done twice, and it is a third of the work.",
            1.5: "The forward pass is a third of the FLOPs, not half.",
        },
    )
    shape, batch = Shape(), 8
    model = LanguageModel(shape)  # @stepover
    train, _ = lecture_tokens()  # @stepover
    inputs, targets = draw_batch(train, batch, shape.context, torch.Generator().manual_seed(0))  # @stepover
    step = partial(backward_of, model, inputs, targets)
    plain_gradients, plain = gradients_of(model, step), count(step)  # @stepover
    model.recompute = True
    gradients, again = gradients_of(model, step), count(step)  # @stepover
    assert torch.equal(gradients, plain_gradients)
    more = again.flops / plain.flops  # @inspect more
    assert 1.15 < more < 4 / 3
    peaks = [plain.peak_bytes, again.peak_bytes]  # @inspect peaks [B]
    kept = kept_for_backward(model, inputs, targets)  # @inspect kept [B] @stepover
    tokens = batch * shape.context
    layer_inputs, around = 4 * shape.layers * tokens * shape.width, 4 * tokens * (2 * shape.width + 2) + 16 * tokens
    predicted = bytes_by_part(shape, batch) | {"activations": layer_inputs + around}  # @stepover
    assert kept == predicted["activations"] + predicted["logits"] + 4
    bars_of_less_memory(model, inputs, targets, predicted)  # @stepover @hide
    text(
        f"The gradients are the same to the bit: the same operations ran on the same numbers. What stays is each "
        f"layer's input and what is behind the last one: the bars count that. While a layer is computed again, all of "
        f"it is there, too, so the peak falls by less: without the optimizer's states from {peaks[0] / 2**20:.1f} to "
        f"{peaks[1] / 2**20:.1f} MiB. The FLOPs are {more:.3f} times as many, not 4/3: the second run of a layer stops "
        f"as soon as the last tensor that is needed is there, before its last product."
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
    memory_bars(bars, "A step by part: predicted, and ✓ measured")


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


def counted_flops(f: Callable[[], object]) -> int:
    """FLOPs of the matrix multiplications in a call"""
    return count(f).flops_by_operator["aten.mm"]


def what_accumulation_saves_and_costs() -> None:
    """What it saves, and what it costs"""
    rows, width, layers = sizes().activation_rows, 64, 4  # @inspect rows @stepover
    model = DeepLinear(width, layers).to(device())  # @stepover
    x, y = torch.randn(rows, width).to(device()), torch.randn(rows).to(device())
    accumulate(model, x, y, rows)  # the gradients are there from now on @stepover
    held = [x, y, *model.parameters(), *(w.grad for w in model.parameters())]
    cells, peaks = [], {}
    for micro_batch in (rows, rows // 4, rows // 16):
        napkin = 4 * micro_batch * width * layers
        saved = saved_by_autograd(partial(model, x[:micro_batch]), held)  # @stepover
        assert sum(t.nbytes for t in saved) == napkin
        peaks[micro_batch] = added_at_peak(partial(accumulate, model, x, y, micro_batch), held)  # @stepover
        cells.append((micro_batch, napkin, sum(t.nbytes for t in saved), peaks[micro_batch]))
    table(cells, ["micro-batch", "claimed: BDL, bytes", "counted: saved", "measured: peak"])
    kib = {"peak": [n / 2**10 for n in peaks.values()]}  # @hide
    plot(kib, x=list(peaks), x_label="rows in a micro-batch", y_label="KiB over what is held")  # @hide
    saving = peaks[rows] / peaks[rows // 16]  # @inspect saving
    assert 8 < saving <= 16.5
    text(
        f"A sixteenth of the batch at once, and the peak falls by a factor of {saving:.1f}. What does not shrink are "
        f"the gradients of the weights, made anew for each micro-batch before they are added."
    )
    price_of_small_pieces()  # @deeper


def price_of_small_pieces() -> None:
    """The price of small pieces"""
    width, rows = sizes().step_width, sizes().step_batch  # @inspect width rows @stepover
    model = DeepLinear(width, 2).to(device())  # @stepover
    x, y = torch.randn(rows, width).to(device()), torch.randn(rows).to(device())
    accumulate(model, x, y, rows)  # @stepover
    moved = [count(partial(accumulate, model, x, y, rows // n)).bytes_moved for n in (1, 2, 4)]  # @inspect moved [B]
    of_weights = moved[1] - moved[0]  # bytes per micro-batch that do not depend on its rows
    assert abs((moved[2] - moved[0]) / (3 * of_weights) - 1) < 0.01
    text(
        f"The price is not FLOPs but bytes: weights and gradients are read again for each micro-batch. At width "
        f"{width}, four micro-batches move {moved[2] / moved[0]:.1f} times the bytes of one; each adds the same amount."
    )
    whole, quarters = (  # @stepover
        measure(partial(accumulate, model, x, y, rows // n), repeats=5, min_seconds=0.05, max_seconds=0.3)
        for n in (1, 4)
    )
    ratios = [long / short for long, short in zip(quarters.samples_s, whole.samples_s, strict=False)]
    longer = statistics.median(ratios)  # @inspect longer
    decide(
        ratios,
        than=(0.9, 1.1),
        above=f"In time, four micro-batches of {rows // 4} rows take {longer:.2f} times as long here as one of {rows}.",
        below=f"In time, four micro-batches of {rows // 4} rows are faster here than one of {rows}: {longer:.2f}.",
        undecided="In time it makes no difference here that the samples agree on.",
    )


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
        f"{errors[48]:.0%} off, and no error message. Language models meet this in every batch: sequences differ in "
        f"length, padding does not count, so the number of *counted tokens* differs from micro-batch to micro-batch, "
        f"and the loss has to be weighted by it."
    )
    rows_that_affect_each_other(x, y)
    text("**A micro-batch larger than the batch**, say 256 rows of a batch of 64. Nothing fails:")
    parts = x.split(256)  # @inspect len(parts)
    assert (len(parts), len(parts[0])) == (1, 64)
    text("There is one part, all 64 rows, and nothing is saved.")


def rows_that_affect_each_other(x: Tensor, y: Tensor) -> None:
    """Rows that affect each other"""
    text(
        "BatchNorm subtracts the mean of *the rows it sees*, so in micro-batches it "
        "is another function; a contrastive loss, which compares rows, would be another one, too. LayerNorm looks at "
        "one row at a time:"
    )
    off = {}
    for norm in (nn.BatchNorm1d(64), nn.LayerNorm(64)):
        model = nn.Sequential(nn.Linear(64, 64), norm, nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
        whole = gradients_of(model, partial(accumulate, model, x, y, 64))  # @stepover
        pieces = gradients_of(model, partial(accumulate, model, x, y, 16))  # @stepover
        off[type(norm).__name__] = relative_difference(pieces, whole)  # @inspect off @stepover
    assert off["LayerNorm"] < 1e-6 < 0.05 < off["BatchNorm1d"]
    text(
        f"With BatchNorm the gradient of four micro-batches is {off['BatchNorm1d']:.0%} off. Dropout draws other "
        f"masks, which changes the gradient as another seed would."
    )


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
        "Eight blocks, a linear layer and a GELU each. Each product ran once more, and no GELU did: the second run "
        "stops as soon as all that is needed is there. A checkpointed function must do the same thing twice: no "
        "counters, no side effects. (`use_reentrant=False` is the current implementation; the old one misses cases.)"
    )
    blocks, x = gelu_blocks(16, 9), torch.randn(32, 16)  # @stepover
    gradients = [gradients_of(blocks, partial(backward_keeping, blocks, x, keep)) for keep in KEPT]  # @stepover
    assert max(relative_difference(other, gradients[0]) for other in gradients) < 1e-6  # whichever way @stepover


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
        "Four answers for $L$ blocks (a layer and its GELU each):\n\n"
        "- Keep **all**: $O(L)$ memory, in proportion to $L$.\n"
        "- Keep **each block's input**: still $O(L)$, with a smaller constant, for one extra forward pass.\n"
        "- Keep **every $\\sqrt L$-th** input, where a *segment* of $\\sqrt L$ blocks begins, and all of one segment "
        "while the backward pass is in it: $O(\\sqrt L)$, for one extra forward pass, as before.\n"
        "- Keep **nothing**, and compute each block's input from the start: $O(1)$ memory, and $O(L^2)$ compute."
    )
    draw_what_is_kept(36)  # @stepover @hide
    depths = (4, 9, 16, 36)
    found = {layers: strategies_at(layers) for layers in depths}  # @stepover
    peaks = {keep: [found[n][keep][0] for n in depths] for keep in KEPT}  # KEPT: the four; in bytes of a layer's output
    flops = {keep: [found[n][keep][1] for n in depths] for keep in KEPT}  # in FLOPs of a layer's forward pass
    assert flops["all"] == [3 * n - 1 for n in depths]  # nobody asks for the gradient of x
    assert flops["each block"] == flops["every √L-th"] == [4 * n - 1 for n in depths]
    assert flops["nothing"] == [n * (n - 1) // 2 + 4 * n for n in depths]
    plot(peaks, x=depths, x_label="L", y_label="peak, in outputs of a layer", x_scale="log", y_scale="log")  # @hide
    growth = {name: peak[-1] / peak[0] for name, peak in peaks.items()}  # for 9 times the layers @inspect growth
    assert growth["all"] > 7.5 > growth["each block"] > 5 > growth["every √L-th"] > 2 > 1.2 > growth["nothing"]
    what_the_strategies_cost()
    link(**REFERENCES["sublinear"])


def what_fits() -> None:
    """What fits"""
    text(
        "`training_memory` adds it all up for a Transformer of your own, with heads of width 128: 16 bytes for each "
        "parameter, the layers' activations of section 13, and three tensors like the logits. If only the input of "
        "each block is kept (`checkpointed=1`), one layer's other activations are there at a time, and by then the "
        "logits are gone: the larger of the two counts. First GPT-3's layers on one sequence, then any model:"
    )
    shape = {"layers": 96, "width": 12288, "vocabulary": 50257}
    gpt_3 = training_memory(**shape, batch=1, length=2048, fused=0, checkpointed=0, memory=H100_MEMORY)
    assert math.isclose(gpt_3["activations"], activations_of_gpt_3(), rel_tol=1e-4)  # @inspect gpt_3 @stepover
    assert round(gpt_3["billions"]) == 175 and round(gpt_3["logits"] / 1e9, 2) == 1.24 and not gpt_3["fits"]  # @hide
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
            "kept": {
                "every activation": {"fused": 0, "checkpointed": 0},
                "none of the scores: fused attention": {"fused": 1, "checkpointed": 0},
                "each block's input": {"fused": 1, "checkpointed": 1},
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
        units={name: "B" for name in ("model", "logits", "activations", "total", "apart", "memory")}
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
    fused: float,
    checkpointed: float,
    memory: float,
) -> dict[str, float]:
    """What a step of a GPT holds at its peak: 16 bytes a parameter, logits, activations"""
    parameters = 12 * layers * width * width + vocabulary * width
    one = activations_of_a_layer(width, width / 128, batch, length, fused)
    inputs = layers * 2 * batch * length * width
    logits = 3 * 4 * batch * length * vocabulary
    # One layer is computed again when the logits are gone, in their place; only what is larger than they is added.
    activations = inputs + max(one - logits, 0) if checkpointed > 0 else layers * one
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
    plot(figure, title=f"{layers} blocks, when the backward pass begins")


@cache
def strategies_at(layers: int) -> dict[str, tuple[float, int]]:
    """For each strategy: the peak, in units of one layer's output; matmul FLOPs, in units of its forward pass"""
    rows, width = sizes().activation_rows, 16
    blocks, x = gelu_blocks(width, layers).to(device()), torch.randn(rows, width).to(device())
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
    layers, root = 36, 6
    found = strategies_at(layers)  # @stepover
    claimed = {"all": (2 * layers, 3 * layers), "each block": (layers, 4 * layers)}  # peak and FLOPs
    claimed |= {"every √L-th": (3 * root, 4 * layers), "nothing": (5, layers * (layers - 1) // 2 + 4 * layers)}
    rows = []
    for name, (peak, passes) in found.items():
        peak_claimed, passes_claimed = claimed[name]
        assert 0.85 < peak / peak_claimed < 1.25
        assert 0.98 < passes / passes_claimed < 1.2
        rows.append((name, peak_claimed, round(peak, 2), passes_claimed, passes))
    columns = ["keep", "peak: claimed", "measured", "FLOPs: claimed", "counted"]  # @hide
    table(rows, columns, title=f"{layers} blocks: peaks in outputs of a layer, FLOPs in its forward passes")  # @hide
    fewer, more = found["all"][0] / found["every √L-th"][0], found["every √L-th"][1] / found["all"][1]
    assert 5 > fewer > 3 > 1.4 > more > 1.3  # @inspect fewer more
    text(
        "A block here (a linear layer and a GELU) saves two tensors, so keeping all takes $2L$. Every $\\sqrt L$-th: "
        "$\\sqrt L$ inputs, and two tensors for each block of the segment at work, $3\\sqrt L$. Keeping nothing takes "
        "five at any depth: a block's input, inner result and output, and two gradients."
    )
    ask(
        "Segments of $k$ blocks need $L/k + 2k$ tensors. Derive the best $k$ for $L = 72$.",
        math.sqrt(72 / 2),
        hint="Set the derivative, $-L/k^2 + 2$, to zero.",
        slips={math.sqrt(72): "$\\sqrt L$ would be best if a block saved one tensor; here it saves two."},
    )


def time_of_recomputing() -> None:
    """The same in time"""
    width, rows = sizes().step_width, sizes().step_batch // 2  # @inspect width rows @stepover
    blocks, x = gelu_blocks(width, 4).to(device()), torch.randn(rows, width).to(device())  # @stepover
    ways = [partial(gradients_through, blocks, x, length) for length in (None, 1)]  # plainly, and in segments
    flops = [counted_flops(way) for way in ways]  # @stepover
    assert flops[1] / flops[0] == (4 * 4 - 1) / (3 * 4 - 1)
    timings = [measure(way, repeats=5, min_seconds=0.05, max_seconds=0.3) for way in ways]  # @stepover
    ratios = [long / short for long, short in zip(timings[1].samples_s, timings[0].samples_s, strict=False)]
    longer = statistics.median(ratios)  # @inspect longer
    counted = flops[1] / flops[0]  # @inspect counted
    decide(
        ratios,
        than=(0.85 * counted, 1.15 * counted),
        above=f"In time, at width {width}, it is {longer:.2f} times as long here: more than the FLOPs, {counted:.2f}.",
        below=f"In time, at width {width}, it is {longer:.2f} times as long here: less than the FLOPs, {counted:.2f}.",
        undecided=(
            f"In time, at width {width}, it is {longer:.2f} times as long here, beside {counted:.2f} in FLOPs. The "
            f"samples don't all agree that it is beyond these by 15%."
        ),
    )


def traps_of_checkpointing() -> None:
    """Traps of checkpointing"""
    text(
        "**ReLU stacks, a checkpoint around each block.** The block's input, which is kept, is all it would have saved:"
    )
    rows, width, layers = 512, 16, 16
    x = torch.randn(rows, width)
    blocks = nn.ModuleList([Block(width) for _ in range(layers)])  # @stepover
    plain, each = (count(gradients_through, blocks, x, length) for length in (None, 1))  # @stepover
    saved = 1 - each.peak_bytes / plain.peak_bytes  # @inspect saved
    assert abs(saved) < 0.01
    more_flops = each.flops_by_operator["aten.mm"] / plain.flops_by_operator["aten.mm"] - 1  # @inspect more_flops
    assert 1 / 3 <= more_flops < 0.36
    text(
        f"{saved:.1%} of the memory saved, for {more_flops:.0%} more FLOPs. A block worth a checkpoint saves much more "
        f"than its input: with a GELU, with several layers, with attention."
    )
    text(
        "**One checkpoint around the whole network.** It keeps one input, and then the backward pass computes all "
        "again:"
    )
    blocks = gelu_blocks(width, layers)  # @stepover
    plain, whole = (count(gradients_through, blocks, x, length) for length in (None, layers))  # @stepover
    ratio = whole.peak_bytes / plain.peak_bytes  # @inspect ratio
    assert 0.99 < ratio < 1.1
    assert whole.flops_by_operator["aten.mm"] > 1.3 * plain.flops_by_operator["aten.mm"]
    text("The peak has only moved, into the backward pass, behind the second forward pass in it.")
    dropout_in_a_checkpoint()


def gradients_through(blocks: nn.ModuleList, x: Tensor, length: int | None) -> tuple[Tensor, ...]:
    """A forward and backward pass, in checkpointed segments of so many blocks, or plainly"""
    y = run_blocks(blocks, x) if length is None else run_in_segments(blocks, x, length)
    return torch.autograd.grad(y.sum(), list(blocks.parameters()))


def dropout_in_a_checkpoint() -> None:
    """Randomness, twice the same"""
    text(
        "**Dropout** draws random numbers, and the second run has to draw the same ones. By default, `checkpoint` "
        "saves the generators' states and puts them back. With `preserve_rng_state=False` it does not:"
    )
    block = nn.Sequential(Linear(16, 16), nn.Dropout(0.5), nn.GELU(), Linear(16, 16))  # @stepover
    x = torch.randn(8, 16)
    torch.default_generator.manual_seed(1)
    plain = gradients_of(block, block(x).square().sum().backward)  # @stepover
    gradients = {}
    for preserve in (True, False):
        torch.default_generator.manual_seed(1)
        y = checkpoint(block, x, use_reentrant=False, preserve_rng_state=preserve)
        gradients[preserve] = gradients_of(block, y.square().sum().backward)  # @stepover
    assert torch.equal(gradients[True], plain)
    error = relative_difference(gradients[False], plain)  # @inspect error @stepover
    assert error > 0.1
    text(f"Then forward and backward pass belong to different networks, and the gradient is {error:.0%} off.")


def selective_recomputation() -> None:
    """Forgetting what is cheap"""
    text(
        "**Selective recomputation** forgets what is large and cheap: in a Transformer, the $S \\times S$ scores, "
        "their softmax and dropout, the second term of section 13's formula. In the layer of that section, with a "
        "checkpoint around attention only, what is alive after the forward pass, per $S \\cdot B \\cdot D$:"
    )
    batch, length, width, heads = 2, 128, 64, 4
    weights = transformer_weights(width)  # @stepover
    x = torch.randn(batch, length, width).bfloat16().requires_grad_()  # (B, S, D)
    saved = alive_after_gpt_layer(x, weights, heads, attention_in_steps)  # @inspect saved @stepover
    recomputed = alive_after_gpt_layer(x, weights, heads, recomputed_attention)  # @inspect recomputed @stepover
    with_scores = 34 + 5 * heads * length / width  # @inspect with_scores
    output = 2  # bytes: it is alive as well
    assert abs(saved - (with_scores + output)) < 0.2
    assert abs(recomputed - (34 + output)) < 0.2
    scores = 5 * 96 * 2048 / 12288  # in GPT-3's shape @inspect scores
    memory_share = scores / (34 + scores)  # @inspect memory_share
    layer, twice, one_product = flops_of_recomputed_attention()  # @inspect layer [FLOP] @stepover
    assert twice - layer == one_product  # @inspect one_product [FLOP]
    by_the_paper = 3 * 2 * one_product / layer  # 12BS²D: its equation 8 less its equation 7 @inspect by_the_paper
    assert round(by_the_paper, 3) == 0.027
    text(
        f"In GPT-3's shape that is {memory_share:.0%} of the activations, for {twice / layer - 1:.2%} more FLOPs, "
        f"counted: of attention's two products, $2BS^2D$ each, only one runs again, because the second run stops once "
        f"the backward pass has all it needs. Both would be {2 * one_product / layer:.1%}. The paper says 2.7%: its "
        f"appendix names these two products, and its equation 8 then adds three times their sum."
    )
    text(
        "**FlashAttention** computes the scores in pieces that never leave the chip, and again in the backward pass, "
        "so that bytes are saved at every level."
    )


def flops_of_recomputed_attention() -> tuple[int, int, int]:
    """Training FLOPs of a layer of GPT-3's shape, the same with attention computed again, and one product of scores"""
    batch, length, width, heads = 2, 2048, 12288, 96
    with torch.device("meta"):
        weights = transformer_weights(width)
        x = torch.empty(batch, length, width, dtype=torch.bfloat16, requires_grad=True)
    layer, twice = (
        training_flops(gpt_layer, x, weights, heads, attend) for attend in (attention_in_steps, recomputed_attention)
    )
    return layer, twice, 2 * batch * length * length * width


def alive_after_gpt_layer(x: Tensor, weights: dict[str, Tensor], heads: int, attend: Callable[..., Tensor]) -> float:
    """Bytes alive after the forward pass, its input and output among them, per number of the input"""
    results: list[Tensor] = []
    alive = bytes_alive(weights.values(), lambda: results.append(gpt_layer(x, weights, heads, attend)))[0]
    return (alive[-1] - alive[0]) / x.numel()


def recomputed_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention whose scores are computed again in the backward pass"""
    return checkpoint(attention_in_steps, query, key, value, use_reentrant=False)


def low_rank_adaptation() -> None:
    """Training less: LoRA"""
    text(
        "To adapt a model that is trained already, its matrices can be frozen, and beside each a product of two thin "
        "ones, $D \\times r$ and $r \\times D$, trained. Only those have gradients and states."
    )
    width, rank = 256, 8
    frozen = torch.randn(width, width) / math.sqrt(width)
    down = (torch.randn(width, rank) / math.sqrt(width)).requires_grad_()
    up = torch.zeros(rank, width, requires_grad=True)  # zero: training begins at the old model
    x = torch.randn(64, width, requires_grad=True)  # it comes from another such layer
    optimizer = optim.AdamW([down, up])
    step = count(lambda: (x @ frozen + x @ down @ up).square().mean().backward())  # @stepover
    optimizer.step()
    states = [s for held in optimizer.state.values() for s in held.values() if s.dim() > 0]
    trained_bytes = sum(t.nbytes for t in (down, up, down.grad, up.grad, *states))  # @inspect trained_bytes [B]
    assert trained_bytes == 16 * rank * 2 * width
    ratio = (frozen.nbytes + trained_bytes) / (16 * width**2)  # of all that full training holds @inspect ratio
    flops_ratio = step.flops_by_operator["aten.mm"] / (6 * 64 * width**2)  # @inspect flops_ratio
    assert ratio == 1 / 4 + 2 * rank / width
    assert 2 / 3 < flops_ratio < 0.8
    text(
        f"Rank {rank} beside width {width} takes {ratio:.0%} of the bytes of full training: the frozen parameters, and "
        f"not much else. Compute falls to {flops_ratio:.0%}, because the frozen matrix needs no gradient of its own; "
        f"it still has to pass gradients *through*, and the activations stay."
    )
    link(**REFERENCES["lora"])


def ring_all_reduce(held: list[list[Tensor]], turns: int | None = None) -> int:
    """Workers in a ring, each with a gradient in as many chunks: all end with the sum. Returns what each one sent"""
    n, sent = len(held), 0
    for turn in range(2 * (n - 1) if turns is None else turns):
        for worker in range(n):
            chunk, neighbour = (worker - turn) % n, held[(worker + 1) % n]
            if turn < n - 1:  # reduce-scatter: sums travel and grow
                neighbour[chunk] = neighbour[chunk] + held[worker][chunk]
            else:  # all-gather: finished sums go round
                neighbour[chunk] = held[worker][chunk]
        sent += held[0][0].numel()
    return sent


def all_reduce_in_a_ring() -> None:
    """What data parallelism sends"""
    text(
        "How many numbers does each GPU send in an **all-reduce** of the gradients? Not $n$ times the gradient. The "
        "GPUs stand in a ring, the gradient is cut into $n$ chunks, and each GPU sends one chunk at a time to its "
        "neighbour:"
    )
    workers, parameters = 4, 1024
    gradients = torch.randint(-9, 10, (workers, parameters)).float()  # whole numbers: sums are exact
    held = [list(gradient.chunk(workers)) for gradient in gradients]
    sent = ring_all_reduce(held)  # @inspect sent @stepover
    results = torch.stack([torch.cat(chunks) for chunks in held])  # (workers, parameters)
    assert torch.equal(results, gradients.sum(dim=0).expand_as(results))
    assert sent == 2 * (workers - 1) / workers * parameters == 1536
    moments = {"at the start": 0, "after the reduce-scatter": workers - 1, "after the all-gather": 2 * (workers - 1)}
    rings = {moment: summed_in_ring(workers, turns) for moment, turns in moments.items()}  # @stepover
    finished = [max(chunks) for chunks in rings["after the reduce-scatter"]]  # of each GPU @inspect finished
    assert finished == [workers] * workers
    plot(draw_rings(rings), title="Of how many GPUs' gradients each chunk is the sum")  # @stepover @hide
    text(
        f"In the first half, the *reduce-scatter*, sums travel and grow until each GPU has one finished chunk; in the "
        f"second, the *all-gather*, finished chunks go round. With $n$ GPUs each sends $2(n - 1)/n$ numbers per "
        f"parameter, {sent / parameters} for {workers} of them, less than 2 for any number."
    )


def summed_in_ring(workers: int, turns: int) -> list[list[int]]:
    """For each GPU and chunk after so many turns: of how many gradients it is the sum"""
    held = [[torch.ones(1) for _ in range(workers)] for _ in range(workers)]
    ring_all_reduce(held, turns)
    return [[int(chunk) for chunk in chunks] for chunks in held]


def map_of_the_rest() -> None:
    """A map of all ways"""
    text("Every technique makes some of the terms smaller, at a price:")
    techniques = [
        ("gradient accumulation", "a micro-batch at a time", "activations", "weights are read more often"),
        ("activation checkpointing", "forget, and compute again", "activations", "one more forward pass"),
        ("FlashAttention, fused kernels", "intermediate results never reach memory", "activations", "a special kernel"),
        ("data parallelism", "a part of the batch on each GPU", "activations", "an all-reduce of the gradients"),
        (
            "ZeRO, FSDP",
            "a shard on each GPU",
            "states, gradients, parameters",
            "stage 3: parameters sent around for each pass",
        ),
        (
            "tensor parallelism",
            "each matrix cut over the GPUs",
            "all four terms, activations in part",
            "four all-reduces of activations in each layer",
        ),
        (
            "pipeline parallelism",
            "some layers on each GPU, batches passed on",
            "parameters, gradients, states",
            "GPUs wait while it fills",
        ),
        ("offloading", "kept in the CPU's memory until needed", "states, parameters", "transfers in every step"),
        ("8-bit states", "one byte each, with a factor for each few hundred", "states, to a quarter", "rounding"),
        ("factored states (Adafactor)", "sums of each matrix's rows and columns only", "states", "an approximation"),
        ("LoRA", "leave a matrix as it is, train a thin product beside it", "gradients, states", "what can be learned"),
    ]  # @hide
    table(techniques, ["technique", "what it does", "makes smaller", "price"])  # @hide
    which_first()


def which_first() -> None:
    """Which first?"""
    state_bytes_of_70b = {"fp32": 8 * 70e9, "8 bits": 2 * 70e9}  # AdamW's two averages @inspect state_bytes_of_70b [B]
    saved_gpus = (state_bytes_of_70b["fp32"] - state_bytes_of_70b["8 bits"]) / H100_MEMORY  # @inspect saved_gpus
    text(
        f"The one whose term is the largest: that is what the accounting is for. States in 8 bits free the memory of "
        f"{saved_gpus:.0f} H100s for a 70B model, and nothing where a long sequence is the trouble."
    )
    ask(
        "A model trains at $S = 2048$ and runs out of memory at $S = 32768$. Which of these helps?",
        "activation checkpointing",
        choices=["8-bit optimizer states", "activation checkpointing", "LoRA", "ZeRO stage 1"],
        hint="Which of the four terms has grown?",
        slips={
            "8-bit optimizer states": "States do not grow with the sequence.",
            "LoRA": "It removes gradients and states; activations stay.",
            "ZeRO stage 1": "It divides the optimizer's states, which have not grown.",
        },
    )
    link(**REFERENCES["ultra-scale"])
    link(**REFERENCES["scaling book"])


def cache_that_grows() -> None:
    """Without training: the cache that grows"""
    text(
        "A model that only writes holds neither gradients nor states. Its batch-dependent term is the **KV cache** of "
        "section 6: keys and values of all tokens so far, so that they are not computed again. In the shape of "
        "Llama 3 70B, in bf16:"
    )
    token = torch.empty(80, 2, 8, 128, dtype=torch.bfloat16, device="meta")  # (layers, K and V, heads, head width)
    weight_bytes, contexts = 2 * 70_553_706_496, [1024 * 2**k for k in range(8)]
    cache_bytes = {batch: [batch * s * token.nbytes for s in contexts] for batch in (1, 8, 64)}
    gigabytes = {f"cache of {b} sequences": [n / 1e9 for n in sizes] for b, sizes in cache_bytes.items()}  # @hide
    gigabytes |= {"weights": [weight_bytes / 1e9] * 8, "8 H100s": [8 * H100_MEMORY / 1e9] * 8}  # @hide
    plot(gigabytes, x=contexts, x_label="tokens of context", y_label="GB", x_scale="log", y_scale="log")  # @hide
    free_bytes = 8 * H100_MEMORY - weight_bytes
    tokens_at_once = free_bytes // token.nbytes  # beside the weights on 8 H100s @inspect tokens_at_once
    assert cache_bytes[8][-1] < free_bytes < cache_bytes[64][5]
    ask(
        "How many tokens of context can each of 16 sequences have on 8 H100s, in thousands?",
        tokens_at_once / 16 / 1e3,
        unit="thousand",
        within=0.03,
        hint=f"{8 * H100_MEMORY / 1e9:.0f} GB, less {weight_bytes / 1e9:.0f} GB of weights, over "
        f"{token.nbytes / 1e3:.0f} kB for each token.",
        slips={8 * H100_MEMORY / token.nbytes / 16 / 1e3: "The weights are there as well."},
    )


def zero_stages() -> None:
    """Over several GPUs: ZeRO"""
    text(
        "With **data parallelism** each GPU works on a part of the batch and holds the whole model; the gradients are "
        "added up over all GPUs by an **all-reduce**, after which each has the sum. **ZeRO** also gives each of $n$ "
        "GPUs only a part, a *shard*, of what is held: the optimizer's states (stage 1), the gradients (2), the "
        "parameters (3; in PyTorch **FSDP**, *fully sharded data parallel*). For 16 bytes per parameter, with a "
        "master copy as in section 12:"
    )
    n, numbers = 8, 1024  # GPUs, parameters
    halves = torch.empty(2, numbers, dtype=torch.bfloat16)  # parameters, gradients
    parts = {"parameters": halves[:1], "gradients": halves[1:], "states and master": torch.empty(3, numbers)}
    held: dict[str, list[float]] = {part: [] for part in parts}  # bytes per parameter on one GPU, by stage
    sharded = ("parameters", "gradients", "states and master")
    for stage in range(4):
        for part, tensor in parts.items():
            mine = tensor.chunk(n, dim=1)[0] if part in sharded[3 - stage :] else tensor  # stage 1: the last; 3: all
            held[part].append(mine.nbytes / numbers)
    per_gpu = [sum(of_stage) for of_stage in zip(*held.values(), strict=True)]  # @inspect per_gpu
    assert per_gpu == [16, 4 + 12 / n, 2 + 14 / n, 16 / n]
    largest = [round(H100_MEMORY / gpu_bytes / 1e9, 1) for gpu_bytes in per_gpu]  # 10⁹ parameters @inspect largest
    assert largest == [5.0, 14.5, 21.3, 40.0]
    stages = ["none", "stage 1", "stage 2", "stage 3"]  # @hide
    plot(held, x=stages, y_label="bytes per parameter", style="stacked", title="On each of 8 GPUs")  # @hide
    ask(
        "Over 64 GPUs, at stage 1: how many bytes per parameter does each hold?",
        2 + 2 + 12 / 64,
        hint="Only the states and the master copy, 12 bytes, are divided.",
        slips={16 / 64: "That is stage 3.", 2 + 14 / 64: "That is stage 2."},
    )
    text("And for each of section 1's recipes, any optimizer and any stage:")
    mixed = {"parameter": 2, "gradient": 2, "master": 4, "state": 4, "states": 2}  # bytes; and how many states
    staged = [bytes_per_parameter(**mixed, stage=stage, gpus=n, memory=H100_MEMORY) for stage in range(4)]
    assert [one["bytes"] for one in staged] == per_gpu and [round(one["billions"], 1) for one in staged] == largest
    names = ("parameter", "gradient", "master", "state")  # @hide
    recipes = {
        recipe.replace("`", ""): dict(zip(names, map(float, sizes), strict=True)) for recipe, sizes in RECIPES.items()
    }  # @hide
    first = "bf16, fp32 master and states"  # @hide
    explore(
        bytes_per_parameter,
        "{bytes} for each parameter on each GPU: models of up to {billions} parameters fit into {gpus} × {GPU}, before "
        "activations.",
        title="Bytes per parameter, and the largest model",
        inputs={"gpus": (n, 1, 16384)},
        menus={
            "recipe": {first: recipes[first]} | recipes,
            "optimizer": {
                "AdamW: two averages": {"states": 2},
                "momentum, Lion: one": {"states": 1},
                "SGD: none": {"states": 0},
            },
            "ZeRO": {
                "nothing is divided": {"stage": 0},
                "stage 1: states and master": {"stage": 1},
                "stage 2: and gradients": {"stage": 2},
                "stage 3: and parameters": {"stage": 3},
            },
            "GPU": gpus_of_the_table(),
        },
        names={"gpus": "GPUs", "billions": "largest model"},
        units={
            "bytes": "B",
            "billions": "billion",
            "parameters": "B",
            "gradients": "B",
            "states and master": "B",
            "memory": "B",
            **dict.fromkeys(names, "B"),
        },
        stack=("parameters", "gradients", "states and master"),
        across="ZeRO",
    )  # @stepover
    link(**REFERENCES["zero"])


def bytes_per_parameter(
    parameter: float,
    gradient: float,
    master: float,
    state: float,
    states: float,
    stage: float,
    gpus: float,
    memory: float,
) -> dict[str, float]:
    """What each GPU holds of a parameter: ZeRO divides states and master, then gradients, then parameters"""
    parameters = parameter / gpus if stage >= 3 else parameter
    gradients = gradient / gpus if stage >= 2 else gradient
    others = (master + states * state) / gpus if stage >= 1 else master + states * state
    total = parameters + gradients + others
    return {
        "bytes": total,
        "billions": memory / total / 1e9,
        "parameters": parameters,
        "gradients": gradients,
        "states and master": others,
    }


def traffic_of_the_stages() -> None:
    """What ZeRO's stages send"""
    n = 8  # GPUs
    text(
        f"Again {n} GPUs in a ring: a reduce-scatter leaves each with its part of the sum of all gradients; an "
        f"all-gather sends the parts on until everyone has all of them. What one GPU sends:"
    )
    gradients = torch.randint(-9, 10, (n, n, 10)).float()  # (GPU, part, numbers): whole numbers, exact sums
    weights, parameters = torch.randint(-9, 10, (n, 10)).float(), n * 10
    summed = gradients.clone()
    scattered = reduce_scatter(summed)  # numbers sent by each GPU @inspect scattered @stepover
    own = torch.arange(n)
    updated = torch.zeros(n, n, 10)
    updated[own, own] = weights - summed[own, own]  # each GPU updates its own part
    gathered = all_gather(updated)  # @inspect gathered @stepover
    assert torch.equal(updated, (weights - gradients.sum(dim=0)).expand(n, n, 10))  # as on a single GPU
    assert scattered == gathered == (n - 1) / n * parameters
    sent = {"stages 1 and 2": scattered + gathered, "stage 3": gathered + gathered + scattered}
    per_parameter = {stage: numbers / parameters for stage, numbers in sent.items()}  # @inspect per_parameter
    assert list(per_parameter.values()) == [2 * (n - 1) / n, 3 * (n - 1) / n]
    text(
        "Plain data parallelism needs the sum of the gradients on every GPU: a reduce-scatter and an all-gather. "
        "Stages 1 and 2 gather updated parameters in place of gradients: the same traffic. Stage 3 keeps no "
        "parameters, and gathers them twice, for the forward and for the backward pass: half as much again.\n\n"
        "With gradient accumulation each backward pass would start an exchange. `no_sync()`, of "
        "`DistributedDataParallel`, leaves it out of all micro-batches but the last.\n\n"
        "Here one process plays all GPUs. `tests/lectures/many_ranks.py`, beside this lecture, does the same in a "
        "process for each, and counts what they send: `trace-tools trace many_ranks.py --ranks 4`."
    )


def reduce_scatter(held: Tensor) -> int:
    """Around the ring, in place: GPU i ends up with the sum of part i; returns the numbers that each GPU sent"""
    n, sent = len(held), 0
    for turn in range(n - 1):
        for gpu in range(n):
            part = (gpu - turn - 1) % n
            held[(gpu + 1) % n, part] += held[gpu, part]
            sent += held[gpu, part].numel()
    return sent // n


def all_gather(held: Tensor) -> int:
    """Around the ring, in place: part i goes from GPU i to all others; returns the numbers that each GPU sent"""
    n, sent = len(held), 0
    for turn in range(n - 1):
        for gpu in range(n):
            part = (gpu - turn) % n
            held[(gpu + 1) % n, part] = held[gpu, part]
            sent += held[gpu, part].numel()
    return sent // n


# ---------------------------------------------------------------------------------------------------------
# 15 Saving and resuming


class Killed(Exception):
    """What ends a training run here: in earnest it is a broken GPU, or the end of the rented time."""


@dataclass
class Training:
    """Everything that a training run carries from one step to the next, random generators apart."""

    model: nn.Module
    optimizer: optim.Optimizer
    scheduler: optim.lr_scheduler.LRScheduler
    scaler: torch.amp.GradScaler
    step: int = 0
    position: int = 0  # of the next batch in the data


def saving_and_resuming() -> None:
    """Saving and resuming"""
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    np.random.seed(0)  # @hide
    random.seed(0)  # @hide
    interval = best_interval(between_failures=54 * SECONDS_PER_DAY / 419, save_time=30.0)  # @stepover @hide
    text(
        f"After this section you can save all that a run needs, so that a run that was killed and resumed ends with "
        f"**the same bits** as one that was left alone, and say how often to save. The key figure: Llama 3's 405B run, "
        f"on 16384 GPUs, should have saved every **{interval / 60:.0f} minutes**, if a save takes 30 seconds."
    )
    text(
        "Long runs are interrupted: something breaks, and what was not saved is computed again. If a resumed run has "
        "the same bits as one that went on, nothing was forgotten."
    )
    note(
        "Eight minutes. The comparison of bits is the point: ask what they forgot to save last time. Leave the "
        "interval's formula for those who ask."
    )
    what_is_saved()
    with tempfile.TemporaryDirectory() as folder:  # @hide
        writing_atomically(Path(folder))
        language_model_killed_and_resumed(Path(folder))
        what_if_one_part_is_forgotten()
        kill_and_resume(Path(folder))  # @deeper
        what_a_safe_load_refuses(Path(folder))  # @deeper
        loading_is_not_restoring(Path(folder))  # @deeper
        cost_of_a_checkpoint(Path(folder))  # @deeper
    how_often_to_save()
    failures_at_random()  # @deeper
    text(
        "**In three lines.**\n\n"
        "1. Save the model, optimizer, schedule, scaler, step, position in the data and every random generator: 12 "
        "bytes a parameter, and some.\n"
        "2. Write beside, flush file and folder to the disk, rename. Then kill a run on purpose and compare bits.\n"
        "3. Save every $\\sqrt{2Ms}$ seconds: the time between failures, the time a save takes."
    )


def new_training(where: str) -> Training:
    """A small model that uses all there is to save: dropout, AdamW, a schedule, fp16 with loss scaling"""
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 1), nn.Flatten(0)).to(where)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
    scaler = torch.amp.GradScaler(where, init_scale=2.0**17, growth_interval=2)  # for fp16: section 12
    return Training(model, optimizer, scheduler, scaler)


def train_until(run: Training, last_step: int, data: Tensor, *, killed_at: int | None = None) -> None:
    """Train up to a step; `killed_at` is a step that is begun and never finished"""
    where = next(run.model.parameters()).device
    while run.step < last_step:
        x = data[run.position : run.position + 8].to(where)  # (8, 16)
        x = x * random.random() + float(np.random.normal())  # changed at random, with two more generators
        with torch.autocast(where.type, dtype=torch.float16):
            prediction = run.model(x)  # (8,)
        target = x.mean(dim=1)
        assert prediction.shape == target.shape == (8,)
        loss = nn.functional.mse_loss(prediction, target)
        run.optimizer.zero_grad()
        run.scaler.scale(loss).backward()
        if run.step == killed_at:
            raise Killed("in the middle of a step")
        scale = run.scaler.get_scale()
        run.scaler.step(run.optimizer)
        run.scaler.update()
        if run.scaler.get_scale() >= scale:  # else the gradients overflowed, and the step was left out: section 12
            run.scheduler.step()
        run.step += 1
        run.position = (run.position + 8) % len(data)


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


def checkpoint_of(run: Training) -> dict[str, Any]:
    """All of a training run, as plain data"""
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "scaler": run.scaler.state_dict(),
        "step": run.step,
        "position": run.position,
        "generators": generator_states(),
    }


def restore(run: Training, checkpoint: dict[str, Any]) -> None:
    """Put a new training run where the checkpoint was; a part that is missing stays as it is"""
    for part in ("model", "optimizer", "scheduler", "scaler"):
        if part in checkpoint:
            getattr(run, part).load_state_dict(checkpoint[part])
    run.step = checkpoint.get("step", run.step)
    run.position = checkpoint.get("position", run.position)
    if "generators" in checkpoint:
        set_generator_states(checkpoint["generators"])


def leaves_of(part: Any) -> list[Any]:
    """The tensors, numbers and words in nested dictionaries, lists and tuples, in order"""
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list | tuple):
        return [leaf for nested in part for leaf in leaves_of(nested)]
    return [part]


def tensor_bytes(part: Any) -> int:
    """The bytes of all tensors in a checkpoint, or in a part of it"""
    return sum(leaf.nbytes for leaf in leaves_of(part) if torch.is_tensor(leaf))


def same_bits(a: Any, b: Any) -> bool:
    """Whether two checkpoints, or parts of them, hold the same bits"""
    pairs = list(zip(leaves_of(a), leaves_of(b), strict=True))
    return all(torch.equal(x.cpu(), y.cpu()) if torch.is_tensor(x) else x == y for x, y in pairs)


def what_is_saved() -> None:
    """What there is to save"""
    text(
        "A *checkpoint*, here, is a file with all that one step leaves for the next. Gradients and activations are "
        "made anew in each step; parameters and the optimizer's states are not."
    )
    ask(
        "How many GB is a checkpoint of an 8-billion-parameter model trained in fp32 with AdamW?",
        (4 + 8) * 8e9 / 1e9,
        unit="GB",
        slips={
            16 * 8.0: "Gradients are not saved: the next backward pass makes new ones.",
            4 * 8.0: "The weights alone. A run resumed without AdamW's averages is another run.",
        },
    )
    text("In the language model:")
    train, _ = lecture_tokens()  # @stepover
    run = new_language_run(steps=8, where="cpu")  # @stepover
    train_step(run, train)  # @stepover
    inputs, targets = draw_batch(train, 8, run.model.shape.context, run.generator)  # @stepover
    in_memory = measured_by_part(run.model, run.optimizer, inputs, targets)  # @stepover
    kept = {"parameters": tensor_bytes(run.model.state_dict())}  # @stepover
    counters = 4 * len(list(run.model.parameters()))  # AdamW counts its steps, in 4 bytes for each tensor
    kept["optimizer states"] = tensor_bytes(run.optimizer.state_dict()) - counters  # @stepover @inspect kept [B]
    parameters = sum(w.numel() for w in run.model.parameters())
    assert (kept["parameters"], kept["optimizer states"]) == (4 * parameters, 8 * parameters)
    predicted = {part: n * parameters for part, n in (("parameters", 4), ("optimizer states", 8))}  # @hide
    columns = {"in memory": in_memory, "saved": predicted, "saved ✓": kept}  # @hide
    memory_bars(columns, "A checkpoint beside a training step: predicted, and ✓ measured")  # @stepover @hide
    text("And some bytes without which the bits differ:")
    small = [
        ("step, schedule", "the learning rate depends on them"),
        ("loss scale", "what fp16's GradScaler has found (section 12)"),
        ("position in the data", "else some are seen twice and some never"),
        ("random generators", "of Python, NumPy, torch and each GPU: dropout, shuffling, inputs changed at random"),
    ]  # @hide
    table(small, ["part", "why"])  # @hide
    link(**REFERENCES["reproducibility"])


def what_a_safe_load_refuses(folder: Path) -> None:
    """What a safe load refuses"""
    text(
        "`torch.save` writes a pickle, and unpickling can run any code that the file's author chose. So `torch.load` "
        "by default (`weights_only=True`, since torch 2.6) accepts tensors, numbers, strings and containers of them. "
        "NumPy's generator state is a tuple with an *array* in it, and that is refused:"
    )
    path = folder / "states.pt"
    torch.save({"numpy": np.random.get_state()}, path)
    refusal = ""
    try:
        torch.load(path)
    except pickle.UnpicklingError as error:
        refusal = str(error).partition(".")[0]  # @inspect refusal
    assert "Weights only load failed" in refusal
    text(
        "Not the answer: `weights_only=False`, which runs what is in the file. The answer: save plain data. A tensor "
        "in place of the array is enough."
    )
    states = generator_states()  # @stepover
    torch.save(states, path)
    loaded = torch.load(path)
    assert same_bits(loaded, states)  # @stepover
    text("That they are the right states shows when they are used: every generator draws the same again.")
    drawn = [float(np.random.normal()), random.random(), torch.rand(1).item()]  # @inspect drawn
    set_generator_states(loaded)  # @stepover
    again = [float(np.random.normal()), random.random(), torch.rand(1).item()]  # @inspect again
    assert again == drawn
    assert random.random() != drawn[1]
    link(**REFERENCES["weights only"])


def save_atomically(checkpoint: dict[str, Any], path: Path) -> None:
    """Write a checkpoint so that at every moment a whole one lies at `path`, even if the power fails"""
    beside = path.with_suffix(".partial")  # the same folder, so the same file system
    with beside.open("wb") as file:
        torch.save(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())  # its bytes are on the disk, not only on their way there
    os.replace(beside, path)  # one step: the name means the old file, then the new one
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # and so is the new name, which is in the folder
    os.close(folder)


def writing_atomically(folder: Path) -> None:
    """Writing it so that a crash can't destroy it"""
    ask(
        "A run writes its checkpoint over the one before, and is killed half-way. Which of the two is left?",
        "neither",
        choices=["the old one", "the new one", "neither"],
        slips={"the old one": "It is overwritten from the first byte on.", "the new one": "It is half a file."},
    )
    text(
        "Here a process is killed half-way through its writing, once directly at the file and once at a file beside "
        "it, to be renamed at the end:"
    )
    path = folder / "checkpoint.pt"  # in a folder for temporary files
    weights, survived = torch.arange(1000.0), {}
    for way, target in (("in place", path), ("beside, then renamed", path.with_suffix(".partial"))):
        save_atomically({"weights": weights}, path)  # @stepover
        survived[way] = survives_a_kill(path, target)  # @stepover
    assert survived == {"in place": False, "beside, then renamed": True}  # @inspect survived
    text(
        "A rename within one file system is atomic: whoever opens the name gets the old file or the new one. Against a "
        "power cut it takes two calls of `fsync`, which waits until the disk has it: of the file before the rename, "
        "and of the *folder* after it, or the old name may come back."
    )
    save_atomically({"weights": -weights}, path)  # @stepover
    assert torch.equal(torch.load(path)["weights"], -weights)
    assert not path.with_suffix(".partial").exists()


def survives_a_kill(path: Path, target: Path) -> bool:
    """Whether the checkpoint at `path` is whole after a process that was writing to `target` was killed half-way"""
    half = f"import os; f = open({str(target)!r}, 'wb', 0); f.write(b'x' * 2000); os.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-S", "-c", half], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert target.stat().st_size == 2000
    try:
        return bool(torch.load(path)["weights"][-1] == 999)
    except (RuntimeError, EOFError, pickle.UnpicklingError):
        return False


def kill_and_resume(folder: Path) -> None:
    """A run with everything in it"""
    text(
        "The small run again, with dropout, schedule, loss scale and augmentation. Run A trains twelve steps "
        "undisturbed. Run B starts from the same bits, saves after six and is killed in the middle of its ninth (here "
        "by an exception). Then a new model, optimizer, scheduler and scaler read the checkpoint, and train to the "
        "twelfth step. Steps seven and eight are computed a second time."
    )
    killed_and_resumed("cuda" if device() == "cuda" else "cpu", folder)
    text(
        "Every part is the same to the bit: parameters, optimizer states, learning rate, loss scale, position in the "
        "data, generators.\n\n"
        "`map_location='cpu'` is deliberate. `load_state_dict` moves each tensor to its parameter, and the states of "
        "the generators have to be on the CPU, even that of a GPU's generator. And the GPU need not hold everything "
        "twice for a moment."
    )


def killed_and_resumed(where: str, folder: Path) -> None:
    """One run undisturbed, one killed"""
    data = torch.randn(64, 16)
    undisturbed, generators = new_training(where), generator_states()  # @stepover
    start = {name: p.clone() for name, p in undisturbed.model.state_dict().items()}  # @stepover
    train_until(undisturbed, 12, data)  # @stepover
    expected = checkpoint_of(undisturbed)  # @stepover
    run = new_training(where)  # @stepover
    run.model.load_state_dict(start)
    set_generator_states(generators)  # @stepover
    train_until(run, 6, data)  # @stepover
    save_atomically(checkpoint_of(run), folder / "run.pt")  # @stepover
    finished = steps_until_killed(run, data)  # @inspect finished @stepover
    del run
    scramble_generators()  # @stepover
    resumed = new_training(where)  # other weights @stepover
    assert not same_bits(resumed.model.state_dict(), start)  # @stepover
    restore(resumed, torch.load(folder / "run.pt", map_location="cpu"))
    assert (finished, resumed.step) == (8, 6)
    train_until(resumed, 12, data)  # @stepover
    found = checkpoint_of(resumed)  # @stepover
    equal = {part: same_bits(found[part], expected[part]) for part in expected}  # @inspect equal @stepover
    assert all(equal.values())
    assert not same_bits(resumed.model.state_dict(), start)  # it did learn something @stepover


def steps_until_killed(run: Training, data: Tensor) -> int:
    """Train until the run is killed; returns the steps that it had finished"""
    try:
        train_until(run, 12, data, killed_at=8)
    except Killed:
        return run.step
    return 12


def scramble_generators() -> None:
    """Leave every generator somewhere else, as in a new process"""
    torch.rand(3)
    np.random.normal()
    random.random()
    if torch.cuda.is_available():
        torch.rand(3, device="cuda")


def what_if_one_part_is_forgotten() -> None:
    """What if one part is forgotten?"""
    text(
        "A mistake in resuming raises no error, and the loss need not show it. So here is a small run that uses all "
        "parts: dropout, AdamW, a schedule, fp16 with loss scaling, inputs changed at random. Each part is left out "
        "in turn, and the weights at the end compared with those of the undisturbed run:"
    )
    data = torch.randn(64, 16)
    run = new_training("cpu")  # @stepover
    train_until(run, 6, data)  # @stepover
    assert run.scaler.get_scale() < 2.0**17 and run.position == 6 * 8  # both have moved from where they began
    # AdamW counts its steps; those at a loss scale that was too large are left out:
    taken = run.optimizer.state[next(run.model.parameters())]["step"].item()  # @inspect taken
    assert taken < 6 and math.isclose(run.optimizer.param_groups[0]["lr"], 0.01 * 0.9**taken)  # and the schedule, too
    checkpoint = pickle.loads(pickle.dumps(checkpoint_of(run)))  # a copy, as if from a file @stepover
    train_until(run, 12, data)  # @stepover
    off = {"nothing": distance_after_forgetting(None, checkpoint, run, data)}  # @stepover
    off |= {part: distance_after_forgetting(part, checkpoint, run, data) for part in checkpoint}  # @stepover
    choices = ["model", "optimizer", "position", "generators"]  # @hide
    ask(
        "Which of these does the most harm when it is forgotten?",
        max(choices, key=off.__getitem__),
        choices=choices,
        hint="Which of them holds what all steps so far have learnt?",
    )
    table([(part, f"{error:.1%}") for part, error in off.items()], ["forgotten", "weights are off by"])  # @hide
    assert off.pop("nothing") == 0  # @inspect off
    assert all(error > 0 for error in off.values())
    smallest, largest = min(off, key=off.__getitem__), max(off, key=off.__getitem__)
    text(
        f"From {off[smallest]:.1%} for the {smallest} to {off[largest]:.0%} for the {largest}: a comparison of bits "
        f"catches each of them. A look at the loss need not: another run is not always a worse one."
    )


def distance_after_forgetting(forgotten: str | None, checkpoint: dict[str, Any], run: Training, data: Tensor) -> float:
    """How far the weights are from those of `run`, relative to them, if one part of its checkpoint is not restored"""
    resumed = new_training("cpu")
    restore(resumed, {part: saved for part, saved in checkpoint.items() if part != forgotten})
    train_until(resumed, run.step, data)
    found, expected = (torch.cat([p.detach().flatten() for p in r.model.parameters()]) for r in (resumed, run))
    return relative_difference(found, expected)


def loading_is_not_restoring(folder: Path) -> None:
    """Loading is not restoring"""
    model = nn.Linear(16, 1)
    trained = [p.detach().clone() for p in model.parameters()]
    torch.save({"model": model.state_dict()}, folder / "trained.pt")
    new_model = nn.Linear(16, 1)
    ask(
        "Find the error: `model = nn.Linear(16, 1)`, `checkpoint = torch.load('trained.pt')`, then the training loop.",
        "the model was never given the checkpoint",
        choices=[
            "the model was never given the checkpoint",
            "torch.load needs weights_only=False",
            "the model must be made after the load",
        ],
        hint="What does `torch.load` return?",
        slips={
            "torch.load needs weights_only=False": "A dictionary of tensors loads with the safe default.",
            "the model must be made after the load": "The order does not matter.",
        },
    )
    text("`torch.load` reads a dictionary. The model does not change until it is given it:")
    loaded = torch.load(folder / "trained.pt")
    assert not same_bits(list(new_model.parameters()), trained)  # loaded, and not restored @stepover
    new_model.load_state_dict(loaded["model"])
    assert same_bits(list(new_model.parameters()), trained)  # @stepover
    text("And a `state_dict` that fits only in part is an error, unless one turns that off with `strict=False`:")
    refusal = ""
    try:
        new_model.load_state_dict({"weight": loaded["model"]["weight"]})
    except RuntimeError as error:
        refusal = str(error).splitlines()[1].strip()  # @inspect refusal
    assert '"bias"' in refusal


def cost_of_a_checkpoint(folder: Path) -> None:
    """What a checkpoint costs"""
    parameters = sizes().saved_parameters  # @inspect parameters @stepover
    weight = nn.Parameter(torch.randn(parameters))
    weight.grad = torch.randn(parameters)
    optimizer = optim.AdamW([weight])
    optimizer.step()
    checkpoint = {"model": {"weight": weight.detach()}, "optimizer": optimizer.state_dict()}
    path = folder / "large.pt"
    saving = measure(lambda: save_atomically(checkpoint, path), repeats=3, min_seconds=0.01)  # @stepover
    napkin_bytes = 12 * parameters  # fp32: 4 for the parameter, 8 for AdamW's states; gradients are not saved
    counted_bytes = tensor_bytes(checkpoint)  # @stepover
    file_bytes = path.stat().st_size  # @inspect napkin_bytes [B], counted_bytes [B], file_bytes [B]
    rows = [("checkpoint, bytes", napkin_bytes, counted_bytes, file_bytes, file_bytes / napkin_bytes)]  # @hide
    table(rows, ["size", "claimed", "counted", "measured", "measured / claimed"])  # @hide
    assert counted_bytes == napkin_bytes + 4
    assert 0 < file_bytes - counted_bytes < 20_000
    text(
        f"The 4 bytes between claimed and counted are AdamW's step counter; what the file has beyond that is its "
        f"index. This small file took {1e3 * saving.seconds:.0f} ms to write, most of it for what any file takes; that "
        f"says nothing about large ones."
    )
    of_70b, disk_bytes_per_second = 12 * 70e9, 1e9  # one good disk: assumed @inspect of_70b [B]
    minutes = of_70b / disk_bytes_per_second / 60  # bytes over bandwidth @inspect minutes
    assert round(minutes) == 14
    shard_bytes = of_70b / 1024  # @inspect shard_bytes [B]
    text(
        f"For those it is bytes over bandwidth: a 70B model's {of_70b / 1e12:.2f} TB at 1 GB/s (assumed) are "
        f"{minutes:.0f} minutes. So on a cluster each GPU writes its own shard to many disks at once "
        f"(`torch.distributed.checkpoint`), {shard_bytes / 1e9:.2f} GB each on 1024 GPUs; its `async_save` copies the "
        f"tensors to the CPU first, so that training goes on while they are written."
    )


def best_interval(between_failures: float, save_time: float) -> float:
    """The seconds between saves for which the least time is lost"""
    return math.sqrt(2 * between_failures * save_time)


def share_lost(interval: float, save_time: float, between_failures: float) -> float:
    """The share of time that goes into saving, and into repeating what was lost: half an interval a failure"""
    return save_time / interval + interval / 2 / between_failures


def how_often_to_save() -> None:
    """How often to save"""
    text(
        "Saving every $\\tau$ seconds costs $s/\\tau$ of the time when a save takes $s$. Failures come every $M$ "
        "seconds, and each throws away half an interval on average: $\\tau/(2M)$ of the time. The sum is least where "
        "both are equal:\n\n"
        "$$ \\tau = \\sqrt{2 M s}. $$"
    )
    ask(
        "Failures come every 8 hours, and a save takes 4 minutes. How many minutes should lie between saves?",
        best_interval(8 * 60, 4),
        unit="min",
        slips={math.sqrt(8 * 60 * 4): "The 2 is missing: only half an interval is lost by each failure."},
    )
    text(
        "Llama 3's 405B model was interrupted 419 times unexpectedly in 54 days. Let a save hold up training for 30 "
        "seconds (assumed)."
    )
    between_failures, save_time = 54 * SECONDS_PER_DAY / 419, 30.0  # @inspect between_failures [s]
    interval = best_interval(between_failures, save_time)  # @inspect interval [s]
    assert round(between_failures) == 11_135  # @hide
    assert (round(between_failures / 3600, 1), round(interval / 60)) == (3.1, 14)
    lost = share_lost(interval, save_time, between_failures)  # @inspect lost
    grid = [interval * 2 ** (k / 8) for k in range(-24, 25)]
    shares = [share_lost(tau, save_time, between_failures) for tau in grid]  # @stepover
    assert min(shares) == shares[24]
    assert (grid[16], grid[32]) == (interval / 2, 2 * interval)
    assert math.isclose(shares[16], 1.25 * lost) and math.isclose(shares[32], 1.25 * lost)
    minutes = [tau / 60 for tau in grid]  # @hide
    saved, repeated = [save_time / tau for tau in grid], [tau / 2 / between_failures for tau in grid]  # @hide
    series = {"saving": saved, "repeating": repeated, "together": shares}  # @hide
    plot(series, x=minutes, x_label="minutes between saves", y_label="share of time", x_scale="log")  # @hide
    hourly = share_lost(3600, save_time, between_failures)  # @inspect hourly @stepover
    text(
        f"Every {interval / 60:.0f} minutes, and {lost:.1%} of the time is lost; once an hour, {hourly:.1%}. The curve "
        f"is flat at its lowest point: half the interval, or twice, loses only a quarter more."
    )
    ask(
        "The same run on four times as many GPUs, which fail four times as often. How many minutes between saves?",
        best_interval(between_failures / 4, save_time) / 60,
        unit="min",
        within=0.03,
        hint="The interval grows with the square root of the time between failures.",
        slips={interval / 240: "A quarter of the time between failures is half the interval."},
    )
    link(**REFERENCES["young"])
    link(**REFERENCES["llama 3"])


def failures_at_random() -> None:
    """The formula, simulated"""
    between_failures, save_time = 54 * SECONDS_PER_DAY / 419, 30.0  # Llama 3's, in seconds
    interval = best_interval(between_failures, save_time)  # @stepover
    lost = share_lost(interval, save_time, between_failures)  # @stepover
    simulated = {
        tau: simulated_share_lost(tau, save_time, between_failures) for tau in (interval / 4, interval, 4 * interval)
    }  # @inspect simulated @stepover
    assert abs(simulated[interval] / lost - 1) < 0.1
    assert min(simulated, key=simulated.__getitem__) == interval
    text(
        f"Simulated, with 20000 failures at random times: {simulated[interval]:.1%}, where the formula says {lost:.1%}."
    )


def simulated_share_lost(interval: float, save_time: float, between_failures: float) -> float:
    """The share of time lost with failures at random: what is kept are the intervals finished and saved before each"""
    gaps = torch.empty(20_000, dtype=torch.float64).exponential_(1 / between_failures)  # s, from one to the next
    kept = (gaps / (interval + save_time)).floor() * interval
    return 1 - (kept.sum() / gaps.sum()).item()


@one_thread()
def language_model_killed_and_resumed(folder: Path) -> None:
    """The language model, killed and resumed"""
    text(
        "One run makes eight steps without a break. Another makes four, saves a checkpoint and is dropped; the "
        "checkpoint is read into a model that began from another seed, which makes the other four. Both run on the "
        "CPU with one thread, so that every sum is taken in one order. Models and optimizers have two methods for it: "
        "`state_dict()` gives what is to be saved, and `load_state_dict(…)` takes it back."
    )
    ask(
        "`saved = torch.load(path)` is a dictionary, and the new model has its weights back. Write the line that gives "
        'the new `optimizer` what is in `saved["optimizer"]`.',
        'optimizer.load_state_dict(saved["optimizer"])',
        why="`torch.load` only reads: nothing is restored until it is handed over.",
    )
    train, _ = lecture_tokens()  # @stepover
    start = partial(new_language_run, steps=8, where="cpu")
    whole = start()  # @stepover
    expected = [train_step(whole, train).item() for _ in range(8)]  # @inspect expected @stepover
    run = start()  # @stepover
    before = [train_step(run, train).item() for _ in range(4)]  # @stepover
    parts = {"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict()}
    parts |= {"generator": run.generator.get_state(), "step": run.step}
    path = folder / "model.pt"  # in a folder for temporary files
    save_atomically(parts, path)  # @stepover
    file_bytes = path.stat().st_size  # @inspect file_bytes [B]
    del run, parts
    resumed, saved = start(seed=1), torch.load(path)  # @stepover
    resumed.model.load_state_dict(saved["model"])
    resumed.optimizer.load_state_dict(saved["optimizer"])
    resumed.generator.set_state(saved["generator"])
    resumed.step = saved["step"]
    after = [train_step(resumed, train).item() for _ in range(4)]  # @stepover
    assert before + after == expected
    assert all(torch.equal(a, b) for a, b in zip(resumed.model.parameters(), whole.model.parameters(), strict=True))
    parameters = sum(w.numel() for w in whole.model.parameters())
    assert 12 * parameters < file_bytes < 12.3 * parameters
    text(
        f"Bit for bit, losses and weights. The file has {file_bytes / parameters:.1f} bytes for each parameter: the "
        f"weight and AdamW's two averages."
    )


# ---------------------------------------------------------------------------------------------------------
# 16 Summary


def summary() -> None:
    """Summary"""
    torch.default_generator.manual_seed(0)  # the CPU's: the same numbers on every machine @hide
    text(
        "After this section you can answer the two questions, memory and compute, for a model and a machine that this "
        "lecture does not mention. First the rules of thumb: behind each is the place where it was checked, and what "
        "it comes to here. The last part is a project: a run to size, and its count to compare with."
    )
    note(
        "Five minutes, and ten for sizing the run together. Let each rule be explained by whoever remembers its "
        "section."
    )
    rules_about_compute()
    rules_about_memory()
    rules_about_numbers_and_runs()
    when_memory_when_compute()
    size_a_run()
    what_to_do_with_it()
    text(
        "**In three lines.**\n\n"
        "1. Memory: bytes per parameter, times parameters, plus what the forward pass leaves.\n"
        "2. Compute: $6ND$, over the peak, over the MFU.\n"
        "3. Derive it, count it, measure it; where the three differ there is a reason, and it is worth finding."
    )


def shown_in(number: int, section: Callable[..., Any], part: Callable[..., Any]) -> str:
    """A link to the part of a section that backs a rule"""
    title = str(part.__doc__).partition("\n")[0]
    anchor = "-".join(re.findall("[a-z0-9]+", title.lower()))[:60]
    page = f"{number:02d}-{section.__name__.replace('_', '-')}"
    return f"[{number}: {title}]({page}.html#{anchor})"


def rules_about_compute() -> None:
    """Compute"""
    tokens, width = 512, 256
    x, w = torch.randn(tokens, width, requires_grad=True), torch.randn(width, width, requires_grad=True)
    upstream = torch.randn(tokens, width)
    forward = count(lambda: x @ w).flops / (tokens * w.numel())  # per parameter and token @inspect forward
    y = x @ w
    backward = count(lambda: torch.autograd.grad(y, (x, w), upstream)).flops / (tokens * w.numel())
    assert (forward, backward) == (2, 4)  # @inspect backward
    layers = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
    again = count(lambda: checkpoint(layers, x, use_reentrant=False).sum().backward())
    plain = count(lambda: layers(x).sum().backward())
    matmuls = [sum(n for op, n in c.flops_by_operator.items() if "mm" in op) for c in (again, plain)]
    recomputing = matmuls[0] / matmuls[1]  # @inspect recomputing
    assert recomputing == 8 / 6
    parameters, embedding, length = 70_553_706_496, 128256 * 8192, 131072  # Llama 3 70B, of 80 layers
    # FLOPs of a token with attention, over 6N:
    bend = (6 * (parameters - embedding) + 12 * 80 * 8192 * length) / (6 * parameters)  # @inspect bend
    assert round(bend, 2) == 3.42
    mfu = utilization_here()  # @inspect mfu @stepover
    rows = [
        ("training on $D$ tokens takes $6ND$ FLOPs: 2 forward, 4 backward", f"{forward:.0f} + {backward:.0f}, counted"),
        (
            "attention adds $12LDS$ per token, $D$ the width: it matters for long sequences",
            f"{bend:.2f} × 6N in all, at {length} tokens",
        ),
        ("time = FLOPs / (peak × MFU); 0.5 is good; here is one matmul's", mfu and round(statistics.median(mfu), 2)),
        ("recomputing activations costs at most a forward pass: 8 in place of 6", f"× {recomputing:.2f}, counted"),
        ("time it warmed up, synchronised, repeated; take the median", "every time on these pages"),
    ]  # @hide
    where = [
        shown_in(1, napkin_math, where_the_six_comes_from),
        shown_in(8, models, flops_of_the_language_model),
        shown_in(5, compute_accounting, model_flops_utilization),
        shown_in(14, using_less_memory, memory_against_recomputation),
        shown_in(5, compute_accounting, timing_properly),
    ]  # @stepover @hide
    table([(*row, link) for row, link in zip(rows, where, strict=True)], ["rule", "here", "backed in section"])  # @hide


def utilization_here() -> list[float] | None:
    """One matmul's share of this machine's peak, a number for each sample"""
    dtype = getattr(torch, roofline_format())
    peak = peak_flops(dtype)
    side = sizes().matmul_side
    x, w = torch.randn(2, side, side, device=device()).to(dtype)
    samples_s = measure(lambda: x @ w, repeats=5, min_seconds=0.02, max_seconds=0.1).samples_s
    return None if peak is None else [2 * side**3 / seconds / peak for seconds in samples_s]


def rules_about_memory() -> None:
    """Memory"""
    layer = nn.Linear(256, 256)
    optimizer = optim.AdamW(layer.parameters())
    x = torch.randn(64, 256)
    assert x.nbytes == 64 * 256 * 4
    losses: list[Tensor] = []
    saved = saved_by_autograd(lambda: losses.append(layer(x).square().sum()), [layer.weight])  # @stepover
    losses[0].backward()
    optimizer.step()
    states = [t for t in optimizer.state[layer.weight].values() if t.dim() > 0]
    held = sum(t.nbytes for t in (layer.weight, layer.weight.grad, *states)) / layer.weight.numel()  # @inspect held
    assert held == 16  # bytes per parameter
    activations = sum(t.nbytes for t in saved) / len(x)  # per row @inspect activations
    assert activations == 2 * 4 * 256  # the layer's input, and the square's
    rows = [
        ("bytes = elements × bytes per element", f"{x.nbytes} = 64 × 256 × 4"),
        ("AdamW in fp32 holds 16 bytes per parameter, before activations", f"{held:.0f}, after a real step"),
        ("activations and logits grow with the batch, the rest does not", f"{activations:.0f} bytes a row"),
        ("micro-batches divide activations, not FLOPs", "gradients equal to rounding"),
        ("a view is free, a copy moves every byte twice", "0 bytes against 2 × size, counted"),
    ]  # @hide
    where = [
        shown_in(2, memory_accounting, bytes_of_a_tensor),
        shown_in(1, napkin_math, largest_model),
        shown_in(13, memory_of_a_training_step, memory_of_the_language_model),
        shown_in(14, using_less_memory, gradient_accumulation),
        shown_in(3, tensors_from_the_inside, contiguity),
    ]  # @stepover @hide
    table([(*row, link) for row, link in zip(rows, where, strict=True)], ["rule", "here", "backed in section"])  # @hide


def rules_about_numbers_and_runs() -> None:
    """Numbers, and runs"""
    bf16, fp16 = torch.finfo(torch.bfloat16), torch.finfo(torch.float16)
    one = torch.ones((), dtype=torch.bfloat16)
    assert one + bf16.eps / 2 == one == one - bf16.eps / 4  # both updates are gone
    assert one - bf16.eps / 2 < one
    assert torch.tensor(1 + bf16.eps / 2).half() > 1
    assert torch.tensor(2 * float(fp16.max)).half().isinf()
    assert torch.tensor(2 * float(fp16.max)).bfloat16().isfinite()
    deviation = (torch.randn(64, 1024) @ (torch.randn(1024, 64) / math.sqrt(1024))).std().item()  # @inspect deviation
    assert abs(deviation - 1) < 0.1
    lost = f"beside 1, +{bf16.eps / 2:.4f} and −{bf16.eps / 4:.4f} are lost"  # @hide
    rows = [
        ("multiply in bf16, keep weights and states in fp32", lost),
        ("fp16 overflows early and underflows early: scale its loss", f"largest {fp16.max:.0f}"),
        ("initialise with $1/\\sqrt{D}$, and $\\sqrt{2/D}$ before a ReLU", f"standard deviation {deviation:.2f}"),
        ("save every √(2 × time between failures × save time), everything, atomically", "resumed to the bit"),
        ("save the generators too; a seed says which numbers, a state says where in them", "resumed to the bit"),
    ]  # @hide
    where = [
        shown_in(12, mixed_precision, updates_that_vanish),
        shown_in(12, mixed_precision, gradients_that_vanish),
        shown_in(8, models, scale_against_depth),
        shown_in(15, saving_and_resuming, how_often_to_save),
        shown_in(15, saving_and_resuming, what_if_one_part_is_forgotten),
    ]  # @stepover @hide
    table([(*row, link) for row, link in zip(rows, where, strict=True)], ["rule", "here", "backed in section"])  # @hide


def when_memory_when_compute() -> None:
    """When memory, when compute"""
    text(
        "An operation whose FLOPs per byte are below the machine's waits for memory; above, for arithmetic. A text is "
        "written token by token (*decoding*), and each new token needs the keys and values of all before it: they are "
        "kept, in the **key-value cache**, and read each time. In bf16, with $D = 4096$: FLOPs counted on tensors "
        "without memory, over the bytes of operands and result."
    )
    width = 4096
    weight = torch.empty(width, width, device="meta", dtype=torch.bfloat16)  # (D, D)
    intensities = []
    for rows in (1, 64, 512, 8192):
        x = torch.empty(rows, width, device="meta", dtype=torch.bfloat16)  # (rows, D), and so is the result
        intensity = count(partial(torch.matmul, x, weight)).flops / (x.nbytes + weight.nbytes + x.nbytes)
        assert math.isclose(intensity, rows * width / (2 * rows + width))
        intensities.append(intensity)
    assert [round(intensity, 1) for intensity in intensities] == [1.0, 62.1, 409.6, 1638.4]
    relu = count(x.relu).flops / (2 * x.nbytes)  # @inspect relu intensities
    assert relu == 1 / 4
    cache_1, cache_512 = intensity_of_a_cache(1), intensity_of_a_cache(512)  # @inspect cache_1 cache_512 @stepover
    assert math.isclose(cache_512, 128 * 2048 / (128 + 128 * 2048 + 2048))  # of each head: query, keys, scores
    assert math.isclose(cache_1, cache_512)  # more sequences do not share anything
    names = [
        "ReLU (and alike: dropout, a norm, adding to the stream)",
        "decoding 512 sequences of 2048 tokens: reading their key-value caches",
        "decoding one sequence: products with weights",
        "decoding 64 sequences: products with weights",
        "decoding 512 sequences: products with weights",
        "training, or reading the text to go on from (the prompt): 8192 tokens",
    ]  # @hide
    intensities = [relu, cache_512, *intensities]
    h100 = H100_SPARSE_BF16 / 2 / H100_BANDWIDTH  # @inspect h100
    assert round(h100, 1) == 295.4
    assert [intensity < h100 for intensity in intensities] == [True, True, True, True, False, False]
    here, fewer = intensity_here(), 2 if roofline_format() == "float32" else 1  # @inspect here @stepover
    ridges = {"H100": (h100, 1)} | ({} if here is None else {f"here, in {roofline_format()}": (here, fewer)})
    # The same operation in fp32 has half the FLOP/byte.
    verdicts = [["memory" if i / f < ridge else "compute" for ridge, f in ridges.values()] for i in intensities]
    lines = [(n, f"{i:.4g}", *v) for n, i, v in zip(names, intensities, verdicts, strict=True)]  # @hide
    table(lines, ["operation", "FLOP/byte", *(f"{name}: {ridge:.0f}" for name, (ridge, _) in ridges.items())])  # @hide
    text(
        f"A larger batch shares the *weights*, but each sequence has a cache of its own: {cache_512:.1f} FLOP/byte, "
        "however many are decoded together.\n\n"
        "**Waiting for memory**: move fewer bytes for the same result. Fuse operations, store smaller formats, share "
        "the weights among a larger batch, keep near what is needed again. Fewer FLOPs gain nothing.\n\n"
        "**Waiting for arithmetic**: use the tensor cores (bf16, fp8), or do fewer FLOPs. Fewer bytes gain "
        "nothing.\n\n"
        "**Waiting for neither**, with a low MFU: dispatch of small operations, data, communication. Make operations "
        "larger, overlap."
    )
    ask(
        "512 sequences are decoded together on an H100. Which part of a step still waits for memory?",
        "reading the key-value caches",
        choices=["the products with the weights", "reading the key-value caches", "nothing"],
        slips={
            "the products with the weights": f"At 512 rows they do {intensities[4]:.0f} FLOPs for each byte.",
            "nothing": "What is different for each sequence can't be shared by a batch.",
        },
    )


def intensity_of_a_cache(sequences: int) -> float:
    """FLOPs per byte of scores of one new token with 2048 cached keys, for each sequence and head, in bf16"""
    query = torch.empty(sequences * 32, 1, 128, device="meta", dtype=torch.bfloat16)  # (B · H, 1, D/H)
    keys = torch.empty(sequences * 32, 128, 2048, device="meta", dtype=torch.bfloat16)  # (B · H, D/H, S)
    scores_bytes = 2 * sequences * 32 * 2048
    flops = count(partial(torch.bmm, query, keys)).flops
    return float(flops / (query.nbytes + keys.nbytes + scores_bytes))


def size_a_run() -> None:
    """Size a run yourself"""
    text(
        "A model of 13 billion parameters, 40 layers of width 5120 and a vocabulary of 32000, is to be trained on 260 "
        "billion tokens in sequences of 2048, on 64 H100s (80 GB, 989.5 TFLOP/s in bf16). Plan with an MFU of 0.4: "
        "0.5 is good, and section 1 shows what becomes of counting on it."
    )
    parameters, tokens, gpus = 13e9, 260e9, 64  # @hide
    days = 6 * parameters * tokens / (gpus * H100_SPARSE_BF16 / 2 * 0.4) / SECONDS_PER_DAY  # @hide
    ask(
        "How many days does it take?",
        days,
        unit="days",
        within=0.03,
        hint="$6ND$, over the FLOP/s of all GPUs, over the MFU.",
        slips={
            days / 3: "2ND is the forward pass.",
            days / 2: "1979 TFLOP/s is the figure with sparsity.",
            days * 0.4: "That is at the peak. The MFU is 0.4.",
        },
    )
    held = 16 * parameters / gpus / 1e9  # @hide
    ask(
        "With AdamW and everything sharded (ZeRO stage 3), how many GB of parameters, gradients and states does each "
        "GPU hold, at 16 bytes per parameter?",
        held,
        unit="GB",
        slips={held * gpus: "That is the sum over all GPUs.", held * 12 / 16: "The fp32 states and master alone."},
    )
    saved = 2048 * 5120 * 34 * 40 / 1e9  # @hide
    ask(
        "With FlashAttention, how many GB of activations does one sequence leave, at 34 bytes for each token, layer "
        "and unit of width?",
        saved,
        unit="GB",
        within=0.02,
        slips={saved / 40: "One layer. There are 40."},
    )
    logits = 3 * 4 * 2048 * 32000 / 1e9  # @hide
    ask(
        "How many GB are its logits at the peak, three tensors in fp32?",
        logits,
        unit="GB",
        within=0.03,
        slips={logits / 3: "One tensor. Its gradient and that of the log-probabilities are as large."},
    )
    fitting = math.floor((H100_MEMORY / 1e9 - held) / (saved + logits))  # @hide
    ask(
        "How many such sequences fit on a GPU at once, if nothing else is there?",
        fitting,
        within=0,
        hint="80 GB, less what is held, over what a sequence leaves.",
    )
    checkpointed = 2048 * 5120 * 2 * 40 / 1e9 + max(saved / 40, logits)  # @hide
    ask(
        "And with a checkpoint around each layer, that keeps 2 bytes per number and works on one layer at a time? "
        "Logits are freed before any layer is computed again.",
        math.floor((H100_MEMORY / 1e9 - held) / checkpointed),
        within=0,
        hint="Each sequence keeps 40 inputs of layers. Beside them are either its logits or, later, one whole layer: "
        "the larger of these two counts.",
        slips={
            fitting: "That is without checkpoints.",
            math.floor(
                (H100_MEMORY / 1e9 - held) / (checkpointed + min(saved / 40, logits))
            ): "That adds the logits to a whole layer. They are freed early in the backward pass, before layers are "
            "computed again.",
        },
    )
    parts = [2 * parameters / gpus / 1e9, 2 * parameters / gpus / 1e9, 12 * parameters / gpus / 1e9]  # @hide
    bars = dict(
        zip(("parameters", "gradients", "states and master"), ([part] * 2 for part in parts), strict=True)
    )  # @hide
    bars |= {
        "activations": [fitting * saved, fitting * 2048 * 5120 * 2 * 40 / 1e9],
        "logits": [fitting * logits] * 2,
    }  # @hide
    names = [f"{fitting} sequences", "with checkpoints"]  # @hide
    plot(bars, x=names, y_label="GB", style="stacked", title="On each of the 64 GPUs, of 80 GB")  # @hide
    compare_with_the_count(days)


def compare_with_the_count(days: float) -> None:
    """Compare it with the count"""
    text(
        "Now the same model is made on the `meta` device. A step of one sequence is counted with one layer and with "
        "two: what the second adds is there 40 times. The 34 bytes of a layer with dropout, in 16 bits, are "
        "counted in section 13's layer, 20 times narrower than this one:"
    )
    shape = Shape(vocabulary=32000, context=2048, width=5120, layers=40, heads=40)
    with torch.device("meta"):
        made = sum(w.numel() for w in LanguageModel(shape).parameters())  # @inspect made @stepover
        assert made == 40 * 12 * 5120**2 + 2 * 32_000 * 5120 + 81 * 5120  # matrices; embedding, head; norms
        sequence = torch.zeros(1, shape.context, dtype=torch.long)  # (B, S)
        one, two = (LanguageModel(replace(shape, layers=n)) for n in (1, 2))  # @stepover
    of_one, of_two = training_flops(one, sequence), training_flops(two, sequence)  # @stepover
    products = of_one + 39 * (of_two - of_one)  # @inspect products [FLOP]
    assert products == sum(flops_by_part(shape, 1).values())  # as section 8 adds them up
    x = torch.randn(2, 128, 256).bfloat16()  # (B, S, D)
    saved_bytes = saved_by_gpt_layer(x, transformer_weights(256), 2, attention_in_one) / x.numel()  # @stepover
    assert 34 < saved_bytes < 34.2  # means, deviations and sums of the softmax, beside the formula @inspect saved_bytes
    more_flops = products / (6 * 13e9 * shape.context)  # @inspect more_flops
    assert 1.03 < more_flops < 1.06
    rows = [
        ("parameters, 10⁹", 13, made / 1e9, made / 13e9),
        ("FLOPs per token, 10⁹", 6 * 13, products / shape.context / 1e9, more_flops),
        ("bytes saved per token, layer, width", 34, saved_bytes, saved_bytes / 34),
        ("days", days, days * more_flops, more_flops),
    ]  # @hide
    table(
        [(name, *(round(n, 3) for n in numbers)) for name, *numbers in rows], ["quantity", "sized", "counted", "ratio"]
    )  # @hide
    ask(
        f"The count is {more_flops - 1:.1%} above $6ND$. What is missing on the napkin?",
        "attention's products with keys and values",
        choices=["attention's products with keys and values", "the optimizer", "the embedding's lookups"],
        hint="Which products have no weights?",
        slips={
            "the optimizer": "It is a few FLOPs per parameter and step, not per token.",
            "the embedding's lookups": "A lookup multiplies nothing, and yet $6ND$ counts the embedding.",
        },
    )


def what_to_do_with_it() -> None:
    """What to do with it"""
    text(
        "1. **Before** a run: arithmetic. Do parameters, gradients, states and activations fit? How many days, at an "
        "MFU of 0.4?\n"
        "2. **On the first steps**: count. Are the FLOPs $6ND$, the bytes 16 a parameter? A difference has a reason.\n"
        "3. **While it runs**: measure. Is the MFU what you planned with? If not: memory, arithmetic or neither?\n"
        "4. **Always**: save everything, and resume once on purpose before you have to.\n\n"
        "The numbers on these pages were derived, counted or measured, many of them all three; those taken from "
        "elsewhere, or assumed, say so. Change one and run it again: that is what it is for."
    )
    ask(
        'Find the error: *"7 billion parameters in bf16 are 14 GB, so one GPU of 24 GB can train them with AdamW, fp32 '
        'master weights and states."* How many GB are held before any activation?',
        (2 + 2 + 4 + 8) * 7,
        unit="GB",
        slips={14.0: "The bf16 weights alone.", (2 + 2 + 8) * 7.0: "The master weights are 4 bytes more."},
    )
    ask(
        "The run has to end after so many `days`. Write the line that computes the `gpus` it takes, from `parameters`, "
        "`tokens`, `peak` (FLOP/s of one) and `mfu`.",
        "gpus = 6 * parameters * tokens / (days * 86400 * peak * mfu)",
        why="Section 1's line, solved for another of its names. Round up.",
    )
    text("Where to go on:")
    for name in ("scaling book", "ultra-scale", "brrr", "transformer math"):
        link(**REFERENCES[name])


if __name__ == "__main__":
    from trace_tools.plain import run

    run(main)
