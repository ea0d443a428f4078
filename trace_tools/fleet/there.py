"""A process on another machine: traces the lecture that was sent, tells how far it is, and sends the trace home.

    python tools '{"lecture": "lecture/lecture.py", "name": "h200", "torch": null, "request": {"passes": 3}}'

Each line that it writes begins with MARK and is one JSON object; all other lines are somebody else's.

    {"version": "0.1.0", "python": "3.11.7", "torch": "2.13.0"}      first
    {"at": "pass 1: matmul"}                                         now and then
    {"why": "no CUDA device …"}                                      it can't be traced, and ends here
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
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trace_tools import __version__
from trace_tools.errors import TraceToolsError, in_words, is_refusal
from trace_tools.tracing.nodes import LeaderError, placed

MARK = "@trace-tools "
PIECE_BYTES = 48_000


def main() -> None:
    """Do as the one argument says."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    asked = json.loads(sys.argv[1])
    here = f"node {os.environ.get('SLURM_NODEID')}: " if asked["nodes"] else ""
    try:
        _trace(asked)
    except LeaderError:  # that one tells why
        return
    except TraceToolsError as error:
        _tell(why=f"{here}{error}")
    except KeyboardInterrupt:
        _tell(why="was ended there")
    except (OSError, MemoryError, RuntimeError) as error:
        if not is_refusal(error):
            raise
        _tell(why=in_words(error))


def _trace(asked: dict[str, Any]) -> None:
    from trace_tools.tracing.tracer import Request, Tracer

    place = placed(asked["nodes"]) if asked["nodes"] else None
    leads = place is None or place.node == 0
    torch = metadata.version("torch") if find_spec("torch") is not None else None
    if leads:
        _tell(version=__version__, python=".".join(map(str, sys.version_info[:3])), torch=torch)
    wanted = asked["torch"]
    if wanted is not None and (torch is None or torch.partition("+")[0] != wanted):
        _tell(why=f"torch {torch} is there; the inventory wants {wanted}" if torch else "no torch is there")
        return
    lecture = Path(asked["lecture"])
    with tempfile.TemporaryDirectory(prefix="out-", dir=".") as out:
        request = Request(lecture=lecture, out=Path(out), name=asked["name"], nodes=place, **asked["request"])
        tracer = Tracer(request, _at if leads else lambda process, place, stalled: None)
        needing = lecture.name if "torch" in tracer.uses else request.device
        if needing not in (None, "cpu") and torch is None:
            _tell(why=f"no torch is there, which {needing} needs: name a Python that has it with `python`")
            return
        if not leads:
            tracer.follow()
            return
        content = tracer.run().path.read_bytes()
    packed = base64.b64encode(zlib.compress(content, 6)).decode()
    for start in range(0, len(packed), PIECE_BYTES):
        _tell(trace=packed[start : start + PIECE_BYTES])
    _tell(end=hashlib.sha256(content).hexdigest())


def _at(process: str, place: str, stalled: str) -> None:
    _tell(at=": ".join(filter(None, (process, ", ".join(filter(None, (place, stalled)))))))


def _tell(**what: str | None) -> None:
    """Write one line, whole: threads tell of progress."""
    os.write(sys.stdout.fileno(), f"{MARK}{json.dumps(what)}\n".encode())
