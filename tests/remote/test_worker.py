"""The process that traces on another machine, tested by the JSON lines that it prints."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import yaml

from tests.messages import says
from trace_tools.remote.transports import MAIN
from trace_tools.remote.worker import MARK

ROOT = Path(__file__).resolve().parents[2]


def worker_lines(folder: Path, **changes: object) -> list[dict[str, str]]:
    request = {"lecture": "talk.py", "torch": None, "options": {"name": "box", "passes": 1}}
    argument = json.dumps(request | changes)
    code = "from trace_tools.remote.worker import main; main()"
    completed = subprocess.run(
        [sys.executable, "-c", code, argument],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert completed.stderr == ""
    return [json.loads(line.removeprefix(MARK)) for line in completed.stdout.splitlines()]


def test_trace_is_sent_in_pieces_with_a_checksum(lecture: Path) -> None:
    messages = worker_lines(lecture.parent)
    assert messages[0].keys() == {"version", "python", "torch"}
    packed = "".join(line.get("trace", "") for line in messages)
    content = zlib.decompress(base64.b64decode(packed))
    assert messages[-1] == {"end": hashlib.sha256(content).hexdigest()}
    assert yaml.safe_load(content)["machine"]["slug"] == "box"
    assert [path.name for path in lecture.parent.iterdir()] == ["talk.py"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"torch": "0.1.0"}, "0.1.0"), ({"lecture": "no.py"}, "no.py: can't be read: No such file or directory")],
)
def test_reason_for_a_missing_trace(changes: dict[str, str], reason: str, lecture: Path) -> None:
    assert reason in worker_lines(lecture.parent, **changes)[-1]["why"]


def test_old_python_is_an_error() -> None:
    code = MAIN.replace("import sys\n", "import sys\nsys.version_info = (3, 8)\n")
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert says(completed.stderr, "trace-tools: ", "Python 3.8", "3.11")
