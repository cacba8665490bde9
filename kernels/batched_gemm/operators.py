"""Which operators of torch are batches of products."""

from __future__ import annotations

from primbench.kernels.batched_gemm.problem import DTYPES, BatchedGemm
from primbench.kernels.gemm.operators import is_transposed
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator, said


@operator("bmm")
def batched_gemm(call: Call, settings: Settings) -> list[OperatorCase]:
    a, b = call.tensor(0), call.tensor(1)
    (batch, m, k), n = a.shape, b.shape[2]
    if a.dtype not in DTYPES or a.dtype != b.dtype:
        raise NotThere(f"a product of {a.dtype} and {b.dtype}")
    for each in (a, b):
        if batch > 1 and each.strides[0] != each.shape[1] * each.shape[2]:
            raise NotThere("products with gaps between them")
    transposed = [is_transposed(each._replace(shape=each.shape[1:], strides=each.strides[1:])) for each in (a, b)]
    fields = {"batch": batch, "m": m, "n": n, "k": k, "dtype": a.dtype}
    fields |= dict(zip(("trans_a", "trans_b"), transposed, strict=True))
    if settings.tf32_gemm and a.dtype == "float32":
        fields["math_mode"] = "tf32"
    return [OperatorCase(BatchedGemm.primitive, said(fields, trans_a=False, trans_b=False), (a, b))]
