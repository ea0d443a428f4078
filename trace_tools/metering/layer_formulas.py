"""Count FLOPs of layers that run as one operator: Transformer layers, distances, bags of embeddings, resampled images.

Each formula takes an operator's arguments, keyword arguments and result, and returns the FLOPs of the call by the
convention that `flops` states. The source of each is the same computation in operators that have formulas, as its
docstring spells out; `tests/metering/test_layer_formulas.py` runs both.

    FORMULAS["_euclidean_dist"]((x, y), {}, distances)  # 2·P·R·(M + 2) + …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf, prod
from typing import Any

import torch

from trace_tools.metering.convention import GELU, NORM, POWER, SOFTMAX
from trace_tools.metering.operators import Arguments, Keywords

# ------------------------------------------------------------ Transformer layers


def _lengths(x: torch.Tensor) -> list[int]:
    """Return the length of each sequence of a batch, either a nested tensor (B, ∗, E) or one of shape (B, S, E)."""
    if x.is_nested:
        return [int(length) for length, _ in x._nested_tensor_size().tolist()]
    batch, length = x.shape[:2]
    return [length] * batch


def _multi_head_attention(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count `nn.MultiheadAttention`: four products with E × E weights, and two with each sequence's scores.

    If the weights are returned, they are computed outside a fused kernel: then the scaled queries, the softmax and the
    average over heads are counted. (torch.nn.functional.multi_head_attention_forward.)
    """
    query, key, value, width, heads = args[:5]
    returned = args[10] if len(args) > 10 else kwargs.get("need_weights", True)
    averaged = args[11] if len(args) > 11 else kwargs.get("average_attn_weights", True)
    queries, keys = _lengths(query), _lengths(key)
    scores = sum(map(int.__mul__, queries, keys))
    positions = 2 * sum(queries) + sum(keys) + sum(_lengths(value))  # the result is projected at the queries' positions
    products = int(2 * positions * width * width + 4 * scores * width)
    if not returned:
        return products
    return int(products + sum(queries) * width + heads * scores * (SOFTMAX + bool(averaged)))


def _encoder_layer(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count `nn.TransformerEncoderLayer` in inference: attention, a feed-forward part, two norms, two sums.

    Vaswani et al., "Attention is all you need" (2017), section 3; operators as in `TransformerEncoderLayer.forward`.
    """
    x, width, gelu, feed_forward = args[0], args[1], args[7], args[14]
    positions, hidden = sum(_lengths(x)), feed_forward.shape[0]
    attention = 2 * positions * 4 * width * width + 4 * sum(length * length for length in _lengths(x)) * width
    products = 2 * positions * 2 * width * hidden
    norms_and_sums = positions * width * (2 * (NORM + 2) + 2)
    return int(attention + products + positions * hidden * (GELU if gelu else 1) + norms_and_sums)


# ------------------------------------------------------------ products of three, distances, bags


def _trilinear(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count sums of products of three tensors: a product of the first two, then a product of the result with the third.

    For `nn.Bilinear` this is 2·B·O·I·J + 2·B·O·J. The first product sums the same dimensions as
    `at::native::_trilinear` (aten/src/ATen/native/Linear.cpp); a dimension that it loops over is added up.
    """
    tensors, expanded, summed = args[:3], args[3:6], args[6]
    loop = args[7] if len(args) > 7 else kwargs.get("unroll_dim", 1)
    sizes = []  # per tensor, in all dimensions
    for tensor, missing in zip(tensors, expanded, strict=True):
        shape = iter(tensor.shape)
        sizes.append([1 if dim in missing else next(shape) for dim in range(tensor.dim() + len(missing))])
    full_sizes = [max(dim_sizes) for dim_sizes in zip(*sizes, strict=True)]
    first = [dim for dim in summed if dim in expanded[2] and dim != loop]
    products = prod(max(a, b) for dim, (a, b, _) in enumerate(zip(*sizes, strict=True)) if dim != loop)
    products += prod(size for dim, size in enumerate(full_sizes) if dim not in first and dim != loop)
    added = out.numel() * (full_sizes[loop] if loop in summed else 0)
    return int(2 * full_sizes[loop] * products + added)


def _euclidean(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count distances as √(‖x‖² − 2·x·y + ‖y‖²), with the norms as two more columns of the product.

    at::native::_euclidean_dist (aten/src/ATen/native/Distance.cpp): −2·x, squares, their sums, 2·P·R·(M + 2), ≥ 0, √.
    """
    x, y = args[:2]
    return int(2 * out.numel() * (x.shape[-1] + 2) + 2 * out.numel() + 3 * x.numel() + 2 * y.numel())


def _between(p: float) -> int:
    """Return the FLOPs of one coordinate of a distance by p-norm: −, |x| or ², a power, and + (or max, or ≠)."""
    return 3 if p in (0, 1, 2, inf) else 3 + POWER


def _gradient_between(p: float) -> int:
    """Return the FLOPs of one coordinate of a distance's gradient, g · sign(d) · |d|ᵖ⁻¹ ÷ distanceᵖ⁻¹, added up."""
    return {0.0: 0, 1.0: 4, 2.0: 4, inf: 6}.get(p, 6 + POWER)


def _pairwise_distances(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count `torch.cdist`: the coordinates of each pair, or a matrix product (`_euclidean`) if torch uses one."""
    x, y, p = args[:3]
    mode = (args[3] if len(args) > 3 else kwargs.get("compute_mode")) or 0
    if p == 2 and (mode == 1 or (mode == 0 and max(x.shape[-2], y.shape[-2]) > 25)):
        return _euclidean(args, kwargs, out)
    return int(out.numel() * x.shape[-1] * _between(p))


def _distances_within(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count `F.pdist`: the coordinates of each pair of rows."""
    return int(out.numel() * args[0].shape[-1] * _between(args[1] if len(args) > 1 else kwargs.get("p", 2.0)))


def _distance(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count `torch.dist`: one distance, between two tensors of the same shape after broadcasting."""
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)  # type: ignore[no-untyped-call]
    return int(prod(shape) * _between(args[2] if len(args) > 2 else kwargs.get("p", 2.0)))


def _bag(weights: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count sums (means, maxima) of rows of a table: one per gathered element, and one more if rows have weights."""
    weighted = len(args) > weights and args[weights] is not None
    return int(args[1].numel() * args[0].shape[-1] * (1 + weighted))


def _bag_backward(mode: int, weights: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count additions to the rows of the table: a bag's gradient for each of its rows, or for its maximum only."""
    largest = 2  # torch's number for that mode
    return int(args[0].numel()) if args[mode] == largest else _bag(weights, args, kwargs, out)


# ------------------------------------------------------------ resampling


def _interpolated(taps: int, dims: int) -> int:
    """Return the FLOPs of interpolating an element between its neighbours, one dimension after another: bilinear 3·2
    + 3.
    """
    along = 2 * taps - 1  # products and sums of one line
    return along if dims == 1 else taps * _interpolated(taps, dims - 1) + along


def _each_result(weight: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
    return int(weight * out.numel())


def _each_gradient(weight: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
    return int(weight * args[0].numel())


def _antialiased(support: int, backward: bool, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count a resize that averages when it shrinks: 2 per tap, first along rows and then along columns.

    The window of each result is that of `_compute_indices_min_size_weights_aa` (aten, cpu/UpSampleKernel.cpp).
    """
    small, large = (args[0].shape, out.shape) if not backward else (out.shape, args[0].shape)
    corners = args[3 if backward else 2]

    def windows(dim: int) -> int:
        input_size, output_size = small[dim], large[dim]
        scale = (input_size - 1) / max(1, output_size - 1) if corners else input_size / output_size
        reach = support / 2 * max(scale, 1.0)
        middles = [scale * (i + 0.5) for i in range(output_size)]
        return sum(min(int(m + reach + 0.5), input_size) - max(int(m - reach + 0.5), 0) for m in middles)

    return int(2 * prod(small[:-2]) * (small[-2] * windows(-1) + large[-1] * windows(-2)))


_SAMPLED = {
    2: (7, 0, _interpolated(4, 2)),
    3: (15, 0),
}  # by dimensions: bilinear (its weights are given), nearest, cubic
_SAMPLED_BACKWARD = {2: ((8, 24), (1, 0), (32, 128)), 3: ((16, 96), (1, 0))}  # gradients of the image and of the grid


def _sampled(dims: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count `F.grid_sample`: products and sums of an element's neighbours (aten/native/GridSampler.cpp)."""
    return int(out.numel() * _SAMPLED[dims][args[2] if len(args) > 2 else 0])


def _sampled_backward(dims: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count each requested gradient: products and sums per neighbour and dimension, as torch computes them."""
    of_image, of_grid = _SAMPLED_BACKWARD[dims][args[3]]
    requested = args[6] if len(args) > 6 else (True, True)
    return int(args[0].numel() * (of_image * bool(requested[0]) + of_grid * bool(requested[1])))


Formulas = Mapping[str, Callable[[Arguments, Keywords, Any], int]]
_UPSAMPLED = {"linear1d": (2, 1), "bilinear2d": (2, 2), "trilinear3d": (2, 3), "bicubic2d": (4, 2)}
_NEAREST = [f"{kind}{dims}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for dims in (1, 2, 3)]
_AA = {"_upsample_bilinear2d_aa": 2, "_upsample_bicubic2d_aa": 4}

FORMULAS: Formulas = {
    "_native_multi_head_attention": _multi_head_attention,
    "_transformer_encoder_layer_fwd": _encoder_layer,
    "_trilinear": _trilinear,
    "_euclidean_dist": _euclidean,
    "_cdist_forward": _pairwise_distances,
    "_cdist_backward": lambda args, kwargs, out: args[0].numel() * args[1].shape[-1] * _gradient_between(args[3]),
    "_pdist_forward": _distances_within,
    # each pair contributes to both of its rows
    "_pdist_backward": lambda args, kwargs, out: (
        args[0].numel() * args[1].shape[-1] * (_gradient_between(args[2]) + (args[2] != 0))
    ),
    "dist": _distance,
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), partial(_bag, 6)),
    "_embedding_bag_backward": partial(_bag_backward, 8, 10),
    "_embedding_bag_dense_backward": partial(_bag_backward, 7, 8),
    "_embedding_bag_per_sample_weights_backward": lambda args, kwargs, out: 2 * args[2].numel() * args[0].shape[-1],
    **{f"upsample_{kind}": partial(_each_result, _interpolated(*of)) for kind, of in _UPSAMPLED.items()},
    **{f"upsample_{kind}_backward": partial(_each_gradient, 2 * of[0] ** of[1]) for kind, of in _UPSAMPLED.items()},
    **dict.fromkeys(_NEAREST, partial(_each_result, 0)),
    **{f"{name}_backward": partial(_each_gradient, 1) for name in _NEAREST},
    **{name: partial(_antialiased, support, False) for name, support in _AA.items()},
    **{f"{name}_backward": partial(_antialiased, support, True) for name, support in _AA.items()},
    **{f"grid_sampler_{dims}d": partial(_sampled, dims) for dims in (2, 3)},
    **{f"grid_sampler_{dims}d_backward": partial(_sampled_backward, dims) for dims in (2, 3)},
    "cudnn_grid_sampler": partial(_each_result, 7),
}
