"""Bytes read and written equal numbers of elements by hand times their size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tests.cases_in_one import each
from trace_tools.metering.meters import Meter

N = 100


def moved(f: Callable[[], Any]) -> tuple[int, int]:
    with Meter() as meter:
        f()
    return meter.totals.bytes_read, meter.totals.bytes_written


X, Y, OUT = torch.rand(N), torch.rand(N), torch.empty(N)
A, B = torch.rand(8, 16), torch.rand(16, 4)
TABLE, ROWS = torch.rand(1000, 16), torch.tensor([1, 5, 5])
MASK = torch.rand(N) > 0.5
HALF = torch.rand(N).bfloat16()

# (what runs, bytes read, bytes written)
CASES: dict[str, tuple[Callable[[], Any], int, int]] = {
    "sum of two": (lambda: X + Y, 8 * N, 4 * N),
    "an operand passed twice": (lambda: X * X, 4 * N, 4 * N),
    "with a number": (lambda: X * 2, 4 * N, 4 * N),
    "in place": (lambda: X.mul_(1), 4 * N, 4 * N),
    "in place, of two": (lambda: X.add_(Y, alpha=0), 8 * N, 4 * N),
    "into out": (lambda: torch.add(X, Y, out=OUT), 8 * N, 4 * N),
    "overwriting by a copy": (lambda: OUT.copy_(X), 4 * N, 4 * N),
    "overwriting by a value": (lambda: OUT.zero_(), 0, 4 * N),
    "overwriting by chance": (lambda: OUT.uniform_(), 0, 4 * N),
    "bf16": (lambda: HALF.relu(), 2 * N, 2 * N),
    "cast": (lambda: X.bfloat16(), 4 * N, 2 * N),
    "comparison": (lambda: X > Y, 8 * N, N),
    "choice": (lambda: torch.where(MASK, X, Y), 9 * N, 4 * N),
    "reduction": (lambda: X.sum(), 4 * N, 4),
    "to Python": (lambda: X[3].item(), 4, 0),
    "matrix product": (lambda: A @ B, 4 * (8 * 16 + 16 * 4), 4 * 8 * 4),
    "its own transpose": (lambda: A @ A.T, 4 * 8 * 16, 4 * 8 * 8),
    "expanded": (lambda: X.expand(50, N).sum(), 4 * N, 4),
    "expanded, made real": (lambda: X.expand(50, N).contiguous(), 4 * N, 50 * 4 * N),
    "a part": (lambda: A[:, :2] + 1, 4 * 16, 4 * 16),
    "overlapping windows": (lambda: X.unfold(0, 10, 1).sum(), 4 * N, 4),
    "views": (lambda: (X[3:], A.T, A.view(-1), A.expand(2, 8, 16), A.split(2), A.detach(), A.unsqueeze(0)), 0, 0),
    "reshape that views": (lambda: A.reshape(128), 0, 0),
    "reshape that copies": (lambda: A.T.reshape(128), 4 * 128, 4 * 128),
    "empty": (lambda: (torch.empty(N), torch.empty_like(X), X.new_empty(3)), 0, 0),
    "zeros": (lambda: torch.zeros(N), 0, 4 * N),
    "ones like": (lambda: torch.ones_like(X), 0, 4 * N),
    "random": (lambda: torch.randn(N), 0, 4 * N),
    "concatenation": (lambda: torch.cat([X, Y]), 8 * N, 8 * N),
    "embedding": (lambda: F.embedding(ROWS, TABLE), 3 * 8 + 3 * 64, 3 * 64),
    "indexing": (lambda: TABLE[ROWS], 3 * 8 + 3 * 64, 3 * 64),
    "gather": (lambda: TABLE.gather(0, ROWS[:, None]), 3 * 8 + 3 * 4, 3 * 4),
    "picking the targets": (lambda: F.nll_loss(TABLE[:3], torch.tensor([1, 2, 3])), 3 * 8 + 3 * 4, 4 + 4),
    "assigning rows": (lambda: TABLE.__setitem__(ROWS, 0.0), 3 * 8 + 4, 3 * 64),
    "adding to rows": (lambda: TABLE.index_add_(0, ROWS, torch.empty(3, 16)), 3 * 8 + 2 * 3 * 64, 3 * 64),
    "what a mask lets through": (lambda: X.masked_select(X < 0), 4 * N + N, N),
    "a triangle": (lambda: SQUARE.tril(), 4 * 55, 4 * 100),
    "a triangle without its diagonal": (lambda: SQUARE.triu(1), 4 * 45, 4 * 100),
    "a triangle, in place": (lambda: SQUARE.tril_(-1), 0, 4 * 55),
    "a diagonal": (lambda: SQUARE.diag(), 4 * 10, 4 * 10),
    "searching": (lambda: torch.searchsorted(X, Y[:3]), 3 * 4 + 3 * 4, 3 * 8),
    "sorting into buckets": (lambda: torch.bucketize(Y[:3], X), 3 * 4 + 3 * 4, 3 * 8),
    "the largest of some": (lambda: X.scatter_reduce_(0, ROWS, Y[:3], "amax"), 3 * 8 + 3 * 4 + 3 * 4, 3 * 4),
    "rows that are not too long": (lambda: F.embedding(ROWS, TABLE, max_norm=1e9), 3 * 8 + 3 * 64, 3 * 64),
    "cropping": (lambda: F.pad(SQUARE, (-4, -4, -4, -4)), 4 * 4, 4 * 4),
    "pooling without": (lambda: F.avg_pool2d(IMAGE, 2), 4 * 100, 4 * 25),
    "what differs at once": (lambda: torch.equal(X, Y), 0, 0),
    "what is equal": (lambda: torch.equal(X, X.clone()), 4 * N + 8 * N, 4 * N),
    "added to nothing": (lambda: torch.addmm(A[:, :4], A, B, beta=0), 4 * (8 * 16 + 16 * 4), 4 * 8 * 4),
    "lists": (lambda: torch._foreach_add_([X, Y], 1.0), 8 * N, 8 * N),
    "meta": (lambda: torch.empty(N, device="meta") + 1, 0, 0),
}
SQUARE, IMAGE = torch.rand(10, 10), torch.rand(1, 1, 10, 10)


@each("name", CASES)
def test_bytes_read_and_written(name: str) -> None:
    f, read, written = CASES[name]
    assert moved(f) == (read, written)


def test_gradients_of_an_embedding_write_the_whole_table() -> None:
    table = TABLE.clone().requires_grad_()
    y = F.embedding(ROWS, table)
    grad = torch.ones_like(y)
    assert moved(lambda: torch.autograd.grad(y, table, grad)) == (3 * 8 + 3 * 64, 1000 * 64)


def test_fused_adam_reads_four_and_writes_three_tensors() -> None:
    p = torch.nn.Parameter(torch.rand(N))
    p.grad = torch.rand(N)
    optimizer = torch.optim.Adam([p], fused=True)
    optimizer.step()
    step = 4  # bytes of the step count, which is read twice and written once
    assert moved(optimizer.step) == (4 * 4 * N + 2 * step, 3 * 4 * N + step)


def test_attention_reads_its_operands_and_writes_its_result() -> None:
    q, k, v = (torch.rand(1, 2, 32, 8) for _ in range(3))
    read, written = moved(lambda: F.scaled_dot_product_attention(q, k, v))
    assert read == 3 * q.nbytes
    assert q.nbytes <= written <= q.nbytes + 4 * 2 * 32  # plus log-sum-exp per row, but not the 32 × 32 scores
