"""Functions and classes that other processes get by value, and copies in this process."""
# needs cloudpickle, joblib
import functools, marshal, subprocess, sys

import cloudpickle
from joblib import Parallel, delayed

BASE = 3


def main():
    here_and_there()
    pools()


def double(n):
    twice = BASE * n
    return twice


class Model:
    scale = 2

    def __init__(self, n):
        self.n = n
        super().__init__()

    def run(self, x):
        y = self.n * x * self.scale
        return double(y)


def closure(k):
    def inner(x):
        nonlocal k
        k += 1
        return x + k
    return inner


def count(n):
    for i in range(n):
        yield i


def fib(n):
    if n < 2: return n
    return fib(n - 1) + fib(n - 2)


def failing(x):
    with open("/dev/null"):
        c = 3
    try:
        assert x, f"bad {x}"
    except AssertionError as error:
        return str(error), error.__context__, sorted(locals())


def used(double, Model, inner, count, fib, failing, part):
    numbers = double(5), Model(2).run(3), inner(1), inner(1), list(count(3)), fib(6), part()
    return numbers, failing(0)


LOADED = "import sys; from pickle import load; f, args = load(sys.stdin.buffer); print(f(*args))"
MARSHALLED = "import sys, types, marshal; fib = types.FunctionType(marshal.load(sys.stdin.buffer), globals()); print(fib(7))"


def here_and_there():
    things = double, Model, closure(5), count, fib, failing, functools.partial(double, 4)
    print(used(*cloudpickle.loads(cloudpickle.dumps(things))))
    for code, content in {LOADED: cloudpickle.dumps((used, things)), MARSHALLED: marshal.dumps(fib.__code__)}.items():
        done = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True)
        print(done.stdout.decode(), done.stderr.decode()[-300:])


def read(path):
    with open(path) as file:
        return file.read()


def pools():
    """Workers of loky: Python does not wait for them, and those of the first run work in the second"""
    print(Parallel(n_jobs=2)(delayed(Model(n).run)(n) for n in range(4)))
    with open("numbers.txt", "w") as file:
        file.write("1 2 3")
    print(Parallel(n_jobs=2)(delayed(read)("numbers.txt") for _ in range(3)))


if __name__ == "__main__":
    main()
