# ruff: noqa
# fmt: off
"""match: every kind of pattern, guards, captures, what an inspected header sees."""

from dataclasses import dataclass


@dataclass
class Point:
    x: int
    y: int


def shape(subject):
    match subject:  # @inspect subject
        case 0 | 1 as small:  # @inspect small
            return "small", small
        case -2.5 | "text" | None | True:
            return "literal"
        case [] | {}:
            return "empty"
        case [single]: return "one", single  # @inspect single
        case [first, *_, last] if first == last:
            return "ends alike", first
        case (first, second, *rest):  # @inspect rest
            return first, second, rest
        case {"kind": kind, **others} if (n := len(others)) > 1:
            return kind, sorted(others), n
        case {"kind": str() as kind}:
            return "kind", kind
        case Point(x=0, y=y):
            return "axis", y
        case Point(x, y) if x == y:
            return "diagonal"
        case Point():
            return "point"
        case int(n) | float(n):
            return "number", n
        case complex.real | object.__doc__:
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


def with_capture(subject):
    match subject:  # @inspect subject
        case [1]:
            pass
        case (anything):
            return anything
    match subject:  # @inspect subject
        case [2]:
            pass
        case [1] | _:
            return "or"


def in_loop(subjects):
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


def failing(subject):
    match subject:
        case Point(1, 2, 3):
            return "never"


def main():
    subjects = [
        0, 1, -2.5, "text", None, True, [], {}, [5], [1, 2, 1], (1, 2, 3), {"kind": "a", "b": 1, "c": 2}, {"kind": "a"},
        {"kind": 1}, Point(0, 3), Point(2, 2), Point(1, 2), 17, 1.5, object(), "other text",
    ]
    log = [shape(s) for s in subjects]
    log.append([without_default(s) for s in (1, 2, 3)])
    log.append([with_capture(s) for s in ([1], [2], "x")])
    log.append([in_loop([0, [0], [5], [6], 1]), in_loop([1, 9, 2])])
    try:
        failing(Point(1, 2))
    except TypeError as error:
        log.append((str(error), error.__traceback__.tb_next.tb_lineno))
    return log
