"""Which operators of torch compute element by element, from memory without gaps into as much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.kernels.elementwise.problem import Elementwise
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator, said

if TYPE_CHECKING:
    from primbench.problem.operands import Operand

DTYPES = ("float32", "float16", "bfloat16")


@operator("add", "mul")
def of_two(call: Call, settings: Settings) -> list[OperatorCase]:
    a, b = call.tensor(0), call.tensor(1)
    if call.argument(2, "alpha", 1) != 1:
        raise NotThere("a multiple is added")
    return _part(call.name, a, b)


@operator("relu", "silu", "gelu")
def activation(call: Call, settings: Settings) -> list[OperatorCase]:
    return _part(_named(call), call.tensor(0))


@operator("threshold_backward", "silu_backward", "gelu_backward")
def gradient(call: Call, settings: Settings) -> list[OperatorCase]:
    if call.name == "threshold_backward" and call.argument(2) != 0:
        raise NotThere("a threshold of its own")
    op = _named(call).removesuffix("_backward").replace("threshold", "relu")
    return _part(op, call.tensor(0), call.tensor(1), direction="backward")


def _named(call: Call) -> str:
    is_approximate = call.named.get("approximate") == {"str": "tanh"}
    return f"{call.name.removesuffix('_backward')}{'_tanh' * is_approximate}"


def _part(op: str, *tensors: Operand, direction: str = "forward") -> list[OperatorCase]:
    first = tensors[0]
    for each in tensors:
        alike = (each.shape, each.strides, each.dtype) == (first.shape, first.strides, first.dtype)
        if not alike or each.extent != each.elements or each.dtype not in DTYPES:
            raise NotThere("not alike, or with gaps")
    fields = {"elements": first.elements, "op": op, "direction": direction, "dtype": first.dtype}
    return [OperatorCase(Elementwise.primitive, said(fields, direction="forward"), tensors)]
