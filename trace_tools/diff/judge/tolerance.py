"""Decide how far two numbers of a dtype may differ and still be equal except for rounding.

The minimum is the table of `torch.testing.assert_close` (torch 2.13, `torch/testing/_comparison.py`), without importing
torch; a wider relative tolerance can be set.

    tolerances = Tolerances.parse(["bfloat16=0.05"])
    tolerances.of("float32")              # Tolerance("float32", 1.3e-06, 1e-05)
    tolerances.close(1.0, 1.000001, "float32")  # True
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from trace_tools.diff.difference import Tolerance
from trace_tools.errors import UsageError

FLOOR: Mapping[str, tuple[float, float]] = MappingProxyType(  # dtype → (relative, absolute)
    {
        "float16": (1e-3, 1e-5),
        "bfloat16": (1.6e-2, 1e-5),
        "float32": (1.3e-6, 1e-5),
        "float64": (1e-7, 1e-7),
        "complex32": (1e-3, 1e-5),
        "complex64": (1.3e-6, 1e-5),
        "complex128": (1e-7, 1e-7),
        "quint8": (1.3e-6, 1e-5),
        "quint2x4": (1.3e-6, 1e-5),
        "quint4x2": (1.3e-6, 1e-5),
        "qint8": (1.3e-6, 1e-5),
        "qint32": (1.3e-6, 1e-5),
    }
)
INEXACT = ("float", "bfloat", "complex", "q")  # prefixes of the dtypes that a tolerance can apply to


@dataclass(frozen=True, slots=True)
class Tolerances:
    """The minimum tolerances and wider relative ones by dtype; "" applies to every inexact dtype."""

    wider: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Tolerances:
        """Parse `1e-3` (for every floating dtype) and `bfloat16=0.05`. Raises UsageError for anything else."""
        wider = {}
        for text in texts:
            dtype, _, number = text.rpartition("=")
            try:
                relative = float(number)
            except ValueError:
                relative = math.nan
            if not 0 <= relative < 1 or (dtype and not dtype.startswith(INEXACT)):
                raise UsageError(f"--tolerance {text[:60]}: expected 0 ≤ number < 1, as in 1e-3 or bfloat16=0.05")
            wider[dtype] = relative
        return cls(wider)

    def of(self, dtype: str) -> Tolerance:
        """Return the tolerance of a dtype; zero for dtypes without rounding."""
        relative, absolute = FLOOR.get(dtype, (0.0, 0.0))
        if dtype.startswith(INEXACT):
            relative = max(relative, self.wider.get(dtype, self.wider.get("", 0.0)))
        return Tolerance(dtype, relative, absolute)

    def close(self, a: float, b: float, dtype: str) -> bool:
        """Return whether b equals a within tolerance; nan equals nan, and an infinity only itself."""
        if a == b or (a != a and b != b):
            return True
        tolerance = self.of(dtype)
        try:
            if not (math.isfinite(a) and math.isfinite(b)):
                return False
            return abs(b - a) <= tolerance.absolute + tolerance.relative * abs(a)
        except OverflowError:  # an integer beyond the range of floats
            return False
