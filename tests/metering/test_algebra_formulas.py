"""FLOPs of factorisations equal those of textbook algorithms, FLOPs of an FFT those of a radix-2 transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.cases_in_one import each
from trace_tools.metering.meters import Meter


def flops(f: Callable[[], Any]) -> int:
    with Meter() as meter:
        f()
    assert not meter.uncounted
    return meter.flops


def lu(m: int, n: int) -> int:
    """Count Gaussian elimination: per column one quotient per row, then a product and a difference per element."""
    return sum((m - c - 1) + 2 * (m - c - 1) * (n - c - 1) for c in range(min(m, n)))


def cholesky(n: int) -> int:
    return sum(1 + (n - c - 1) + (n - c - 1) * (n - c) for c in range(n))  # √, quotients, the lower triangle


def householder(m: int, n: int) -> int:
    """Count QR: per reflector a product with a vector and an outer product, both with the remaining matrix."""
    return sum(4 * (m - c) * (n - c) for c in range(min(m, n)))


def triangular(n: int) -> int:
    return sum(2 * row + 1 for row in range(n))


N, M = 200, 300
A, TALL, WIDE, B = torch.randn(N, N), torch.randn(M, N), torch.randn(N, M), torch.randn(N, 50)
SPD = A @ A.T + N * torch.eye(N)
CHOLESKY, (LU, PIVOTS) = torch.linalg.cholesky(SPD), torch.linalg.lu_factor(A)
REFLECTORS, TAUS = torch.geqrf(TALL)
CASES: dict[str, tuple[Callable[[], Any], float]] = {
    "LU": (lambda: torch.linalg.lu_factor(A), lu(N, N)),
    "LU, tall": (lambda: torch.linalg.lu_factor(TALL), lu(M, N)),
    "LU, wide": (lambda: torch.linalg.lu(WIDE), lu(N, M)),
    "determinant": (lambda: torch.linalg.slogdet(A), lu(N, N)),
    "Cholesky": (lambda: torch.linalg.cholesky(SPD), cholesky(N)),
    "a batch": (lambda: torch.linalg.cholesky(SPD.expand(3, 2, N, N)), 6 * cholesky(N)),
    "solve": (lambda: torch.linalg.solve(A, B), lu(N, N) + 50 * 2 * triangular(N)),
    "solve a vector": (lambda: torch.linalg.solve(A, B[:, 0]), lu(N, N) + 2 * triangular(N)),
    "solve from the right": (lambda: torch.linalg.solve(A, B.T, left=False), lu(N, N) + 50 * 2 * triangular(N)),
    "LU solve": (lambda: torch.linalg.lu_solve(LU, PIVOTS, B), 50 * 2 * triangular(N)),
    "Cholesky solve": (lambda: torch.cholesky_solve(B, CHOLESKY), 50 * 2 * triangular(N)),
    "triangular": (lambda: torch.linalg.solve_triangular(CHOLESKY, B, upper=False), 50 * triangular(N)),
    "inverse": (lambda: torch.linalg.inv(A), lu(N, N) + 4 / 3 * N**3),
    "R of QR": (lambda: torch.linalg.qr(TALL, "r"), householder(M, N)),
    "QR": (lambda: torch.linalg.qr(TALL), 2 * householder(M, N)),
    "QR, wide": (lambda: torch.linalg.qr(WIDE), householder(N, M) + householder(N, N)),
    "Q times a matrix": (lambda: torch.ormqr(REFLECTORS, TAUS, TALL), sum(4 * (M - c) * N for c in range(N))),
    "least squares": (
        lambda: torch.linalg.lstsq(TALL, TALL[:, :1]),
        householder(M, N) + sum(4 * (M - c) for c in range(N)) + triangular(N),
    ),
}


@each("name", CASES)
def test_factorisations_cost_what_textbook_algorithms_cost(name: str) -> None:
    f, by_hand = CASES[name]
    assert flops(f) == pytest.approx(by_hand, rel=0.03)  # formulas have leading terms only


def radix_2(real: torch.Tensor, imaginary: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Transform complex numbers, given as two real tensors, with real butterflies (Cooley and Tukey, 1965)."""
    n = len(real)
    if n == 1:
        return real, imaginary
    (a, b), (c, d) = (radix_2(real[start::2], imaginary[start::2]) for start in (0, 1))
    twiddle = torch.polar(torch.ones(n // 2), -2 * torch.pi / n * torch.arange(n // 2))
    with torch.no_grad():
        x, y = twiddle.real.contiguous(), twiddle.imag.contiguous()
    e, f = c * x - d * y, c * y + d * x
    return torch.cat([a + e, a - e]), torch.cat([b + f, b - f])


def test_a_transform_costs_what_its_butterflies_cost() -> None:
    n = 64
    z = torch.randn(n, dtype=torch.complex64)
    with Meter() as meter:
        real, imaginary = radix_2(z.real, z.imag)
    torch.testing.assert_close(torch.complex(real, imaginary), torch.fft.fft(z))
    butterflies = sum(meter.flops_by_operator[f"aten.{name}"] for name in ("add", "sub", "mul")) - sum(
        2**level * n // 2 ** (level + 1) for level in range(6)
    )  # the angles of the twiddles
    assert flops(lambda: torch.fft.fft(z)) == butterflies == 5 * n * 6
    assert flops(lambda: torch.fft.ifft(z)) == butterflies
    assert flops(lambda: torch.fft.rfft(z.real)) == flops(lambda: torch.fft.irfft(z[: n // 2 + 1])) == butterflies // 2
    assert flops(lambda: torch.fft.fft2(z.reshape(8, 8))) == butterflies  # 8 rows and 8 columns of 8
    assert flops(lambda: torch.fft.fft(z.reshape(8, 8))) == butterflies // 2


def test_algorithms_that_depend_on_values_are_not_counted() -> None:
    with Meter() as meter:
        torch.linalg.svd(A)
        torch.linalg.eigh(SPD)
        torch.linalg.lstsq(TALL, TALL[:, :1], driver="gelsd")
    assert meter.flops == 0
    assert set(meter.uncounted) == {"aten._linalg_svd", "aten._linalg_eigh", "aten.linalg_lstsq"}
