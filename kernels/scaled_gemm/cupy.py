"""Scaled GEMM on CuPy arrays by cuBLASLt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.kernels.gemm.cupy import product_step
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.scaled_gemm.problem import ScaledGemm


@kernel("scaled_gemm", "cupy")
def cupy_scaled_gemm(backend: Any, problem: ScaledGemm, a: Any, b: Any, scale_a: Any, scale_b: Any) -> Step:  # noqa: PLR0917 - the inputs
    from primbench.cuda.product import Scales

    c = backend.empty((problem.m, problem.n), "bfloat16")
    scales = Scales(problem.scaling, scale_a.data.ptr, scale_b.data.ptr)
    return product_step(backend, problem.product, (a, b, c, c, scale_a, scale_b), scales=scales)
