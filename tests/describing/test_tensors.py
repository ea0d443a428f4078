"""How tensors are described, and that describing them does not affect the lecture."""

import contextlib
import gc
import math
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from tests.cases_in_one import each
from tests.describing.value_form import describe, part, tensor
from trace_tools.describing.values import Describer

Value = dict[str, Any]

WRAPPER = "a wrapper without elements of its own"
DIAGONAL = torch.diag(torch.tensor([1.0, 0.0, 3.0]))


@pytest.fixture(autouse=True)
def no_warning_escapes() -> Iterator[None]:
    """Turn warnings into errors, except torch's warnings about tensors that tests make."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*torch.jit.script")  # by torch itself, on import
        warnings.filterwarnings("ignore", "Sparse .* tensor support is in beta")  # when one is made
        warnings.filterwarnings("ignore", "Sparse invariant checks")
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")
        warnings.filterwarnings("ignore", ".*quantize.*deprecated")
        warnings.filterwarnings("ignore", "Lazy modules are a new feature")
        warnings.filterwarnings("ignore", "ComplexHalf support is experimental")
        yield


BOX = torch.arange(24.0).reshape(2, 3, 4)


@each(
    "x",
    [
        BOX,
        BOX.transpose(0, 2),
        BOX[:, 1:, ::2],
        BOX[1, 2],
        BOX[:, :1].expand(2, 5, 4),
        torch.arange(10.0).unfold(0, 4, 2),
        torch.arange(9.0).reshape(3, 3).diagonal(),
        torch.tensor(2.5),
        BOX[0, 0, 3],
        torch.empty(0, 3),
        torch.arange(16.0).reshape(1, 2, 2, 4).to(memory_format=torch.channels_last),
        torch.nn.Parameter(BOX),
        torch.ones(3, requires_grad=True) * 2,
    ],
)
def test_tensor_fields_equal_torchs(x: torch.Tensor) -> None:
    value = describe(x)
    assert value["type"] == ("parameter" if type(x) is torch.nn.Parameter else "tensor")
    field = value["tensor"]
    assert (field["dtype"], field["device"], tuple(field["shape"])) == ("float32", "cpu", tuple(x.shape))
    assert tuple(field["strides"]) == x.stride()
    assert field["offset"] == x.storage_offset()
    assert field["contiguous"] == x.is_contiguous()
    assert field.get("requires_grad", False) == x.requires_grad
    assert field["bytes"] == x.numel() * x.element_size()
    assert field["storage_bytes"] == x.untyped_storage().nbytes()
    assert field["elements"] == x.detach().reshape(-1).tolist()
    assert "layout" not in field


# ---------------------------------------------------------------- storage


def test_shared_memory_has_equal_labels() -> None:
    describer = Describer()
    x, y = torch.zeros(4), torch.zeros(4)
    tensors = (x, y, x[1:], x.view(2, 2).T, y.detach(), x.clone())
    assert [tensor(t, describer)["storage"] for t in tensors] == ["s1", "s2", "s1", "s1", "s2", "s3"]
    a = np.arange(12.0).reshape(3, 4)
    t = torch.from_numpy(a)
    middle, again, other = torch.from_numpy(a[1]), torch.from_numpy(a), torch.from_numpy(np.zeros(3))
    fields = [tensor(obj, describer) for obj in (t, a, middle, again, a.T, t[1:], other)]
    assert [field["storage"] for field in fields] == ["s4"] * 6 + ["s5"]
    exported = torch.arange(6.0)
    assert tensor(exported.numpy()[2:], describer) == tensor(exported, describer) | {
        "shape": [4], "bytes": 16, "offset": 2, "elements": [2.0, 3.0, 4.0, 5.0],
    }  # fmt: skip


def test_reused_memory_gets_a_new_label() -> None:
    describer = Describer()
    labels, addresses = [], set()
    for _ in range(600):
        x = torch.empty(64)
        addresses.add(x.data_ptr())
        labels.append(describer.describe(x)["tensor"]["storage"])
        del x
    assert len(addresses) < len(labels) == len(set(labels))


@each("size", [8, 8000])
@each("remaining", [0, 16])
def test_shrunk_storages_are_not_read(size: int, remaining: int) -> None:
    x = torch.zeros(size)
    x.untyped_storage().resize_(remaining)
    value = describe(x)
    assert value["note"] == "its storage was freed or shrunk"
    assert not {"elements", "corner", "statistics"} & value["tensor"].keys()
    assert value["tensor"]["storage_bytes"] == remaining


def test_meta_tensors_have_labels_but_no_elements() -> None:
    describer = Describer()
    x = torch.empty(10**6, 10**6, device="meta")
    value = describe(x, describer)
    assert value["note"] == "a meta tensor has no elements"
    assert value["tensor"]["bytes"] == 4 * 10**12
    assert tensor(x[1:], describer)["storage"] == value["tensor"]["storage"]


# ---------------------------------------------------------------- subclasses, layouts, transforms


class Overridden(torch.Tensor):
    """Overrides methods and attributes with ones that fail."""

    calls: list[Any] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func)
        raise AssertionError(func)

    shape = property(lambda self: 1 / 0)  # type: ignore[assignment]
    tolist = numel = untyped_storage = stride = lambda self: 1 / 0  # type: ignore[assignment]


class Logged(torch.Tensor):
    """Has elements, and logs every operator."""

    calls: list[Any] = []  # noqa: RUF012

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func)
        return super().__torch_dispatch__(func, types, args, kwargs or {})


@each("size", [3, 300])
@each("kind", [Overridden, Logged])
def test_methods_of_subclasses_are_not_called(kind: Any, size: int) -> None:
    x = torch.Tensor._make_subclass(kind, torch.ones(size))
    kind.calls.clear()
    value = describe(x)
    assert value["type"] == kind.__name__
    assert value["tensor"].get("elements", value["tensor"].get("corner"))[0] == 1.0
    assert kind.calls == []


@pytest.mark.parametrize(
    ("make", "fields", "note"),
    [
        (lambda: DIAGONAL.to_sparse(), {"shape": [3, 3], "layout": "sparse_coo"}, ""),
        (lambda: DIAGONAL.to_sparse_csr(), {"shape": [3, 3], "layout": "sparse_csr"}, ""),
        (
            lambda: torch.sparse_coo_tensor([[0, 9], [1, 9]], [1.0, 2.0], (10**6, 10**6), requires_grad=True),
            {"shape": [10**6, 10**6], "requires_grad": True},
            "",
        ),
        (lambda: torch.arange(4.0).to_mkldnn(), {"layout": "_mkldnn"}, ""),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)]), {}, "nested"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)], layout=torch.jagged), {}, WRAPPER),
        (
            lambda: torch.quantize_per_tensor(torch.tensor([0.0, 0.26]), 0.125, 3, torch.quint8),
            {"dtype": "quint8", "bytes": 2},
            "quantised",
        ),
        (lambda: FakeTensorMode().from_tensor(torch.ones(2, 3)), {"shape": [2, 3], "device": "cpu"}, WRAPPER),
    ],
)
def test_other_tensors_show_their_repr(make: Callable[[], torch.Tensor], fields: Value, note: str) -> None:
    x = make()
    value = describe(x)
    assert value["text"] == repr(x)
    assert value.get("note", "") == note
    assert fields.items() <= value.get("tensor", {}).items()
    assert not {"elements", "strides", "storage"} & value.get("tensor", {}).keys()


@each(
    "transform",
    [
        torch.vmap,
        torch.func.grad,
        lambda f: torch.func.grad(lambda y: torch.vmap(f)(y).sum()),
        lambda f: lambda y: torch.func.jvp(f, (y,), (y,)),
        torch.func.functionalize,
    ],
)
def test_tensors_inside_transforms_of_torch_func(transform: Callable[..., Any]) -> None:
    others = [torch.eye(2), torch.zeros(300), torch.ones(2).to(torch.float8_e4m3fn)]
    expected, x, inside = [describe(other) for other in others], torch.arange(6.0).reshape(2, 3), list[Value]()

    def inspected(x: torch.Tensor) -> torch.Tensor:
        assert [describe(other) for other in others] == expected
        inside.append(describe(x))
        y = x * x
        describe(y)
        return y.sum()

    assert str(transform(inspected)(x)) == str(transform(lambda x: (x * x).sum())(x))
    assert inside[0]["note"] == "inside a transform of torch.func"
    assert inside[0]["tensor"]["shape"][-1] == 3 and "1., 2." in inside[0]["text"]


def test_shapes_dtypes_modules_and_optimizers() -> None:
    x = torch.tensor([[1.0, 5.0], [7.0, 3.0]])
    assert describe(x.shape) == {"type": "Size", "text": "torch.Size([2, 2])"}
    assert describe(x.dtype) == {"type": "dtype", "text": "torch.float32"}
    assert describe(x.device) == {"type": "device", "text": "device(type='cpu')"}
    assert describe(torch.Generator())["text"] == "<torch._C.Generator object>"
    assert part(describe(x.max(dim=0)), "indices")["tensor"]["elements"] == [1, 0]
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    value = describe(model)
    assert (value["type"], value["text"]) == ("Sequential", repr(model))
    assert part(value, "parameters")["value"] == 9
    assert part(describe(model.state_dict()), "0.weight")["tensor"]["shape"] == [3, 2]
    assert describe(torch.optim.SGD(model.parameters()))["text"].startswith("SGD (\n")
    lazy = torch.nn.LazyLinear(3)
    assert describe(lazy.weight)["type"] == "UninitializedParameter"
    assert part(describe(lazy), "parameters")["value"] == 0


# ---------------------------------------------------------------- elements


DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "bool", "uint8", "int8", "int16", "int32", "int64"),
    *("uint16", "uint32", "uint64", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32"),
)


@each("name", [name for name in DTYPES if hasattr(torch, name)])
def test_elements_of_every_type(name: str) -> None:
    dtype = getattr(torch, name)
    x = torch.tensor([0, 1, 2, 3, 0, 1]).reshape(2, 3).to(dtype)
    field = tensor(x.T)
    assert (field["dtype"], field["bytes"]) == (name, 6 * dtype.itemsize)
    if dtype.is_complex:
        expected: list[Any] = [[z.real, z.imag] for z in x.to(torch.complex128).numpy().T.ravel().tolist()]
    elif dtype.is_floating_point:
        expected = x.double().numpy().T.ravel().tolist()
    else:
        expected = x.numpy().T.ravel().tolist()
    assert field["elements"] == expected
    assert {type(e) for e in field["elements"]} == {type(e) for e in expected}


def test_extreme_numbers_and_views_that_torch_resolves_late() -> None:
    x = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 1e-45])
    assert str(tensor(x)["elements"]) == str(x.numpy().tolist()) == "[nan, inf, -inf, -0.0, 1.401298464324817e-45]"
    assert tensor(torch.tensor([2**64 - 1], dtype=torch.uint64))["elements"] == [2**64 - 1]
    assert tensor(torch.tensor([-(2**63), 2**63 - 1]))["elements"] == [-(2**63), 2**63 - 1]
    x = torch.tensor([1 + 2j, 3 - 4j])
    assert tensor(x.conj())["elements"] == [[1.0, -2.0], [3.0, 4.0]]
    assert x.conj().imag.is_neg()
    assert tensor(x.conj().imag)["elements"] == [-2.0, 4.0]


@each("name", [n for n in ("int4", "uint1", "uint7", "bits8", "float4_e2m1fn_x2") if hasattr(torch, n)])
def test_types_without_numbers_show_raw_bytes(name: str) -> None:
    value = describe(torch.tensor([0, 1, 0xF7], dtype=torch.uint8).view(getattr(torch, name)))
    assert (value["tensor"]["dtype"], value["tensor"]["elements"]) == (name, [0, 1, 0xF7])
    assert value["note"] == "elements are the raw bytes"
    large = describe(torch.zeros(300, dtype=torch.uint8).view(getattr(torch, name)))
    assert "no statistics" in large["note"] and "statistics" not in large["tensor"]


@each(
    "name", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "int64", "uint16", "uint64", "bool"]
)
def test_corner_and_statistics_of_every_type(name: str) -> None:
    dtype = getattr(torch, name)
    x = torch.randn(30, 40, generator=torch.Generator().manual_seed(0)) * 10
    if name in ("uint16", "uint64", "bool"):
        x = (x - 5).relu()
    x = x.to(torch.float32 if dtype.is_floating_point else torch.int64).to(dtype)
    field, exact = tensor(x.T), x.double()
    statistics = field["statistics"]
    assert (statistics["min"], statistics["max"]) == (exact.min().item(), exact.max().item())
    assert statistics["mean"] == pytest.approx(exact.mean().item(), rel=1e-12)
    assert statistics["std"] == pytest.approx(exact.std().item(), rel=1e-12)
    assert type(statistics["min"]) is (float if dtype.is_floating_point else int)
    assert field["corner_shape"] == [4, 8]
    assert field["corner"] == x.T[:4, :8].contiguous().double().reshape(-1).tolist()
    assert "elements" not in field


def test_limit_of_elements_and_complex_statistics() -> None:
    assert len(tensor(torch.zeros(256))["elements"]) == 256
    value = describe(torch.full((257,), 3 + 4j))
    assert "elements" not in value["tensor"] and value["tensor"]["statistics"]["max"] == 5
    assert value["note"] == "statistics of the magnitudes"


def test_temporaries_stay_below_160_mib() -> None:
    x = torch.zeros(9000, 9001, dtype=torch.bfloat16).T  # as float64: 648 MB
    with torch.profiler.profile(profile_memory=True) as profile:
        value = Describer().describe(x)
    live = peak = 0
    for event in profile.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    assert 0 < peak <= 160 * 2**20
    assert live == 0
    assert value["tensor"]["statistics"].items() >= {"min": 0.0, "max": 0.0, "mean": 0.0, "std": 0.0}.items()


# ---------------------------------------------------------------- the lecture does not notice


class Counting(TorchDispatchMode):
    """Counts operators."""

    calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


class Watching(TorchFunctionMode):
    """Counts calls of torch's functions."""

    calls = 0
    __torch_function__ = Counting.__torch_dispatch__  # type: ignore[assignment]


class Printing:
    """Its repr computes with a tensor, or fails."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def __repr__(self) -> str:
        mean = (torch.arange(4.0) * 2).mean()
        if self.fails:
            raise ValueError(self, mean)
        return f"mean {mean:.1f}"


def objects_to_describe() -> list[Any]:
    x = torch.arange(4.0)
    with torch.inference_mode():
        inference = torch.ones(3), torch.ones(300)
    return [
        *inference,
        *(x, torch.zeros(100, 100), torch.zeros(3, requires_grad=True), torch.zeros(300, requires_grad=True) * 2),
        *(torch.tensor([1 + 1j]).conj(), x.to(torch.float8_e5m2), torch.nn.Linear(2, 2), [x, {"x": x}]),
        # shown as text, which depends on torch's defaults
        *(DIAGONAL.to_sparse(), torch.nested.nested_tensor([torch.ones(2)])),
        *(Printing(), Printing(fails=True)),
    ]


def test_describing_is_hidden_from_torch_modes() -> None:
    objs = objects_to_describe()
    expected = [describe(obj) for obj in objs]
    with Counting() as counting, Watching() as watching, FlopCounterMode(display=False) as flops:
        for obj, value in zip(objs, expected, strict=True):
            assert describe(obj) == value
            assert counting.calls == watching.calls == 0
        torch.ones(2)
        assert counting.calls and watching.calls, "the modes are still on"
    assert flops.get_total_flops() == 0


@contextlib.contextmanager
def other_defaults() -> Iterator[None]:
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float16)
    torch.use_deterministic_algorithms(True)
    try:
        yield
        assert torch.get_default_dtype() is torch.float16 and torch.get_default_device().type == "meta"
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)


@each(
    ("context", "last"),
    [
        (torch.no_grad, -2),
        (torch.inference_mode, -2),
        (lambda: torch.autocast("cpu", torch.bfloat16), -2),
        (lambda: torch.device("meta"), -2),
        (lambda: torch.autograd.set_detect_anomaly(True, check_nan=True), -2),
        (FakeTensorMode, -2),
        (other_defaults, -4),
    ],
)
def test_settings_of_torch_do_not_change_descriptions(context: Callable[[], Any], last: int) -> None:
    objs = objects_to_describe()[:last]
    expected = [describe(obj) for obj in objs]
    with context():
        assert [describe(obj) for obj in objs] == expected


@each("size", [3, 3000])
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


@each(
    "make",
    [
        lambda: torch.ones(3),
        lambda: torch.ones(300),
        lambda: torch.ones(3, requires_grad=True) * 2,
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.ones(3).as_subclass(Overridden),
        lambda: torch.nn.Linear(2, 2),
        lambda: torch.zeros(9, dtype=torch.uint8).view(torch.bits8),
        lambda: np.ones(3),
        lambda: Printing(fails=True),
    ],
)
def test_tensors_and_their_memory_are_not_kept_alive(make: Callable[[], Any]) -> None:
    describer = Describer()
    gc.disable()
    try:
        obj = make()
        watch = weakref.ref(obj)
        memory = StorageWeakRef(obj.untyped_storage()) if type(obj) is torch.Tensor and not obj.is_sparse else None
        describer.describe([obj, {"x": obj}])
        del obj
        assert watch() is None and (memory is None or memory.expired())
    finally:
        gc.enable()
