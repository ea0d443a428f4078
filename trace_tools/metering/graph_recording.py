"""Detect whether torch turns the running Python code into a graph.

While torch records a graph, operators are recorded instead of computed, or in addition: an operator that a tool runs
becomes part of the graph, and a size that it reads as a number becomes fixed there. So the tools neither observe nor
count while this returns True.

    torch.jit.trace(f, x)  # in f, records_graph() is True; likewise under make_fx, torch.export and torch.fx
"""

from __future__ import annotations

import torch
from torch._C import _TorchDispatchModeKey as Key
from torch.fx import _symbolic_trace as symbolic


def records_graph() -> bool:
    """Return whether torch records a graph in this thread.

    This covers `torch.jit.trace`, `torch.fx`, `make_fx`, AOTAutograd, `torch.export`, and fake tensors with symbolic
    sizes. Fake tensors whose sizes are numbers can be observed.
    """
    if torch._C._get_tracing_state() is not None or symbolic._is_fx_tracing_flag or torch.compiler.is_compiling():
        return True
    if torch._C._len_torch_dispatch_stack():
        mode = torch._C._get_dispatch_mode
        if mode(Key.PROXY) is not None or mode(Key.FUNCTIONAL) is not None:
            return True
        fake = mode(Key.FAKE)
        if fake is not None and fake.shape_env is not None:
            return True
    return bool(torch._ops._len_torch_dispatch_stack_pre_dispatch())  # type: ignore[no-untyped-call]
