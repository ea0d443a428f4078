"""Choose the run that a trace shows: the medoid of the candidates.

It is the run nearest to the others in everything that varied: values, both sides of claims, numbers in prose, and the
set of steps that ran. So a page shows one consistent run that is not an outlier.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from operator import is_
from typing import Any

from trace_tools.lecture.vocabulary import PROSE
from trace_tools.tracing.merge.reader import RecordedStep, RunRecord

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")  # in prose: 1,024 and 0.5 and 6.3e24


def most_typical(runs: Sequence[RunRecord]) -> RunRecord:
    """Return the run with the least total distance to all others; the first such run if several tie."""
    if len(runs) < 3:
        return runs[0]
    distances = [0.0] * len(runs)
    for position in dict.fromkeys(position for run in runs for position in run.steps_at):
        steps = [run.steps_at.get(position) for run in runs]
        if all(_is_the_same(steps[0], other) for other in steps):
            continue
        facts = [dict(_facts(step)) if step else {} for step in steps]
        for name in dict.fromkeys(name for of_run in facts for name in of_run):
            of_runs = [of_run.get(name) for of_run in facts]
            if all(fact == of_runs[0] for fact in of_runs):
                continue
            numbers = [fact for fact in of_runs if isinstance(fact, float)]
            span = max(numbers) - min(numbers) if numbers else 0.0
            for i, j in combinations(range(len(runs)), 2):
                one, other = of_runs[i], of_runs[j]
                if isinstance(one, float) and isinstance(other, float):
                    distance = abs(one - other) / span if span else 0.0
                else:
                    distance = float(one != other)
                distances[i] += distance
                distances[j] += distance
    return runs[min(range(len(runs)), key=lambda n: round(distances[n], 9))]


def _is_the_same(one: RecordedStep | None, other: RecordedStep | None) -> bool:
    """Return whether two runs certainly observed the same content: equal content is read as one object."""
    if one is None or other is None:
        return False
    pairs = [(one.values, other.values), (one.narrative, other.narrative)]
    return one.claim is other.claim and all(len(a) == len(b) and all(map(is_, a, b)) for a, b in pairs)


def _facts(step: RecordedStep) -> Iterator[tuple[tuple[Any, ...], float | str]]:
    """Yield all observations of a step that could vary; anything except a finite number as text."""
    yield ("ran",), "ran"
    for index, (_, _, value) in enumerate(step.values):
        yield ("value", index), _fact(value)
    for index, side in enumerate(step.claim[2] if step.claim else ()):
        yield ("side", index), _fact(side)
    for index, narrative in enumerate(step.narrative):
        template, numbers = template_of(words_of(narrative))
        yield ("narrative", index), template
        for slot, number in enumerate(numbers):
            yield ("narrative", index, slot), _as_number(number)


def _fact(value: Any) -> float | str:
    scalar = value.get("value") if isinstance(value, dict) else None
    if isinstance(scalar, (int, float)) and not isinstance(scalar, bool):
        return _as_number(str(scalar))
    return as_key(value)


def _as_number(digits: str) -> float | str:
    try:
        number = float(digits.replace(",", ""))
    except (ValueError, OverflowError):
        return digits
    return number if math.isfinite(number) else digits


def as_key(plain: Any) -> str:
    """Return plain data as text that is equal for equal data; unlike ==, also for nan and nan."""
    return json.dumps(plain, sort_keys=True)


def words_of(narrative: Mapping[str, Any]) -> str:
    """Return all text of a narrative call, including its numbers."""
    if narrative.get("kind") in PROSE:
        return str(narrative.get("text") or "")
    return json.dumps([narrative.get("rows"), narrative.get("series")])


def template_of(text: str) -> tuple[str, list[str]]:
    """Split a text into a template with a mark for each number, and the list of numbers."""
    return NUMBER.sub("#", text), NUMBER.findall(text)
