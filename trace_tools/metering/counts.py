"""Add up the work of operators: their FLOPs and bytes, by operator and by dtype.

counts = Counts(Storages())
dtype = counts.add_flops(Operator(torch.ops.aten.mm.default), (x, w), {}, y, computed=True)  # "float32"
counts.flops  # 2·m·k·n
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import torch

from trace_tools.metering import collectives
from trace_tools.metering.flops import Formula, formula, least_share
from trace_tools.metering.operators import Arguments, Keywords, Traffic, base_name, floating, memory_of, tensors_in
from trace_tools.metering.storages import Storages
from trace_tools.trace.model import Work

_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "addbmm", "_addmm_activation", "_trilinear", "_euclidean_dist")
_CONVOLUTIONS = ("convolution", "_convolution", "convolution_backward")
_LAYERS = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
# Operators in which torch may round float32.
_ROUNDED = dict.fromkeys((*_PRODUCTS, *_LAYERS), "matmul") | dict.fromkeys(_CONVOLUTIONS, "conv")
NEARLY_ALL = 0.99  # a dtype with this share of a step's FLOPs sets the step's roof


@dataclass(frozen=True, slots=True)
class Totals:
    """A meter's running totals at one moment, or the difference of two."""

    flops: int
    meta_flops: int  # FLOPs, included in `flops`, on tensors without memory
    bytes_read: int
    bytes_written: int
    live_bytes: int
    fused: int  # operators that ran inside compiled functions
    operators: Counter[str]
    uncounted: Counter[str]
    flops_by_dtype: Counter[str]
    collectives: collectives.Counted
    work_flops: Counter[tuple[str, str | None]]  # by operator and dtype, as in `Work`
    work_bytes: Counter[tuple[str, str | None]]
    device_operators: int  # operators that moved bytes of the meter's device

    def __sub__(self, earlier: Totals) -> Totals:
        """Return the totals between `earlier` and this reading; live bytes are those of this reading."""
        differences = {f.name: getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)}
        return Totals(**differences | {"live_bytes": self.live_bytes})

    @property
    def dtype(self) -> str | None:
        """The dtype of at least 99% of the FLOPs; None if no dtype has that share."""
        name, flops = max(self.flops_by_dtype.items(), key=lambda item: item[1], default=("", 0))
        return name if flops and flops >= NEARLY_ALL * self.flops else None

    def plain(self) -> dict[str, Any]:
        """Return the fields of `Meters`, except the peak."""
        return {
            "flops": self.flops,
            "bytes_read": None if self.fused else self.bytes_read,
            "bytes_written": None if self.fused else self.bytes_written,
            "live_bytes": self.live_bytes,
            "operators": sorted(self.operators.items()),
            "uncounted": sorted(self.uncounted),
            "meta_flops": self.meta_flops or None,
            "dtype": self.dtype,
            "device_operators": self.device_operators or None,
            "collectives": collectives.in_plain(self.collectives),
            "work": self._work(),
            "why": "fused" if self.fused else None,
        }

    def _work(self) -> list[Work]:
        """Return the work of each operator, most bytes first."""
        keys = sorted(
            {*self.work_flops, *self.work_bytes}, key=lambda key: (-self.work_bytes[key], key[0], key[1] or "")
        )
        return [(*key, self.work_flops[key], self.work_bytes[key]) for key in keys]


class Operator:
    """The facts about one operator that a meter knows before its call."""

    __slots__ = ("_least_share", "_rounded", "between_ranks", "composite", "formula", "name", "takes_tensor", "traffic")

    def __init__(self, operator: Any) -> None:
        schema = getattr(operator, "_schema", None)
        self.name: str = schema.name.replace("::", ".") if schema else f"higher_order.{operator.name()}"
        self.formula: Formula | None = formula(operator)
        self.traffic = Traffic(operator)
        self.between_ranks = getattr(operator, "namespace", None) in collectives.NAMESPACES
        # A pure composition of other operators (seen whole in inference mode, for example).
        name, has_kernel = operator.name(), torch._C._dispatch_has_kernel_for_dispatch_key
        self.composite = (
            schema is not None
            and bool(has_kernel(name, "CompositeImplicitAutograd"))
            and not any(has_kernel(name, key) for key in ("CPU", "CUDA"))
        )
        arguments = [] if schema is None else schema.arguments
        accepts_numbers = torch._C._should_allow_numbers_as_tensors(self.name.rpartition(".")[2])
        self.takes_tensor = [
            index for index, a in enumerate(arguments) if str(a.type) == "Tensor" and not accepts_numbers
        ]
        self._rounded = _ROUNDED.get(base_name(operator) or "")  # "matmul", "conv" or None
        self._least_share = least_share(operator)

    def ends_early(self, out: Any) -> bool:
        """Return whether the operator may have read its first elements only."""
        return self.name == "aten.equal" and out is False

    def needed(self, flops: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
        """Return how many of the counted FLOPs every program needs."""
        return flops if self._least_share is None else int(flops * self._least_share(args, kwargs, out))

    def precision(self, dtype: str) -> str:
        """Return the format in which torch's settings let a float32 product compute; for other dtypes, the dtype.

        This is "tf32" if a GPU would use it, "tf32_or_bfloat16" if a CPU would use bfloat16. The newer of torch's two
        interfaces (`machines.float32_precision`) reports settings made through either.
        """
        if dtype != "float32" or self._rounded is None:
            return dtype
        if hasattr(torch._C, "_get_fp32_precision_getter"):
            allowed = {torch._C._get_fp32_precision_getter(backend, self._rounded) for backend in ("cuda", "mkldnn")}
        elif self._rounded == "conv":
            allowed = {"tf32"} if torch.backends.cudnn.allow_tf32 else set()
        else:
            precisions = {"high": {"tf32"}, "medium": {"tf32", "bf16"}}
            allowed = precisions.get(torch.get_float32_matmul_precision(), set())
        return "tf32_or_bfloat16" if "bf16" in allowed else "tf32" if "tf32" in allowed else dtype


class Counts:
    """The work of all operators so far; `storages` follows the memory that they use."""

    def __init__(self, storages: Storages) -> None:
        self.storages = storages
        self.flops = 0
        self.meta_flops = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.fused = 0
        self.operators: Counter[str] = Counter()
        self.uncounted: Counter[str] = Counter()
        self.flops_by_operator: Counter[str] = Counter()
        self.flops_by_dtype: Counter[str] = Counter()
        self.bytes_by_operator: Counter[str] = Counter()
        self.collectives: collectives.Counted = Counter()
        self.work_flops: Counter[tuple[str, str | None]] = Counter()
        self.work_bytes: Counter[tuple[str, str | None]] = Counter()
        self.device_operators = 0

    def add_flops(
        self, operator: Operator, args: Arguments, kwargs: Keywords, out: Any, *, computed: bool
    ) -> str | None:
        """Count an operator and its FLOPs; return their dtype, or None without FLOPs.

        An operator that was not `computed` only determined its shape, which is no work.
        """
        name = operator.name
        self.operators[name] += 1
        flops: int | None = None  # None if unknown
        if operator.between_ranks:  # without the additions of a reduction
            flops = 0
        elif operator.formula is None:
            flops = None if any(map(floating, tensors_in([*args, *kwargs.values(), out]))) else 0
        else:
            with suppress(Exception):  # a formula that fails on this form of the operator must not stop a lecture
                flops = operator.formula(args, kwargs, out)
        if flops:
            tensors = tensors_in([*args, out])  # it computes in the dtype of the first floating tensor
            first = next(filter(floating, tensors), tensors[0] if tensors else None)
            self.flops += flops
            self.flops_by_operator[name] += flops
            dtype = "" if first is None else str(first.dtype).removeprefix("torch.")
            self.flops_by_dtype[dtype] += flops
            dtype = operator.precision(dtype)
            if computed and first is not None and not first.is_meta:
                self.work_flops[name, dtype] += operator.needed(flops, args, kwargs, out)
            else:
                self.meta_flops += flops
            return dtype
        if flops is None:
            self.uncounted[name] += 1
        return None

    def add_bytes(
        self, operator: Operator, args: Arguments, kwargs: Keywords, out: Any, dtype: str | None, *, fused: bool
    ) -> None:
        """Count the bytes that an operator moved, and follow its memory; `dtype` is the result of `add_flops`."""
        uses, results = operator.traffic.uses(args, kwargs), memory_of(out)
        read, written = (0, 0) if operator.ends_early(out) else operator.traffic.moved(uses, results, args)
        if read or written:
            self.bytes_read += read
            self.bytes_written += written
            self.bytes_by_operator[operator.name] += read + written
            if not fused:
                self.work_bytes[operator.name, dtype] += read + written
            touched = {tensor.device.type for tensor in (*(tensor for _, tensor in uses), *results)}
            self.device_operators += self.storages.device in touched
        for _, tensor in uses:
            self.storages.see_argument(tensor)
        for tensor in results:
            self.storages.see_result(tensor)
