"""Which operators of torch are all-reduces."""

from __future__ import annotations

import math

from primbench.kernels.allreduce.problem import Allreduce
from primbench.problem.operands import numpy_dtype, operands
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator


@operator("allreduce_", "all_reduce", "all_reduce_", "all_reduce_coalesced", "all_reduce_coalesced_")
def allreduce(call: Call, settings: Settings) -> list[OperatorCase]:
    """All tensors of the call, summed."""
    settings.expect_all(call.group)
    tensors = list(operands(call.argument(0)))
    if settings.ranks == 1 or len({each.dtype for each in tensors}) != 1 or any(each.on_host for each in tensors):
        raise NotThere("nothing of one type between processes, or on the host")
    count = sum(math.prod(each.shape) for each in tensors)
    total_bytes = count * numpy_dtype(tensors[0].dtype).itemsize
    return [
        OperatorCase(Allreduce.primitive, {"bytes": total_bytes, "ranks": settings.ranks, "dtype": tensors[0].dtype})
    ]
