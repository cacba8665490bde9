"""What all uses of cuDNN share, against a stand-in for the library."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import CFUNCTYPE, POINTER, c_int, c_void_p
from types import SimpleNamespace
from typing import Any

import pytest

from primbench.cuda import cublaslt, cudnn, libraries
from primbench.devices import nth_gpu
from primbench.errors import UnsupportedCase

NAMES = {3002: b"CUDNN_STATUS_NOT_SUPPORTED_SHAPE", 5000: b"CUDNN_STATUS_EXECUTION_FAILED"}
SAID = b"stride is\n  odd\0"


class Library:
    """The functions that are used, with the prototypes of cuDNN's headers; ``alive``: made and not destroyed."""

    def __init__(self) -> None:
        self.alive: dict[int, Any] = {}
        self.callbacks: list[Any] = []
        self.made = 0
        self.functions: Any = SimpleNamespace(
            cudnnGetVersion=lambda: 91901,
            cudnnGetErrorString=NAMES.get,
            cudnnGetLastErrorString=lambda message, _: ctypes.memmove(message, SAID, len(SAID)),
            cudnnCreate=self._function(self._create, POINTER(c_void_p)),
            cudnnSetStream=self._function(self._set_stream, c_void_p, c_void_p),
            cudnnCreateTensorDescriptor=self._function(self._create, POINTER(c_void_p)),
            cudnnDestroyTensorDescriptor=self._function(self._destroy, c_void_p),
            cudnnSetTensorNdDescriptor=self._function(
                self._set_tensor, c_void_p, c_int, c_int, POINTER(c_int), POINTER(c_int)
            ),
        )

    def _function(self, python: Any, *types: Any) -> Any:
        """A C function called as one of a ctypes.CDLL is: nothing is known of its argument types."""
        callback = CFUNCTYPE(c_int, *types)(python)
        self.callbacks.append(callback)
        return CFUNCTYPE(c_int)(ctypes.cast(callback, c_void_p).value or 0)

    def _create(self, out: Any) -> int:
        self.made += 0x1000
        self.alive[self.made] = None
        out[0] = self.made
        return 0

    def _destroy(self, target: int) -> int:
        del self.alive[target]
        return 0

    def _set_stream(self, handle: int, stream: int) -> int:
        self.alive[handle] = stream
        return 0

    def _set_tensor(self, target: int, dtype: int, count: int, sizes: Any, strides: Any) -> int:
        self.alive[target] = (dtype, sizes[:count], strides[:count])
        return 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    stand_in = Library()
    monkeypatch.setattr(cudnn, "library", lambda: stand_in.functions)
    cudnn.handle.cache_clear()
    yield stand_in
    cudnn.handle.cache_clear()


@pytest.mark.parametrize(("given", "missing"), [({"cudnn"}, "cuBLASLt"), ({"cublasLt"}, "nvidia-cudnn-cu13")])
def test_a_library_that_cannot_be_found_is_unsupported(
    monkeypatch: pytest.MonkeyPatch, given: set[str], missing: str
) -> None:
    stub = SimpleNamespace(cublasLtGetVersion=SimpleNamespace(), cublasLtGetStatusName=SimpleNamespace())
    monkeypatch.setattr(libraries, "first_loadable", lambda stem, _: stub if stem in given else None)
    cublaslt.load.cache_clear()
    cudnn.library.cache_clear()
    with pytest.raises(UnsupportedCase, match=missing):
        cudnn.library()
    cublaslt.load.cache_clear()


def test_version_is_read_from_its_number(library: Library) -> None:
    assert "9.19.1" == cudnn.version()


def test_a_refusal_is_unsupported_and_anything_else_an_error(library: Library) -> None:
    with pytest.raises(UnsupportedCase) as refusal:
        cudnn.check(3002, "cudnnDoSomething")
    with pytest.raises(cudnn.CudnnError) as error:
        cudnn.check(5000, "cudnnDoSomething")
    assert "cudnnDoSomething: CUDNN_STATUS_NOT_SUPPORTED_SHAPE: stride is odd" == str(refusal.value)
    assert "cudnnDoSomething: CUDNN_STATUS_EXECUTION_FAILED: stride is odd" == str(error.value)


def test_success_is_no_error(library: Library) -> None:
    cudnn.check(0, "cudnnDoSomething")
    assert {} == library.alive


def test_a_handle_is_made_once_a_stream(library: Library) -> None:
    first, again, other = (cudnn.handle(stream, nth_gpu(0)) for stream in (0x70, 0x70, 0x80))
    assert first is again
    assert [0x70, 0x80] == [library.alive[handle.value or 0] for handle in (first, other)]


def test_a_tensor_is_contiguous_where_nothing_else_is_said(library: Library) -> None:
    plain = cudnn.tensor("float16", (2, 3, 4))
    turned = cudnn.tensor("bfloat16", (2, 3, 4), (1, 2, 6))
    assert [
        (2, [2, 3, 4], [12, 4, 1]),
        (9, [2, 3, 4], [1, 2, 6]),
    ] == list(library.alive.values())
    assert plain is not turned


def test_an_object_is_destroyed_with_its_owner(library: Library) -> None:
    tensor = cudnn.tensor("float32", (1, 1, 1))
    assert 1 == len(library.alive)
    del tensor
    assert {} == library.alive


def test_an_object_that_could_not_be_made_is_not_destroyed(library: Library) -> None:
    library.functions.cudnnCreateTensorDescriptor = lambda _: 5000
    with pytest.raises(cudnn.CudnnError, match="cudnnCreateTensorDescriptor"):
        cudnn.Object("TensorDescriptor")


@pytest.mark.parametrize(("shape", "strides"), [((2, 3, 4), (12, 4, 1)), ((5,), (1,)), ((7, 1), (1, 1)), ((), ())])
def test_strides_of_a_contiguous_array(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    assert strides == cudnn.contiguous(shape)
