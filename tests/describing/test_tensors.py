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
from trace_tools.describing.elements import Limits
from trace_tools.describing.values import Describer

Value = dict[str, Any]


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
    assert len(describer.labels) <= 300


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


@pytest.mark.parametrize("make", ["to_sparse_coo", "to_sparse_csr", "to_sparse_csc"])
def test_sparse_tensors_show_their_parts(make: str) -> None:
    x = torch.diag(torch.tensor([1.0, 0.0, 3.0]))
    sparse = getattr(x, make)()
    value = describe(sparse)
    field = value["tensor"]
    assert field["layout"] == make[3:]
    assert field["elements"] == x.reshape(-1).tolist()
    assert field["bytes"] == 9 * 4
    assert not {"strides", "offset", "storage"} & field.keys()
    assert part(value, "values")["tensor"]["elements"] == [1.0, 3.0]
    assert value["note"] == "stored entries: 2"
    assert field["storage_bytes"] == sum(item["tensor"]["bytes"] for _, item in value["entries"])


def test_a_large_sparse_tensor_is_not_made_dense() -> None:
    index = torch.tensor([[0, 0, 9], [1, 1, 9]])
    x = torch.sparse_coo_tensor(index, torch.tensor([1.0, 2.0, 3.0]), (10**6, 10**6), requires_grad=True)
    value = describe(x)
    assert "not coalesced" in value["note"]
    assert value["tensor"]["requires_grad"] is True
    assert "elements" not in value["tensor"]
    assert part(value, "indices")["tensor"]["elements"] == [0, 0, 9, 1, 1, 9]


def test_nested_tensors_show_their_members() -> None:
    members = [torch.ones(2), torch.zeros(3)]
    value = describe(torch.nested.nested_tensor(members))
    assert value["type"] == "NestedTensor" and value["note"] == "nested: 2 tensors of float32 on cpu"
    assert [item["tensor"]["elements"] for item in value["items"]] == [[1.0, 1.0], [0.0, 0.0, 0.0]]
    jagged = describe(torch.nested.nested_tensor(members, layout=torch.jagged))
    assert jagged["type"] == "NestedTensor"
    assert part(jagged, "_offsets")["tensor"]["elements"] == [0, 2, 5]


def test_quantised_tensors_show_their_real_values() -> None:
    x = torch.quantize_per_tensor(torch.tensor([0.0, 0.26, 1.0]), 0.125, 3, torch.quint8)
    value = describe(x)
    assert value["tensor"]["elements"] == x.dequantize().tolist() == [0.0, 0.25, 1.0]
    assert value["note"] == "dequantised, scale 0.125, zero point 3"
    scales = torch.tensor([0.5, 0.25])
    per_channel = torch.quantize_per_channel(torch.randn(2, 500), scales, torch.tensor([0, 0]), 0, torch.qint8)
    statistics = tensor(per_channel)["statistics"]
    assert statistics["mean"] == pytest.approx(per_channel.dequantize().double().mean().item())


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no MKL-DNN")
def test_mkldnn_tensors_show_their_elements() -> None:
    field = tensor(torch.arange(4.0).to_mkldnn())
    assert (field["layout"], field["elements"]) == ("_mkldnn", [0.0, 1.0, 2.0, 3.0])


def test_meta_tensors_have_labels_but_no_elements() -> None:
    describer = Describer()
    x = torch.empty(10**6, 10**6, device="meta")
    value = describe(x, describer)
    assert value["note"] == "a meta tensor has no elements"
    assert value["tensor"]["bytes"] == 4 * 10**12
    assert tensor(x[1:], describer)["storage"] == value["tensor"]["storage"]


def test_fake_tensors() -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # imports sympy, which few test processes need

    with FakeTensorMode() as mode:
        fake = torch.empty(2, 3)
        assert tensor(fake)["shape"] == [2, 3]
    value = describe(fake)
    assert (value["type"], value["tensor"]["device"]) == ("FakeTensor", "cpu")
    assert "elements" not in value["tensor"]
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=False)
    symbolic = mode.from_tensor(torch.randn(3, 5))
    value = describe(symbolic)
    assert "tensor" not in value and f"of shape [{symbolic.shape[0]}, {symbolic.shape[1]}]" in value["note"]
    assert not mode.shape_env.guards  # reading a size would add a guard


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


def test_wrappers_show_their_inner_tensors() -> None:
    describer = Describer()
    inner = torch.arange(3.0)
    value = describe(Wrapper(inner), describer)
    assert value["type"] == "Wrapper" and value["tensor"]["shape"] == [3]
    assert "elements" not in value["tensor"]
    assert part(value, "inner") == describe(inner, describer)


def test_uninitialized_parameters() -> None:
    lazy = torch.nn.LazyLinear(3)
    assert describe(lazy.weight)["type"] == "UninitializedParameter"
    assert describe(lazy)["entries"][0][1]["value"] == 0


def seen_inside(transform: Callable[..., Any], *args: Any) -> Value:
    """Return the description of the argument inside a transform; describing it must not change the result."""
    descriptions: list[Value] = []
    others = [torch.eye(2), torch.zeros(300), torch.eye(3).to_sparse(), torch.ones(2).to(torch.float8_e4m3fn)]
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


def test_tensors_inside_transforms_of_torch_func() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    value = seen_inside(torch.vmap, x)
    assert value["tensor"]["shape"] == [3] and "elements" not in value["tensor"]
    assert "inside vmap" in value["note"]
    value = seen_inside(torch.func.grad, x)
    assert value["tensor"]["elements"] == x.reshape(-1).tolist()
    assert value["tensor"]["requires_grad"] is True
    value = seen_inside(lambda f: torch.func.grad(lambda y: torch.vmap(f)(y).sum()), x)
    assert value["tensor"]["shape"] == [3] and "inside vmap" in value["note"]
    value = seen_inside(lambda f: lambda y: torch.func.jvp(f, (y,), (y,)), x)
    assert value["tensor"]["elements"] == x.reshape(-1).tolist()
    value = seen_inside(torch.func.functionalize, x)
    assert value["tensor"]["shape"] == [2, 3] and "functionalize" in value["note"]
    large = torch.arange(600.0)
    value = seen_inside(torch.func.grad, large)
    assert value["tensor"]["statistics"]["mean"] == 299.5


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


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this torch has no 4-bit floats")
def test_pairs_of_4_bit_floats() -> None:
    value = describe(torch.tensor([0x10, 0x7F, 0xA9], dtype=torch.uint8).view(torch.float4_e2m1fn_x2))
    assert value["tensor"]["elements"] == [[0.0, 0.5], [-6.0, 6.0], [-0.5, -1.0]]
    assert "[low, high]" in value["note"]


@pytest.mark.parametrize("name", [n for n in ("int4", "uint1", "uint7", "bits8") if hasattr(torch, n)])
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
    assert "elements" not in tensor(torch.zeros(4), Describer(limits=Limits(elements=3)))


def test_large_integers_have_exact_minimum_and_maximum() -> None:
    ends = [2**64 - 1, 2**63 + 1, 7]
    statistics = tensor(torch.tensor(ends * 100, dtype=torch.uint64))["statistics"]
    assert (statistics["min"], statistics["max"]) == (7, 2**64 - 1)


def test_counts_of_non_finite_elements() -> None:
    x = torch.randn(3, 400)
    x[0, :7], x[1, 5:9], x[2, 0], x[2, 1:6] = math.nan, math.inf, -math.inf, 0
    statistics = tensor(x)["statistics"]
    finite = x[x.isfinite()].double()
    assert (statistics["nan"], statistics["inf"], statistics["zero"]) == (7, 5, 5)
    assert (statistics["min"], statistics["max"]) == (finite.min().item(), finite.max().item())
    assert sum(statistics["histogram"]) == finite.numel()


def test_complex_statistics_are_of_magnitudes() -> None:
    x = torch.randn(300, dtype=torch.complex64)
    value = describe(x)
    assert value["note"] == "statistics of the magnitudes"
    assert value["tensor"]["statistics"]["max"] == x.to(torch.complex128).abs().max().item()


def test_an_expanded_tensor_larger_than_memory() -> None:
    value = tensor(torch.tensor([0.0, 1.0]).expand(10**6, 10**6, 2))
    assert value["bytes"] == 8 * 10**12
    assert value["statistics"]["zero"] == 10**12
    assert value["corner_shape"] == [1, 4, 2]


def test_temporaries_stay_below_64_mib() -> None:
    x = torch.zeros(3000, 3001, dtype=torch.bfloat16).T  # as float64: 72 MB
    x[5, 7] = math.nan
    with torch.profiler.profile(profile_memory=True) as profile:
        value = Describer().describe(x)
    live = peak = 0
    for event in profile.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    assert 0 < peak <= 64 * 2**20
    assert live == 0
    assert value["tensor"]["statistics"] == {"min": 0.0, "max": 0.0, "mean": 0.0, "std": 0.0, "nan": 1, "zero": 9002999}


def test_above_the_limit_statistics_are_of_a_sample() -> None:
    value = describe(torch.arange(3000.0), Describer(limits=Limits(statistics=1000)))
    assert value["note"] == "statistics of a sample: one index in 3 of dimension 0"
    assert value["tensor"]["statistics"]["max"] == 2997.0


def test_the_statistics_limit_is_for_the_whole_value() -> None:
    tensors = [torch.ones(600) for _ in range(5)]
    items = describe(tensors, Describer(limits=Limits(statistics=1000)))["items"]
    assert ["statistics" in item["tensor"] for item in items] == [True, True, True, False, False]
    assert "sample" in items[1]["note"] and "note" not in items[0]
    assert items[-1]["note"] == "no statistics: the value is too large"
    assert len(str(describe([torch.rand(256) for _ in range(100)]))) < 200_000
