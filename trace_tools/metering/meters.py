"""Meter operators: FLOPs, bytes read and written, live tensor bytes, and names of operators.

While it is on, a meter sees every operator in its thread through torch's dispatch mode, including autograd's backward
pass. It changes no result: composite operators are decomposed as they would be without it. Other threads are not
metered. Each operator costs about 10 µs.

    with Meter() as meter:
        y = x @ w
    meter.flops  # 2·m·k·n; bytes_read, bytes_written, live_bytes, operators likewise

The modules that compute the figures define them: `flops` (the convention), `operators` (bytes), `storages`.

- An operator without a formula is in `uncounted`, and adds 0 to `flops`, which is a lower bound then.
- Tensor subclasses and sparse tensors are followed to the plain tensors that they consist of. Meta and fake
  tensors count FLOPs but no bytes.
- Compiled functions run as the operators they were compiled from, because a mode can't look into a kernel. FLOPs stay
  valid, bytes would be those of the unfused code: `fused` counts such operators, and a reading with any has None as its
  bytes. (A backward pass of compiled code can't be recognised.) Around one call, torch's compiler is switched off
  (`torch.compiler.set_stance("force_eager")`). Around a whole lecture (`compiling`) it makes the same graphs, breaks
  and errors as without a meter, and runs inductor's graphs directly instead of making kernels.
- While torch records a graph (`graph_recording`), operators pass unmetered: those that compute are `uncounted`, those
  on fake tensors are no work.
- Operations between ranks are `collectives`, without FLOPs.
- Meters nest, also with `torch.utils.flop_counter.FlopCounterMode`; each counts all operators.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from sys import _getframe
from time import perf_counter  # imported now, because a lecture may replace it in `time`
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)

from trace_tools.metering import collectives
from trace_tools.metering.flops import FREE, Formula, formula, least_share
from trace_tools.metering.graph_recording import records_graph
from trace_tools.metering.operators import (
    Arguments,
    EagerMode,
    Keywords,
    Traffic,
    base_name,
    floating,
    is_view,
    memory_of,
    tensors_in,
)
from trace_tools.metering.storages import Storages
from trace_tools.trace.model import NOT_METERED, Work
from trace_tools.util.interpreter import OnceImported

_COND = getattr(torch.ops.higher_order, "cond", None)
_EVAL_FRAME = os.path.join("torch", "_dynamo", "eval_frame.py")
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "addbmm", "_addmm_activation", "_trilinear", "_euclidean_dist")
_CONVOLUTIONS = ("convolution", "_convolution", "convolution_backward")
_LAYERS = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
# Operators in which torch may round float32.
_ROUNDED = dict.fromkeys((*_PRODUCTS, *_LAYERS), "matmul") | dict.fromkeys(_CONVOLUTIONS, "conv")
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
NEARLY_ALL = 0.99  # of a step's FLOPs: a dtype with this share sets the step's roof


@dataclass(frozen=True, slots=True)
class Totals:
    """A meter's running totals at one moment, or the difference of two."""

    flops: int
    meta_flops: int  # of these, on tensors without memory
    bytes_read: int
    bytes_written: int
    live_bytes: int
    fused: int  # operators that ran inside compiled functions
    unmetered: int  # pauses of the meter, during which work is unknown
    operators: Counter[str]
    uncounted: Counter[str]
    flops_by_dtype: Counter[str]
    collectives: collectives.Counted
    work_flops: Counter[tuple[str, str | None]]  # by operator and dtype, as in `schema.Work`
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
        """Return the fields of `schema.Meters`, except the peak."""
        if self.unmetered:
            return {"operators": None, "why": NOT_METERED}
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
        kinds = sorted({*self.work_flops, *self.work_bytes}, key=lambda of: (-self.work_bytes[of], of[0], of[1] or ""))
        return [(*of, self.work_flops[of], self.work_bytes[of]) for of in kinds]


class Meter:
    """Counts the work of operators inside its `with` block.

    `device`, a type ("cpu", "cuda"), restricts live and peak bytes to one type of device; other figures cover all.
    `apart` separates waiting for other ranks from moving bytes to them (`collectives`): then all ranks must be metered.
    `compiling` leaves torch's compiler on.
    """

    def __init__(self, device: str | None = None, *, apart: bool = False, compiling: bool = False) -> None:
        self.apart = apart
        self.flops = 0
        self.meta_flops = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.fused = 0
        self.unmetered = 0
        self.operators: Counter[str] = Counter()
        self.uncounted: Counter[str] = Counter()
        self.flops_by_operator: Counter[str] = Counter()
        self.flops_by_dtype: Counter[str] = Counter()
        self.bytes_by_operator: Counter[str] = Counter()
        self.collectives: collectives.Counted = Counter()
        self.work_flops: Counter[tuple[str, str | None]] = Counter()
        self.work_bytes: Counter[tuple[str, str | None]] = Counter()
        self.device_operators = 0
        self.stopped = False
        self._device = device
        self._spent = 0.0
        self._storages = Storages(device)
        self._mode = _Mode(self)
        # older versions of torch never compile under a mode
        can_compile = hasattr(TorchDispatchMode, "ignore_compile_internals")
        self._compiler = _GraphsOfInductor() if compiling and can_compile else _ForceEager()

    def __enter__(self) -> Meter:
        self._compiler.__enter__()
        self._storages.begin()
        self._mode.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._mode.__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]
        self._compiler.__exit__(kind, error, traceback)
        self._storages.forget()

    @property
    def live_bytes(self) -> int:
        """Bytes of the live storages that operators have used."""
        return self._storages.live_bytes

    def take_peak(self) -> int:
        """Return the peak of live bytes since the previous call of this method (or the start)."""
        return self._storages.take_peak()

    def take_spent(self) -> float:
        """Return the seconds spent on counting since the previous call (or the start), as far as Python can measure
        them.
        """
        spent, self._spent = self._spent, 0.0
        return spent

    def reading(self) -> Totals:
        """Return the totals so far; `(later - earlier).plain()` is the work in between."""
        return Totals(
            self.flops,
            self.meta_flops,
            self.bytes_read,
            self.bytes_written,
            self.live_bytes,
            self.fused,
            self.unmetered,
            self.operators.copy(),
            self.uncounted.copy(),
            self.flops_by_dtype.copy(),
            self.collectives.copy(),
            self.work_flops.copy(),
            self.work_bytes.copy(),
            self.device_operators,
        )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run the tracer's own operators hidden from this meter and from any other mode in this thread."""
        with _disable_current_modes():
            yield

    def stop(self) -> bool:
        """Stop counting until `go_on`, without cost for operators; return whether this thread was being counted.

        Other modes stay on.
        """
        if not any(mode is self._mode for mode in _modes_on()):
            return False
        above = []
        while (mode := _pop_mode()) is not self._mode:
            above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)
        self.stopped = True
        return True

    def go_on(self) -> None:
        """Resume counting, below other active modes, as before `stop`."""
        self.stopped = False
        above = [_pop_mode() for _ in _modes_on()]
        _push_mode(self._mode)
        for mode in reversed(above):
            _push_mode(mode)

    def _count(self, operator: _Operator, args: Arguments, kwargs: Keywords, out: Any, *, computed: bool) -> str | None:
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
            touched = {tensor.device.type for tensor in (*(tensor for _, tensor in uses), *results)}
            self.device_operators += self._device in touched
        for _, tensor in uses:
            self._storages.see_argument(tensor)
        for tensor in results:
            self._storages.see_result(tensor)


class _WhileLoaded:
    """Changes a module of torch, now or once the lecture imports it, and reverts the change at the end."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._changed = False
        self._loaded = OnceImported(module, self._change_it)

    def __enter__(self) -> None:
        if self._module in sys.modules:
            self._change_it()
        else:
            self._loaded.begin()

    def __exit__(self, *error: object) -> None:
        self._loaded.end()
        if self._changed:
            self.change_back()

    def _change_it(self) -> None:
        self._loaded.end()
        self._changed = True
        self.change()

    def change(self) -> None:
        raise NotImplementedError

    def change_back(self) -> None:
        raise NotImplementedError


class _ForceEager(_WhileLoaded):
    """Switches torch's compiler off once it is loaded.

    Loading the compiler takes more than a second, which a lecture that compiles nothing should not wait for, least of
    all in the step that it counts; and an import keeps its caller's frames alive. So if the compiler is not loaded,
    this waits for another import of it. With nested meters, the outermost acts first.
    """

    def __init__(self) -> None:
        super().__init__("torch._dynamo")
        self._stance: Any = None

    def change(self) -> None:
        self._stance = torch.compiler.set_stance("force_eager")
        self._stance.__enter__()

    def change_back(self) -> None:
        self._stance.__exit__(None, None, None)


class _GraphsOfInductor(_WhileLoaded):
    """Runs graphs directly instead of letting inductor make kernels of them, because a mode sees no kernel."""

    def __init__(self) -> None:
        super().__init__("torch._inductor.compile_fx")
        self._compile_fx: Any = None

    def change(self) -> None:
        module = sys.modules[self._module]
        compile_fx = self._compile_fx = module.compile_fx

        @functools.wraps(compile_fx)
        def graph_as_it_is(graph: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if args or "inner_compile" in kwargs:  # the code is written to a file, not run
                return compile_fx(graph, inputs, *args, **kwargs)
            return graph.forward

        module.compile_fx = graph_as_it_is  # type: ignore[attr-defined]

    def change_back(self) -> None:
        sys.modules[self._module].compile_fx = self._compile_fx  # type: ignore[attr-defined]


class _Operator:
    """The meter's knowledge of one operator before its call."""

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
            and not any(has_kernel(name, key) for key in ("CPU", "CUDA", "XPU", "MPS"))
        )
        arguments = [] if schema is None else schema.arguments
        accepts_numbers = torch._C._should_allow_numbers_as_tensors(self.name.rpartition(".")[2])
        self.takes_tensor = [
            at for at, one in enumerate(arguments) if str(one.type) == "Tensor" and not accepts_numbers
        ]
        self._rounded = _ROUNDED.get(base_name(operator) or "")
        self._least_share = least_share(operator)

    def ends_early(self, out: Any) -> bool:
        """Return whether the operator may have read its first elements only."""
        return self.name == "aten.equal" and out is False

    def needed(self, flops: int, args: Arguments, kwargs: Keywords, out: Any) -> int:
        """Return how many of the counted FLOPs every program needs."""
        return flops if self._least_share is None else int(flops * self._least_share(args, kwargs, out))

    def precision(self, dtype: str) -> str:
        """Return the format in which torch's settings let a float32 product compute; for other dtypes, the dtype.

        This is "tf32" if a GPU would use it, "tf32_or_bfloat16" if a CPU would use bfloat16.
        """
        if dtype != "float32" or self._rounded is None:
            return dtype
        allowed = _allowed(self._rounded)
        return "tf32_or_bfloat16" if "bf16" in allowed else "tf32" if "tf32" in allowed else dtype


class _Mode(EagerMode):
    """Passes each operator to the meter after running it."""

    supports_higher_order_operators = True

    def __init__(self, meter: Meter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._meter = meter
        self._known: dict[Any, _Operator] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let dynamo compile while this mode is on."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Arguments = (), kwargs: Keywords | None = None) -> Any:
        began = perf_counter()
        keywords = kwargs or {}
        if records_graph():
            return self._let_by(func, types, args, keywords)
        fake = False
        for kind in types:
            if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
                if not hasattr(kind, "_mode_key"):
                    if _others_below():  # modes below come first, and see the operator unchanged
                        return self._let_by(func, types, args, keywords)
                    return NotImplemented  # a subclass decomposes itself; its parts return here
                fake = True
        if fake and any(map(_is_symbolic, tensors_in([*args, *keywords.values()]))):
            return func(*args, **keywords)  # reading a size as a number would fix it
        operator = self._known.get(func)
        if operator is None:
            if getattr(func, "namespace", None) in ("profiler", "prim"):
                return func(*args, **keywords)
            operator = self._known[func] = _Operator(func)
        if operator.composite and _can_be_taken_apart(args, keywords):
            with self:
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **keywords)
        if func is _COND and not fake:
            chosen, if_true, if_false, *operands = args
            with self:  # `torch.cond` runs this branch: count its operators
                return (if_true if chosen else if_false)(*(operands[0] if operands else ()))
        call = collectives.collective(func, args, keywords) if operator.between_ranks else None
        self._meter._spent += perf_counter() - began
        if call is None:
            out = func(*_given_back(operator, args), **keywords)
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
        except Exception:  # a lecture may have replaced a tensor method that is called here
            self._meter.uncounted[operator.name] += 1
        self._meter.fused += fused
        self._meter._spent += perf_counter() - began
        return out

    def _let_by(self, func: Any, types: Any, args: Arguments, keywords: Keywords) -> Any:
        """Run an operator without reading its tensors; name it as uncounted if it does arithmetic."""
        keys = (torch._C._TorchDispatchModeKey.FAKE, torch._C._TorchDispatchModeKey.FUNCTIONAL)
        modes = any(torch._C._get_dispatch_mode(key) is not None for key in keys)
        of_fake_tensors = modes or any(hasattr(kind, "_mode_key") for kind in types)
        if not of_fake_tensors and hasattr(func, "_schema"):
            name = func._schema.name.replace("::", ".")
            self._meter.operators[name] += 1
            if not (base_name(func) in FREE or is_view(func)):
                self._meter.uncounted[name] += 1
        return func(*args, **keywords)


def _allowed(operator: str) -> set[str]:
    """Return the formats to which torch may round float32 in an operator, "matmul" or "conv": "tf32" on a GPU, "bf16"
    on a CPU.

    The newer of its two interfaces (`machines.float32_precision`) reports settings made through either.
    """
    if hasattr(torch._C, "_get_fp32_precision_getter"):
        return {torch._C._get_fp32_precision_getter(backend, operator) for backend in ("cuda", "mkldnn")}
    if operator == "conv":
        return {"tf32"} if torch.backends.cudnn.allow_tf32 else set()
    return {"high": {"tf32"}, "medium": {"tf32", "bf16"}}.get(torch.get_float32_matmul_precision(), set())


def _modes_on() -> list[TorchDispatchMode]:
    """Return the active modes of this thread, without torch's own for fake and functional tensors."""
    return [mode for mode in _get_current_dispatch_mode_stack() if getattr(mode, "_mode_key", None) is None]


def _others_below() -> bool:
    """Return whether a mode other than a meter's is active below the running mode."""
    below = range(torch._C._len_torch_dispatch_stack())
    return any(type(torch._C._get_dispatch_stack_at(at)) is not _Mode for at in below)


def _can_be_taken_apart(args: Arguments, keywords: Keywords) -> bool:
    """Return whether a composite operator gives the same results on these arguments when it is decomposed.

    Nested and quantised tensors, and those of classes with a dispatch of their own, may have a kernel for it.
    """
    return not _others_below() and all(
        tensor.layout is torch.strided
        and not (tensor.is_nested or tensor.is_quantized)
        and type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
        for tensor in tensors_in([*args, *keywords.values()])
    )


def _given_back(operator: _Operator, args: Arguments) -> Arguments:
    """Return the arguments with tensors wherever the operator accepts only tensors.

    TorchScript passes tensors that represent a number, and torch shows them to Python as that number.
    """
    if not any(type(args[at]) in _NUMBERS for at in operator.takes_tensor if at < len(args)):
        return args
    return tuple(
        torch.scalar_tensor(value, dtype=_NUMBERS[type(value)])
        if at in operator.takes_tensor and type(value) in _NUMBERS
        else value
        for at, value in enumerate(args)
    )


def _is_symbolic(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is fake and may have symbolic sizes."""
    return getattr(getattr(tensor, "fake_mode", None), "shape_env", None) is not None


def _is_fake(out: Any) -> bool:
    return type(out) is not torch.Tensor and any(hasattr(type(tensor), "_mode_key") for tensor in tensors_in(out))


def _in_compiled_function() -> bool:
    """Return whether a function made by `torch.compile` is being called."""
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    compiled = getattr(compiler, "always_optimize_code_objects", None)
    if compiler is None or not getattr(compiled, "values", True):
        return False  # the compiler was never used
    frame: FrameType | None = _getframe()  # the last frame in a C++ thread
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(_EVAL_FRAME) and code.co_qualname.startswith("_TorchDynamoContext.__call__"):
            return True
        frame = frame.f_back
    return False
