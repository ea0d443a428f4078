import collections
import collections.abc

from trace_tools.describing.guarded_repr import class_name, is_a, plain_repr, without_addresses


def test_addresses_are_removed() -> None:
    assert plain_repr(object()) == "<object object>"
    assert plain_repr(test_addresses_are_removed) == "<function test_addresses_are_removed>"
    assert "0x" not in plain_repr([].append)
    assert without_addresses("0x7f3a12345678, 0xff, 0x12") == "0x…, 0xff, 0x12"


def test_a_text_that_runs_code_when_used() -> None:
    class Text(str):
        __str__ = __getitem__ = property(lambda self: 1 / 0)  # type: ignore[assignment]

    assert type(without_addresses(Text("x"))) is str


def test_class_names() -> None:
    assert class_name(int) == "int"
    assert class_name(type("error", (), {"__module__": "re"})) == "re.error"
    assert len(class_name(type("x" * 10_000, (), {}))) == 200


def test_registered_classes_are_not_derived() -> None:
    assert is_a(collections.Counter, dict) and not is_a(dict, "dict")
    assert issubclass(dict, collections.abc.Mapping) and not is_a(dict, collections.abc.Mapping)
