"""A meter changes no result; its counts equal formulas by hand and torch's own counter."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tests.cases_in_one import each
from trace_tools import count
from trace_tools.machines import float32_precision
from trace_tools.metering.meters import Meter, bytes_alive
from trace_tools.trace.model import Meters


class Block(nn.Module):
    def __init__(self, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.mlp = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.dropout = dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


def trained(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for _ in range(2):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [*losses, *model.parameters()]


def within(context: Any, program: Callable[[], Any]) -> Any:
    with context:
        return program()


def checkpointed() -> Any:
    x = text().requires_grad_()
    checkpoint(Block(), x, use_reentrant=False).sum().backward()
    return x.grad


def picture() -> torch.Tensor:
    return torch.rand(2, 3, 9, 9)


def text() -> torch.Tensor:
    return torch.rand(2, 5, 32)


BFLOAT16 = torch.autocast("cpu", dtype=torch.bfloat16)
PROGRAMS: dict[str, Callable[[], Any]] = {
    "transformer block": lambda: trained(Block(), text()),
    "with dropout": lambda: trained(Block(dropout=0.5), text()),
    "torch's own block": lambda: trained(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), text()),
    "that block's fast path": lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()(text()),
    "convolution": lambda: trained(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), picture()),
    "LSTM": lambda: nn.LSTM(6, 4, num_layers=2)(torch.rand(5, 2, 6))[0],
    "inference mode": lambda: within(torch.inference_mode(), lambda: [Block()(text()), nn.LSTM(32, 4)(text())[0]]),
    "autocast": lambda: within(BFLOAT16, lambda: trained(Block(), text())),
    "checkpoint": checkpointed,
    "vmap": lambda: torch.func.vmap(lambda a, b: (a @ b).softmax(0))(torch.rand(3, 4, 5), torch.rand(3, 5)),
    "jacobian": lambda: torch.func.jacrev(lambda a: a.sin() @ a)(torch.rand(5)),
    "compiled": lambda: torch.compile(lambda a: (a @ a).relu(), backend="eager", fullgraph=True)(torch.rand(4, 4)),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "compiled")) for name in PROGRAMS]
)
def test_meters_do_not_change_results(name: str) -> None:
    torch.manual_seed(1)
    plain = PROGRAMS[name]()
    torch.manual_seed(1)
    with Meter() as meter:
        metered = PROGRAMS[name]()
    pairs = zip(plain, metered, strict=True) if isinstance(plain, (list, tuple)) else [(plain, metered)]
    assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in pairs)
    assert meter.totals.flops > 0
    assert not meter.totals.uncounted


class Logged(torch.Tensor):
    """A wrapper that records the operators that get it."""

    recorded: ClassVar[list[str]] = []

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined]

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.recorded.append(str(func))
        plain = tree_map_only(Logged, lambda tensor: tensor.inner, args)
        return tree_map_only(torch.Tensor, Logged, func(*plain, **(kwargs or {})))


class RecordingMode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Logged.recorded.append(str(func))
        return func(*args, **(kwargs or {}))


def nested(layout: torch.layout) -> Any:
    x = torch.nested.nested_tensor([torch.rand(3, 8), torch.rand(5, 8)], layout=layout)
    return [t for y in (nn.Linear(8, 4)(x), F.relu(x), nn.LayerNorm(8)(x), *x.chunk(2, -1)) for t in y.unbind()]


def quantised() -> Any:
    x = torch.quantize_per_tensor(torch.rand(2, 4, 6, 6), 0.1, 3, torch.quint8)
    pooled = F.avg_pool2d(x, 2), F.interpolate(x, scale_factor=2), x.reshape(2, -1), *x.chunk(2, 1), F.relu(x)
    return [y.dequantize() for y in pooled]


def sparse() -> Any:
    x = torch.eye(4).to_sparse()
    return [x @ torch.rand(4, 4), (x @ x).to_dense(), x.t().to_dense(), F.linear(torch.rand(2, 4), x.to_sparse_csr())]


def wrapped() -> Any:
    products = [F.linear(Logged(torch.rand(3, 4)), torch.rand(2, 4)) for _ in range(2)]
    return [F.softmax(x, -1).inner for x in products]


def under_another_mode() -> Any:
    with RecordingMode():
        with Meter():
            y = F.linear(torch.rand(3, 4), torch.rand(2, 4)), wrapped()[0]
        return [*y, F.interpolate(torch.rand(2, 3, 9, 11), scale_factor=2.3, mode="bilinear")]


MODES = ("bicubic", "bilinear")
UNUSUAL: dict[str, Callable[[], Any]] = {
    "transformer block": lambda: Block()(text()),
    "nested, strided": lambda: nested(torch.strided),
    "nested, jagged": lambda: nested(torch.jagged),
    "quantised": quantised,
    "sparse": sparse,
    "larger": lambda: [F.interpolate(torch.rand(2, 3, 9, 11), scale_factor=2.3, mode=m) for m in MODES],
    "bilinear": lambda: torch.bilinear(torch.rand(2, 3), torch.rand(2, 4), torch.rand(5, 3, 4), None),
    "recurrent": lambda: nn.GRU(8, 16)(torch.rand(5, 2, 8))[0],
    "a class with a dispatch of its own": wrapped,
    "under another mode": under_another_mode,
    "vmap in it": lambda: torch.func.vmap(lambda x: F.linear(x, torch.ones(2, 4)))(torch.rand(2, 3, 4)),
}  # fmt: skip


def test_unusual_tensors_run_and_count_the_same_in_inference_mode() -> None:
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))  # loads the operators of compiled code
    for name, program in UNUSUAL.items():
        counted = []
        for mode in (torch.no_grad, torch.inference_mode):
            outcomes = []
            for meter in (None, Meter(compiling=True)):
                torch.manual_seed(1)
                Logged.recorded.clear()
                with warnings.catch_warnings(), mode(), meter or contextlib.nullcontext():
                    warnings.simplefilter("ignore")
                    results = program()
                outcomes.append((results if isinstance(results, list) else [results], [*Logged.recorded]))
                if meter is not None:
                    counted.append((meter.totals.flops, meter.totals.operators["aten.mm"], meter.reading().plain()))
            (plain, plain_operators), (metered, metered_operators) = outcomes
            assert all(torch.equal(a, b) for a, b in zip(plain, metered, strict=True)), (name, mode)
            assert plain_operators == metered_operators, (name, mode)
        (flops, products, usual), (least, same, inference) = counted
        if name in ("nested, strided", "sparse", "quantised", "under another mode"):  # a reported lower bound
            assert (least, same) == (flops, products) or (least <= flops and inference["uncounted"]), name
        else:
            assert (least, same) == (flops, products), name
        if name == "transformer block":
            for field in ("bytes_read", "bytes_written", "operators"):
                assert usual[field] == inference[field], field


def test_meters_add_no_guards_to_symbolic_sizes() -> None:
    environment = ShapeEnv()
    x = FakeTensorMode(shape_env=environment).from_tensor(torch.ones(5, 4), static_shapes=False)
    with Meter() as meter:
        y = (x @ x.T).relu().sum(0)
    assert [str(guard.expr) for guard in environment.guards] == [] and "s" in str(y.shape)
    assert meter.totals.flops == 0


def test_checkpointing_counts_a_second_forward_pass() -> None:
    net, x = nn.Sequential(nn.Linear(8, 8, bias=False), nn.GELU()), torch.rand(2, 8, requires_grad=True)
    with Meter() as plain:
        net(x).sum().backward()
    with Meter() as recomputing:
        checkpoint(net, x, use_reentrant=False).sum().backward()
    assert recomputing.totals.flops_by_operator["aten.mm"] - plain.totals.flops_by_operator["aten.mm"] == 2 * 2 * 8 * 8


def test_readings_have_the_fields_of_the_schema() -> None:
    x = torch.rand(10, 10)
    with Meter() as meter:
        x @ x
        before = meter.reading()
        y = (x + x).sort().values
        meters = Meters(**(meter.reading() - before).plain(), peak_bytes=meter.take_peak())
    assert meters.flops == 100
    assert meters.bytes_written == 400 + 400 + 800
    assert meters.operators == [("aten.add", 1), ("aten.sort", 1)]
    assert meters.uncounted == ["aten.sort"]
    assert meters.live_bytes == x.nbytes + y.nbytes
    assert meters.why is None


def newer_setting() -> None:
    """Let products use tf32 by the newer interface, after which the older one cannot be read."""
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.cudnn.conv.fp32_precision = "ieee"  # type: ignore[attr-defined]


@each(
    ("setting", "product", "convolution"),
    [
        (lambda: torch.set_float32_matmul_precision("highest"), "float32", "tf32"),  # cuDNN's default
        (lambda: torch.set_float32_matmul_precision("high"), "tf32", "tf32"),
        (lambda: torch.set_float32_matmul_precision("medium"), "tf32_or_bfloat16", "tf32"),
        *([(newer_setting, "tf32", "float32")] if hasattr(torch._C, "_get_fp32_precision_getter") else []),
    ],
)
def test_products_have_the_dtype_of_the_precision_setting(
    setting: Callable[[], None], product: str, convolution: str
) -> None:
    x, before = torch.ones(8, 8), float32_precision.read()
    try:
        setting()
        with Meter() as meter:
            _ = x @ x, x + x, F.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2))
    finally:
        float32_precision.write(before)
    dtypes = {name: dtype for name, dtype, flops, _ in meter.reading().plain()["work"] if flops}
    assert dtypes == {"aten.add": "float32", "aten.convolution": convolution, "aten.mm": product}
    assert meter.reading().dtype == "float32"


def test_work_is_listed_by_operator_and_dtype() -> None:
    """By hand: a product of (2, 3) and (3, 4) takes 2·2·3·4 FLOPs and 4·(6 + 12 + 8) bytes in float32."""
    x, w, meta = torch.rand(2, 3), torch.rand(3, 4), torch.rand(5, 5, device="meta")
    with FakeTensorMode():
        fake = torch.rand(6, 6)
    with Meter() as meter:
        y = x @ w
        y @ y.t()
        y.to(torch.float64).mul_(2)
        y.view(8)
        meta @ meta
        x.to("meta")
        fake @ fake
    reading = meter.reading().plain()
    assert sorted(reading["work"]) == [
        ("aten._to_copy", None, 0, 8 * 4 + 8 * 8),
        ("aten.mm", "float32", 2 * 2 * 3 * 4 + 2 * 2 * 4 * 2, 4 * (6 + 12 + 8) + 4 * (8 + 4)),
        ("aten.mul_", "float64", 8, 2 * 8 * 8),
    ]
    assert reading["meta_flops"] == 2 * 5**3 + 2 * 6**3, "meta and fake tensors have FLOPs but no work"
    assert reading["flops"] == 48 + 32 + 8 + reading["meta_flops"]
    assert reading["bytes_read"] + reading["bytes_written"] == sum(moved for *_, moved in reading["work"])


def test_meters_nest_with_each_other_and_with_torchs_counter() -> None:
    x = torch.rand(10, 10)
    with Meter() as outer:
        x @ x
        with FlopCounterMode(display=False) as theirs, Meter() as inner:
            x @ x
        with FlopCounterMode(display=False) as inside:
            x @ x
        thread = threading.Thread(target=lambda: x @ x)  # is not metered
        thread.start()
        thread.join()
    assert (outer.totals.flops, inner.totals.flops) == (3 * 2000, 2000)
    assert theirs.get_total_flops() == inside.get_total_flops() == 2000


def test_operators_that_raise_are_not_counted() -> None:
    x = torch.rand(3)
    with Meter() as meter:
        for impossible in (lambda: x + torch.rand(4), lambda: torch.empty(1 << 60)):
            with pytest.raises(RuntimeError):
                impossible()
        x + x
    with pytest.raises(ZeroDivisionError), Meter() as left:
        1 / 0  # noqa: B018
    x + x  # no meter is still active
    assert (meter.totals.flops, left.totals.flops) == (3, 0)


def test_tensor_subclasses_count_like_their_inner_tensors() -> None:
    wrapper = Logged(torch.rand(10, 10))
    with Meter() as meter:
        wrapper @ wrapper
    assert (meter.totals.operators, meter.totals.flops, meter.totals.bytes_read) == ({"aten.mm": 1}, 2000, 400)
    ragged = torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(4, 3)], layout=torch.jagged)
    with Meter() as meter:
        F.linear(ragged, torch.rand(5, 3))
    assert meter.totals.flops == 2 * 6 * 3 * 5


def test_compiled_functions_have_flops_but_no_bytes() -> None:
    graphs: list[Any] = []

    def backend(graph: Any, example: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled, x = torch.compile(lambda a: (a @ a).relu() * 3, backend=backend, fullgraph=True), torch.rand(4, 4)
    for compiled_before in (0, 1):
        with Meter() as meter:
            compiled(x)
            inside = meter.reading()
            x + x
            after = meter.reading() - inside
        assert meter.totals.flops == 128 + 16 + 16 + 16
        assert inside.plain()["bytes_read"] is inside.plain()["bytes_written"] is None
        assert inside.plain()["why"] == "fused"
        assert (after.plain()["bytes_read"], after.plain()["why"]) == (64, None)
        assert len(graphs) == compiled_before  # not compiled under a meter, but still compiled later
        compiled(x)
        assert len(graphs) == 1
    torch._dynamo.reset()


COUNTS = """
import gc, sys, weakref
import torch
from trace_tools import count
from trace_tools.metering import meters
gc.disable()

def kept(requires_grad):
    x = torch.ones(8, 8, requires_grad=requires_grad)
    loaded = set(sys.modules)
    assert count(lambda: (x @ x).sum()).flops == 2 * 8**3 + 64
    assert set(sys.modules) == loaded, set(sys.modules) - loaded
    return weakref.ref(x)

assert kept(False)() is None and kept(True)() is None  # a call also leaves no reference cycle
assert "torch._dynamo" not in sys.modules
finders = list(sys.meta_path)
with meters.Meter() as outer, meters.Meter() as inner:
    compiled = torch.compile(lambda x: (x @ x).relu(), backend=lambda *_: 1 / 0)  # loads the compiler
    compiled(torch.ones(8, 8))
    assert sys.meta_path == finders, "the compiler is loaded: no finder waits for it"
assert outer.totals.flops == inner.totals.flops == 2 * 8**3 + 64 and outer.totals.fused
from torch._dynamo import eval_frame
assert eval_frame._stance.stance == "default" and "exec_module" not in vars(torch._dynamo.__loader__)
print("done")
"""


@pytest.mark.slow
def test_meters_disable_the_compiler_without_loading_it() -> None:
    completed = subprocess.run([sys.executable, "-c", COUNTS], capture_output=True, text=True, timeout=100)
    assert completed.stdout == "done\n", completed.stderr


def test_a_replaced_tensor_method_does_not_break_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(2, 2)
    with Meter() as meter:
        monkeypatch.setattr(torch.Tensor, "is_contiguous", lambda self: 1 / 0)
        y = x @ x
        monkeypatch.undo()
    assert torch.equal(y, torch.full((2, 2), 2.0)) and meter.totals.operators["aten.mm"] == 1
    assert meter.totals.uncounted == {"aten.mm": 1} and meter.totals.flops == 2 * 2**3


KIB = 1024


def test_each_phase_shows_initial_bytes_and_each_operator() -> None:
    x = torch.zeros(256)  # 1 KiB
    kept: list[torch.Tensor] = []

    def allocate() -> None:
        kept.append(x + 1)
        kept.append(x + 2)

    first, second = bytes_alive([x], allocate, kept.clear)
    assert first == [1 * KIB, 2 * KIB, 3 * KIB, 3 * KIB]
    assert second == [3 * KIB, 1 * KIB]


def test_freed_bytes_show_after_the_next_operator() -> None:
    x = torch.zeros(256)

    def chain() -> None:
        y = x + 1
        y = y * 2  # the sum is alive until the product exists
        y.sum()

    alive = bytes_alive([x], chain)[0]
    assert alive == [KIB, 2 * KIB, 3 * KIB, 2 * KIB + 4, KIB]


def test_the_peak_equals_that_of_count_and_views_add_nothing() -> None:
    x, w = torch.randn(64, 32), torch.randn(32, 32, requires_grad=True)

    def run() -> None:
        torch.autograd.grad((x @ w).relu().square().sum(), w)

    assert max(bytes_alive([x, w, x.t()], run)[0]) == count(run).peak_bytes
    assert set(bytes_alive([x, x.t()], lambda: x.t()[1:], lambda: None)[0]) == {x.nbytes}
