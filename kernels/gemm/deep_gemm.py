"""GEMM by DeepGEMM, in bfloat16."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched, need_package
from primbench.errors import UnsupportedCase
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.gemm.problem import Gemm


@kernel("gemm", "torch", name="deep_gemm")
def deep_gemm_gemm(backend: Any, problem: Gemm, a: Any, b: Any, *_: Any) -> Step:
    """bf16_gemm_nt of DeepGEMM 2.6.1, which writes A B' to its third argument."""
    need_package(backend, "deep_gemm", "https://github.com/deepseek-ai/DeepGEMM")
    asked = problem.dtype, problem.trans_a, problem.trans_b, problem.alpha, problem.beta, problem.bias
    if asked != ("bfloat16", False, True, 1.0, 0.0, False):
        raise UnsupportedCase("deep_gemm: bfloat16 alone, with trans_b, without trans_a and bias, alpha=1 and beta=0")
    from deep_gemm import bf16_gemm_nt

    c = backend.empty((problem.m, problem.n), problem.out_dtype)

    def step() -> Any:
        bf16_gemm_nt(a, b, c)
        return c

    return launched("deep_gemm", step)
