"""The float32 precision is restored, whichever of torch's two interfaces set it; the tests read both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.cases_in_one import each
from trace_tools.machines import float32_precision, peak_benchmark

cuda: Any = torch.backends.cuda
PRECISIONS: list[Callable[[], object]] = [
    lambda: setattr(cuda.matmul, "fp32_precision", "tf32"),
    lambda: setattr(torch.backends, "fp32_precision", "tf32"),
    lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee"),  # type: ignore[attr-defined]
    lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),  # type: ignore[attr-defined]
    lambda: torch.set_float32_matmul_precision("high"),
    lambda: torch.set_float32_matmul_precision("medium"),
    lambda: setattr(cuda.matmul, "allow_tf32", True),
    lambda: setattr(torch.backends.cudnn, "allow_tf32", False),
]

pytestmark = pytest.mark.skipif(not hasattr(cuda.matmul, "fp32_precision"), reason="this torch has one interface to it")


def read_precisions() -> list[str]:
    values = []
    for read in (
        torch.get_float32_matmul_precision,
        lambda: cuda.matmul.allow_tf32,
        lambda: torch.backends.cudnn.allow_tf32,
        lambda: cuda.matmul.fp32_precision,
        lambda: torch.backends.mkldnn.matmul.fp32_precision,  # type: ignore[attr-defined]
        lambda: torch.backends.cudnn.conv.fp32_precision,  # type: ignore[attr-defined]
    ):
        try:
            values.append(str(read()))
        except RuntimeError:
            values.append("refuses")
    return values


@each("earlier", PRECISIONS)
@each("later", PRECISIONS)
def test_precision_is_restored_through_both_interfaces(earlier: Callable[[], Any], later: Callable[[], Any]) -> None:
    default_values, default_state = read_precisions(), float32_precision.read()
    earlier()
    earlier_values, earlier_state = read_precisions(), float32_precision.read()
    later()
    assert isinstance(float32_precision.name(), str)
    float32_precision.write(earlier_state)
    assert read_precisions() == earlier_values and float32_precision.read() == earlier_state
    float32_precision.write(default_state)
    assert read_precisions() == default_values and float32_precision.read() == default_state


def test_peak_is_measured_if_the_older_interface_is_unreadable() -> None:
    before = float32_precision.read()
    cuda.matmul.fp32_precision = "tf32"
    try:
        with pytest.raises(RuntimeError):
            torch.get_float32_matmul_precision()
        assert peak_benchmark._matmul_peak("cpu", None, "float32").per_second
        assert (cuda.matmul.fp32_precision, float32_precision.name()) == ("tf32", "tf32")
    finally:
        float32_precision.write(before)
