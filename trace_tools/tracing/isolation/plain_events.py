"""Filter the events that a lecture's own `sys.settrace` or `sys.setprofile` function receives to those of the plain
run.

    with plain_events(path, runner): ...    # `runner` is the code from which the lecture is called
        sys.settrace(f); sys.gettrace()     # f, although Python calls a wrapper around it

Calls of the tools, calls made by these, and lines of probes are omitted. A generated instruction has a source position
without width, unlike any written instruction. Python emits a line event with the first instruction of a line, which may
be a probe's, so line events are derived from instruction events.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from trace_tools.util.interpreter import replaced

BY_INSTRUCTION = sys.version_info < (3, 12)  # from 3.12 on, a call can't request events of its own instructions
TOOLS = tuple(
    f"{Path(__file__).parents[2] / part}"
    for part in ("tracing", "describing", "metering/meters.py", "metering/compiling.py", "util/interpreter.py")
)

Listener = Callable[[FrameType, str, Any], Any]


@contextmanager
def plain_events(path: str, runner: CodeType) -> Iterator[None]:
    """Hide the tools from trace and profile functions that are set inside the `with` block; `path` is the lecture's."""

    def setting(set_listener: Callable[[Any], None], *, traces: bool) -> Callable[[Any], None]:
        def settrace(function: Listener | None) -> None:
            if function is None:
                return set_listener(None)
            filtered = _Filtered(function, path, runner)
            return set_listener(filtered.trace if traces else filtered.profile)

        return settrace

    def getting(get_listener: Callable[[], Any]) -> Callable[[], Any]:
        def gettrace() -> Any:
            current = get_listener()
            filtered = getattr(current, "__self__", None)
            return filtered.function if isinstance(filtered, _Filtered) else current

        return gettrace

    with ExitStack() as stack:
        for name, new in (
            ("settrace", setting(sys.settrace, traces=True)),
            ("gettrace", getting(sys.gettrace)),
            ("setprofile", setting(sys.setprofile, traces=False)),
            ("getprofile", getting(sys.getprofile)),
        ):
            stack.enter_context(replaced(sys, name, new))
        yield


class _Filtered:
    """Wrapper of a lecture's function that forwards only the events of the plain run."""

    def __init__(self, function: Listener, path: str, runner: CodeType) -> None:
        self.function = function
        self.path = path
        self.runner = runner

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Forward a call event, and return the function that receives the events of its lines."""
        if is_of_tools(frame, self.path, self.runner):
            return None
        local = self.function(frame, event, arg)
        if local is None or frame.f_code.co_filename != self.path:
            return local
        frame.f_trace_opcodes = BY_INSTRUCTION
        return _Lines(local, frame).trace

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        """Forward call and return events."""
        of_probe = frame.f_code.co_filename == self.path and event.startswith("c_") and is_generated(frame)
        if not of_probe and not is_of_tools(frame, self.path, self.runner):
            self.function(frame, event, arg)


def is_of_tools(frame: FrameType, path: str, runner: CodeType) -> bool:
    """Return whether a call is a probe's or another call made by the tools, such as the listener of standard output."""
    caller = frame.f_back if frame.f_code.co_filename == path else frame
    while caller is not None and caller.f_code is not runner:
        if caller.f_code.co_filename == path:
            return is_generated(caller)
        if caller.f_code.co_filename.startswith(TOOLS):
            return True
        caller = caller.f_back
    return False


class _Lines:
    """Receiver of the instruction events of one call that emits line events."""

    def __init__(self, local: Listener, frame: FrameType) -> None:
        self.local = local
        self.line: int | None = None
        self.last = frame.f_lasti
        if not is_generated(frame):  # a resumed generator
            self.line = _positions(frame.f_code)[self.last // 2][0]

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" and (BY_INSTRUCTION or not _begins_line(frame)):
            return self.trace
        if event == "opcode":
            if is_generated(frame):
                return self.trace
            line, last = self.line, self.last
            self.line, self.last = _positions(frame.f_code)[frame.f_lasti // 2][0], frame.f_lasti
            if self.line == line and self.last >= last:
                return self.trace
            event = "line"
        self.local = self.local(frame, event, arg) or self.local
        return self.trace


def _begins_line(frame: FrameType) -> bool:
    """Return whether a line event belongs to a line of the lecture; for a probe, to the line of the statement after it.

    The header of a loop may get two events: for the probe at the end of its body, and for the header itself.
    """
    code, index = frame.f_code, frame.f_lasti // 2
    positions = _positions(code)
    line = positions[index][0]
    while index < len(positions) and _without_width(positions[index]):
        index += 1
    return index < len(positions) and positions[index][0] == line


def is_generated(frame: FrameType) -> bool:
    """Return whether a frame's current instruction has no source position, or a position without width."""
    return _without_width(_positions(frame.f_code)[max(0, frame.f_lasti) // 2])


def _without_width(position: tuple[int | None, ...]) -> bool:
    line, end_line, column, end_column = position
    return (line, column) == (end_line, end_column)


@functools.lru_cache(maxsize=4096)
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())
