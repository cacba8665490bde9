"""A context that nothing is timed in: a GPU that changes contexts forgets what a process did before.

Of the CUDA Driver API, by ctypes, as primbench/gpu/nvidia/driver.py.
"""

from __future__ import annotations

from ctypes import byref, c_int, c_size_t, c_ubyte, c_uint, c_ulonglong, c_void_p
from threading import Lock

from primbench.gpu.nvidia.driver import CudaError, call, function

_MADE: dict[int, _Made] = {}
"""By the numbers of GPUs."""
_LOCK = Lock()


class SecondContext:
    """A context on a GPU beside the one in use. To visit it, the GPU leaves that one for a moment.

    While a process has its GPU to itself, each kernel of its graphs may begin some 0.2 to 0.3 us later, once eight
    streams or so were used, as cuDNN does, or a graph was uploaded and not launched yet: up to 20 % of a step, in old
    graphs and new ones, also after the streams are gone. When the GPU changes contexts, that ends (H200, driver 580).
    """

    def __init__(self, number: int) -> None:
        """number: of the GPU. Nothing is made before the first visit."""
        self._number = number
        self._made: _Made | None = None

    def visit(self) -> str | None:
        """Have the GPU fill a byte in it; 0.3 s and some hundred MiB the first time, 10 us on an idle GPU from then on.

        A process has one for each GPU, which is given back once all who visited it are closed. Returns why that cannot
        be, as where no memory is left for it.
        """
        with _LOCK:
            if self._made is None:
                self._made = _MADE.setdefault(self._number, _Made())
                self._made.visitors += 1
            return self._made.visit(self._number)

    def close(self) -> None:
        """Give back what it holds. Where a kernel has failed before, the driver refuses, and nothing is said."""
        made, self._made = self._made, None
        with _LOCK:
            if made is None:
                return
            made.visitors -= 1
            if not made.visitors:
                _MADE.pop(self._number, None)
                if made.context:
                    function("cuCtxDestroy_v2")(made.context)


class _Made:
    """The context, and a byte in it."""

    def __init__(self) -> None:
        self.context, self.byte, self.visitors = c_void_p(), c_ulonglong(), 0

    def visit(self, number: int) -> str | None:
        entered = False
        try:
            if self.context:
                call("cuCtxPushCurrent_v2", self.context)
            else:
                call("cuCtxCreate_v2", byref(self.context), c_uint(0), c_int(number))  # which makes it current, too
            entered = True
            if not self.byte:
                call("cuMemAlloc_v2", byref(self.byte), c_size_t(1))
            call("cuMemsetD8_v2", self.byte, c_ubyte(0), c_size_t(1))
            call("cuCtxSynchronize")
        except CudaError as error:
            return str(error)
        finally:
            if entered:
                call("cuCtxPopCurrent_v2", byref(c_void_p()))
        return None
