"""GEMM in Numba: our own loops on the CPU, our own tiled kernel on a GPU."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from primbench.backends import lacks
from primbench.errors import UnsupportedCase
from primbench.kernels.gemm._tiles import Tile, Variant
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.devices import Device
    from primbench.kernels.gemm.problem import Gemm


# By the type of the sums, largest first. A thread of 8 by 16 has 6 loads of shared memory for 128 multiply-adds, one of
# 8 by 8 has 4 for 64: bench/numba_gemm.py times them.
_FOR_4_BYTES = (Tile(128, 128, 8, 8, 16), Tile(64, 64, 8, 8, 8))
TILES: dict[str, tuple[Tile, ...]] = {
    "float64": (Tile(128, 64, 8, 8, 4, max_registers=128), Tile(64, 64, 8, 4, 4)),
    "float32": _FOR_4_BYTES,
    "int32": _FOR_4_BYTES,
}


@kernel("gemm", "numba")
def numba_gemm(backend: Any, problem: Gemm, a: Any, b: Any, d: Any = None) -> Step:
    """The step, which has been called once, so that no later call compiles."""
    _refuse(problem, backend.device)
    c = backend.empty((problem.m, problem.n), problem.out_dtype)
    step = _cuda_step(backend, problem, a, b, d, c=c) if backend.device.is_gpu else _cpu_step(problem, a, b, d, c)
    step()
    backend.synchronize()
    return step


def _refuse(problem: Gemm, device: Device) -> None:
    if problem.math_mode != "ieee":
        raise UnsupportedCase(f"Numba has no {problem.math_mode} mode")
    if lacks("numba", device, problem.dtype):
        raise UnsupportedCase(f"Numba has no {problem.dtype}{' arrays' if device.is_gpu else ' on a CPU'}")
    if problem.bias:
        raise UnsupportedCase("the Numba kernel adds no bias: cupy, numpy and torch do")
    if problem.accumulate == "float16":
        raise UnsupportedCase("the Numba kernel sums float16 in float32: ask for accumulate=float32")


def _cpu_step(problem: Gemm, a: Any, b: Any, d: Any, c: Any) -> Step:
    import numpy as np

    from primbench.kernels.gemm._numba_cpu import K_PANEL, compiled, transpose

    a_mk = a.T if problem.trans_a else a
    b_kn = np.empty((problem.k, problem.n), b.dtype) if problem.trans_b else b
    added = d if problem.beta else c
    alpha, beta = c.dtype.type(problem.alpha), c.dtype.type(problem.beta)
    gemm = compiled(a.dtype, c.dtype)

    def step() -> Any:
        if problem.trans_b:
            transpose(b, b_kn)
        gemm(a_mk, b_kn, added, c, alpha, beta)
        return c

    return described(step, algorithm=f"2 rows by 4 terms, panels of {K_PANEL} rows of B")


def _cuda_step(backend: Any, problem: Gemm, a: Any, b: Any, d: Any, *, c: Any) -> Step:
    from primbench.kernels.gemm._numba_cuda import compiled

    m, n, k = problem.m, problem.n, problem.k
    tile = _tile(problem, backend.multiprocessors)
    variant = Variant(
        tile, problem.dtype, problem.accumulate, problem.out_dtype, problem.trans_a, problem.trans_b,
        problem.alpha, problem.beta, whole=tile.divides(m, n, k),
    )  # fmt: skip
    if variant.in_pairs:
        a, b = a.view("float64"), b.view("float64")
    arrays = (a, b, d, c) if problem.beta else (a, b, c)
    with warnings.catch_warnings():
        # Of fewer than 128 blocks; but this size is what was asked for.
        warnings.filterwarnings("ignore", message=".*under-utilization")
        launch = compiled(variant)[tile.blocks(m, n), tile.threads, backend.stream]

    def step() -> Any:
        launch(*arrays)
        return c

    return described(step, algorithm=f"tiled {tile}")


def _tile(problem: Gemm, multiprocessors: int) -> Tile:
    """The largest tile that gives every multiprocessor a block, else the smallest."""
    tiles = TILES[problem.accumulate]
    return next((tile for tile in tiles if tile.blocks(problem.m, problem.n) >= multiprocessors), tiles[-1])
