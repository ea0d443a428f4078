"""Reduce a trace's events to a size limit, dropping samples before facts.

The least important data is dropped first: histograms and corners of large tensors and samples of varying
values, then elements, then long texts. The identity of steps, and their times, shapes and claims, are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trace_tools.trace.model import Event, Step, Tensor, Value
from trace_tools.trace.plain_yaml import flow
from trace_tools.trace.structure import to_plain

CAP_BYTES = 64 << 20
LONG_TEXT = 1000

Thin = Callable[[Value], Value]


def capped(events: list[Event], cap_bytes: int = CAP_BYTES) -> tuple[list[Event], list[str]]:
    """Return the events reduced to `cap_bytes` as far as possible, and descriptions of the dropped data."""
    events, dropped = [*events], []
    sizes = [_size(event) for event in events]
    for description, thin in STAGES:
        if sum(sizes) <= cap_bytes:
            break
        for index, event in enumerate(events):
            if not isinstance(event, Step):
                continue
            values = [(source, thin(value)) for source, value in event.values] if event.values else event.values
            stdout = event.stdout
            if thin is _without_long_text and stdout is not None:
                stdout = stdout[:LONG_TEXT]
            thinned = replace(event, values=values, stdout=stdout)
            if thinned != event:
                events[index], sizes[index] = thinned, _size(thinned)
        dropped.append(f"{description} (the trace was larger than {cap_bytes >> 20} MiB)")
    return events, dropped


def _size(event: Event) -> int:
    return len(flow(to_plain(event)))


def _without_samples(value: Value) -> Value:
    return replace(_in_tensor(value, _without_corner), samples=None)


def _without_elements(value: Value) -> Value:
    return replace(
        _in_tensor(value, lambda tensor: replace(tensor, elements=None)), items=None, entries=None, labels=None
    )


def _without_long_text(value: Value) -> Value:
    if isinstance(value.value, str) and len(value.value) > LONG_TEXT:
        value = replace(value, value=value.value[:LONG_TEXT], length=value.length or len(value.value))
    return replace(value, text=value.text[:LONG_TEXT]) if value.text else value


def _without_corner(tensor: Tensor) -> Tensor:
    statistics = tensor.statistics and replace(tensor.statistics, histogram=None)
    return replace(tensor, corner=None, corner_shape=None, statistics=statistics)


def _in_tensor(value: Value, change: Callable[[Tensor], Tensor]) -> Value:
    return replace(value, tensor=change(value.tensor)) if value.tensor else value


STAGES: tuple[tuple[str, Thin], ...] = (
    ("corners and histograms of large tensors, samples of varying values", _without_samples),
    ("elements", _without_elements),
    ("long texts", _without_long_text),
)
