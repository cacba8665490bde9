"""GEMM in Numba: our own loops on the CPU, our own tiled kernel on a GPU."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels._gemm_numba_cuda import Tile
    from primbench.kernels.gemm import Gemm

ROW_STRIP = 32  # rows of C that a thread takes at a time
K_PANEL = 32  # rows of B that stay in the cache while a strip passes over them
TRANSPOSED_BLOCK = 32  # a square of B this wide is read and written within the first-level cache


@kernel("gemm", "numba")
def numba_gemm(backend: Any, problem: Gemm, a: Any, b: Any, d: Any = None) -> Step:
    """One call is made here, so that no later one compiles."""
    on_cpu = backend.device == "cpu"
    _refuse(problem, on_cpu=on_cpu)
    c = backend.empty((problem.m, problem.n), problem.out_dtype)
    step = _cpu_step(problem, a, b, d, c) if on_cpu else _cuda_step(backend, problem, a, b, d, c)
    step()
    backend.synchronize()
    return step


def _refuse(problem: Gemm, *, on_cpu: bool) -> None:
    if problem.math_mode != "ieee":
        raise UnsupportedCase(f"Numba has no {problem.math_mode} mode")
    if problem.dtype in ("bfloat16", "float8_e4m3"):
        raise UnsupportedCase(f"Numba has no {problem.dtype} arrays")
    if problem.dtype == "float16" and on_cpu:
        raise UnsupportedCase("Numba has no float16 on a CPU")
    if problem.accumulate == "float16":
        raise UnsupportedCase("the Numba kernel sums float16 in float32: ask for --accumulate float32")


def _cpu_step(problem: Gemm, a: Any, b: Any, d: Any, c: Any) -> Step:
    import numpy as np

    gemm, transpose = _cpu_kernels()
    a_km = a.T if problem.trans_a else a
    b_kn = np.empty((problem.k, problem.n), b.dtype) if problem.trans_b else b
    added = d if problem.beta else c
    alpha, beta = c.dtype.type(problem.alpha), c.dtype.type(problem.beta)

    def step() -> Any:
        if problem.trans_b:
            transpose(b, b_kn)
        gemm(a_km, b_kn, added, c, alpha, beta)
        return c

    step.algorithm = f"2 rows by 4 terms, panels of {K_PANEL} rows of B"  # type: ignore[attr-defined]
    return step


@functools.cache
def _cpu_kernels() -> tuple[Any, Any]:
    """``gemm(a[m,k], b[k,n], d[m,n], c[m,n], alpha, beta)``, summing in C's type, and ``transpose(x, y)``.

    Not cached on disk: the time to compile is no part of any result, and a place that cannot write its
    installation then runs the same way.
    """
    from numba import njit, prange

    # Multiply-add in one rounding, as BLAS does; the order of the sums stays as it is written.
    fastmath = {"contract"}

    @njit(fastmath=fastmath)
    def add_to_row(c: Any, a: Any, b: Any) -> None:
        for k in range(a.shape[0]):
            x = c.dtype.type(a[k])
            for j in range(c.shape[0]):
                c[j] += x * c.dtype.type(b[k, j])

    # 8 multiply-adds for 8 loads and stores: measured 1.8 times as fast as one row by one term.
    @njit(fastmath=fastmath)
    def add_to_two_rows(c0: Any, c1: Any, a0: Any, a1: Any, b: Any) -> None:
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
        add_to_row(c0, a0[in_fours:], b[in_fours:])
        add_to_row(c1, a1[in_fours:], b[in_fours:])

    @njit(parallel=True, fastmath=fastmath)
    def gemm(a: Any, b: Any, d: Any, c: Any, alpha: Any, beta: Any) -> None:
        m, k = a.shape
        for strip in prange((m + ROW_STRIP - 1) // ROW_STRIP):
            first, last = strip * ROW_STRIP, min(m, (strip + 1) * ROW_STRIP)
            c[first:last] = 0
            for panel in range(0, k, K_PANEL):
                end = min(k, panel + K_PANEL)
                for i in range(first, last - 1, 2):
                    add_to_two_rows(c[i], c[i + 1], a[i, panel:end], a[i + 1, panel:end], b[panel:end])
                if (last - first) % 2:
                    add_to_row(c[last - 1], a[last - 1, panel:end], b[panel:end])
            if alpha != 1 or beta != 0:
                for i in range(first, last):
                    for j in range(c.shape[1]):
                        c[i, j] = alpha * c[i, j] + beta * d[i, j]

    @njit(parallel=True)
    def transpose(x: Any, y: Any) -> None:
        for block in prange((y.shape[0] + TRANSPOSED_BLOCK - 1) // TRANSPOSED_BLOCK):
            first, last = block * TRANSPOSED_BLOCK, min(y.shape[0], (block + 1) * TRANSPOSED_BLOCK)
            for j0 in range(0, y.shape[1], TRANSPOSED_BLOCK):
                for i in range(first, last):
                    for j in range(j0, min(y.shape[1], j0 + TRANSPOSED_BLOCK)):
                        y[i, j] = x[j, i]

    return gemm, transpose


def _cuda_step(backend: Any, problem: Gemm, a: Any, b: Any, d: Any, c: Any) -> Step:
    from numba.core.errors import NumbaPerformanceWarning

    from primbench.kernels._gemm_numba_cuda import Variant, compiled

    m, n, k = problem.m, problem.n, problem.k
    tile = _tile(problem, backend.multiprocessors)
    variant = Variant(
        tile, problem.dtype, problem.accumulate, problem.out_dtype, problem.trans_a, problem.trans_b,
        problem.alpha, problem.beta, whole=tile.divides(m, n, k),
    )  # fmt: skip
    arrays = (a, b, d, c) if problem.beta else (a, b, c)
    with warnings.catch_warnings():
        # Numba finds grids of fewer than 128 blocks too small; the problem's size is what was asked for.
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        launch = compiled(variant)[tile.blocks(m, n), tile.threads, backend.stream]

    def step() -> Any:
        launch(*arrays)
        return c

    step.algorithm = f"tiled {tile}"  # type: ignore[attr-defined]
    return step


def _tile(problem: Gemm, multiprocessors: int) -> Tile:
    """The largest tile that gives every multiprocessor a block, else the smallest."""
    from primbench.kernels._gemm_numba_cuda import TILES

    tiles = TILES[problem.accumulate]
    return next((tile for tile in tiles if tile.blocks(problem.m, problem.n) >= multiprocessors), tiles[-1])
