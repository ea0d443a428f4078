"""Keep torch's compiler from hiding operators in kernels, which a meter can't see.

with forced_eager():  # or graphs_of_inductor()
    compiled(x)  # its operators run one by one

While torch turns the running code into a graph, operators are recorded instead of computed, or in addition. An operator
that a tool ran would become part of the graph, and a size that it read as a number would become fixed there. So while
`records_graph` returns True, the tools do not observe or count.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch._C import _TorchDispatchModeKey as Key
from torch.fx import _symbolic_trace as symbolic

from trace_tools.util.interpreter import OnceImported, replaced


def forced_eager() -> AbstractContextManager[None]:
    """Switch torch's compiler off in the `with` block."""
    return _while_loaded("torch._dynamo", lambda _: torch.compiler.set_stance("force_eager"))


def graphs_of_inductor() -> AbstractContextManager[None]:
    """Run graphs directly instead of letting inductor make kernels of them, because a mode sees no kernel."""

    def changed(module: Any) -> Any:
        compile_fx = module.compile_fx

        @functools.wraps(compile_fx)
        def graph_as_it_is(graph: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if args or "inner_compile" in kwargs:  # the code is written to a file, not run
                return compile_fx(graph, inputs, *args, **kwargs)
            return graph.forward

        return replaced(module, "compile_fx", graph_as_it_is)

    return _while_loaded("torch._inductor.compile_fx", changed)


@contextmanager
def _while_loaded(module: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """Enter the context that `change` makes of a module of torch, now or once the lecture imports it.

    Loading the compiler takes more than a second. A lecture that does not compile should not wait for that, least of
    all in the step that it counts; and an import keeps its caller's frames alive.
    """
    with ExitStack() as stack:

        def begin() -> None:
            loaded.end()
            stack.enter_context(change(sys.modules[module]))

        loaded = OnceImported(module, begin)
        stack.callback(loaded.end)
        if module in sys.modules:
            begin()
        else:
            loaded.begin()
        yield


def records_graph() -> bool:
    """Return whether torch records a graph in this thread.

    This covers `torch.jit.trace`, `torch.fx`, `make_fx`, AOTAutograd, `torch.export`, and fake tensors with symbolic
    sizes. Fake tensors with numbers as sizes can be observed.
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
