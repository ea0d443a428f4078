"""The process that traces on another machine: its lines, read as JSON."""

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


def lines(folder: Path, **asked: object) -> list[dict[str, str]]:
    given = {"lecture": "talk.py", "torch": None, "options": {"name": "box", "passes": 1}}
    given = json.dumps(given | asked)
    code = "from trace_tools.remote.worker import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, given], cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert ran.stderr == ""
    return [json.loads(line.removeprefix(MARK)) for line in ran.stdout.splitlines()]


def test_a_trace_in_pieces(lecture: Path) -> None:
    told = lines(lecture.parent)
    assert told[0].keys() == {"version", "python", "torch"}
    packed = "".join(line.get("trace", "") for line in told)
    content = zlib.decompress(base64.b64decode(packed))
    assert told[-1] == {"end": hashlib.sha256(content).hexdigest()}
    assert yaml.safe_load(content)["machine"]["slug"] == "box"
    assert [path.name for path in lecture.parent.iterdir()] == ["talk.py"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [({"torch": "0.1.0"}, "0.1.0"), ({"lecture": "no.py"}, "no.py: can't be read: No such file or directory")],
)
def test_why_there_is_none(asked: dict[str, str], why: str, lecture: Path) -> None:
    assert why in lines(lecture.parent, **asked)[-1]["why"]


def test_an_old_python_is_told_so() -> None:
    code = MAIN.replace("import sys\n", "import sys\nsys.version_info = (3, 8)\n")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert says(ran.stderr, "trace-tools: ", "Python 3.8", "3.11")
