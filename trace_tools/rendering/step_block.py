"""A section's stops → one block of text that a page carries for its player.

Columns of numbers and texts as JSON, deflated, in base64: 10,000 stops are some 100 kB, and a browser has
them again in a few hundredths of a second. The same stops give the same bytes.

    block = step_block(section, budget=250_000)
    block.text                     "eNq1W…", for `player.js`
    block.kept, block.total        stops in it, and in the trace

Beyond the budget, stops are left out by what they teach: first those that repeat what the execution before
them showed, then all but the first and last executions, then whatever comes last.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trace_tools import formats, summaries
from trace_tools.rendering.document import PlayedFrame, Section, Seen, Stepping, Stop
from trace_tools.rendering.packing import deltas, packed, table
from trace_tools.schema import Value

BUDGET = 250_000  # characters of base64
PRINTED = 600  # characters of output beside a stop

CHANGES = ("same", "new", "changed", "written", "cleared")  # in the order of their numbers in the block
NOTES = ("held", "failed", "raised", "caught", "printed", "warning")


@dataclass(frozen=True, slots=True)
class StepBlock:
    """A section's stops as a page carries them."""

    text: str
    kept: int
    total: int


def step_block(section: Section, budget: int = BUDGET) -> StepBlock:
    """Return the block of a section, of at most `budget` characters."""
    stepping = section.stepping
    total = len(stepping.stops)
    told = [_told(stop) for stop in stepping.stops]
    for keep in (_all, _telling, _first_and_last):
        kept = keep(stepping.stops)
        text = _block(stepping, kept, told, section.shared)
        if len(text) <= budget:
            return StepBlock(text, len(kept), total)
    while kept and len(text) > budget:
        kept = kept[: min(len(kept) - 1, len(kept) * budget // len(text))]
        text = _block(stepping, kept, told, section.shared)
    return StepBlock(text, len(kept), total)


def _all(stops: Sequence[Stop]) -> list[int]:
    return list(range(len(stops)))


def _telling(stops: Sequence[Stop]) -> list[int]:
    """Keep first and last executions, and those that changed something, said something or called."""
    ends = set(_first_and_last(stops))
    return [index for index, stop in enumerate(stops) if index in ends or _tells(stop)]


def _tells(stop: Stop) -> bool:
    step = stop.step
    changed = any(seen.change != "same" for seen in stop.seen)
    failed = step.claim is not None and not step.claim.held
    return changed or failed or bool(step.raised or step.stdout or step.warnings or step.narrative or stop.inside)


def _first_and_last(stops: Sequence[Stop]) -> list[int]:
    """Keep the first and the last execution of each statement in each call."""
    first: dict[tuple[int, tuple[int, int]], int] = {}
    last: dict[tuple[int, tuple[int, int]], int] = {}
    for index, stop in enumerate(stops):
        first.setdefault((stop.frame, stop.statement), index)
        last[stop.frame, stop.statement] = index
    return sorted({*first.values(), *last.values()})


@dataclass(frozen=True, slots=True)
class _Told:
    """A stop's texts, written once however often its block is packed."""

    time: str
    notes: list[tuple[int, str]]
    seen: list[tuple[str, str, str, int, str]]  # name, text, grid, change, storage


def _told(stop: Stop) -> _Told:
    return _Told(_time(stop), list(_notes(stop)), [_seen(one) for one in stop.seen])


def _block(stepping: Stepping, kept: Sequence[int], told: Sequence[_Told], shared: Sequence[str]) -> str:
    return packed(_Columns(stepping, kept, [told[index] for index in kept], shared).columns())


class _Columns:
    """The stops that are kept, column by column; names and addresses are places in tables."""

    def __init__(self, stepping: Stepping, kept: Sequence[int], told: Sequence[_Told], shared: Sequence[str]) -> None:
        self._stepping = stepping
        self._told = told
        self._stops = [stepping.stops[index] for index in kept]
        self._place = {index: place for place, index in enumerate(kept)}
        self._kept = kept
        self._shared = shared

    def columns(self) -> dict[str, Any]:
        stops = self._stops
        used = sorted({frame for stop in stops for frame in self._line_of_calls(stop.frame)})
        index = {frame: number for number, frame in enumerate(used)}
        return {
            "total": len(self._stepping.stops),
            "frames": self._frames([self._stepping.frames[frame] for frame in used]),
            "stops": {
                "number": deltas([stop.number for stop in stops]),
                "frame": deltas([index[stop.frame] for stop in stops]),
                "anchor": table(stop.anchor for stop in stops),
                "line": deltas([stop.line for stop in stops]),
                "code": table(formats.one_line(stop.code, 120) for stop in stops),
                "statement": table(f"{stop.statement[0]}:{stop.statement[1]}" for stop in stops),
                "execution": deltas([stop.execution for stop in stops]),
                "inside": [self._inside(place) for place in range(len(stops))],
                "time": [told.time for told in self._told],
            },
            "outputs": [[place, stop.outputs] for place, stop in enumerate(stops) if stop.outputs > 1],
            "seen": self._seen(),
            "notes": [[place, *note] for place, told in enumerate(self._told) for note in told.notes],
            "said": [[number, self._place[of]] for number, of in self._stepping.said if of in self._place],
        }

    def _line_of_calls(self, frame: int) -> Iterator[int]:
        """Yield a frame and the frames that called it."""
        at: int | None = frame
        while at is not None:
            yield at
            of = self._stepping.frames[at].of
            at = self._stepping.stops[of].frame if of is not None else None

    def _frames(self, frames: Sequence[PlayedFrame]) -> dict[str, Any]:
        return {
            "name": table(formats.one_line(frame.function, 60) for frame in frames),
            "of": [self._caller(frame) for frame in frames],
            "number": [frame.number for frame in frames],
            "total": [frame.total for frame in frames],
        }

    def _caller(self, frame: PlayedFrame) -> int:
        """Return the place of the stop that called a frame, -1 for none; where it was left out, of its statement."""
        if frame.of is None:
            return -1
        if frame.of in self._place:
            return self._place[frame.of]
        caller = self._stepping.stops[frame.of]
        same = (p for p, s in enumerate(self._stops) if (s.frame, s.statement) == (caller.frame, caller.statement))
        return next(same, -1)

    def _inside(self, place: int) -> int:
        """Return how many of the stops that are kept happened during one of them."""
        last = self._kept[place] + self._stops[place].inside
        return bisect_right(self._kept, last) - place - 1

    def _seen(self) -> dict[str, Any]:
        seen = [(place, *one) for place, told in enumerate(self._told) for one in told.seen]
        places, names, texts, grids, changes, storages = zip(*seen, strict=True) if seen else ((),) * 6
        return {
            "stop": deltas(places),
            "name": table(names),
            "text": texts,
            "grid": grids,
            "change": changes,
            "storage": table(storages),
            "shared": [formats.one_line(label, 20) for label in self._shared],
        }


def _seen(seen: Seen) -> tuple[str, str, str, int, str]:
    tensor = seen.value.tensor if seen.value is not None else None
    return (
        formats.one_line(seen.name, 60),
        summaries.summary(seen.value) if seen.value is not None else "",
        _grid(seen.value),
        CHANGES.index(seen.change) + 8 * seen.argument,
        formats.one_line(tensor.storage, 20) if tensor is not None and tensor.storage else "",
    )


def _grid(value: Value | None) -> str:
    """Write a small matrix as lines of cells between tabs."""
    if value is None or value.tensor is None or not summaries.is_small(value):
        return ""
    [(_, rows)] = summaries.grids(value.tensor)
    return "\n".join("\t".join(row) for row in rows)


def _time(stop: Stop) -> str:
    timing = stop.timing
    if timing is None or timing.clock == "launch":
        return ""
    return formats.duration(statistics.median(timing.samples_ns)) + (" a call" if timing.clock == "call" else "")


def _notes(stop: Stop) -> Iterator[tuple[int, str]]:
    """Yield what a stop has to say beside values: how its claim stood, what it raised, printed and warned of."""
    step, failure = stop.step, stop.failure
    if step.claim is not None:
        yield NOTES.index("held" if step.claim.held else "failed"), summaries.claim_summary(step.claim)
    if failure is not None:
        text = formats.one_line(f"{failure.type}: {failure.message}", 200)
        yield NOTES.index("caught" if failure.caught else "raised"), text
    if step.stdout:
        yield NOTES.index("printed"), formats.visible(formats.shorten(step.stdout.rstrip("\n"), PRINTED))
    for warning in (step.warnings or ())[:3]:
        yield NOTES.index("warning"), formats.one_line(warning, 200)
