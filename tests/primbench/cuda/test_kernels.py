"""Our own CUDA sources as NVRTC compiles them, on a machine without a GPU."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from primbench.cuda import kernels, libraries
from primbench.errors import PrimbenchError, UnsupportedCase

EMPTY = 'extern "C" __global__ void empty() {}'


@pytest.fixture(scope="module")
def nvrtc() -> Iterator[None]:
    """Where NVIDIA's wheel has it: loaded, as it is beside a framework."""
    spec = importlib.util.find_spec("nvidia")
    roots = (spec and spec.submodule_search_locations) or ()
    found = [path for root in roots for path in Path(root).glob("cu13/lib/libnvrtc.so.13")]
    if not found:
        pytest.skip("no NVRTC in NVIDIA's wheels: pip install -e '.[dev]'")
    ctypes.CDLL(str(found[0]))
    kernels._nvrtc.cache_clear()
    yield
    kernels._nvrtc.cache_clear()


@pytest.mark.wheel
@pytest.mark.usefixtures("nvrtc")
def test_a_known_gpu_gets_machine_code_and_a_newer_one_what_its_driver_compiles() -> None:
    assert kernels.image(EMPTY, 90).startswith(b"\x7fELF")
    ptx = kernels.image(EMPTY, 9999)
    assert b".visible .entry empty" in ptx
    assert f"sm_{kernels._capabilities()[-1]}".encode() in ptx


@pytest.mark.wheel
@pytest.mark.usefixtures("nvrtc")
def test_a_gpu_that_is_too_old_is_said_to_be() -> None:
    with pytest.raises(UnsupportedCase, match=r"compute capability 2\.0: it is too old"):
        kernels.image(EMPTY, 20)


@pytest.mark.wheel
@pytest.mark.usefixtures("nvrtc")
def test_what_the_compiler_says_of_a_wrong_source_is_one_line() -> None:
    with pytest.raises(PrimbenchError, match=r'^NVRTC refuses a source: .*identifier "missing" is undefined.*$'):
        kernels.image('extern "C" __global__ void k() { missing(); }', 90)


def test_without_it_the_case_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "first_loadable", lambda stem, names: None)
    kernels._nvrtc.cache_clear()
    with pytest.raises(UnsupportedCase, match="pip install nvidia-cuda-nvrtc"):
        kernels.image(EMPTY, 90)
