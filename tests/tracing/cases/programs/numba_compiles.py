"""Every way to numba: decorators, names for them, calls with the function, helpers, classes."""
# needs numba
import importlib

import numba as nb
import numpy as np
from numba import float64, guvectorize, int64
from numba.experimental import jitclass

fast = {"njit": importlib.import_module("numba").njit}["njit"](cache=True)


def main():
    decorated()
    called()


@fast
def twice(x):
    y = x * 2
    return y


@guvectorize([(float64[:], float64[:])], "(n)->()")
def summed(x, out):
    out[0] = 0
    for v in x:
        out[0] += v


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


def decorated():
    counter = Counter(3)
    print(twice(3), summed(np.arange(5.0)), counter.up(), counter.up(), Model.step(1))


class Fast:
    def __init__(self, function):
        self.function = nb.jit(nopython=True)(function)

    def __call__(self, *args):
        return self.function(*args)


@Fast
def a(x):
    y = x + 2
    return y


def c(x):
    y = x + 4
    return y


compiled = []
for function in (c,):
    compiled.append(nb.njit(function))


def largest(x):
    t = 0.0
    for v in x:
        t = max(t, v)
    return t


def called():
    print(a(0), compiled[0](0), nb.njit(largest)(np.arange(3.0)))


if __name__ == "__main__":
    main()
