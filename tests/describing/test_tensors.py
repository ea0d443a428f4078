import gc
import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.cases_in_one import each
from tests.describing.tensor_kinds import Logged, Overridden, Wrapper, only_known_warnings
from tests.describing.value_form import describe, part, tensor
from trace_tools.describing.values import Describer
from trace_tools.describing.walk import ValueLimits

Value = dict[str, Any]

WRAPPER = "a wrapper without elements of its own"
DIAGONAL = torch.diag(torch.tensor([1.0, 0.0, 3.0]))


@pytest.fixture(autouse=True)
def no_warning_escapes() -> Iterator[None]:
    with only_known_warnings():
        yield


def layouts() -> dict[str, torch.Tensor]:
    x = torch.arange(24.0).reshape(2, 3, 4)
    return {
        "contiguous": x,
        "transposed": x.transpose(0, 2),
        "sliced": x[:, 1:, ::2],
        "one row": x[1, 2],
        "expanded": x[:, :1].expand(2, 5, 4),
        "windows": torch.arange(10.0).unfold(0, 4, 2),
        "diagonal": torch.arange(9.0).reshape(3, 3).diagonal(),
        "scalar": torch.tensor(2.5),
        "one of it": x[0, 0, 3],
        "empty": torch.empty(0, 3),
        "channels last": torch.arange(16.0).reshape(1, 2, 2, 4).to(memory_format=torch.channels_last),
        "parameter": torch.nn.Parameter(x),
        "result": torch.ones(3, requires_grad=True) * 2,
    }


@each("name", layouts())
def test_tensor_fields_equal_torchs(name: str) -> None:
    x = layouts()[name]
    value = describe(x)
    assert value["type"] == ("parameter" if name == "parameter" else "tensor")
    field = value["tensor"]
    assert field["dtype"] == "float32"
    assert field["device"] == "cpu"
    assert tuple(field["shape"]) == tuple(x.shape)
    assert tuple(field["strides"]) == x.stride()
    assert field["offset"] == x.storage_offset()
    assert field["contiguous"] == x.is_contiguous()
    assert field.get("requires_grad", False) == x.requires_grad
    assert field["bytes"] == x.numel() * x.element_size()
    assert field["storage_bytes"] == x.untyped_storage().nbytes()
    assert field["elements"] == x.detach().reshape(-1).tolist()
    assert "layout" not in field


def test_shared_memory_has_equal_labels() -> None:
    describer = Describer()
    x, y = torch.zeros(4), torch.zeros(4)
    labels = [
        tensor(t, describer)["storage"] for t in (x, y, x[1:], x.view(2, 2).T, y.detach(), x.clone(), torch.zeros(1))
    ]
    assert labels[:5] == ["s1", "s2", "s1", "s1", "s2"]
    assert labels[5] == "s3"


@pytest.mark.slow
def test_reused_memory_gets_a_new_label() -> None:
    describer = Describer()
    labels, addresses = [], set()
    for _ in range(600):
        x = torch.empty(64)
        addresses.add(x.data_ptr())
        labels.append(tensor(x, describer)["storage"])
        del x
    assert len(addresses) < len(labels) == len(set(labels))
    assert len(describer.labels._memories) <= 300


def test_tensors_and_arrays_can_share_a_label() -> None:
    describer = Describer()
    a = np.arange(12.0).reshape(3, 4)
    t = torch.from_numpy(a)
    middle, again, other = torch.from_numpy(a[1]), torch.from_numpy(a), torch.from_numpy(np.zeros(3))
    fields = [tensor(obj, describer) for obj in (t, a, middle, again, a.T, t[1:], other)]
    assert [field["storage"] for field in fields] == ["s1"] * 6 + ["s2"]
    exported = torch.arange(6.0)
    assert tensor(exported.numpy()[2:], describer) == tensor(exported, describer) | {
        "shape": [4],
        "bytes": 16,
        "offset": 2,
        "elements": [2.0, 3.0, 4.0, 5.0],
    }


def test_a_label_does_not_keep_memory_alive() -> None:
    describer = Describer()
    x = torch.zeros(1000)
    storage = weakref.ref(x.untyped_storage()._weak_ref.__self__)  # the Python object of the storage
    watch = weakref.ref(x)
    describer.describe([x, {"x": x}, x[2:]])
    freed = torch.multiprocessing.reductions.StorageWeakRef(x.untyped_storage())
    assert not freed.expired()
    gc.disable()
    try:
        del x
        assert watch() is None and storage() is None
        assert freed.expired()
    finally:
        gc.enable()


@pytest.mark.parametrize("size", [8, 8000])
@pytest.mark.parametrize("remaining", [0, 16])
def test_shrunk_storages_are_not_read(size: int, remaining: int) -> None:
    x = torch.zeros(size)
    x.untyped_storage().resize_(remaining)
    value = describe(x)
    assert value["note"] == "its storage was freed or shrunk"
    assert not {"elements", "corner", "statistics"} & value["tensor"].keys()
    assert value["tensor"]["storage_bytes"] == remaining


@pytest.mark.skipif(not hasattr(torch, "_lazy_clone"), reason="this torch has no copy on write")
def test_copy_on_write_is_not_triggered() -> None:
    x = torch.arange(5.0)
    lazy = torch._lazy_clone(x)
    assert tensor(lazy)["elements"] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert torch._C._is_cow_tensor(lazy) and torch._C._is_cow_tensor(x)


def test_meta_tensors_have_labels_but_no_elements() -> None:
    describer = Describer()
    x = torch.empty(10**6, 10**6, device="meta")
    value = describe(x, describer)
    assert value["note"] == "a meta tensor has no elements"
    assert value["tensor"]["bytes"] == 4 * 10**12
    assert tensor(x[1:], describer)["storage"] == value["tensor"]["storage"]


@pytest.mark.parametrize("size", [3, 300])
def test_methods_of_subclasses_are_not_called(size: int) -> None:
    for kind in (Overridden, Logged):
        x = (
            torch.ones(size).as_subclass(kind)
            if kind is Overridden
            else torch.Tensor._make_subclass(kind, torch.ones(size))
        )
        kind.calls.clear()
        value = describe(x)
        assert value["type"] == kind.__name__
        assert value["tensor"].get("elements", value["tensor"].get("corner"))[0] == 1.0
        assert kind.calls == []


UNUSUAL: dict[str, tuple[Callable[[], torch.Tensor], Value, str]] = {  # tensor, some of its fields, and its note
    "sparse_coo": (lambda: DIAGONAL.to_sparse(), {"shape": [3, 3], "layout": "sparse_coo"}, ""),
    "sparse_csr": (lambda: DIAGONAL.to_sparse_csr(), {"shape": [3, 3], "layout": "sparse_csr"}, ""),
    "large and sparse": (
        lambda: torch.sparse_coo_tensor([[0, 9], [1, 9]], [1.0, 2.0], (10**6, 10**6), requires_grad=True),
        {"shape": [10**6, 10**6], "requires_grad": True},
        "",
    ),
    "MKL-DNN": (lambda: torch.arange(4.0).to_mkldnn(), {"layout": "_mkldnn"}, ""),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)]), {}, "nested"),
    "jagged": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)], layout=torch.jagged), {}, WRAPPER),
    "quantised": (
        lambda: torch.quantize_per_tensor(torch.tensor([0.0, 0.26]), 0.125, 3, torch.quint8),
        {"dtype": "quint8", "bytes": 2},
        "quantised",
    ),
    "fake": (lambda: FakeTensorMode().from_tensor(torch.ones(2, 3)), {"shape": [2, 3], "device": "cpu"}, WRAPPER),
}


@each("name", UNUSUAL)
def test_other_tensors_show_their_repr(name: str) -> None:
    make, fields, note = UNUSUAL[name]
    x = make()
    value = describe(x)
    assert value["text"] == repr(x)
    assert value.get("note", "") == note
    assert fields.items() <= value.get("tensor", {}).items()
    assert not {"elements", "strides", "storage"} & value.get("tensor", {}).keys()


def test_symbolic_sizes_are_not_fixed() -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # imports sympy, which few test processes need

    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=False)
    symbolic = mode.from_tensor(torch.randn(3, 5))
    value = describe(symbolic)
    assert "tensor" not in value and f"size=({symbolic.shape[0]}, {symbolic.shape[1]})" in value["text"]
    assert not mode.shape_env.guards  # reading a size would add a guard


def test_a_wrapper_whose_repr_fails() -> None:
    value = describe(Wrapper(torch.arange(3.0)))
    assert (value["type"], value["tensor"]["shape"]) == ("Wrapper", [3])
    assert value["note"].startswith(f"{WRAPPER}; repr raised AssertionError")


def test_uninitialized_parameters() -> None:
    lazy = torch.nn.LazyLinear(3)
    assert describe(lazy.weight)["type"] == "UninitializedParameter"
    assert describe(lazy)["entries"][0][1]["value"] == 0


def seen_inside(transform: Callable[..., Any], *args: Any) -> Value:
    """Return the description of the argument inside a transform; describing it must not change the result."""
    descriptions: list[Value] = []
    others = [torch.eye(2), torch.zeros(300), torch.ones(2).to(torch.float8_e4m3fn)]
    expected = [describe(other) for other in others]

    def without_describing(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum()

    def with_describing(x: torch.Tensor) -> torch.Tensor:
        assert [describe(other) for other in others] == expected
        descriptions.append(describe(x))
        y = x * x
        describe(y)
        return y.sum()

    plain, inspected = transform(without_describing)(*args), transform(with_describing)(*args)
    assert str(plain) == str(inspected)
    return descriptions[0]


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
    value = seen_inside(transform, torch.arange(6.0).reshape(2, 3))
    assert value["note"] == "inside a transform of torch.func"
    assert value["tensor"]["shape"][-1] == 3 and "1., 2." in value["text"]


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


# Elements


NUMBERS = {
    name: getattr(torch, name)
    for name in (
        *("float64", "float32", "float16", "bfloat16", "bool", "uint8", "int8", "int16", "int32", "int64"),
        *("uint16", "uint32", "uint64", "complex64", "complex128"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32"),
    )
    if hasattr(torch, name)
}


@each("name", NUMBERS)
def test_elements_of_every_type(name: str) -> None:
    dtype = NUMBERS[name]
    x = torch.tensor([0, 1, 2, 3, 0, 1]).reshape(2, 3).to(dtype)
    field = tensor(x.T)
    assert field["dtype"] == name
    assert field["bytes"] == 6 * dtype.itemsize
    if dtype.is_complex:
        expected: list[Any] = [[z.real, z.imag] for z in x.to(torch.complex128).numpy().T.ravel().tolist()]
    elif dtype.is_floating_point:
        expected = x.double().numpy().T.ravel().tolist()
    else:
        expected = x.numpy().T.ravel().tolist()
    assert field["elements"] == expected
    assert {type(e) for e in field["elements"]} == {type(e) for e in expected}


def test_extreme_numbers() -> None:
    x = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 1e-45])
    assert str(tensor(x)["elements"]) == str(x.numpy().tolist()) == "[nan, inf, -inf, -0.0, 1.401298464324817e-45]"
    assert tensor(torch.tensor([2**64 - 1], dtype=torch.uint64))["elements"] == [2**64 - 1]
    assert tensor(torch.tensor([-(2**63), 2**63 - 1]))["elements"] == [-(2**63), 2**63 - 1]


@pytest.mark.parametrize(
    "name", [n for n in ("int4", "uint1", "uint7", "bits8", "float4_e2m1fn_x2") if hasattr(torch, n)]
)
def test_types_without_numbers_show_raw_bytes(name: str) -> None:
    value = describe(torch.tensor([0, 1, 0xF7], dtype=torch.uint8).view(getattr(torch, name)))
    assert (value["tensor"]["dtype"], value["tensor"]["elements"]) == (name, [0, 1, 0xF7])
    assert value["note"] == "elements are the raw bytes"
    large = describe(torch.zeros(300, dtype=torch.uint8).view(getattr(torch, name)))
    assert "no statistics" in large["note"] and "statistics" not in large["tensor"]


def test_conjugated_and_negated_views() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    assert tensor(x.conj())["elements"] == [[1.0, -2.0], [3.0, 4.0]]
    assert x.conj().imag.is_neg()
    assert tensor(x.conj().imag)["elements"] == [-2.0, 4.0]


@each(
    "name", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "int64", "uint16", "uint64", "bool"]
)
def test_statistics_equal_torchs_own(name: str) -> None:
    dtype = NUMBERS[name]
    x = torch.randn(30, 40, generator=torch.Generator().manual_seed(0)) * 10
    if name in ("uint16", "uint64", "bool"):
        x = (x - 5).relu()
    x = x.to(torch.float32 if dtype.is_floating_point else torch.int64).to(dtype)
    field = tensor(x.T)
    exact = x.double()
    statistics = field["statistics"]
    assert statistics["min"] == exact.min().item() and statistics["max"] == exact.max().item()
    assert statistics["mean"] == pytest.approx(exact.mean().item(), rel=1e-12)
    assert statistics["std"] == pytest.approx(exact.std().item(), rel=1e-12)
    assert statistics.get("zero", 0) == (exact == 0).sum().item()
    assert statistics["histogram"] == np.histogram(exact.numpy(), 16)[0].tolist()
    assert type(statistics["min"]) is (float if dtype.is_floating_point else int)
    assert field["corner_shape"] == [4, 8]
    assert field["corner"] == x.T[:4, :8].contiguous().double().reshape(-1).tolist()
    assert "elements" not in field


def test_all_elements_are_kept_up_to_the_limit() -> None:
    assert len(tensor(torch.zeros(256))["elements"]) == 256
    assert "elements" not in tensor(torch.zeros(257))
    assert "elements" not in tensor(torch.zeros(4), Describer(limits=ValueLimits(elements=3)))


def test_complex_statistics_are_of_magnitudes() -> None:
    x = torch.randn(300, dtype=torch.complex64)
    value = describe(x)
    assert value["note"] == "statistics of the magnitudes"
    assert value["tensor"]["statistics"]["max"] == x.to(torch.complex128).abs().max().item()


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
