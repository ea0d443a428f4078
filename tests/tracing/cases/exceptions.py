# ruff: noqa
# fmt: off
"""try in all its forms: what is caught, chained, re-raised, and what `sys.exc_info()` shows where."""

import sys
import traceback


class Custom(Exception):
    pass


def seen():
    kind, error, entry = sys.exc_info()
    return None if kind is None else (kind.__name__, str(error), entry.tb_lineno)


def basics(log):
    try:
        log.append(seen())
        raise Custom(1)  # @inspect log
    except (KeyError, Custom) as error:  # @inspect error.args
        log.append((error.args, seen()))
    else:
        log.append("not reached")
    finally:
        log.append(seen())
    log.append((seen(), "error" in locals()))
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


def raised_again():
    try:
        raise ValueError("outer")
    except ValueError as error:
        kept = error
        try:
            reraise()
        except ValueError:
            pass
    raise kept


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


def group_from_handlers():
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), OSError(3)])
    except* ValueError:
        raise RuntimeError("in handler")
    except* KeyError as e:
        raise


def deep(n):
    if n:
        return deep(
            n - 1
        )
    return (
        1 /
        0
    )


def inspected():
    value = 1  # @inspect value.nothing, value, undefined
    other = value  # @inspect undefined.attr()
    return [value][other]  # @inspect value


def from_exit():
    class Bad:
        def __enter__(self): return self
        def __exit__(self, *args): raise RuntimeError("exit")
    with Bad():
        raise ValueError("body")


def exits():
    raise SystemExit(3)


FAILING = (
    chained, raised_again, reraise, group_from_handlers, lambda: deep(3), inspected, from_exit, exits,
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
    raise Custom("code 99")


def described(error):
    if error is None:
        return None
    entries = [(e.name, e.lineno, e.end_lineno, e.colno, e.end_colno) for e in traceback.extract_tb(error.__traceback__)]
    members = [described(e) for e in getattr(error, "exceptions", ())]
    return (type(error).__name__, str(error), entries, members, error.__suppress_context__,
            described(error.__cause__), described(error.__context__))
