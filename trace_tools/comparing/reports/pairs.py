"""Machines side by side → a report of each against the base, step by step: pages beside the comparison.

found = pair_reports(comparison, home="../index.html")
found[0].label, found[0].headline, found[0].page  # "cpu-one-thread", "Differences that matter: …", "cpu-to-….html"
found[0].files                                    # {"cpu-to-cpu-one-thread.html": b"…", "….md": b"…"}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trace_tools.comparing.compare import Comparison
from trace_tools.comparing.difference import Side
from trace_tools.comparing.judging.between import Choices, difference_between
from trace_tools.comparing.matching.align import Aligned
from trace_tools.comparing.reports.entries import headline
from trace_tools.comparing.reports.report_html import difference_html
from trace_tools.comparing.reports.report_markdown import difference_markdown


@dataclass(frozen=True, slots=True)
class Pair:
    """One machine against the base."""

    label: str
    headline: str
    page: str
    text: str
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Beside:
    """What lies beside a report: the numbers, a report of each machine against the base, the site's index."""

    csv_name: str | None = None
    pairs: Sequence[Pair] = ()
    home: str | None = None


ALONE = Beside()


def pair_reports(comparison: Comparison, home: str | None = None) -> list[Pair]:
    """Return the report of every machine but the base; `home` is the index of the site they belong to."""
    base = comparison.sides[comparison.base]
    others = zip(comparison.sides, comparison.aligned, strict=True)
    return [_pair(base, other, home, aligned) for other, aligned in others if other is not base]


def _pair(base: Side, other: Side, home: str | None, aligned: Aligned | None) -> Pair:
    difference = difference_between(base, other, Choices(force=True), aligned)
    name = f"{_plain(base.label)}-to-{_plain(other.label)}"
    page, text = f"{name}.html", f"{name}.md"
    files = {
        page: difference_html(difference, home, beside="index.html").encode("utf-8"),
        text: difference_markdown(difference).encode("utf-8"),
    }
    return Pair(other.label, headline(difference), page, text, files)


def _plain(label: str) -> str:
    """Return a machine's label as a file may be named."""
    return re.sub(r"[^\w.-]+", "-", label).strip("-") or "machine"
