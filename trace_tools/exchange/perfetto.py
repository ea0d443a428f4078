"""A trace → Chrome's trace event format (the JSON object form), which Perfetto and chrome://tracing open.

    json.dumps(events_of(trace))
    # {"traceEvents": [{"name": "matmul", "cat": "call", "ph": "X", "ts": 0.0, "dur": 912.4, "pid": 1, …}, …], …}

Calls and statements are slices ("X"), the time of the device and memory counters ("C"). A trace knows how long each
step took, and not when: slices follow one another as they ran, those of calls inside the step that called, each as
long as its median over the passes, or as what is in it. Times are in microseconds, as the format has them
(Trace Event Format, "Complete Events", "Counter Events", "Metadata Events").
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from trace_tools.call_tree import Tree
from trace_tools.errors import UsageError
from trace_tools.schema import Frame, Omitted, Step, Trace
from trace_tools.summaries import summary

PROCESS = 1
MAIN_THREAD = "main"

Json = dict[str, Any]


def events_of(trace: Trace) -> Json:
    """Return a trace as events. Raises UsageError for a trace without times."""
    laid_out = _Timeline(trace)
    for frame in laid_out.tree.frames.values():
        if frame.of is None:
            laid_out.now = laid_out.call(frame, laid_out.now)
    if not laid_out.now:
        raise UsageError("the trace has no times, and nothing to lay out on a line of time")
    return {
        "traceEvents": [*laid_out.names(), *laid_out.events],
        "displayTimeUnit": "ns",
        "otherData": {
            "title": trace.title,
            "machine": trace.machine.name,
            "started": trace.run.started,
            "times": "medians over the passes, laid end to end: a trace has durations and no moments",
        },
    }


class _Timeline:
    """Lays calls and steps out, in nanoseconds from the beginning."""

    def __init__(self, trace: Trace) -> None:
        self.tree, self.now = Tree(trace), 0.0
        self.events: list[Json] = []
        self._title = f"{trace.title} on {trace.machine.name}"
        self._lines = [source.text.split("\n") for source in trace.sources]
        threads = dict.fromkeys(frame.thread or MAIN_THREAD for frame in self.tree.frames.values())
        self._threads = {name: number for number, name in enumerate(threads, 1)}

    def names(self) -> Iterator[Json]:
        """Yield the names of the process and its threads."""
        yield self._metadata("process_name", 0, self._title)
        for name, number in self._threads.items():
            yield self._metadata("thread_name", number, name)

    def _metadata(self, what: str, thread: int, name: str) -> Json:
        return {"name": what, "ph": "M", "ts": 0, "pid": PROCESS, "tid": thread, "args": {"name": name}}

    def call(self, frame: Frame, start: float, thread: int | None = None) -> float:
        """Lay out a call from a moment on; return when it ended."""
        thread = self._threads[frame.thread] if frame.thread else thread or self._threads.get(MAIN_THREAD, 1)
        slice_ = self._slice(frame.function, "call", start, thread)
        slice_["args"] = {name: summary(value) for name, value in frame.arguments or []}
        end = start
        for step in self.tree.steps_of(frame.frame):
            end = self._step(step, frame, end, thread)
        for left_out in self.tree.omitted_in(frame.frame):
            end = self._omitted(left_out, frame, end, thread)
        slice_["dur"] = (end - start) / 1000
        return end

    def _step(self, step: Step, frame: Frame, start: float, thread: int) -> float:
        slice_ = self._slice(self._code(frame, step.line), "step", start, thread)
        slice_["args"] = {"line": step.line} | {name: summary(value) for name, value in step.values or []}
        inner = end = start
        for called in self.tree.calls(step.id):
            if called.thread is None:
                inner = self.call(called, inner, thread)
                end = max(end, inner)
            else:
                end = max(end, self.call(called, start))
        end = max(end, start + _typical(step))
        slice_["dur"] = (end - start) / 1000
        if step.device_ns:
            self._counter("device time of a step", start, {"ns": statistics.median(step.device_ns)})
            self._counter("device time of a step", end, {"ns": 0})
        if step.allocated_bytes is not None:
            self._counter("allocated on the device", end, {"bytes": step.allocated_bytes})
        if step.meters is not None and step.meters.live_bytes is not None:
            self._counter("live tensors", end, {"bytes": step.meters.live_bytes})
        return end

    def _omitted(self, left_out: Omitted, frame: Frame, start: float, thread: int) -> float:
        name = f"{left_out.omitted:,} more of {self._code(frame, left_out.line)}"
        self._slice(name, "omitted", start, thread)["dur"] = left_out.host_ns / 1000
        return start + left_out.host_ns

    def _slice(self, name: str, kind: str, start: float, thread: int) -> Json:
        slice_ = {"name": name, "cat": kind, "ph": "X", "ts": start / 1000, "dur": 0.0, "pid": PROCESS, "tid": thread}
        self.events.append(slice_)
        return slice_

    def _counter(self, name: str, at: float, args: Json) -> None:
        self.events.append({"name": name, "cat": "counter", "ph": "C", "ts": at / 1000, "pid": PROCESS, "args": args})

    def _code(self, frame: Frame, line: int) -> str:
        lines = self._lines[frame.source] if frame.source < len(self._lines) else []
        return lines[line - 1].strip() if line <= len(lines) else f"line {line}"


def _typical(step: Step) -> float:
    """Return how long a step took: warm, else cold; 0 where nobody knows."""
    return statistics.median(step.host_ns or step.cold_ns or [0])
