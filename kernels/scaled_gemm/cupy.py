"""Scaled GEMM on CuPy arrays by cuBLASLt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.gemm.cupy import product_step
from primbench.kernels.gemm.problem import Gemm
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.scaled_gemm.problem import ScaledGemm

SCALINGS = ("tensor", "row", "block")


@kernel("scaled_gemm", "cupy")
def cupy_scaled_gemm(backend: Any, problem: ScaledGemm, a: Any, b: Any, *scales: Any) -> Step:
    if problem.dtype != "float8_e4m3" or problem.scaling not in SCALINGS:
        raise UnsupportedCase(
            f"cupy: dtype=float8_e4m3 with scaling={', '.join(SCALINGS)} alone: ask for backend torch"
        )
    from primbench.cuda.product import Scales

    product = Gemm(problem.m, problem.n, problem.k, problem.dtype, trans_b=True)
    c = backend.empty((problem.m, problem.n), "bfloat16")
    of_both = Scales(problem.scaling, *(scale.data.ptr for scale in scales))
    return product_step(backend, product, (a, b, c, c, *scales), scales=of_both)
