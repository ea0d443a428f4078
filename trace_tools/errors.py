"""Errors that users can cause: each has a one-line message and an exit code."""

from __future__ import annotations

from pathlib import Path


class TraceToolsError(Exception):
    """Base class of errors that the command line shows as one line."""

    exit_code = 2


class LectureError(TraceToolsError):
    """A mistake in the lecture's source: `path:line: found …; expected …`."""

    def __init__(self, path: str | Path, line: int | None, message: str) -> None:
        super().__init__(path, line, message)  # as they are, so that another process can make the error again
        self.line = line

    def __str__(self) -> str:
        path, line, message = self.args
        return f"{path}: {message}" if line is None else f"{path}:{line}: {message}"


class TraceFileError(TraceToolsError):
    """A trace file that cannot be read or does not follow the schema: (path, "line 12" or None, message)."""

    def __str__(self) -> str:
        return ": ".join(str(part) for part in self.args if part)


class NothingRecordedError(TraceToolsError):
    """A run ended before its first step."""


class UsageError(TraceToolsError):
    """A request that cannot be met, such as a missing device or section, or a folder that is not writable."""


def in_words(error: BaseException) -> str:
    """Return one line for an error of the project or the system, or for exhausted memory."""
    if isinstance(error, OSError):
        why = error.strerror or str(error) or type(error).__name__
        return f"{error.filename}: {why}" if error.filename else why
    return "out of memory" if isinstance(error, MemoryError) else str(error)
