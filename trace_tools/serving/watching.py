"""Files → a call at each save of them.

    watch(session)       returns at Ctrl-C

Folders are watched, not files: an editor that saves by renaming a new file puts another one in the place.
"""

from __future__ import annotations

from pathlib import Path

import watchfiles

from trace_tools.serving.session import LOOKS, Session


def watch(session: Session) -> None:
    """Tell a session of each save; ends with KeyboardInterrupt."""
    while True:
        folders = _folders(session)
        for changes in watchfiles.watch(*sorted(folders), recursive=False, watch_filter=None):
            session.saved(Path(path) for _, path in changes)
            if _folders(session) != folders:
                break


def _folders(session: Session) -> frozenset[Path]:
    used = {path.parent for path in session.files}
    return frozenset(folder for folder in (*used, *LOOKS) if folder.is_dir())
