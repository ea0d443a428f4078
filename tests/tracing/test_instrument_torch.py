"""Probes do not change the results and graphs of torch; the run without probes is the oracle."""

from __future__ import annotations

import builtins
import contextlib
import types
from pathlib import Path

import pytest
import torch
import torch._dynamo  # else the profiler loads it, which takes a second

from tests.tracing.probed import Probed, new_module
from trace_tools.describing import tensors  # noqa: F401  (loaded before the lecture's modes, as in a worker)
from trace_tools.metering.compiling import records_graph
from trace_tools.metering.meters import Meter


def plain(text: str, path: Path | str = "lecture.py") -> types.ModuleType:
    """Return the module of `text` without probes."""
    module = new_module(text, path)
    exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
    return module


RECORDED = """
import torch
from torch import nn
from torch._functorch.aot_autograd import aot_function
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

def f(x):  # @inspect x, x.sum()
    z = x + 1  # @inspect z z.sum() z.shape[0]
    assert z.sum() > 1
    return z * 2  # @inspect z[0]

def g(x):  # @inspect x.sum()
    z = x + 1  # @inspect z.sum() z.shape[0]
    assert z.shape[0] == x.shape[0]
    for row in (z, z):  # @inspect row.sum()
        z = z * row  # @inspect z
    return torch.cat(list(halves(z)))

def halves(x):
    yield x * 2  # @inspect x.sum()
    yield x * 3  # @inspect x.sum()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):  # @inspect x.shape[0]
        '''Documented.'''
        y = self.linear(x)  # @inspect y y.mean()
        return torch.relu(y).sum(-1)  # @inspect y.shape[0]

def breaks(x):
    x = g(x)
    print(end="")
    with torch.no_grad():
        x = g(x)  # @stepover
        torch._dynamo.graph_break()
        x = x.sin()
    return x if x.sum() > 0 else g(x)  # @inspect x

def breaks_in_loop(x):
    for i in range(2):  # @inspect i
        x = g(x) * i
        torch._dynamo.graph_break()
    return x

scale = 2.0

def closes_over(x):
    count = 0
    def inner(y):
        nonlocal count
        count += 1
        return y * count + x
    global scale
    scale += 1.0
    result = [inner(x) * scale for _ in range(2)]
    scale = 2.0
    return result[0] + result[1]

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.by = 2
        return x * ctx.by

    @staticmethod
    def backward(ctx, g):
        return g * ctx.by

def differentiates(x):
    x = x.clone().requires_grad_()
    return Double.apply(x).sum()

def exported(**how):
    dynamic = {"x": {0: torch.export.Dim("batch")}}
    program = torch.export.export(Net(), (torch.ones(5, 4),), dynamic_shapes=dynamic, **how)
    return program.graph_module.code, str(program.range_constraints), program.module()(torch.ones(7, 4)).shape

def functional():
    graphs = []
    def keep(graph, inputs):
        graphs.append(graph.code)
        return graph
    x = torch.ones(3, requires_grad=True)
    aot_function(lambda x: g(x).sin().sum(), fw_compiler=keep, bw_compiler=keep)(x).backward()
    return graphs

def symbolic():
    environment = ShapeEnv()
    with FakeTensorMode(shape_env=environment) as mode:
        x = mode.from_tensor(torch.ones(5, 4), static_shapes=False)  # @inspect x x.shape[0] x.sum()
        y = Net()(x)  # @inspect y.shape[0]
        assert y.shape[0] == x.shape[0]
        return str(y.shape), str(environment.guards)

def compiled(function, *shape):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    graphs = []
    def keep(graph, inputs):
        graphs.append(graph.code)
        return graph.forward
    call = torch.compile(function, backend=keep)
    results = [call(torch.full((n, *shape), 0.25)).tolist() for n in (2, 2, 3)]
    assert graphs
    return graphs, results, sorted(torch._dynamo.utils.counters["graph_break"].values())

def every(x):
    return {
        "jit": torch.jit.trace(f, x).code,
        "jit module": torch.jit.trace(Net(), torch.ones(2, 4)).code,
        "script": torch.jit.script(Net()).code,
        "fx": torch.fx.symbolic_trace(Net()).code,
        "make_fx": make_fx(g)(x).code,
        "symbolic": make_fx(g, tracing_mode="symbolic")(x).code,
        "before dispatch": make_fx(g, pre_dispatch=True)(x).code,
        "grad": make_fx(torch.func.grad(lambda x: g(x).sum()))(x).code,
        "export": exported(),
        "strict": exported(strict=True),
        "AOTAutograd": functional(),
        "symbolic sizes": symbolic(),
        "compiled": [compiled(f) for f in (g, closes_over, differentiates)],
        "compiled with breaks": [compiled(f) for f in (breaks, breaks_in_loop)],
        "compiled module": compiled(Net(), 4),
    }

def main():
    torch.manual_seed(0)
    return every(torch.ones(3))
"""


@pytest.mark.slow
def test_torch_records_the_same_graphs_with_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lecture.py"
    path.write_text(RECORDED, encoding="utf-8")
    module = plain(RECORDED, path)
    with pytest.warns(torch.jit.TracerWarning):
        expected = module.main()
    assert expected["compiled"][0][2] == [] and expected["compiled with breaks"][0][2] != []
    for meter in (None, Meter("cpu", compiling=True)):
        journal, settings = tmp_path / f"{meter is None}.journal", {"meter": meter, "records_graph": records_graph}
        with (
            Probed(RECORDED, path, journal, **settings) as lecture,
            meter or contextlib.nullcontext(),
            pytest.warns(torch.jit.TracerWarning),
        ):
            for name, hook in lecture.hooks.items():  # builtins, as in a trace; dynamo finds globals by module name
                monkeypatch.setattr(builtins, name, hook, raising=False)
                del vars(lecture.module)[name]
            actual = lecture.module.main()
        if meter is not None:  # what runs between two graphs is metered, and dynamo compiles what follows otherwise
            del expected["compiled with breaks"]
        for name, graph in expected.items():
            assert actual[name] == graph, f"{name}, {'timed' if meter is None else 'metered'}"
        steps = {code: lecture.steps(code) for code in ("return every", "x = mode.from_tensor", "call = torch.compile")}
        assert [step.graph for step in steps["return every"]] == [True]
        assert [(step.graph, [*step.values]) for step in steps["x = mode.from_tensor"]] == [(meter is None, [])]
        assert {step.graph for step in steps["call = torch.compile"]} == {False}


WATCHED = """
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

class Operators(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append(str(func))
        return func(*args, **(kwargs or {}))

class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        seen.append(func.__name__)
        return func(*args, **(kwargs or {}))

seen = []

def main():
    with Operators(), Functions(), torch.profiler.profile() as profiler:
        x = torch.ones(3)  # @inspect x, x.sum()
        y = x + 1  # @inspect y.mean()
    with torch.device("meta"):
        z = torch.ones(3)  # @inspect torch.zeros(2)
    return seen, sorted((event.key, event.count) for event in profiler.key_averages())
"""


def test_modes_and_the_profiler_do_not_see_inspections(tmp_path: Path) -> None:
    expected = plain(WATCHED).main()
    with Probed(WATCHED, "lecture.py", tmp_path / "x.journal") as lecture:
        assert lecture.module.main() == expected
    described = {value[0]: value[2]["tensor"] for step in lecture.run.steps.values() for value in step.values}
    assert described["x.sum()"]["elements"] == [3.0] and described["y.mean()"]["elements"] == [2.0]
    assert described["torch.zeros(2)"]["device"] == "meta"
