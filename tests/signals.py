"""Signals that `nohup` and a shell's background jobs ignore; processes that tests start must receive them."""

from __future__ import annotations

import signal


def heard() -> None:
    """Restore the default handlers; for use as the `preexec_fn` of a process that will receive a signal."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
