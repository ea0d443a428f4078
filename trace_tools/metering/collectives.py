"""Measure communication between ranks: operations of torch.distributed, their payloads and the resulting traffic.

    collective(func, args, kwargs)         Exchange("all_reduce", group, bytes=4096), for an operator seen by a mode
    factor("all_reduce", ranks=4)          1.5: a ring moves 2(n-1)/n of the payload through each rank's link

The payload S and the factor are those of NVIDIA's nccl-tests (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the
*bus bandwidth*, S × factor over the time, can be compared with the peak of a link, for any operation and number of
ranks. S is the data that one rank holds: for an all-gather all gathered data, for a reduce-scatter all data to reduce,
for an all-reduce or a broadcast the tensor. Backends may send more, or less often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from trace_tools.metering.operators import EagerMode
from trace_tools.trace.model import Collective

NAMESPACES = frozenset({"c10d", "_c10d_functional", "c10d_functional", "_c10d_functional_autograd"})
BARRIER = "barrier"

Counted = Counter[tuple[str, int, str]]  # by operation, size of the group and field of `Collective`

# The operator's name without marks of a variant → the operation, the index of its payload argument, and whether that is
# one rank's part of it. In `c10d` results are arguments, and come first; in `_c10d_functional` the first argument is
# the input.
_OPERATIONS: dict[str, dict[str, tuple[str, int | None, bool]]] = {
    "c10d": {
        "allreduce": ("all_reduce", 0, False),
        "allgather": ("all_gather", 0, False),
        "reduce_scatter": ("reduce_scatter", 1, False),
        "broadcast": ("broadcast", 0, False),
        "reduce": ("reduce", 0, False),
        "gather": ("gather", 1, True),
        "scatter": ("scatter", 0, True),
        "alltoall": ("all_to_all", 1, False),
        "send": ("send", 0, False),
        "recv": ("recv", 0, False),
        "recv_any_source": ("recv", 0, False),
        "barrier": (BARRIER, None, False),
        "monitored_barrier": (BARRIER, None, False),
    },
    "functional": {
        "all_reduce": ("all_reduce", 0, False),
        "all_gather_into_tensor": ("all_gather", 0, True),
        "reduce_scatter_tensor": ("reduce_scatter", 0, False),
        "all_to_all_single": ("all_to_all", 0, False),
        "broadcast": ("broadcast", 0, False),
    },
}
_MARKS = ("_out", "_coalesced", "_base", "_into_tensor", "_tensor")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One operation between the ranks of a group; `bytes` is its payload."""

    operation: str
    group: Any  # torch.distributed.ProcessGroup
    bytes: int


def factor(operation: str, ranks: int) -> float | None:
    """Return nccl-tests' factor for the payload's bandwidth with this number of ranks; None without a payload.

    Source: nccl-tests, doc/PERFORMANCE.md, and the `GetBw` functions of src/*.cu for gather, scatter and send.
    """
    match operation:
        case "all_reduce":
            return 2 * (ranks - 1) / ranks
        case "all_gather" | "reduce_scatter" | "all_to_all" | "gather" | "scatter":
            return (ranks - 1) / ranks
        case "broadcast" | "reduce" | "send" | "recv":
            return 1.0
    return None


def collective(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Exchange | None:
    """Return the operation between ranks that an operator performs; None for other operators."""
    namespace = getattr(func, "namespace", None)
    if namespace not in NAMESPACES:
        return None
    operations = _OPERATIONS["c10d" if namespace == "c10d" else "functional"]
    name = func._schema.name.partition("::")[2].strip("_")
    while name not in operations:
        shorter = next((name.removesuffix(mark) for mark in _MARKS if name.endswith(mark)), None)
        if shorter is None:
            return None  # an operator that waits or wraps
        name = shorter
    operation, payload_index, is_part = operations[name]
    group = _group(args, kwargs)
    if group is None:
        return None
    tensors = () if payload_index is None else _tensors(args[payload_index])
    payload_bytes = sum(t.numel() * t.element_size() for t in tensors)
    return Exchange(operation, group, payload_bytes * group.size() if is_part else payload_bytes)


def _tensors(argument: Any) -> Iterable[torch.Tensor]:
    if isinstance(argument, torch.Tensor):
        return [argument]
    return [tensor for part in argument for tensor in _tensors(part)] if isinstance(argument, (list, tuple)) else []


def _group(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the process group among an operator's arguments: an object of `c10d`, else the last argument that names
    one.
    """
    from torch.distributed import distributed_c10d

    resolved: Any = distributed_c10d._resolve_process_group  # type: ignore[attr-defined]
    for argument in reversed([*args, *kwargs.values()]):
        if isinstance(argument, torch.distributed.ProcessGroup):
            return argument
        try:
            if isinstance(argument, torch.ScriptObject):
                return torch.distributed.ProcessGroup.unbox(argument)
            if isinstance(argument, str):
                return resolved(argument)
        except (RuntimeError, ValueError, TypeError, LookupError):
            continue  # the reduction is also such an object, or such a text
    return None


def note(call: Exchange, counted: Counted) -> None:
    """Count one operation."""
    counted[call.operation, call.group.size(), "calls"] += 1
    counted[call.operation, call.group.size(), "bytes"] += call.bytes


def in_plain(counted: Counted) -> list[dict[str, Any]]:
    """Return the fields of `Collective` for each counted operation and size of group."""
    rows = []
    for operation, ranks in sorted({key[:2] for key in counted}):
        figures = {name: counted.get((operation, ranks, name)) for name in ("calls", "bytes")}
        plain = {"operation": operation, "ranks": ranks, "factor": factor(operation, ranks), **figures}
        rows.append({"bytes": 0} | {name: figure for name, figure in plain.items() if figure is not None})
    return rows


def as_collectives(counted: Counted) -> tuple[Collective, ...]:
    """Return the counts as one object for each operation and size of group."""
    return tuple(Collective(**plain) for plain in in_plain(counted))


# --- ranks that measure together ----------------------------------------------------------------------------------


def agreement(f: Callable[[], Any]) -> Callable[[float], float]:
    """Call `f`; return a function that gives the maximum of a number over the ranks that `f` communicates with.

    The function returns the number itself if `f` communicates with no other rank. All ranks of the group must call it
    equally often.
    """
    groups: list[Any] = []

    class Listening(EagerMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            call = collective(func, args, kwargs or {})
            if call is not None:
                groups.append(call.group)
            return func(*args, **(kwargs or {}))

    with Listening():  # type: ignore[no-untyped-call]
        f()
    if not groups:
        return float
    group = max(groups, key=lambda group: group.size())
    # the class above is in a reference cycle: its groups would outlive the group's end, and abort the process
    groups.clear()
    types = [device.type for device in group._device_types]  # types that its backends serve
    device_type = "cpu" if "cpu" in types else types[0]

    def largest(number: float) -> float:
        with _disable_current_modes():
            maximum = torch.tensor([number], dtype=torch.float64, device=device_type)
            torch.distributed.all_reduce(maximum, op=torch.distributed.ReduceOp.MAX, group=group)
            return maximum.item()

    return largest
