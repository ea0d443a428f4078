"""`records_graph` is true while one of torch's tracers records a graph, and false otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._functorch.aot_autograd import aot_function
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tests.cases_in_one import each
from trace_tools.metering.compiling import graphs_of_inductor, records_graph

X = torch.ones(3)


def exported(f: Callable[[Any], Any]) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return f(x)

    torch.export.export(Module(), (X,))


def run_in_mode(mode: Any, f: Callable[[Any], Any]) -> None:
    with mode:
        f(torch.ones(3))


@each(
    ("run", "recording"),
    [
        (lambda f: torch.jit.trace(f, X, check_trace=False), True),
        (torch.fx.symbolic_trace, True),
        (lambda f: make_fx(f)(X), True),
        (lambda f: make_fx(f, tracing_mode="fake")(X), True),
        (lambda f: make_fx(f, tracing_mode="symbolic")(X), True),
        (lambda f: make_fx(f, pre_dispatch=True)(X), True),
        (lambda f: aot_function(f, fw_compiler=lambda graph, inputs: graph)(X), True),
        (exported, True),
        (lambda f: run_in_mode(FakeTensorMode(shape_env=ShapeEnv()), f), True),
        (lambda f: f(X), False),
        (lambda f: run_in_mode(FakeTensorMode(), f), False),
        (lambda f: torch.func.vmap(f)(X), False),
        (lambda f: torch.func.grad(lambda x: f(x).sum())(X), False),
        (lambda f: run_in_mode(torch.inference_mode(), f), False),
    ],
)
def test_running_tracers_of_torch_are_detected(run: Callable[[Callable[[Any], Any]], Any], recording: bool) -> None:
    answers: list[bool] = []

    def f(x: Any) -> Any:
        answers.append(records_graph())
        return x + 1

    run(f)
    assert answers and set(answers) == {recording}
    assert not records_graph()


def test_graphs_run_instead_of_kernels_unless_their_code_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(graph: Any, inputs: Any, inner_compile: object = None) -> str:
        return "kernels"

    inductor, graph = SimpleNamespace(compile_fx=compiled), SimpleNamespace(forward="as it is")
    monkeypatch.setitem(sys.modules, "torch._inductor.compile_fx", inductor)
    with graphs_of_inductor():
        results = [inductor.compile_fx(graph, []), inductor.compile_fx(graph, [], 1)]
        results.append(inductor.compile_fx(graph, [], inner_compile=1))
    assert results == ["as it is", "kernels", "kernels"] and inductor.compile_fx is compiled
