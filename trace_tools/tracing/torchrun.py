"""Start the ranks of a pass under torchrun, in a process that ends with the tracer.

    python -m trace_tools.tracing.torchrun job.json 4                     four ranks, on this machine
    python -m trace_tools.tracing.torchrun job.json 4 2 0 head 29501      four on each of two nodes; this is the first

torchrun (`torch.distributed.run`) gives each rank its environment and a meeting address, watches all of them, and stops
the others once one has failed. The status of each failed rank is written next to its journal, as the tracer does for
its own processes. torchrun itself does not report these statuses: its exit status is 1 for every failure, and its "root
cause" may be a rank that only noticed the failure of another.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from trace_tools.machines import accelerators, devices
from trace_tools.tracing.journal import rank_folder
from trace_tools.tracing.processes import PYTHON

CHILD = "trace_tools.tracing.worker"
LOOK_S = 0.2  # interval of checks that the tracer lives
UNSHARED = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # with it, torchrun gives ranks no store for their second meeting


def main(job_path: str, ranks: int, *node: str) -> int:
    """Run the job on `ranks` ranks of this machine.

    Returns 0 if each rank returned 0, 1 if not, 2 if the ranks can't be started. For several nodes, `node` gives the
    number of nodes, the index of this one, and the host and port at which ranks meet.
    """
    import torch

    problem = None
    gpu = accelerators.accelerator(json.loads(Path(job_path).read_text(encoding="utf-8"))["device"])
    if not torch.distributed.is_available():
        problem = f"torch {torch.__version__} is built without torch.distributed"
    elif gpu is not None and gpu.count() < ranks:
        hidden = "".join(f", with {name}={os.environ[name]}" for name in devices.VISIBLE if name in os.environ)
        problem = (
            f"each rank needs its own GPU, and torch finds {gpu.count()} on this machine{hidden}; use --ranks "
            f"{gpu.count()}, or --device cpu"
        )
    if problem is not None:
        print(f"--ranks {ranks}: {problem}", file=sys.stderr)
        return 2
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    os.environ.pop(UNSHARED, None)
    meeting = ["--standalone", "--local-addr", "127.0.0.1"]
    if node:
        names = ("--nnodes", "--node-rank", "--master-addr", "--master-port")
        meeting = [word for pair in zip(names, node, strict=True) for word in pair]
    arguments = [*meeting, "--nproc-per-node", str(ranks), "--no-python"]
    try:
        run.run(run.parse_args([*arguments, *PYTHON, CHILD, job_path]))  # type: ignore[no-untyped-call]
    except ChildFailedError as failed:
        job, codes = Path(job_path), {failure.exitcode for failure in failed.failures.values()}
        for rank, failure in failed.failures.items():
            if failure.exitcode == -signal.SIGTERM and len(codes) > 1:  # stopped because another rank had failed
                continue
            status = rank_folder(job.parent, rank) / job.with_suffix(".status").name
            status.write_text(str(failure.exitcode), encoding="utf-8")
        return 1
    except SignalException:  # sent by the tracer
        return 1
    return 0


def _end_with(parent: int) -> None:
    """Make torchrun stop the ranks when the tracer has ended."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
