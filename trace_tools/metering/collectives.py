"""Count communication between ranks: operations of torch.distributed and their payloads.

The payload is defined as in NVIDIA's nccl-tests (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md), as the data that
one rank holds: for an all-gather all gathered data, for a reduce-scatter all data to reduce, for an all-reduce or a
broadcast the tensor. A backend may send more, or less often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from trace_tools.metering.operators import EagerMode, tensors_in

NAMESPACES = frozenset({"c10d", "_c10d_functional", "c10d_functional", "_c10d_functional_autograd"})
# an operator's name begins with that of its operation: `_allgather_base_`, `reduce_scatter_tensor`
OPERATIONS = (
    *("all_reduce", "all_gather", "all_to_all", "reduce_scatter", "reduce", "broadcast", "gather", "scatter"),
    *("send", "recv", "barrier"),
)

Traffic = Counter[tuple[str, int, int]]  # calls by operation, size of the group and payload (bytes)


def collective(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the operation between ranks that an operator performs, if any, and its group."""
    if getattr(func, "namespace", None) not in NAMESPACES:
        return None
    name = func._schema.name.partition("::")[2].replace("_", "")
    operation = next((one for one in OPERATIONS if name.startswith(one.replace("_", ""))), None)
    if operation is None:
        return None
    from torch.distributed import distributed_c10d

    resolved: Any = distributed_c10d._resolve_process_group  # type: ignore[attr-defined]
    for argument in reversed([*args, *kwargs.values()]):  # the group, or its name, comes last
        try:
            if isinstance(argument, torch.ScriptObject):
                return operation, torch.distributed.ProcessGroup.unbox(argument)
            if isinstance(argument, str):
                return operation, resolved(argument)
        except (RuntimeError, ValueError, TypeError, LookupError):
            continue  # the reduction is also such an object, or such a text
    return None


def note(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, traffic: Traffic) -> None:
    """Count one operator that has run, if it communicates."""
    if (call := collective(func, args, kwargs)) is None:
        return
    operation, group = call
    sizes = [sum(t.numel() * t.element_size() for t in tensors_in(value)) for value in (*args, out)]
    payload_bytes = 0 if operation == "barrier" else max(sizes)  # parts are on one side, and all data on the other
    if operation in ("gather", "scatter"):  # only one rank has all data, so it follows from this rank's part
        payload_bytes = min(filter(None, sizes), default=0) * group.size()
    traffic[operation, group.size(), payload_bytes] += 1


def in_plain(traffic: Traffic) -> list[dict[str, Any]]:
    """Return the fields of `Collective` for each counted operation and size of group."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for (operation, ranks, payload_bytes), calls in sorted(traffic.items()):
        row = rows.setdefault((operation, ranks), {"operation": operation, "ranks": ranks, "calls": 0, "bytes": 0})
        row["calls"] += calls
        row["bytes"] += calls * payload_bytes
    return [*rows.values()]


def agreement(functions: Iterable[Callable[[], Any]]) -> Callable[[float], float]:
    """Call each function once; return a function for the maximum of a number over the ranks that they communicate with.

    Without such ranks that is the number itself. All ranks of the group must call the function equally often.
    """
    with _Listening() as listening:
        for f in functions:
            f()
    if not listening.groups:
        return float
    group = max(listening.groups, key=lambda group: group.size())
    device_type = min(device.type for device in group._device_types)  # of those that its backends serve: the CPU first

    def largest(number: float) -> float:
        with _disable_current_modes():
            maximum = torch.tensor([number], dtype=torch.float64, device=device_type)
            torch.distributed.all_reduce(maximum, op=torch.distributed.ReduceOp.MAX, group=group)
            return maximum.item()

    return largest


class _Listening(EagerMode):
    """Collects the groups that operators communicate with."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.groups: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (call := collective(func, args, kwargs or {})) is not None:
            self.groups.append(call[1])
        return func(*args, **(kwargs or {}))
