"""A process that starts the ranks of a pass, under torchrun, and ends with the tracer.

    python -m trace_tools.tracing.torchrun job.json 4                     four ranks, on this machine
    python -m trace_tools.tracing.torchrun job.json 4 2 0 head 29501      four on each of two nodes, here on the first

torchrun (`torch.distributed.run`) gives each rank its environment and a place to meet, watches all of them, and stops
the others once one has failed. How each rank that failed had ended is written beside its journal, as the tracer does
for a process of its own: torchrun's own exit status is 1 whatever happened, and what it calls the root cause may be a
rank that only heard of it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from trace_tools import accelerators
from trace_tools.tracing.journal import rank_folder
from trace_tools.tracing.processes import PYTHON

CHILD = "trace_tools.tracing.child"
LOOK_S = 0.2  # between two looks at whether the tracer still lives
UNSHARED = (
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # would leave the ranks no store of torchrun's, in which they meet again
)


def main(job_path: str, ranks: int, *place: str) -> int:
    """Run the job on so many ranks of this machine; return 0 when each ended with that.

    `place` is, of several nodes, how many there are, which one this is, and where the ranks of all of them meet.
    """
    if wrong := _why_not(ranks, json.loads(Path(job_path).read_text(encoding="utf-8"))["device"]):
        print(f"--ranks {ranks}: {wrong}", file=sys.stderr)
        return 2
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    os.environ.pop(UNSHARED, None)
    where = ["--standalone", "--local-addr", "127.0.0.1"]
    if place:
        names = ("--nnodes", "--node-rank", "--master-addr", "--master-port")
        where = [word for pair in zip(names, place, strict=True) for word in pair]
    asked = [*where, "--nproc-per-node", str(ranks), "--no-python"]
    try:
        run.run(run.parse_args([*asked, *PYTHON, CHILD, job_path]))  # type: ignore[no-untyped-call]
    except ChildFailedError as failed:
        job, codes = Path(job_path), {failure.exitcode for failure in failed.failures.values()}
        for rank, failure in failed.failures.items():
            if failure.exitcode == -signal.SIGTERM and len(codes) > 1:  # it was stopped with one that had failed
                continue
            status = rank_folder(job.parent, rank) / job.with_suffix(".status").name
            status.write_text(str(failure.exitcode), encoding="utf-8")
        return 1
    except SignalException:  # the tracer's
        return 1
    return 0


def _why_not(ranks: int, device: str) -> str | None:
    """Return what keeps this machine's torch from running so many ranks on this type of device; None for nothing."""
    import torch

    if not torch.distributed.is_available():
        return f"torch {torch.__version__} is built without torch.distributed"
    gpu = accelerators.accelerator(device)
    if gpu is not None and gpu.count() < ranks:
        return f"each rank needs a GPU of its own, and there is {gpu.count()}; expected fewer, or --device cpu"
    return None


def _end_with(parent: int) -> None:
    """Have torchrun stop the ranks when the tracer is no more."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
