"""Batched GEMM on CuPy arrays by cuBLASLt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.kernels.gemm.cupy import product_step
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.batched_gemm.problem import BatchedGemm


@kernel("batched_gemm", "cupy")
def cupy_batched_gemm(backend: Any, problem: BatchedGemm, a: Any, b: Any) -> Step:
    """One strided batch."""
    c = backend.empty((problem.batch, problem.m, problem.n), problem.dtype)
    return product_step(backend, problem.product, (a, b, c, c), batch=problem.batch)
