# ruff: noqa
# fmt: off
"""dataclasses, enums, NamedTuple, TypedDict, Protocol, generics, and their pickles."""

import copy
import dataclasses
import enum
import pickle
import typing
from collections import namedtuple
from dataclasses import dataclass, field


@dataclass(order=True)
class Item:
    """An item."""
    name: str
    price: float = 0.0  # @hide
    tags: list[str] = field(default_factory=list, compare=False)
    count: dataclasses.InitVar[int] = 1
    total: float = field(init=False)
    KIND: typing.ClassVar[str] = "item"

    def __post_init__(self, count):
        self.total = self.price * count  # @inspect self.total

    @property
    def doubled(self): return self.total * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    x: int
    y: "Frozen | None" = None

    def moved(self, by):
        return dataclasses.replace(self, x=self.x + by)


@dataclass
class Derived(Item):
    extra: int = 5

    def __post_init__(self, count):
        super().__post_init__(count)
        self.extra += 1


class Colour(enum.Enum):
    RED = 1
    GREEN = enum.auto()
    ALIAS = 1

    def describe(self):
        return f"{self.name}={self.value}"  # @inspect self

    @classmethod
    def default(cls): return cls.RED

    @property
    def loud(self): return self.name + "!"


class Flags(enum.IntFlag):
    A = 1
    B = 2
    AB = A | B


class Planet(enum.Enum):
    EARTH = (5.97, 6.37)
    MARS = (0.64, 3.39)

    def __init__(self, mass, radius):
        self.mass, self.radius = mass, radius

    @staticmethod
    def _generate_next_value_(name, start, count, last_values):
        return name


class Level(enum.StrEnum):
    LOW = enum.auto()
    HIGH = enum.auto()

    @classmethod
    def _missing_(cls, value):
        return cls.LOW if value == "l" else None


class Pair(typing.NamedTuple):
    """A pair."""
    left: int
    right: str = "r"

    def swapped(self):
        return self.right, self.left


Old = namedtuple("Old", "a b", defaults=[2])
T = typing.TypeVar("T")


class Stack(typing.Generic[T]):
    def __init__(self) -> None:
        self.items: list[T] = []  # @inspect self.items

    def push(self, item: T) -> "Stack[T]":
        self.items.append(item)
        return self


class Movie(typing.TypedDict, total=False):
    name: typing.Required[str]
    year: int


@typing.runtime_checkable
class Closes(typing.Protocol):
    def close(self) -> None: ...


def main():
    item = Item("a", 2.0, ["t"], 3)
    log = [repr(item), item.total, item.doubled, item < Item("b"), item == Item("a", 2.0, count=3), Item.KIND]
    log.append([repr(Derived("d", 1.0)), [f.name for f in dataclasses.fields(Derived)], dataclasses.asdict(item)])
    frozen = Frozen(x=1, y=Frozen(x=2))
    log.append([frozen.moved(3), hash(frozen) == hash(Frozen(x=1, y=Frozen(x=2))), Frozen.__slots__])
    try:
        frozen.x = 5
    except dataclasses.FrozenInstanceError as error:
        log.append(str(error))
    log.append([list(Colour), Colour(1) is Colour.ALIAS, Colour["GREEN"].describe(), Colour.default().loud, len(Colour)])
    log.append([Flags.A | Flags.B, Flags(3) is Flags.AB, ~Flags.A, Planet.MARS.mass, Planet((5.97, 6.37)).name])
    log.append([list(Level), Level("l"), Level.HIGH + "er", f"{Level.LOW}"])
    log.append([sorted(n for n in vars(Colour) if not n.startswith("__")), sorted(Colour.__members__)])
    try:
        Colour(9)
    except ValueError as error:
        log.append(str(error))
    log.append([Pair(1), Pair(1, "x").swapped(), Pair._fields, Pair.__annotations__, Old(1), Old._make([3, 4])])
    log.append([Stack[int]().push(1).items, Movie(name="m"), sorted(Movie.__required_keys__), isinstance(open, Closes)])
    with open("/dev/null") as f: log.append(isinstance(f, Closes))
    for obj in (item, frozen, Colour.GREEN, Flags.AB, Pair(2), Old(5), Level.HIGH, Stack):
        for again in (pickle.loads(pickle.dumps(obj)), copy.deepcopy(obj)):
            log.append((again == obj, repr(again)))
    return log
