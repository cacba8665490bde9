"""Copies on every backend: on a GPU they are the driver's, whichever backend asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.memcpy.problem import Memcpy


@kernel("memcpy", "numpy", "torch", "cupy", "numba")
def memcpy(backend: Any, problem: Memcpy, x: Any) -> Step:
    """On a CPU the library's own copy; on a GPU the same driver calls for every backend, on the backend's stream."""
    if not backend.device.is_gpu:
        from primbench.kernels.memcpy._host import host_step

        return host_step(backend, problem, x)
    from primbench.kernels.memcpy._cuda import cuda_step

    return cuda_step(backend, problem, x)
