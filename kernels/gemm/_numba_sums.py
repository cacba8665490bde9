"""What a thread of Numba's GPU product does with its own part of C: where it lies, its sums, and writing them.

Numba is imported at the top, as in _numba_cuda.py, which says why indices are uint32.
"""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import cuda, types
from numba import uint32 as u32

if TYPE_CHECKING:
    from primbench.kernels.gemm._tiles import Tile, Variant


def position_of(variant: Variant) -> Any:
    """Row and column, within the block, of the first element that a thread owns."""
    tile = variant.tile
    across = tile.block_n // tile.thread_n
    # So shaped, a warp's part of C is nearest to a square, and its threads share the most elements of A and B.
    warp_shape = (8, 4) if tile.thread_m < tile.thread_n else (4, 8)
    rows, columns = min(warp_shape[0], tile.threads // across), min(warp_shape[1], across)
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


def multiplication(variant: Variant) -> Any:
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


def writing(variant: Variant) -> Any:
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
