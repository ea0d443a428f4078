"""Whether the collector runs is asked of Python itself."""

from __future__ import annotations

import gc

from trace_tools.util.garbage import collector_paused


def test_it_is_as_it_was_afterwards() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
