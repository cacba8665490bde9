"""Sparse GEMM on CuPy arrays by cuSPARSE, called directly.

A product of cupyx.scipy.sparse copies a row-major B into column-major order at every call, allocates the result, and
has no 16-bit types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.sparse_gemm.problem import SparseGemm


@kernel("sparse_gemm", "cupy")
def cupy_sparse_gemm(backend: Any, problem: SparseGemm, values: Any, columns: Any, row_starts: Any, b: Any) -> Step:  # noqa: PLR0917 - the inputs
    """The step's ``algorithm`` is SpMM, or SpMV where B is one column, and which of theirs."""
    from primbench.cuda import cusparse

    c = backend.empty((problem.m, problem.n), problem.dtype)
    kept = [values, columns, row_starts, b, c]  # the plan has addresses only
    addresses = cusparse.SparseAddresses(*(array.data.ptr for array in kept))

    def allocate(size_bytes: int) -> int:
        kept.append(backend.empty((size_bytes,), "int8"))
        return int(kept[-1].data.ptr)

    plan = cusparse.plan(problem, addresses, backend.stream_handle, backend.device, allocate)
    call, arguments = plan.call, plan.arguments

    def step() -> Any:
        if status := call(*arguments):
            raise cusparse.failure(status, plan.algorithm)
        return kept[4]

    return described(step, algorithm=plan.algorithm)
