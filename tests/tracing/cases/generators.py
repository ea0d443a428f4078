# ruff: noqa
# fmt: off
"""Generators: send, throw, close, delegation, return values, and what they see of exceptions."""

import itertools
import types


def count(n):
    """A docstring, then a loop."""
    for i in range(n):  # @inspect i
        got = yield i  # @inspect got
        if got:
            yield got * 10
    return "done"


def careful(log):
    try:
        while True:
            try:
                log.append(("got", (yield len(log))))
            except KeyError as error:  # @inspect error
                log.append(("caught", error.args))
    except GeneratorExit:
        log.append("closing")
        raise
    finally:
        log.append("closed")


def delegating(log):
    result = yield from count(2)  # @inspect result
    log.append(result)
    inner = yield from careful(log)
    return inner


def swallowing():
    while True:
        try:
            yield 1
        except GeneratorExit:
            yield 2  # RuntimeError: generator ignored GeneratorExit


def stops():
    yield 1
    raise StopIteration("inside")


def returning_in_finally():
    try:
        yield 1
    finally:
        return "kept"  # @inspect nothing_of_this_name


def yielding_in_expressions():
    x = [(yield 1), (yield 2)]
    y = {"a": (yield 3)}
    assert (yield 4) == (yield 5), "never"
    z = f"{(yield 6)}"
    return x, y, z


def chain(*parts):
    for part in parts: yield from part


@types.coroutine
def legacy():
    return (yield "awaited")


def guarded(call):
    try:
        return call()
    except BaseException as error:
        return type(error).__name__, str(error), type(error.__context__).__name__, type(error.__cause__).__name__


def main():
    log = []
    log.append(list(count(3)))
    counting = count(3)
    log.append([next(counting), counting.send(4), next(counting), list(counting)])
    g = careful(log)
    next(g)
    g.send("a")
    log.append(g.throw(KeyError("k")))
    g.close()
    g.close()
    log.append(guarded(lambda: next(g)))
    d = delegating(log)
    log.append([next(d), next(d), next(d), d.send("through"), guarded(lambda: d.throw(ValueError("out")))])
    log.append(guarded(lambda: d.send(None)))
    s = swallowing()
    next(s)
    log.append(guarded(s.close))
    log.append(guarded(lambda: list(stops())))
    r = returning_in_finally()
    next(r)
    log.append(guarded(lambda: r.throw(ValueError("lost"))))
    y = yielding_in_expressions()
    log.append([next(y)] + [y.send(n) for n in (10, 20, 30)])
    log.append([y.send(7), y.send(7), guarded(lambda: y.send("s"))])
    log.append(list(itertools.islice(chain(count(2), "ab", (i * i for i in range(3))), 6)))
    log.append(next(legacy()))
    log.append(guarded(lambda: count(1).send("too early")))
    log.append(guarded(lambda: count(1).throw(ValueError("before it began"))))
    unfinished = careful(log)
    next(unfinished)
    del unfinished  # closes it here and now
    log.append("after del")
    running = careful(log)
    log.append((running.gi_running, running.gi_yieldfrom, running.__name__, running.__qualname__))
    return log
