"""What a lecture's own `sys.settrace` or `sys.setprofile` function sees: the events of the plain run.

    with plain_events(path, runner): ...    # `runner` is the code from which the lecture is called
        sys.settrace(f); sys.gettrace()     # f, though what Python calls is something around it

Left out are calls of the tools, and of what they call in turn, and lines of probes. A generated instruction has a
place without width, which no written one has; and since an event for a line comes with the first of its instructions,
which may be a probe's, those events are made from the instructions.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from trace_tools.tracing.replaced import replaced

BY_INSTRUCTION = sys.version_info < (3, 12)  # since then a call can't ask for events of its own instructions
TOOLS = tuple(f"{Path(__file__).parents[1] / part}" for part in ("tracing", "describing", "metering/meters.py"))

Listener = Callable[[FrameType, str, Any], Any]


@contextmanager
def plain_events(path: str, runner: CodeType) -> Iterator[None]:
    """Tell trace and profile functions set inside the `with` block nothing of the tools; `path` is the lecture's."""

    def setting(set_listener: Callable[[Any], None], *, traces: bool) -> Callable[[Any], None]:
        def settrace(function: Listener | None) -> None:
            if function is None:
                return set_listener(None)
            seen = _Seen(function, path, runner)
            return set_listener(seen.trace if traces else seen.profile)

        return settrace

    def getting(get_listener: Callable[[], Any]) -> Callable[[], Any]:
        def gettrace() -> Any:
            current = get_listener()
            seen = getattr(current, "__self__", None)
            return seen.function if isinstance(seen, _Seen) else current

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


class _Seen:
    """A function of the lecture's, and what it is to see."""

    def __init__(self, function: Listener, path: str, runner: CodeType) -> None:
        self.function = function
        self.path = path
        self.runner = runner

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Hear of a call, and return what hears of its lines."""
        if is_of_tools(frame, self.path, self.runner):
            return None
        local = self.function(frame, event, arg)
        if local is None or frame.f_code.co_filename != self.path:
            return local
        frame.f_trace_opcodes = BY_INSTRUCTION
        return _Lines(local, frame).trace

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        """Hear of calls and returns."""
        of_probe = frame.f_code.co_filename == self.path and event.startswith("c_") and is_generated(frame)
        if not of_probe and not is_of_tools(frame, self.path, self.runner):
            self.function(frame, event, arg)


def is_of_tools(frame: FrameType, path: str, runner: CodeType) -> bool:
    """Whether a call is a probe's, or is made by the tools otherwise: by what listens to standard output, say."""
    caller = frame.f_back if frame.f_code.co_filename == path else frame
    while caller is not None and caller.f_code is not runner:
        if caller.f_code.co_filename == path:
            return is_generated(caller)
        if caller.f_code.co_filename.startswith(TOOLS):
            return True
        caller = caller.f_back
    return False


class _Lines:
    """Hears of the instructions in one call, and tells of lines."""

    def __init__(self, local: Listener, frame: FrameType) -> None:
        self.local = local
        self.line: int | None = None
        self.last = frame.f_lasti
        if not is_generated(frame):  # a generator that is resumed
            self.line = _places(frame.f_code)[self.last // 2][0]

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" and BY_INSTRUCTION:
            return self.trace
        if event == "line" and not _begins_line(frame):
            return self.trace
        if event == "opcode":
            if is_generated(frame):
                return self.trace
            line, last = self.line, self.last
            self.line, self.last = _places(frame.f_code)[frame.f_lasti // 2][0], frame.f_lasti
            if self.line == line and self.last >= last:
                return self.trace
            event = "line"
        self.local = self.local(frame, event, arg) or self.local
        return self.trace


def _begins_line(frame: FrameType) -> bool:
    """Whether a line that Python says has begun is one of the lecture: a probe's is where its statement follows.

    The header of a loop may be told twice: for the probe at the end of its body, and for itself.
    """
    code, index = frame.f_code, frame.f_lasti // 2
    places = _places(code)
    line = places[index][0]
    while index < len(places) and _without_width(places[index]):
        index += 1
    return index < len(places) and places[index][0] == line


def is_generated(frame: FrameType) -> bool:
    """Whether the instruction at which a frame is has no place, or one without width."""
    return _without_width(_places(frame.f_code)[max(0, frame.f_lasti) // 2])


def _without_width(place: tuple[int | None, ...]) -> bool:
    line, end_line, column, end_column = place
    return (line, column) == (end_line, end_column)


@functools.lru_cache(maxsize=4096)
def _places(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())
