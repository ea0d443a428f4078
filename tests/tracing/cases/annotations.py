# ruff: noqa
# fmt: off
"""`from __future__ import annotations`: postponed annotations, type hints, a module with few others."""
from __future__ import annotations
from __future__ import generator_stop

import dataclasses
import functools
import inspect
import typing

limit: int = 5
undecided: Undefined


@dataclasses.dataclass
class Node:
    value: int
    next: Node | None = None
    handlers: typing.ClassVar[list[NotDefined]] = []

    def add(self, other: Node, *, by: Missing = 1) -> list[Node]:
        found: list[Node] = [self, other]  # @inspect found
        unknown: AlsoMissing
        return found


def hinted(a: int, *args: str, b: list[Node] = (), **kwargs: float) -> dict[str, Node]:  # @inspect a
    def inner(x: a) -> args: return x
    return {"inner": inner.__annotations__}


async def later(x: Node) -> None:
    y: int = 1


def main():
    log = [sorted(__annotations__.items()), Node.__annotations__, Node.add.__annotations__, hinted.__annotations__]
    log.append(str(typing.get_type_hints(hinted)))
    log.append(str(typing.get_type_hints(later)))
    try:
        typing.get_type_hints(Node.add)
    except NameError as error:
        log.append(str(error))
    log.append([str(inspect.signature(hinted)), str(inspect.signature(Node.add)), hinted(1)])
    log.append([f.type for f in dataclasses.fields(Node)])
    log.append([len(Node(1).add(Node(2))), __doc__, "undecided" in globals()])
    return log
