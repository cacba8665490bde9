"""Pinned host memory by the driver. Each array gives its memory back with its last view."""

from __future__ import annotations

import ctypes
import weakref
from ctypes import byref, c_size_t, c_uint, c_void_p
from typing import TYPE_CHECKING

from primbench.gpu.nvidia import driver

if TYPE_CHECKING:
    from primbench.problem import Array

# cuda.h: for all contexts, which each GPU has its own of; and not to be read by the CPU.
_REGISTER_PORTABLE = 0x01
_ALLOC_PORTABLE, _ALLOC_WRITE_COMBINED = 0x01, 0x04
_NOT_SUPPORTED = "CUDA_ERROR_NOT_SUPPORTED"


def registered(array: Array) -> Array | None:
    """The array, its memory pinned in place; None where the driver pins only what it allocates itself.

    That is so under confidential computing. Needs a current context. Raises CudaError.
    """
    import numpy as np

    buffer = (ctypes.c_byte * array.nbytes).from_buffer(array.data)
    address = c_void_p(ctypes.addressof(buffer))
    try:
        driver.call("cuMemHostRegister_v2", address, c_size_t(array.nbytes), c_uint(_REGISTER_PORTABLE))
    except driver.CudaError as error:
        if _NOT_SUPPORTED in str(error):
            return None
        raise
    weakref.finalize(buffer, driver.function("cuMemHostUnregister"), address)
    return np.ctypeslib.as_array(buffer)


def allocated(size_bytes: int, *, write_combined: bool = False) -> Array:
    """int8[size_bytes] of the driver's own, on the node that the policy of this thread names.

    write_combined: past the caches: quick to write in order, very slow to read. Needs a current context. Raises
    CudaError.
    """
    import numpy as np

    address = c_void_p()
    flags = _ALLOC_PORTABLE | (_ALLOC_WRITE_COMBINED if write_combined else 0)
    driver.call("cuMemHostAlloc", byref(address), c_size_t(size_bytes), c_uint(flags))
    buffer = (ctypes.c_byte * size_bytes).from_address(address.value or 0)
    weakref.finalize(buffer, driver.function("cuMemFreeHost"), address)
    return np.ctypeslib.as_array(buffer)
