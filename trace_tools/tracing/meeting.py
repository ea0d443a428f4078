"""Where the ranks of a pass meet in its second run: torchrun's store still has the addresses of the first.

    stuck, port = meet(Path("rank-0/pass-1.journal"), ranks=2, run="warm", stuck=None)
    with meeting_at(port): …          init_process_group finds a store of that run's own

They agree by files beside their journals: each rank writes one, and reads those of all others.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from trace_tools.tracing.journal import rank_folder

LOOK_S = 0.01
PORT, AGENTS = "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"  # what torch's `env://` reads


def meet(journal: Path, ranks: int, run: str, stuck: str | None) -> tuple[str | None, int]:
    """Wait until all ranks of this pass are about to begin a run; return what keeps one from it, and a free port.

    `stuck` says what keeps this rank. A rank that has ended never comes: torchrun then ends those that wait.
    """
    own = journal.with_suffix(f".{run.replace(' ', '-')}.meet")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        said = json.dumps([stuck, probe.getsockname()[1]])
    new = own.with_suffix(".new")
    new.write_text(said, encoding="utf-8")
    new.rename(own)
    found = []
    for rank in range(ranks):
        theirs = rank_folder(journal.parents[1], rank) / own.name
        while not theirs.exists():
            time.sleep(LOOK_S)
        found.append((rank, *json.loads(theirs.read_text(encoding="utf-8"))))
    why = next((why if why == stuck else f"rank {rank}: {why}" for rank, why, _ in found if why), None)
    return why, found[0][2]


@contextlib.contextmanager
def meeting_at(port: int | None) -> Iterator[None]:
    """Have torch's `env://` meet at a port, in a store that rank 0 holds; leave no process group behind."""
    before = {name: os.environ.get(name) for name in (PORT, AGENTS)}
    if port is not None:
        os.environ[PORT], os.environ[AGENTS] = str(port), "False"
    try:
        yield
    finally:
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_initialized():
            with contextlib.suppress(Exception):  # of a group whose ranks have failed
                distributed.destroy_process_group()
        for name, value in before.items():
            if value is not None:
                os.environ[name] = value
