"""The CuPy backend. Without CuPy or a GPU: the refusals, on a stand-in module."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from primbench import backends
from primbench.backends import cupy as cupy_backend
from primbench.devices import nth_gpu
from primbench.dtypes import ITEMSIZE_BYTES, numpy_dtype
from primbench.errors import BackendUnavailable
from primbench.random import random_array


class CUDARuntimeError(RuntimeError):
    pass


def _pretend_cupy(monkeypatch: pytest.MonkeyPatch, device_count: Any) -> None:
    module: Any = ModuleType("cupy")
    runtime = SimpleNamespace(getDeviceCount=device_count, CUDARuntimeError=CUDARuntimeError)
    module.cuda = SimpleNamespace(runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", module)


def test_no_driver_is_unavailable_and_says_what_cuda_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> int:
        raise CUDARuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

    _pretend_cupy(monkeypatch, fails)
    with pytest.raises(BackendUnavailable, match="cupy on cuda:0: cudaErrorInsufficientDriver"):
        cupy_backend.open(nth_gpu(0))


def test_a_gpu_beyond_the_last_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend_cupy(monkeypatch, lambda: 2)
    with pytest.raises(BackendUnavailable, match="cupy on cuda:2: the driver shows 2"):
        cupy_backend.open(nth_gpu(2))


def test_cupy_does_not_run_on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "missing", lambda _: None)
    with pytest.raises(BackendUnavailable, match="it runs on cuda only"):
        backends.open_backend("cupy", "cpu")


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3"])
def test_bits_with_all_set_are_nan_in_formats_that_travel_as_bits(dtype: str) -> None:
    bits = np.full(1, -1, np.int16).view(cupy_backend._storage(numpy_dtype(dtype)))
    assert np.isnan(bits.view(numpy_dtype(dtype)).astype(np.float32)).all()


@pytest.mark.parametrize("dtype", ITEMSIZE_BYTES)
def test_storage_keeps_the_size_of_every_dtype(dtype: str) -> None:
    assert cupy_backend._storage(numpy_dtype(dtype)).itemsize == ITEMSIZE_BYTES[dtype]


def test_cuda_version_is_read_from_its_number() -> None:
    assert cupy_backend._cuda_version(13020) == "13.2"
    assert cupy_backend._cuda_version(12080) == "12.8"


@pytest.fixture
def gpu() -> Any:
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("cupy is not installed")
    try:
        return cupy_backend.open(nth_gpu(0))
    except BackendUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ITEMSIZE_BYTES)
def test_an_array_comes_back_as_it_went(gpu: Any, dtype: str) -> None:
    host = random_array(np.random.default_rng(0), (5, 7), dtype)
    back = gpu.get(gpu.put(host))
    assert back.dtype == host.dtype
    assert back.tobytes() == host.tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ITEMSIZE_BYTES)
def test_poison_shows_in_every_element(gpu: Any, dtype: str) -> None:
    array = gpu.empty((3, 5), dtype)
    gpu.poison(array)
    host = gpu.get(array)
    if host.dtype.kind == "i":
        assert (host == np.iinfo(host.dtype).min).all()
    else:
        assert np.isnan(host.astype(np.float64)).all()


@pytest.mark.gpu
def test_work_goes_to_the_stream_that_is_captured(gpu: Any) -> None:
    array = gpu.put(np.zeros(1000, np.float32))
    graph = gpu.capture(lambda: gpu.poison(array))
    assert (gpu.get(array) == 0).all()
    graph.launch()
    gpu.synchronize()
    assert graph.nodes == 1
    assert np.isnan(gpu.get(array)).all()
