"""Scaled GEMM by torch._scaled_mm: cuBLASLt and CUTLASS on a GPU, oneDNN on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.scaled_gemm.problem import ScaledGemm


@kernel("scaled_gemm", "torch")
def torch_scaled_gemm(backend: Any, problem: ScaledGemm, a: Any, b: Any, scale_a: Any, scale_b: Any) -> Step:  # noqa: PLR0917 - the inputs
    """The step, which has been called once: what torch has of scales depends on its version, CUDA's, and the GPU.

    Raises UnsupportedCase with what torch says.
    """
    import torch

    c = backend.empty((problem.m, problem.n), "bfloat16")
    if problem.scaling == "row":
        scale_a = scale_a.view(problem.m, 1)
    if problem.scaling == "block":
        if not backend.device.is_gpu:
            raise UnsupportedCase("torch scales blocks on a GPU only: ask for scaling=row")
        scale_a, scale_b = scale_a.t(), scale_b.t()  # of which torch asks that they lie in memory like this

    def step() -> Any:
        return torch._scaled_mm(a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, out=c)  # noqa: SLF001 - the only one

    try:
        step()
        backend.synchronize()
    except (RuntimeError, ValueError) as refused:
        said = str(refused).splitlines()[0]
        raise UnsupportedCase(f"torch {torch.__version__} has no {problem.scaling} scaling here: {said}") from None
    return step
