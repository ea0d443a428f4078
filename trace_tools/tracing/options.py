"""Define the options of a trace in one table, which the command line and worker processes read.

    options = TraceOptions(passes=5, only="matmul")
    OPTIONS["passes"].help                         "How many times to run the lecture, each in a new process."
    options.recorded()                             {"passes": 5, "seed": 0, …}: fields of `Run`, the head of the trace

To add an option, add a field here, and the code that acts on it. `commands.arguments` makes it an option of `trace`;
worker processes receive all options as JSON, so each value is a text, a number, a bool or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

from trace_tools.errors import UsageError
from trace_tools.machines.devices import FORMS, checked
from trace_tools.trace.model import Run

SEEDS = range(-(2**63), 2**64)  # the seeds that `torch.manual_seed` takes


@dataclass(frozen=True, slots=True)
class Option:
    """How one option is written and explained."""

    type: Callable[[str], Any]  # converts the text of the command line
    help: str
    metavar: str | None = None
    flags: tuple[str, ...] = ()  # by default made from the field's name
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
        None, str, "Trace a module inside a package instead of a file.", "PACKAGE.MODULE", ("-m", "--module")
    )
    device: str | None = _option(
        None, checked, f"Device to run on: {FORMS} (default: cuda if this machine has one).", "DEVICE"
    )
    passes: int = _option(3, int, "How many times to run the lecture, each in a new process.", least=1)
    seed: int = _option(0, read_seed, "Seed of the random number generators.", "N")
    limit: int = _option(100, int, "How many executions of each statement to keep.", "N", least=2)
    only: str | None = _option(None, str, "Run only this section: one of the functions that `main` calls.", "SECTION")
    keep_going: bool | None = _option(
        None, bool, "After an error, record it and run the next section (default: not on a CPU)."
    )
    inspect_all: bool = _option(False, bool, "Record every value that is assigned, as if marked @inspect.")
    name: str | None = _option(None, str, "Name of this machine's folder (default: the device's name).")
    draft: bool = _option(False, bool, "Run once, for a quick look at the pages.")
    force: bool = _option(False, bool, "Replace the trace in this machine's folder, whatever it is.")

    def recorded(self) -> dict[str, Any]:
        """Return the fields of `Run` that repeat options, once `keep_going` is decided."""
        return {name: getattr(self, name) for name in {one.name for one in fields(Run)} & OPTIONS.keys()}

    @property
    def package(self) -> str:
        """The package of the lecture, or "" if the lecture is a single file."""
        return (self.module or "").rpartition(".")[0]


def flag_of(name: str) -> str:
    """Return the long form of an option on the command line."""
    return (OPTIONS[name].flags or (f"--{name.replace('_', '-')}",))[-1]


OPTIONS: Mapping[str, Option] = {one.name: one.metadata["option"] for one in fields(TraceOptions)}
DEFAULTS = TraceOptions()
