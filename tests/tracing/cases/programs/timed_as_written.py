"""What a lecture times runs as written: its functions take about as long as the same code without functions of its own."""
# needs torch
import threading, timeit

import torch.utils.benchmark
from trace_tools import measure


class Layer:
    def forward(self, x):
        def added(z, i):
            z = z + i
            return z

        z = 0
        for i in counted(20):
            z = added(z, i)
        return z


def counted(n):
    for i in range(n):
        j = i + 1
        yield j


def in_thread(f):
    thread = threading.Thread(target=lambda: [f() for _ in range(50)])
    thread.start()
    thread.join()


def main():
    compare()
    claims()


def compare():
    forward = lambda: Layer().forward(1)
    # without a statement that a probe could precede
    inline = lambda: sum((lambda z, i: z + i)(0, i) for i in (lambda n: (i + 1 for i in range(n)))(20))
    own, same = (m.seconds for m in measure(forward, inline))
    timed = min(timeit.repeat(forward, number=2000, repeat=3)) / 2000
    bench = torch.utils.benchmark.Timer("forward()", globals={"forward": forward}).blocked_autorange(min_run_time=0.05)
    threads = [m.seconds for m in measure(lambda: in_thread(forward), lambda: in_thread(inline))]
    print([seconds < 3 * same for seconds in (own, timed, bench.median)], threads[0] < 3 * threads[1])


def positive(x):
    assert x > 0, f"{x} is not positive"
    return x


def claims():
    for time in (measure, timeit.timeit):
        try:
            time(lambda: positive(-1))
        except AssertionError as error:
            print(error)


if __name__ == "__main__":
    main()
