"""Find the recorded call that a Python stack, or a thread, works for.

The parent of a frame is found by walking the Python stack, so generators, coroutines, threads, exceptions and callbacks
from C++ need no stack of ours.
"""

from __future__ import annotations

import copy
import functools
import threading
import weakref
from _thread import get_ident
from sys import _current_frames
from types import FrameType
from typing import Any

from trace_tools.tracing.recorder.frames import OPAQUE, DroppedFrame, OpenFrame, nearest_recorded
from trace_tools.tracing.recorder.recording import Frame, Recording


class Ownership:
    """The owners of the stacks of one run."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        # by thread id: weak reference to the thread, and the frame that started it
        self.started_by: dict[int, tuple[Any, Frame]] = {}

    def owner(self, python_frame: FrameType | None) -> Frame | None:
        """Return the nearest traced frame on the stack, or the frame that started this thread."""
        owner = self._nearest(python_frame)
        if owner is not None or threading.get_ident() == threading.main_thread().ident:
            return owner
        if get_ident() in self.recorder.instruments.describer.guard.observing:  # such as a thread running a `__repr__`
            return DroppedFrame(self.recorder, 0, None)
        thread = threading._active.get(get_ident())  # type: ignore[attr-defined]
        if id(thread) in self.started_by:
            return self.started_by[id(thread)][1]
        # A C++ thread usually works for the main thread, such as autograd's thread for a device.
        return self.of_main_thread()

    def _nearest(self, python_frame: FrameType | None) -> Frame | None:
        """Return the nearest traced frame on a stack, or a dropped frame if `measure` or `count` lies between."""
        frames, opaque = self.recorder.frames, self.recorder.settings.opaque
        dropped = False
        while python_frame is not None:
            frame = frames.get(id(python_frame))
            # else the address belonged to a frame that is gone
            if frame is not None and frame.code is python_frame.f_code:
                return DroppedFrame(self.recorder, OPAQUE, frame) if dropped else frame
            if python_frame.f_code in opaque:
                dropped = True
            python_frame = python_frame.f_back
        return None

    def recorded_owner(self, python_frame: FrameType) -> OpenFrame | None:
        """Return the recorded call that a stack works for."""
        return nearest_recorded(self.owner(python_frame))

    def of_main_thread(self) -> Frame | None:
        """Return the nearest traced frame on the main thread's stack."""
        return self._nearest(_current_frames().get(threading.main_thread().ident or 0))

    def starts(self, thread: threading.Thread, python_frame: FrameType) -> None:
        """Note which step starts a thread. Threads are keyed by id, because a lecture's class of threads may lack a
        hash.
        """
        owner = self.owner(python_frame)
        if owner is None:
            return
        owner.pin()
        forget = functools.partial(self.started_by.pop, id(thread))
        starter = copy.copy(owner)
        if isinstance(starter, OpenFrame):
            starter.emissions = None  # the thread's output is recorded separately
        self.started_by[id(thread)] = weakref.ref(thread, lambda _: forget(None)), starter
