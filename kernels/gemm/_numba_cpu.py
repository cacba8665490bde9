"""The GEMM that Numba compiles for the CPU: the sums are in C's type, and in C itself.

Numba is imported at the top: import this file only where a kernel is set up. Nothing is cached on disk: the
time to compile is no part of any result, and a place that cannot write its installation runs the same way.
"""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import functools
from typing import Any

from numba import from_dtype, njit, prange, types

ROW_STRIP = 32  # rows of C that a thread takes at a time
K_PANEL = 32  # rows of B that stay in the cache while a strip passes over them
TRANSPOSED_BLOCK = 32  # a square of B this wide is read and written within the first-level cache
FASTMATH = {"contract"}  # multiply-add in one rounding, as BLAS does; the order of the sums stays as written
CALLED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # by compiled code alone: a sixth less to compile


@functools.cache
def compiled(stored: Any, summed: Any) -> Any:
    """gemm() for arrays of these NumPy dtypes, compiled once: A is read element by element, whichever way it lies."""
    stored, summed = from_dtype(stored), from_dtype(summed)
    a, b, c = types.Array(stored, 2, "A"), stored[:, ::1], summed[:, ::1]
    return njit(types.void(a, b, c, c, summed, summed), parallel=True, fastmath=FASTMATH)(gemm)


def gemm(a: Any, b: Any, d: Any, c: Any, alpha: Any, beta: Any) -> None:
    """C[m,n] = alpha A[m,k] B[k,n] + beta D[m,n]; A in any layout, the rest row-major, the factors in C's type."""
    m, k = a.shape
    for strip in prange((m + ROW_STRIP - 1) // ROW_STRIP):
        first, last = strip * ROW_STRIP, min(m, (strip + 1) * ROW_STRIP)
        c[first:last] = 0
        for panel in range(0, k, K_PANEL):
            end = min(k, panel + K_PANEL)
            for i in range(first, last - 1, 2):
                _add_to_two_rows(c[i], c[i + 1], a[i, panel:end], a[i + 1, panel:end], b[panel:end])
            if (last - first) % 2:
                _add_to_row(c[last - 1], a[last - 1, panel:end], b[panel:end])
        if alpha != 1 or beta != 0:
            for i in range(first, last):
                for j in range(c.shape[1]):
                    c[i, j] = alpha * c[i, j] + beta * d[i, j]


# 8 multiply-adds for 8 loads and stores: measured 1.8 times as fast as one row by one term.
@njit(fastmath=FASTMATH, **CALLED)
def _add_to_two_rows(c0: Any, c1: Any, a0: Any, a1: Any, b: Any) -> None:
    in_fours = a0.shape[0] // 4 * 4
    total = c0.dtype.type
    for k in range(0, in_fours, 4):
        x0, x1, x2, x3 = total(a0[k]), total(a0[k + 1]), total(a0[k + 2]), total(a0[k + 3])
        y0, y1, y2, y3 = total(a1[k]), total(a1[k + 1]), total(a1[k + 2]), total(a1[k + 3])
        b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
        for j in range(c0.shape[0]):
            z0, z1, z2, z3 = total(b0[j]), total(b1[j]), total(b2[j]), total(b3[j])
            c0[j] += x0 * z0 + x1 * z1 + x2 * z2 + x3 * z3
            c1[j] += y0 * z0 + y1 * z1 + y2 * z2 + y3 * z3
    _add_to_row(c0, a0[in_fours:], b[in_fours:])
    _add_to_row(c1, a1[in_fours:], b[in_fours:])


@njit(fastmath=FASTMATH, **CALLED)
def _add_to_row(c: Any, a: Any, b: Any) -> None:
    for k in range(a.shape[0]):
        x = c.dtype.type(a[k])
        for j in range(c.shape[0]):
            c[j] += x * c.dtype.type(b[k, j])


@njit(parallel=True)
def transpose(x: Any, y: Any) -> None:
    """y[i,j] = x[j,i]"""
    for block in prange((y.shape[0] + TRANSPOSED_BLOCK - 1) // TRANSPOSED_BLOCK):
        first, last = block * TRANSPOSED_BLOCK, min(y.shape[0], (block + 1) * TRANSPOSED_BLOCK)
        for j0 in range(0, y.shape[1], TRANSPOSED_BLOCK):
            for i in range(first, last):
                for j in range(j0, min(y.shape[1], j0 + TRANSPOSED_BLOCK)):
                    y[i, j] = x[j, i]
