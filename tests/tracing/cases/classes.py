# ruff: noqa
# fmt: off
"""Classes: zero-argument super, __class__, metaclasses, private names, dataclasses, pickles."""

import copy
import dataclasses
import functools
import inspect
import pickle
import typing


class Registry(type):
    made = []

    def __new__(meta, name, bases, namespace, **options):
        meta.made.append((name, sorted(k for k in namespace if not k.startswith("__")), options))
        return super().__new__(meta, name, bases, dict(namespace))

    def __init__(cls, name, bases, namespace, **options):
        super().__init__(name, bases, namespace)

    @classmethod
    def __prepare__(meta, name, bases, **options):
        return {"prepared": True}


class Base(metaclass=Registry, kind="base"):
    """A documented class."""
    a = 1; b = a + 1
    for i in range(3): c = i  # a class body is one step
    if a:
        def method(self, x=a):
            """A documented method."""
            return self.a, x, __class__.__name__  # @inspect x
    try:
        d = 1 / 0
    except ZeroDivisionError:
        d = None
    squares = [n * n for n in range(3)]

    def __init_subclass__(cls, /, **options):
        super().__init_subclass__()
        cls.subclassed = sorted(options)

    def __init__(self, value=0):
        self.__private = value  # @inspect self.__private


class Child(Base, kind="child"):
    def method(self, x=5):
        assert super().method(x)[1] == x, super().method(x)  # @inspect super().method(x)
        return "child", *super().method(x)

    @classmethod
    def make(cls, *args):
        return cls(*args)

    @staticmethod
    def add(a, b): return a + b

    @property
    def doubled(self):
        return self._Base__private * 2  # @inspect self._Base__private

    @functools.cached_property
    def costly(self):
        return object()

    class Inner:
        def outer_name(self):
            return __class__.__qualname__


@dataclasses.dataclass(order=True)
class Item:
    """An item."""
    name: str
    price: float = 0.0  # @hide
    count: dataclasses.InitVar[int] = 1
    total: float = dataclasses.field(init=False)
    KIND: typing.ClassVar[str] = "item"

    def __post_init__(self, count):
        self.total = self.price * count  # @inspect self.total


def main():
    log = [Registry.made, Base.__doc__, Base.method.__doc__, Base.squares, Base.c, Base.b, Base.d, Base.prepared]
    child = Child.make(7)
    log.append([child.method(), child.doubled, Child.add(1, 2), Child.Inner().outer_name(), child.costly is child.costly])
    log.append([Child.subclassed, Child.__mro__ == (Child, Base, object), Base.method.__qualname__])
    log.append(sorted(k for k in vars(Child) if not k.startswith("__")))
    log.append(inspect.signature(Child.method).__str__())
    item = Item("a", 2.0, 3)
    log.append([repr(item), item.total, item < Item("b"), [f.name for f in dataclasses.fields(Item)]])
    log.append([pickle.loads(pickle.dumps(item)) == item, copy.deepcopy(item) == item])
    return log
