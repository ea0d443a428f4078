"""Operator → the formula that counts the floating-point operations of one call.

The convention is `flop_weights`'; here are matrix products, convolution, attention and recurrent layers
(theirs are formulas over shapes), and the choice of a formula for any operator.

    formula(torch.ops.aten.mm.default)((a, b), {}, a @ b)  # 2·m·k·n
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from trace_tools.metering.flop_weights import (
    ELEMENTWISE,
    FREE,
    GRU_CELL,
    LSTM_CELL,
    REDUCTIONS,
    TANH,
    Arguments,
    Keywords,
    Weight,
)
from trace_tools.metering.operators import base_name, elements, floating, is_view, tensors_in

Formula = Callable[[Arguments, Keywords, Any], int]  # arguments, keyword arguments, result → FLOPs


def formula(operator: Any) -> Formula | None:
    """Return what counts one call of `operator` (an OpOverload or a higher-order operator), or None.

    Formulas that others registered with `torch.utils.flop_counter.register_flop_formula` are used too.
    """
    packet = getattr(operator, "_overloadpacket", operator)
    name = base_name(operator)
    if name is not None:
        if name in _FORMULAS:
            return _FORMULAS[name]
        if name in ELEMENTWISE:
            return partial(_elementwise, ELEMENTWISE[name])
        if name in REDUCTIONS:
            return partial(_reduction, REDUCTIONS[name])
    if packet in flop_registry:
        registered = flop_registry[packet]
        return lambda args, kwargs, out: int(registered(*args, **kwargs, out_val=out))
    return _nothing if name in FREE or is_view(operator) else None


def _nothing(args: Arguments, kwargs: Keywords, out: Any) -> int:
    return 0


def _elementwise(weight: Weight, args: Arguments, kwargs: Keywords, out: Any) -> int:
    result = out[0] if isinstance(out, tuple) and out and isinstance(out[0], torch.Tensor) else out
    if not isinstance(result, (torch.Tensor, list)):  # in-place operators on lists return nothing
        result = args[0]
    return _weighted(weight, result, args, kwargs)


def _reduction(weight: Weight, args: Arguments, kwargs: Keywords, out: Any) -> int:
    return _weighted(weight, args[0], args, kwargs)


def _weighted(weight: Weight, counted: Any, args: Arguments, kwargs: Keywords) -> int:
    if not any(map(floating, tensors_in([counted, args[0]]))):
        return 0
    each = weight if isinstance(weight, int) else weight(args, kwargs)
    return each * sum(map(elements, tensors_in(counted)))


def _product(at: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count (…, m, k) @ (…, k, n) or (m, k) @ (k,): 2 per element of the first and column of the second."""
    a, b = args[at], args[at + 1]
    columns = b.shape[-1] if b.dim() > 1 else 1
    if a.layout is not torch.strided:
        return int(2 * a._nnz() * columns)
    return int(2 * a.numel() * columns)


def _outer(args: Arguments, kwargs: Keywords, out: Any) -> int:
    return int(2 * out.numel())  # self + a·b


def _convolution(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Each position (of the result, or of the input when transposed) meets every weight once: 2·B·positions·|w|."""
    x, weight, transposed = args[0], args[1], args[6]
    return int(2 * x.shape[0] * prod((x if transposed else out).shape[2:]) * weight.numel())


def _convolution_backward(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """As much as the forward pass for each of the two gradients asked for."""
    grad, x, weight, transposed, wanted = *args[:3], args[7], args[10]
    forward = 2 * x.shape[0] * prod((x if transposed else grad).shape[2:]) * weight.numel()
    return int(forward * sum(wanted[:2]))


def _attention(at: int, in_query: int, in_value: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count products over (…, S, D) queries and (…, T, D or Dv): 2·S·T·D or 2·S·T·Dv each, a batch and head."""
    query, key, value = args[at : at + 3]
    scores = prod(query.shape[:-1]) * key.shape[-2]
    return int(2 * scores * (in_query * query.shape[-1] + in_value * value.shape[-1]))


_CELLS = (2, 1 + TANH, LSTM_CELL, GRU_CELL)  # by torch's numbers for RNN-ReLU, RNN-tanh, LSTM, GRU


def _mkldnn_rnn(args: Arguments, kwargs: Keywords, out: Any) -> int:
    steps, mode, hidden = args[0].numel() // args[0].shape[-1], args[9], args[10]
    return int(steps * (2 * (args[1].numel() + args[2].numel()) + _CELLS[mode] * hidden))


def _cudnn_rnn(args: Arguments, kwargs: Keywords, out: Any) -> int:
    steps, mode, hidden = args[0].numel() // args[0].shape[-1], args[6], args[7]
    layers = args[9] * (2 if args[13] else 1)
    weights = sum(w.numel() for w in args[1] if w.dim() == 2)
    return int(steps * (2 * weights + _CELLS[mode] * hidden * layers))


def _mkldnn_rnn_backward(args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Twice the forward products; the cell's own backward about as many operations as its forward."""
    steps, mode, hidden = args[0].numel() // args[0].shape[-1], args[14], args[15]
    return int(steps * (4 * (args[1].numel() + args[2].numel()) + _CELLS[mode] * hidden))


def _cudnn_rnn_backward(args: Arguments, kwargs: Keywords, out: Any) -> int:
    steps, mode, hidden = args[0].numel() // args[0].shape[-1], args[10], args[11]
    layers = args[13] * (2 if args[17] else 1)
    weights = sum(w.numel() for w in args[1] if w.dim() == 2)
    return int(steps * (4 * weights + _CELLS[mode] * hidden * layers))


def _cell(weight: int, at: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
    return int(weight * args[at].numel())


def _accumulate(source: int, flag: int | None, args: Arguments, kwargs: Keywords, out: Any) -> int:
    """Count one addition per element of the source, where the operator adds rather than overwrites."""
    adds = flag is None or (len(args) > flag and args[flag])
    return int(args[source].numel()) if adds and floating(args[0]) else 0


def _targets(args: Arguments, kwargs: Keywords, out: Any) -> int:
    return int(args[1].numel())


_ATTENTION = tuple(
    f"_scaled_dot_product_{kind}"
    for kind in (
        *("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention"),
        "fused_attention_overrideable",
    )
)
_FORMULAS: dict[str, Formula] = {
    **{name: partial(_product, 0) for name in ("mm", "bmm", "mv", "_sparse_mm", "_int_mm")},
    **{name: partial(_product, 1) for name in ("addmm", "addmv", "baddbmm", "addbmm", "_addmm_activation")},
    "addr": _outer,
    "convolution": _convolution,
    "_convolution": _convolution,
    "convolution_backward": _convolution_backward,
    **dict.fromkeys(_ATTENTION, partial(_attention, 0, 1, 1)),
    **{f"{name}_backward": partial(_attention, 1, 3, 2) for name in _ATTENTION},  # scores again, dV, dP, dQ, dK
    "mkldnn_rnn_layer": _mkldnn_rnn,
    "mkldnn_rnn_layer_backward": _mkldnn_rnn_backward,
    "_cudnn_rnn": _cudnn_rnn,
    "_cudnn_rnn_backward": _cudnn_rnn_backward,
    "_thnn_fused_lstm_cell": partial(_cell, LSTM_CELL, 2),
    "_thnn_fused_lstm_cell_backward_impl": partial(_cell, LSTM_CELL, 2),
    "_thnn_fused_gru_cell": partial(_cell, GRU_CELL, 2),
    "_thnn_fused_gru_cell_backward": partial(_cell, GRU_CELL, 0),
    "index_add": partial(_accumulate, 3, None),
    "scatter_add": partial(_accumulate, 3, None),
    "scatter_reduce": partial(_accumulate, 3, None),
    "index_put": partial(_accumulate, 2, 3),
    "_index_put_impl": partial(_accumulate, 2, 3),
    "nll_loss_forward": _targets,
    "nll_loss2d_forward": _targets,
}
