"""Flush the journal before `os._exit` and similar calls, which end or replace the process at once.

    with written_before(flush): ...    # in it, `os._exit(3)` first calls `flush`

Otherwise the last 50 ms would be lost, and a short lecture may begin and end within that time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import update_wrapper
from operator import itemgetter
from typing import Any

from trace_tools.util.interpreter import replaced

# In `os`. All other functions that replace this program call these.
ENDS = ("_exit", "abort", "execv", "execve", "kill", "killpg")


@contextmanager
def written_before(flush: Callable[[], None]) -> Iterator[None]:
    """Call `flush` before each call of a function in `ENDS` inside the `with` block."""
    with ExitStack() as stack:
        for name in ENDS:
            stack.enter_context(replaced(os, name, _End(getattr(os, name), flush)))
        yield


class _End:
    """Wrapper of a function in `ENDS`. Python looks up the function to call, so tracebacks contain no frame of
    ours.
    """

    def __init__(self, function: Callable[..., Any], flush: Callable[[], None]) -> None:
        self.function = function
        self.flush = flush
        update_wrapper(self, function)

    @property
    def __call__(self) -> Callable[..., Any]:
        self.flush()
        return self.function

    def __reduce__(self) -> tuple[Any, ...]:
        return itemgetter(0), ((self.function,),)  # in another process, the original function
