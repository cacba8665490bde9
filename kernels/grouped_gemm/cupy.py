"""Grouped GEMM on CuPy arrays: a product of cuBLASLt for each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.dtypes import itemsize_bytes
from primbench.kernels.gemm.cupy import product_step
from primbench.kernels.gemm.problem import Gemm
from primbench.kernels.grouped_gemm.problem import slices
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.grouped_gemm.problem import GroupedGemm


@kernel("grouped_gemm", "cupy")
def cupy_grouped_gemm(backend: Any, problem: GroupedGemm, a: Any, b: Any, ends: Any) -> Step:
    """One behind the other, for the groups that have tokens."""
    c = backend.empty((problem.tokens, problem.n), problem.dtype)
    row_bytes = [count * itemsize_bytes(problem.dtype) for count in (problem.k, problem.n)]
    aligned = min(256, *(count & -count for count in row_bytes))  # the largest power of two that divides them
    products = [
        product_step(
            backend,
            Gemm(rows.stop - rows.start, problem.n, problem.k, problem.dtype, trans_b=problem.trans_b),
            (a[rows], b[group], c[rows], c[rows]),
            alignment_bytes=aligned,
        )
        for group, rows in slices(backend.get(ends))
    ]

    def step() -> Any:
        for product in products:
            product()
        return c

    return described(step, algorithm="a product for each group")
