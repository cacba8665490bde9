"""Batched GEMM on torch: cuBLAS on a GPU, oneDNN and MKL on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.kernels.gemm.problem import oriented
from primbench.kernels.gemm.torch import set_precision
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.batched_gemm.problem import BatchedGemm


@kernel("batched_gemm", "torch")
def torch_batched_gemm(backend: Any, problem: BatchedGemm, a: Any, b: Any) -> Step:
    """torch.bmm."""
    import torch

    set_precision(torch, problem.product, on_gpu=backend.device.is_gpu)
    a, b = oriented(problem, a, b)
    c = backend.empty((problem.batch, problem.m, problem.n), problem.dtype)
    return lambda: torch.bmm(a, b, out=c)
