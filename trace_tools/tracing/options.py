"""The options of a trace, in one table: the command line, projects and worker processes read it.

    options = TraceOptions(passes=5, only="matmul")
    OPTIONS["passes"].help                         "How many times to run the lecture, each in a new process."
    options.recorded()                             {"passes": 5, "seed": 0, …}: fields of `Run`, the head of the trace
    TraceOptions.from_plain(asdict(options))       the same options; also after a way through JSON

To add an option, add a field here, and the code that acts on it. `config` makes it an option of `trace`; worker
processes receive all options as JSON, so each value is a text, a number, a bool, None or a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from enum import Flag, auto
from typing import Any

from trace_tools.errors import UsageError
from trace_tools.machines.devices import FORMS, checked

SEEDS = range(-(2**63), 2**64)  # the seeds that `torch.manual_seed` takes


class Scope(Flag):
    """Where an option is known besides the command line of `trace`."""

    PROJECT = auto()  # a project can set its default in pyproject.toml
    RECORDED = auto()  # a field of `Run` repeats it in the trace


PROJECT, RECORDED = Scope
NOWHERE = Scope(0)


@dataclass(frozen=True, slots=True)
class Option:
    """How one option is written and explained."""

    type: Callable[[str], Any]  # converts the text of the command line
    scope: Scope
    help: str
    metavar: str | None = None
    flags: tuple[str, ...] = ()  # ("-m", "--module"); by default made from the field's name
    least: int | None = None


def read_seed(text: str | int) -> int:
    """Return a seed. Raises UsageError if torch would not take it."""
    with suppress(ValueError):
        if int(text) in SEEDS:
            return int(text)
    raise UsageError(f"--seed {text}: expected a whole number of 64 bits")


def _option(default: Any, *described: Any, **more: Any) -> Any:
    return field(default=default, metadata={"option": Option(*described, **more)})


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How to trace a lecture."""

    module: str | None = _option(
        None, str, NOWHERE, "Trace a module inside a package instead of a file.", "PACKAGE.MODULE", ("-m", "--module")
    )
    device: str | None = _option(
        None, checked, PROJECT, f"Device to run on: {FORMS} (default: cuda if this machine has one).", "DEVICE"
    )
    passes: int = _option(
        3, int, PROJECT | RECORDED, "How many times to run the lecture, each in a new process.", least=1
    )
    seed: int = _option(0, read_seed, PROJECT | RECORDED, "Seed of the random number generators.", "N")
    limit: int = _option(100, int, PROJECT | RECORDED, "How many executions of each statement to keep.", "N", least=2)
    only: str | None = _option(
        None, str, RECORDED, "Run only this section: one of the functions that `main` calls.", "SECTION"
    )
    keep_going: bool | None = _option(
        None, bool, PROJECT | RECORDED, "After an error, record it and run the next section (default: not on a CPU)."
    )
    inspect_all: bool = _option(
        False, bool, PROJECT | RECORDED, "Record every value that is assigned, as if marked @inspect."
    )
    include: tuple[str, ...] = _option((), str, NOWHERE, "Also trace this module or package.", "PATH|MODULE")
    name: str | None = _option(None, str, NOWHERE, "Name of this machine's folder (default: the device's name).")
    draft: bool = _option(False, bool, NOWHERE, "Run once, for a quick look at the pages.")
    force: bool = _option(False, bool, NOWHERE, "Replace the trace in this machine's folder, whatever it is.")

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TraceOptions:
        """Return the options that were written as JSON, which has lists instead of tuples."""
        given: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
        return cls(**given)

    def recorded(self) -> dict[str, Any]:
        """Return the fields of `Run` that repeat options, once `keep_going` is decided."""
        return {name: getattr(self, name) for name, option in OPTIONS.items() if RECORDED in option.scope}

    @property
    def package(self) -> str:
        """The package of the lecture, or "" if the lecture is a single file."""
        return (self.module or "").rpartition(".")[0]


def flag_of(name: str) -> str:
    """Return the long form of an option on the command line."""
    return (OPTIONS[name].flags or (f"--{name.replace('_', '-')}",))[-1]


OPTIONS: Mapping[str, Option] = {one.name: one.metadata["option"] for one in fields(TraceOptions)}
DEFAULTS = TraceOptions()
