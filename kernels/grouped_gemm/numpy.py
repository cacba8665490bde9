"""Grouped GEMM on NumPy: BLAS, group by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.gemm.problem import oriented
from primbench.kernels.grouped_gemm.problem import slices
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.grouped_gemm.problem import GroupedGemm


@kernel("grouped_gemm", "numpy")
def numpy_grouped_gemm(backend: Any, problem: GroupedGemm, a: Any, b: Any, ends: Any) -> Step:
    """numpy.matmul for each group that has tokens."""
    import numpy as np

    if problem.dtype in ("float16", "bfloat16"):
        raise UnsupportedCase("NumPy has products of float32 and float64: ask for dtype=float32")
    a, b = oriented(problem, a, b)
    c = backend.empty((problem.tokens, problem.n), problem.dtype)
    groups = [(a[rows], b[group], c[rows]) for group, rows in slices(ends)]

    def step() -> Any:
        for factor, matrix, product in groups:
            np.matmul(factor, matrix, out=product)
        return c

    return described(step, algorithm="a product for each group")
