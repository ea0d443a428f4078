# ruff: noqa
# fmt: off
"""Recursion: values, mutual, through generators and library code; RecursionError is caught and survived."""

import functools
import json
import sys


def factorial(n):
    if n == 0: return 1
    return n * factorial(n - 1)  # @inspect n


def even(n): return True if n == 0 else odd(n - 1)
def odd(n): return False if n == 0 else even(n - 1)


def tree(depth):
    if depth:
        yield from tree(depth - 1)
        yield depth
        yield from tree(depth - 1)


def ackermann(m, n):
    if m == 0: return n + 1
    if n == 0: return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


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


def through_library(n):
    return n and functools.reduce(lambda a, b: through_library(n - 1), [1, 2])


def flatten(nested):
    return [x for item in nested for x in (flatten(item) if isinstance(item, list) else [item])]


def stack_depth():
    frame, depth = sys._getframe(), 0
    while frame: frame, depth = frame.f_back, depth + 1
    return depth


def main():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(stack_depth() + 250)  # low, since time grows with the square of a traceback's length
    try:
        return recursions()
    finally:
        sys.setrecursionlimit(limit)


def recursions():
    log = [factorial(20), even(51), list(tree(4)), ackermann(2, 3), through_library(20), flatten([1, [2, [3, [4]]]])]
    for failing in (forever, lambda: repr(Deep()), lambda: Deep().attribute):
        try:
            failing()
        except RecursionError as error:
            log.append("recursion")
    count = [0]
    try:
        forever_in_try(count)
    except RecursionError:
        log.append(count[0] > 100)  # a few less than in plain Python
    log.append([factorial(10), list(tree(3)), json.dumps(flatten([[5]]))])
    log.append(factorial(200) // factorial(198))
    return log
