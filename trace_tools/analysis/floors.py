"""Compute the least time for operators on a machine, from its datasheet or its measured roof.

    h100 = ceiling_named("NVIDIA H100 80GB HBM3")
    floor_of(step, h100)     # Floor(seconds=1.2e-06, binds="memory", …)

The floor of one operator is the larger of its FLOPs ÷ the peak of their dtype and its bytes ÷ the bandwidth (the
roofline model: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009). The floor
of a step is the sum over its operators, because they run one after another. It leaves out launches, synchronisation and
workspaces. Only three kinds of work can be faster: work that a cache served, because its bytes never came from memory;
convolutions by the algorithms of Winograd or Fourier, which need fewer products; and operators that run at the same
time. Compiled code moves fewer bytes than its operators would, so its bytes are not counted. Work on the meta device
was never computed and has no floor. A floor is computed, never measured; only the roof may come from measurements.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from trace_tools.analysis.rates import not_counted
from trace_tools.errors import UsageError
from trace_tools.machines.peaks import KnownMachine, known_machine, known_machines
from trace_tools.trace.model import Counts, Machine, Step, Trace
from trace_tools.util import formats

Kind = Literal["matmul", "elementwise", "reduction", "copy", "fill", "indexing", "collective", "other"]

NO_WORK = "the trace does not say what each operator did; trace it again"
NOTHING = "its operators computed nothing and moved no bytes of memory"
NOWHERE = "its operators ran on the meta device, which computes nothing"
UNMETERED = "nothing was counted"
SEVERAL_CALLS = "it contains several measurements"
HEAVY_S = 1e-6  # least floor of a heavy operator, because starting any operator takes some microseconds
LEFT_OVER = 0.95  # least share of the nominal memory that a program can use
MANY_CALLS = "it includes the operators of all the calls that `measure` or `count` made"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The rates that a machine can't exceed: FLOP/s by name of peak, bytes/s of its memory."""

    name: str
    flops_per_second: Mapping[str, float]
    bytes_per_second: float
    source: str  # title of the datasheet, or "measured"
    memory_bytes: int | None = None
    cache_bytes: int | None = None  # of its largest cache, if known


@dataclass(frozen=True, slots=True)
class Floor:
    """The least seconds for a step's operators on a machine; None, with the reason, if it has no floor.

    `binds` names the roof that accounts for most of it: "memory", or the name of a peak. `beyond_caches` holds the
    least seconds if the machine's largest cache serves each call: the call finds as many of its bytes there as fit, and
    leaves as many there.
    """

    seconds: float | None
    binds: str | None = None
    kinds: Mapping[Kind, float] = field(default_factory=dict)  # its seconds, by kind of operator
    beyond_caches: float | None = None
    why: str | None = None
    unknown_peak: bool = False  # no floor, because the machine has no peak of a dtype
    calls: int = 0  # number of calls of its operators whose bytes are known

    @property
    def heavy(self) -> bool:
        """Whether its operators are large enough on that machine that starting them is not most of their time."""
        return self.seconds is not None and self.calls > 0 and self.seconds >= HEAVY_S * self.calls


# --- machines -------------------------------------------------------------------------------------


def ceiling_named(name: str) -> Ceiling:
    """Return the ceiling of a machine in the table by its driver's name. Raises UsageError for any other name."""
    entry = known_machine(name)
    if entry is None:
        names = [of for machine in known_machines() for of in machine.names]
        inside = [of for of in names if name.strip() and name.strip().lower() in of.lower()]
        lower = {of.lower(): of for of in names}
        near = inside or [lower[of] for of in difflib.get_close_matches(name.lower(), lower, n=4, cutoff=0.3)]
        hint = f"the nearest are {', '.join(near[:4])}" if near else f"expected one of {', '.join(names)}"
        raise UsageError(f"--floor {name}: unknown machine; {hint}")
    return _ceiling(entry)


def ceilings() -> list[Ceiling]:
    """Return the ceilings of all machines of the table."""
    return [_ceiling(entry) for entry in known_machines()]


def _ceiling(machine: KnownMachine) -> Ceiling:
    rates = (dict(machine.flops_per_second), machine.bytes_per_second)
    return Ceiling(machine.names[0], *rates, machine.source, memory_bytes=machine.memory_bytes)


def measured_ceiling(machine: Machine) -> Ceiling | None:
    """Return the measured roof of a machine; None if its memory bandwidth was not measured."""
    rates = {peak.name: peak.per_second for peak in machine.peaks if peak.measured and peak.per_second}
    bandwidth = rates.pop("memory", None)
    if bandwidth is None:
        return None
    cache = machine.cache_bytes if machine.device == "cpu" else machine.l2_bytes
    return Ceiling(machine.name, rates, bandwidth, "measured", machine.memory_bytes, cache)


def best_known_ceiling(machine: Machine) -> Ceiling | None:
    """Return a machine's ceiling by its datasheet, or its measured ceiling if it has no datasheet."""
    entry = known_machine(machine.name, machine.multiprocessors) if machine.device != "cpu" else None
    return _ceiling(entry) if entry is not None else measured_ceiling(machine)


# --- floors ---------------------------------------------------------------------------------------


def floor_of(step: Step, ceiling: Ceiling) -> Floor:
    """Return the floor of a step, or of the one call that it measured, to match `rates.timing_of`."""
    if step.measured:
        return floor_of_counted(step.measured[0], ceiling) if len(step.measured) == 1 else _none(SEVERAL_CALLS)
    if step.harness:
        return _none(MANY_CALLS)
    return floor_of_counted(step.meters, ceiling) if step.meters is not None else _none(UNMETERED)


def floor_of_counted(counted: Counts, ceiling: Ceiling) -> Floor:
    """Return the floor of counted work: the sum over its operators, each under the roof that binds it."""
    if (missing := not_counted(counted)) is not None:
        return _none(missing)
    if not counted.work:
        return _none(NOWHERE if counted.flops else counted.why or NOTHING)
    calls = dict(counted.operators or ())
    cached = {operator: 2 * (ceiling.cache_bytes or 0) * count for operator, count in calls.items()}
    bound: Counter[str] = Counter()
    kinds: Counter[Kind] = Counter()
    beyond = 0.0
    for operator, dtype, flops, moved in counted.work:
        kind, computing, peak = kind_of(operator, flops), 0.0, "memory"
        if dtype is not None and flops:
            peak = _peak_name(operator, dtype, ceiling)
            rate = ceiling.flops_per_second.get(peak)
            if rate is None:
                return Floor(None, why=f"no {peak} peak of {ceiling.name} is known", unknown_peak=True)
            computing = flops / rate
        moving = moved / ceiling.bytes_per_second
        seconds = max(computing, moving)
        bound[peak if computing > moving else "memory"] += seconds  # type: ignore[assignment]
        kinds[kind] += seconds  # type: ignore[assignment]
        served = min(moved, cached.get(operator, 0))
        cached[operator] = cached.get(operator, 0) - served  # it may have run in several dtypes
        beyond += max(computing, (moved - served) / ceiling.bytes_per_second)
    total = sum(kinds.values())
    ran = 0 if counted.why is not None else sum(calls.values())
    return Floor(total, max(bound, key=bound.__getitem__), dict(kinds), beyond, calls=ran)


def _none(why: str) -> Floor:
    return Floor(None, why=why)


def _peak_name(operator: str, dtype: str, ceiling: Ceiling) -> str:
    """Return the name of the peak that an operator can't exceed.

    A float64 product runs on the tensor cores if they support it. cuDNN computes float32 convolutions and recurrent
    layers in tf32 by default; matmuls use tf32 if the lecture enables it. Fused attention in float32 also uses the tf32
    units, three times for each product (CUTLASS, `OpMultiplyAddFastF32`). A machine that is slow at a narrow dtype may
    widen it, and compute in float32.
    """
    rates = ceiling.flops_per_second
    if dtype.startswith(("float8", "float4")):
        dtype = dtype[:6]
    if dtype == "float64" and "float64_tensor" in rates:
        return "float64_tensor"
    if dtype == "float32" and any(word in operator for word in ("rnn", "attention")) and "tf32" in rates:
        return "tf32"
    if dtype.startswith("tf32"):
        if "tf32" in rates:
            return "tf32"
        dtype = "bfloat16" if dtype == "tf32_or_bfloat16" and "bfloat16" in rates else "float32"
    if dtype in ("float16", "bfloat16") and dtype in rates and rates.get("float32", 0.0) > rates[dtype]:
        return "float32"
    return dtype


def has_work(trace: Trace) -> bool:
    """Return whether a trace records the work of each operator; older traces don't."""
    return any(counted.work for event in trace.steps if isinstance(event, Step) for counted in _counted(event))


def why_no_floors(trace: Trace) -> str | None:
    """Return the reason why a trace has no floors at all; None if it has some."""
    if has_work(trace):
        return None
    ran = any(counted.operators for event in trace.steps if isinstance(event, Step) for counted in _counted(event))
    return NO_WORK if ran else "no torch operator was counted"


def _counted(step: Step) -> Iterable[Counts]:
    return [*([step.meters] if step.meters is not None else []), *(step.measured or ())]


def most_live_bytes(trace: Trace) -> int | None:
    """Return the most bytes of tensors that were alive at once in the run; a lower bound, without workspaces."""
    steps = (event for event in trace.steps if isinstance(event, Step))
    peaks = [step.meters.peak_bytes for step in steps if step.meters is not None]
    return max((peak for peak in peaks if peak is not None), default=None)


def floor_in_words(floor: Floor, at_least: str = "at least ") -> str:
    """Format a floor that is known: at least 1.2 µs, memory."""
    assert floor.seconds is not None
    ns = 1e9 * floor.seconds
    return f"{at_least}{formats.duration(ns)}, {floor.binds}" if ns >= 1 else f"under 1 ns, {floor.binds}"


def fit_in_words(live_bytes: int | None, ceiling: Ceiling) -> str:
    """Report whether the peak of live tensor bytes fits into a machine's memory.

    Makers that sell 40 GB mean up to 40 · 2³⁰ bytes, and error correction and the driver may keep some: torch
    finds 42.5 · 10⁹ on an A100 of 40 GB, 15.8 · 10⁹ on a T4 of 16.
    """
    if live_bytes is None or ceiling.memory_bytes is None:
        return "Unknown, because its memory was not metered"
    alive = formats.byte_size(live_bytes, 3, decimal=True)
    memory = formats.byte_size(ceiling.memory_bytes, 3, decimal=True)
    if live_bytes > ceiling.memory_bytes * 2**30 // 10**9:
        return f"No: {alive} of tensors were alive at once, more than {memory}"
    if live_bytes > LEFT_OVER * ceiling.memory_bytes:
        return f"Hardly: {alive} of tensors were alive at once; a card sold as {memory} may have slightly more or less"
    return f"Its tensors would: at most {alive} of {memory} were alive at once; workspaces are not counted"


# --- kinds of operators ---------------------------------------------------------------------------


def kind_of(operator: str, flops: int) -> Kind:
    """Return the kind of work of an operator by its name in a trace: "aten.mm" is a matmul.

    Under a roof, convolutions, attention and recurrent layers count as matmuls. Softmax and normalisations are
    reductions. An operator in no list is elementwise if it did arithmetic. The floor of a collective covers only its
    reads and writes in its own machine's memory, because a ceiling has no links between ranks.
    """
    if operator.startswith(("c10d.", "_c10d_functional.", "c10d_functional.")):
        return "collective"
    name = operator.removeprefix("aten.").removeprefix("_foreach_")
    name = name if name.endswith("__") else name.removesuffix("_")
    listed = _KINDS.get(name)
    if listed is not None:
        return listed
    if any(word in name for word in ("attention", "convolution", "conv2d", "rnn", "lstm", "gru", "_mm")):
        return "matmul"
    return "elementwise" if flops else "other"


_LISTS: Mapping[Kind, str] = {
    "matmul": """
        mm bmm addmm addmv baddbmm addbmm mv addr linear _sparse_mm _int_mm _scaled_mm _addmm_activation
        _sparse_sparse_matmul sparse_sampled_addmm hspmm _transformer_encoder_layer_fwd _trilinear _euclidean_dist
    """,
    "reduction": """
        sum nansum mean prod amax amin max min aminmax argmax argmin any all cumsum cumprod cummax cummin median equal
        trace count_nonzero norm linalg_vector_norm dot vdot var std var_mean std_mean allclose logsumexp mse_loss
        nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward _softmax _safe_softmax _log_softmax
        _softmax_backward_data _log_softmax_backward_data native_layer_norm native_layer_norm_backward
        native_group_norm native_group_norm_backward native_batch_norm native_batch_norm_backward
        _native_batch_norm_legit _batch_norm_with_update batch_norm_backward cudnn_batch_norm cudnn_batch_norm_backward
        _fused_rms_norm _fused_rms_norm_backward max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d
        _adaptive_avg_pool2d_backward max_pool2d_with_indices_backward avg_pool2d_backward col2im
        max_pool3d_with_indices max_pool3d_with_indices_backward avg_pool3d avg_pool3d_backward adaptive_max_pool2d
        adaptive_max_pool2d_backward adaptive_max_pool3d adaptive_max_pool3d_backward _adaptive_avg_pool3d
        _adaptive_avg_pool3d_backward fractional_max_pool2d fractional_max_pool2d_backward fractional_max_pool3d
        fractional_max_pool3d_backward reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward
        replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward binary_cross_entropy
        binary_cross_entropy_with_logits huber_loss smooth_l1_loss soft_margin_loss multi_margin_loss renorm powsum
        _weight_norm_interface _weight_norm_interface_backward _sparse_softmax _sparse_softmax_backward_data
        _sparse_log_softmax _sparse_log_softmax_backward_data _sparse_sum _coalesce nanmedian kthvalue topk
        segment_reduce
    """,
    "copy": """
        clone copy _to_copy _to_dense _to_sparse _to_sparse_csr to_sparse _pin_memory lift lift_fresh _reshape_copy
        contiguous cat stack flip roll repeat repeat_interleave tril triu diag_embed diagonal_scatter slice_scatter
        select_scatter as_strided_scatter select_backward slice_backward diagonal_backward unfold_backward
        constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d im2col channel_shuffle
        pixel_shuffle pixel_unshuffle split_with_sizes_copy unbind_copy unsafe_split unsafe_split_with_sizes
        unsafe_chunk resize resize_as
    """,
    "fill": """
        zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full zero fill fill_diagonal scalar_tensor
        eye arange linspace logspace tril_indices triu_indices rand rand_like randn randn_like randint randint_like
        randperm normal uniform random bernoulli exponential geometric log_normal cauchy multinomial
    """,
    "indexing": """
        index _unsafe_index index_select index_copy index_fill index_add index_put _index_put_impl gather take put
        scatter scatter_add scatter_reduce index_reduce embedding _embedding_bag _embedding_bag_backward
        embedding_dense_backward masked_select masked_scatter nonzero sort searchsorted bucketize
        upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d
        upsample_trilinear3d upsample_bicubic2d grid_sampler_2d grid_sampler_3d cudnn_grid_sampler
    """,
    "elementwise": "where masked_fill",
    "other": """
        _fft_c2c _fft_r2c _fft_c2r linalg_cholesky_ex cholesky linalg_ldl_factor_ex linalg_lu_factor_ex linalg_lu
        _linalg_det _linalg_slogdet linalg_qr geqrf linalg_householder_product ormqr linalg_inv_ex cholesky_inverse
        _linalg_solve_ex linalg_lu_solve linalg_ldl_solve cholesky_solve linalg_solve_triangular triangular_solve
        linalg_lstsq _linalg_svd _linalg_eigh linalg_eig
    """,
}
_KINDS: Mapping[str, Kind] = {name: kind for kind, names in _LISTS.items() for name in names.split()}
