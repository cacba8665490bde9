"""Which operators of torch are products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.kernels.gemm.problem import Gemm
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator, said

if TYPE_CHECKING:
    from primbench.problem.operands import Operand

DTYPES = ("float64", "float32", "float16", "bfloat16")


@operator("mm", "addmm")
def gemm(call: Call, settings: Settings) -> list[OperatorCase]:
    """mm, and addmm with a vector of biases."""
    biases = [_biases(call)] if call.name == "addmm" else []
    a, b = call.tensor(len(biases)), call.tensor(len(biases) + 1)
    if a.dtype not in DTYPES or a.dtype != b.dtype:
        raise NotThere(f"a product of {a.dtype} and {b.dtype}")
    (m, k), n = a.shape, b.shape[1]
    fields = {"m": m, "n": n, "k": k, "dtype": a.dtype, "trans_a": is_transposed(a), "trans_b": is_transposed(b)}
    if settings.tf32_gemm and a.dtype == "float32":
        fields["math_mode"] = "tf32"
    fields["bias"] = bool(biases)
    return [OperatorCase(Gemm.primitive, said(fields, trans_a=False, trans_b=False, bias=False), (a, b, *biases))]


def _biases(call: Call) -> Operand:
    """Raises NotThere where addmm adds anything but one vector, as it is, to each row."""
    biases, b = call.tensor(0), call.tensor(2)
    factors = call.argument(3, "beta", 1), call.argument(4, "alpha", 1)
    if (biases.shape, biases.strides, factors) != (b.shape[1:], (1,), (1, 1)):
        raise NotThere("a matrix is added, or a multiple")
    return biases


def is_transposed(matrix: Operand) -> bool:
    """Raises NotThere where it has gaps."""
    rows, columns = matrix.shape
    if matrix.strides == (columns, 1):
        return False
    if matrix.strides == (1, rows):
        return True
    raise NotThere("a matrix with gaps")
