"""The errors a person can cause: each owns its one-line message and its exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class TraceToolsError(Exception):
    """Base of every error that the command line shows as one line."""

    exit_code = 2

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (type(self), str(self), vars(self))  # from another process, by what it says


def _made_again(kind: type[TraceToolsError], message: str, attributes: dict[str, Any]) -> TraceToolsError:
    error = kind.__new__(kind, message)
    error.args = (message,)
    vars(error).update(attributes)
    return error


class LectureError(TraceToolsError):
    """Something in the lecture's source is wrong: `path:line: what was found; what was expected`."""

    def __init__(self, path: str | Path, line: int | None, message: str) -> None:
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{place}: {message}")
        self.line = line


class TraceFileError(TraceToolsError):
    """A trace file can't be read or does not follow the schema: `path: steps[12].line: …`."""

    def __init__(self, path: str | Path, where: str | None, message: str) -> None:
        super().__init__(f"{path}: {where}: {message}" if where else f"{path}: {message}")
        self.where = where


class NothingRecordedError(TraceToolsError):
    """A run ended before its first step."""


class UsageError(TraceToolsError):
    """The request itself can't be met: no such device, no such section, no place to write."""


NO_THREAD = "can't start new thread"  # what Python says where the system allows no more


def is_refusal(error: BaseException) -> bool:
    """Whether it is the system that refuses something: a file, memory, a process or a thread."""
    return isinstance(error, OSError | MemoryError) or (isinstance(error, RuntimeError) and str(error) == NO_THREAD)


def in_words(error: BaseException) -> str:
    """Return one line for an error: one of the project's, of the system, or that memory is used up."""
    if isinstance(error, OSError):
        why = error.strerror or str(error) or type(error).__name__
        return f"{error.filename}: {why}" if error.filename else why
    return "memory is used up" if isinstance(error, MemoryError) else str(error)
