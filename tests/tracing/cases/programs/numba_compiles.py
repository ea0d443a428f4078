"""Every way to numba: decorators, names for them, calls with the function, helpers, classes."""
# needs numba
import importlib
from functools import partial

import numba as nb
import numpy as np
from numba import float64, guvectorize, int64, stencil, vectorize
from numba.experimental import jitclass

fast = nb.njit(cache=True)
lazy = partial(nb.njit, fastmath=True)
table = {"njit": importlib.import_module("numba").njit}


def main():
    decorated()
    called()
    objects()


@nb.njit
def total(values):
    result = 0.0
    for value in values:
        result += value * value
    return result


@fast
def twice(x):
    y = x * 2
    return y


@lazy
def thrice(x):
    y = twice(x) + x
    return y


@vectorize([float64(float64, float64)])
def added(x, y):
    z = x + y
    return z


@guvectorize([(float64[:], float64[:])], "(n)->()")
def summed(x, out):
    out[0] = 0
    for v in x:
        out[0] += v


@stencil
def mean(x):
    return 0.5 * (x[-1] + x[1])


def decorated():
    x = np.arange(5.0)
    print(total(x), total(x), twice(3), thrice(3), added(1.0, 2.0), summed(x), mean(x))


def maybe(compiles):
    def decorate(function):
        return nb.njit(function) if compiles else function
    return decorate


class Fast:
    def __init__(self, function):
        self.function = nb.jit(nopython=True)(function)

    def __call__(self, *args):
        return self.function(*args)


@maybe(True)
def a(x):
    y = x + 1
    return y


@Fast
def b(x):
    y = x + 2
    return y


@table["njit"]
def c(x):
    y = x + 3
    return y


def d(x):
    y = x + 4
    return y


def e(x):
    y = x + 5
    return y


compiled = []
for function in (d, e):
    compiled.append(nb.njit(function))


def called():
    biggest = nb.njit(largest)
    print(a(0), b(0), c(0), [function(0) for function in compiled], biggest(np.arange(3.0)), scaled(3)(4))


def largest(x):
    t = 0.0
    for v in x:
        t = max(t, v)
    return t


def scaled(k):
    @nb.njit
    def inner(x):
        y = x * k
        return y
    return inner


@jitclass([("n", int64)])
class Counter:
    def __init__(self, n):
        self.n = n

    def up(self):
        self.n += 1
        return self.n


class Model:
    @staticmethod
    @nb.njit
    def step(x):
        y = x + 10
        return y


def objects():
    counter = Counter(3)
    print(counter.up(), counter.up(), Model.step(1))


if __name__ == "__main__":
    main()
