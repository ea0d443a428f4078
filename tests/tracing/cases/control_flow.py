# ruff: noqa
# fmt: off
"""Loops and their `else`, leaving them from every kind of block, one-line compounds, semicolons."""


class Manager:
    def __init__(self, log, name, swallow=False):
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, error, traceback):
        self.log.append(f"exit {self.name} {kind and kind.__name__}")
        return self.swallow


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
    while True:
        n += 1
        if n > 3: break
    while n > 0: n -= 2
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
    for i in range(3):
        while i:
            i -= 1
            continue
        else:
            continue
        log.append("not reached")
    for i, (j, *k) in enumerate([(1, 2, 3), "abc"]): log.append((i, j, k))  # @inspect k
    for log_target in log: break
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
            log.append(i)
            1 / (i - 1)
        except ZeroDivisionError:
            break
        finally:
            if i == 0: continue
            log.append("final")
    for i in range(3):
        try:
            raise ValueError(i)
        finally:
            if i < 2: continue
            break
    for _ in range(2):
        with Manager(log, "swallowing", True):
            raise ValueError("gone")
        log.append("went on")


def returns(log, how):
    try:
        if how == "try": return "try"  # @inspect how
        if how == "raise": raise ValueError(how)
        with Manager(log, "with"):
            for i in range(2):
                if how == "with": return how, i  # @inspect i
    except ValueError as error:
        return "except", str(error)
    else:
        return "else"
    finally:
        log.append(("finally", how))
        if how == "finally": return "finally wins"


def nested_finally():
    for i in range(2):
        try:
            try:
                return "first"
            finally:
                if i == 0: continue
                return "second"
        finally:
            if i: return "third"


def one_liners(x):
    if x: y = 1; z = 2
    elif x is None: y = z = 3
    else: y = 4; z = 5  # @inspect y, z
    try: y += 1; raise KeyError
    except KeyError: z += 1
    finally: y += 1; z += 1
    with Manager([], "one"): y += 10  # @inspect y
    def f(a, b=2): return a + b  # @inspect a
    class C: attribute = y; other = 7  # @inspect C.attribute
    for i in range(2): y += i; z += i
    while z > 100: z -= 1
    return y, z, f(1), C.attribute, C.other


def branches(x):
    if x == 1:  # @inspect x
        found = "one"
    elif x == 2:
        found = "two"
    elif x == 3: found = "three"  # @inspect found
    else:
        if x == 4:
            found = "four"
        else:
            found = "other"
    if not x: pass
    elif x < 0: ...
    return found  # @inspect found


def unreachable(x):
    if x:
        return 1
        x = 2
    raise ValueError("x") if x is None else KeyError("x")
    return 3


def main():
    log = []
    loops(log)
    leaving(log)
    for how in ("try", "raise", "with", "finally", "else"):
        log.append(returns(log, how))
    log.append(nested_finally())
    log.append([one_liners(x) for x in (True, None, 0)])
    log.append([branches(x) for x in range(6)])
    for x in (1, 0, None):
        try: log.append(unreachable(x))
        except (ValueError, KeyError) as error: log.append(repr(error))
    return log
