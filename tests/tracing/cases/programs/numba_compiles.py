"""What numba compiles has no probes; `test_compiled` has all ways to numba, this one of each kind of result."""

# needs numba
import numba as nb
import numpy as np
from numba import float64, guvectorize, int64
from numba.experimental import jitclass


def main():
    decorated()
    called()


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


def decorated():
    counter = Counter(3)
    print(summed(np.arange(5.0)), counter.up(), counter.up())


def largest(x):
    t = 0.0
    for v in x:
        t = max(t, v)
    return t


def called():
    print(nb.njit(cache=True)(largest)(np.arange(3.0)))


if __name__ == "__main__":
    main()
