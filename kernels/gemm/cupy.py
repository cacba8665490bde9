"""GEMM on CuPy arrays by cuBLASLt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.gemm.problem import Gemm


@kernel("gemm", "cupy")
def cupy_gemm(backend: Any, problem: Gemm, a: Any, b: Any, d: Any = None) -> Step:
    """The step's ``algorithm`` is the kernel that cuBLASLt chose."""
    c = backend.empty((problem.m, problem.n), problem.out_dtype)
    if problem.bias:
        return product_step(backend, problem, (a, b, c, c, d), bias=d.data.ptr)
    return product_step(backend, problem, (a, b, c if d is None else d, c))


def product_step(backend: Any, product: Any, arrays: tuple[Any, ...], **options: Any) -> Step:
    """arrays: A, B, D and C, which the step returns; then those that only options name. options: of cublaslt.plan()."""
    from primbench.cuda import cublaslt
    from primbench.cuda.product import Addresses

    kept = (*arrays, backend.workspace)  # the plan has addresses only: the step must keep them all alive
    addresses = Addresses(*(array.data.ptr for array in (*arrays[:4], backend.workspace)))
    plan = cublaslt.plan(product, addresses, backend.stream_handle, backend.device, **options)
    call, arguments = plan.call, plan.arguments

    def step() -> Any:
        if status := call(*arguments):
            raise cublaslt.failure(status)
        return kept[3]

    return described(step, algorithm=plan.algorithm)
