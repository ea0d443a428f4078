"""Hostile subclasses of Tensor, and the expected warnings about unusual tensors."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def only_known_warnings() -> Iterator[None]:
    """Turn warnings in the block into errors, except torch's warnings about tensors that tests make."""
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


class Wrapper(torch.Tensor):
    """Wraps another tensor and has no elements itself."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined]
        wrapper.inner = inner
        return wrapper  # type: ignore[no-any-return]

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inner"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(func)
