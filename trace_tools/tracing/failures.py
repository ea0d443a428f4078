"""Keep failures of the tools in a process of a trace, separate from how the lecture ended.

keep(Path("pass-1"), error)                  pass-1.traceback: the text that Python would print
in_words(Path("pass-1"))                     "trace-tools failed: TypeError: … (recorder.py:88)"
tracebacks(folder)                           of all processes of a run
"""

from __future__ import annotations

import traceback
from contextlib import suppress
from pathlib import Path

from trace_tools.util.formats import one_line

ENDING = ".traceback"
_HERE = str(Path(__file__).parents[1])
PROBES = tuple(f"{_HERE}/{part}" for part in ("describing/", "tracing/recorder/", "tracing/journal.py"))


def is_of_probes(error: BaseException) -> bool:
    """Return whether an exception that left the lecture started in the probes or the recorder.

    Recursion errors, memory errors and Ctrl-C do not count, because the lecture or the user may cause them anywhere.
    """
    if isinstance(error, (RecursionError, MemoryError, KeyboardInterrupt)):
        return False
    return _origin(error).startswith(PROBES)


def is_ours(error: BaseException) -> bool:
    """Return whether an exception in a process that runs no line of the lecture is a failure of the tools.

    A library that can't be loaded on this machine does not count.
    """
    return not isinstance(error, (ImportError, OSError)) or _origin(error).startswith(_HERE)


def keep(files: Path, error: BaseException) -> None:
    """Write the traceback of a failure next to a process's other files, if the disk allows it."""
    with suppress(OSError):
        text = "".join(traceback.format_exception(error))
        files.with_suffix(ENDING).write_text(text, encoding="utf-8", errors="backslashreplace")


def tracebacks(folder: Path) -> list[Path]:
    """Return the traceback files in a run's folder."""
    return sorted(folder.glob(f"*{ENDING}"))


def in_words(files: Path) -> str | None:
    """Return a failure of the tools in a process, if any, as one line; `files` is the path of its files."""
    try:
        lines = files.with_suffix(ENDING).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return None
    entries = [line.strip() for line in lines if line.startswith("  File ") and _HERE in line]
    where = ""
    if entries:  # '  File "/a/recorder.py", line 8, in x' → " (recorder.py:8)"
        path, _, position = entries[-1].removeprefix('File "').partition('", line ')
        where = f" ({Path(path).name}:{position.partition(',')[0]})"
    return f"trace-tools failed: {one_line(lines[-1] if lines else 'no reason was recorded', 200)}{where}"


def _origin(error: BaseException) -> str:
    """Return the file that raised an exception."""
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    return entry.tb_frame.f_code.co_filename if entry is not None else ""
