"""Follow the storages of the tensors that operators use, and sum their live and peak bytes.

A storage counts once, however many views it has. It counts from the operator that allocates it (or the first operator
that receives it, if it was made before or outside) until Python or autograd releases its last tensor. Memory that torch
only borrows counts 0: NumPy arrays, buffers, memory maps, files being loaded. So the sums are a lower bound of the
memory of the process or the device, without workspaces inside operators.

    storages = Storages()
    storages.see_result(torch.empty(1000))  # live_bytes: 4000 for as long as the tensor is referenced
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch


class _Alive(weakref.ref[torch.UntypedStorage]):
    """A live storage; torch keeps its Python object for as long as the C++ one lives."""

    __slots__ = ("address", "followed", "nbytes")
    address: int
    followed: bool  # its bytes count: it is on the requested device, and torch has not borrowed them
    nbytes: int


class Storages:
    """The live storages on one type of device ("cpu", "cuda"), or on all, and their bytes."""

    def __init__(self, device: str | None = None) -> None:
        self.live_bytes = 0
        self.peak_bytes = 0
        self.device = device
        self._alive: dict[int, _Alive] = {}  # by address in C++

    def begin(self) -> None:
        """From now on, detect direct resizes of a storage, as in FSDP, which no operator shows."""
        if not _following:
            torch.UntypedStorage.resize_ = _resize_and_see  # type: ignore[method-assign, assignment]
        _following.append(self)

    def see_argument(self, tensor: torch.Tensor) -> None:
        """Record a strided tensor that an operator received."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._alive:
            self._watch(storage, borrowed=not storage.resizable())

    def see_result(self, tensor: torch.Tensor) -> None:
        """Record a strided tensor that an operator returned: memory that it allocated, resized or received."""
        storage = tensor.untyped_storage()
        if storage._cdata in self._alive:
            self.see_size(storage)
        else:
            self._watch(storage, borrowed=False)

    def see_size(self, storage: torch.UntypedStorage) -> None:
        """Record the current size of a storage, if it is followed."""
        alive = self._alive.get(storage._cdata)
        if alive is not None and alive.followed and storage.nbytes() != alive.nbytes:
            self._count(storage.nbytes() - alive.nbytes)
            alive.nbytes = storage.nbytes()

    def take_peak(self) -> int:
        """Return the peak of live bytes since the previous call."""
        peak, self.peak_bytes = self.peak_bytes, self.live_bytes
        return peak

    def forget(self) -> None:
        """Stop following, and keep the figures."""
        self._alive.clear()
        _following.remove(self)
        if not _following:
            del torch.UntypedStorage.resize_  # uncovers the inherited method again

    def _watch(self, storage: torch.UntypedStorage, *, borrowed: bool) -> None:
        device = storage.device.type
        alive = _Alive(storage, self._died)
        alive.address = storage._cdata
        alive.followed = not borrowed and (device == self.device if self.device else device != "meta")
        alive.nbytes = storage.nbytes() if alive.followed else 0
        self._alive[alive.address] = alive
        self._count(alive.nbytes)

    def _count(self, nbytes: int) -> None:
        self.live_bytes += nbytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _died(self, alive: weakref.ref[torch.UntypedStorage]) -> None:
        assert isinstance(alive, _Alive)
        if self._alive.pop(alive.address, None) is not None:
            self.live_bytes -= alive.nbytes


_following: list[Storages] = []
_resize: Any = torch.UntypedStorage.resize_  # inherited from a class of C++


@functools.wraps(_resize)
def _resize_and_see(self: torch.UntypedStorage, size: Any) -> Any:
    resized = _resize(self, size)
    for storages in _following:
        storages.see_size(self)
    return resized
