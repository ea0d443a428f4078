# ruff: noqa
# fmt: off
"""Functions as objects: decorators, functools, signatures, sources, pickles, contexts, recursion."""

import contextlib
import functools
import inspect
import pickle
import sys
import types
import warnings


@functools.lru_cache(maxsize=None)
def fibonacci(n: int, *, scale: float = 1.0) -> int:  # @inspect n
    """Documented."""
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


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


class Nested:
    class Deeper:
        def method(self,
                   a, b=1):
            # a comment in the source
            return a + b


def caller_line():
    return sys._getframe(1).f_lineno, sys._getframe(1).f_code.co_name, len(inspect.stack(0)) - len(inspect.stack(0))


def warn():
    warnings.warn("deprecated", DeprecationWarning, stacklevel=2)


def named(x):
    assert x, "no x"
    y = [x for _ in range(2)]
    return y, sorted(locals()), sys.exc_info()


def elsewhere(f):
    """Another interpreter, which received the function by value, has no hooks."""
    return types.FunctionType(f.__code__, {"__builtins__": __builtins__, "sys": sys})


class Saves:
    """As Lightning's `save_hyperparameters` does."""
    def __init__(self, width, depth=2, *rest, flag=True, **more):
        with open("/dev/null"):
            assert width > depth
            self.save()
        del self.saved["self"]
        self.__dict__.update(locals())

    def save(self):
        _, _, _, names = inspect.getargvalues(inspect.currentframe().f_back)
        self.saved = {**names}


def as_objects(log):
    log.append([elsewhere(named)(1), types.FunctionType(named.__code__, globals())(1)])
    try:
        elsewhere(named)(0)
    except AssertionError as error:
        log.append((str(error), error.__context__))
    saved = vars(Saves(3, 1, 7, flag=False, z=9))
    log.append((saved.pop("self").saved, saved))
    log.append([fibonacci(6), fibonacci.__name__, fibonacci.__doc__, fibonacci.cache_info().misses])
    log.append([str(inspect.signature(fibonacci)), sorted([3, 1, 2], key=lambda x: (x % 2, x))])
    for divisor in (1, 0):
        with manager(log) as n:
            log.append(n / divisor)

    @manager(log)
    def decorated(x):
        return x + 1
    log.append([decorated(1), decorated(2)])

    def inner(x):
        y = x + 1  # @inspect y
        return y
    for of in (fibonacci, Nested.Deeper, Nested.Deeper.method, inner, lambda x: x + 1, main):
        source, line = inspect.getsourcelines(of)
        log.append(("".join(source), line))
    log.append([inspect.getdoc(fibonacci), inspect.getcomments(Nested.Deeper.method), inspect.getmodule(inner).__name__])
    log.append([pickle.loads(pickle.dumps(obj)) is obj for obj in (fibonacci, Nested.Deeper.method)])
    log.append([caller_line(), [caller_line() for _ in range(1)]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn()
    log.append([(str(w.message), w.lineno) for w in caught])
    twin = types.FunctionType(inner.__code__, globals(), "twin", inner.__defaults__, inner.__closure__)
    inner.attribute = 5
    inner.__defaults__ = (7,)
    log.append([twin(3), twin.__name__, inner(), inner.__dict__, Nested.Deeper().method(1)])


# ------------------------------------------------------------------------------ recursion


def forever(n=0):
    return forever(n + 1)


def forever_in_try(log):
    try:
        forever_in_try(log)
    except RecursionError:
        raise
    finally:
        log[0] += 1


class Deep:
    def __repr__(self): return f"Deep({self!r})"
    def __getattr__(self, name): return getattr(self, name + "x")


def stack_depth():
    frame, depth = sys._getframe(), 0
    while frame: frame, depth = frame.f_back, depth + 1
    return depth


def recursions(log):
    count, limit = [0], sys.getrecursionlimit()
    sys.setrecursionlimit(stack_depth() + 250)  # low, since time grows with the square of a traceback's length
    for failing in (forever, lambda: repr(Deep()), lambda: Deep().attribute, lambda: forever_in_try(count)):
        try:
            failing()
        except RecursionError:
            log.append("recursion")
    sys.setrecursionlimit(limit)
    log.append([count[0] > 200])  # the count is a few less than in plain Python


def main():
    log = []
    for scene in (as_objects, recursions):
        scene(log)
    return log
