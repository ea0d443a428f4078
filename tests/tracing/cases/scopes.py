# ruff: noqa
# fmt: off
"""Names: closures, nonlocal and global in odd places, comprehensions, walrus, del, star-imports, exec, annotations."""
from __future__ import annotations

from math import *

total = 0
gone = 1
del gone
undecided: Undefined
__all__ = ["main", "total"]


def counter():
    count = 0

    def up(by=1):
        nonlocal count
        count += by  # @inspect count
        return count

    return up


def declared_late(x):
    "doc"
    if x:
        pass
    for i in range(2):
        global total, made_here
        total += i
    made_here = x
    def inner():
        global total
        total += 10
        def innermost():
            nonlocal x
            x += 1
            return x
        return innermost
    return inner()() + x


def inner_class_scope():
    x = "function"

    class C:
        x = "class"
        y = [x for _ in range(1)]
        def get(self):
            return x
        class D:
            nonlocal x
            x = "changed"
            global from_class
            from_class = 5
    return C.x, C.y, C().get(), x, from_class


def comprehensions(n):
    outer = 10
    squares = [i * outer for i in range(n) if i % 2]  # @inspect squares
    pairs = {k: v for k, v in zip("abc", range(n))}
    lazy = (outer + i for i in range(2))
    outer = 20
    walrus = [last := i for i in range(n)]
    any((found := i) > 1 for i in range(n))  # @inspect found
    return squares, pairs, list(lazy), walrus, last, found


def walrus(values):
    if (n := len(values)) > 2: n += 1  # @inspect n
    while (item := values.pop()) > 1:  # @inspect item
        n += item
    print(f"{(m := n)!r:>4}", y := 2)
    return n, item, m, y, [y := 5, y ** 2]


def parameters(a: int, b=1, /, c=2, *args: str, d, e=5, **kwargs) -> dict[str, Missing]:  # @inspect a, args, kwargs
    def inner(*, a: a = a, **k): return a, b, k
    return a, b, c, args, d, e, kwargs, inner(z=1), inner.__annotations__


def namespaces(a=1):
    with open("/dev/null") as b:
        assert a == 1
        before = locals()
        inner = [sorted(locals()) for c in (1, 2)], (lambda d: [*locals()])(3)
        shown = dir(), sorted(vars()), sorted(locals()), "{a}".format(**locals()), eval("a + 1"), eval("a", {"a": 8})
    class C:
        g = a
        names = [name for name in locals() if "_" not in name]
    def taken(**kwargs): return sorted(kwargs)
    return inner, shown, C.names, taken(**locals()), before is locals()


def own_names(x):
    def eval(model): return model, "mine"
    def locals(): return {"x": "mine"}
    return eval(x), locals(), [*vars()]


def only_docstring():
    """Nothing else."""


def only_global():
    global total


def only_ellipsis(): ...


def main():
    up = counter()
    log = [up(), up(5), up.__code__.co_freevars]
    log.append([declared_late(1), total, made_here, declared_late.__doc__])
    log.append([inner_class_scope(), comprehensions(4)])
    log.append([walrus([1, 2, 3]), eval("x * 2", {"x": 21})])
    log.append([parameters(0, d=1), parameters(0, 1, 2, 3, 4, d=5, f=6)])
    log.append([namespaces(), own_names(1)])
    log.append([only_docstring(), only_docstring.__doc__, only_global(), only_ellipsis()])
    log.append([parameters.__defaults__, parameters.__kwdefaults__, parameters.__annotations__, __doc__, __annotations__])
    namespace = {}
    exec(f"from {__name__} import *", namespace)
    log.append([total, sorted(namespace)])
    return log
