"""What ends a process at once, or makes another of it, and leaves Python no time: the journal is written before.

    with written_before(flush): ...    # in it, `os._exit(3)` calls `flush` and then does as it does

Else nothing would be known of the last 50 ms, in which a short lecture has its beginning and its end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import update_wrapper
from operator import itemgetter
from typing import Any

from trace_tools.tracing.replaced import replaced

# In `os`. All other ways to run a program instead of this one call one of these.
ENDS = ("_exit", "abort", "execv", "execve", "kill", "killpg")


@contextmanager
def written_before(flush: Callable[[], None]) -> Iterator[None]:
    """Call `flush` before each of `ENDS` that is called inside the `with` block."""
    with ExitStack() as stack:
        for name in ENDS:
            stack.enter_context(replaced(os, name, _End(getattr(os, name), flush)))
        yield


class _End:
    """One of these functions: Python asks for what it is to call, and no frame of ours stands in a traceback."""

    def __init__(self, function: Callable[..., Any], flush: Callable[[], None]) -> None:
        self.function = function
        self.flush = flush
        update_wrapper(self, function)

    @property
    def __call__(self) -> Callable[..., Any]:
        self.flush()
        return self.function

    def __reduce__(self) -> tuple[Any, ...]:
        return itemgetter(0), ((self.function,),)  # in another process, the function
