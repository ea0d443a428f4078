# ruff: noqa
# fmt: off
"""Classes: zero-argument super, __class__, metaclasses, slots, descriptors, private names, operators."""

import abc
import contextlib
import functools
import inspect


class Registry(type):
    made = []

    def __new__(meta, name, bases, namespace, **options):
        cls = super().__new__(meta, name, bases, dict(namespace))
        meta.made.append((name, sorted(k for k in namespace if not k.startswith("__")), options))
        return cls

    def __init__(cls, name, bases, namespace, **options):
        super().__init__(name, bases, namespace)

    @classmethod
    def __prepare__(meta, name, bases, **options):
        return {"prepared": True}

    def __call__(cls, *args, **kwargs):
        return super().__call__(*args, **kwargs)


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

    def private(self):
        return self.__private, type(self).__dict__.get("_Base__x")


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
        return self.private()[0] * 2  # @inspect self.private()

    @functools.cached_property
    def costly(self):
        return object()

    class Inner:
        def outer_name(self):
            return __class__.__qualname__


class Descriptor:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name, "unset")

    def __set__(self, obj, value):
        setattr(obj, self.name, value)

    def __delete__(self, obj):
        delattr(obj, self.name)


class Slotted:
    __slots__ = ("x", "_y", "__weakref__")
    y = Descriptor()

    def __init__(self, x):
        self.x = x  # @inspect self.x

    def __eq__(self, other):
        return isinstance(other, Slotted) and self.x == other.x

    def __hash__(self):
        return hash(self.x)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"no {name}"

    def __bool__(self):
        return bool(self.x)

    def __len__(self):
        return 3

    def __getitem__(self, i):
        if i >= 3: raise IndexError
        return i * self.x

    def __contains__(self, x):
        return x == self.x

    def __call__(self, *args, **kwargs):
        return args, kwargs

    def __matmul__(self, other):
        return "matmul"

    def __iadd__(self, other):
        self.x += other  # @inspect self.x
        return self


class Abstract(abc.ABC):
    @abc.abstractmethod
    def must(self): ...

    @property
    @abc.abstractmethod
    def also(self):
        "only a docstring"


def decorate(*names):
    def decorator(cls):
        for name in names:
            setattr(cls, name, lambda self, name=name: name)
        return cls
    return decorator


@decorate("one", "two")
class Decorated:
    pass


def local_class(base):
    class Local(base):
        def method(self, x=1):
            return ["local", *super().method(x)]
        def nested(self):
            class Deeper:
                def name(self): return __class__.__qualname__
            return Deeper().name()
    return Local


class Late:
    def __getattribute__(self, name):
        return object.__getattribute__(self, name)  # @inspect name

    def __repr__(self):
        return f"Late({self.__dict__})"

    def __enter__(self): return self
    def __exit__(self, *args): return True


def main():
    log = [Registry.made, Base.__doc__, Base.method.__doc__, Base.squares, Base.c, Base.b, Base.d, Base.prepared]
    child = Child.make(7)
    log.append([child.method(), child.private(), child.doubled, Child.add(1, 2), Child.Inner().outer_name()])
    log.append(child.costly is child.costly)
    log.append([Child.subclassed, Child.__mro__ == (Child, Base, object), Base.__qualname__, Base.method.__qualname__])
    s = Slotted(2)
    s.y = 5
    log.append([s.y, s.x, s.other, bool(s), len(s), list(s), 2 in s, s(1, a=2), s @ s])
    del s.y
    s += 3
    log.append([s.y, s.x, s == Slotted(5), {s: 1}[Slotted(5)]])
    try:
        s.nothing = 1
    except AttributeError as error:
        log.append(type(error).__name__)
    try:
        Abstract()
    except TypeError as error:
        log.append(str(error))
    log.append([Decorated().one(), Decorated().two()])
    local = local_class(Base)()
    log.append([local.method(), local.nested(), type(local).__qualname__])
    with Late() as late:
        late.x = 1
        raise ValueError("swallowed")
    log.append(repr(late))
    log.append(sorted(k for k in vars(Child) if not k.startswith("__")))
    log.append(inspect.signature(Child.method).__str__())
    log.append([name for name, _ in inspect.getmembers(Base, inspect.isfunction)])
    return log
