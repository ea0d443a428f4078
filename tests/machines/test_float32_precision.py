"""Whatever set the precision, it is put back. The oracle is what both of torch's interfaces say."""

from __future__ import annotations

import contextlib
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


def precision() -> list[str]:
    said = []
    for read in (
        torch.get_float32_matmul_precision,
        lambda: cuda.matmul.allow_tf32,
        lambda: torch.backends.cudnn.allow_tf32,
        lambda: cuda.matmul.fp32_precision,
        lambda: torch.backends.mkldnn.matmul.fp32_precision,  # type: ignore[attr-defined]
        lambda: torch.backends.cudnn.conv.fp32_precision,  # type: ignore[attr-defined]
    ):
        with contextlib.suppress(AttributeError):
            try:
                said.append(str(read()))
            except RuntimeError:
                said.append("refuses")
    return said


@pytest.mark.skipif(not hasattr(cuda.matmul, "fp32_precision"), reason="this torch has one interface to it")
@each("earlier", PRECISIONS)
@each("later", PRECISIONS)
def test_the_precision_of_float32_is_put_back_through_both_interfaces(
    earlier: Callable[[], object], later: Callable[[], object]
) -> None:
    first, default = precision(), float32_precision.read()
    earlier()
    said, before = precision(), float32_precision.read()
    later()
    assert isinstance(float32_precision.name(), str)
    float32_precision.write(before)
    assert precision() == said and float32_precision.read() == before
    float32_precision.write(default)
    assert precision() == first and float32_precision.read() == default


@pytest.mark.skipif(not hasattr(cuda.matmul, "fp32_precision"), reason="this torch has one interface to it")
def test_a_roof_is_measured_where_the_older_interface_refuses_to_be_read() -> None:
    before = float32_precision.read()
    cuda.matmul.fp32_precision = "tf32"
    try:
        with pytest.raises(RuntimeError):
            torch.get_float32_matmul_precision()
        assert peak_benchmark._matmul_peak("cpu", None, "float32").per_second
        assert (cuda.matmul.fp32_precision, float32_precision.name()) == ("tf32", "tf32")
    finally:
        float32_precision.write(before)
