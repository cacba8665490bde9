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

if TYPE_CHECKING:
    from primbench.kernels.gemm._tiles import Tile, Variant

WARP_ROWS, WARP_COLUMNS = 4, 8  # so shaped, the threads of a warp share the most elements of A and B


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
    position, multiply, write = _position(variant), _multiply(variant), _write(variant)
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


def _position(variant: Variant) -> Any:
    """Row and column, within the block, of the first element that a thread owns."""
    tile = variant.tile
    across = tile.block_n // tile.thread_n
    rows, columns = min(WARP_ROWS, tile.threads // across), min(WARP_COLUMNS, across)
    warp, warp_columns, warps_across = u32(rows * columns), u32(columns), u32(across // columns)
    warp_rows, group = u32(rows), u32(variant.group)

    @cuda.jit(device=True)
    def position(thread: Any) -> Any:
        lane, index = thread % warp, thread // warp
        row = index // warps_across * warp_rows + lane // warp_columns
        column = index % warps_across * warp_columns + lane % warp_columns
        return row * group, column * group

    return position


def _spread(tile: Tile, group: int) -> tuple[Any, Any, Any]:
    """How far apart a thread's groups lie, in rows and in columns."""
    return u32(group), u32(tile.block_m // tile.thread_m * group), u32(tile.block_n // tile.thread_n * group)


def _multiply(variant: Variant) -> Any:
    """Adds the products of one tile of A and one of B to a thread's sums, all of them in registers."""
    tile, accumulated = variant.tile, getattr(types, variant.accumulate)
    thread_m, thread_n, block_k = tile.thread_m, tile.thread_n, tile.block_k
    group, apart_m, apart_n = _spread(tile, variant.group)

    @cuda.jit(device=True)
    def multiply_one(shared_a: Any, shared_b: Any, row: Any, column: Any, sums: Any) -> None:
        a = cuda.local.array(thread_m, accumulated)
        b = cuda.local.array(thread_n, accumulated)
        for i in range(thread_m):
            a[u32(i)] = shared_a[row + u32(i) // group * apart_m + u32(i) % group]
        for j in range(thread_n):
            b[u32(j)] = shared_b[column + u32(j) // group * apart_n + u32(j) % group]
        for i in range(thread_m):
            for j in range(thread_n):
                sums[i, j] += a[u32(i)] * b[u32(j)]

    @cuda.jit(device=True)
    def multiply_at(shared_a: Any, shared_b: Any, inner: Any, row: Any, column: Any, sums: Any) -> None:
        multiply_one(shared_a[inner], shared_b[inner], row, column, sums)

    all_of_them = _unrolled(multiply_at, block_k)

    @cuda.jit(device=True)
    def multiply(shared_a: Any, shared_b: Any, row: Any, column: Any, sums: Any) -> None:
        all_of_them(shared_a, shared_b, u32(0), row, column, sums)

    return multiply


def _unrolled(one: Any, count: int) -> Any:
    """A loop of ``count`` written out, a power of two: the compiler unrolls none of this length."""
    if count == 1:
        return one
    half, apart = _unrolled(one, count // 2), u32(count // 2)

    @cuda.jit(device=True)
    def both(shared_a: Any, shared_b: Any, inner: Any, row: Any, column: Any, sums: Any) -> None:
        half(shared_a, shared_b, inner, row, column, sums)
        half(shared_a, shared_b, inner + apart, row, column, sums)

    return both


def _write(variant: Variant) -> Any:
    """Writes ``alpha sums + beta D`` to C, in C's type."""
    tile, whole = variant.tile, variant.whole
    stored, accumulated = getattr(types, variant.out_dtype), getattr(types, variant.accumulate)
    alpha, beta = accumulated(variant.alpha), accumulated(variant.beta)
    scaled, plus = variant.alpha != 1, variant.beta != 0
    thread_m, thread_n = tile.thread_m, tile.thread_n
    group, apart_m, apart_n = _spread(tile, variant.group)

    @cuda.jit(device=True)
    def write(sums: Any, row0: Any, column0: Any, d: Any, c: Any) -> None:
        for i in range(thread_m):
            for j in range(thread_n):
                row = row0 + u32(i) // group * apart_m + u32(i) % group
                column = column0 + u32(j) // group * apart_n + u32(j) % group
                if whole or (row < u32(c.shape[0]) and column < u32(c.shape[1])):
                    value = sums[i, j]
                    if scaled:
                        value *= alpha
                    if plus:
                        value += beta * accumulated(d[row, column])
                    c[row, column] = stored(value)

    return write
