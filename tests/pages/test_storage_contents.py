from __future__ import annotations

import random

import numpy as np

from tests.cases_in_one import each
from trace_tools.pages.player import StorageContents
from trace_tools.trace.model import Tensor, Value


def seen(view: np.ndarray, base: np.ndarray, label: str = "A") -> Value:
    """Describe a numpy view as the tracer describes a tensor."""
    offset = (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // base.itemsize
    strides = [stride // base.itemsize for stride in view.strides]
    elements = [element.item() for element in view.flatten()]
    shape = list(view.shape)
    return Value(
        "tensor", tensor=Tensor("float32", shape, "cpu", None, strides, offset, storage=label, elements=elements)
    )


def some_view(base: np.ndarray, choose: random.Random) -> np.ndarray:
    view = base.reshape(choose.choice([(12,), (3, 4), (4, 3), (2, 6), (2, 3, 2)]))
    if choose.random() < 0.5:
        view = view.T
    start = choose.randrange(view.shape[0])
    view = view[start : start + choose.randint(1, 4) : choose.randint(1, 2)]
    return np.broadcast_to(view, (2, *view.shape)) if choose.random() < 0.2 else view


@each("seed", range(20))
def test_a_write_is_noticed_exactly_where_a_view_shows_something_else_than_was_seen(seed: int) -> None:
    choose = random.Random(seed)
    base, last_seen = np.arange(12, dtype=np.float32), np.full(12, np.nan, dtype=np.float32)
    contents = StorageContents()
    places = np.arange(12)
    for turn in range(60):
        if choose.random() < 0.5:
            base[choose.randrange(12)] = turn + 100
        state = choose.getstate()
        view = some_view(base, choose)
        choose.setstate(state)
        at = some_view(places, choose).flatten()
        known = ~np.isnan(last_seen[at])
        assert contents.note(seen(view, base)) == bool((last_seen[at] != base[at])[known].any())
        last_seen[at] = base[at]


def test_nan_that_stays_is_no_write_and_another_storage_is_another() -> None:
    contents = StorageContents()
    base = np.array([np.nan, 1.0], dtype=np.float32)
    assert [contents.note(seen(base, base)) for _ in range(2)] == [False, False]
    assert not contents.note(seen(base + 1, base + 1, "B"))
    base[:] = 0
    assert contents.note(seen(base, base))


def test_what_has_no_elements_or_no_strides_says_nothing() -> None:
    contents = StorageContents()
    large = Tensor("float32", [1000], "cpu", strides=[1], storage="A")
    sparse = Tensor("float32", [2], "cpu", storage="A", elements=[1.0, 2.0])
    for value in (Value("int", 3), Value("tensor", tensor=large), Value("tensor", tensor=sparse)):
        assert not contents.note(value)
