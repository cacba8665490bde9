"""GEMM on NumPy: BLAS for float32 and float64, NumPy's own loops for the rest."""

from __future__ import annotations

from typing import Any

from primbench.errors import UnsupportedCase
from primbench.kernels.gemm.problem import Gemm, oriented
from primbench.problem import Step, kernel


@kernel("gemm", "numpy")
def numpy_gemm(backend: Any, problem: Gemm, a: Any, b: Any, d: Any = None) -> Step:
    """BLAS through numpy.matmul for float32 and float64; NumPy's own loops for the rest."""
    import numpy as np

    if problem.math_mode != "ieee":
        raise UnsupportedCase(f"NumPy has no {problem.math_mode} mode")
    if problem.dtype in ("bfloat16", "float8_e4m3"):
        raise UnsupportedCase(f"NumPy has no {problem.dtype} matrix product")
    if problem.dtype == "float16" and problem.accumulate == "float32":
        raise UnsupportedCase("NumPy sums float16 in float16: ask for accumulate=float16")
    a, b = oriented(problem, a, b)
    c = backend.empty((problem.m, problem.n), problem.out_dtype)
    alpha, beta = c.dtype.type(problem.alpha), c.dtype.type(problem.beta)
    scaled_d = np.empty_like(c)

    def step() -> Any:
        np.matmul(a, b, out=c, dtype=c.dtype)
        if problem.alpha != 1:
            np.multiply(c, alpha, out=c)
        if problem.beta:
            np.multiply(d, beta, out=scaled_d)
            np.add(c, scaled_d, out=c)
        if problem.bias:
            np.add(c, d, out=c)
        return c

    return step
