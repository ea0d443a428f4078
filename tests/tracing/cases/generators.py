# ruff: noqa
# fmt: off
"""Generators and coroutines: send, throw, close, delegation, `async for` and `async with`."""

import asyncio


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


def returning_in_finally():
    try:
        yield 1
    finally:
        return "kept"  # @inspect nothing_of_this_name


def yielding_in_expressions():
    x = [(yield 1), {"a": (yield 3)}]
    assert (yield 4) == (yield 5), "never"
    return x, f"{(yield 6)}"


def guarded(call):
    try:
        return call()
    except BaseException as error:
        return type(error).__name__, str(error), type(error.__context__).__name__, type(error.__cause__).__name__


def synchronous(log):
    counting = count(3)
    log.append([list(count(3)), next(counting), counting.send(4), next(counting), list(counting)])
    g = careful(log)
    next(g)
    g.send("a")
    log.append(g.throw(KeyError("k")))
    g.close()
    g.close()
    log.append(guarded(lambda: next(g)))
    d = delegating(log)
    log.append([next(d), next(d), next(d), d.send("through"), guarded(lambda: d.throw(ValueError("out")))])
    r = returning_in_finally()
    next(r)
    log.append(guarded(lambda: r.throw(ValueError("lost"))))
    y = yielding_in_expressions()
    log.append([next(y), y.send(10), y.send(20), y.send(7), y.send(7), guarded(lambda: y.send("s"))])
    log.append(guarded(lambda: count(1).throw(ValueError("before it began"))))
    unfinished = careful(log)
    next(unfinished)
    del unfinished  # closes it here and now
    log.append("after del")


# ------------------------------------------------------------------------------ asynchronous

class Ticker:
    def __init__(self, n):
        self.n = n

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.n == 0:
            raise StopAsyncIteration
        self.n -= 1
        await asyncio.sleep(0)
        return self.n


class Room:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    async def __aenter__(self):
        await asyncio.sleep(0)
        self.log.append("in")
        return self

    async def __aexit__(self, kind, error, traceback):
        await asyncio.sleep(0)
        self.log.append(("out", kind and kind.__name__))
        return self.swallow


async def numbers(n, log):
    try:
        for i in range(n):
            got = yield i  # @inspect got
            log.append(got)
            if i == 5:
                return  # @inspect i
    finally:
        log.append("numbers closed")


async def loops(log):
    async for tick in Ticker(4):  # @inspect tick
        if tick == 2:
            continue
        if tick == 0:
            break
        log.append(tick)
    else:
        log.append("not reached")
    async for tick in Ticker(1):
        pass
    else:
        log.append("else")
    async with Room(log) as room, Room(log, True):  # @inspect room.swallow
        async for i in numbers(3, log):
            if i == 1:
                raise KeyError("swallowed")
    log.append([await plus_one(i) async for i in numbers(7, log) if i != 1])


async def plus_one(i):
    await asyncio.sleep(0)  # @inspect i
    assert await double(i) == i * 2, await double(i)
    return i + 1


async def double(i):
    return i * 2


def main():
    log = []
    synchronous(log)
    asyncio.run(loops(log))
    coroutine = double(2)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        log.append(stop.value)
    return log
