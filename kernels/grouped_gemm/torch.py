"""Grouped GEMM on torch: its own grouped product where it has one, else a product for each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.kernels.gemm.problem import Gemm, oriented
from primbench.kernels.gemm.torch import set_precision
from primbench.kernels.grouped_gemm.problem import slices
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.grouped_gemm.problem import GroupedGemm


@kernel("grouped_gemm", "torch")
def torch_grouped_gemm(backend: Any, problem: GroupedGemm, a: Any, b: Any, ends: Any) -> Step:
    """For bfloat16 torch._grouped_mm, which reads where groups end on the device, unless torch refuses these sizes."""
    import torch

    set_precision(torch, Gemm(1, 1, 1, problem.dtype), on_gpu=backend.device.is_gpu)
    a, b = oriented(problem, a, b)
    grouped = getattr(torch, "_grouped_mm", None)  # since 2.8
    why = "torch before 2.8 has no other" if grouped is None else f"torch groups no {problem.dtype}"
    if grouped and problem.dtype == "bfloat16":
        try:
            grouped(a, b, offs=ends)
        except RuntimeError as refused:
            why = f"torch._grouped_mm: {str(refused).splitlines()[0]}"
        else:
            return described(lambda: grouped(a, b, offs=ends), algorithm="torch._grouped_mm")
    return described(_loop(backend, problem, a, b, ends), algorithm=f"a product for each group, as {why}")


def _loop(backend: Any, problem: GroupedGemm, a: Any, b: Any, ends: Any) -> Step:
    import torch

    c = backend.empty((problem.tokens, problem.n), problem.dtype)
    groups = [(a[rows], b[group], c[rows]) for group, rows in slices(backend.get(ends))]

    def step() -> Any:
        for factor, matrix, product in groups:
            torch.mm(factor, matrix, out=product)
        return c

    return step
