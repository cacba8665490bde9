"""Sparse GEMM on NumPy arrays by SciPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.sparse_gemm.problem import SparseGemm


@kernel("sparse_gemm", "numpy")
def scipy_sparse_gemm(backend: Any, problem: SparseGemm, values: Any, columns: Any, row_starts: Any, b: Any) -> Step:  # noqa: PLR0917 - the inputs
    """SciPy's csr_array @ dense: one thread."""
    import scipy
    from scipy.sparse import csr_array

    if problem.dtype in ("float16", "bfloat16"):
        raise UnsupportedCase(f"SciPy has no sparse {problem.dtype} matrices: ask for dtype=float32")
    a = csr_array((values, columns, row_starts), shape=(problem.m, problem.k))

    def step() -> Any:
        return a @ b  # SciPy takes no output array: each call allocates its result

    return described(step, algorithm=f"scipy {scipy.__version__}")
