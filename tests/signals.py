"""Signals that a shell's background jobs ignore, and `nohup`: what tests start is to hear them all the same."""

from __future__ import annotations

import signal


def heard() -> None:
    """Let them do as they do by default: the `preexec_fn` of a process to which one is sent."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
