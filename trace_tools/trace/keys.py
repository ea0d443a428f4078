"""Identify the same call and the same step in several runs, ranks or traces.

A call is the n-th call of its function in one step. A step is the n-th execution of its statement in one call.

    positions, calls = Positions(), CallCounter()         # for all runs; for this run
    main = positions.of_call(calls.key(TOP, "main"))      # 0 in all runs
    step = positions.of_step(StepKey(main, statement=3, execution=2))
    positions.keys[step]                                  # StepKey(0, 3, 2)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import NamedTuple

TOP = -1  # the caller of a call that no traced step made
OMITTED = 0  # the execution of the totals that stand for executions beyond the limit


class CallKey(NamedTuple):
    """Identifies a call."""

    caller: int  # position of the step that made the call, or TOP
    function: Hashable
    number: int  # among the calls of this function in the step, from 1


class StepKey(NamedTuple):
    """Identifies a step."""

    call: int  # position of the call
    statement: int
    execution: int  # among the executions of this statement in the call, from 1


class CallCounter:
    """Numbers the calls of one run, in their order."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[int, Hashable]] = Counter()

    def key(self, caller: int, function: Hashable) -> CallKey:
        """Return the key of the next call of a function in a step."""
        self._calls[caller, function] += 1
        return CallKey(caller, function, self._calls[caller, function])


class Positions:
    """Gives each key a position: a number that is the same in all runs."""

    def __init__(self) -> None:
        self.keys: list[CallKey | StepKey] = []  # by position
        self._of_calls: dict[CallKey, int] = {}  # apart, because a call's key may equal a step's
        self._of_steps: dict[StepKey, int] = {}

    def of_call(self, key: CallKey) -> int:
        """Return the position of a call."""
        position = self._of_calls.setdefault(key, len(self.keys))
        if position == len(self.keys):
            self.keys.append(key)
        return position

    def of_step(self, key: StepKey) -> int:
        """Return the position of a step."""
        position = self._of_steps.setdefault(key, len(self.keys))
        if position == len(self.keys):
            self.keys.append(key)
        return position
