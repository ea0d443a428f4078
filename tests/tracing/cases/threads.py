# ruff: noqa
# fmt: off
"""Threads: targets, pools, locals, exceptions that end them, generators handed from one to another."""

import concurrent.futures
import contextvars
import queue
import threading

local = threading.local()
variable = contextvars.ContextVar("variable", default="unset")


def worker(n, results, lock):  # @inspect n
    local.value = n
    for i in range(n):  # @inspect i
        with lock:
            results.append((n, i, local.value))
    return n


class Ticking(threading.Thread):
    def __init__(self, ticks):
        super().__init__(name="ticking", daemon=True)
        self.ticks, self.seen = ticks, []

    def run(self):
        for item in iter(self.ticks.get, None):  # @inspect item
            self.seen.append(item)


def failing(message):
    raise ValueError(message)


def produce(n):
    for i in range(n):
        yield i, threading.current_thread() is threading.main_thread()


def main():
    log, results, lock = [], [], threading.Lock()
    started = [threading.Thread(target=worker, args=(n, results, lock)) for n in range(4)]
    for thread in started: thread.start()
    for thread in started: thread.join()
    log.append(sorted(results))
    log.append(hasattr(local, "value"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        log.append(sorted(pool.map(worker, range(5), [results] * 5, [lock] * 5)))
        future = pool.submit(failing, "in a pool")
        try:
            future.result()
        except ValueError as error:
            log.append((str(error), error.__traceback__.tb_lineno))
        g = produce(3)
        log.append([next(g)] + [pool.submit(next, g).result() for _ in range(2)])
        variable.set("set")
        log.append(pool.submit(contextvars.copy_context().run, variable.get).result())
    ticks = queue.Queue()
    ticking = Ticking(ticks)
    ticking.start()
    for item in ["a", "b", None]: ticks.put(item)
    ticking.join()
    log.append([ticking.seen, ticking.name, threading.active_count()])
    hooked, before = [], threading.excepthook
    threading.excepthook = lambda args: hooked.append((args.exc_type.__name__, str(args.exc_value), args.thread.name))
    try:
        thread = threading.Thread(target=failing, args=("unhandled",), name="doomed")
        thread.start(); thread.join()
    finally:
        threading.excepthook = before
    log.append(hooked)
    done = threading.Event()
    timer = threading.Timer(0.001, done.set)
    timer.start()
    log.append(done.wait(5))
    timer.join()
    return log
