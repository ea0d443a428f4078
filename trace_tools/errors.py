"""Errors that users can cause: each has a one-line message and an exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class TraceToolsError(Exception):
    """Base class of errors that the command line shows as one line."""

    exit_code = 2

    def __reduce__(self) -> tuple[Any, ...]:
        # rebuilt from its message after another process raised it
        return _made_again, (type(self), str(self), vars(self))


def _made_again(kind: type[TraceToolsError], message: str, attributes: dict[str, Any]) -> TraceToolsError:
    error = kind.__new__(kind, message)
    error.args = (message,)
    vars(error).update(attributes)
    return error


class LectureError(TraceToolsError):
    """A mistake in the lecture's source: `path:line: what was found; what was expected`."""

    def __init__(self, path: str | Path, line: int | None, message: str) -> None:
        position = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{position}: {message}")
        self.line = line


class TraceFileError(TraceToolsError):
    """A trace file that cannot be read or does not follow the schema: `path: steps[12].line: …`."""

    def __init__(self, path: str | Path, where: str | None, message: str) -> None:
        super().__init__(f"{path}: {where}: {message}" if where else f"{path}: {message}")
        self.where = where
        self.message = message


class NothingRecordedError(TraceToolsError):
    """A run ended before its first step."""


class UsageError(TraceToolsError):
    """A request that cannot be met: a missing device or section, or a folder that is not writable."""


NO_THREAD = "can't start new thread"  # Python's message if the system allows no more threads


def is_refusal(error: BaseException) -> bool:
    """Return whether an error means that the system refused a file, memory, a process or a thread."""
    return isinstance(error, OSError | MemoryError) or (isinstance(error, RuntimeError) and str(error) == NO_THREAD)


def in_words(error: BaseException) -> str:
    """Return one line for an error of the project or the system, or for exhausted memory."""
    if isinstance(error, OSError):
        why = error.strerror or str(error) or type(error).__name__
        return f"{error.filename}: {why}" if error.filename else why
    return "out of memory" if isinstance(error, MemoryError) else str(error)
