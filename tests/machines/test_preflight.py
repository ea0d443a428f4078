"""The process that looks at a machine may crash, hang or never begin: the one that asks is told, and goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from trace_tools.machines import preflight
from trace_tools.machines.preflight import Check, examine

FIRST = 'print(\'{"name": "first", "verdict": "ok", "found": "it"}\', flush=True)\n'
CPU = "trace the CPU: DEVICE=cpu (--device cpu)"


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let another module be the process that looks."""
    monkeypatch.setattr(preflight, "CHECKS", "looks_otherwise")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "looks_otherwise.py"


def test_what_it_finds_comes_as_it_is_found(process: Path) -> None:
    process.write_text(f"{FIRST}import os, sys, time\nprint(os.environ['GO'], file=sys.stderr)\ntime.sleep(60)\n")
    found = examine("cpu", quick=True)
    os.environ["GO"] = "on"
    try:
        assert next(found) == Check("first", "ok", "it")
    finally:
        del os.environ["GO"]
        found.close()  # kills it


def test_how_and_on_what_it_is_started(process: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = "import json, os, sys\nsaid = [*sys.argv[1:], os.environ.get('CUDA_VISIBLE_DEVICES', 'unset')]\n"
    process.write_text(f"{told}print(json.dumps(dict(name='said', verdict='ok', found=' '.join(said))))\n")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    started = [(None, True), ("cpu", False), ("cuda:1", True)]
    said = [check.found for device, quick in started for check in examine(device, quick=quick)]
    nothing = json.dumps({"ram_bytes": None, "device_bytes": {}})
    assert said == [f"quick  {nothing} unset", f"full cpu {nothing} ", f"quick cuda:1 {nothing} unset"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV, after “first”"),
        ("print('CUDA: bad', file=sys.stderr); os._exit(3)", "CUDA: bad, after “first”"),
        ("os._exit(3)", "ended with 3, after “first”"),
        ("raise ValueError('no such')", "ValueError: no such, after “first”"),
        (
            "print('illegal', file=sys.stderr, flush=True); os.kill(os.getpid(), signal.SIGILL)",
            "ended by SIGILL, after",
        ),
    ],
)
def test_a_process_that_ends_early(body: str, found: str, process: Path) -> None:
    process.write_text(f"import os, signal, sys\n{FIRST}{body}\n")
    [first, last] = examine(None, quick=True)
    assert (first.name, last.name, last.verdict, last.advice) == ("first", "examination", "wrong", CPU)
    assert last.found.startswith(found)
    assert ("illegal" in body) == ("(illegal)" in last.found)


def test_a_process_that_hangs(process: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(preflight.LIMIT_S, True, 0.5)
    process.write_text("import time\ntime.sleep(600)\n")
    [last] = examine(None, quick=True)
    assert (last.verdict, last.found) == ("wrong", "not done in 0.5 s, before its first check")


def test_a_python_without_torch(process: Path) -> None:
    process.write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    [last] = examine(None, quick=True)
    assert last == Check(
        "torch",
        "wrong",
        "ModuleNotFoundError: No module named 'torch'",
        "python -m pip install torch==2.13.0",
    )
