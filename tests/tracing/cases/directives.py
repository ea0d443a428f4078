# ruff: noqa
# fmt: off
"""Every statement under @inspect and @stepover, with expressions that fail or have effects of their own."""

import math  # @inspect math.pi
from contextlib import suppress  # @stepover

constant = 3  # @inspect constant, nothing
seen = []


def note(x):
    seen.append(x)
    return x


class Settings:  # @stepover
    depth = 2
    def double(self):
        assert self.depth
        return self.depth * 2


class Awkward:
    def __repr__(self): raise RuntimeError("no repr")
    def __getattr__(self, name): raise SystemError(name) if name == "system" else AttributeError(name)


def covered(n):  # @stepover
    total = 0
    for i in range(n):
        if i == 2: continue
        total += note(i)  # @inspect total
    assert total >= 0, total
    return total


def everything(n):  # @inspect n, n.nothing
    global constant  # @stepover
    x: int = n  # @inspect x
    x += 1  # @inspect x @stepover
    y = z = x  # @inspect y z
    del z  # @inspect z
    awkward = Awkward()  # @inspect awkward, awkward.name, awkward.system
    constant = x  # @inspect constant
    note("expression")  # @inspect seen[-1], seen[99]
    pass  # @inspect x
    assert x, x  # @inspect x
    if x:  # @inspect x
        y = 1
    elif y:  # @inspect y
        y = 2
    for i in range(2):  # @inspect i
        if i: continue  # @inspect i
        if not n: break  # @inspect i
    while x > 0:  # @inspect x
        x -= 1
        if x == 1: break  # @stepover
    for i in range(3): y += i  # @inspect y @stepover
    with suppress(KeyError) as nothing:  # @inspect nothing
        raise KeyError(n)  # @inspect n
    with suppress(KeyError): y += 1; raise KeyError(n)  # @inspect y @stepover
    try:
        raise ValueError(n)  # @stepover
    except ValueError as error:  # @inspect error, error.args
        y += 1
    finally:
        y += 3  # @inspect error
    try: y += 1; raise KeyError  # @inspect y
    except KeyError: y += 1  # @inspect y
    match y:  # @stepover
        case 1: pass
        case other: y = other + 1
    def inner(a, b=2):  # @inspect a, b, c
        return a + b  # @stepover
    class Local(Settings): pass  # @inspect Local.depth
    import math as m  # @inspect m.e
    f = lambda: y  # @inspect f()
    numbers = [i for i in range(n)]  # @inspect numbers, numbers[-1]
    return inner(y, *numbers[:1]) + covered(4) + f()  # @inspect y, numbers @stepover


def generator(n):  # @inspect n
    got = yield n  # @inspect got
    for i in range(n):  # @stepover
        got = yield i, got
    yield from range(2)  # @inspect n
    x = yield  # @inspect x @stepover
    return got  # @inspect got


async def coroutine(n):  # @inspect n
    async def rest():
        return n
    x = await rest()  # @inspect x
    return await rest() + x  # @inspect n


def returning(n):  # @inspect n, return
    if n > 3: return n  # @inspect n
    try:
        if n == 3: return note(n) + 1  # @stepover
        if n == 2: return
        if n == 1: return 1 / 0
    except ZeroDivisionError:
        n = 7
    finally:
        if n == 7: return n  # @inspect return [FLOP]


def returned_name(n):  # @inspect n
    if n: return n, n
    return n


async def produced():  # @inspect return
    yield 1
    return


def run(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stop:  # @inspect stop.value
        return stop.value  # @stepover


def main():
    log = [everything(n) for n in (2, 1)]
    log += [list(generator(2)), run(coroutine(5)), run(anext(produced()))]
    log.append([returning(n) for n in range(5)] + [returned_name(0), returned_name(1)])
    log.append([Settings().double(), constant, math.floor(2.5), seen])
    return log  # @inspect log
