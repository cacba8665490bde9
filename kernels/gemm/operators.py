"""Which operators of torch are products."""

from __future__ import annotations

from primbench.kernels.gemm.problem import Gemm
from primbench.problem.operands import Operand
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, again, operator, said

DTYPES = ("float64", "float32", "float16", "bfloat16")


@operator("mm", "addmm")
def gemm(call: Call, settings: Settings) -> list[OperatorCase]:
    """mm, and addmm with a vector of biases: a GPU adds them on its way out, torch on a CPU copies them beforehand."""
    if call.name == "addmm" and not _adds_a_vector(call):
        raise NotThere("a whole matrix is added")
    first = 1 if call.name == "addmm" else 0
    a, b = call.tensor(first), call.tensor(first + 1)
    if a.dtype not in DTYPES or a.dtype != b.dtype:
        raise NotThere(f"a product of {a.dtype} and {b.dtype}")
    (m, k), n = a.shape, b.shape[1]
    fields = {"m": m, "n": n, "k": k, "dtype": a.dtype, "trans_a": is_transposed(a), "trans_b": is_transposed(b)}
    if settings.tf32_gemm and a.dtype == "float32":
        fields["math_mode"] = "tf32"
    found = [OperatorCase(Gemm.primitive, said(fields, trans_a=False, trans_b=False), (a, b))]
    if call.name == "addmm" and not settings.on_gpu:
        (stride,) = call.tensor(0).strides
        biases = call.tensor(0)._replace(shape=(m, n), strides=(0, stride))
        found.append(again(Call("aten.copy_.default", [Operand(a.dtype, (m, n), (n, 1)), biases], {})))
    return found


def _adds_a_vector(call: Call) -> bool:
    return len(call.tensor(0).shape) == 1 and {call.argument(3, "beta", 1), call.argument(4, "alpha", 1)} == {1}


def is_transposed(matrix: Operand) -> bool:
    """Raises NotThere where it has gaps."""
    rows, columns = matrix.shape
    if matrix.strides == (columns, 1):
        return False
    if matrix.strides == (1, rows):
        return True
    raise NotThere("a matrix with gaps")
