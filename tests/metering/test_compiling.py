"""`records_graph` is true while one of torch's tracers records a graph, and false otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_function
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trace_tools.metering.compiling import records_graph

X = torch.ones(3)


def asking_function(answers: list[bool]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        answers.append(records_graph())
        return x + 1

    return f


def exported(f: Callable[[Any], Any]) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return f(x)

    torch.export.export(Module(), (X,))


def run_in_mode(mode: Any, f: Callable[[Any], Any]) -> None:
    with mode:
        f(torch.ones(3))


RECORDING: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "jit.trace": lambda f: torch.jit.trace(f, X, check_trace=False),
    "fx": torch.fx.symbolic_trace,
    "make_fx": lambda f: make_fx(f)(X),
    "make_fx, fake": lambda f: make_fx(f, tracing_mode="fake")(X),
    "make_fx, symbolic": lambda f: make_fx(f, tracing_mode="symbolic")(X),
    "make_fx, before dispatch": lambda f: make_fx(f, pre_dispatch=True)(X),
    "AOTAutograd": lambda f: aot_function(f, fw_compiler=lambda graph, inputs: graph)(X),
    "export": exported,
    "symbolic sizes": lambda f: run_in_mode(FakeTensorMode(shape_env=ShapeEnv()), f),
}
COMPUTING: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "plainly": lambda f: f(X),
    "fake": lambda f: run_in_mode(FakeTensorMode(), f),
    "vmap": lambda f: torch.func.vmap(f)(X),
    "grad": lambda f: torch.func.grad(lambda x: f(x).sum())(X),
    "inference": lambda f: run_in_mode(torch.inference_mode(), f),
}


def test_running_tracers_of_torch_are_detected() -> None:
    for recording, runs in ((True, RECORDING), (False, COMPUTING)):
        for name, run in runs.items():
            answers: list[bool] = []
            run(asking_function(answers))
            assert answers and set(answers) == {recording}, name
            assert not records_graph(), name
