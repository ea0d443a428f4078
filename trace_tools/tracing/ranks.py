"""A rank is a trace: where a launcher such as torchrun has set RANK and WORLD_SIZE, each rank traces itself.

    python -m torch.distributed.run --nproc-per-node 2 -m trace_tools trace lecture.py
    # rendered/<machine>-rank0/ and rendered/<machine>-rank1/

    named("cpu")                    "cpu-rank1" on rank 1
    with meeting(process, 0): …     init_process_group finds the ranks of this pass's first run

The ranks of a run must meet each other and no rank of another run, which may still be ending. So each run has a port of
its own, counted from the launcher's, and a store that rank 0 holds, instead of torchrun's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from trace_tools.trace.records import ProcessId

RUNS = 3  # most runs of a pass
# settings that torch's `env://` reads
PORT, AGENTS = "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"


def rank() -> int | None:
    """Return this process's rank, if a launcher started it."""
    number = os.environ.get("RANK", "")
    return int(number) if number.isdigit() and os.environ.get("WORLD_SIZE", "").isdigit() else None


def named(slug: str) -> str:
    """Return the name of this machine's folder, with the rank under a launcher."""
    own = rank()
    return slug if own is None else f"{slug}-rank{own}"


def measures_peaks() -> bool:
    """Return whether this process may measure its machine, which all of its ranks at once would disturb."""
    return rank() is None or os.environ.get("LOCAL_RANK", "0") == "0"


@contextlib.contextmanager
def one_at_a_time(out: Path) -> Iterator[None]:
    """Let one rank at a time write the pages in a folder, under a launcher."""
    if rank() is None:
        yield
        return
    # a file opened for writing, because NFS does not lock a folder, and the ranks may be on several machines
    with (out / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def meeting(process: ProcessId, run: int) -> Iterator[None]:
    """Let the ranks of one run meet; destroy the process group at the end. Without a launcher, only run the block."""
    before = {name: os.environ.get(name) for name in (PORT, AGENTS)}
    port = before[PORT] or ""
    if rank() is None or not port.isdigit():
        yield
        return
    number = RUNS * ((process.pass_ or 1) - 1) + run
    os.environ[PORT], os.environ[AGENTS] = str(int(port) + 1 + number), "False"
    try:
        yield
    finally:
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_initialized():
            with contextlib.suppress(Exception):  # a group with failed ranks
                distributed.destroy_process_group()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
