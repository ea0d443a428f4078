# ruff: noqa
# fmt: off
"""assert: order and number of evaluations, messages only on failure, every shape of test."""

import traceback


class Loud:
    """Says what is asked of it."""

    def __init__(self, log, name, value):
        self.log, self.name, self.value = log, name, value

    def __repr__(self): return f"Loud({self.name})"

    def __bool__(self):
        self.log.append(f"bool {self.name}")
        return bool(self.value)

    def __eq__(self, other):
        self.log.append(f"{self.name} == {other!r}")
        return Loud(self.log, f"({self.name}=={other!r})", self.value == getattr(other, "value", other))

    def __lt__(self, other):
        self.log.append(f"{self.name} < {other!r}")
        return self.value < getattr(other, "value", other)


class Refuses:
    def __eq__(self, other): return self
    def __bool__(self): raise TypeError("ambiguous")


def said(log, name, value):
    log.append(name)
    return value


def message(log, text):
    log.append("message")
    return text


def truths(log):
    a, b, c = (Loud(log, name, value) for name, value in (("a", 1), ("b", 2), ("c", 3)))
    assert a, message(log, "not evaluated")
    assert a < b < c  # @inspect a, b
    assert a < b < c < 4 and a or said(log, "never", 0)
    assert not (a == b), message(log, "no")
    assert said(log, 1, a) == said(log, 2, 1) != said(log, 3, 7)
    assert (n := len(log)) and (said(log, "walrus", n) == n)
    assert all(x for x in [1, 2]), "generator"
    assert max(*[1, 2], 3)
    assert isinstance(said(log, "x", 5), int)
    assert "a" in "abc" and 3 not in (1, 2) and a is a and a is not b
    assert {"k": 1}["k"] == 1 if log else 0
    assert "constant" and 1 == 1
    assert (said(log, "l", 0) or said(log, "r", 1)) and not said(log, "n", 0)
    assert not not (said(log, "x", 1) and (said(log, "y", 0) or said(log, "z", 2)))
    assert said(log, "kw", value=1)
    assert (kept := [i for i in range(3) if i]) == [1, 2]
    if n: assert n; assert log  # @inspect n
    for i in range(2): assert i >= 0, i
    return n, kept


def broken_chain(log): assert said(log, "l", 1) < said(log, "m", 0) < said(log, "never", 2), message(log, "chain")
def broken_and(log): assert said(log, "l", 0) and said(log, "never", 1), message(log, "and")
def broken_or(log): assert said(log, "l", 0) or said(log, "r", []), message(log, ("tuple", 1))
def broken_not(log): assert not Loud(log, "x", 1), message(log, None)
def broken_call(log): assert isinstance(said(log, "x", 5), (str, bytes))
def broken_plain(log): assert Loud(log, "x", 0)
def broken_equal(log): assert Loud(log, "x", 0) == 1, Loud(log, "message", 1)
def raising_test(log): assert said(log, "x", 1) / 0 == 1, message(log, "never")
def raising_bool(log): assert Refuses() == 1, message(log, "never")
def raising_not(log): assert not Refuses(), message(log, "never")
def raising_and(log): assert Refuses() and log, message(log, "never")
def raising_message(log): assert not log, message(log, 1) / 0
def raising_chain(log): assert said(log, "a", 1) < said(log, "b", "text") < said(log, "never", 1)
def constant_false(log): assert False, message(log, "False")
def walrus_in_message(log):
    assert (n := len(log)) > 100, (text := f"{n} is few")


def raising_alone(log):
    assert (
        Refuses()
    ), (
        message(log, "never")
    )


def parenthesised_parts(log):
    assert (
        said(log, "a", 1) == 1
        and
        (said(log, "b", 0)
         or said(log, "c", 2) > 2
         or said(log, "d", 0))
    )


def conditional(log):
    assert (
        log == []
        if log
        else said(log, "b", 0)
    )


def under_stepover(log):
    for i in range(3):  # @stepover
        assert i < 2, said(log, "message", i)


def generator(log):
    assert (yield 1) == (yield 2), (yield 3)


def main():
    log = []
    result = truths(log)
    for failing in (
        broken_chain, broken_and, broken_or, broken_not, broken_call, broken_plain, broken_equal, raising_test,
        raising_bool, raising_not, raising_and, raising_message, raising_chain, constant_false, walrus_in_message,
        raising_alone, parenthesised_parts, conditional, under_stepover,
    ):
        try:
            failing(log)
        except Exception as error:
            log.append((failing.__name__, type(error).__name__, repr(error.args), positions(error), str(error.__context__)))
    g = generator(log)
    log.append([next(g), g.send("a"), g.send("b")])
    try:
        g.send("message")
    except AssertionError as error:
        log.append(error.args)
    return result, log


def positions(error):
    return [(e.name, e.lineno, e.end_lineno, e.colno, e.end_colno) for e in traceback.extract_tb(error.__traceback__)]
