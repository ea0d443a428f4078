# ruff: noqa
# fmt: off
"""Coroutines, asynchronous generators, `async for` and `async with`, tasks, cancellation, groups."""

import asyncio
import contextlib
import inspect


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


async def bare_return(stop):
    yield 1
    if stop: return  # @inspect stop
    yield 2
    return  # @inspect stop


@contextlib.asynccontextmanager
async def managed(log):
    log.append("enter")
    try:
        yield "managed"
    except ValueError as error:
        log.append(str(error))
    finally:
        log.append("leave")


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
    async with managed(log) as name:
        raise ValueError(name)
    log.append([i async for i in numbers(3, log) if i != 1])
    log.append({i: await plus_one(i) for i in range(3)})
    log.append([await plus_one(i) async for i in numbers(2, log)])
    log.append([i async for i in bare_return(True)] + [i async for i in bare_return(False)])


async def plus_one(i):
    await asyncio.sleep(0)  # @inspect i
    assert await double(i) == i * 2, await double(i)
    return i + 1


async def double(i):
    return i * 2


async def sends(log):
    g = numbers(10, log)
    log.append([await g.asend(None), await g.asend("a"), await anext(g)])
    try:
        await g.athrow(ValueError("thrown"))
    except ValueError as error:
        log.append(str(error))
    g = numbers(10, log)
    await anext(g)
    await g.aclose()
    log.append(await anext(g, "exhausted"))


async def cancelled(log):
    async def forever():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        finally:
            log.append("cleaned")

    task = asyncio.create_task(forever())
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        log.append(task.cancelled())
    try:
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()
    except TimeoutError:
        log.append("timeout")


async def grouped(log):
    async def fail(n):
        await asyncio.sleep(0)
        raise (ValueError if n % 2 else KeyError)(n)

    try:
        async with asyncio.TaskGroup() as group:
            for n in range(2): group.create_task(fail(n))
    except* ValueError as errors:
        log.append(("values", [e.args for e in errors.exceptions]))
    except* KeyError as errors:
        log.append(("keys", [e.args for e in errors.exceptions]))
    log.append(await asyncio.gather(fail(1), plus_one(1), return_exceptions=True))


def main():
    log = []
    for scene in (loops, sends, cancelled, grouped):
        asyncio.run(scene(log))
        log.append(scene.__name__)
    log.append([inspect.iscoroutinefunction(loops), inspect.isasyncgenfunction(numbers)])
    coroutine = double(2)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        log.append(stop.value)
    return log
