"""The process that examines a machine may crash, hang or fail to start; its caller reports this and continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_tools.machines import preflight
from trace_tools.machines.preflight import Check, examine

FIRST = 'print(\'{"name": "first", "verdict": "ok", "found": "it"}\', flush=True)\n'
CPU = "trace the CPU: DEVICE=cpu (--device cpu)"


@pytest.fixture
def replaced_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a module that runs instead of the checks."""
    monkeypatch.setattr(preflight, "CHECKS", "other_checks")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "other_checks.py"


def test_arguments_and_environment_of_the_process(replaced_module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import json, os, sys\nsaid = [*sys.argv[1:], os.environ.get('CUDA_VISIBLE_DEVICES', 'unset')]\n"
    replaced_module.write_text(f"{code}print(json.dumps(dict(name='said', verdict='ok', found=' '.join(said))))\n")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    reports = [check.found for device in (None, "cpu", "cuda:1") for check in examine(device)]
    assert reports == ["unset", "cpu ", "cuda:1 unset"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV, after “first”"),
        ("print('CUDA: bad', file=sys.stderr); os._exit(3)", "ended with 3, after “first” (CUDA: bad)"),
        ("os._exit(3)", "ended with 3, after “first”"),
        ("raise ValueError('no such')", "ended with 1, after “first” (ValueError: no such)"),
        (
            "print('illegal', file=sys.stderr, flush=True); os.kill(os.getpid(), signal.SIGILL)",
            "ended by SIGILL, after",
        ),
    ],
)
def test_early_end_of_the_process_is_reported(body: str, message: str, replaced_module: Path) -> None:
    replaced_module.write_text(f"import os, signal, sys\n{FIRST}{body}\n")
    [first, last] = examine(None)
    assert (first.name, last.name, last.verdict, last.advice) == ("first", "examination", "wrong", CPU)
    assert last.found.startswith(message)
    assert ("illegal" in body) == ("(illegal)" in last.found)


def test_a_hanging_process_is_reported(replaced_module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "LIMIT_S", 0.5)
    replaced_module.write_text("import time\ntime.sleep(600)\n")
    [last] = examine(None)
    assert (last.verdict, last.found) == ("wrong", "not done in 0.5 s, before its first check")


def test_python_without_torch_is_reported(replaced_module: Path) -> None:
    replaced_module.write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    [last] = examine(None)
    assert last == Check(
        "torch",
        "wrong",
        "ModuleNotFoundError: No module named 'torch'",
        "python -m pip install torch",
    )
