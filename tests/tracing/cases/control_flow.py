# ruff: noqa
# fmt: off
"""Loops and their `else`, leaving them from every kind of block, match."""

from dataclasses import dataclass


class Manager:
    def __init__(self, log, name, swallow=False):
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, error, traceback):
        self.log.append(f"exit {self.name} {kind and kind.__name__}")
        return self.swallow


@dataclass
class Point:
    x: int
    y: int


def loops(log):
    for i in range(5):
        if i == 1: continue  # @inspect i
        if i == 3: break  # @inspect i
        log.append(i)
    else:
        log.append("not reached")
    for i in []:  # @inspect i
        pass
    else: log.append("for else")  # @inspect log
    n = 3
    while n:  # @inspect n
        n -= 1
        if n == 1: continue
        log.append(n)
    else:
        log.append("while else")
    for i in range(2):
        for j in range(3):
            if j == 1:
                continue
            if i == 1:
                break
            log.append((i, j))
        else:
            continue
        log.append("inner broke")
    for i, (j, *k) in enumerate([(1, 2, 3), "abc"]): log.append((i, j, k))  # @inspect k
    a = [0, 0]
    for a[1] in range(3): pass
    log.append(a)


def leaving(log):
    for i in range(6):
        with Manager(log, i):
            try:
                if i == 0: continue
                if i == 1: raise KeyError(i)
                if i == 4: break
                log.append(("body", i))
            except KeyError:
                log.append("caught")
                continue
            else:
                if i == 2: continue
                log.append("else")
            finally:
                log.append("finally")
        log.append("after with")
    for i in range(3):
        try:
            raise ValueError(i)
        finally:
            if i < 2: continue
            break
    with Manager(log, "swallowing", True):
        raise ValueError("gone")
    log.append("went on")


def shape(subject):
    match subject:  # @inspect subject
        case 0 | 1 as small:  # @inspect small
            return "small", small
        case -2.5 | "text" | None | True:
            return "literal"
        case [single]: return "one", single  # @inspect single
        case [first, *_, last] if first == last:
            return "ends alike", first
        case {"kind": kind, **others} if (n := len(others)) > 1:
            return kind, sorted(others), n
        case Point(x, y) if x == y:
            return "diagonal"
        case complex.real | Point(1, 2, 3):
            return "never"
        case _:
            return "other", type(subject).__name__


def without_default(subject):
    found = "nothing"
    match subject:  # @inspect found, subject
        case 1: found = "one"
        case 2 if found: found = "two"
    match subject, found:  # @inspect subject
        case (1, name):
            found += name
    return found


def matched_in_loop(subjects):
    log = []
    for subject in subjects:
        match subject:  # @inspect log
            case 0: continue
            case 9: break
            case [x] if log.append(("guard", x)) or x:
                match x:
                    case 5: log.append("five")
                    case _: continue
        log.append(subject)
    else:
        log.append("else")
    return log


def main():
    log = []
    loops(log)
    leaving(log)
    subjects = [0, -2.5, "text", None, [], [5], [1, 2, 1], {"kind": "a", "b": 1, "c": 2}, {"kind": "a"}, Point(2, 2), 17]
    log.append([shape(s) for s in subjects])
    log.append([without_default(s) for s in (1, 2, 3)])
    log.append([matched_in_loop([0, [0], [5], [6], 1]), matched_in_loop([1, 9, 2])])
    try:
        shape(Point(1, 2))
    except TypeError as error:
        log.append((str(error), error.__traceback__.tb_next.tb_lineno))
    return log
