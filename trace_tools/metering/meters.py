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
  valid, but bytes would be those of the unfused code. `fused` counts such operators, and a reading that includes any
  of them has None as its bytes. (A backward pass of compiled code can't be recognised.) Around one call, torch's
  compiler is switched off (`torch.compiler.set_stance("force_eager")`). Around a whole lecture (`compiling`) it makes
  the same graphs, breaks and errors as without a meter, and runs inductor's graphs directly instead of making kernels.
- While torch records a graph (`records_graph`), operators pass unmetered: those that compute are `uncounted`, those
  on fake tensors are no work.
- Operations between ranks are `collectives`, without FLOPs.
- Meters nest, also with `torch.utils.flop_counter.FlopCounterMode`; each counts all operators.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from sys import _getframe
from time import perf_counter  # imported now, because a lecture may replace it in `time`
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
)

from trace_tools.metering import collectives
from trace_tools.metering.compiling import ForceEager, GraphsOfInductor, records_graph
from trace_tools.metering.counts import Counts, Operator, Totals
from trace_tools.metering.flops import FREE
from trace_tools.metering.operators import Arguments, EagerMode, Keywords, base_name, is_view, tensors_in
from trace_tools.metering.storages import Storages

_COND = getattr(torch.ops.higher_order, "cond", None)
_EVAL_FRAME = os.path.join("torch", "_dynamo", "eval_frame.py")
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


class Meter(Counts):
    """Counts the work of operators inside its `with` block.

    `device`, a type ("cpu", "cuda"), restricts live and peak bytes to one type of device; other figures cover all.
    `compiling` leaves torch's compiler on.
    """

    def __init__(self, device: str | None = None, *, compiling: bool = False) -> None:
        super().__init__(Storages(device))
        self._mode = _Mode(self)
        # older versions of torch never compile under a mode
        can_compile = hasattr(TorchDispatchMode, "ignore_compile_internals")
        self._compiler = GraphsOfInductor() if compiling and can_compile else ForceEager()

    def __enter__(self) -> Meter:
        self._compiler.__enter__()
        self.storages.begin()
        self._mode.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._mode.__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]
        self._compiler.__exit__(kind, error, traceback)
        self.storages.forget()

    @property
    def live_bytes(self) -> int:
        """Bytes of the live storages that operators have used."""
        return self.storages.live_bytes

    def take_peak(self) -> int:
        """Return the peak of live bytes since the previous call of this method (or the start)."""
        return self.storages.take_peak()

    def take_spent(self) -> float:
        """Return the seconds spent on counting since the previous call (or the start), as far as Python can measure
        them.
        """
        spent, self._mode.spent_s = self._mode.spent_s, 0.0
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


class _Mode(EagerMode):
    """Passes each operator to the meter after running it."""

    supports_higher_order_operators = True

    def __init__(self, meter: Meter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._meter = meter
        self.spent_s = 0.0  # on counting
        self._operators: dict[Any, Operator] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let dynamo compile while this mode is on."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Arguments = (), kwargs: Keywords | None = None) -> Any:
        began = perf_counter()
        keywords = kwargs or {}
        if records_graph():
            return self._pass_unmetered(func, types, args, keywords)
        fake = False
        for kind in types:
            if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
                if not hasattr(kind, "_mode_key"):
                    if _is_other_mode_below():  # modes below come first, and see the operator unchanged
                        return self._pass_unmetered(func, types, args, keywords)
                    return NotImplemented  # a subclass decomposes itself; its parts return here
                fake = True
        if fake and any(map(_is_symbolic, tensors_in([*args, *keywords.values()]))):
            return func(*args, **keywords)  # reading a size as a number would fix it
        operator = self._operators.get(func)
        if operator is None:
            if getattr(func, "namespace", None) in ("profiler", "prim"):
                return func(*args, **keywords)
            operator = self._operators[func] = Operator(func)
        if operator.composite and _can_be_decomposed(args, keywords):
            with self:
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **keywords)
        if func is _COND and not fake:
            chosen, if_true, if_false, *operands = args
            with self:  # `torch.cond` runs this branch: count its operators
                return (if_true if chosen else if_false)(*(operands[0] if operands else ()))
        call = collectives.collective(func, args, keywords) if operator.between_ranks else None
        self.spent_s += perf_counter() - began
        if call is None:
            out = func(*_with_tensors(operator, args), **keywords)
        else:
            out = func(*args, **keywords)
            collectives.note(call, args, out, self._meter.collectives)
        began = perf_counter()
        fused = not hasattr(func, "_schema") or _in_compiled_function()
        try:
            computed = not fake and (
                type(out) is torch.Tensor or not any(hasattr(type(tensor), "_mode_key") for tensor in tensors_in(out))
            )
            dtype = self._meter.add_flops(operator, args, keywords, out, computed=computed)
            if computed:
                self._meter.add_bytes(operator, args, keywords, out, dtype, fused=fused)
        except Exception:  # a lecture may have replaced a tensor method that is called here
            self._meter.uncounted[operator.name] += 1
        self._meter.fused += fused
        self.spent_s += perf_counter() - began
        return out

    def _pass_unmetered(self, func: Any, types: Any, args: Arguments, keywords: Keywords) -> Any:
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


def _is_other_mode_below() -> bool:
    """Return whether a mode other than a meter's is active below the running mode."""
    depths = range(torch._C._len_torch_dispatch_stack())
    return any(type(torch._C._get_dispatch_stack_at(depth)) is not _Mode for depth in depths)


def _can_be_decomposed(args: Arguments, keywords: Keywords) -> bool:
    """Return whether a composite operator gives the same results on these arguments when it is decomposed.

    Nested and quantised tensors, and those of classes with a dispatch of their own, may have a kernel for it.
    """
    return not _is_other_mode_below() and all(
        tensor.layout is torch.strided
        and not (tensor.is_nested or tensor.is_quantized)
        and type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
        for tensor in tensors_in([*args, *keywords.values()])
    )


def _with_tensors(operator: Operator, args: Arguments) -> Arguments:
    """Return the arguments with tensors wherever the operator accepts only tensors.

    TorchScript passes tensors that represent a number, and torch shows them to Python as that number.
    """
    if not any(type(args[index]) in _NUMBERS for index in operator.takes_tensor if index < len(args)):
        return args
    return tuple(
        torch.scalar_tensor(value, dtype=_NUMBERS[type(value)])
        if index in operator.takes_tensor and type(value) in _NUMBERS
        else value
        for index, value in enumerate(args)
    )


def _is_symbolic(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is fake and may have symbolic sizes."""
    return getattr(getattr(tensor, "fake_mode", None), "shape_env", None) is not None


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
