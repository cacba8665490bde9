"""GEMM in Triton: a program has a tile of C. Import this file only where a kernel is set up."""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
# Triton reads each name in an annotation of a kernel's as one that it computes by.

from __future__ import annotations

from typing import Any

import triton
from triton import language as tl

from primbench.backends._triton import is_interpreted

GROUP = 8
"""Rows of tiles whose programs follow one another, so that they find what they share of B in the cache."""
_TILES = ((128, 128, 32, 4, 4), (128, 256, 64, 8, 3), (64, 128, 32, 4, 4), (64, 64, 64, 4, 4), (32, 64, 32, 2, 5))
"""Rows and columns of C, length of a step along k, warps, steps that are fetched ahead."""


def _configurations() -> list[Any]:
    """Of which the fastest is taken; where nothing is compiled there is nothing to choose."""
    tiles = _TILES[:1] if is_interpreted() else _TILES
    return [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=warps, num_stages=stages)
        for m, n, k, warps, stages in tiles
    ]


@triton.autotune(configs=_configurations(), key=["m", "n", "k", "a_column", "b_column"])
@triton.jit
def tiled(  # noqa: PLR0917 - Triton takes them by position
    a, b, c, m, n, a_row, a_column, b_row, b_column,
    k: tl.constexpr, PRECISION: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C[m,n] of A[m,k] and B[k,n], which have strides, summed in float32; k is known as it is compiled."""
    program, tiles_m, tiles_n = tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    group = program // (GROUP * tiles_n)
    first = group * GROUP
    rows_of_group = min(tiles_m - first, GROUP)
    tile_m = first + program % (GROUP * tiles_n) % rows_of_group
    tile_n = program % (GROUP * tiles_n) // rows_of_group

    row = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    along = tl.arange(0, BLOCK_K)
    of_a = a + (row % m)[:, None] * a_row + along[None, :] * a_column
    of_b = b + along[:, None] * b_row + (column % n)[None, :] * b_column
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(k, BLOCK_K)):
        if k % BLOCK_K == 0:
            part_a, part_b = tl.load(of_a), tl.load(of_b)
        else:
            left = k - step * BLOCK_K
            part_a = tl.load(of_a, mask=along[None, :] < left, other=0.0)
            part_b = tl.load(of_b, mask=along[:, None] < left, other=0.0)
        total = tl.dot(part_a, part_b, total, input_precision=PRECISION)
        of_a += BLOCK_K * a_column
        of_b += BLOCK_K * b_row
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + row[:, None] * n + column[None, :], total.to(c.dtype.element_ty), mask=inside)


def product(a: Any, b: Any, c: Any, precision: str) -> Any:
    """A[m,k] B[k,n], written to C[m,n], which is returned. precision: ieee or tf32, of float32."""
    (m, k), (_, n) = a.shape, b.shape

    def programs(blocks: Any) -> tuple[int]:
        return (triton.cdiv(m, blocks["BLOCK_M"]) * triton.cdiv(n, blocks["BLOCK_N"]),)

    tiled[programs](a, b, c, m, n, *a.stride(), *b.stride(), k=k, PRECISION=precision, GROUP=GROUP)
    return c
