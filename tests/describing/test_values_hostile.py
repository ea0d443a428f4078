"""Hostile objects are described, and describing leaves nothing behind."""

import collections
import gc
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.cases_in_one import each
from tests.describing.value_form import assert_form
from trace_tools.describing.values import Describer
from trace_tools.describing.walk import ValueLimits


def describe(obj: object, redact: Callable[[str], str] | None = None, **limits: Any) -> dict[str, Any]:
    describer = Describer(limits=ValueLimits(**limits), redact=redact or str)
    value = describer.describe(obj)
    assert_form(value)
    return value


def raises(*args: Any, **kwargs: Any) -> Any:
    raise ZeroDivisionError("hostile")


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


def test_a_false_class_attribute_is_ignored() -> None:
    liar = type("Liar", (), {"__class__": property(lambda self: dict), "__repr__": lambda self: "liar"})()
    assert describe(liar) == {"type": "Liar", "text": "liar"}


def test_lookups_of_a_class_and_its_metaclass_do_not_run() -> None:
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
    value = describe(type("Odd", (), {"__repr__": make})(), repr_seconds=0.05)
    assert value["type"] == "Odd" and value["note"].startswith(note)


def test_the_time_limit_is_for_all_reprs_together() -> None:
    kind = type("Hangs", (), {"__repr__": forever})
    started = time.monotonic()
    value = describe([kind() for _ in range(50)], repr_seconds=0.05)
    assert time.monotonic() - started < 5
    assert value["items"][-1]["note"] == "repr not called: this value already took too long"


def test_keyboard_interrupts_are_raised() -> None:
    def interrupt(self: object) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        describe([type("Odd", (), {"__repr__": interrupt})()])


def test_a_container_that_changes_while_it_is_described() -> None:
    numbers: list[Any] = []
    numbers += [type("Clears", (), {"__repr__": lambda self: numbers.clear() or "cleared"})(), 1]
    assert describe(numbers)["items"][1] == {"type": "int", "value": 1}


def test_described_objects_are_not_kept_alive() -> None:
    class Thing:
        pass

    class Broken:
        def __repr__(self) -> str:
            raise ValueError(self)

    describer = Describer()
    gc.disable()
    try:
        for make in (Thing, Broken, lambda: type("Local", (), {})):
            obj = make()
            watch = weakref.ref(obj)
            describer.describe([obj, {"k": obj}])
            del obj
            if make in (Thing, Broken):  # a class is in a cycle with itself
                assert watch() is None
        gc.collect()
        assert watch() is None
    finally:
        gc.enable()


def test_neither_torch_nor_numpy_is_imported() -> None:
    code = (
        "import sys; from trace_tools.describing.values import Describer\n"
        "Describer().describe([1, 'a', object(), {1: 2}, Describer, sys])\n"
        "ours = {'trace_tools.describing.tensors', 'trace_tools.describing.arrays'}\n"
        "print({'torch', 'numpy', *ours} & sys.modules.keys())"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_empty_modules_named_numpy_and_torch_are_tolerated() -> None:
    code = (
        "import sys, types; sys.modules['numpy'] = sys.modules['torch'] = types.ModuleType('numpy')\n"
        "from trace_tools.describing.values import Describer; print(Describer().describe([1, None])['length'])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "2\n"
