"""What operators did: FLOPs, bytes read and written, tensor bytes alive, and which operators they were.

A meter sees every operator that runs in its thread while it is on, in autograd's backward pass too, by
torch's dispatch mode. It changes no result: composite operators are taken apart as they would have been.
Other threads are not metered. An operator costs about 10 µs.

    with Meter() as meter:
        y = x @ w
    meter.flops  # 2·m·k·n; bytes_read, bytes_written, live_bytes, operators likewise

What each figure means is said where it is computed: `flops` (the convention), `operators` (bytes), `storages`.

- An operator without a formula is in `uncounted`, and adds nothing to `flops`: they are a lower bound then.
- Tensor subclasses and sparse tensors are followed to the plain tensors they are made of. Meta and fake
  tensors count FLOPs but no bytes.
- Compiled functions run as the operators they were compiled from, since a mode can't look into a kernel;
  while metering, torch's compiler is told to stand aside (`torch.compiler.set_stance("force_eager")`). FLOPs
  hold, bytes would be those of the unfused code: `fused` counts such operators, and the bytes of a reading
  with any are None. (A backward pass of compiled code can't be told from another.)
- Operations between ranks are `collectives`, and no FLOPs.
- Meters nest, and with `torch.utils.flop_counter.FlopCounterMode`; each counts all.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from sys import _getframe
from time import perf_counter  # now: a lecture may put another in `time`
from types import TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from trace_tools.late_imports import OnceImported
from trace_tools.metering import collectives
from trace_tools.metering.flops import Formula, formula, least_share
from trace_tools.metering.operators import (
    Arguments,
    EagerMode,
    Keywords,
    Traffic,
    base_name,
    floating,
    memory_of,
    tensors_in,
)
from trace_tools.metering.storages import Storages
from trace_tools.schema import Work

_COND = getattr(torch.ops.higher_order, "cond", None)
_EVAL_FRAME = os.path.join("torch", "_dynamo", "eval_frame.py")
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "addbmm", "_addmm_activation")
_CONVOLUTIONS = ("convolution", "_convolution", "convolution_backward")
_ROUNDED = dict.fromkeys(_PRODUCTS, "matmul") | dict.fromkeys(_CONVOLUTIONS, "conv")  # in which torch may round float32
NEARLY_ALL = 0.99  # of a step's FLOPs, in one dtype: that one's peak is its roof


@dataclass(frozen=True, slots=True)
class Totals:
    """A meter's running totals at one moment, or the difference of two."""

    flops: int
    bytes_read: int
    bytes_written: int
    live_bytes: int
    fused: int  # operators that ran inside compiled functions
    operators: Counter[str]
    uncounted: Counter[str]
    flops_by_dtype: Counter[str]
    collectives: collectives.Counted
    work_flops: Counter[tuple[str, str | None]]  # by operator and dtype, as in `schema.Work`
    work_bytes: Counter[tuple[str, str | None]]

    def __sub__(self, earlier: Totals) -> Totals:
        """Return what happened between `earlier` and this reading; live bytes are this one's."""
        differences = {f.name: getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)}
        return Totals(**differences | {"live_bytes": self.live_bytes})

    @property
    def dtype(self) -> str | None:
        """The dtype in which at least 99% of the FLOPs were done; None where there is no such one."""
        name, flops = max(self.flops_by_dtype.items(), key=lambda item: item[1], default=("", 0))
        return name if flops and flops >= NEARLY_ALL * self.flops else None

    def plain(self) -> dict[str, Any]:
        """Return the fields of `schema.Meters`, but for the peak."""
        return {
            "flops": self.flops,
            "bytes_read": None if self.fused else self.bytes_read,
            "bytes_written": None if self.fused else self.bytes_written,
            "live_bytes": self.live_bytes,
            "operators": sorted(self.operators.items()),
            "uncounted": sorted(self.uncounted),
            "dtype": self.dtype,
            "collectives": collectives.in_plain(self.collectives),
            "work": self._work(),
            "why": "fused" if self.fused else None,
        }

    def _work(self) -> list[Work]:
        """Return what each operator did, those with the most bytes first."""
        kinds = sorted({*self.work_flops, *self.work_bytes}, key=lambda of: (-self.work_bytes[of], of[0], of[1] or ""))
        return [(*of, self.work_flops[of], self.work_bytes[of]) for of in kinds]


class Meter:
    """Counts what operators do inside its `with` block.

    `device`, a type ("cpu", "cuda"), restricts live and peak bytes to one type of device; other figures cover all.
    `apart` tells waiting for other ranks from moving bytes to them (`collectives`): all ranks have to be metered so.
    """

    def __init__(self, device: str | None = None, *, apart: bool = False) -> None:
        self.apart = apart
        self.flops = 0
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
        self._spent = 0.0
        self._storages = Storages(device)
        self._mode = _Mode(self)
        self._eager = _ForceEager()

    def __enter__(self) -> Meter:
        self._eager.__enter__()
        self._mode.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._mode.__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]
        self._eager.__exit__(kind, error, traceback)
        self._storages.forget()

    @property
    def live_bytes(self) -> int:
        """Bytes of the storages alive, as far as operators have shown them."""
        return self._storages.live_bytes

    def take_peak(self) -> int:
        """Return the most live bytes at once since this was last asked (or the start)."""
        return self._storages.take_peak()

    def take_spent(self) -> float:
        """Return the seconds spent on counting since this was last asked (or the start), as far as Python sees them."""
        spent, self._spent = self._spent, 0.0
        return spent

    def reading(self) -> Totals:
        """Return the totals so far; `(later - earlier).plain()` is what happened in between."""
        return Totals(
            self.flops,
            self.bytes_read,
            self.bytes_written,
            self.live_bytes,
            self.fused,
            self.operators.copy(),
            self.uncounted.copy(),
            self.flops_by_dtype.copy(),
            self.collectives.copy(),
            self.work_flops.copy(),
            self.work_bytes.copy(),
        )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run the tracer's own operators unseen, by this meter and any other mode in this thread."""
        with _disable_current_modes():
            yield

    def _count(self, operator: _Operator, args: Arguments, kwargs: Keywords, out: Any, *, computed: bool) -> str | None:
        """Count an operator and its FLOPs; return the dtype in which it did them, None where it did none.

        What was not `computed` was only asked for its shape: it is no work.
        """
        name = operator.name
        self.operators[name] += 1
        flops: int | None = None  # where nobody knows
        if operator.between_ranks:  # the additions of a reduction are left to whoever does them
            flops = 0
        elif operator.formula is None:
            flops = None if any(map(floating, tensors_in([*args, *kwargs.values(), out]))) else 0
        else:
            with suppress(Exception):  # a formula that does not know this form of the operator stops no lecture
                flops = operator.formula(args, kwargs, out)
        if flops:
            tensors = tensors_in([*args, out])  # it computes in the dtype of the first floating one
            first = next(filter(floating, tensors), tensors[0] if tensors else None)
            self.flops += flops
            self.flops_by_operator[name] += flops
            dtype = "" if first is None else str(first.dtype).removeprefix("torch.")
            self.flops_by_dtype[dtype] += flops
            dtype = operator.precision(dtype)
            if computed and first is not None and not first.is_meta:
                self.work_flops[name, dtype] += operator.needed(flops, args, kwargs, out)
            return dtype
        if flops is None:
            self.uncounted[name] += 1
        return None

    def _move(
        self, operator: _Operator, args: Arguments, kwargs: Keywords, out: Any, dtype: str | None, *, fused: bool
    ) -> None:
        uses, results = operator.traffic.uses(args, kwargs), memory_of(out)
        read, written = (0, 0) if operator.ends_early(out) else operator.traffic.moved(uses, results, args)
        if read or written:
            self.bytes_read += read
            self.bytes_written += written
            self.bytes_by_operator[operator.name] += read + written
            if not fused:
                self.work_bytes[operator.name, dtype] += read + written
        for _, tensor in uses:
            self._storages.see_argument(tensor)
        for tensor in results:
            self._storages.see_result(tensor)


class _ForceEager:
    """Tells torch's compiler to stand aside, once it is there.

    Loading it takes more than a second, which a lecture that compiles nothing should not wait for, least of all in the
    step in which it counts; and an import keeps the frames alive that it stands in. So where it is not loaded, this
    waits for others to import it. Where meters nest, the outermost speaks up first.
    """

    def __init__(self) -> None:
        self._stance: Any = None
        self._loaded = OnceImported("torch._dynamo", self._speak_up)

    def __enter__(self) -> None:
        if "torch._dynamo" in sys.modules:
            self._speak_up()
        else:
            self._loaded.begin()

    def __exit__(self, *error: object) -> None:
        self._loaded.end()
        if self._stance is not None:
            self._stance.__exit__(*error)

    def _speak_up(self) -> None:
        self._loaded.end()
        self._stance = torch.compiler.set_stance("force_eager")
        self._stance.__enter__()


class _Operator:
    """What the meter knows of one operator before it is called."""

    __slots__ = ("_least_share", "_rounded", "between_ranks", "composite", "formula", "name", "traffic")

    def __init__(self, operator: Any) -> None:
        schema = getattr(operator, "_schema", None)
        self.name: str = schema.name.replace("::", ".") if schema else f"higher_order.{operator.name()}"
        self.formula: Formula | None = formula(operator)
        self.traffic = Traffic(operator)
        self.between_ranks = getattr(operator, "namespace", None) in collectives.NAMESPACES
        # Only made of others (seen whole in inference mode, for one).
        name, has_kernel = operator.name(), torch._C._dispatch_has_kernel_for_dispatch_key
        self.composite = (
            schema is not None
            and bool(has_kernel(name, "CompositeImplicitAutograd"))
            and not any(has_kernel(name, key) for key in ("CPU", "CUDA", "XPU", "MPS"))
        )
        self._rounded = _ROUNDED.get(base_name(operator) or "")
        self._least_share = least_share(operator)

    def ends_early(self, out: Any) -> bool:
        """Return whether it may have looked at the first elements only."""
        return self.name == "aten.equal" and out is False

    def needed(self, flops: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
        """Return how many of the FLOPs that were counted no program can leave out."""
        return flops if self._least_share is None else int(flops * self._least_share(args, kwargs, out))

    def precision(self, dtype: str) -> str:
        """Return what a float32 product may be computed in, by torch's settings now; of all others their dtype.

        That is "tf32" where a GPU would, "tf32_or_bfloat16" where a CPU would in bfloat16.
        """
        if dtype != "float32" or self._rounded is None:
            return dtype
        allowed = _allowed(self._rounded)
        return "tf32_or_bfloat16" if "bf16" in allowed else "tf32" if "tf32" in allowed else dtype


class _Mode(EagerMode):
    """Hands each operator to the meter after running it."""

    supports_higher_order_operators = True

    def __init__(self, meter: Meter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        _let_higher_order_operators_through()
        self._meter = meter
        self._known: dict[Any, _Operator] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Arguments = (), kwargs: Keywords | None = None) -> Any:
        began = perf_counter()
        keywords = kwargs or {}
        fake = False
        for kind in types:
            if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
                if not hasattr(kind, "_mode_key"):  # a subclass takes itself apart; its parts come by here
                    return NotImplemented
                fake = True
        operator = self._known.get(func)
        if operator is None:
            if getattr(func, "namespace", None) in ("profiler", "prim"):
                return func(*args, **keywords)
            operator = self._known[func] = _Operator(func)
        if operator.composite:
            with self:
                return func.decompose(*args, **keywords)
        if func is _COND and not fake:
            chosen, if_true, if_false, *operands = args
            with self:  # the branch that `torch.cond` runs, as the operators it is made of
                return (if_true if chosen else if_false)(*(operands[0] if operands else ()))
        call = collectives.collective(func, args, keywords) if operator.between_ranks else None
        self._meter._spent += perf_counter() - began
        if call is None:
            out = func(*args, **keywords)
        else:
            counted, apart = self._meter.collectives, self._meter.apart
            out = collectives.run(call, lambda: func(*args, **keywords), counted, apart=apart)
        began = perf_counter()
        fused = not hasattr(func, "_schema") or _in_compiled_function()
        try:
            computed = not fake and not _is_fake(out)
            dtype = self._meter._count(operator, args, keywords, out, computed=computed)
            if computed:
                self._meter._move(operator, args, keywords, out, dtype, fused=fused)
        except Exception:  # a lecture may have put its own in the place of what a tensor is asked here
            self._meter.uncounted[operator.name] += 1
        self._meter.fused += fused
        self._meter._spent += perf_counter() - began
        return out


def _allowed(operator: str) -> set[str]:
    """Return what torch may round float32 to in an operator, "matmul" or "conv": "tf32" on a GPU, "bf16" on a CPU.

    The newer of its two interfaces (`machines.float32_precision`) tells what was set through either.
    """
    if hasattr(torch._C, "_get_fp32_precision_getter"):
        return {torch._C._get_fp32_precision_getter(backend, operator) for backend in ("cuda", "mkldnn")}
    if operator == "conv":
        return {"tf32"} if torch.backends.cudnn.allow_tf32 else set()
    return {"high": {"tf32"}, "medium": {"tf32", "bf16"}}.get(torch.get_float32_matmul_precision(), set())


def _let_higher_order_operators_through() -> None:
    """Before `supports_higher_order_operators` (torch 2.6), each wants to be told how to run under a mode."""
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return
    for operator in torch._ops._higher_order_ops.values():
        if _Mode not in operator.python_key_table:
            operator.py_impl(_Mode)(
                lambda mode, *args, _operator=operator, **kwargs: mode.__torch_dispatch__(_operator, (), args, kwargs)
            )


def _is_fake(out: Any) -> bool:
    return type(out) is not torch.Tensor and any(hasattr(type(tensor), "_mode_key") for tensor in tensors_in(out))


def _in_compiled_function() -> bool:
    """Return whether a function that `torch.compile` made is being called."""
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    compiled = getattr(compiler, "always_optimize_code_objects", None)
    if compiler is None or not getattr(compiled, "values", True):
        return False  # nothing was ever compiled
    frame = _getframe(2)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(_EVAL_FRAME) and code.co_qualname.startswith("_TorchDynamoContext.__call__"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
