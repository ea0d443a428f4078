"""Count the floating-point operations of one call of an operator.

torch's own counter (`torch.utils.flop_counter`) has formulas for matrix products, convolutions and attention, and
counts 0 for all other operators. The formulas below cover the other operators of a training step, so that no operator
is left out of a sum silently. The convention:

- A multiply-add is 2 FLOPs: (m, k) @ (k, n) is 2mkn (exactly mn(2k − 1)). A bias that a matrix product
  or convolution adds in the same operator is not counted, nor is the softmax inside fused attention; a causal mask
  does not halve attention. All three as in torch's counter.
- One element of +, −, ×, ÷, √, |x|, max, min, comparison, rounding or ReLU is 1.
- One element of exp, log, sin, erf … is 8 (`TRANSCENDENTAL`). Dongarra's tutorial at SC97 ("log counts as
  8 flops") is one source for the 8; its 4 for ÷ and √ is not used.
- A fused operator is the sum of its parts, written out next to each number in those terms, so fusing operators
  changes bytes, not FLOPs. Terms that grow only with the number of rows are dropped.
- Drawing random numbers, casting, copying, gathering and choosing (`where`) are 0. Integers and booleans
  are not floating point: elementwise operators and reductions on them are 0. A complex number counts as one.
- An operator of `prims` counts like the operator of the same name in `aten`.
- Rare operators (factorisations, Fourier transforms, distances, resampling, sparse matrices) and operators with work
  that depends on their input values (sorting, eigenvalues) have no formula, and are listed as uncounted.

A formula is a function of the operator's arguments and `out_val`, its result, as in torch's registry. A formula that a
lecture registers there comes first. Ours are kept here, because a lecture's own `FlopCounterMode` must print the same
number with and without these tools; `FlopCounterMode(custom_mapping=FORMULAS)` makes both agree.

    formula_of(torch.ops.aten.mv.default)(matrix, vector, out_val=matrix @ vector)  # 2 * matrix.numel()
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from trace_tools.metering.operators import base_name, floating, is_view, tensors_in

Formula = Callable[..., int]  # the operator's arguments, out_val=its result → FLOPs
FORMULAS: dict[Any, Formula] = {}  # by operator, in addition to `flop_registry`

TRANSCENDENTAL = 8  # exp, log, sin, erf …
POWER = 2 * TRANSCENDENTAL + 1  # xʸ as exp(y · log x)
TANH = 12  # (e²ˣ − 1) / (e²ˣ + 1): 2x, exp, −, +, ÷
SIGMOID = 11  # 1 / (1 + e⁻ˣ): −x, exp, +, ÷
GELU = 4 + TRANSCENDENTAL  # ½ · x · (1 + erf(x · √½))
SOFTMAX = 4 + TRANSCENDENTAL  # max, −, exp, Σ, ÷
NORM = 5  # mean, −, ², Σ, · 1/σ; a weight and a bias add one each
LSTM_CELL = 65  # 4 gates joined (4), 3 sigmoids, tanh, f·c + i·g (3), tanh(c), · o
GRU_CELL = 41  # 3 gates joined (3), 2 sigmoids, tanh, r·n, n + z·(h − n) (3)


def formula_of(operator: Any) -> Formula | None:
    """Return the formula of an operator (an OpOverload or a higher-order operator), if it has one."""
    packet, name = getattr(operator, "_overloadpacket", operator), base_name(operator) or ""
    if packet in flop_registry and packet not in _CORRECTED:
        registered: Formula = flop_registry[packet]
        return registered
    if packet in FORMULAS:
        return FORMULAS[packet]
    if name in ELEMENTWISE:
        return partial(_weighted, ELEMENTWISE[name], of_input=False)
    if name in REDUCTIONS:
        return partial(_weighted, REDUCTIONS[name], of_input=True)
    return (lambda *args, **_: 0) if is_free(operator) else None


# ------------------------------------------------------------ FLOPs by shapes


def formula(names: str) -> Callable[[Formula], Formula]:
    """Register a formula in `FORMULAS` for operators of aten, as far as this version of torch has them."""

    def register(function: Formula) -> Formula:
        function._get_raw = True  # type: ignore[attr-defined]  # for `FlopCounterMode`: it takes tensors, not shapes
        known = [name for name in names.split() if hasattr(torch.ops.aten, name)]
        FORMULAS.update((getattr(torch.ops.aten, name), function) for name in known)
        return function

    return register


@formula("bmm mv dot vdot _int_mm _scaled_mm_v2")
def _product(a: Tensor, b: Tensor, *args: Any, **_: Any) -> int:
    """(m, k) @ (k, n) or (m, k) @ (k,): 2 per element of the first and column of the second, as torch's `mm_flop`."""
    return 2 * a.numel() * (b.shape[-1] if b.dim() > 1 else 1)


@formula("addmm addmm_ addmv addmv_ baddbmm baddbmm_ addbmm addbmm_ _addmm_activation")
def _added_product(added: Tensor, a: Tensor, b: Tensor, *args: Any, **_: Any) -> int:
    """added + a @ b, where only the product counts, as in torch's `addmm_flop`."""
    return _product(a, b)


@formula("_weight_int8pack_mm _weight_int4pack_mm _weight_int4pack_mm_for_cpu")
def _product_with_packed(a: Tensor, *args: Any, out_val: Tensor, **_: Any) -> int:
    """(m, k) @ (k, n), where the layout of the second depends on the device: 2mkn by the result."""
    return 2 * a.numel() * out_val.shape[-1]


@formula("_grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2")
def _grouped_product(a: Tensor, b: Tensor, *args: Any, **_: Any) -> int:
    """Products of experts: m, k or n is divided among the groups, or each group has all of them."""
    groups = a.shape[0] if a.dim() == b.dim() == 3 else 1
    return 2 * groups * a.shape[-2] * a.shape[-1] * b.shape[-1]


@formula("convolution_backward")
def _convolution_backward(grad: Tensor, x: Tensor, weight: Tensor, *args: Any, **_: Any) -> int:
    """As much as the forward pass, 2·B·positions·|w|, for each requested gradient (of the input and of the weight)."""
    transposed, requested = args[4], args[7]
    forward = 2 * x.shape[0] * prod((x if transposed else grad).shape[2:]) * weight.numel()
    return int(forward * sum(requested[:2]))


@formula("_scaled_dot_product_flash_attention_for_cpu")
def _attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **_: Any) -> int:
    """(…, S, D) queries, (…, T, D) keys, (…, T, Dv) values: 2·S·T·D + 2·S·T·Dv per head, as torch's `sdpa_flop`."""
    return 2 * prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])


@formula("_scaled_dot_product_flash_attention_for_cpu_backward")
def _attention_backward(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *args: Any, **_: Any) -> int:
    """Scores again, dQ and dK: 2·S·T·D each; dP and dV: 2·S·T·Dv each; as torch's `sdpa_backward_flop`."""
    return 2 * prod(query.shape[:-1]) * key.shape[-2] * (3 * query.shape[-1] + 2 * value.shape[-1])


@formula("mkldnn_rnn_layer")
def _layer_on_cpu(x: Tensor, w_input: Tensor, w_hidden: Tensor, *args: Any, **_: Any) -> int:
    return _recurrent(2, x, [w_input, w_hidden], *args[6:8])


@formula("mkldnn_rnn_layer_backward")
def _layer_on_cpu_backward(x: Tensor, w_input: Tensor, w_hidden: Tensor, *args: Any, **_: Any) -> int:
    return _recurrent(4, x, [w_input, w_hidden], *args[11:13])


@formula("_cudnn_rnn")
def _layers_on_gpu(x: Tensor, weights: list[Tensor], *args: Any, **_: Any) -> int:
    return _recurrent(2, x, weights, args[4], args[5], layers=args[7] * (1 + args[11]))  # both directions


@formula("_cudnn_rnn_backward")
def _layers_on_gpu_backward(x: Tensor, weights: list[Tensor], *args: Any, **_: Any) -> int:
    return _recurrent(4, x, weights, args[8], args[9], layers=args[11] * (1 + args[15]))


def _recurrent(products: int, x: Tensor, weights: list[Tensor], mode: int, hidden: int, layers: int = 1) -> int:
    """Products with each weight at every position (forward 2; backward 4, twice as many), and the cells.

    A cell's backward takes about as many operations as its forward. Torch numbers the modes: ReLU, tanh, LSTM, GRU.
    """
    positions, cell = x.numel() // x.shape[-1], (2, 1 + TANH, LSTM_CELL, GRU_CELL)[mode]
    return int(positions * (products * sum(w.numel() for w in weights if w.dim() == 2) + cell * hidden * layers))


@formula("index_add index_add_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ index_reduce index_reduce_")
def _added_rows(target: Tensor, dim: int, index: Tensor, source: Tensor, *args: Any, **_: Any) -> int:
    """One addition (or maximum …) per element of the source."""
    return source.numel() if floating(target) else 0


@formula("index_put index_put_ _index_put_impl_")
def _assigned_rows(target: Tensor, indices: Any, values: Tensor, accumulate: bool = False, *args: Any, **_: Any) -> int:
    return values.numel() if accumulate and floating(target) else 0


@formula("bucketize")
def _bucketed(x: Tensor, boundaries: Tensor, *args: Any, out_val: Tensor, **_: Any) -> int:
    """A binary search for each element."""
    return int(out_val.numel() * boundaries.shape[-1].bit_length())


@formula("nll_loss_forward nll_loss2d_forward")
def _picked(x: Tensor, targets: Tensor, *args: Any, **_: Any) -> int:
    """The sum over the targets."""
    return targets.numel()


# Torch 2.13 counts a grouped convolution's gradients too often, and its formulas of `bmm`, `addmm` and `baddbmm` do not
# know `out_dtype`.
_CORRECTED = {getattr(torch.ops.aten, name) for name in ("convolution_backward", "bmm", "addmm", "baddbmm")}

# ------------------------------------------------------------ FLOPs per element

Weight = int | Callable[..., int]  # the operator's arguments → FLOPs per element


def _weighted(weight: Weight, *args: Any, out_val: Any, of_input: bool, **kwargs: Any) -> int:
    """Count a weight for each element of the result, or of a reduction's input."""
    result = out_val[0] if isinstance(out_val, tuple) and out_val and isinstance(out_val[0], Tensor) else out_val
    if of_input or not isinstance(result, (Tensor, list)):  # in-place operators on lists return no tensor
        result = args[0]
    if not any(map(floating, tensors_in([result, args[0]]))):
        return 0
    each = weight if isinstance(weight, int) else weight(*args, **kwargs)
    return each * sum(tensor.numel() for tensor in tensors_in(result))


def _each(weight: Weight, names: str) -> dict[str, Weight]:
    return dict.fromkeys(names.split(), weight)


def _loss(each: int, reduction_index: int = 2) -> Weight:
    """Return the weight of a loss: of each element, × a weight, 3 for a weight of positives, and Σ if it is reduced."""

    def weigh(*args: Any, reduction: int = 1, **_: Any) -> int:
        reduced = (args[reduction_index] if len(args) > reduction_index else reduction) != 0
        return each + sum(n * (w is not None) for n, w in zip((1, 3), args[2:reduction_index], strict=False)) + reduced

    return weigh


# FLOPs per element of the result. Names without namespace, trailing "_" and leading "_foreach_".
ELEMENTWISE: dict[str, Weight] = {
    **_each(1, "mul div neg abs sign sgn sqrt square reciprocal relu maximum minimum fmax fmin clamp_min clamp_max"),
    **_each(1, "eq ne lt le gt ge isnan isinf isfinite isposinf isneginf signbit logical_not logical_and logical_or"),
    **_each(1, "logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not ceil floor round trunc frac fmod remainder"),
    **_each(1, "floor_divide copysign heaviside threshold threshold_backward __and__ __or__ __xor__ __lshift__"),
    **_each(1, "__rshift__ bitwise_left_shift bitwise_right_shift"),
    **_each(TRANSCENDENTAL, "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh asinh acosh"),
    **_each(TRANSCENDENTAL, "atanh erf erfc erfinv lgamma digamma angle"),
    **_each(2, "rsqrt leaky_relu leaky_relu_backward hardtanh hardtanh_backward"),  # √, ÷; comparison, ×; two bounds
    **_each(2, "addr native_dropout native_dropout_backward"),  # self + a·b; · mask, ÷ (1 − p)
    **_each(3, "lerp nan_to_num linalg_cross"),  # a + w · (b − a); comparisons; two products, −
    **_each(1 + TRANSCENDENTAL, "atan2 xlogy"),
    "polar": 2 + 2 * TRANSCENDENTAL,  # r·cos θ, r·sin θ
    **_each(4 + 2 * TRANSCENDENTAL, "logaddexp logaddexp2 logcumsumexp"),  # max, min, −, exp, log1p, +
    "sigmoid": SIGMOID,
    "tanh": TANH,
    **_each(3, "sigmoid_backward tanh_backward"),  # g · (1 − y) · y; g · (1 − y·y)
    **_each(SIGMOID + 1, "silu glu"),
    "silu_backward": SIGMOID + 5,  # g · s · (1 + x · (1 − s))
    "glu_backward": (SIGMOID + 5) // 2,  # per pair: σ, g · σ, and g · a · σ · (1 − σ)
    "softplus": 1 + 2 * TRANSCENDENTAL,
    "softplus_backward": 5 + TRANSCENDENTAL,  # β · x, comparison, exp, + 1, ÷, · g
    "log_sigmoid_forward": 4 + 2 * TRANSCENDENTAL,  # min, |x|, −, exp, log1p, −
    "log_sigmoid_backward": 6,  # comparison, + and ÷ with the stored exponential, ×, −, · g
    "elu": 3 + TRANSCENDENTAL,  # comparison, exp, − 1, · α
    **_each(SOFTMAX, "_softmax _safe_softmax _log_softmax"),
    "_softmax_backward_data": 4,  # y · (g − Σ g·y)
    "_log_softmax_backward_data": 3 + TRANSCENDENTAL,  # g − exp(y) · Σ g
    # dx 10: g·w, x̂ (2), Σ (1), Σ g·x̂ (2), joined (4); dw 2, db 1
    **_each(13, "native_layer_norm_backward native_group_norm_backward native_batch_norm_backward"),
    **_each(13, "batch_norm_backward cudnn_batch_norm_backward"),
    "_fused_rms_norm_backward": 9,  # g·w, x̂, Σ g·x̂ (2), joined (3), dw (2)
    "mse_loss_backward": 3,
    "binary_cross_entropy_backward": 6,  # g · (p − t) ÷ max(p · (1 − p), ε)
    **_each(5, "huber_loss_backward smooth_l1_loss_backward"),  # −, two comparisons, · 1/n, · g
    "_amp_foreach_non_finite_check_and_unscale": 2,
}

# FLOPs per element of the first argument.
REDUCTIONS: dict[str, Weight] = {
    **_each(1, "sum nansum mean prod amax amin max min argmax argmin any all cumsum cumprod cummax cummin median"),
    **_each(1, "nanmedian kthvalue topk equal count_nonzero"),  # selecting: as `median`
    **_each(1, "embedding_dense_backward nll_loss_backward nll_loss2d_backward"),
    **_each(1, "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward max_pool2d_with_indices_backward"),
    **_each(1, "avg_pool2d_backward adaptive_max_pool2d adaptive_max_pool2d_backward col2im"),
    **_each(2, "norm powsum linalg_vector_norm aminmax"),  # ², Σ
    **_each(4, "var std var_mean std_mean"),  # mean, −, ², Σ
    "allclose": 7,  # |a − b| ≤ atol + rtol · |b|, all
    "logsumexp": 3 + TRANSCENDENTAL,
    "mse_loss": _loss(2),  # −, ²
    "huber_loss": _loss(5),  # |a − b|, a comparison, and z · z · ½, or δ · (z − ½δ)
    "smooth_l1_loss": _loss(6),  # the same ÷ β
    # (t − 1) · max(log1p(−p), −100) − t · max(log p, −100)
    "binary_cross_entropy": _loss(7 + 2 * TRANSCENDENTAL, 3),
    "binary_cross_entropy_with_logits": _loss(7 + 2 * TRANSCENDENTAL, 4),  # (1 − t) · x − log σ(x)
}


# No arithmetic: these allocate, fill, draw, cast, copy, move, choose, or ask.
FREE = _each(
    0,
    """
    zeros ones full zero fill fill_diagonal scalar_tensor eye arange iota linspace logspace tril_indices triu_indices
    normal uniform bernoulli exponential geometric log_normal multinomial
    convert_element_type clone copy copy_to device_put _pin_memory lift lift_fresh contiguous
    detach resize resize_as set record_stream _unsafe_view as_strided reshape collapse complex view_as_real
    view_as_complex conj_physical _conj_physical
    cat stack flip rev roll repeat repeat_interleave rot90 block_diag _chunk_cat tril triu diag_embed im2col
    channel_shuffle pixel_shuffle pixel_unshuffle unsafe_split unsafe_split_with_sizes unsafe_chunk
    constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d
    select_backward slice_backward diagonal_backward unfold_backward
    index _unsafe_index index_select index_fill gather take put scatter embedding masked_select masked_fill where
    nonzero nonzero_static
    _local_scalar_dense item is_pinned is_same_size _has_same_storage_numel _assert_async _fused_sdp_choice
    _amp_update_scale
    """,
)


def is_free(operator: Any) -> bool:
    """Return whether an operator does no arithmetic."""
    name = base_name(operator) or ""
    made, moved = ("empty", "new_", "rand"), ("_like", "_copy", "_scatter")
    return name in FREE or name.startswith(made) or name.endswith(moved) or is_view(operator)


def weight(names: str) -> Callable[[Weight], Weight]:
    """Register a function of an operator's arguments that returns its FLOPs per element of the result.

    Each accepts any further keyword: `out=` counts like a new result.
    """

    def register(function: Weight) -> Weight:
        ELEMENTWISE.update(_each(function, names))
        return function

    return register


@weight("add sub rsub")
def _add(a: Any, b: Any, alpha: Any = 1, **_: Any) -> int:
    """a + alpha · b."""
    return 1 if alpha == 1 else 2


@weight("addcmul addcdiv")
def _add_product(x: Any, a: Any, b: Any, value: Any = 1, **_: Any) -> int:
    """x + value · (a · b)."""
    return 2 if isinstance(value, (int, float)) and value == 1 else 3


@weight("pow")
def _pow(x: Any, exponent: Any, **_: Any) -> int:
    """x³ is x·x·x: 2; x⁻ⁿ one ÷ more; √x 1; any other exponent exp(y · log x)."""
    if not isinstance(exponent, (int, float)):
        return POWER
    if abs(exponent) == 0.5:
        return 1 if exponent > 0 else 2
    products = max(abs(exponent) - 1, 0) + (exponent < 0)
    return min(int(products), POWER) if float(exponent).is_integer() else POWER


@weight("clamp")
def _clamp(x: Any, min: Any = None, max: Any = None, **_: Any) -> int:
    return (min is not None) + (max is not None)


@weight("gelu")
def _gelu(x: Any, approximate: str = "none", **_: Any) -> int:
    """½ · x · (1 + erf(x · √½)); with tanh ½ · x · (1 + tanh(c · (x + d·x·x·x)))."""
    return 8 + TANH if approximate == "tanh" else GELU


@weight("gelu_backward")
def _gelu_backward(grad: Any, x: Any, approximate: str = "none", **_: Any) -> int:
    """Φ 11, φ 11, 3; with tanh 17 as above (half, cube, tanh), its derivative 2 + 3, products and sums 7."""
    return 17 + TANH if approximate == "tanh" else 9 + 2 * TRANSCENDENTAL


@weight("elu_backward")
def _elu_backward(grad: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, *args: Any, **_: Any) -> int:
    return 3 if is_result else 3 + TRANSCENDENTAL


@weight("native_layer_norm")
def _layer_norm(x: Any, shape: Any, weight: Any, bias: Any, *args: Any, **_: Any) -> int:
    return NORM + (weight is not None) + (bias is not None)


@weight("native_group_norm native_batch_norm _native_batch_norm_legit _batch_norm_with_update cudnn_batch_norm")
def _channel_norm(x: Any, weight: Any, bias: Any, *args: Any, **_: Any) -> int:
    return NORM + (weight is not None) + (bias is not None)


@weight("_fused_rms_norm")
def _rms_norm(x: Any, shape: Any, weight: Any = None, *args: Any, **_: Any) -> int:
    """², Σ, · 1/rms, · weight."""
    return 3 + (weight is not None)


@weight("max_pool2d_with_indices avg_pool2d")
def _pool(x: Any, window: Any, *args: Any, **_: Any) -> int:
    """One comparison or + per element of the window."""
    return window if isinstance(window, int) else prod(window)


@weight("_fused_adam")
def _adam(*args: Any, weight_decay: float, amsgrad: bool, **_: Any) -> int:
    """m 3, v 4, √v ÷ c + ε 3, p −= s·m/d 3; weight decay g + λ·p; amsgrad's maximum."""
    return 13 + 2 * bool(weight_decay) + bool(amsgrad)


@weight("_fused_adamw")
def _adamw(*args: Any, weight_decay: float, amsgrad: bool, **_: Any) -> int:
    """As Adam, with weight decay p · (1 − lr·λ)."""
    return 13 + bool(weight_decay) + bool(amsgrad)


@weight("_fused_sgd")
def _sgd(*args: Any, **options: Any) -> int:
    """p − lr·g 2; weight decay 2; momentum μ·b + (1 − d)·g 2 or 3, after its first step; Nesterov 2."""
    moving = bool(options["momentum"]) and not options["is_first_step"]
    momentum = (2 + bool(options["dampening"])) * moving
    return 2 + 2 * bool(options["weight_decay"]) + momentum + 2 * bool(options["nesterov"])


# ------------------------------------------------------------ FLOPs that may be left out


def attended_share(operator: Any) -> Callable[..., float] | None:
    """Return a function for the share of scores that a causal mask keeps, if the operator is attention.

    By convention a causal mask does not halve attention. Kernels skip the masked scores, so bounds count the rest.
    """
    schema = getattr(operator, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema else []
    if "is_causal" not in names or "query" not in names:
        return None
    causal, query = names.index("is_causal"), names.index("query")

    def share(*args: Any, **kwargs: Any) -> float:
        if not (args[causal] if len(args) > causal else kwargs.get("is_causal")):
            return 1.0
        queries, keys = args[query].shape[-2], args[query + 1].shape[-2]
        square = min(queries, keys)
        attended = square * (square + 1) // 2 + (queries - square) * keys
        return float(attended / max(1, queries * keys))

    return share
