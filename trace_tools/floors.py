"""What operators did → the least time that a machine could do it in: what its datasheet or its measured roof allows.

    h100 = ceiling_named("NVIDIA H100 80GB HBM3")
    floor_of(step, h100)     # Floor(seconds=1.2e-06, binds="memory", …)

The floor of one operator is the larger of its FLOPs ÷ the peak of their dtype and its bytes ÷ the bandwidth (the
roofline model: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009), and that of
a step is the sum over its operators: they run one after another. Nothing else is in it, no launch, no synchronisation,
no workspace, so that nothing is faster but what a cache served, whose bytes never came from memory, convolutions by
Winograd's or Fourier's algorithm, which need fewer products, and operators that run at the same time. Compiled code
moves fewer bytes than its operators would, so none are counted. What ran on the meta device was computed nowhere and
has no floor. Nothing here was measured on the machine that it speaks of, unless its roof was.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from trace_tools import formats
from trace_tools.errors import UsageError
from trace_tools.machines.known_machines import KnownMachine, known_machine, known_machines
from trace_tools.schema import Machine, Measured, Meters, Step, Trace

Kind = Literal["matmul", "elementwise", "reduction", "copy", "fill", "indexing", "collective", "other"]

NO_WORK = "the trace does not say what each operator did; trace it again"
NOTHING = "its operators computed nothing and moved no bytes of memory"
NOWHERE = "its operators ran on the meta device: they were computed nowhere"
UNMETERED = "nothing was counted"
SEVERAL_CALLS = "several measurements ran in it"
HEAVY_S = 1e-6  # floor of an operator: starting one takes some microseconds
LEFT_OVER = 0.95  # of a memory as sold, which a program has at least
MANY_CALLS = "its operators are those of all the calls that `measure` or `count` made"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The rates that a machine can't exceed: FLOP/s by name of peak, bytes/s of its memory."""

    name: str
    flops_per_second: Mapping[str, float]
    bytes_per_second: float
    source: str  # title of the datasheet, or "measured"
    memory_bytes: int | None = None
    cache_bytes: int | None = None  # of its largest cache, where it is known


@dataclass(frozen=True, slots=True)
class Floor:
    """The least seconds that a step's operators take on a machine; None, and why, where there is none.

    `binds` is the roof that most of it is spent under: "memory", or the name of a peak. `beyond_caches` are the
    seconds where each call finds as many of its bytes in the machine's largest cache as fit, and leaves as many there.
    """

    seconds: float | None
    binds: str | None = None
    kinds: Mapping[Kind, float] = field(default_factory=dict)  # its seconds, by kind of operator
    beyond_caches: float | None = None
    why: str | None = None
    unknown_peak: bool = False  # there is none because the machine has no peak of a dtype
    calls: int = 0  # of its operators, where their bytes are known

    @property
    def heavy(self) -> bool:
        """Whether its operators are large enough on that machine that starting them is not most of their time."""
        return self.seconds is not None and self.calls > 0 and self.seconds >= HEAVY_S * self.calls


# --- machines -------------------------------------------------------------------------------------


def ceiling_named(name: str) -> Ceiling:
    """Return the ceiling of a machine of the table, by its driver's name of it; raises UsageError for another."""
    known = known_machine(name)
    if known is None:
        names = [of for machine in known_machines() for of in machine.names]
        inside = [of for of in names if name.strip() and name.strip().lower() in of.lower()]
        lower = {of.lower(): of for of in names}
        near = inside or [lower[of] for of in difflib.get_close_matches(name.lower(), lower, n=4, cutoff=0.3)]
        hint = f"the nearest are {', '.join(near[:4])}" if near else f"expected one of {', '.join(names)}"
        raise UsageError(f"--floor {name}: the table has no machine of that name; {hint}")
    return _ceiling(known)


def ceilings() -> list[Ceiling]:
    """Return the ceilings of all machines of the table."""
    return [_ceiling(known) for known in known_machines()]


def _ceiling(known: KnownMachine) -> Ceiling:
    rates = (dict(known.flops_per_second), known.bytes_per_second)
    return Ceiling(known.names[0], *rates, known.source, memory_bytes=known.memory_bytes)


def measured_ceiling(machine: Machine) -> Ceiling | None:
    """Return the roof that was measured of a machine; None where its memory's was not."""
    rates = {peak.name: peak.per_second for peak in machine.peaks if peak.measured and peak.per_second}
    bandwidth = rates.pop("memory", None)
    if bandwidth is None:
        return None
    cache = machine.cache_bytes if machine.device == "cpu" else machine.l2_bytes
    return Ceiling(machine.name, rates, bandwidth, "measured", machine.memory_bytes, cache)


def best_known_ceiling(machine: Machine) -> Ceiling | None:
    """Return a machine's ceiling by its datasheet; where it has none, the one that was measured."""
    known = known_machine(machine.name, machine.multiprocessors) if machine.device != "cpu" else None
    return _ceiling(known) if known is not None else measured_ceiling(machine)


# --- floors ---------------------------------------------------------------------------------------


def floor_of(step: Step, ceiling: Ceiling) -> Floor:
    """Return the floor of a step, or of the one call that it measured: of what its time is the time of."""
    if step.measured:
        return floor_of_counted(step.measured[0], ceiling) if len(step.measured) == 1 else _none(SEVERAL_CALLS)
    if step.harness:
        return _none(MANY_CALLS)
    return floor_of_counted(step.meters, ceiling) if step.meters is not None else _none(UNMETERED)


def floor_of_counted(counted: Meters | Measured, ceiling: Ceiling) -> Floor:
    """Return the floor of what was counted: the sum over its operators, each under the roof that binds it."""
    if not counted.work:
        return _none(NOWHERE if counted.flops else counted.why or NOTHING)
    calls = dict(counted.operators or ())
    cached = {operator: 2 * (ceiling.cache_bytes or 0) * count for operator, count in calls.items()}
    bound: Counter[str] = Counter()
    kinds: Counter[Kind] = Counter()
    beyond = 0.0
    for operator, dtype, flops, moved in counted.work:
        kind, computing, roof = kind_of(operator, flops), 0.0, "memory"
        if dtype is not None and flops:
            roof = _peak_name(operator, dtype, ceiling)
            rate = ceiling.flops_per_second.get(roof)
            if rate is None:
                return Floor(None, why=f"no {roof} peak of {ceiling.name} is known", unknown_peak=True)
            computing = flops / rate
        moving = moved / ceiling.bytes_per_second
        seconds = max(computing, moving)
        bound[roof if computing > moving else "memory"] += seconds  # type: ignore[assignment]
        kinds[kind] += seconds  # type: ignore[assignment]
        served = min(moved, cached.get(operator, 0))
        cached[operator] = cached.get(operator, 0) - served  # it may have run in several dtypes
        beyond += max(computing, (moved - served) / ceiling.bytes_per_second)
    total = sum(kinds.values())
    ran = 0 if counted.why is not None else sum(calls.values())
    return Floor(total, max(bound, key=lambda roof: bound[roof]), dict(kinds), beyond, calls=ran)


def _none(why: str) -> Floor:
    return Floor(None, why=why)


def _peak_name(operator: str, dtype: str, ceiling: Ceiling) -> str:
    """Return the name of the peak that an operator can't exceed.

    A float64 product runs on the tensor cores where they can. cuDNN computes float32 convolutions and recurrent layers
    in tf32 unless it is told otherwise, matmuls where the lecture says so; fused attention in float32 uses those units
    too, three times for each product (CUTLASS, `OpMultiplyAddFastF32`). A machine that is slow at a narrow dtype may
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
    """Return whether a trace says what each operator did; older ones don't."""
    return any(counted.work for event in trace.steps if isinstance(event, Step) for counted in _counted(event))


def why_no_floors(trace: Trace) -> str | None:
    """Say why a trace has no floors at all; None where it has some."""
    if has_work(trace):
        return None
    ran = any(counted.operators for event in trace.steps if isinstance(event, Step) for counted in _counted(event))
    return NO_WORK if ran else "no operator of torch was counted in it"


def _counted(step: Step) -> Iterable[Meters | Measured]:
    return [*([step.meters] if step.meters is not None else []), *(step.measured or ())]


def most_live_bytes(trace: Trace) -> int | None:
    """Return the most bytes of tensors that were alive at once in the run; a lower bound, without workspaces."""
    steps = (event for event in trace.steps if isinstance(event, Step))
    peaks = [step.meters.peak_bytes for step in steps if step.meters is not None]
    return max((peak for peak in peaks if peak is not None), default=None)


def floor_in_words(floor: Floor, at_least: str = "at least ") -> str:
    """Say a floor that there is: at least 1.2 µs, memory."""
    assert floor.seconds is not None
    ns = 1e9 * floor.seconds
    return f"{at_least}{formats.duration(ns)}, {floor.binds}" if ns >= 1 else f"under 1 ns, {floor.binds}"


def fit_in_words(live_bytes: int | None, ceiling: Ceiling) -> str:
    """Say whether the most bytes of tensors that were alive at once fit into a machine's memory.

    Makers that sell 40 GB mean up to 40 · 2³⁰ bytes, of which error correction and the driver may keep some: torch
    finds 42.5 · 10⁹ on an A100 of 40 GB, 15.8 · 10⁹ on a T4 of 16.
    """
    if live_bytes is None or ceiling.memory_bytes is None:
        return "Nobody knows: no memory was metered"
    alive = formats.byte_size(live_bytes, 3, decimal=True)
    memory = formats.byte_size(ceiling.memory_bytes, 3, decimal=True)
    if live_bytes > ceiling.memory_bytes * 2**30 // 10**9:
        return f"No: {alive} of tensors were alive at once, more than {memory}"
    if live_bytes > LEFT_OVER * ceiling.memory_bytes:
        return (
            f"Hardly: {alive} of tensors were alive at once; sold as {memory}, it may have some per cent more or less"
        )
    return f"Its tensors do: at most {alive} were alive at once, of {memory}; workspaces are not counted"


# --- kinds of operators ---------------------------------------------------------------------------


def kind_of(operator: str, flops: int) -> Kind:
    """Return what kind of work an operator is, by its name as a trace has it: "aten.mm" is a matmul.

    Convolutions, attention and recurrent layers are matmuls as far as a roof is concerned. Softmax and normalisations
    are reductions. What is in no list is elementwise where it did arithmetic. Of a collective the floor knows only what
    it reads and writes in its own machine's memory: no link between ranks is in a ceiling.
    """
    if operator.startswith(("c10d.", "_c10d_functional.", "c10d_functional.")):
        return "collective"
    name = operator.removeprefix("aten.").removeprefix("_foreach_")
    name = name if name.endswith("__") else name.removesuffix("_")
    known = _KINDS.get(name)
    if known is not None:
        return known
    if any(word in name for word in ("attention", "convolution", "conv2d", "rnn", "lstm", "gru", "_mm")):
        return "matmul"
    return "elementwise" if flops else "other"


_LISTS: Mapping[Kind, str] = {
    "matmul": """
        mm bmm addmm addmv baddbmm addbmm mv addr linear _sparse_mm _int_mm _scaled_mm _addmm_activation
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
        scatter scatter_add scatter_reduce embedding _embedding_bag embedding_dense_backward masked_select
        masked_scatter nonzero sort topk
    """,
    "elementwise": "where masked_fill",
}
_KINDS: Mapping[str, Kind] = {name: kind for kind, names in _LISTS.items() for name in names.split()}
