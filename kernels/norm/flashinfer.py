"""RMS normalisation by FlashInfer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched, need_package
from primbench.errors import UnsupportedCase
from primbench.kernels.norm._operands import EPSILON
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.norm.problem import Norm


@kernel("norm", "torch", name="flashinfer")
def flashinfer_norm(backend: Any, problem: Norm, *inputs: Any) -> Step:
    """rmsnorm of FlashInfer 0.6.18."""
    need_package(backend, "flashinfer", "https://github.com/flashinfer-ai/flashinfer")
    if (problem.kind, problem.direction) != ("rms", "forward") or problem.dtype == "float32":
        raise UnsupportedCase("flashinfer: the forward pass of kind=rms alone, in float16 or bfloat16")
    from flashinfer import rmsnorm

    (x, weight), y = inputs, backend.empty(problem.shape, problem.dtype)
    return launched("flashinfer", lambda: rmsnorm(x, weight, EPSILON, out=y))
