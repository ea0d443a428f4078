"""A lecture in edtrace's words"""

import math
import sys
from dataclasses import dataclass

from edtrace import Reference, graph, image, link, note, plot, system_text, text, url_reference, video

rounding = Reference(
    title="What Every Programmer Should Know",
    authors=["Ada Example", "Bo Sample"],
    date="1991-03-01",
    url="https://example.org/rounding.pdf",
)
standard = url_reference("https://example.org/standards/754")


@dataclass(frozen=True)
class Interval:
    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


def main():
    text("# Finding a root")
    text("- bisection "), link(bisection)
    bisection()
    costs()
    pictures()


def article(url: str):
    return link(title=" [article]", url=url)


def bisection():
    text("A continuous function that changes its sign has a root "), link(rounding), text(".")
    text("Halve the "), link(Interval), text(" that holds it "), article("https://example.org/halving"), link(standard)
    note("Ask for the sign at both ends first.")
    interval = Interval(0.0, 2.0)  # @inspect interval interval.width
    for _ in range(3):
        interval = halved(interval, lambda x: x * x - 2)  # @inspect interval.width
    text(f"After 3 steps the width is {interval.width}.", style={"color": "green"})
    traced = bool(sys.gettrace())  # @inspect traced


def halved(interval: Interval, function) -> Interval:  # @inspect interval
    middle = (interval.low + interval.high) / 2  # @inspect middle
    if function(interval.low) * function(middle) <= 0:
        return Interval(interval.low, middle)
    return Interval(middle, interval.high)


def costs():
    """What a digit costs"""
    bits = math.log2(10)  # @inspect bits
    text("A decimal digit takes", style={"fontWeight": "bold"}), text(f" {bits:.2f} steps.")
    system_text(["echo", "10 digits"])
    plot({"data": {"values": [{"step": step, "width": 2.0**-step} for step in range(8)]}, "mark": "line"})


def pictures():
    text("### From the web"), image("https://example.org/images/root-of-two.png", width="40%")
    image("cs336_style/images/halving.svg", width=200)
    video("https://example.org/halving.mp4", width=300)
    graph(None)


if __name__ == "__main__":
    main()
