"""A kernel that holds a stream while the host queues work behind it.

Of the CUDA Driver API, by ctypes, as primbench/gpu/nvidia/driver.py.
"""

from __future__ import annotations

import ctypes
from ctypes import c_uint, c_ulonglong, c_void_p

from primbench.gpu.nvidia.driver import MappedMemory, Module, call, function

HELD_S = 1.0  # that a stream is held for at the most

# Spins until word 0 of the flag is set, or for limit_ns; then it sets word 1 instead, so that a queue that fills up
# while the stream is held cannot hang the host. PTX of an old target runs on every later GPU.
_HOLD_PTX = b"""
.version 6.0
.target sm_60
.address_size 64
.visible .entry hold(.param .u64 flag, .param .u64 limit_ns)
{
    .reg .pred %set, %early;
    .reg .u32 %word;
    .reg .u64 %address, %limit, %start, %now;
    ld.param.u64 %address, [flag];
    ld.param.u64 %limit, [limit_ns];
    cvta.to.global.u64 %address, %address;
    mov.u64 %start, %globaltimer;
SPIN:
    ld.volatile.global.u32 %word, [%address];
    setp.ne.u32 %set, %word, 0;
    @%set bra DONE;
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %early, %now, %limit;
    @%early bra SPIN;
    mov.u32 %word, 1;
    st.volatile.global.u32 [%address+4], %word;
DONE:
    ret;
}
"""


class Blocker:
    """A kernel that holds a stream while work is queued behind it: NVIDIA nvbench's blocking kernel, with its limit.

    Everything that loads code lazily must have run once before, or loading can wait for this kernel for ever.
    """

    def __init__(self, stream: int, limit_s: float = HELD_S) -> None:
        self._module, self._memory = Module(_HOLD_PTX), MappedMemory(8)
        self._function, self._stream = c_void_p(self._module.function("hold")), c_void_p(stream)
        self._words = (c_uint * 2).from_address(self._memory.host)
        self._values = (self._memory.device, c_ulonglong(int(limit_s * 1e9)))
        self._arguments = (c_void_p * 2)(*(ctypes.addressof(value) for value in self._values))

    def __del__(self) -> None:
        if getattr(self, "_words", None) is not None:
            self.release()
            function("cuStreamSynchronize")(self._stream)

    def hold(self) -> None:
        """Stop the stream here until release()."""
        self._words[0] = self._words[1] = 0
        one, none = c_uint(1), c_uint(0)
        call("cuLaunchKernel", self._function, *[one] * 6, none, self._stream, self._arguments, None)

    def release(self) -> None:
        self._words[0] = 1

    @property
    def timed_out(self) -> bool:
        """Whether the last hold ended by its limit: what was timed behind it counts launches too."""
        return bool(self._words[1])
