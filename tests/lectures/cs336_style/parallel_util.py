import multiprocessing
import sys


def spawn(function, count: int):
    """Run a function for each rank: in processes, unless it is to be traced."""
    if sys.gettrace():
        function(0, count)
    else:
        spawned(function, count)


def spawned(function, count: int):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=function, args=(rank, count)) for rank in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
