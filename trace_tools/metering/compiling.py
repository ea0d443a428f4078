"""Keep torch's compiler from hiding operators in kernels, which a meter can't see.

with ForceEager():  # or GraphsOfInductor()
    compiled(x)  # its operators run one by one

`records_graph` detects that torch turns the running code into a graph: under `torch.jit.trace`, `make_fx`,
`torch.export` and `torch.fx`, operators are recorded instead of computed, or in addition. An operator that a tool ran
would become part of the graph, and a size that it read as a number would become fixed there. So while it returns True,
the tools do not observe or count.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
from torch._C import _TorchDispatchModeKey as Key
from torch.fx import _symbolic_trace as symbolic

from trace_tools.util.interpreter import OnceImported


class _WhileLoaded:
    """Changes a module of torch, now or once the lecture imports it, and reverts the change at the end."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._changed = False
        self._loaded = OnceImported(module, self._change_it)

    def __enter__(self) -> None:
        if self._module in sys.modules:
            self._change_it()
        else:
            self._loaded.begin()

    def __exit__(self, *error: object) -> None:
        self._loaded.end()
        if self._changed:
            self.change_back()

    def _change_it(self) -> None:
        self._loaded.end()
        self._changed = True
        self.change()

    def change(self) -> None:
        raise NotImplementedError

    def change_back(self) -> None:
        raise NotImplementedError


class ForceEager(_WhileLoaded):
    """Switches torch's compiler off once it is loaded.

    Loading the compiler takes more than a second. A lecture that does not compile should not wait for that, least of
    all in the step that it counts; and an import keeps its caller's frames alive. So if the compiler is not loaded,
    this acts only once other code imports it. With nested meters, the outermost acts first.
    """

    def __init__(self) -> None:
        super().__init__("torch._dynamo")
        self._stance: Any = None

    def change(self) -> None:
        self._stance = torch.compiler.set_stance("force_eager")
        self._stance.__enter__()

    def change_back(self) -> None:
        self._stance.__exit__(None, None, None)


class GraphsOfInductor(_WhileLoaded):
    """Runs graphs directly instead of letting inductor make kernels of them, because a mode sees no kernel."""

    def __init__(self) -> None:
        super().__init__("torch._inductor.compile_fx")
        self._compile_fx: Any = None

    def change(self) -> None:
        module = sys.modules[self._module]
        compile_fx = self._compile_fx = module.compile_fx

        @functools.wraps(compile_fx)
        def graph_as_it_is(graph: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if args or "inner_compile" in kwargs:  # the code is written to a file, not run
                return compile_fx(graph, inputs, *args, **kwargs)
            return graph.forward

        module.compile_fx = graph_as_it_is  # type: ignore[attr-defined]

    def change_back(self) -> None:
        sys.modules[self._module].compile_fx = self._compile_fx  # type: ignore[attr-defined]


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
