"""Figures of what was measured, as rows of text with bars: where time went, memory, how near operations came to a roof.

    time_figure("03-tensors", rows_of(section.costs), "…")    Bars("03-tensors-time", "“Strides” takes 61% of 7 ms", …)

Rows fit on a phone and on paper, their labels are read whole, and Markdown shows the same figure. A figure that would
show nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from trace_tools.analysis.rates import WORTH_SHOWING_NS, StatementCost
from trace_tools.presentation.report import Bar, Bars
from trace_tools.util import formats

MOST_ROWS = 12
LEAST_SHARE = 0.01  # of the longest bar that is worth a row
NEARLY_ALL = 0.9  # a part with this share of a time is no finding, but what took it
LEAST_BYTES = 4096  # sections with less have no figure of memory
LEAST_OPERATIONS = 3  # fewer under a roof show nothing that the notes do not say
MEMORY = (
    "The most bytes of tensors at once: of each part, and of the statements that needed more than all before them in "
    "their call. They were counted in a run of its own, and are a lower bound: temporary memory inside an operation is "
    "not seen."
)
ROOF = (
    "Operations whose FLOPs and bytes were counted. What limits one is its roof: the machine's bandwidth if it does "
    "few FLOPs for each byte, else the peak of its format."
)
ABOVE = (
    " Above 100% is what read from a cache (a small memory, faster than that bandwidth), or needed fewer FLOPs than "
    "are counted; or the roof was measured too low."
)

CostRow = tuple[int, str, StatementCost]  # depth, link, a statement or a part


def rows_of(costs: Iterable[StatementCost], page: str = "", depth: int = 0) -> Iterator[CostRow]:
    """Yield statements, each before those that it called; `page` is where they are, "" for the current page."""
    for cost in costs:
        yield depth, f"{page}#{cost.anchor}" if cost.anchor else "", cost
        yield from rows_of(cost.inside, page, depth + 1)


def time_figure(page: str, found: Iterable[CostRow], caption: str) -> Iterator[Bars]:
    """Yield the figure of time, if there is enough to be worth one."""
    rows = list(found)
    outer = [cost for depth, _, cost in rows if depth == 0]
    whole = sum(cost.ns for cost in outer)
    bars = _bars(rows, lambda cost: cost.ns, formats.duration)
    if whole >= WORTH_SHOWING_NS and len(bars) > 1:
        longest = max(outer, key=lambda cost: cost.ns)
        while longest.ns > NEARLY_ALL * whole and longest.inside:
            longest = max(longest.inside, key=lambda cost: cost.ns)
        title = f"{_quoted(longest.label)} takes {formats.percent(longest.ns / whole)} of {formats.duration(whole)}"
        yield Bars(f"{page}-time", title, bars, caption)


def memory_figure(page: str, costs: Iterable[StatementCost]) -> Iterator[Bars]:
    """Yield the figure of memory, if tensors took enough."""
    rows = list(rows_of(_rising(costs)))
    bars = _bars(rows, lambda cost: cost.peak_bytes, lambda size: formats.byte_size(size, 3))
    most = max((cost for *_, cost in rows), key=lambda cost: (cost.peak_bytes, cost.is_code), default=None)
    if most is not None and most.peak_bytes >= LEAST_BYTES and len(bars) > 1:
        title = f"{_quoted(most.label)} takes the most memory: {formats.byte_size(most.peak_bytes, 3)}"
        yield Bars(f"{page}-memory", title, bars, MEMORY)


def _rising(costs: Iterable[StatementCost]) -> Iterator[StatementCost]:
    """Yield parts, and the statements that needed more memory than all before them in their call."""
    highest = 0
    for cost in costs:
        if not cost.is_code or cost.peak_bytes > highest:
            yield replace(cost, inside=tuple(_rising(cost.inside)))
        highest = max(highest, cost.peak_bytes)


def roof_figure(page: str, found: Iterable[Bar]) -> Iterator[Bars]:
    """Yield the figure of operations by the share of their roof, if they are enough different ones."""
    bars = sorted(found, key=lambda bar: -bar.share)
    if len({bar.soft for bar in bars}) >= LEAST_OPERATIONS:
        best, last = bars[0], bars[-1]
        title = f"{_quoted(best.label)} reaches {best.number} of its roof, {_quoted(last.label)} {last.number}"
        rows = [replace(bar, share=bar.share / max(best.share, 1)) for bar in bars[:MOST_ROWS]]
        yield Bars(f"{page}-roofline", title, rows, ROOF + ABOVE * (best.share > 1))


def _bars(rows: Sequence[CostRow], amount: Callable[[StatementCost], int], text: Callable[[int], str]) -> list[Bar]:
    """Return the rows with the largest amounts, in order; those that called them have no smaller ones."""
    most = max((amount(cost) for *_, cost in rows), default=0)
    largest = sorted(range(len(rows)), key=lambda n: -amount(rows[n][2]))[:MOST_ROWS]
    return [
        Bar(cost.label, amount(cost) / most, text(amount(cost)), link=link, depth=depth, is_code=cost.is_code)
        for depth, link, cost in (rows[n] for n in sorted(largest))
        if amount(cost) > LEAST_SHARE * most
    ]


def _quoted(label: str) -> str:
    return f"“{formats.one_line(label, 60)}”"
