"""A context that nothing is timed in: a GPU that changes contexts forgets what a process did before.

Of the CUDA Driver API, by ctypes, as primbench/gpu/nvidia/driver.py.
"""

from __future__ import annotations

from ctypes import byref, c_int, c_size_t, c_ubyte, c_uint, c_ulonglong, c_void_p

from primbench.gpu.nvidia.driver import CudaError, call, function


class SecondContext:
    """A context on a GPU beside the one in use. To visit it, the GPU leaves that one for a moment.

    While a process has its GPU to itself, each kernel of its graphs may begin some 0.2 to 0.3 us later, once eight
    streams or so were used, as cuDNN does, or a graph was uploaded and not launched yet: up to 20 % of a step, in old
    graphs and new ones, also after the streams are gone. When the GPU changes contexts, that ends (H200, driver 580).
    """

    def __init__(self, number: int) -> None:
        """number: of the GPU. Nothing is made before the first visit."""
        self._number = c_int(number)
        self._context, self._byte = c_void_p(), c_ulonglong()

    def visit(self) -> str | None:
        """Have the GPU fill a byte in it; 0.1 s and some hundred MiB the first time, 10 us on an idle GPU from then on.

        Returns why that cannot be, as where no memory is left for it.
        """
        entered = False
        try:
            if self._context:
                call("cuCtxPushCurrent_v2", self._context)
            else:
                call("cuCtxCreate_v2", byref(self._context), c_uint(0), self._number)  # which makes it current, too
            entered = True
            if not self._byte:
                call("cuMemAlloc_v2", byref(self._byte), c_size_t(1))
            call("cuMemsetD8_v2", self._byte, c_ubyte(0), c_size_t(1))
            call("cuCtxSynchronize")
        except CudaError as error:
            return str(error)
        finally:
            if entered:
                call("cuCtxPopCurrent_v2", byref(c_void_p()))
        return None

    def close(self) -> None:
        """Give back what it holds. Where a kernel has failed before, the driver refuses, and nothing is said."""
        context, self._context, self._byte = self._context, c_void_p(), c_ulonglong()
        if context:
            function("cuCtxDestroy_v2")(context)
