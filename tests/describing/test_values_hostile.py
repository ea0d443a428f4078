"""Hostile objects are described, and describing leaves nothing behind."""

import collections
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.cases_in_one import each
from tests.describing.value_form import describe


def raises(*args: Any, **kwargs: Any) -> Any:
    raise ZeroDivisionError("hostile")


def odd(**methods: Any) -> Any:
    """Return an object whose class has these methods."""
    return type("Odd", (), methods)()


HOSTILE = {
    name: raises
    for name in (
        *("__repr__", "__str__", "__len__", "__iter__", "__eq__", "__hash__", "__bool__", "__getattr__", "__getitem__"),
        *("__getattribute__", "__format__", "__sizeof__", "__dir__", "__contains__", "__reversed__", "__lt__"),
        *("items", "keys", "values", "__int__", "__float__", "__index__", "__array__", "__torch_function__"),
    )
}


@each("base", [object, list, tuple, dict, set, frozenset, collections.OrderedDict, int, float, str, bytes])
def test_hostile_methods_do_not_prevent_a_description(base: type) -> None:
    kind = type("Hostile", (base,), HOSTILE | {"__class__": property(raises)})
    obj = base.__new__(kind, *([[1]] if base in (tuple, frozenset) else []))
    value = describe(obj)
    assert value["type"] == "Hostile"
    assert "items" in value or "entries" in value or "repr raised" in value["note"], value
    assert describe([obj])["items"] == [value]


def test_lookups_of_a_class_and_its_metaclass_do_not_run() -> None:
    liar = odd(__class__=property(lambda self: dict), __repr__=lambda self: "liar")
    assert describe(liar) == {"type": "Odd", "text": "liar"}
    meta = type("Registry", (type,), {"__getattr__": raises})
    kind = meta("Kind", (), {"__slots__": (), "__getattr__": raises, "__repr__": lambda self: "instance"})
    assert describe(kind()) == {"type": "Kind", "text": "instance"}
    pair = meta("Pair", (tuple,), {})
    assert describe(pair((1, 2)))["length"] == 2


def forever(self: object) -> str:
    while True:
        pass


@each(
    ("make", "note"),
    [
        (raises, "repr raised ZeroDivisionError: hostile"),
        (lambda self: 3, "repr raised TypeError: __repr__ returned non-string (type int)"),
        (lambda self: repr(self), "repr raised RecursionError: maximum recursion depth exceeded"),
        (lambda self: sys.exit("bye"), "repr raised SystemExit: bye"),
        (lambda self: (_ for _ in ()).throw(GeneratorExit), "repr raised GeneratorExit"),
        (forever, "repr took too long"),
    ],
)
def test_reprs_that_fail_or_hang_are_described(make: Callable[[Any], Any], note: str) -> None:
    value = describe(odd(__repr__=make), repr_seconds=0.05)
    assert value["type"] == "Odd" and value["note"].startswith(note)


def test_the_time_limit_is_for_all_reprs_together() -> None:
    started = time.monotonic()
    value = describe([odd(__repr__=forever) for _ in range(50)], repr_seconds=0.05)
    assert time.monotonic() - started < 5
    assert value["items"][-1]["note"] == "repr not called: this value already took too long"


def test_keyboard_interrupts_are_raised() -> None:
    def interrupt(self: object) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        describe([odd(__repr__=interrupt)])


def test_a_container_that_changes_while_it_is_described() -> None:
    numbers: list[Any] = []
    numbers += [odd(__repr__=lambda self: numbers.clear() or "cleared"), 1]
    assert describe(numbers)["items"][1] == {"type": "int", "value": 1}


@each(
    ("before", "obj", "loaded"),
    [
        ("", "[1, 'a', object(), {1: 2}, Describer, sys]", "set()"),
        ("import numpy", "numpy.ones(300)", "{'numpy'}"),
        ("sys.modules['numpy'] = sys.modules['torch'] = type(sys)('empty')", "[1, None]", "{'numpy', 'torch'}"),
    ],
)
def test_libraries_that_the_lecture_does_not_use_are_not_imported(before: str, obj: str, loaded: str) -> None:
    code = (
        f"import sys\n{before}\nfrom trace_tools.describing.values import Describer\n"
        f"assert 'note' not in Describer().describe({obj})\n"
        f"assert {{'torch', 'numpy'}} & sys.modules.keys() == {loaded}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_numpy_is_not_needed() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "import torch; from trace_tools.describing.values import Describer; d = Describer()\n"
        "print(d.describe(torch.ones(300))['tensor']['statistics']['mean'], d.describe([torch.ones(2), 1])['length'])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "1.0 2\n"
