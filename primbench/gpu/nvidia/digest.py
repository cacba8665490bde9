"""The sums of ``primbench.timing.digest`` on a GPU, of memory that stays there: 128 bytes come to the host.

One kernel for all frameworks, through the driver: none has integer arithmetic modulo 2^64 in one pass, and Numba has no
arithmetic of arrays at all.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_size_t, c_ubyte, c_uint, c_ulonglong, c_void_p

from primbench.gpu.nvidia.driver import MULTIPROCESSORS, Module, call, device_attribute, synchronize
from primbench.measurement.outputs import PARTS, WORD_BYTES, part_words

_THREADS, _BLOCKS_A_MULTIPROCESSOR = 256, 8

# Each thread multiplies words by their keys and adds up; those of a block add into one number, and that into that of
# the part, which is the block's y. ``mask`` is what the last word has of its bytes: no memory ends within a word.
# Additions modulo 2^64 have one sum in any order. PTX of an old target runs on every later GPU.
_PTX = b"""
.version 6.0
.target sm_60
.address_size 64
.func (.reg .u64 %key) key(.reg .u64 %n)
{
    .reg .u64 %z, %y;
    add.u64 %z, %n, 1;
    mul.lo.u64 %z, %z, 0x9E3779B97F4A7C15;
    shr.u64 %y, %z, 30;
    xor.b64 %z, %z, %y;
    mul.lo.u64 %z, %z, 0xBF58476D1CE4E5B9;
    shr.u64 %y, %z, 27;
    xor.b64 %z, %z, %y;
    mul.lo.u64 %z, %z, 0x94D049BB133111EB;
    shr.u64 %y, %z, 31;
    xor.b64 %z, %z, %y;
    or.b64 %key, %z, 1;
    ret;
}
.visible .entry digest(.param .u64 of, .param .u64 words, .param .u64 part, .param .u64 mask, .param .u64 sums)
{
    .reg .pred %over, %is_last, %is_first;
    .reg .u32 %thread, %block, %blocks, %y, %word, %kept;
    .reg .u64 %of, %words, %part, %mask, %sums, %at, %step, %place, %last, %sum, %column, %row, %product, %wide, %to;
    .shared .align 8 .u64 all;
    ld.param.u64 %of, [of];
    ld.param.u64 %words, [words];
    ld.param.u64 %part, [part];
    ld.param.u64 %mask, [mask];
    ld.param.u64 %sums, [sums];
    cvta.to.global.u64 %of, %of;
    cvta.to.global.u64 %sums, %sums;
    mov.u32 %thread, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %y, %ctaid.y;
    setp.eq.u32 %is_first, %thread, 0;
    mov.u64 %sum, 0;
    @%is_first st.shared.u64 [all], %sum;
    bar.sync 0;
    mul.wide.u32 %at, %block, 256;
    cvt.u64.u32 %wide, %thread;
    add.u64 %at, %at, %wide;
    mul.wide.u32 %step, %blocks, 256;
    sub.u64 %last, %words, 1;
    cvt.u64.u32 %wide, %y;
    mul.lo.u64 %wide, %wide, %part;
NEXT:
    setp.ge.u64 %over, %at, %part;
    @%over bra ALL;
    add.u64 %place, %at, %wide;
    setp.ge.u64 %over, %place, %words;
    @%over bra ALL;
    setp.eq.u64 %is_last, %place, %last;
    shl.b64 %place, %place, 2;
    add.u64 %place, %place, %of;
    ld.global.u32 %word, [%place];
    cvt.u32.u64 %kept, %mask;
    @%is_last and.b32 %word, %word, %kept;
    and.b64 %column, %at, 4095;
    call (%column), key, (%column);
    shr.u64 %row, %at, 12;
    add.u64 %row, %row, 4096;
    call (%row), key, (%row);
    cvt.u64.u32 %product, %word;
    mul.lo.u64 %product, %product, %column;
    mul.lo.u64 %product, %product, %row;
    add.u64 %sum, %sum, %product;
    add.u64 %at, %at, %step;
    bra NEXT;
ALL:
    red.shared.add.u64 [all], %sum;
    bar.sync 0;
    @!%is_first bra DONE;
    ld.shared.u64 %sum, [all];
    mul.wide.u32 %to, %y, 8;
    add.u64 %to, %to, %sums;
    red.global.add.u64 [%to], %sum;
DONE:
    ret;
}
"""


def sums(address: int, size_bytes: int, stream: int) -> list[int] | None:
    """Those of so many bytes, once what the stream holds is done; None of memory that does not begin with a word."""
    return None if address % WORD_BYTES else _kernel(stream).sums(address, size_bytes)


@functools.cache
def _kernel(stream: int) -> _Kernel:
    return _Kernel(stream)


class _Kernel:
    """Lives as long as the process, as its 128 bytes on the GPU do."""

    def __init__(self, stream: int) -> None:
        self._module, self._stream = Module(_PTX), stream
        self._function = c_void_p(self._module.function("digest"))
        self._sums = c_ulonglong()
        call("cuMemAlloc_v2", byref(self._sums), c_size_t(8 * PARTS))
        self._blocks = _BLOCKS_A_MULTIPROCESSOR * device_attribute(MULTIPROCESSORS) // PARTS

    def sums(self, address: int, size_bytes: int) -> list[int]:
        words, part = -(-size_bytes // WORD_BYTES), part_words(size_bytes)
        parts = -(-words // part)
        mask = (1 << 8 * (size_bytes - WORD_BYTES * (words - 1))) - 1
        values = [c_ulonglong(each) for each in (address, words, part, mask, self._sums.value)]
        pointers = (c_void_p * len(values))(*map(ctypes.addressof, values))
        stream, found = c_void_p(self._stream), (c_ulonglong * PARTS)()
        call("cuMemsetD8Async", self._sums, c_ubyte(0), c_size_t(8 * PARTS), stream)
        if parts:
            blocks = min(self._blocks, -(-part // _THREADS))
            shape = [c_uint(each) for each in (blocks, parts, 1, _THREADS, 1, 1, 0)]
            call("cuLaunchKernel", self._function, *shape, stream, pointers, None)
        call("cuMemcpyDtoHAsync_v2", found, self._sums, c_size_t(8 * PARTS), stream)
        synchronize(self._stream)
        return found[:parts]
