"""FLOPs equal those of torch's counter, of formulas by hand, or of the same mathematics in separate operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula

from tests.cases_in_one import each
from trace_tools.metering.flops import FORMULAS
from trace_tools.metering.meters import Meter, Totals


def counted(f: Callable[[], Any]) -> Totals:
    with Meter() as meter:
        f()
    return meter.reading()


def counted_by_torch(f: Callable[[], Any], formulas: dict[Any, Any] | None = None) -> dict[str, int]:
    with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
        f()
    return {str(operator): flops for operator, flops in counter.get_flop_counts().get("Global", {}).items()}


def backward(y: torch.Tensor) -> None:
    y.sum().backward()


def input_of(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


CASES: dict[str, Callable[[], Any]] = {
    "mm": lambda: backward(input_of(3, 4) @ input_of(4, 5)),
    "bmm": lambda: backward(input_of(2, 3, 4) @ input_of(2, 4, 5)),
    "broadcast matmul": lambda: backward(input_of(2, 1, 3, 4) @ input_of(6, 4, 5)),
    "linear": lambda: backward(nn.Linear(4, 5)(input_of(2, 3, 4))),
    "addmm": lambda: torch.addmm(torch.randn(5), torch.randn(3, 4), torch.randn(4, 5)),
    "baddbmm": lambda: torch.baddbmm(torch.randn(5), torch.randn(2, 3, 4), torch.randn(2, 4, 5)),
    "einsum": lambda: backward(torch.einsum("bqhd,bkhd->bhqk", input_of(2, 3, 4, 5), input_of(2, 6, 4, 5))),
    "conv1d": lambda: backward(nn.Conv1d(3, 8, 3, stride=2, padding=1)(input_of(2, 3, 9))),
    "conv2d": lambda: backward(nn.Conv2d(3, 8, 3, dilation=2)(input_of(2, 3, 9, 8))),
    "conv2d, no gradient of the input": lambda: backward(nn.Conv2d(3, 8, 3)(torch.randn(2, 3, 9, 8))),
    "conv3d": lambda: backward(nn.Conv3d(2, 3, 2)(input_of(1, 2, 4, 4, 4))),
    "transposed": lambda: backward(nn.ConvTranspose2d(3, 8, 3, stride=2)(input_of(2, 3, 5, 5))),
    "GRU": lambda: backward(nn.GRU(6, 4)(input_of(5, 2, 6))[0]),
    "transformer": lambda: backward(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)(input_of(2, 5, 16))),
    "meta": lambda: torch.randn(8192, 28672, device="meta") @ torch.randn(28672, 8192, device="meta"),
}


@each("name", CASES)
def test_flops_equal_torchs_where_torch_counts(name: str) -> None:
    theirs = counted_by_torch(CASES[name])
    ours = counted(CASES[name])
    assert theirs
    assert {operator: ours.flops_by_operator[operator] for operator in theirs} == theirs
    assert not ours.uncounted


X16, W16 = torch.randn(16, 32).bfloat16(), torch.randn(2, 32, 16).bfloat16()
F8, ONE = torch.rand(16, 32).to(torch.float8_e4m3fn), torch.tensor(1.0)
NOT_TORCHS: dict[str, tuple[Callable[[], Any], int]] = {  # torch has no formula: by hand
    "mv": (lambda: torch.randn(3, 4) @ torch.randn(4), 2 * 3 * 4),
    "dot": (lambda: torch.randn(4) @ torch.randn(4), 2 * 4),
    "addmv": (lambda: torch.addmv(torch.randn(3), torch.randn(3, 4), torch.randn(4)), 2 * 3 * 4),
    "addbmm": (lambda: torch.addbmm(torch.randn(3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5)), 2 * 2 * 3 * 4 * 5),
    "addmm_": (lambda: torch.randn(3, 5).addmm_(torch.randn(3, 4), torch.randn(4, 5)), 2 * 3 * 4 * 5),
    "int8": (lambda: torch._int_mm(*[torch.ones(32, 32, dtype=torch.int8)] * 2), 2 * 32**3),
    "int8 weights": (
        lambda: torch._weight_int8pack_mm(X16, torch.ones(8, 32, dtype=torch.int8), torch.ones(8).bfloat16()),
        2 * 16 * 32 * 8,
    ),
    "fp8": (
        lambda: torch.ops.aten._scaled_mm_v2(F8, F8.t(), [ONE], [0], [0], [ONE], [0], [0], None, torch.float32),
        2 * 16 * 32 * 16,
    ),
    "rows in groups": (
        lambda: torch._grouped_mm(X16, W16, offs=torch.tensor([8, 16], dtype=torch.int32)),
        2 * 16 * 32 * 16,
    ),
    "all in groups": (lambda: torch._grouped_mm(X16.expand(2, 16, 32).clone(), W16), 2 * 2 * 16 * 32 * 16),
    "attention on a CPU": (
        lambda: F.scaled_dot_product_attention(*(torch.randn(1, 2, 5, 8) for _ in range(3))),
        2 * 2 * 2 * 5 * 5 * 8,
    ),
}


@each("name", NOT_TORCHS)
def test_torchs_counter_with_our_formulas_agrees(name: str) -> None:
    f, by_hand = NOT_TORCHS[name]
    assert counted(f).flops == sum(counted_by_torch(f, FORMULAS).values()) == by_hand
    assert not counted_by_torch(f), "its registry is unchanged: a lecture's own counter prints the same in a trace"


def test_operators_of_prims_count_like_those_of_aten() -> None:
    prims, x, y = torch.ops.prims, torch.rand(4, 8), torch.rand(4, 8)
    twins: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
        (lambda: prims.mul(x, y), lambda: x * y),
        (lambda: prims.exp(x), lambda: x.exp()),
        (lambda: prims.rsqrt(x), lambda: x.rsqrt()),
        (lambda: prims.pow(x, y), lambda: x**y),
        (lambda: prims.sum(x, [1]), lambda: x.sum(1)),
        (lambda: prims.var(x, [1], 1.0), lambda: x.var(1)),
        (lambda: prims.where(x > y, x, y), lambda: torch.where(x > y, x, y)),
        (lambda: prims.convert_element_type(x, torch.bfloat16), lambda: x.bfloat16()),
        (lambda: prims.transpose(x, [1, 0]), lambda: x.t()),
        (lambda: torch._refs.softmax(x, 1), lambda: (e := (x - x.amax(1, True)).exp()) / e.sum(1, True)),
    ]
    for primitive, ordinary in twins:
        ours, theirs = counted(primitive), counted(ordinary)
        assert (ours.flops, ours.uncounted) == (theirs.flops, {}) and sum(ours.operators.values())


def test_grouped_convolution_counts_each_group_once() -> None:
    x, conv = input_of(2, 4, 8, 8), nn.Conv2d(4, 6, 3, groups=2, bias=False)
    forward = 2 * (2 * 6 * 6 * 6) * (2 * 3 * 3)  # each element of the result: 2 channels of 3 × 3, multiply and add
    meter = counted(lambda: backward(conv(x)))
    assert meter.flops_by_operator["aten.convolution"] == forward
    assert meter.flops_by_operator["aten.convolution_backward"] == 2 * forward  # torch 2.13 counts 3 ×


def test_attention_with_grouped_heads_and_other_value_width() -> None:
    q, k, v = torch.randn(1, 6, 5, 8), torch.randn(1, 2, 7, 8), torch.randn(1, 2, 7, 8)
    meter = counted(lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    assert sum(n for name, n in meter.flops_by_operator.items() if "attention" in name or name == "aten.bmm") == (
        2 * 6 * 5 * 7 * (8 + 8)
    )


def test_lstm_kernel_counts_products_and_gates() -> None:
    steps, batch, width, hidden = 5, 2, 6, 4
    lstm = nn.LSTM(width, hidden)
    meter = counted(lambda: lstm(torch.randn(steps, batch, width)))
    products = 2 * steps * batch * 4 * hidden * (width + hidden)
    gates = 4 + 3 * 11 + 12 + 3 + 12 + 1
    assert meter.flops == products + gates * steps * batch * hidden
    # float64 has no such kernel and runs as separate operators
    assert counted(lambda: lstm.double()(torch.randn(steps, batch, width, dtype=torch.float64))).flops == meter.flops


X = torch.rand(4, 1024) + 0.5
Y = X / 2
ROOT = math.sqrt(2 / math.pi)
SAME: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {  # fused, and written out
    "gelu tanh": (
        lambda: F.gelu(X, approximate="tanh"),
        lambda: 0.5 * X * (1 + torch.tanh(ROOT * (X + 0.044715 * X * X * X))),
    ),
    "gelu erf": (lambda: F.gelu(X), lambda: 0.5 * X * (1 + torch.erf(X * 0.7071))),
    "tanh": (lambda: X.tanh(), lambda: ((e := (2 * X).exp()) - 1) / (e + 1)),
    "sigmoid": (lambda: X.sigmoid(), lambda: (1 + (-X).exp()).reciprocal()),
    "silu": (lambda: F.silu(X), lambda: X * X.sigmoid()),
    "softplus": (lambda: F.softplus(X), lambda: (1 + X.exp()).log()),
    "rsqrt": (lambda: X.rsqrt(), lambda: X.sqrt().reciprocal()),
    "cube": (lambda: X**3, lambda: X * X * X),
    "reciprocal square": (lambda: X**-2, lambda: (X * X).reciprocal()),
    "power": (lambda: X**0.3, lambda: (0.3 * X.log()).exp()),
    "lerp": (lambda: X.lerp(X, 0.3), lambda: X + 0.3 * (X - X)),
    "addcmul": (lambda: torch.addcmul(X, X, X, value=0.3), lambda: X + 0.3 * (X * X)),
    "addcdiv": (lambda: torch.addcdiv(X, X, X), lambda: X + X / X),
    "scaled add": (lambda: X.add(X, alpha=0.3), lambda: X + 0.3 * X),
    "clamp": (lambda: X.clamp(0, 1), lambda: X.clamp_min(0).clamp_max(1)),
    "mse": (lambda: F.mse_loss(X, Y, reduction="none"), lambda: torch.square(Y - X)),
    "mean of squares": (lambda: F.mse_loss(X, X), lambda: torch.square(X - X).sum()),
    "norm": (lambda: torch.linalg.vector_norm(X, dim=1), lambda: (X * X).sum(1)),
    "variance": (lambda: X.var(1), lambda: torch.square(X - X.mean(1, keepdim=True)).sum(1)),
    "softmax": (lambda: X.softmax(1), lambda: (e := (X - X.amax(1, True)).exp()) / e.sum(1, True)),
    "log softmax": (lambda: X.log_softmax(1), lambda: (d := X - X.amax(1, True)) - d.exp().sum(1, True).log()),
    "smooth L1": (
        lambda: F.smooth_l1_loss(X, Y, beta=0.5, reduction="none"),
        lambda: ((z := (X - Y).abs()) < 0.5, z * z * 0.5 / 0.5),
    ),
    "Huber": (lambda: F.huber_loss(X, Y, reduction="none"), lambda: ((z := (X - Y).abs()) < 1, z * z * 0.5)),
    "cross-entropy of bits": (
        lambda: F.binary_cross_entropy(Y, Y),
        lambda: ((Y - 1) * torch.log1p(-Y).clamp_min(-100) - Y * Y.log().clamp_min(-100)).sum(),
    ),
    "cross-entropy of logits": (
        lambda: F.binary_cross_entropy_with_logits(X, X),
        lambda: ((1 - X) * X - F.logsigmoid(X)).sum(),
    ),
    "layer norm": (
        lambda: F.layer_norm(X, (1024,), X[0], X[1]),
        lambda: (d := X - X.mean(1, True)) * torch.rsqrt(d.square().mean(1, True)) * X[0] + X[1],
    ),
}


@each("name", SAME)
def test_fused_operators_count_like_separate_ones(name: str) -> None:
    fused, separate = SAME[name]
    per_row = 16 * X.shape[0]  # terms that grow with rows only are dropped from fused operators
    flops = counted(fused).flops
    assert flops <= counted(separate).flops <= flops + per_row
    assert flops >= X.numel()


def test_results_written_to_given_tensors_count_the_same() -> None:
    x, y = torch.rand(6, 4), torch.empty(6, 4)
    assert counted(lambda: torch.ops.aten.gelu.out(x, approximate="tanh", out=y)).flops == 20 * 24
    assert counted(lambda: torch.clamp(x, 0, 1, out=y)).flops == 2 * 24
    wide = torch.empty(2, 6, 6, dtype=torch.bfloat16, device="meta")
    assert counted(lambda: torch.bmm(wide, wide, out_dtype=torch.float32)).flops == 2 * 2 * 6**3


@each(
    ("optimizer", "options", "of_each"),
    [
        (torch.optim.SGD, {}, 2),
        (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.1}, 5),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, 8),
        (torch.optim.Adam, {"weight_decay": 0.1, "amsgrad": True}, 16),
        (torch.optim.AdamW, {}, 14),
    ],
)
def test_all_implementations_of_an_optimizer_count_the_same(
    optimizer: Any, options: dict[str, Any], of_each: int
) -> None:
    parameters = [nn.Parameter(torch.randn(n, 3)) for n in (2, 5, 7)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    for implementation in ({"foreach": False}, {"foreach": True}, {"fused": True}):
        instance = optimizer(parameters, lr=0.1, **options, **implementation)
        instance.step()
        counts = 3 * (optimizer is not torch.optim.SGD)  # of steps
        assert counted(instance.step).flops == of_each * 3 * (2 + 5 + 7) + counts


def test_integer_arithmetic_has_no_flops() -> None:
    tokens = torch.arange(100)
    assert counted(lambda: ((tokens + 1) * 2 == 4).sum()).flops == 0
    assert counted(lambda: torch.rand(100) > 0.5).flops == 100  # a comparison of floats counts
    assert counted(lambda: tokens.sort()).uncounted == {}


def test_moving_selecting_and_random_numbers_have_no_flops() -> None:
    x = torch.rand(8, 8)
    meter = counted(
        lambda: (
            torch.where(x > 2, x.t().contiguous(), torch.cat([x[:4], x[[4, 5, 6, 7]]])),
            torch.randn(3).bfloat16(),
            x.clone().fill_(0).tril(),
            torch.empty(9).uniform_(),
        )
    )
    assert meter.flops == 64  # the comparison
    assert not meter.uncounted


def test_operators_without_formula_are_listed() -> None:
    sparse = torch.eye(4).to_sparse()
    assert counted(lambda: sparse @ torch.eye(4)).uncounted == {"aten.mm": 1}
    meter = counted(lambda: (torch.linalg.svd(torch.eye(3)), torch.rand(8).sort(), torch.rand(8) * 2))
    assert set(meter.uncounted) == {"aten._linalg_svd", "aten.sort"}
    assert meter.flops == 8


def test_formulas_that_a_lecture_registers_come_first() -> None:
    @torch.library.custom_op("meter_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    x = torch.rand(8)
    added = [torch.ops.meter_tests.twice, torch.ops.aten.mv, torch.ops.aten.relu]  # we have formulas for the last two
    try:
        with Meter() as meter:
            twice(x)
            before = meter.reading()
            register_flop_formula(added)(lambda shape, *args, out_shape=None, **_: 7)
            twice(x)
        assert (before.uncounted, meter.totals.flops) == ({"meter_tests.twice": 1}, 7)
        assert (before.bytes_read, before.bytes_written) == (32, 32)
        for f in (lambda: twice(x), lambda: torch.eye(8) @ x, lambda: x.relu()):
            assert counted(f).flops == sum(counted_by_torch(f).values()) == 7
    finally:
        for packet in added:
            flop_registry.pop(packet, None)


def work(f: Callable[[], Any]) -> int:
    with Meter() as meter:
        f()
    return sum(flops for _, _, flops, _ in meter.reading().plain()["work"])


@each(("queries", "keys"), [(6, 6), (4, 9), (9, 4)])
def test_work_excludes_masked_attention_scores(queries: int, keys: int) -> None:
    """torch documents the mask `ones(L, S).tril()`, which also applies to the backward pass."""
    q, k, v = (torch.rand(1, 2, length, 8, requires_grad=True) for length in (queries, keys, keys))
    unmasked = int(torch.ones(queries, keys).tril().sum())
    attend = partial(F.scaled_dot_product_attention, q, k, v, is_causal=True)
    assert counted(attend).flops == 2 * (4 * queries * keys * 8), "by convention a causal mask does not halve the FLOPs"
    assert work(attend) == 2 * (4 * unmasked * 8)
    out = attend()
    assert work(lambda: out.backward(torch.ones_like(out))) == 2 * (10 * unmasked * 8)


def test_comparing_different_tensors_needs_no_work() -> None:
    x, y = torch.zeros(100), torch.ones(100)
    assert (counted(lambda: torch.equal(x, y)).flops, work(lambda: torch.equal(x, y))) == (100, 0)
    assert work(lambda: torch.equal(x, x.clone())) == 100
