"""An operator of torch that is no case of another primitive: the same one again."""

from __future__ import annotations

from primbench.kernels.aten.problem import Aten
from primbench.problem.operands import written
from primbench.problem.operators import ANY, Call, OperatorCase, Settings, operator, said


@operator(ANY)
def again(call: Call, settings: Settings) -> list[OperatorCase]:
    """With its arguments."""
    fields = {
        "operator": call.operator, "arguments": written(call.positional), "keywords": written(call.named),
        "host_only": call.host_only,
    }  # fmt: skip
    return [OperatorCase(Aten.primitive, said(fields, keywords="{}", host_only=False), (*call.tensors,))]
