"""GEMM on CuPy arrays by cuBLASLt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.gemm.problem import Gemm


@kernel("gemm", "cupy")
def cupy_gemm(backend: Any, problem: Gemm, a: Any, b: Any, d: Any = None) -> Step:
    """The step has an attribute ``algorithm``: the kernel that cuBLASLt chose."""
    from primbench.cuda import cublaslt

    c = backend.empty((problem.m, problem.n), problem.out_dtype)
    operands = (a, b, c if d is None else d, c, backend.workspace)
    addresses = cublaslt.Addresses(*(array.data.ptr for array in operands))
    plan = cublaslt.plan(problem, addresses, backend.stream_handle, backend.device)
    call, arguments = plan.call, plan.arguments

    def step() -> Any:
        if status := call(*arguments):
            raise cublaslt.failure(status)
        return operands[3]  # through the tuple: the plan has addresses only, and the step must keep all five alive

    return described(step, algorithm=plan.algorithm)
