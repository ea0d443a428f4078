"""Decide which calls of a run are recorded, so that the important ones find room whatever ran before them."""

from __future__ import annotations

from _thread import get_ident

from trace_tools.tracing.recorder.frames import OpenFrame
from trace_tools.tracing.recorder.recording import Frame, Recording


class Admission:
    """Decides for each call of one run whether it is recorded."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.count_at = 0  # step number of the next count of steps
        self.section_began = 0  # steps kept before the last section began
        self.room_until = 0  # step number below which any call has room: kept steps cannot exceed begun steps

    def is_admitted(self, number: int, parent: OpenFrame | None) -> bool:
        """Return whether a call is recorded, and count it: neither the calls of its function nor the steps have reached
        their limit.
        """
        retention = self.recorder.retention
        has_room = retention.opened.get(number, 0) < self.recorder.settings.frames
        if parent is not None and not (has_room and parent.seq < self.room_until and parent.parent is not None):
            has_room = self._make_room(number, parent)
        calls = retention.opened if has_room else retention.refused
        calls[number] = calls.get(number, 0) + 1
        return has_room

    def _make_room(self, number: int, parent: OpenFrame) -> bool:
        """Return whether there is room for a call; in a loop, it may displace calls made in earlier executions, except
        the last.
        """
        retention, most_calls = self.recorder.retention, self.recorder.settings.frames
        most_steps = self._room_for(number, parent)

        def is_full() -> bool:
            return retention.opened.get(number, 0) >= most_calls or retention.steps >= most_steps

        loop = parent.loop_caller or parent
        tail = loop.loop_tails.get(loop.current) if loop.current is not None and is_full() else None
        while tail and loop.thread == get_ident() and is_full() and tail.can_free_steps():
            tail.leave_out_oldest()
        return not is_full()

    def _room_for(self, number: int, parent: OpenFrame) -> int:
        """Return the number of kept steps up to which the run still keeps a call.

        The shares ensure that readers find the important calls, whatever ran before them. Plain functions may use four
        eighths of all steps, functions that inspect, assert or emit six eighths, and sections all; an eighth of each is
        reserved for calls in the last executions of loops. Below a section, the share is half of the steps that
        remained of it when the section began, so that the next section has room.
        """
        eighth = self.recorder.settings.steps // 8
        for_loops = eighth if parent.here is self.recorder.pending and parent.beyond is None else 0
        if parent.parent is None:
            self.section_began, self.room_until = self.recorder.retention.steps, 0
            return 8 * eighth - for_loops
        self._count_steps(parent)
        began = self.section_began

        def half(steps: int) -> int:
            return began + max(0, steps - began) // 2

        # A call makes at least one step: until that many more have begun, calls of every kind have room.
        self.room_until = parent.seq + max(0, half(3 * eighth) - self.recorder.retention.steps)
        return half((6 if number in self.recorder.program.annotated else 4) * eighth - for_loops)

    def _count_steps(self, frame: Frame | None) -> None:
        """Count the steps kept by the running calls, unless they were counted a few steps ago."""
        if isinstance(frame, OpenFrame) and frame.seq >= self.count_at:
            depth, self.count_at = 0, frame.seq
            while frame is not None:
                frame.account()
                frame, depth = frame.parent, depth + 1
            self.count_at += min(100 + depth, self.recorder.settings.steps // 100)
