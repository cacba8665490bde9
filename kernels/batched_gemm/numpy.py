"""Batched GEMM on NumPy: BLAS, product by product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.gemm.problem import oriented
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.batched_gemm.problem import BatchedGemm


@kernel("batched_gemm", "numpy")
def numpy_batched_gemm(backend: Any, problem: BatchedGemm, a: Any, b: Any) -> Step:
    """numpy.matmul on arrays of matrices."""
    import numpy as np

    if problem.math_mode != "ieee" or problem.dtype in ("float16", "bfloat16"):
        raise UnsupportedCase("NumPy has products of float32 and float64, without a tf32 mode")
    a, b = oriented(problem, a, b)
    c = backend.empty((problem.batch, problem.m, problem.n), problem.dtype)
    return lambda: np.matmul(a, b, out=c)
