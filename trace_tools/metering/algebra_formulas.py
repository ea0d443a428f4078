"""Count FLOPs of factorisations, solvers and Fourier transforms from the sizes of their matrices.

Each formula takes an operator's arguments, keyword arguments and result. Counts of dense factorisations are the leading
terms in LAPACK Working Note 41 (Blackford and Dongarra, "Installation guide for LAPACK", 1999, appendix C), with k the
smaller and K the larger side of a matrix:

    Cholesky, LDLᵀ                n³/3            from LU to the inverse         4n³/3
    LU (also det, slogdet)        K·k² − k³/3     from Cholesky to the inverse   2n³/3
    QR                            2K·k² − 2k³/3   a triangular system            n² per right-hand side
    Q of k reflectors, m × n      4mnk − 2(m + n)k² + 4k³/3
    Qᵀ times an m × n matrix      4mnk − 2nk²

A Fourier transform of n complex numbers is 5·n·log₂(n), of n real numbers half of that; over several dimensions, n is
the product of their sizes. FFTW's authors state speeds by these counts (https://www.fftw.org/speed/), which equal the
real operations of radix 2.

Eigenvalues, singular values and functions that need them (`pinv`, the matrix exponential's degree) take a number of
steps that depends on the values, not on the shapes, so they have no formula.

    FORMULAS["linalg_cholesky_ex"]((a,), {}, (l, info))  # n³/3 per matrix
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import log2, prod
from typing import Any

import torch

from trace_tools.metering.operators import Arguments, Keywords

Formula = Callable[[Arguments, Keywords, Any], int]
THIRD = Fraction(1, 3)


# ------------------------------------------------------------ factorisations


def _lu(m: int, n: int) -> Fraction:
    small, large = sorted((m, n))
    return large * small**2 - THIRD * small**3


def _orthogonal(m: int, n: int, k: int) -> Fraction:
    """Return the FLOPs that form m × n of the orthogonal matrix described by k reflectors."""
    return 4 * m * n * k - 2 * (m + n) * k**2 + 4 * THIRD * k**3


def _qr(a: torch.Tensor, mode: str) -> Fraction:
    m, n = a.shape[-2:]
    k = min(m, n)
    columns = {"r": 0, "reduced": k, "complete": m}[mode]
    return 2 * _lu(m, n) + (_orthogonal(m, columns, k) if columns else 0)


def _least_squares(a: torch.Tensor, b: torch.Tensor, driver: str | None) -> Fraction:
    """Count QR, Qᵀ·b and a triangular system; the drivers that use singular values have no formula."""
    if driver not in (None, "gels", "gelsy"):
        raise ValueError(driver)
    small, large = sorted(a.shape[-2:])
    columns = b.shape[-1] if b.dim() == a.dim() else 1
    return 2 * _lu(small, large) + columns * (4 * large * small - 2 * small**2 + small**2)


def _each(matrix: Callable[[Arguments, Keywords], Fraction | int], batch: int = 0) -> Formula:
    """Return a formula that counts one matrix, times the size of a batch (that of argument number `batch`)."""
    return lambda args, kwargs, out: int(prod(args[batch].shape[:-2]) * matrix(args, kwargs))


def _side(args: Arguments, index: int = 0) -> int:
    return int(args[index].shape[-1])


def _solved(systems: int, args: Arguments, solution: torch.Tensor) -> int:
    """Count n² for each triangular system and right-hand side; the solution has n numbers for each right-hand side."""
    return int(systems * _side(args) * solution.numel())


def _applied(args: Arguments, kwargs: Keywords) -> int:
    """Count Q·C or C·Q, with Q as reflectors."""
    m, n = args[2].shape[-2:]
    k, left = args[1].shape[-1], args[3] if len(args) > 3 else kwargs.get("left", True)
    return int(4 * m * n * k - 2 * (n if left else m) * k**2)


# ------------------------------------------------------------ Fourier transforms


def _fourier(real: bool, of_result: bool, args: Arguments, out: Any) -> int:
    """Count 5·n·log₂(n) for each transform of n numbers, half if one side is real; n is the size of the real side."""
    signal = out if of_result else args[0]
    n = prod(signal.shape[dim] for dim in args[1])
    return round((2.5 if real else 5) * signal.numel() * log2(n)) if n else 0


_LU = _each(lambda args, kwargs: _lu(*args[0].shape[-2:]))

FORMULAS: Mapping[str, Formula] = {
    **dict.fromkeys(
        ("linalg_cholesky_ex", "cholesky", "linalg_ldl_factor_ex"), _each(lambda args, kwargs: THIRD * _side(args) ** 3)
    ),
    **dict.fromkeys(("linalg_lu_factor_ex", "linalg_lu", "_linalg_det", "_linalg_slogdet"), _LU),
    "linalg_qr": _each(lambda args, kwargs: _qr(args[0], args[1] if len(args) > 1 else kwargs.get("mode", "reduced"))),
    "geqrf": _each(lambda args, kwargs: _qr(args[0], "r")),
    "linalg_householder_product": _each(
        lambda args, kwargs: _orthogonal(args[0].shape[-2], _side(args), _side(args, 1))
    ),
    "ormqr": _each(_applied, batch=2),
    "linalg_inv_ex": _each(lambda args, kwargs: 2 * _side(args) ** 3),  # LU and the inverse from it
    "cholesky_inverse": _each(lambda args, kwargs: 2 * THIRD * _side(args) ** 3),
    "_linalg_solve_ex": lambda args, kwargs, out: _LU(args, kwargs, out) + _solved(2, args, out[0]),
    **dict.fromkeys(("linalg_lu_solve", "linalg_ldl_solve"), lambda args, kwargs, out: _solved(2, args, out)),
    "cholesky_solve": lambda args, kwargs, out: _solved(2, args[1:], out),
    "linalg_solve_triangular": lambda args, kwargs, out: _solved(1, args, out),
    "triangular_solve": lambda args, kwargs, out: _solved(1, args[1:], out[0]),
    "linalg_lstsq": _each(
        lambda args, kwargs: _least_squares(args[0], args[1], args[3] if len(args) > 3 else kwargs.get("driver"))
    ),
    "_fft_c2c": lambda args, kwargs, out: _fourier(False, False, args, out),
    "_fft_r2c": lambda args, kwargs, out: _fourier(True, False, args, out),
    "_fft_c2r": lambda args, kwargs, out: _fourier(True, True, args, out),
}
