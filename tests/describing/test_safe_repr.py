from typing import Any, NoReturn

from trace_tools.describing.safe_repr import class_attribute, class_name, is_a, plain_repr, without_addresses


def refuses(*_: Any) -> NoReturn:
    raise ValueError("asked")


def test_addresses_are_removed() -> None:
    assert plain_repr(object()) == "<object object>"
    assert plain_repr(test_addresses_are_removed) == "<function test_addresses_are_removed>"
    assert "0x" not in plain_repr([].append)
    assert without_addresses("0x7f3a12345678, 0xff, 0x12") == "0x…, 0xff, 0x12"


def test_class_names() -> None:
    class Meta(type):
        __name__ = property(refuses)  # type: ignore[assignment]

    assert class_name(Meta("Odd", (), {})) == "Odd"
    assert class_name(int) == "int"
    assert class_name(type("error", (), {"__module__": "re"})) == "re.error"
    assert len(class_name(type("x" * 10_000, (), {}))) == 200


def test_a_class_whose_names_run_code() -> None:
    class Text(str):
        __hash__ = __eq__ = __ne__ = __format__ = __getitem__ = refuses  # type: ignore[assignment]

    kind = type(Text("error"), (), {"__module__": Text("place")})
    assert class_name(kind) == "place.error"
    assert class_name(type("error", (), {"__module__": 3})) == "?.error"


def test_methods_of_a_metaclass_are_not_called() -> None:
    methods = {name: refuses for name in ("__getattribute__", "__getattr__", "__subclasscheck__", "__hash__", "__eq__")}
    meta = type("Meta", (type,), methods)
    base = meta("Base", (dict,), {"__match_args__": ("x",)})
    kind = meta("Kind", (base,), {})
    assert class_attribute(kind, "__match_args__") == ("x",) and class_attribute(kind, "absent") is None
    assert is_a(kind, dict) and is_a(kind, base) and not is_a(kind, list) and not is_a(kind, "dict")
