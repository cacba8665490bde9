"""NumPy: host memory, BLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.devices import CPU, Device
from primbench.dtypes import numpy_dtype, poison_host

if TYPE_CHECKING:
    from primbench.problem import Array

RANK = 40
MODULES = ("numpy",)
DEVICES = ("cpu",)
LACKS = {"cpu": ("tf32",)}
INSTALL = "pip install numpy"
BUILD = {"numpy": "numpy"}


class Numpy:
    name = "numpy"
    device = Device(CPU)

    def put(self, host: Array) -> Array:
        return host.copy()

    def get(self, array: Array) -> Array:
        return array

    def empty(self, shape: tuple[int, ...], dtype: str) -> Array:
        import numpy as np

        return np.empty(shape, numpy_dtype(dtype))

    def poison(self, array: Array) -> None:
        poison_host(array)

    def synchronize(self) -> None:
        """Nothing to wait for: calls return when they are done."""

    def release(self) -> None:
        """The allocator of the C library gives large blocks back by itself."""

    def close(self) -> None:
        """Nothing of the process was changed."""

    def versions(self) -> dict[str, str]:
        import numpy as np
        import threadpoolctl

        found = {"numpy": np.__version__}
        for pool in threadpoolctl.threadpool_info():
            if pool["user_api"] == "blas":
                found[pool["internal_api"]] = f"{pool['version']} ({pool.get('architecture', 'unknown kernels')})"
        return found


def open(device: Device) -> Numpy:  # noqa: A001 - the name every backend file has
    return Numpy()
