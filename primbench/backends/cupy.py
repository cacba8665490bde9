"""CuPy: NVIDIA GPUs; products by cuBLASLt, convolutions and recurrent networks by cuDNN."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from primbench.dtypes import numpy_dtype
from primbench.errors import BackendUnavailable, UnsupportedCase

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from primbench.devices import Device
    from primbench.gpu.nvidia import driver
    from primbench.problem import Array

RANK = 20
MODULES = ("cupy",)
DEVICES = ("cuda",)
LACKS: dict[str, tuple[str, ...]] = {}
INSTALL = "pip install 'cupy-cuda13x[ctk]' (or cupy-cuda12x, the CUDA major version that the driver has)"
BUILD = {"cupy": "cupy", "cudart": "cupy for CUDA"}  # the runtime that is linked into CuPy

# CuPy has no float8 and half of bfloat16, and a library call needs an address only: both travel as bits.
_BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8"}
_NAMES = {"uint16": "bfloat16", "uint8": "float8_e4m3"}


class Cupy:
    name = "cupy"

    def __init__(self, device: Device) -> None:
        import cupy

        from primbench.gpu.nvidia.second_context import SecondContext

        self.device = device
        self._outer_device = cupy.cuda.Device()
        cupy.cuda.Device(device.index).use()
        self._outer_stream = cupy.cuda.get_current_stream()
        self.stream = cupy.cuda.Stream(non_blocking=True)
        # Allocations and elementwise kernels go to the current stream, so it is current until close().
        self.stream.use()
        self.stream_handle = int(self.stream.ptr)
        self.second_context = SecondContext(device.index)

    def put(self, host: Array) -> Any:
        import cupy

        bits = host.view(_storage(host.dtype))
        array = cupy.empty(bits.shape, bits.dtype)
        array.set(bits, stream=self.stream)
        return array

    def get(self, array: Any) -> Array:
        host: Array = array.get(stream=self.stream)
        return host.view(numpy_dtype(_NAMES[host.dtype.name])) if host.dtype.name in _NAMES else host

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        import cupy

        return cupy.empty(shape, _storage(numpy_dtype(dtype)))

    def poison(self, array: Any) -> None:
        if array.dtype.kind == "i":
            import numpy as np

            array.fill(np.iinfo(array.dtype).min)
        else:
            # All bits set is a NaN in each of the floating-point formats, and needs no kernel to be compiled.
            array.data.memset_async(0xFF, array.nbytes, self.stream)

    def synchronize(self) -> None:
        self.stream.synchronize()

    def release(self) -> None:
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()

    def close(self) -> None:
        self._outer_stream.use()
        self._outer_device.use()
        self.second_context.close()

    def versions(self) -> dict[str, str]:
        import cupy

        from primbench.cuda import cublaslt, cudnn

        runtime = cupy.cuda.runtime
        found = {
            "cupy": cupy.__version__,
            "cudart": _cuda_version(runtime.runtimeGetVersion()),
            "cuda driver": _cuda_version(runtime.driverGetVersion()),
        }
        for library, version in (("cublasLt", cublaslt.version), ("cudnn", cudnn.version)):
            with contextlib.suppress(UnsupportedCase):
                found[library] = version()
        return found

    def extent(self, array: Any) -> tuple[int, int] | None:
        return (array.data.ptr, array.nbytes) if array.flags.c_contiguous else None

    def capture(self, enqueue: Callable[[], None]) -> driver.DriverGraph:
        from primbench.gpu.nvidia import driver

        return driver.capture(self.stream_handle, enqueue)

    @functools.cached_property
    def workspace(self) -> Any:
        """Scratch of cublaslt.WORKSPACE_BYTES, shared by all calls: they follow one another on one stream."""
        from primbench.cuda import cublaslt

        return self.empty((cublaslt.WORKSPACE_BYTES,), "int8")


def open(device: Device) -> Cupy:  # noqa: A001 - the name every backend file has
    """Raises BackendUnavailable where there is no such GPU, or the driver is absent or too old."""
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendUnavailable(f"backend cupy on {device}: {error} (see nvidia-smi)") from None
    if device.index >= count:
        raise BackendUnavailable(f"backend cupy on {device}: the driver shows {count} GPU, counted from 0")
    return Cupy(device)


def _storage(dtype: np.dtype[Any]) -> np.dtype[Any]:
    import numpy as np

    return np.dtype(_BITS.get(dtype.name, dtype))


def _cuda_version(number: int) -> str:
    """13020 is 13.2: cudaRuntimeGetVersion, CUDA Runtime API reference."""
    return f"{number // 1000}.{number % 1000 // 10}"
