# ruff: noqa
# fmt: off
"""try in all its forms: what is caught, chained, re-raised, and what `sys.exc_info()` shows where."""

import sys
import traceback


class Custom(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


def seen():
    kind, error, entry = sys.exc_info()
    return None if kind is None else (kind.__name__, str(error), entry.tb_lineno)


def basics(log):
    try:
        log.append(seen())
        raise Custom(1)  # @inspect log
    except (KeyError, Custom) as error:  # @inspect error.code
        log.append((error.code, seen()))
    else:
        log.append("not reached")
    finally:
        log.append(seen())
    log.append(seen())
    log.append("error" in locals())
    try:
        pass
    except ValueError:
        pass
    else:
        log.append("else")
    try:
        try:
            {}["missing"]
        finally:
            log.append(("inner", seen()))
    except KeyError as error:
        log.append(error.__traceback__.tb_lineno)


def chained():
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            raise Custom(2) from error
    except Custom:
        try:
            [].pop()
        except IndexError:
            raise


def hidden():
    try:
        raise ValueError("hidden")
    except ValueError:
        raise Custom(3) from None


def in_finally():
    try:
        raise ValueError("one")
    finally:
        raise KeyError("two")


def in_else():
    try:
        pass
    except KeyError:
        pass
    else:
        raise KeyError("else")


def handled_then_again():
    try:
        raise ValueError("a")
    except ValueError as error:
        kept = error
    raise kept


def nothing_to_raise():
    raise


def bare_raise_in_callee():
    try:
        raise ValueError("outer")
    except ValueError:
        reraise()


def reraise():
    raise


def groups(log):
    try:
        raise ExceptionGroup("several", [ValueError(1), KeyError(2), ExceptionGroup("inner", [TypeError(3), ValueError(4)])])
    except* ValueError as group:  # @inspect group.message
        log.append([str(e) for e in group.exceptions])
    except* (KeyError, OSError) as group:
        log.append((len(group.exceptions), seen()[0]))
    except* TypeError:
        log.append("type")
    else:
        log.append("not reached")
    finally:
        log.append("group done")
    try:
        raise TypeError("naked")
    except* TypeError as group:
        log.append(type(group).__name__)


def group_from_handlers():
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), OSError(3)])
    except* ValueError:
        raise RuntimeError("in handler")
    except* KeyError as e:
        raise


def multi_line():
    return len(
        [
            1,
            int(
                "x"
            ),
        ]
    )


def deep(n):
    if n:
        return deep(
            n - 1
        )
    return (
        1 /
        0
    )


def unbound():
    if False:
        name = 1
    return name


def deleted():
    name = 1
    del name
    return name


def missing():
    return no_such_global


def inspected():
    value = 1  # @inspect value.nothing, value, undefined
    other = value  # @inspect undefined.attr()
    return [value][other]  # @inspect value


def noted():
    error = ValueError("with notes")
    error.add_note("a note")
    raise error


def from_iteration():
    for i in iter(int, 1):
        for x in (1 // y for y in (1, 0)):
            pass


def from_with():
    with open("/no/such/file") as f:
        pass


def from_exit():
    class Bad:
        def __enter__(self): return self
        def __exit__(self, *args): raise RuntimeError("exit")
    with Bad():
        raise ValueError("body")


def from_decorator():
    @no_such_decorator
    def f(): pass


def from_default():
    def f(a=no_such_default): pass


def from_class():
    class C(
        no_such_base,
    ):
        pass


def from_class_body():
    class C:
        a = 1
        b = a / 0


def from_assignment():
    a, b = 1, 2
    (
        a,
        b
    ) = 1


def from_augmented():
    a = "x"
    a += (
        1
    )


def exits():
    raise SystemExit(3)


def interrupts():
    raise KeyboardInterrupt


FAILING = (
    chained, hidden, in_finally, in_else, handled_then_again, nothing_to_raise, bare_raise_in_callee,
    group_from_handlers, multi_line, lambda: deep(3), unbound, deleted, missing, inspected, noted, from_iteration,
    from_with, from_exit, from_decorator, from_default, from_class, from_class_body, from_assignment,
    from_augmented, exits, interrupts,
)


def main():
    log = []
    basics(log)
    groups(log)
    for failing in FAILING:
        try:
            log.append(failing())
        except BaseException as error:
            log.append(described(error))
    log.append(seen())
    print(*log, sep="\n")  # nothing is returned
    raise Custom(99)


def described(error):
    if error is None:
        return None
    entries = [(e.name, e.lineno, e.end_lineno, e.colno, e.end_colno, e.line) for e in traceback.extract_tb(error.__traceback__)]
    members = [described(e) for e in getattr(error, "exceptions", ())]
    notes = getattr(error, "__notes__", None)
    return (type(error).__name__, str(error), entries, notes, members, error.__suppress_context__,
            described(error.__cause__), described(error.__context__))
