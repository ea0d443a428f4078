from __future__ import annotations

import pytest

from tests.messages import says
from tests.presentation.reading import places, read, words
from trace_tools.presentation.charts.memory import MemoryPoint, memory


def test_the_line_follows_the_bytes_and_the_peak_is_labelled() -> None:
    sizes = [(0, 0), (8192, 8192), (8192, 65536), (4096, 4096)]
    points = [MemoryPoint(n, live, peak, f"line {10 + n}", f"#L{10 + n}") for n, (live, peak) in enumerate(sizes, 1)]
    root = read(memory(points, "memory"))
    line = next(p for p in root.iter("path") if p.get("stroke", "none") != "none" and "H" in p.get("d", ""))
    heights = [y for _, y in places(line.get("d", ""))]
    low, high = max(heights), min(heights)
    assert heights[-1] - low == pytest.approx((high - low) / 2, abs=0.11)  # 4 KiB of 8
    assert "line 13: 64 KiB" in words(root)
    assert says(next(root.iter("desc")).text, "4 steps", "64 KiB", "line 13", "4 KiB")


def test_many_steps_keep_their_peak_and_tiny_memory_is_omitted() -> None:
    points = [MemoryPoint(n, 4096, 10**9 if n == 77_777 else 4096, f"line {n}", None) for n in range(1, 100_001)]
    figure = memory(points, "memory")
    assert figure is not None and len(figure) < 60_000 and "line 77777" in figure
    assert memory([MemoryPoint(1, 64, 64, "line 1", None)] * 3, "memory") is None
