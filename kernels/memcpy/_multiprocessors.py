"""Copies by the GPU's multiprocessors: our own kernel, which reads and writes pinned memory of the host as it is."""

from __future__ import annotations

from ctypes import byref, c_uint, c_ulonglong, c_void_p
from typing import TYPE_CHECKING

from primbench.cuda import kernels
from primbench.cuda.copies import HostMemory
from primbench.gpu.nvidia import driver

if TYPE_CHECKING:
    from primbench.cuda.copies import Copy, DeviceMemory
    from primbench.cuda.kernels import PreparedKernel

THREADS = 512  # with a block on each multiprocessor, as in nvbandwidth


class Multiprocessors:
    """On the device of the current context, whose copies they are."""

    def __init__(self) -> None:
        """Raises UnsupportedCase where there is no compiler for the kernel."""
        self._module = kernels.module(kernels.text_of("memcpy", "copy.cu"))
        self._kernel = self._module.function("copy")
        self._blocks = driver.device_attribute(driver.MULTIPROCESSORS)
        self.name = f"copy.cu, {self._blocks} blocks of {THREADS} threads"

    def __call__(self, copy: Copy, stream: int) -> PreparedKernel:
        """What enqueues a copy; the caller keeps this object as long."""
        ends = (_address(copy.destination), _address(copy.source), c_ulonglong(copy.source.size_bytes))
        return kernels.launch(self._kernel, self._blocks, THREADS, stream, ends)


def _address(memory: HostMemory | DeviceMemory) -> c_ulonglong:
    """As the GPU knows it."""
    address = c_ulonglong(memory.address)
    if isinstance(memory, HostMemory):
        driver.call("cuMemHostGetDevicePointer_v2", byref(address), c_void_p(memory.address), c_uint())
    return address
