"""The base of all records, and the names of processes, runs and endings in them.

class Peak(Struct, frozen=True):
    name: str
    per_second: Annotated[float, Meta(ge=1)] | None = None

msgspec.convert({"name": "memory"}, Peak)   # Peak("memory"); raises `msgspec.ValidationError` for other data
to_plain(Peak("memory"))                    # {"name": "memory"}

ProcessId.parse("pass 2")                   # ProcessId("pass", 2); its files are named "pass-2"
RunId.parse("pass 2, warm")                 # RunId(ProcessId("pass", 2), "warm")
Ending.parse("ValueError at line 12")       # Ending("raised", "ValueError", 12)
str(Ending("killed", "SIGKILL"))            # "killed by SIGKILL"
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import msgspec


class _DataclassFields:
    def __get__(self, instance: object, cls: type[Struct]) -> dict[str, dataclasses.Field[Any]]:
        return _dataclass_fields(cls)


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Immutable, compared by value, and never part of a cycle (so `gc=False`).

    `dataclasses.replace`, `fields` and `asdict` work on records as on dataclasses.
    """

    __dataclass_fields__ = _DataclassFields()  # these functions check only this attribute


@cache
def _dataclass_fields(cls: type[Struct]) -> dict[str, dataclasses.Field[Any]]:
    made: Any = dataclasses.make_dataclass(cls.__name__, cls.__struct_fields__)
    return dict(made.__dataclass_fields__)


def to_plain(instance: object) -> dict[str, Any]:
    """Return a record as plain data: its fields in order, without fields that equal their defaults."""
    plain: dict[str, Any] = msgspec.to_builtins(instance)
    return plain


# --- processes, runs and endings, of which the trace file holds the text --------------------------


PASS = "pass"  # the kind of process that runs the lecture
COLD, WARM = "cold", "warm"  # runs of a pass
COUNTED = "counted"  # the last run of the first pass: operators are counted; its times and values are not used
RECORDING = "recording took"  # begins the note of an interrupted run on what recording cost

_PASS = re.compile(r"pass[ -]([1-9][0-9]*)", re.ASCII)
_LINE = re.compile(r"(.*) at line (\d+|None)", re.DOTALL | re.ASCII)
_CLASS = re.compile(r"[^\W\d][\w.]*")
_WHERE = re.compile(r" \(pass \d+\)|; ", re.ASCII)  # follows the first ending


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process of a trace; only passes have a number."""

    kind: str  # PASS; any other text in the trace of another tool
    pass_: int | None = None

    @classmethod
    def parse(cls, text: str) -> ProcessId:
        """Return the process that a text or the stem of a file names."""
        number = _PASS.fullmatch(text)
        return cls(PASS, int(number[1])) if number else cls(text)

    def __str__(self) -> str:
        return self.kind if self.pass_ is None else f"{self.kind} {self.pass_}"

    @property
    def file_stem(self) -> str:
        """The name of its files in a run's folder, without the suffix."""
        return str(self).replace(" ", "-")


@dataclass(frozen=True, slots=True)
class RunId:
    """A run of the lecture in a process."""

    process: ProcessId
    kind: str  # COLD, WARM, COUNTED

    @classmethod
    def parse(cls, text: str) -> RunId:
        """Return the run that a text names."""
        process, _, kind = text.partition(", ")
        return cls(ProcessId.parse(process), kind)

    def __str__(self) -> str:
        return f"{self.process}, {self.kind}"


EndingKind = Literal["complete", "raised", "killed", "exited", "stopped", "failed"]

_PREFIXES: dict[EndingKind, str] = {
    "killed": "killed by ",  # a signal
    "exited": "exited with status ",
    "stopped": "stopped ",  # with the tracer
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process or a run ended."""

    kind: EndingKind  # "failed": for the reason in `detail`
    detail: str = ""  # the exception's class, the signal, the exit status, the rest of the text
    line: int | None = None  # line of the lecture

    @classmethod
    def parse(cls, text: str) -> Ending:
        """Return the ending that a text describes."""
        at_line = _LINE.fullmatch(text)
        ending, line = (at_line[1], None if at_line[2] == "None" else int(at_line[2])) if at_line else (text, None)
        if ending == "complete":
            return cls("complete", line=line)
        for kind, prefix in _PREFIXES.items():
            if ending.startswith(prefix):
                return cls(kind, ending.removeprefix(prefix), line)
        return cls("raised" if _CLASS.fullmatch(ending) else "failed", ending, line)

    @classmethod
    def of_trace(cls, text: str) -> Ending:
        """Return the first ending in the text for a whole trace, which names processes."""
        return cls.parse(_WHERE.split(text, maxsplit=1)[0])

    def __str__(self) -> str:
        text = "complete" if self.kind == "complete" else _PREFIXES.get(self.kind, "") + self.detail
        return text if self.line is None else f"{text} at line {self.line}"

    @property
    def is_complete(self) -> bool:
        """Whether it ended without an error."""
        return self == COMPLETE


COMPLETE = Ending("complete")
