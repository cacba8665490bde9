"""Sparse GEMM on torch: cuSPARSE on a GPU, MKL on a CPU."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.sparse_gemm.problem import SparseGemm


@kernel("sparse_gemm", "torch")
def torch_sparse_gemm(backend: Any, problem: SparseGemm, values: Any, columns: Any, row_starts: Any, b: Any) -> Step:  # noqa: PLR0917 - the inputs
    """torch.addmm on a CSR tensor, addmv where B is one column: a library's matrix-vector product is its own kernel.

    With 32-bit indices, which MKL as torch links it takes as they are; it would get a converted copy of 64-bit ones
    at every call. beta is 0: torch.mm would clear an array for the addend at every call.
    """
    import torch

    if problem.dtype in ("float16", "bfloat16"):
        why = "with float32 sums" if backend.device.is_gpu else "on a CPU"
        raise UnsupportedCase(f"torch has no sparse {problem.dtype} product {why}: ask for dtype=float32")
    with warnings.catch_warnings():
        # The second comes once a process however the checks are asked for.
        for message in ("Sparse CSR tensor support is in beta", "Sparse invariant checks are implicitly disabled"):
            warnings.filterwarnings("ignore", message, UserWarning)
        a = torch.sparse_csr_tensor(row_starts, columns, values, (problem.m, problem.k), check_invariants=True)
    c = backend.empty((problem.m, problem.n), problem.dtype)
    if problem.n > 1:
        return lambda: torch.addmm(c, a, b, beta=0, out=c)
    x, y = b.flatten(), c.view(-1)

    def step() -> Any:
        torch.addmv(y, a, x, beta=0, out=y)
        return c

    return step
