from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from primbench.backends import missing, open_backend
from primbench.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.wheel, pytest.mark.skipif(missing("numba") is not None, reason=str(missing("numba")))]

POISON = {"float64": np.nan, "float32": np.nan, "float16": np.nan, "int8": -128, "int32": -(2**31)}

OPEN_ON_GPU = """
from primbench.backends import missing, open_backend
from primbench.errors import BackendUnavailable
try:
    open_backend("numba", "cuda:0")
except BackendUnavailable as error:
    print(error)
"""


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    try:
        opened = open_backend("numba", request.param)
    except BackendUnavailable as reason:
        pytest.skip(str(reason))
    yield opened
    opened.close()


@pytest.fixture
def gpu() -> Iterator[Any]:
    try:
        opened: Any = open_backend("numba", "cuda:0")
    except BackendUnavailable as reason:
        pytest.skip(str(reason))
    yield opened
    opened.close()


def reason_without_gpu(**variables: str) -> str:
    """What opening on cuda:0 says in a fresh process: Numba reads its variables once."""
    environment = os.environ | variables
    run = subprocess.run(
        [sys.executable, "-P", "-c", OPEN_ON_GPU], env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout


@pytest.mark.parametrize("dtype", POISON)
def test_array_comes_back_as_it_was_put(backend: Any, dtype: str) -> None:
    host = np.arange(-6, 6).reshape(3, 4).astype(dtype)
    back = backend.get(backend.put(host))
    assert back.dtype == host.dtype
    np.testing.assert_array_equal(host, back)


def test_put_copies(backend: Any) -> None:
    host = np.ones(3, np.float32)
    array = backend.put(host)
    host[:] = 2
    assert backend.get(array).tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", POISON)
def test_poison_reaches_every_element(backend: Any, dtype: str) -> None:
    array = backend.empty((3, 5), dtype)
    backend.poison(array)
    np.testing.assert_array_equal(np.full((3, 5), POISON[dtype], dtype), backend.get(array))


def test_versions_name_the_compiler_and_what_runs_its_code(backend: Any) -> None:
    import llvmlite
    import numba

    found = backend.versions()
    assert (numba.__version__, llvmlite.__version__) == (found["numba"], found["llvmlite"])
    assert ("numba.cuda" if backend.device.is_gpu else "threading layer") in found


def test_absent_gpu_is_a_reason_in_one_line() -> None:
    said = reason_without_gpu(CUDA_VISIBLE_DEVICES="", NUMBA_ENABLE_CUDASIM="0")
    assert said.startswith("backend numba on cuda:0: ")
    assert said.count("\n") == 1


def test_simulator_is_refused_by_the_name_of_its_variable() -> None:
    said = reason_without_gpu(NUMBA_ENABLE_CUDASIM="1")
    assert said.startswith("backend numba on cuda:0: NUMBA_ENABLE_CUDASIM is set")


@pytest.mark.gpu
def test_gpu_beyond_the_last_is_refused_with_the_count(gpu: Any) -> None:
    with pytest.raises(BackendUnavailable, match=r"backend numba on cuda:999: the driver shows \d+ GPU"):
        open_backend("numba", "cuda:999")


@pytest.mark.gpu
def test_capture_holds_what_was_enqueued_and_replays_it(gpu: Any) -> None:
    array = gpu.put(np.zeros(4, np.int32))
    graph = gpu.capture(lambda: gpu.poison(array))
    assert graph.nodes == 1
    assert gpu.get(array).tolist() == [0, 0, 0, 0]
    graph.launch()
    assert gpu.get(array).tolist() == [-(2**31)] * 4
