"""Let the ranks of a pass meet in its second run, because torchrun's store still has the addresses of the first.

    stuck, port = meet_ranks("pass 1, warm", rank=0, ranks=2, stuck=None)
    with meeting_at(port): …          init_process_group finds a store of that run's own

The ranks agree through torchrun's store, which all nodes can reach: each rank writes a message and reads the messages
of the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterator

LOOK_S = 0.01
# settings that torch's `env://` reads
HOST, PORT, AGENTS = "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"


def meet_ranks(run: str, rank: int, ranks: int, stuck: str | None) -> tuple[str | None, int]:
    """Wait until all ranks of this pass are ready for a run; return the reason if one can't, and a free port.

    `stuck` is the reason of this rank. A rank that has ended never arrives; torchrun then stops the waiting ones.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    store = TCPStore(os.environ[HOST], int(os.environ[PORT]), is_master=False, wait_for_workers=False)
    with socket.socket() as probe:
        probe.bind(("", 0))  # only rank 0's port is used; its node has torchrun's store as well
        store.set(_key(run, rank), json.dumps([stuck, probe.getsockname()[1]]))
    keys = [_key(run, other) for other in range(ranks)]
    while not store.check(keys):  # not `get`, which no signal interrupts
        time.sleep(LOOK_S)
    messages = [json.loads(store.get(key)) for key in keys]
    reasons = ((other, reason) for other, (reason, _) in enumerate(messages) if reason)
    why = next((reason if reason == stuck else f"rank {other}: {reason}" for other, reason in reasons), None)
    return why, messages[0][1]


def _key(run: str, rank: int) -> str:
    return f"trace_tools/{run}/{rank}"


@contextlib.contextmanager
def meeting_at(port: int | None) -> Iterator[None]:
    """Make torch's `env://` meet at a port, in a store that rank 0 holds; destroy the process group at the end.

    Without a port, torchrun's own store stays in use.
    """
    before = {name: os.environ.get(name) for name in (PORT, AGENTS)}
    if port is not None:
        os.environ[PORT], os.environ[AGENTS] = str(port), "False"
    try:
        yield
    finally:
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_initialized():
            with contextlib.suppress(Exception):  # a group with failed ranks
                distributed.destroy_process_group()
        for name, value in before.items():
            if value is not None:
                os.environ[name] = value
