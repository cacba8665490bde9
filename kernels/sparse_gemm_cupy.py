"""Sparse GEMM on CuPy arrays by cuSPARSE.

Through the binding that cupyx.scipy.sparse itself calls: a product there copies a row-major B into column-major order
at every call, allocates the result, and has no 16-bit types.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from primbench.kernels.sparse_gemm import SUMS
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.sparse_gemm import SparseGemm

# cudaDataType_t, CUDA's library_types.h, and cusparseSpMMAlg_t, cusparse.h: CuPy's lists lack these.
CUDA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
SPMM_CSR_ALG2 = 6  # made for row-major B and C (cuSPARSE documentation, cusparseSpMM), and what torch takes


@kernel("sparse_gemm", "cupy")
def cupy_sparse_gemm(backend: Any, problem: SparseGemm, values: Any, columns: Any, row_starts: Any, b: Any) -> Step:
    """cusparseSpMM, cusparseSpMV where B is one column. CuPy refuses to capture cuSPARSE in a graph."""
    import numpy as np
    from cupy.cuda import cusparse, device

    n, sums = problem.n, SUMS.get(problem.dtype, "float32")
    stored, summed = CUDA_TYPES[problem.dtype], CUDA_TYPES[sums]
    c = backend.empty((problem.m, n), problem.dtype)
    factors = np.array([1, 0], sums)  # alpha and beta, read from the host at every call
    alpha, beta = factors.ctypes.data, factors.ctypes.data + factors.itemsize
    index, base = cusparse.CUSPARSE_INDEX_32I, cusparse.CUSPARSE_INDEX_BASE_ZERO
    csr = (row_starts.data.ptr, columns.data.ptr, values.data.ptr, index, index, base, stored)
    sparse = cusparse.createCsr(problem.m, problem.k, problem.nonzeros, *csr)
    as_stored = cusparse.CUSPARSE_OPERATION_NON_TRANSPOSE
    if n == 1:
        call, workspace_bytes, destroy = cusparse.spMV, cusparse.spMV_bufferSize, cusparse.destroyDnVec
        operations, algorithm = [as_stored], cusparse.CUSPARSE_MV_ALG_DEFAULT
        dense = [cusparse.createDnVec(array.size, array.data.ptr, stored) for array in (b, c)]
    else:
        call, workspace_bytes, destroy = cusparse.spMM, cusparse.spMM_bufferSize, cusparse.destroyDnMat
        operations, algorithm = [as_stored, as_stored], SPMM_CSR_ALG2
        order = cusparse.CUSPARSE_ORDER_ROW
        dense = [cusparse.createDnMat(*array.shape, n, array.data.ptr, stored, order) for array in (b, c)]
    handle = device.get_cusparse_handle()
    arguments = (handle, *operations, alpha, sparse, dense[0], beta, dense[1], summed, algorithm)
    workspace = backend.empty((max(1, workspace_bytes(*arguments)),), "int8")
    address = workspace.data.ptr
    kept = (values, columns, row_starts, b, workspace, factors, c)  # the descriptors hold addresses only

    def step() -> Any:
        call(*arguments, address)
        return kept[-1]

    step.algorithm = "cuSPARSE SpMV" if n == 1 else "cuSPARSE SpMM CSR_ALG2"  # type: ignore[attr-defined]
    weakref.finalize(step, cusparse.destroySpMat, sparse)
    for descriptor in dense:
        weakref.finalize(step, destroy, descriptor)
    return step
