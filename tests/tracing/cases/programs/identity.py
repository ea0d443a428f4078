"""The program is the module `__main__`"""
import contextvars, dataclasses, doctest, inspect, multiprocessing, os, pickle, runpy, sys, typing

class Point:
    """A point

    >>> Point().x
    3
    """
    x: int = 3

@dataclasses.dataclass
class Pair:
    a: "Point"
    b: "typing.ClassVar[int]" = 1

def square(x: "int") -> "Point":
    return x * x

def work(x):
    return __name__, x * x, Point

assert __name__ in ("__main__", "__mp_main__", "other")
IS_SCRIPT = __name__

def main():
    names()
    looking()
    processes()
    running()

def names():
    """Names"""
    import __main__
    print(__builtins__.len([1]), type(__loader__).__name__, __loader__.name, __spec__, __package__, __name__)
    print(os.path.basename(__file__), os.path.isabs(__file__), __cached__, __annotations__, __doc__, IS_SCRIPT)
    print(list(globals())[:10], "identity" in sys.modules, len(sys.argv), os.path.basename(sys.argv[0]))
    print(__main__.names is names, vars(sys.modules["__main__"]) is globals())
    print([variable.name for variable in contextvars.copy_context()])

def looking():
    """Looking"""
    print(Point, Point.__module__, square.__module__, square.__globals__ is globals())
    print(pickle.loads(pickle.dumps(Point)) is Point, b"__main__" in pickle.dumps(square))
    print(typing.get_type_hints(square), typing.get_type_hints(Pair), dataclasses.fields(Pair)[0].type)
    print(inspect.getsource(Point), inspect.getsource(square), inspect.getmodule(square).__name__)

def processes():
    """Processes"""
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(work, [1, 2]), pool.apply(square, (3,)))

def running():
    """Running"""
    print(doctest.testmod())
    print(sorted(runpy.run_path(__file__, run_name="other"))[:3])

if __name__ == "__main__":
    main()
