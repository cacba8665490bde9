"""The tiled GEMM that Numba compiles for a GPU.

Numba is imported at the top, because its simulator replaces ``cuda`` among the globals of a kernel's file:
import this file only where a kernel is set up.

Indices are uint32. A signed index is tested for negative values at every access, and those tests keep the
compiler from joining neighbouring loads of shared memory into one of 16 bytes.
"""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from numba import cuda, types
from numba import uint32 as u32

from primbench.kernels.gemm._numba_copies import copies
from primbench.kernels.gemm._numba_sums import multiplication, position_of, writing

if TYPE_CHECKING:
    from primbench.kernels.gemm._tiles import Variant


@functools.cache
def compiled(variant: Variant) -> Any:
    """The kernel ``(a, b, c)``, or ``(a, b, d, c)`` where beta is not 0, for a row of ``tile.blocks(m, n)`` blocks.

    Where the variant is in pairs, a and b are float64, each of which is two of their elements.
    """
    tile, accumulated = variant.tile, getattr(types, variant.accumulate)
    of_a = copies(variant, tile.block_m, along_k=not variant.trans_a)
    of_b = copies(variant, tile.block_n, along_k=variant.trans_b)
    fetch_a, put_a, staged_a_shape, shared_a_shape = of_a.fetch, of_a.put, of_a.staged_shape, of_a.shared_shape
    fetch_b, put_b, staged_b_shape, shared_b_shape = of_b.fetch, of_b.put, of_b.staged_shape, of_b.shared_shape
    staged, sums_shape = of_a.staged, (tile.thread_m, tile.thread_n)
    position, multiply, write = position_of(variant), multiplication(variant), writing(variant)
    block_m, block_n, block_k = u32(tile.block_m), u32(tile.block_n), u32(tile.block_k)
    trans_a, zero, one, in_each = variant.trans_a, u32(0), u32(1), u32(2 if variant.in_pairs else 1)

    @cuda.jit(device=True)
    def product(a: Any, b: Any, d: Any, c: Any) -> None:
        # One array a line: the simulator takes two on one line for the same.
        shared_a = cuda.shared.array(shared_a_shape, accumulated)
        shared_b = cuda.shared.array(shared_b_shape, accumulated)
        staged_a = cuda.local.array(staged_a_shape, staged)
        staged_b = cuda.local.array(staged_b_shape, staged)
        sums = cuda.local.array(sums_shape, accumulated)
        for i in range(sums_shape[0]):
            for j in range(sums_shape[1]):
                sums[i, j] = accumulated(0)
        thread, block = u32(cuda.threadIdx.x), u32(cuda.blockIdx.x)
        across = (u32(c.shape[1]) + block_n - one) // block_n
        row0, column0 = block // across * block_m, block % across * block_n
        row, column = position(thread)
        k = u32(a.shape[0]) if trans_a else u32(a.shape[1]) * in_each

        fetch_a(a, row0, zero, thread, staged_a)
        fetch_b(b, column0, zero, thread, staged_b)
        put_a(staged_a, thread, shared_a[0])
        put_b(staged_b, thread, shared_b[0])
        cuda.syncthreads()
        now = zero
        # The next tiles travel to registers while the present ones are multiplied.
        k0 = block_k
        while k0 < k:
            fetch_a(a, row0, k0, thread, staged_a)
            fetch_b(b, column0, k0, thread, staged_b)
            k0 += block_k
            multiply(shared_a[now], shared_b[now], row, column, sums)
            now ^= one
            put_a(staged_a, thread, shared_a[now])
            put_b(staged_b, thread, shared_b[now])
            cuda.syncthreads()
        multiply(shared_a[now], shared_b[now], row, column, sums)
        write(sums, row0 + row, column0 + column, d, c)

    def gemm(a: Any, b: Any, c: Any) -> None:
        product(a, b, c, c)

    def gemm_plus(a: Any, b: Any, d: Any, c: Any) -> None:
        product(a, b, d, c)

    limit = {"max_registers": tile.max_registers} if tile.max_registers else {}
    return cuda.jit(**limit)(gemm_plus if variant.beta else gemm)
