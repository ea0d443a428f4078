"""Export a trace in Chrome's trace event format (the JSON object form), for Perfetto and chrome://tracing.

    json.dumps(events_of(trace))
    # {"traceEvents": [{"name": "matmul", "cat": "call", "ph": "X", "ts": 0.0, "dur": 912.4, "pid": 1, …}, …], …}

Calls and statements are slices ("X"), memory is a counter ("C"). The launch time on the host and the time on the device
are slices on two further tracks for each thread. A trace records how long each step took, not when. So slices follow
one another in the order of the run, and calls are inside the step that made them. A slice is as long as its median over
the passes, or as its content if that is longer. Times are in microseconds, as the format requires (Trace Event Format,
"Complete Events", "Counter Events", "Metadata Events").
"""

from __future__ import annotations

import statistics
from collections.abc import Generator, Iterator
from typing import Any

from trace_tools.analysis.summaries import summary
from trace_tools.errors import UsageError
from trace_tools.trace.model import Frame, Omitted, Step, Trace
from trace_tools.trace.tree import Tree

PROCESS = 1
MAIN_THREAD = "main"

Json = dict[str, Any]


def events_of(trace: Trace) -> Json:
    """Return a trace as events. Raises UsageError for a trace without times."""
    laid_out = _Timeline(trace)
    for frame in laid_out.tree.frames.values():
        if frame.of is None:
            stack = [laid_out.call(frame, laid_out.now)]  # generators that yield inner ones, however deep
            ended: float | None = None
            while stack:
                try:
                    stack.append(next(stack[-1]) if ended is None else stack[-1].send(ended))
                    ended = None
                except StopIteration as done:
                    stack.pop()
                    ended = float(done.value)
            laid_out.now = ended or 0.0
    if not laid_out.now:
        raise UsageError("the trace has no times to draw")
    return {
        "traceEvents": [*laid_out.names(), *laid_out.events],
        "displayTimeUnit": "ns",
        "otherData": {
            "title": trace.title,
            "machine": trace.machine.name,
            "started": trace.run.started,
            "times": "medians over the passes, laid end to end: a trace records durations, but no start times",
        },
    }


# Lays out a call or a step: yields its content, receives when that ended, and returns its own end.
Layout = Generator["Layout", float, float]


class _Timeline:
    """Lays out calls and steps, in nanoseconds from the start."""

    def __init__(self, trace: Trace) -> None:
        self.tree, self.now = Tree(trace), 0.0
        self.events: list[Json] = []
        self._title = f"{trace.title} on {trace.machine.name}"
        self._lines = [source.text.split("\n") for source in trace.sources]
        threads = dict.fromkeys(frame.thread or MAIN_THREAD for frame in self.tree.frames.values())
        self._threads = {name: number for number, name in enumerate(threads, 1)}
        self._tracks: dict[str, int] = {}  # of launches and of the device, by name; numbered after the threads
        self._ended: dict[int, float] = {}  # by track: when its last slice ended

    def names(self) -> Iterator[Json]:
        """Yield the names of the process, its threads, and their further tracks."""
        yield self._metadata("process_name", 0, self._title)
        for name, number in {**self._threads, **self._tracks}.items():
            yield self._metadata("thread_name", number, name)

    def _metadata(self, kind: str, thread: int, name: str) -> Json:
        return {"name": kind, "ph": "M", "ts": 0, "pid": PROCESS, "tid": thread, "args": {"name": name}}

    def call(self, frame: Frame, start: float, thread: int | None = None) -> Layout:
        """Lay out a call that starts at a given time; return its end."""
        thread = self._threads[frame.thread] if frame.thread else thread or self._threads.get(MAIN_THREAD, 1)
        slice_ = self._slice(frame.function, "call", start, thread)
        slice_["args"] = {name: summary(value) for name, value in frame.arguments or []}
        end = start
        for step in self.tree.steps_of(frame.frame):
            end = yield self._step(step, frame, end, thread)
        for left_out in self.tree.omitted_in(frame.frame):
            end = self._omitted(left_out, frame, end, thread)
        slice_["dur"] = (end - start) / 1000
        return end

    def _step(self, step: Step, frame: Frame, start: float, thread: int) -> Layout:
        slice_ = self._slice(self._code(frame, step.line), "step", start, thread)
        slice_["args"] = {"line": step.line} | {name: summary(value) for name, value in step.values or []}
        inner = end = start
        for called in self.tree.calls(step.id):
            if called.thread is None:
                inner = yield self.call(called, inner, thread)
                end = max(end, inner)
            else:
                end = max(end, (yield self.call(called, start)))
        end = max(end, start + statistics.median(step.host_ns or step.cold_ns or [0]))
        for kind, samples in (("launch", step.launch_ns), ("device", step.device_ns)):
            if samples:
                end = max(end, self._beside(kind, samples, slice_))
        slice_["dur"] = (end - start) / 1000
        if step.allocated_bytes is not None:
            self._counter("allocated on the device", end, {"bytes": step.allocated_bytes})
        if step.meters is not None and step.meters.live_bytes is not None:
            self._counter("live tensors", end, {"bytes": step.meters.live_bytes})
        return end

    def _beside(self, kind: str, samples: list[int], step: Json) -> float:
        """Add a step's launch time, or its device time, to that track of its thread; return its end.

        It lasts at least as long as its inner steps, which were added before.
        """
        thread = next(name for name, number in self._threads.items() if number == step["tid"])
        names = {"launch": f"{thread}: launched by the host", "device": f"{thread}: on the device"}
        track = self._tracks.setdefault(names[kind], 1 + len(self._threads) + len(self._tracks))
        start: float = 1000 * step["ts"]
        end = max(start + statistics.median(samples), self._ended.get(track, 0.0))
        self._slice(step["name"], kind, start, track)["dur"] = (end - start) / 1000
        self._ended[track] = end
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
