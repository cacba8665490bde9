"""Which operators of torch are scaled products."""

from __future__ import annotations

from primbench.kernels.scaled_gemm.problem import BLOCK, ScaledGemm
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator

FLOAT8 = "float8_e4m3fn"


@operator("_scaled_mm")
def scaled_gemm(call: Call, settings: Settings) -> list[OperatorCase]:
    """Without a bias, and into bfloat16, with A [m,k] and B [n,k] as they lie in memory."""
    a, b, scale_a, scale_b = map(call.tensor, range(4), ("", "", "scale_a", "scale_b"))
    (m, k), n = a.shape, b.shape[1]
    if (a.dtype, b.dtype) != (FLOAT8, FLOAT8) or (a.strides, b.strides) != ((k, 1), (1, k)):
        raise NotThere("other types or layouts")
    if call.argument(4, "bias") is not None or call.argument(6, "out_dtype") != {"dtype": "bfloat16"}:
        raise NotThere("a bias, or another type of sums")
    scalings = {
        ((), ()): "tensor",
        ((1, 1), (1, 1)): "tensor",
        ((m, 1), (1, n)): "row",
        ((m, k // BLOCK), (k // BLOCK, n // BLOCK)): "block",
    }
    scaling = scalings.get((scale_a.shape, scale_b.shape))
    if scaling is None:
        raise NotThere("other scales")
    return [OperatorCase(ScaledGemm.primitive, {"m": m, "n": n, "k": k, "scaling": scaling})]
