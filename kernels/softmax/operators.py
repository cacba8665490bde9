"""Which operators of torch are softmax and its logarithm, over the last axis; a loss takes more of them than one."""

from __future__ import annotations

from primbench.kernels.softmax.problem import Softmax
from primbench.problem.operands import contiguous
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator, said


@operator("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data")
def softmax(call: Call, settings: Settings) -> list[OperatorCase]:
    is_backward = call.name.endswith("_backward_data")
    x, axis = call.tensor(0), call.argument(2 if is_backward else 1)
    is_last = axis in (-1, len(x.shape) - 1)
    if not is_last or x.strides != contiguous(x.shape) or call.argument(2) is True:
        raise NotThere("another axis than the last, strides of its own, or an output of another type")
    fields = {"rows": x.elements // x.shape[-1], "classes": x.shape[-1]}
    kind = call.name.removesuffix("_backward_data").removeprefix("_")
    said_fields = {**fields, "kind": kind, "direction": "backward" if is_backward else "forward", "dtype": x.dtype}
    inputs = () if is_backward else (x,)  # of which y is none: each set-up makes its own
    return [OperatorCase(Softmax.primitive, said(said_fields, direction="forward"), inputs)]
