"""Meter operators: FLOPs, bytes read and written, live tensor bytes, and names of operators.

While it is on, a meter sees every operator in its thread through torch's dispatch mode, including autograd's backward
pass. It changes no result: composite operators are decomposed as they would be without it. Other threads are not
metered. Each operator costs some 10 µs.

    with Meter() as meter:
        y = x @ w
    meter.totals.flops  # 2·m·k·n; bytes_read, bytes_written, operators likewise

The modules that compute the figures define them: `flops` (the convention), `operators` (bytes), `storages`.

- An operator without a formula is in `uncounted`, and adds 0 to `flops`, which is a lower bound then.
- Tensor subclasses are followed to the plain tensors that they consist of. Meta and fake tensors count FLOPs but no
  bytes. Sparse tensors are not followed: their operators are `uncounted`.
- Compiled functions run as the operators they were compiled from, because a mode can't look into a kernel. FLOPs stay
  valid, but the unfused code moves other bytes, so a reading with such operators (`fused`) has no bytes. (The backward
  pass of compiled code can't be recognised.) Around one call, torch's compiler is switched off. Around a whole
  lecture (`compiling`) it makes the same graphs, breaks and errors as without a meter, and runs inductor's graphs
  directly instead of making kernels.
- While torch records a graph (`records_graph`), operators pass unmetered. Operators that compute are `uncounted`, and
  operators on fake tensors are no work.
- Meters nest, also with `torch.utils.flop_counter.FlopCounterMode`; each counts all operators.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from trace_tools.metering import collectives
from trace_tools.metering.compiling import forced_eager, graphs_of_inductor, records_graph
from trace_tools.metering.flops import attended_share, formula_of, is_free
from trace_tools.metering.operators import EagerMode, Traffic, base_name, floating, memory_of, tensors_in
from trace_tools.metering.storages import Storages
from trace_tools.trace.model import Work

# Operators in which torch may round float32, and the setting that lets it.
_ROUNDED = dict.fromkeys(("mm", "bmm", "addmm", "baddbmm", "addbmm", "_addmm_activation"), "matmul")
_ROUNDED |= dict.fromkeys(("convolution", "_convolution", "convolution_backward"), "conv")
NEARLY_ALL = 0.99  # a dtype with this share of a step's FLOPs sets the step's roof
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
_EVAL_FRAME = os.path.join("torch", "_dynamo", "eval_frame.py")


@dataclass(slots=True)
class Totals:
    """A meter's running totals at one moment, or the difference of two."""

    bytes_read: int = 0
    bytes_written: int = 0
    live_bytes: int = 0
    meta_flops: int = 0  # FLOPs, included in `flops`, on tensors without memory
    fused: int = 0  # operators that ran inside compiled functions
    device_operators: int = 0  # operators that moved bytes of the meter's device
    operators: Counter[str] = field(default_factory=Counter)  # calls
    uncounted: Counter[str] = field(default_factory=Counter)
    flops_by: Counter[tuple[str, str]] = field(default_factory=Counter)  # by operator and dtype
    # By operator and the dtype that it may compute in, as in `Work`: the FLOPs that every program needs, and the bytes.
    work_flops: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    work_bytes: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    collectives: collectives.Traffic = field(default_factory=Counter)

    def __sub__(self, earlier: Totals) -> Totals:
        """Return the totals between `earlier` and this reading; live bytes are this reading's."""
        differences = {f.name: getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)}
        return Totals(**differences | {"live_bytes": self.live_bytes})

    @property
    def flops(self) -> int:
        return self.flops_by.total()

    @property
    def flops_by_operator(self) -> Counter[str]:
        return _summed(self.flops_by, 0)

    @property
    def dtype(self) -> str | None:
        """The dtype of at least 99% of the FLOPs, if a dtype has that share."""
        name, flops = max(_summed(self.flops_by, 1).items(), key=lambda item: item[1], default=("", 0))
        return name if flops and flops >= NEARLY_ALL * self.flops else None

    def plain(self) -> dict[str, Any]:
        """Return the fields of `Meters`, except the peak."""
        keys = {*self.work_flops, *self.work_bytes}
        most_bytes_first = sorted(keys, key=lambda key: (-self.work_bytes[key], key[0], key[1] or ""))
        work: list[Work] = [(*key, self.work_flops[key], self.work_bytes[key]) for key in most_bytes_first]
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
            "work": work,
            "why": "fused" if self.fused else None,
        }


def _summed(counts: Counter[Any], part: int) -> Counter[Any]:
    """Sum the counts over all keys that agree in one part."""
    summed: Counter[Any] = Counter()
    for key, number in counts.items():
        summed[key[part]] += number
    return summed


class _Operator:
    """The facts about one operator that a meter knows before its call."""

    __slots__ = ("attended", "between_ranks", "composite", "formula", "name", "rounded", "takes_tensor", "traffic")

    def __init__(self, operator: Any) -> None:
        schema = getattr(operator, "_schema", None)
        self.name: str = schema.name.replace("::", ".") if schema else f"higher_order.{operator.name()}"
        self.formula = formula_of(operator)
        self.traffic = Traffic(operator)
        self.between_ranks = getattr(operator, "namespace", None) in collectives.NAMESPACES
        # A pure composition of other operators (seen whole in inference mode, for example).
        name, has_kernel = operator.name(), torch._C._dispatch_has_kernel_for_dispatch_key
        self.composite = (
            schema is not None
            and bool(has_kernel(name, "CompositeImplicitAutograd"))
            and not any(has_kernel(name, key) for key in ("CPU", "CUDA"))
        )
        self.rounded = _ROUNDED.get(base_name(operator) or "")
        self.attended = attended_share(operator)
        accepts_numbers = torch._C._should_allow_numbers_as_tensors(self.name.rpartition(".")[2])
        arguments = schema.arguments if schema and not accepts_numbers else []
        self.takes_tensor = [str(argument.type) == "Tensor" for argument in arguments]

    def precision(self, dtype: str) -> str:
        """Return the format that torch's settings allow for a float32 product; for other dtypes, the dtype.

        This is "tf32" if a GPU would use it, "tf32_or_bfloat16" if a CPU would use bfloat16. The newer of torch's two
        interfaces (`machines.float32_precision`) reports settings made through either.
        """
        if dtype != "float32" or self.rounded is None:
            return dtype
        if hasattr(torch._C, "_get_fp32_precision_getter"):
            allowed = {torch._C._get_fp32_precision_getter(backend, self.rounded) for backend in ("cuda", "mkldnn")}
        elif self.rounded == "conv":
            allowed = {"tf32"} if torch.backends.cudnn.allow_tf32 else set()
        else:
            precisions = {"high": {"tf32"}, "medium": {"tf32", "bf16"}}
            allowed = precisions.get(torch.get_float32_matmul_precision(), set())
        return "tf32_or_bfloat16" if "bf16" in allowed else "tf32" if "tf32" in allowed else dtype


class Meter(EagerMode):
    """Counts the work of operators inside its `with` block.

    `device`, a type ("cpu", "cuda"), restricts live and peak bytes to one type of device; other figures cover all.
    `compiling` leaves torch's compiler on.
    """

    supports_higher_order_operators = True

    def __init__(self, device: str | None = None, *, compiling: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.totals = Totals()
        self.storages = Storages(device)
        self._operators: dict[Any, _Operator] = {}
        # older versions of torch never compile under a mode
        can_compile = hasattr(TorchDispatchMode, "ignore_compile_internals")
        self._compiler: Callable[[], Any] = graphs_of_inductor if compiling and can_compile else forced_eager
        self._stack = ExitStack()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let dynamo compile while this mode is on."""
        return True

    def __enter__(self) -> Meter:
        self._stack.enter_context(self._compiler())
        self.storages.begin()
        self._stack.callback(self.storages.forget)
        self._stack.enter_context(self._on())
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    @contextmanager
    def _on(self) -> Iterator[None]:
        """Receive the operators of this thread."""
        super().__enter__()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            super().__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def take_peak(self) -> int:
        """Return the peak of live bytes since the previous call of this method (or the start)."""
        return self.storages.take_peak()

    def reading(self) -> Totals:
        """Return the totals so far; `(later - earlier).plain()` is the work in between."""
        self.totals.live_bytes = self.storages.live_bytes
        now: dict[str, Any] = {f.name: getattr(self.totals, f.name) for f in fields(Totals)}
        now |= {name: figure.copy() for name, figure in now.items() if isinstance(figure, Counter)}
        return Totals(**now)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        if records_graph():
            return self._pass_unmetered(func, types, args, keywords)
        own_dispatch = [kind for kind in types if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__]
        fake = bool(own_dispatch)
        if not all(hasattr(kind, "_mode_key") for kind in own_dispatch):
            if _is_other_mode_below():  # modes below come first, and see the operator unchanged
                return self._pass_unmetered(func, types, args, keywords)
            return NotImplemented  # a subclass decomposes itself; its parts return here
        inputs = tensors_in([*args, *keywords.values()]) if fake else []
        if any(getattr(getattr(tensor, "fake_mode", None), "shape_env", None) for tensor in inputs):
            return func(*args, **keywords)  # its sizes may be symbols, and reading one as a number would fix it
        key = func, len(flop_registry)  # the lecture may register a formula
        operator = self._operators.get(key)
        if operator is None:
            if getattr(func, "namespace", None) in ("profiler", "prim"):
                return func(*args, **keywords)
            operator = self._operators[key] = _Operator(func)
        if operator.composite and _can_be_decomposed(args, keywords):
            with self._on():
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **keywords)
        out = func(*_with_tensors(args, operator.takes_tensor), **keywords)
        try:
            fused = not hasattr(func, "_schema") or _in_compiled_function()
            self.totals.fused += fused
            self.totals.operators[operator.name] += 1
            if operator.between_ranks:
                collectives.note(func, args, keywords, out, self.totals.collectives)
            self._count(operator, args, keywords, out, fake=fake, fused=fused)
        except Exception:  # a lecture may have replaced a tensor method that is called here
            self.totals.uncounted[operator.name] += 1
        return out

    def _count(self, operator: _Operator, args: Any, kwargs: Any, out: Any, *, fake: bool, fused: bool) -> None:
        """Add one call's FLOPs and bytes to the totals, and follow its memory."""
        totals, name, inputs, results = self.totals, operator.name, [*args, *kwargs.values()], tensors_in(out)
        tensors = [*tensors_in(inputs), *results]
        # An operator on fake tensors only determines the shape of its result, which is no work.
        computed = not fake and (
            type(out) is torch.Tensor or not any(hasattr(type(one), "_mode_key") for one in results)
        )
        flops: int | None = 0  # None if unknown
        if not operator.between_ranks:  # the additions of a reduction between ranks are not counted
            flops = None if any(map(floating, tensors)) else 0
            if operator.formula is not None and all(tensor.layout is torch.strided for tensor in tensors):
                with suppress(Exception):  # a formula may not know this form of the operator
                    flops = int(operator.formula(*args, **kwargs, out_val=out))
        dtype = None
        if flops is None:
            totals.uncounted[name] += 1
        elif flops:
            first = next(filter(floating, tensors), tensors[0])  # it computes in the dtype of the first floating tensor
            dtype = str(first.dtype).removeprefix("torch.")
            totals.flops_by[name, dtype] += flops
            dtype = operator.precision(dtype)
            if computed and not first.is_meta:
                needed = flops if operator.attended is None else int(flops * operator.attended(*args, **kwargs))
                totals.work_flops[name, dtype] += 0 if name == "aten.equal" and out is False else needed
            else:
                totals.meta_flops += flops
        if not computed:
            return
        used, made = memory_of(inputs), memory_of(out)
        read, written = operator.traffic.moved(args, kwargs, made)
        if (read or written) and not (name == "aten.equal" and out is False):  # it may have read one element only
            totals.bytes_read += read
            totals.bytes_written += written
            if not fused:
                totals.work_bytes[name, dtype] += read + written
            totals.device_operators += self.storages.device in {tensor.device.type for tensor in (*used, *made)}
        for tensor in used:
            self.storages.see_argument(tensor)
        for tensor in made:
            self.storages.see_result(tensor)

    def _pass_unmetered(self, func: Any, types: Any, args: Any, keywords: Any) -> Any:
        """Run an operator without reading its tensors; name it as uncounted if it does arithmetic."""
        keys = (torch._C._TorchDispatchModeKey.FAKE, torch._C._TorchDispatchModeKey.FUNCTIONAL)
        fake = any(map(torch._C._get_dispatch_mode, keys)) or any(hasattr(kind, "_mode_key") for kind in types)
        if not fake and hasattr(func, "_schema"):
            name = func._schema.name.replace("::", ".")
            self.totals.operators[name] += 1
            if not is_free(func):
                self.totals.uncounted[name] += 1
        return func(*args, **keywords)


def _is_other_mode_below() -> bool:
    """Return whether a mode other than a meter is active below the running mode."""
    depths = range(torch._C._len_torch_dispatch_stack())
    return any(type(torch._C._get_dispatch_stack_at(depth)) is not Meter for depth in depths)


def _can_be_decomposed(args: Any, keywords: Any) -> bool:
    """Return whether a composite operator gives the same results on these arguments when it is decomposed.

    Nested and quantised tensors, and classes with a dispatch of their own, may have a kernel for it.
    """
    return not _is_other_mode_below() and all(
        tensor.layout is torch.strided
        and not (tensor.is_nested or tensor.is_quantized)
        and type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
        for tensor in tensors_in([*args, *keywords.values()])
    )


def _with_tensors(args: Any, takes_tensor: list[bool]) -> Any:
    """Return the arguments with tensors wherever the operator accepts only tensors.

    `torch.jit.trace` passes tensors that represent a number (a size), and torch shows them to Python as that number.
    """
    if not any(takes and type(value) in _NUMBERS for value, takes in zip(args, takes_tensor, strict=False)):
        return args
    return tuple(
        torch.scalar_tensor(value, dtype=_NUMBERS[type(value)]) if takes and type(value) in _NUMBERS else value
        for value, takes in zip(args, takes_tensor, strict=False)
    )


def _in_compiled_function() -> bool:
    """Return whether a function made by `torch.compile` is being called."""
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    compiled = getattr(compiler, "always_optimize_code_objects", None)
    if compiler is None or not getattr(compiled, "values", True):
        return False  # the compiler was never used
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(_EVAL_FRAME) and code.co_qualname.startswith("_TorchDynamoContext.__call__"):
            return True
        frame = frame.f_back
    return False


# --- memory over time -----------------------------------------------------------------------------


def bytes_alive(held: Iterable[torch.Tensor], *phases: Callable[[], object]) -> list[list[int]]:
    """Call each phase once, in order, and return for each the live bytes after each of its operators.

    The tensors in `held` count from the start, others from when an operator first makes or receives them. Memory that
    an operator frees shows after the next operator. Each list begins with the live bytes before its phase.
    """
    with Meter() as meter:
        for tensor in held:
            tensor.detach()  # an operator that shows the meter its memory
        alive = []
        for phase in phases:
            with _Readings(meter) as readings:
                phase()
            alive.append([*readings.live_bytes, meter.storages.live_bytes])
        return alive


class _Readings(EagerMode):
    """Reads a meter after each operator; entered after the meter, so it runs around it."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.meter, self.live_bytes = meter, [meter.storages.live_bytes]

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.live_bytes.append(self.meter.storages.live_bytes)
        return out
