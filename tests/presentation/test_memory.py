from __future__ import annotations

import pytest

from tests.messages import says
from tests.presentation.reading import places, read, words
from trace_tools.presentation.charts.memory import MemoryPoint, memory, memory_lines


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


def test_machines_share_an_axis_from_zero_to_gigabytes() -> None:
    sizes = [0, 1024, 2**20, None, 2**30, 2**30]
    root = read(memory_lines([("A cpu", sizes), ("B gpu", [0, 1024, 2**20, 2**20, 2**20, 0])], "memory"))
    assert {"0 B", "1 KiB", "32 KiB", "1 MiB", "1 GiB", "A cpu", "B gpu", "matched step"} <= set(words(root))
    first, second = (p for p in root.iter("path") if "H" in p.get("d", ""))
    assert first.get("stroke-width") == "4" and first.get("stroke") != second.get("stroke")
    assert first.get("d", "").count("M") == 2  # an unknown size is a gap
    ticks = {t.text: float(t.get("y", 0)) - 4 for t in root.iter("text")}
    assert max(y for _, y in places(second.get("d", ""))) == pytest.approx(ticks["0 B"], abs=0.11)
    assert min(y for _, y in places(second.get("d", ""))) == pytest.approx(ticks["1 MiB"], abs=0.11)
    assert next(root.iter("desc")).text == "A cpu: at most 1 GiB; B gpu: at most 1 MiB"
    assert list(root.iter("circle"))  # markers, because colours alone are not enough
    assert memory_lines([("A", [0, None])], "memory") is None
