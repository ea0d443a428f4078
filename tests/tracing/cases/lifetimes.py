# ruff: noqa
# fmt: off
"""Objects are freed when plain Python frees them: each deletion is logged between marks of the running code."""

import contextlib
import gc


class Thing:
    log = []

    def __init__(self, name):
        self.name = name

    def __del__(self):
        self.log.append(f"{self.name} died")

    def __eq__(self, other): return True
    def __lt__(self, other): return True
    def __repr__(self): return "Thing"


def mark(text):
    Thing.log.append(text)
    return text


def reassigned():
    x = Thing("first")  # @inspect x
    mark("before")
    x = Thing("second")  # @inspect x, x.name
    mark("between")
    x = None
    y = Thing("third"); del y; mark("deleted")  # @inspect mark
    Thing("temporary")
    x = [Thing("in list")][0].name  # @inspect x
    mark("after expression")
    a, b = Thing("a"), Thing("b")
    a = b  # @inspect a, b
    mark("after a = b")


def returned(how):
    local = Thing("local")
    try:
        if how == "local": return local  # @inspect local
        if how == "fresh": return Thing("fresh")  # @inspect local
        if how == "none": return  # @inspect local
        raise ValueError(Thing("in error"))
    except ValueError as error:  # @inspect error
        mark("handling")
    finally:
        mark("finally")
        del local
        mark("local deleted")


def overridden():
    try:
        return Thing("first result")  # @inspect mark
    finally:
        mark("finally")
        return Thing("second result")  # @inspect mark


def asserted():
    assert Thing("left") == Thing("right"), Thing("never")
    mark("after ==")
    assert Thing("a") < Thing("b") < Thing("c")  # @inspect mark
    mark("after <")
    assert isinstance(Thing("argument"), Thing)
    mark("after call")
    assert Thing("alone") and not (Thing("x") == None and False)
    mark("after and")
    assert (kept := Thing("walrus")) == 1
    mark("walrus still alive")


def broken():
    try:
        assert Thing("forgotten") != Thing("too"), (mark("before the message"), Thing("message"))
    except AssertionError:
        mark("caught")
    mark("after except")


def through_frames():
    def inner():
        held_by_frame = Thing("held by a frame")
        raise ValueError
    try:
        inner()
    except ValueError as e:
        saved = e
    mark("saved")
    saved = None
    mark("forgotten")


def looped():
    for thing in (Thing(i) for i in range(3)):  # @inspect thing
        mark(f"body {thing.name}")
    mark("loop over")
    del thing
    while (x := Thing("tested")) and len(Thing.log) < 50:
        if x: break
    for i in range(2):
        y = Thing(f"y{i}")
        continue
    mark("continued")
    if Thing("condition"): mark("if body")
    match Thing("subject"):  # @inspect mark
        case Thing(name=n):
            mark("case")
    mark("after match")


@contextlib.contextmanager
def manager():
    inside = Thing("manager's")
    yield Thing("given")
    mark("leaving")


def managed():
    with manager() as given:  # @inspect given
        mark("inside")
    mark("outside")
    del given
    with contextlib.suppress(KeyError):
        swallowed = Thing("swallowed")
        raise KeyError(Thing("carried"))
    mark("after suppress")
    with manager():
        return Thing("through with")  # @inspect swallowed


def generated():
    def generator():
        local = Thing("generator's")
        try:
            yield Thing("yielded")
            mark("resumed")
            yield
        finally:
            mark("generator closing")
    g = generator()
    next(g)
    mark("yielded gone")
    next(g)
    g = None
    mark("generator gone")
    g = generator(); next(g)
    try:
        g.throw(ValueError(Thing("thrown")))
    except ValueError:
        mark("out again")
    mark("thrown gone")


def called(argument):  # @inspect argument
    mark("called")
    argument = None
    mark("argument gone")


def main():
    gc.disable()  # objects are freed by reference counts only
    try:
        for how in ("local", "fresh", "none", "error"):
            kept = returned(how)
            mark(f"returned {how}")
            kept = None
        for scene in (reassigned, overridden, asserted, broken, through_frames, looped, managed, generated):
            mark(scene.__name__)
            scene()
            mark("left")
        called(Thing("argument"))
        mark("end")
    finally:
        gc.enable()
    log, Thing.log = Thing.log, []
    return log
