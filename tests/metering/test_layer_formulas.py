"""FLOPs of layers equal those of the same computation in operators tested elsewhere, or a count by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from trace_tools.metering.meters import Meter, Totals


def counted(f: Callable[[], Any]) -> Totals:
    with Meter() as meter:
        f()
    reading = meter.reading()
    assert not reading.uncounted
    return reading


def flops(f: Callable[[], Any]) -> int:
    return counted(f).flops


def flops_of(f: Callable[[], Any], operator: str) -> int:
    """Return the FLOPs of one operator, which must have run."""
    reading = counted(f)
    assert f"aten.{operator}" in reading.operators
    return sum(n for (name, _), n in reading.work_flops.items() if name == f"aten.{operator}")


X = torch.randn(3, 7, 32)
BIAS = 3 * 7 * 3 * 32  # of queries, keys and values: counted only if operators are separate


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_fused_encoder_layers_count_like_separate_operators(activation: str, norm_first: bool) -> None:
    """torch runs separate operators if gradients are needed, otherwise the fused one."""
    layer = nn.TransformerEncoderLayer(32, 4, 96, 0.0, activation, batch_first=True, norm_first=norm_first).eval()
    separate = counted(lambda: layer(X))
    assert "aten._transformer_encoder_layer_fwd" not in separate.operators
    with torch.inference_mode():
        assert flops_of(lambda: layer(X), "_transformer_encoder_layer_fwd") == separate.flops - BIAS
    products = 2 * 3 * 7 * (4 * 32 * 32 + 2 * 32 * 96) + 4 * 3 * 7 * 7 * 32
    assert 0 < separate.flops - products < 0.1 * products


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_encoders_do_not_count_padding() -> None:
    """With a padding mask, torch makes a nested tensor of the sequences without their padding."""
    layer = nn.TransformerEncoderLayer(32, 4, 96, 0.0, batch_first=True).eval()
    encoder, lengths = nn.TransformerEncoder(layer, 2).eval(), (4, 6, 7)
    padding = torch.arange(7) >= torch.tensor(lengths)[:, None]
    unpadded = sum(flops(lambda length=length: layer(X[:1, :length])) for length in lengths)
    with torch.no_grad():
        assert (
            flops_of(lambda: encoder(X, src_key_padding_mask=padding), "_transformer_encoder_layer_fwd") == 2 * unpadded
        )


@pytest.mark.parametrize("weights", [{"need_weights": False}, {}, {"average_attn_weights": False}])
def test_fused_attention_layers_count_like_separate_operators(weights: dict[str, bool]) -> None:
    layer = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    separate = flops(lambda: layer(X, X, X, **weights))
    with torch.no_grad():
        assert flops_of(lambda: layer(X, X, X, **weights), "_native_multi_head_attention") == separate - BIAS


def test_bilinear_layers_count_two_products() -> None:
    batch, out, left, right = 5, 6, 7, 8
    layer = nn.Bilinear(left, right, out, bias=False)
    x, y = torch.randn(batch, left, requires_grad=True), torch.randn(batch, right, requires_grad=True)
    products = 2 * batch * out * left * right + 2 * batch * out * right
    assert flops(lambda: torch.einsum("bi,oij->boj", x, layer.weight)) == products - 2 * batch * out * right
    assert flops_of(lambda: layer(x, y), "_trilinear") == products
    result = layer(x, y)
    # full products: two for the gradient of x, one each for those of the weight and of y; a sum over o is a loop
    by_hand = 8 * batch * out * left * right + 2 * batch * out * (left + right) + batch * out * (left + right)
    assert flops_of(lambda: result.backward(torch.ones_like(result)), "_trilinear") == by_hand


def test_euclidean_distances_count_a_product_with_two_more_columns() -> None:
    x, y = torch.randn(40, 8), torch.randn(30, 8)

    def separate() -> torch.Tensor:
        x_norms, y_norms = x.pow(2).sum(1, keepdim=True), y.pow(2).sum(1, keepdim=True)
        rows = torch.cat([-2 * x, x_norms, torch.ones(40, 1)], 1)
        return (rows @ torch.cat([y, torch.ones(30, 1), y_norms], 1).T).clamp_min(0).sqrt()

    torch.testing.assert_close(separate(), torch.cdist(x, y))
    assert flops_of(lambda: torch.cdist(x, y), "_euclidean_dist") == flops(separate)


ROWS, OTHERS = torch.rand(20, 64) + 0.5, torch.rand(10, 64) + 2
SEPARATE: dict[float, Callable[[], torch.Tensor]] = {
    1: lambda: (ROWS[:, None] - OTHERS).abs().sum(2),
    2: lambda: (ROWS[:, None] - OTHERS).square().sum(2).sqrt(),
    3.5: lambda: (ROWS[:, None] - OTHERS).abs().pow(3.5).sum(2).pow(1 / 3.5),
    math.inf: lambda: (ROWS[:, None] - OTHERS).abs().amax(2),
}


@pytest.mark.parametrize("p", SEPARATE)
def test_distances_count_like_separate_operators(p: float) -> None:
    torch.testing.assert_close(SEPARATE[p](), torch.cdist(ROWS, OTHERS, p))
    fused = flops_of(lambda: torch.cdist(ROWS, OTHERS, p), "_cdist_forward")
    assert fused <= flops(SEPARATE[p]) <= fused + 20 * 20 * 10  # terms that grow with pairs only are dropped
    assert flops_of(lambda: F.pdist(ROWS, p), "_pdist_forward") == fused * (20 * 19 // 2) // (20 * 10)
    assert flops_of(lambda: torch.dist(ROWS, ROWS + 1, p), "dist") * 10 == fused


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_gradients_of_distances_count_four_flops_per_coordinate(p: float) -> None:
    x = ROWS.clone().requires_grad_()
    distances = torch.cdist(x, OTHERS, p)
    gradient = 4 * 20 * 10 * 64  # difference, its sign or quotient by the distance, product with the gradient, sum
    assert flops_of(lambda: distances.backward(torch.ones_like(distances)), "_cdist_backward") == gradient


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags_count_sums_of_gathered_rows(mode: str) -> None:
    table, rows = torch.randn(50, 16, requires_grad=True), torch.randint(50, (6, 4))
    separate = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[mode]
    gathered = counted(lambda: separate(F.embedding(rows, table), 1))
    bag = counted(lambda: F.embedding_bag(rows, table, mode=mode))
    assert bag.flops == gathered.flops == 6 * 4 * 16
    result = F.embedding_bag(rows, table, mode=mode)
    backward = flops(lambda: result.backward(torch.ones_like(result)))
    assert backward == (6 * 16 if mode == "max" else 6 * 4 * 16)


def test_weighted_embedding_bags_also_count_products() -> None:
    table, rows = torch.randn(50, 16, requires_grad=True), torch.randint(50, (6, 4))
    weights = torch.rand(6, 4, requires_grad=True)
    separate = flops(lambda: (F.embedding(rows, table) * weights[:, :, None]).sum(1))
    result = F.embedding_bag(rows, table, per_sample_weights=weights, mode="sum")
    assert flops(lambda: F.embedding_bag(rows, table, per_sample_weights=weights, mode="sum")) == separate
    grad = torch.ones_like(result)
    assert flops_of(lambda: result.backward(grad), "_embedding_bag_per_sample_weights_backward") == separate


def weighted_sum(a: torch.Tensor, *taps: float) -> torch.Tensor:
    """Interpolate by hand: add the products with all taps."""
    total = a * taps[0]
    for tap in taps[1:]:
        total = total + a * tap
    return total


@pytest.mark.parametrize(
    ("shape", "mode", "taps"),
    [
        *[((2, 3, 8), "linear", 2), ((2, 3, 8, 8), "bilinear", 2), ((2, 3, 4, 4, 4), "trilinear", 2)],
        *[((2, 3, 8, 8), "bicubic", 4), ((2, 3, 8, 8), "nearest", 1), ((2, 3, 8), "nearest-exact", 1)],
    ],
)
def test_resampling_counts_taps_of_one_dimension_after_another(shape: tuple[int, ...], mode: str, taps: int) -> None:
    x = torch.randn(shape, requires_grad=True)
    result = F.interpolate(x, scale_factor=2, mode=mode)
    dims, pixel, ones = len(shape) - 2, 0, torch.ones(1)
    if taps > 1:
        lines = [taps**inner for inner in reversed(range(dims))]  # first all lines in x, then in y, then in z
        pixel = sum(count * flops(lambda: weighted_sum(ones, *[0.5] * taps)) for count in lines)
    assert flops(lambda: F.interpolate(x, scale_factor=2, mode=mode)) == pixel * result.numel()
    backward = flops(lambda: result.backward(torch.ones_like(result)))
    assert backward == (2 * taps**dims if taps > 1 else 1) * result.numel()


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_resampling_counts_the_pixels_under_each_window(mode: str) -> None:
    """The pixels under the window of a result are those that it has a gradient for."""
    x = torch.rand(1, 1, 24, 18, dtype=torch.float64, requires_grad=True)
    result = F.interpolate(x, (7, 5), mode=mode, antialias=True)

    def under(dim: int) -> int:
        """Count the rows (2) or columns (3) of the image under all windows."""
        sums = (result.select(dim, index).sum() for index in range(result.shape[dim]))
        grads = [torch.autograd.grad(total, x, retain_graph=True)[0].abs().sum(5 - dim) for total in sums]
        return sum(int((grad > 0).sum()) for grad in grads)

    fused = flops(lambda: F.interpolate(x, (7, 5), mode=mode, antialias=True))
    # along each of 24 rows, then along each of 5 columns; a weight at the edge of a window may be 0
    assert fused == pytest.approx(2 * (24 * under(3) + 5 * under(2)), rel=0.05)
    assert flops(lambda: result.backward(torch.ones_like(result))) == fused


@pytest.mark.parametrize(
    ("mode", "forward", "of_image", "of_grid"),
    # products and sums; 2 per neighbour; 3 or 4 per neighbour and coordinate (aten/native/cpu/GridSamplerKernel.cpp)
    [("bilinear", 4 + 3, 2 * 4, 3 * 2 * 4), ("nearest", 0, 1, 0), ("bicubic", 5 * (4 + 3), 2 * 16, 4 * 2 * 16)],
)
def test_sampling_at_points_counts_a_sum_over_neighbours(mode: str, forward: int, of_image: int, of_grid: int) -> None:
    x, grid = torch.randn(2, 3, 8, 8, requires_grad=True), torch.rand(2, 5, 5, 2, requires_grad=True)

    def sample() -> torch.Tensor:
        return F.grid_sample(x, grid, mode=mode, align_corners=False)

    result = sample()
    assert flops_of(sample, "grid_sampler_2d") == forward * result.numel()
    backward = flops_of(lambda: result.backward(torch.ones_like(result)), "grid_sampler_2d_backward")
    assert backward == (of_image + of_grid) * result.numel()
