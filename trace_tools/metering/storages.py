"""Tensors as operators show them → how many bytes of storage are alive, now and at most.

A storage counts once, however many views it has, from the operator that allocates it (or the first that
is handed it, when it was made before or outside) until Python or autograd lets go of the last tensor on
it. Memory that torch only borrows counts 0: NumPy arrays, buffers, memory maps, files being loaded. So
the sums are a lower bound of what the process or the device holds, workspaces inside operators left out.

    storages = Storages()
    storages.see_result(torch.empty(1000))  # live_bytes: 4000 for as long as something holds the tensor
"""

from __future__ import annotations

import weakref

import torch


class _Alive(weakref.ref[torch.UntypedStorage]):
    """A storage that has not died; torch keeps its Python object for as long as the C++ one lives."""

    __slots__ = ("address", "nbytes")
    address: int
    nbytes: int


class Storages:
    """The storages alive on one type of device ("cpu", "cuda"), or on all, and the bytes they hold."""

    def __init__(self, device: str | None = None) -> None:
        self.live_bytes = 0
        self.peak_bytes = 0
        self._device = device
        self._alive: dict[int, _Alive] = {}  # by address in C++

    def see_argument(self, tensor: torch.Tensor) -> None:
        """Take note of a strided tensor that an operator was handed."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._alive:
            self._watch(storage, storage.nbytes() if storage.resizable() else 0)

    def see_result(self, tensor: torch.Tensor) -> None:
        """Take note of a strided tensor that an operator returned: memory it allocated, or resized, or was given."""
        storage = tensor.untyped_storage()
        known = self._alive.get(storage._cdata)
        if known is None:
            self._watch(storage, storage.nbytes())
        elif known.nbytes and storage.nbytes() != known.nbytes:
            self._count(storage.nbytes() - known.nbytes)
            known.nbytes = storage.nbytes()

    def take_peak(self) -> int:
        """Return the most bytes alive at once since this was last asked."""
        peak, self.peak_bytes = self.peak_bytes, self.live_bytes
        return peak

    def forget(self) -> None:
        """Stop following; the figures stay as they are."""
        self._alive.clear()

    def _watch(self, storage: torch.UntypedStorage, nbytes: int) -> None:
        device = storage.device.type
        followed = device == self._device if self._device else device != "meta"
        alive = _Alive(storage, self._died)
        alive.address = storage._cdata
        alive.nbytes = nbytes if followed else 0
        self._alive[alive.address] = alive
        self._count(alive.nbytes)

    def _count(self, nbytes: int) -> None:
        self.live_bytes += nbytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _died(self, alive: weakref.ref[torch.UntypedStorage]) -> None:
        assert isinstance(alive, _Alive)
        if self._alive.pop(alive.address, None) is not None:
            self.live_bytes -= alive.nbytes
