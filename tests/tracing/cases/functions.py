# ruff: noqa
# fmt: off
"""Functions as objects: decorators, functools, signatures, sources, pickles, contexts, warnings."""

import contextlib
import copy
import functools
import inspect
import pickle
import sys
import types
import warnings


def traced(*labels, log):
    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            log.append((labels, args))
            return function(*args, **kwargs)  # @inspect args
        return wrapper
    return decorator


calls = []


@traced("a", "b", log=calls)
@functools.lru_cache(maxsize=None)
def fibonacci(n: int, *, scale: float = 1.0) -> int:  # @inspect n
    """Documented."""
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.singledispatch
def kind(x):
    return "object"


@kind.register
def _(x: int):
    return "int"


@kind.register(list)
def _(x):
    return ["list", *map(kind, x)]


@functools.total_ordering
class Version:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return self.n == other.n
    def __lt__(self, other): return self.n < other.n

    @functools.singledispatchmethod
    def describe(self, x): return "any"

    @describe.register
    def _(self, x: str): return "str " + x

    def __reduce__(self): return Version, (self.n,)


@contextlib.contextmanager
def manager(log):
    log.append("enter")
    try:
        yield len(log)
    except ZeroDivisionError as error:
        log.append("suppressed")
    else:
        log.append("fine")
    finally:
        log.append("exit")


@contextlib.contextmanager
def forgetful():
    try:
        yield
    finally:
        pass


class Nested:
    class Deeper:
        def method(self,
                   a, b=1):
            # a comment in the source
            return a + b
    @staticmethod
    def make():
        def local(x):
            return x * 2
        return local


def outer_source():
    def inner(x):
        y = x + 1  # @inspect y
        return y
    f = lambda x: x + 1
    return inner, f


def caller_line():
    return sys._getframe(1).f_lineno, sys._getframe(1).f_code.co_name, len(inspect.stack(0)) - len(inspect.stack(0))


def warn():
    warnings.warn("deprecated", DeprecationWarning, stacklevel=2)


def apply(f, *args, **kwargs): return f(*args, **kwargs)


def tail(): return caller_line()


def main():
    log = []
    log.append([fibonacci(6), fibonacci.__name__, fibonacci.__doc__, fibonacci.__wrapped__.cache_info().misses, len(calls)])
    log.append(str(inspect.signature(fibonacci)))
    log.append([kind(1), kind([1, "a"]), kind("x"), Version(1) <= Version(2), Version(1).describe("x"), Version(1).describe(1)])
    for divisor in (1, 0):
        with manager(log) as n:
            log.append(n / divisor)
    with forgetful(): log.append("body")
    try:
        with forgetful(): raise KeyError("through a generator")
    except KeyError as error:
        log.append((error.args, error.__context__))

    @manager(log)
    def decorated(x):
        return x + 1
    log.append([decorated(1), decorated(2)])
    partial = functools.partial(apply, max, 3, key=lambda x: -x)
    log.append(partial(5, 1))
    log.append(functools.reduce(lambda a, b: a * b, range(1, 6)))
    log.append([sorted([3, 1, 2], key=lambda x: (x % 2, x)), list(map(lambda x, y: x + y, [1], [2]))])

    inner, f = outer_source()
    for of in (fibonacci, Version, Version.__lt__, Nested.Deeper, Nested.Deeper.method, Nested.make(), inner, f, main):
        source, line = inspect.getsourcelines(of)
        log.append(("".join(source), line))
    log.append([inspect.getdoc(fibonacci), inspect.getcomments(Nested.Deeper.method), inspect.getmodule(inner).__name__])
    for obj in (fibonacci, Version, Version(3), Nested.Deeper.method, [Version(1), kind]):
        again = pickle.loads(pickle.dumps(obj))
        log.append((type(again).__name__, again is obj, getattr(again, "n", None)))
    try:
        pickle.dumps(inner)
    except (AttributeError, pickle.PicklingError) as error:
        log.append(type(error).__name__)
    log.append(copy.deepcopy(Version(4)).n)
    log.append([caller_line(), tail(), [caller_line() for _ in range(1)]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn()
    log.append([(str(w.message), w.lineno) for w in caught])
    code = inner.__code__
    log.append([code.co_name, code.co_qualname, code.co_firstlineno, code.co_argcount, code.co_flags & 0x3F, code.co_freevars])
    twin = types.FunctionType(inner.__code__, globals(), "twin", inner.__defaults__, inner.__closure__)
    log.append([twin(3), twin.__name__])
    inner.attribute = 5
    inner.__defaults__ = (7,)
    log.append([inner(), inner.attribute, inner.__dict__])
    bound = Nested.Deeper().method
    log.append([bound(1), bound.__func__ is Nested.Deeper.method, bound.__name__])
    return log
