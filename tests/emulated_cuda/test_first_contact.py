"""The steps of `tests/first_contact.py` on a card that fails during a trace. Slow, so only `make emulate` runs this."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from tests import first_contact
from tests.first_contact import STEPS, Contact
from trace_tools.machines.machine import STORED, to_json
from trace_tools.trace.model import Machine, Peak

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif("EMULATED_CUDA" not in os.environ, reason="not on the emulated device"),
]
LECTURE = """
import torch


def main():
    product()


def product():
    x = torch.ones(64, 64, device="cuda")
    for _ in range(4):
        x = x @ x / 64  # @inspect x.shape
    assert x.sum().item() == 64**2


if __name__ == "__main__":
    main()
"""


def test_device_error_is_reported_and_its_trace_kept(tmp_path: Path) -> None:
    lecture, out, stored = tmp_path / "talk.py", tmp_path / "sent", tmp_path / "machine.json"
    lecture.write_text(LECTURE)
    peaks = [Peak(name, 1e12, "measured", measured=True) for name in ("float32", "bfloat16", "memory")]
    stored.write_text(to_json(Machine("A card", "emulated-a-card", "cuda", emulated=True, peaks=peaks)))
    out.mkdir()
    options = Namespace(out=out, device=None, lecture=lecture, section="product", only=None, against=tmp_path)
    faults = {"EMULATED_CUDA_FAULTS": "pass-1/assert:5", STORED: str(stored), "VENV": "none", "PYTHON": sys.executable}
    contact = Contact(options, {**os.environ, **faults})
    code = first_contact._steps(contact, {name: STEPS[name] for name in ("section", "blocking")})
    summary = (out / "summary.txt").read_text()
    assert code == 1 and "device-side assert triggered" in summary, summary
    assert "blocking  ok: it ended well" in summary, "the fault is only in the traced process"
    assert list(out.rglob("trace.yaml")), "steps before the error were recorded"
