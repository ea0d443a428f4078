"""Find the formula that counts the floating-point operations of one call of an operator.

torch's own counter covers matrix products, convolutions and attention, and counts 0 for all other operators. The tables
below cover the other operators of a training step, so that no operator is left out of a sum silently. An operator has a
formula over shapes, or a weight per element, or does no arithmetic (`FREE`, views); the meter lists all others as
uncounted. The convention:

- A multiply-add is 2 FLOPs: (m, k) @ (k, n) is 2mkn (exactly mn(2k − 1)). A bias that a matrix product
  or convolution adds in the same operator is not counted, nor is the softmax inside fused attention; a causal mask
  does not halve attention. All three as in `torch.utils.flop_counter`.
- One element of +, −, ×, ÷, √, |x|, max, min, comparison, rounding or ReLU is 1.
- One element of exp, log, sin, erf … is 8 (`TRANSCENDENTAL`). Dongarra's tutorial at SC97 ("log counts as
  8 flops") is one source for the 8; its 4 for ÷ and √ is not used.
- A fused operator is the sum of its parts, written out next to each number in those terms, so fusing operators
  changes bytes, not FLOPs. Terms that grow only with the number of rows are dropped.
- Drawing random numbers, casting, copying, gathering and choosing (`where`) are 0. Integers and booleans
  are not floating point: elementwise operators and reductions on them are 0. A complex number counts as one.
- Rare operators (factorisations, Fourier transforms, distances, resampling) and those whose work depends on their input
  values (sorting, eigenvalues) have no formula, and are listed as uncounted.

    formula(torch.ops.aten.mm.default)((a, b), {}, a @ b)  # 2·m·k·n
    ELEMENTWISE["gelu"]((x,), {"approximate": "tanh"})  # 20 per element
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from trace_tools.metering.convention import GELU, NORM, POWER, SIGMOID, SOFTMAX, TANH, TRANSCENDENTAL
from trace_tools.metering.operators import (
    Arguments,
    Keywords,
    base_name,
    elements,
    floating,
    is_view,
    stored_along,
    tensors_in,
)

Weight = int | Callable[[Arguments, Keywords], int]  # FLOPs per element
Formula = Callable[[Arguments, Keywords, Any], int]  # arguments, keyword arguments, result → FLOPs


def formula(operator: Any) -> Formula | None:
    """Return the formula for one call of `operator` (an OpOverload or a higher-order operator), or None.

    Includes formulas that others registered with `torch.utils.flop_counter.register_flop_formula`.
    """
    packet = getattr(operator, "_overloadpacket", operator)
    name = base_name(operator) or ""
    if name in _FORMULAS:
        return _FORMULAS[name]
    if name in ELEMENTWISE:
        return partial(_weighted, ELEMENTWISE[name], False)
    if name in REDUCTIONS:
        return partial(_weighted, REDUCTIONS[name], True)
    if packet in flop_registry:
        registered = flop_registry[packet]
        return lambda args, kwargs, out: int(registered(*args, **kwargs, out_val=out))
    if getattr(operator, "namespace", None) == "quantized" and packet.__name__ in _QUANTIZED:
        return lambda args, kwargs, out: int(2 * out.numel() * args[0].shape[-1])  # its weight is packed
    return (lambda args, kwargs, out: 0) if name in FREE or is_view(operator) else None


def _weighted(weight: Weight, reduction: bool, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count a weight for each element of the result, or of a reduction's input."""
    counted = out[0] if isinstance(out, tuple) and out and isinstance(out[0], torch.Tensor) else out
    if reduction or not isinstance(counted, (torch.Tensor, list)):  # in-place operators on lists return no tensor
        counted = args[0]
    if not any(map(floating, tensors_in([counted, args[0]]))):
        return 0
    if len(args) > 1 and isinstance(args[1], torch.Tensor) and args[1].layout is not torch.strided:
        counted = args[1]  # a sparse tensor added to a dense one
    each = weight if isinstance(weight, int) else weight(args, kwargs)
    return each * sum(map(elements, tensors_in(counted)))


# ------------------------------------------------------------ FLOPs per element

LSTM_CELL = 65  # 4 gates joined (4), 3 sigmoids, tanh, f·c + i·g (3), tanh(c), · o
GRU_CELL = 41  # 3 gates joined (3), 2 sigmoids, tanh, r·n, n + z·(h − n) (3)


def _add(args: Arguments, kwargs: Keywords) -> int:
    alpha = kwargs.get("alpha", args[2] if len(args) > 2 else 1)
    return 1 if _is_number(alpha) and alpha == 1 else 2


def _pow(args: Arguments, kwargs: Keywords) -> int:
    """Weigh a power: x³ is x·x·x: 2; x⁻ⁿ one ÷ more; √x 1; any other exponent exp(y · log x)."""
    exponent, general = args[1], POWER
    if not _is_number(exponent):
        return general
    if abs(exponent) == 0.5:
        return 1 if exponent > 0 else 2
    products = max(abs(exponent) - 1, 0) + (exponent < 0)
    return min(int(products), general) if float(exponent).is_integer() else general


def _clamp(args: Arguments, kwargs: Keywords) -> int:
    bounds = [*args[1:3], kwargs.get("min"), kwargs.get("max")]
    return sum(bound is not None for bound in bounds)


def _add_product(args: Arguments, kwargs: Keywords) -> int:
    """Weigh addcmul and addcdiv: self + value · (a · b), where a value of 1 costs nothing."""
    value = args[3] if len(args) > 3 else kwargs.get("value", kwargs.get("scalars", 1))
    return 2 if _is_number(value) and value == 1 else 3


def _gelu(args: Arguments, kwargs: Keywords) -> int:
    """Weigh GELU: with tanh ½ · x · (1 + tanh(c · (x + d·x·x·x))); with erf ½ · x · (1 + erf(x · √½))."""
    return 8 + TANH if kwargs.get("approximate") == "tanh" else GELU


def _gelu_backward(args: Arguments, kwargs: Keywords) -> int:
    """Weigh GELU's gradient: tanh as above 17 (half, cube, tanh), its derivative 2 + 3, products and sums 7; erf: Φ
    11, φ 11, 3.
    """
    return 17 + TANH if kwargs.get("approximate") == "tanh" else 9 + 2 * TRANSCENDENTAL


def _affine(base: int, weight: int) -> Callable[[Arguments, Keywords], int]:
    """Return a weight that grows by one each for a layer's weight and bias."""
    return lambda args, kwargs: base + sum(parameter is not None for parameter in args[weight : weight + 2])


def _adam(decay: int) -> Callable[[Arguments, Keywords], int]:
    """Return Adam's weight: m 3, v 4, √v ÷ c + ε 3, p −= s·m/d 3; and weight decay, amsgrad's maximum."""
    return lambda args, kwargs: 13 + decay * bool(kwargs["weight_decay"]) + bool(kwargs["amsgrad"])


def _sgd(args: Arguments, kwargs: Keywords) -> int:
    """Weigh SGD: p − lr·g 2; weight decay 2; momentum μ·b + (1 − d)·g 2 or 3, after its first step; Nesterov 2."""
    moving = bool(kwargs["momentum"]) and not kwargs["is_first_step"]
    momentum = (2 + bool(kwargs["dampening"])) * moving
    return 2 + 2 * bool(kwargs["weight_decay"]) + momentum + 2 * bool(kwargs["nesterov"])


def _pool(args: Arguments, kwargs: Keywords) -> int:
    return int(args[1] if isinstance(args[1], int) else prod(args[1]))


def _bounded(args: Arguments, kwargs: Keywords, index: int) -> int:
    """Return 2 if the argument at `index` requests the two bounds set by ε, else 0."""
    return 2 * ((args[index] if len(args) > index else kwargs.get("eps")) is not None)


def _loss(each: int, *, weights: tuple[int, ...] = (), reduction: int = 2) -> Callable[[Arguments, Keywords], int]:
    """Return the weight of a loss: of each element, × if it has weights, and Σ unless it keeps every element."""

    def weight(args: Arguments, kwargs: Keywords) -> int:
        weight_count = sum(len(args) > index and args[index] is not None for index in weights)
        is_kept = (args[reduction] if len(args) > reduction else kwargs.get("reduction", 1)) == 0
        return each + weight_count + (not is_kept)

    return weight


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _each(weight: Weight, names: str) -> dict[str, Weight]:
    return dict.fromkeys(names.split(), weight)


# FLOPs per element of the result. Names without namespace, trailing "_" and leading "_foreach_".
ELEMENTWISE: dict[str, Weight] = {
    **_each(1, "mul div neg abs sign sgn sqrt square reciprocal relu maximum minimum fmax fmin clamp_min clamp_max"),
    **_each(1, "eq ne lt le gt ge isnan isinf isfinite isposinf isneginf signbit logical_not logical_and logical_or"),
    **_each(1, "logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not ceil floor round trunc frac fmod remainder"),
    **_each(1, "floor_divide copysign heaviside threshold threshold_backward __and__ __or__ __xor__ __lshift__"),
    **_each(1, "__rshift__ bitwise_left_shift bitwise_right_shift"),
    **_each(TRANSCENDENTAL, "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh asinh acosh"),
    **_each(TRANSCENDENTAL, "atanh erf erfc erfinv lgamma digamma angle special_expit special_ndtri i0"),
    **_each(2, "rsqrt leaky_relu leaky_relu_backward hardtanh hardtanh_backward"),  # √, ÷; comparison, ×; two bounds
    **_each(1, "deg2rad rad2deg frexp nextafter rrelu_with_noise_backward"),
    **_each(2, "_prelu_kernel rrelu_with_noise hardshrink hardshrink_backward softshrink_backward"),
    "hypot": 4,  # x², y², +, √
    **_each(3, "nan_to_num softshrink hardsigmoid_backward linalg_cross"),  # comparisons, −, ×; two products, −
    "_prelu_kernel_backward": 4,  # comparison and × for the input, for the weight
    "hardswish_backward": 5,  # two bounds, x ÷ 3 + ½, · g
    "lerp": 3,  # a + w · (b − a)
    **_each(1 + TRANSCENDENTAL, "atan2 xlogy special_xlog1py ldexp"),
    **_each(TRANSCENDENTAL, "special_i0e special_i1 special_i1e special_erfcx special_log_ndtr special_airy_ai"),
    **_each(TRANSCENDENTAL, "special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1"),
    **_each(TRANSCENDENTAL, "special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0"),
    **_each(TRANSCENDENTAL, "special_modified_bessel_k1 special_scaled_modified_bessel_k0 special_spherical_bessel_j0"),
    "special_scaled_modified_bessel_k1": TRANSCENDENTAL,
    "special_entr": 2 + TRANSCENDENTAL,  # −x · log x
    "sinc": 3 + TRANSCENDENTAL,  # comparison, π · x, sin, ÷
    "logit": lambda args, kwargs: 2 + TRANSCENDENTAL + _bounded(args, kwargs, 1),  # log(x ÷ (1 − x))
    "logit_backward": lambda args, kwargs: 3 + _bounded(args, kwargs, 2),  # g ÷ (x · (1 − x))
    "polar": 2 + 2 * TRANSCENDENTAL,  # r·cos θ, r·sin θ
    **_each(4 + 2 * TRANSCENDENTAL, "logaddexp logaddexp2 logcumsumexp"),  # max, min, −, exp, log1p, +
    "sigmoid": SIGMOID,
    "tanh": TANH,
    **_each(SIGMOID + 1, "silu glu"),
    "softplus": 1 + 2 * TRANSCENDENTAL,
    "log_sigmoid_forward": 4 + 2 * TRANSCENDENTAL,  # min, |x|, −, exp, log1p, −
    "mish": 2 + 2 * TRANSCENDENTAL + TANH,
    "elu": 3 + TRANSCENDENTAL,  # comparison, exp, − 1, · α
    "celu": 4 + TRANSCENDENTAL,  # and ÷ α
    "elu_backward": lambda args, kwargs: 3 if args[4] else 3 + TRANSCENDENTAL,  # from its result, or its input
    "glu_backward": (SIGMOID + 5) // 2,  # per pair: σ, g · σ, and g · a · σ · (1 − σ)
    "log_sigmoid_backward": 6,  # comparison, + and ÷ with the stored exponential, ×, −, · g
    "softplus_backward": 5 + TRANSCENDENTAL,  # β · x, comparison, exp, + 1, ÷, · g
    "mish_backward": 6 + 2 * TRANSCENDENTAL + TANH + SIGMOID,  # g · (t + x · σ · (1 − t·t))
    "hardsigmoid": 4,  # + 3, two bounds, ÷ 6
    "hardswish": 5,
    **_each(3, "sigmoid_backward tanh_backward"),  # g · (1 − y) · y; g · (1 − y·y)
    "silu_backward": SIGMOID + 5,  # g · s · (1 + x · (1 − s))
    **_each(SOFTMAX, "_softmax _safe_softmax _log_softmax _sparse_softmax _sparse_log_softmax"),
    "_softmax_backward_data": 4,  # y · (g − Σ g·y)
    "_log_softmax_backward_data": 3 + TRANSCENDENTAL,  # g − exp(y) · Σ g
    **_each(2, "native_dropout native_dropout_backward"),  # · mask, ÷ (1 − p)
    "native_layer_norm": _affine(NORM, 2),
    **_each(_affine(NORM, 1), "native_group_norm native_batch_norm _native_batch_norm_legit _batch_norm_with_update"),
    "cudnn_batch_norm": _affine(NORM, 1),
    # dx 10: g·w, x̂ (2), Σ (1), Σ g·x̂ (2), joined (4); dw 2, db 1
    **_each(13, "native_layer_norm_backward native_group_norm_backward native_batch_norm_backward"),
    **_each(13, "batch_norm_backward cudnn_batch_norm_backward"),
    "_fused_rms_norm": lambda args, kwargs: 3 + (args[2] is not None),  # ², Σ, · 1/rms
    "_fused_rms_norm_backward": 9,  # g·w, x̂, Σ g·x̂ (2), joined (3), dw (2)
    # one comparison or + per element of the window
    **_each(_pool, "max_pool2d_with_indices avg_pool2d max_pool3d_with_indices avg_pool3d"),
    **_each(_pool, "fractional_max_pool2d fractional_max_pool3d"),
    "mse_loss_backward": 3,
    "binary_cross_entropy_backward": 6,  # g · (p − t) ÷ max(p · (1 − p), ε)
    **_each(5, "huber_loss_backward smooth_l1_loss_backward"),  # −, two comparisons, · 1/n, · g
    "soft_margin_loss_backward": 6 + TRANSCENDENTAL,  # −t · e ÷ (1 + e) · g with e = exp(−t · x)
    "multi_margin_loss_backward": 5,  # margin − xₜ + x, > 0, · g, and its sum
    "renorm": 3,  # ², Σ, ×
    "_weight_norm_interface": 3,  # ², Σ, · g/‖v‖
    "_weight_norm_interface_backward": 5,  # Σ w·v (2), · g/‖v‖, − v · …
    "_sparse_softmax_backward_data": 4,
    "_sparse_log_softmax_backward_data": 3 + TRANSCENDENTAL,
    # ÷ scale, rounding, + zero point, two bounds; and back: −, ×
    **_each(5, "quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic"),
    "dequantize": 2,
    **_each(7, "fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask"),
    "_amp_foreach_non_finite_check_and_unscale": 2,
    **_each(_add, "add sub rsub"),
    "pow": _pow,
    "clamp": _clamp,
    **_each(_add_product, "addcmul addcdiv"),
    "gelu": _gelu,
    "gelu_backward": _gelu_backward,
    **_each(3 + TRANSCENDENTAL, "hann_window hamming_window"),  # ½ − ½ · cos(n · 2π/N)
    "blackman_window": 6 + 2 * TRANSCENDENTAL,
    "bartlett_window": 3,
    "kaiser_window": 7 + TRANSCENDENTAL,  # I₀(β · √(1 − (n · 2/N − 1)²)) ÷ I₀(β)
    "_fused_adam": _adam(2),  # g + λ·p
    "_fused_adamw": _adam(1),  # p · (1 − lr·λ)
    "_fused_sgd": _sgd,
    "_fused_adagrad": lambda args, kwargs: 7 + 2 * bool(kwargs["weight_decay"]),  # g² (2), √, + ε, −= lr·g/d (3)
}

# FLOPs per element of the first argument.
REDUCTIONS: dict[str, Weight] = {
    **_each(1, "sum nansum mean prod amax amin max min argmax argmin any all cumsum cumprod cummax cummin median"),
    **_each(1, "equal count_nonzero embedding_dense_backward nll_loss_backward nll_loss2d_backward"),
    **_each(1, "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward max_pool2d_with_indices_backward"),
    **_each(1, "avg_pool2d_backward col2im _adaptive_avg_pool3d _adaptive_avg_pool3d_backward avg_pool3d_backward"),
    **_each(1, "adaptive_max_pool2d adaptive_max_pool3d adaptive_max_pool2d_backward adaptive_max_pool3d_backward"),
    **_each(1, "max_pool3d_with_indices_backward fractional_max_pool2d_backward fractional_max_pool3d_backward"),
    **_each(1, "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward"),
    **_each(1, "replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward"),
    **_each(1, "kthvalue nanmedian topk segment_reduce _sparse_sum _coalesce"),  # selecting: as `median`
    **_each(2, "norm powsum linalg_vector_norm aminmax dot vdot"),  # ², Σ
    **_each(4, "var std var_mean std_mean"),  # mean, −, ², Σ
    "allclose": 7,  # |a − b| ≤ atol + rtol · |b|, all
    "logsumexp": 3 + TRANSCENDENTAL,
    "mse_loss": _loss(2),  # −, ²
    # (t − 1) · max(log1p(−p), −100) − t · max(log p, −100)
    "binary_cross_entropy": _loss(7 + 2 * TRANSCENDENTAL, weights=(2,), reduction=3),
    # (1 − t) · x − log σ(x)
    "binary_cross_entropy_with_logits": _loss(7 + 2 * TRANSCENDENTAL, weights=(2, 3, 3, 3), reduction=4),
    "huber_loss": _loss(5),  # |a − b|, a comparison, and z · z · ½, or δ · (z − ½δ)
    "smooth_l1_loss": _loss(6),  # the same ÷ β
    "soft_margin_loss": _loss(2 + 2 * TRANSCENDENTAL),  # log1p(exp(−t · x))
    "multi_margin_loss": _loss(4, weights=(4,), reduction=5),  # margin − xₜ + x, > 0, Σ
}

# No arithmetic: allocation, filling, random numbers, casts, copies, movement, choice, bookkeeping.
FREE = _each(
    0,
    """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones
    ones_like new_ones full full_like new_full zero fill fill_diagonal scalar_tensor eye arange linspace logspace
    tril_indices triu_indices from_file _efficientzerotensor
    rand rand_like randn randn_like randint randint_like randperm normal uniform random bernoulli exponential
    geometric log_normal cauchy multinomial
    clone copy _to_copy _to_dense _to_sparse _to_sparse_csr _to_sparse_csc _to_sparse_bsr _to_sparse_bsc to_sparse
    _pin_memory is_pinned lift lift_fresh detach
    resize resize_as set record_stream _unsafe_view _reshape_copy contiguous
    cat stack flip roll repeat repeat_interleave tril triu diag_embed diagonal_scatter slice_scatter select_scatter
    as_strided_scatter select_backward slice_backward diagonal_backward unfold_backward constant_pad_nd
    reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d im2col channel_shuffle pixel_shuffle
    pixel_unshuffle split_with_sizes_copy unbind_copy unsafe_split unsafe_split_with_sizes unsafe_chunk
    index _unsafe_index index_select index_copy index_fill gather take put scatter embedding masked_select
    masked_fill masked_scatter where nonzero
    _local_scalar_dense is_same_size _has_same_storage_numel _assert_async _fused_sdp_choice _amp_update_scale
    complex view_as_real view_as_complex conj_physical _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned
    _nested_from_padded _nested_from_padded_and_nested_example to_padded_tensor _nested_view_from_buffer
    _nested_view_from_jagged _nested_view_from_buffer_copy _jagged_to_padded_dense_forward
    _padded_dense_to_jagged_forward
    _coalesced sparse_resize _indices _values _nnz _dimI _dimV is_coalesced sparse_mask _sparse_mask_projection _spdiags
    sparse_coo_tensor sparse_compressed_tensor _sparse_compressed_tensor_unsafe _sparse_sum_backward
    _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors _sparse_compressed_tensor_with_dims
    alias_copy as_strided_copy diagonal_copy expand_copy narrow_copy permute_copy squeeze_copy t_copy transpose_copy
    unfold_copy unsqueeze_copy view_copy _conj_physical _chunk_cat block_diag rot90 nonzero_static lu_unpack
    max_unpool2d max_unpool3d reflection_pad3d replication_pad3d masked_scatter_backward _unsafe_masked_index
    native_channel_shuffle
    """,
)


# ------------------------------------------------------------ FLOPs by shapes


def _product(first_index: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count (…, m, k) @ (…, k, n) or (m, k) @ (k,): 2 per element of the first and column of the second.

    A sparse factor has the elements that it stores. In a product of two sparse factors, each stored element in column k
    of the first meets each stored element in row k of the second: 2·Σₖ nnz(A[:, k])·nnz(B[k, :]) (Gustavson, "Two fast
    algorithms for sparse matrices", ACM TOMS 4 (1978), p. 253).
    """
    a, b = args[first_index], args[first_index + 1]
    columns = b.shape[-1] if b.dim() > 1 else 1
    if torch.strided not in (a.layout, b.layout) and b.dim() > 1:
        return 2 * sum(map(int.__mul__, stored_along(a, 1), stored_along(b, 0)))
    if a.layout is not torch.strided:
        return int(2 * elements(a) * columns)
    if b.layout is not torch.strided:
        return int(2 * a.shape[-2] * elements(b))
    return int(2 * a.numel() * columns)


def _convolution(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count 2·B·positions·|w|: each position (of the result, or of a transposed input) meets every weight once."""
    x, weight, transposed = args[0], args[1], args[6]
    return int(2 * x.shape[0] * prod((x if transposed else out).shape[2:]) * weight.numel())


def _convolution_backward(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count as much as the forward pass for each requested gradient (of the input and of the weight)."""
    grad, x, weight, transposed, requested = *args[:3], args[7], args[10]
    forward = 2 * x.shape[0] * prod((x if transposed else grad).shape[2:]) * weight.numel()
    return int(forward * sum(requested[:2]))


def _attention(query_index: int, in_query: int, in_value: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count products over (…, S, D) queries and (…, T, D or Dv): 2·S·T·D or 2·S·T·Dv each, per batch and head."""
    query, key, value = args[query_index : query_index + 3]
    scores = prod(query.shape[:-1]) * key.shape[-2]
    return int(2 * scores * (in_query * query.shape[-1] + in_value * value.shape[-1]))


_CELLS = (2, 1 + TANH, LSTM_CELL, GRU_CELL)  # by torch's numbers for RNN-ReLU, RNN-tanh, LSTM, GRU


def _recurrent(products: int, mode_index: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count products with each weight at every position (forward 2; backward 4, twice as many), and the cell's FLOPs.

    A cell's backward takes about as many operations as its forward. The mode is the argument at `mode_index`, followed
    by the hidden size; mkldnn runs one layer with two matrices per call, cuDNN all layers and directions, with a list
    of weights.
    """
    positions, mode, hidden = args[0].numel() // args[0].shape[-1], args[mode_index], args[mode_index + 1]
    weights, layers = [*args[1:3]], 1
    if isinstance(args[1], (list, tuple)):
        weights = [w for w in args[1] if w.dim() == 2]
        layers = args[mode_index + 3] * (2 if args[mode_index + 7] else 1)
    return int(positions * (products * sum(w.numel() for w in weights) + _CELLS[mode] * hidden * layers))


def _accumulate(source: int, flag: int | None, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count one addition per element of the source, if the operator adds rather than overwrites."""
    adds = flag is None or (len(args) > flag and args[flag])
    return int(args[source].numel()) if adds and floating(args[0]) else 0


_QUANTIZED = {"linear", "linear_relu", "linear_dynamic", "linear_relu_dynamic", "linear_dynamic_fp16"}
_ATTENTION = [
    f"_scaled_dot_product_{kind}"
    for kind in (
        *("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention"),
        "fused_attention_overrideable",
    )
]
_FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("mm", "bmm", "mv", "_sparse_mm", "_int_mm"), partial(_product, 0)),
    **dict.fromkeys(("addmm", "addmv", "baddbmm", "addbmm"), partial(_product, 1)),
    **dict.fromkeys(("_sparse_addmm", "_addmm_activation"), partial(_product, 1)),
    **dict.fromkeys(("_sparse_sparse_matmul", "hspmm"), partial(_product, 0)),
    "_weight_int8pack_mm": lambda args, kwargs, out: 2 * args[0].numel() * out.shape[-1],
    "_weight_int4pack_mm": lambda args, kwargs, out: 2 * args[0].numel() * out.shape[-1],
    "_sparse_mm_reduce_impl": lambda args, kwargs, out: 2 * elements(args[0]) * args[1].shape[-1],
    # computed only at its stored elements
    "sparse_sampled_addmm": lambda args, kwargs, out: 2 * elements(args[0]) * args[1].shape[-1],
    "trace": lambda args, kwargs, out: min(args[0].shape) if floating(args[0]) else 0,
    "addr": lambda args, kwargs, out: 2 * out.numel(),  # self + a·b
    **dict.fromkeys(("convolution", "_convolution"), _convolution),
    "convolution_backward": _convolution_backward,
    **dict.fromkeys(_ATTENTION, partial(_attention, 0, 1, 1)),
    **{f"{name}_backward": partial(_attention, 1, 3, 2) for name in _ATTENTION},  # scores again, dV, dP, dQ, dK
    "mkldnn_rnn_layer": partial(_recurrent, 2, 9),
    "mkldnn_rnn_layer_backward": partial(_recurrent, 4, 14),
    "_cudnn_rnn": partial(_recurrent, 2, 6),
    "_cudnn_rnn_backward": partial(_recurrent, 4, 10),
    "_thnn_fused_lstm_cell": lambda args, kwargs, out: LSTM_CELL * args[2].numel(),
    "_thnn_fused_lstm_cell_backward_impl": lambda args, kwargs, out: LSTM_CELL * args[2].numel(),
    "_thnn_fused_gru_cell": lambda args, kwargs, out: GRU_CELL * args[2].numel(),
    "_thnn_fused_gru_cell_backward": lambda args, kwargs, out: GRU_CELL * args[0].numel(),
    **dict.fromkeys(("index_add", "scatter_add", "scatter_reduce", "index_reduce"), partial(_accumulate, 3, None)),
    "searchsorted": lambda args, kwargs, out: out.numel() * args[0].shape[-1].bit_length(),  # a binary search
    "bucketize": lambda args, kwargs, out: out.numel() * args[1].shape[-1].bit_length(),
    **dict.fromkeys(("index_put", "_index_put_impl"), partial(_accumulate, 2, 3)),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), lambda args, kwargs, out: args[1].numel()),  # targets
}


# ------------------------------------------------------------ FLOPs that may be left out


def least_share(operator: Any) -> Callable[[Arguments, Keywords, Any], float] | None:
    """Return a function for the share of an operator's counted FLOPs that every program needs; None if it needs all.

    By convention a causal mask does not halve attention, and a convolution multiplies the zeros around its input.
    Kernels need not compute these, so lower bounds count the rest. (Winograd's and Fourier algorithms need still fewer
    products.)
    """
    name = base_name(operator)
    if name == "equal":
        return lambda args, kwargs, out: 1.0 if out else 0.0  # the comparison ends at the first difference
    if name in ("convolution", "_convolution"):
        return lambda args, kwargs, out: _share_inside(args[0], out, args[1], args[3:7])
    if name == "convolution_backward":
        return lambda args, kwargs, out: _share_inside(args[1], args[0], args[2], args[4:8])
    if name is None or name.removesuffix("_backward") not in _ATTENTION:
        return None
    names = [argument.name for argument in operator._schema.arguments]
    causal, query = names.index("is_causal"), names.index("query")

    def share(args: Arguments, kwargs: Keywords, out: Any) -> float:
        if not (args[causal] if len(args) > causal else kwargs.get("is_causal")):
            return 1.0
        queries, keys = args[query].shape[-2], args[query + 1].shape[-2]
        square = min(queries, keys)
        attended = square * (square + 1) // 2 + (queries - square) * keys
        return float(attended / max(1, queries * keys))

    return share


def _share_inside(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, how: Arguments) -> float:
    """Return the share of a convolution's products that use its input, not the padding around it."""
    strides, paddings, dilations, transposed = how
    inside = every = 1.0
    for dim, length in enumerate(weight.shape[2:]):
        stride, padding, dilation = (sizes[dim if len(sizes) > 1 else 0] for sizes in (strides, paddings, dilations))
        windows, sites = (x, y) if transposed else (y, x)  # each element of `windows` has a window on `sites`
        count, last = windows.shape[2 + dim], sites.shape[2 + dim] - 1
        starts = [tap * dilation - padding for tap in range(length)]
        inside *= sum(max(0, min(count - 1, (last - s) // stride) - max(0, -(s // stride)) + 1) for s in starts)
        every *= count * length
    return inside / every if every else 1.0
