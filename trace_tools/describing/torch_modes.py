"""Hide operators from the lecture's torch modes and profilers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import _pop_mode as _pop_function_mode
from torch.overrides import _push_mode as _push_function_mode
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _pop_mode, _push_mode

# They change the result: fake tensors stay fake, and a default device that the lecture has set stays set.
_KEPT = (DeviceContext, FakeTensorMode)


class Unprofiled:
    """Hides operators inside its block from profilers."""

    def __enter__(self) -> None:
        torch._C._autograd._enable_record_function(False)

    def __exit__(self, *raised: object) -> None:
        torch._C._autograd._enable_record_function(True)


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Run code of the lecture that only observation calls: inside `with FlopCounterMode():`, an inspected `y.sum()`
    is not counted.
    """
    removed: list[tuple[Any, Any, Any]] = []  # function that activates it again, function that removes it, mode
    try:
        for _ in range(torch._C._len_torch_function_stack()):
            removed.append((_push_function_mode, _pop_function_mode, _pop_function_mode()))  # type: ignore[no-untyped-call]
        for _ in range(torch._C._len_torch_dispatch_stack()):
            removed.append((_push_mode, _pop_mode, _pop_mode()))
        kept = [entry for entry in removed if isinstance(entry[2], _KEPT)]
        for push, _, mode in reversed(kept):
            push(mode)
        try:
            with Unprofiled():
                yield
        finally:
            for _, pop, _ in kept:
                pop()
    finally:
        for push, _, mode in reversed(removed):
            push(mode)
