"""Weights: every byte of a file of safetensors arrives, whoever reads it, and nothing stays behind."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from primbench import Method, measure
from primbench.backends import missing, open_backend
from primbench.errors import InvalidRequest, PrimbenchError, UnsupportedCase, VerificationError
from primbench.gpu.nvidia import driver
from primbench.kernels.weights import Weights, _cuda
from primbench.kernels.weights._file import PERIOD_BYTES, layout, read_header, write
from primbench.problem import Step, description_of
from primbench.registry import setup_of
from primbench.timing.files import PREFIX
from primbench.timing.verify import check_output

from .cuda_driver import Late, OnCuda

pytestmark = pytest.mark.usefixtures("temporary")
QUICK = Method(min_time_s=0.001, max_time_s=0.005)
WITH_TORCH = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]
ODD = PERIOD_BYTES // 3 + 1  # bytes of a tensor: none begins where contents repeat


def prepared(problem: Weights, backend: Any, name: str) -> tuple[Step, Any]:
    inputs = problem.inputs(np.random.default_rng(1))
    step = setup_of("weights", name)(backend, problem, *map(backend.put, inputs))
    return step, lambda: check_output(backend, problem, step, problem.reference(np.random.default_rng(1), *inputs))


@pytest.mark.parametrize("backend", ["numpy", pytest.param("torch", marks=WITH_TORCH)])
@pytest.mark.parametrize("how", ["mmap", "read", pytest.param("safetensors", marks=pytest.mark.wheel)])
def test_every_tensor_arrives_and_says_how(how: str, backend: str) -> None:
    if how == "safetensors":
        pytest.importorskip("safetensors")
    problem = Weights(ODD, tensors=4, how=how)
    found = measure(problem, backend, "cpu", method=QUICK)
    assert (True, 4 * ODD) == (found.verified, found.bytes_moved)
    assert found.algorithm is not None
    assert {"read": "read(2)", "safetensors": "safetensors "}.get(how, backend) in found.algorithm
    assert found.main is not None
    assert problem.figures(found)["tensor_s"] == pytest.approx(found.main.median_s / 4)


@pytest.mark.parametrize("how", ["mmap", "read"])
def test_a_cold_file_is_dropped_and_another_byte_is_found(how: str, temporary: Path) -> None:
    step, check = prepared(Weights(5000, tensors=3, how=how), open_backend("numpy", "cpu"), "numpy")
    assert 0.0 == check()
    (made,) = temporary.glob(f"{PREFIX}*/*")
    with open(made, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    with pytest.raises(VerificationError, match="wrong result: 1 of"):
        check()
    made.write_bytes(b"no header")
    with pytest.raises(PrimbenchError, match="a file that is to be of safetensors has another header"):
        step()
    try:
        cold, check = prepared(
            Weights(5000, how=how, page_cache="cold", path=str(temporary)), open_backend("numpy", "cpu"), "numpy"
        )
    except UnsupportedCase as reason:  # a file system that keeps files in memory
        pytest.skip(str(reason))
    assert description_of(cold).before is not None
    assert 0.0 == check()


def test_the_file_is_as_the_package_writes_it(temporary: Path) -> None:
    tensors, path = layout(3, 1001), temporary / "model.safetensors"
    contents = np.random.default_rng(0).integers(-127, 128, 5000, np.int8)
    with open(path, "wb", buffering=0) as file:
        write(file, tensors, contents.data.cast("B"))
    with open(path, "rb", buffering=0) as file:
        start, found = read_header(file)
    data = path.read_bytes()
    assert (tensors, 0, 3003) == (found, start % 8, len(data) - start)
    assert ["dtype", "shape", "data_offsets"] == [*json.loads(data[8:start])["000000.weight"]]
    if not missing("torch"):
        numpy = pytest.importorskip("safetensors.numpy")
        loaded = numpy.load_file(path)
        assert contents[:3003].tolist() == np.concatenate([loaded[each.name] for each in tensors]).tolist()
    path.unlink()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"how": "magic"}, "how='magic': one of mmap, read"), ({"path": "a\0b"}, "a name that can be shown")],
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Weights(4096, **options)


def test_pinned_memory_is_for_a_gpu() -> None:
    with pytest.raises(UnsupportedCase, match="pinned memory is for copies to a GPU: ask for how=read"):
        prepared(Weights(4096, how="pinned"), open_backend("numpy", "cpu"), "numpy")


class OnGpu(np.ndarray):
    """Memory that stands for a GPU's."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.ctypes.data, False)}


class Backend(OnCuda):
    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return np.empty(shape, dtype).view(OnGpu)

    def poison(self, array: Any) -> None:
        array[:] = -128


@pytest.mark.parametrize("how", ["mmap", "read", "pinned"])
def test_a_gpu_has_every_tensor_once_a_call_has_ended(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a stand-in for the driver: no GPU is here."""
    cuda = Late()
    monkeypatch.setattr(driver, "_library", lambda: cuda)
    monkeypatch.setattr(_cuda, "STAGED_BYTES", ODD // 2)
    step, check = prepared(Weights(ODD, tensors=5, how=how), Backend(), "cupy")
    assert 0.0 == check()
    assert (description_of(step).algorithm or "").startswith(_cuda.COPY)
    parts = {"pinned": [ODD // 2, ODD // 2, ODD - 2 * (ODD // 2)]}.get(how, [ODD])
    assert 5 * parts == [size for kind, size in (each for each in cuda.log if each[0] == "copy")][-5 * len(parts) :]
    del step, check
    gc.collect()
    assert {} == cuda.pinned
