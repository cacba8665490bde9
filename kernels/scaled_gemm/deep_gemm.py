"""Scaled GEMM by DeepGEMM, with scales of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched, need_package
from primbench.errors import UnsupportedCase
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.scaled_gemm.problem import ScaledGemm


@kernel("scaled_gemm", "torch", name="deep_gemm")
def deep_gemm_scaled_gemm(backend: Any, problem: ScaledGemm, a: Any, b: Any, *scales: Any) -> Step:
    """fp8_gemm_nt of DeepGEMM 2.6.1 for H100 and H200, which asks for scales of A that lie in memory by columns."""
    need_package(backend, "deep_gemm", "https://github.com/deepseek-ai/DeepGEMM")
    if problem.scaling != "block":
        raise UnsupportedCase("deep_gemm: scaling=block alone")
    from deep_gemm import fp8_gemm_nt

    scale_a, scale_b = scales
    of_a, of_b, c = (a, scale_a.t()), (b, scale_b), backend.empty((problem.m, problem.n), "bfloat16")

    def step() -> Any:
        fp8_gemm_nt(of_a, of_b, c)
        return c

    return launched("deep_gemm", step)
