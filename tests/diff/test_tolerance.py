"""The tolerances are torch.testing's, or wider where asked for."""

from __future__ import annotations

import pytest

from tests.diff.planted import at, differ, made, tensor, with_steps
from trace_tools.diff.judge.between import Choices
from trace_tools.diff.judge.tolerance import FLOOR, Tolerances
from trace_tools.errors import UsageError


def test_a_wider_tolerance_makes_a_change_rounding() -> None:
    b = with_steps(made(0), at(6, values=[("y", tensor(elements=[1.0, 2.0, 3.0, 4.01]))]))
    assert differ(made(0), b).matters
    wide = differ(made(0), b, Choices(tolerances=Tolerances.parse(["float32=0.01"])))
    assert [f.verdict for _, f in wide.findings("values")] == ["rounding"]
    assert ("float32", 0.01) in [(t.dtype, t.relative) for t in wide.tolerances]


def test_the_floor_is_that_of_torch_testing() -> None:
    from torch.testing._comparison import _DTYPE_PRECISIONS

    table = {str(dtype).removeprefix("torch."): precision for dtype, precision in _DTYPE_PRECISIONS.items()}
    assert dict(FLOOR) == table


@pytest.mark.parametrize("text", ["", "x", "int64=0.1", "-1", "nan", "float32=2"])
def test_a_tolerance_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"--tolerance .*expected"):
        Tolerances.parse([text])
