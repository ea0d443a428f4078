"""Run one trace on a remote host and stream its progress.

    python tools '{"lecture": "lecture/lecture.py", "torch": null, "options": {"name": "h200", "passes": 3}}'

Each line that it writes begins with MARK and is one JSON object; other lines come from other programs.

    {"version": "0.1.0", "python": "3.11.7", "torch": "2.13.0"}      first
    {"at": {"process": "pass 1", "section": "matmul", …}}            progress
    {"why": "no CUDA device …"}                                      the trace failed; last
    {"trace": "eJy…"}  {"end": "sha256 of the file"}                 pieces of trace.yaml, packed; last
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import sys
import tempfile
import zlib
from dataclasses import asdict
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trace_tools import __version__
from trace_tools.errors import TraceToolsError, in_words, is_refusal
from trace_tools.tracing.nodes import LeaderError, placed
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.progress import Progress

MARK = "@trace-tools "
PIECE_BYTES = 48_000


def main() -> None:
    """Run the trace that the command's argument describes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    request = json.loads(sys.argv[1])
    options = TraceOptions.from_plain(request["options"])
    prefix = f"node {os.environ.get('SLURM_NODEID')}: " if options.nodes else ""
    try:
        _trace(Path(request["lecture"]), options, request["torch"])
    except LeaderError:  # node 0 reports why
        return
    except TraceToolsError as error:
        _send(why=f"{prefix}{error}")
    except KeyboardInterrupt:
        _send(why="was terminated on that machine")
    except (OSError, MemoryError, RuntimeError) as error:
        if not is_refusal(error):
            raise
        _send(why=in_words(error))


def _trace(lecture: Path, options: TraceOptions, wanted: str | None) -> None:
    from trace_tools.tracing.supervisor import Tracer

    node = placed(options.nodes) if options.nodes else None
    leads = node is None or node.node == 0
    torch = metadata.version("torch") if find_spec("torch") is not None else None
    if leads:
        _send(version=__version__, python=".".join(map(str, sys.version_info[:3])), torch=torch)
    if wanted is not None and (torch is None or torch.partition("+")[0] != wanted):
        _send(why=f"torch {torch} is installed; the inventory requires {wanted}" if torch else "torch is not installed")
        return
    with tempfile.TemporaryDirectory(prefix="out-", dir=".") as out:
        tracer = Tracer(lecture, Path(out), options, _send_progress if leads else lambda message: None, nodes=node)
        needing = lecture.name if "torch" in tracer.plan.uses else options.device
        if needing not in (None, "cpu") and torch is None:
            _send(why=f"torch is not installed, but {needing} needs it; name a Python that has torch with `python`")
            return
        if not leads:
            tracer.follow()
            return
        content = tracer.run().path.read_bytes()
    packed = base64.b64encode(zlib.compress(content, 6)).decode()
    for start in range(0, len(packed), PIECE_BYTES):
        _send(trace=packed[start : start + PIECE_BYTES])
    _send(end=hashlib.sha256(content).hexdigest())


def _send_progress(message: Progress) -> None:
    _send(at=asdict(message))


def _send(**message: Any) -> None:
    """Write one line in one call, because several threads report progress."""
    os.write(sys.stdout.fileno(), f"{MARK}{json.dumps(message)}\n".encode())
