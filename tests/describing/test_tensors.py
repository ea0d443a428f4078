import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tests.describing.tensor_kinds import Logged, Overridden, Wrapper, only_known_warnings
from tests.describing.value_form import describe, part, tensor
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


@pytest.mark.parametrize("name", layouts())
def test_a_tensors_fields_are_what_torch_says(name: str) -> None:
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


def test_equal_labels_are_shared_memory() -> None:
    describer = Describer()
    x, y = torch.zeros(4), torch.zeros(4)
    labels = [
        tensor(t, describer)["storage"] for t in (x, y, x[1:], x.view(2, 2).T, y.detach(), x.clone(), torch.zeros(1))
    ]
    assert labels[:5] == ["s1", "s2", "s1", "s1", "s2"]
    assert labels[5] == "s3"


def test_memory_that_is_used_again_gets_a_new_label() -> None:
    describer = Describer()
    labels, addresses = [], set()
    for _ in range(600):
        x = torch.empty(64)
        addresses.add(x.data_ptr())
        labels.append(tensor(x, describer)["storage"])
        del x
    assert len(addresses) < len(labels) == len(set(labels))
    assert len(describer.labels) <= 300


def test_tensors_and_arrays_over_the_same_memory() -> None:
    describer = Describer()
    a = np.arange(12.0).reshape(3, 4)
    t = torch.from_numpy(a)
    middle, again, other = torch.from_numpy(a[1]), torch.from_numpy(a), torch.from_numpy(np.zeros(3))
    found = [tensor(o, describer) for o in (t, a, middle, again, a.T, t[1:], other)]
    assert [f["storage"] for f in found] == ["s1"] * 6 + ["s2"]
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
    storage = weakref.ref(x.untyped_storage()._weak_ref.__self__)  # the Python object that stands for the storage
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
@pytest.mark.parametrize("left", [0, 16])
def test_a_storage_that_was_shrunk_is_not_read(size: int, left: int) -> None:
    x = torch.zeros(size)
    x.untyped_storage().resize_(left)
    value = describe(x)
    assert value["note"] == "its storage was freed or shrunk"
    assert not {"elements", "corner", "statistics"} & value["tensor"].keys()
    assert value["tensor"]["storage_bytes"] == left


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
    found = tensor(per_channel)["statistics"]
    assert found["mean"] == pytest.approx(per_channel.dequantize().double().mean().item())


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no MKL-DNN")
def test_an_opaque_layout() -> None:
    field = tensor(torch.arange(4.0).to_mkldnn())
    assert (field["layout"], field["elements"]) == ("_mkldnn", [0.0, 1.0, 2.0, 3.0])


def test_meta_tensors_have_no_elements_but_do_alias() -> None:
    describer = Describer()
    x = torch.empty(10**6, 10**6, device="meta")
    value = describe(x, describer)
    assert value["note"] == "a meta tensor has no elements"
    assert value["tensor"]["bytes"] == 4 * 10**12
    assert tensor(x[1:], describer)["storage"] == value["tensor"]["storage"]


def test_fake_tensors() -> None:
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
    assert not mode.shape_env.guards  # looking at a size would have fixed it


@pytest.mark.parametrize("size", [3, 300])
def test_subclasses_by_name_without_asking_them(size: int) -> None:
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


def test_a_wrapper_shows_what_is_inside() -> None:
    describer = Describer()
    inner = torch.arange(3.0)
    value = describe(Wrapper(inner), describer)
    assert value["type"] == "Wrapper" and value["tensor"]["shape"] == [3]
    assert "elements" not in value["tensor"]
    assert part(value, "inner") == describe(inner, describer)


def test_parameters_that_are_not_made_yet() -> None:
    lazy = torch.nn.LazyLinear(3)
    assert describe(lazy.weight)["type"] == "UninitializedParameter"
    assert describe(lazy)["entries"][0][1]["value"] == 0


def seen_inside(transform: Callable[..., Any], *args: Any) -> Value:
    """Return what is seen of the argument inside a transform, where it must leave no mark on the result."""
    found: list[Value] = []
    others = [torch.eye(2), torch.zeros(300), torch.eye(3).to_sparse(), torch.ones(2).to(torch.float8_e4m3fn)]
    outside = [describe(other) for other in others]

    def plainly(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum()

    def inspecting(x: torch.Tensor) -> torch.Tensor:
        assert [describe(other) for other in others] == outside
        found.append(describe(x))
        y = x * x
        describe(y)
        return y.sum()

    plain, inspected = transform(plainly)(*args), transform(inspecting)(*args)
    assert str(plain) == str(inspected)
    return found[0]


def test_inside_transforms_of_torch_func() -> None:
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


def test_what_comes_with_tensors() -> None:
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
