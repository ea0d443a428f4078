"""Find out whether a claim has failed: its AssertionError leaves the section, and the lecture has not caught it."""

from __future__ import annotations

from trace_tools.describing.safe_repr import is_a

# read this way because a class of the lecture may define its own attribute
traceback_of = BaseException.__dict__["__traceback__"].__get__


class FailingClaims:
    """The claims of one run that have raised an error, until it leaves a section or is caught."""

    def __init__(self) -> None:
        # By id of the error: the step of its claim, and where it was raised. A reference would keep the objects in its
        # frames alive.
        self.steps: dict[int, tuple[int, tuple[str, int] | None]] = {}

    def note(self, error: BaseException, step: int) -> None:
        """Note that the claim of a step raised this error."""
        self.steps[id(error)] = step, _origin(error)

    def step_of(self, error: BaseException | None) -> int | None:
        """Return the step of the claim that raised this error, once; None for other errors.

        If a library has swallowed the error, another one may now have its address, but not its origin.
        """
        step, origin = self.steps.pop(id(error), (None, None))
        return step if is_a(type(error), AssertionError) and _origin(error) == origin else None


def _origin(error: BaseException | None) -> tuple[str, int] | None:
    """Return the file and line where an error was first raised; re-raising it elsewhere changes neither."""
    entry = traceback_of(error) if error is not None else None
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    return (entry.tb_frame.f_code.co_filename, entry.tb_lineno) if entry is not None else None
