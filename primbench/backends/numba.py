"""Numba: kernels of our own, compiled for the CPU and for NVIDIA GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends.numpy import Numpy
from primbench.dtypes import numpy_dtype
from primbench.errors import BackendUnavailable, UnsupportedCase

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.devices import Device
    from primbench.gpu.nvidia import driver
    from primbench.problem import Array

RANK = 30
MODULES = ("numba",)
DEVICES = ("cpu", "cuda")
LACKS = {"cpu": ("tf32", "float16", "bfloat16", "float8_e4m3"), "cuda": ("tf32", "bfloat16", "float8_e4m3")}
INSTALL = "pip install numba 'numpy<2.5' (for a GPU: numba-cuda[cu13] or numba-cuda[cu12], as the driver)"
BUILD = {"numba": "numba", "numba-cuda": "numba-cuda"}


def threads(framework: Any) -> int | None:
    """Threads that Numba's first parallel loop will start; None while Numba is still being imported."""
    config = getattr(framework, "config", None)
    return config.NUMBA_NUM_THREADS if config else None


class NumbaCpu(Numpy):
    """Arrays of NumPy, loops of Numba."""

    name = "numba"

    def versions(self) -> dict[str, str]:
        return _versions("numba", "llvmlite") | {"threading layer": _threading_layer()}


class NumbaCuda:
    name = "numba"

    def __init__(self, device: Device) -> None:
        from numba import cuda

        from primbench.gpu.nvidia import driver
        from primbench.gpu.nvidia.second_context import SecondContext

        self.device = device
        cuda.select_device(device.index)
        self.stream_handle = driver.create_stream()
        self.stream = cuda.external_stream(self.stream_handle)
        self.second_context = SecondContext(device.index)
        self.multiprocessors: int = cuda.get_current_device().MULTIPROCESSOR_COUNT

    def put(self, host: Array) -> Any:
        from numba import cuda

        if host.dtype.kind not in "fiu":  # the extension types of ml_dtypes
            raise UnsupportedCase(f"Numba has no {host.dtype.name} arrays")
        array = cuda.to_device(host, stream=self.stream)
        self.synchronize()
        return array

    def get(self, array: Any) -> Array:
        host: Array = array.copy_to_host(stream=self.stream)
        self.synchronize()
        return host

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        from numba import cuda

        return cuda.device_array(shape, numpy_dtype(dtype), stream=self.stream)

    def poison(self, array: Any) -> None:
        """Fill by the driver's memset: Numba's own would compile a kernel for every dtype and number of dimensions."""
        import ctypes

        from primbench.gpu.nvidia import driver

        address, stream = ctypes.c_void_p(_address(array)), ctypes.c_void_p(self.stream_handle)
        if array.dtype.name == "int32":
            lowest, count = ctypes.c_uint(1 << 31), ctypes.c_size_t(array.size)
            driver.call("cuMemsetD32Async", address, lowest, count, stream)
        else:
            # All bits set is a NaN in every floating-point format; int8's lowest has the top bit alone.
            byte, count = 0x80 if array.dtype.name == "int8" else 0xFF, array.size * array.dtype.itemsize
            driver.call("cuMemsetD8Async", address, ctypes.c_ubyte(byte), ctypes.c_size_t(count), stream)

    def synchronize(self) -> None:
        self.stream.synchronize()

    def release(self) -> None:
        from numba import cuda

        cuda.current_context().deallocations.clear()

    def close(self) -> None:
        """What was made current is the device's primary context, which all frameworks share, and stays so."""
        self.second_context.close()

    def versions(self) -> dict[str, str]:
        from numba import cuda

        # NVIDIA's package replaces the module that Numba brings; a Numba that cannot say has only its own.
        provider = getattr(cuda, "implementation", "Built-in")
        found = _versions("numba", "llvmlite") | {"numba.cuda": provider}
        if provider == "NVIDIA":
            found |= _versions("numba-cuda")
        return found

    def extent(self, array: Any) -> tuple[int, int] | None:
        return (_address(array), array.size * array.dtype.itemsize) if array.flags["C_CONTIGUOUS"] else None

    def capture(self, enqueue: Callable[[], None]) -> driver.DriverGraph:
        from numba import cuda

        from primbench.gpu.nvidia import driver

        # Numba frees dropped arrays some time later; a free during a capture would end the capture.
        with cuda.defer_cleanup():
            return driver.capture(self.stream_handle, enqueue)


def open(device: Device) -> NumbaCpu | NumbaCuda:  # noqa: A001 - the name every backend file has
    """Raises BackendUnavailable where there is no such GPU, no driver, or the simulator is switched on."""
    if not device.is_gpu:
        return NumbaCpu()
    reason = _why_no_gpu(device.index)
    if reason:
        raise BackendUnavailable(f"backend numba on {device}: {reason}")
    return NumbaCuda(device)


def _why_no_gpu(index: int) -> str | None:
    from numba import config, cuda

    if config.ENABLE_CUDASIM:
        return "NUMBA_ENABLE_CUDASIM is set, and a simulator has no times: unset it"
    error = cuda.cuda_error() if not cuda.is_available() else None
    if error:
        return f"{_first_line(error)} (see nvidia-smi)"
    if not cuda.is_available():
        return "numba finds the driver but no compiler library: pip install 'numba-cuda[cu13]' (or [cu12])"
    count = len(cuda.gpus)
    return f"the driver shows {count} GPU, counted from 0" if index >= count else None


def _address(array: Any) -> int:
    return int(array.__cuda_array_interface__["data"][0])


def _first_line(text: str) -> str:
    return next((line.strip().rstrip(".") for line in text.splitlines() if line.strip()), "unknown error")


def _versions(*packages: str) -> dict[str, str]:
    from importlib.metadata import version  # which takes as long to import as click, and --help asks this file its rank

    return {name: version(name) for name in packages}


def _threading_layer() -> str:
    """Which library runs the threads: known once a parallel loop has run."""
    import numba

    try:
        return str(numba.threading_layer())
    except ValueError:
        return "not started"
