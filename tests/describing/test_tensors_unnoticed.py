"""Describing tensors does not affect the lecture."""

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from tests.describing.tensor_kinds import Overridden, Wrapper, only_known_warnings
from tests.describing.value_form import describe, tensor
from trace_tools.describing.values import Describer

Value = dict[str, Any]

SPARSE = torch.eye(3).to_sparse()


@pytest.fixture(autouse=True)
def no_warning_escapes() -> Iterator[None]:
    with only_known_warnings():
        yield


class Counting(TorchDispatchMode):
    """Records operators."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


class Watching(TorchFunctionMode):
    """Records calls of torch's functions."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


class Printing:
    """Its repr computes with a tensor."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def __repr__(self) -> str:
        return f"mean {(self.x * 2).mean():.1f} grad {torch.is_grad_enabled()}"


def objects_to_describe() -> list[Any]:
    x = torch.arange(4.0)
    return [
        x,
        torch.zeros(100, 100),
        torch.zeros(3, requires_grad=True),
        torch.zeros(300, requires_grad=True) * 2,
        torch.tensor([1 + 1j]).conj(),
        x.to(torch.float8_e5m2),
        SPARSE,
        torch.nested.nested_tensor([torch.ones(2)]),
        torch.nn.Linear(2, 2),
        Printing(x),
        [x, {"x": x}],
    ]


def test_describing_is_hidden_from_torch_modes() -> None:
    objs = objects_to_describe()
    expected = [describe(obj) for obj in objs]
    with Counting() as counting, Watching() as watching, FlopCounterMode(display=False) as flops:
        for obj, value in zip(objs, expected, strict=True):
            counting.calls.clear()
            watching.calls.clear()
            assert describe(obj) == value
            assert counting.calls == watching.calls == []
        torch.ones(2) + 1  # the modes are still on
        assert counting.calls and watching.calls
    assert flops.get_total_flops() == 0


def test_describing_is_hidden_from_the_profiler() -> None:
    objs = [obj for obj in objects_to_describe() if type(obj) is not Printing]
    with torch.profiler.profile() as profile:
        describe(objs)
        torch.ones(2)
    assert {event.name for event in profile.events()} == {"aten::ones", "aten::empty", "aten::fill_"}


@pytest.mark.parametrize(
    "context",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: torch.device("meta"),
        lambda: torch.autograd.set_detect_anomaly(True, check_nan=True),
        FakeTensorMode,
    ],
)
def test_torch_contexts_do_not_change_descriptions(context: Callable[[], Any]) -> None:
    objs = objects_to_describe()[:-2]
    expected = [describe(obj) for obj in objs]
    with context():
        assert [describe(obj) for obj in objs] == expected


def test_torch_defaults_do_not_change_descriptions() -> None:
    objs = [obj for obj in objects_to_describe() if not getattr(obj, "is_nested", False) and obj is not SPARSE]
    expected = [describe(obj) for obj in objs]
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float16)
    torch.use_deterministic_algorithms(True)
    try:
        assert [describe(obj) for obj in objs] == expected
        assert torch.get_default_dtype() is torch.float16 and torch.get_default_device().type == "meta"
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)


def test_inference_tensors() -> None:
    with torch.inference_mode():
        x, large = torch.ones(3), torch.ones(300)
    assert tensor(x)["elements"] == [1.0, 1.0, 1.0]
    assert tensor(large)["statistics"]["max"] == 1.0


@pytest.mark.parametrize("size", [3, 3000])
def test_describing_does_not_change_tensors(size: int) -> None:
    leaf = torch.randn(size, requires_grad=True)
    x = leaf * 2
    hooked: list[Any] = []
    x.register_hook(hooked.append)
    versions, function = (leaf._version, x._version), x.grad_fn
    state, enabled = torch.get_rng_state(), torch.is_grad_enabled()
    saved: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        describe([leaf, x, x.conj(), {"x": x[1:]}])
    assert (leaf._version, x._version) == versions
    assert x.grad_fn is function and leaf.grad_fn is None and leaf.is_leaf and leaf.requires_grad
    assert hooked == saved == []
    assert torch.equal(torch.get_rng_state(), state) and torch.is_grad_enabled() == enabled
    x.sum().backward()
    assert torch.equal(leaf.grad, torch.full((size,), 2.0))  # type: ignore[arg-type]
    assert leaf.untyped_storage().resizable()  # which a conversion to NumPy would end
    assert tensor(leaf)["elements" if size == 3 else "corner"][0] == leaf[0].item()


def test_tensors_are_not_kept_alive() -> None:
    describer = Describer()
    gc.disable()
    try:
        for make in (
            lambda: torch.ones(3),
            lambda: torch.ones(300),
            lambda: torch.ones(3, requires_grad=True) * 2,
            lambda: torch.eye(3).to_sparse(),
            lambda: Wrapper(torch.ones(2)),
            lambda: torch.ones(3).as_subclass(Overridden),
            lambda: torch.nn.Linear(2, 2),
            lambda: torch.zeros(9, dtype=torch.uint8).view(torch.bits8),
        ):
            obj = make()
            watch = weakref.ref(obj)
            describer.describe(obj)
            del obj
            assert watch() is None
    finally:
        gc.enable()


def test_modes_survive_a_failing_repr() -> None:
    class Fails:
        def __repr__(self) -> str:
            raise ValueError(torch.ones(1))

    with Counting() as counting:
        describe(Fails())
        counting.calls.clear()
        torch.ones(2)
    assert counting.calls


def test_labels_are_distinct_across_threads() -> None:
    describer = Describer()
    tensors = [[torch.zeros(2) for _ in range(50)] for _ in range(4)]
    labels: list[str] = []

    def work(own: list[torch.Tensor]) -> None:
        labels.extend(describer.describe(x)["tensor"]["storage"] for x in own for _ in range(3))

    threads = [threading.Thread(target=work, args=(own,)) for own in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(labels) == 600 and len(set(labels)) == 200


@pytest.mark.slow
def test_numpy_is_not_needed() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "import torch; from trace_tools.describing.values import Describer; d = Describer()\n"
        "print(d.describe(torch.ones(300))['tensor']['statistics']['mean'], d.describe([torch.ones(2), 1])['length'])"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert completed.stdout == "1.0 2\n", completed.stderr
