"""Which operators of torch are collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.kernels.collective.problem import Collective
from primbench.problem.operands import Operand, numpy_dtype
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator

if TYPE_CHECKING:
    from collections.abc import Sequence

BASES = {"_allgather_base_": "all_gather", "_reduce_scatter_base_": "reduce_scatter", "alltoall_base_": "all_to_all"}


@operator(*BASES)
def of_bases(call: Call, settings: Settings) -> list[OperatorCase]:
    """From the second argument into the first, which is memory of its own; the size is the larger one's."""
    larger = max((call.tensor(number) for number in range(2)), key=lambda each: each.elements)
    return _part(call, [larger], settings, operation=BASES[call.name], in_place=False)


@operator("all_gather_into_tensor")
def gathered(call: Call, settings: Settings) -> list[OperatorCase]:
    """From its argument into memory of its own, as many times as large."""
    settings.expect_all(call.argument(1))
    tensor = call.tensor(0)
    return _part(call, [tensor] * settings.ranks, settings, operation="all_gather", in_place=False)


@operator("reduce_scatter_tensor")
def scattered(call: Call, settings: Settings) -> list[OperatorCase]:
    settings.expect_all(call.argument(2))
    return _part(call, [call.tensor(0)], settings, operation="reduce_scatter", in_place=False)


@operator("broadcast_")
def broadcast(call: Call, settings: Settings) -> list[OperatorCase]:
    """All tensors of the call."""
    given = call.argument(0)
    tensors = [each for each in given if isinstance(each, Operand)] if isinstance(given, list) else []
    return _part(call, tensors, settings, operation="broadcast")


def _part(call: Call, tensors: Sequence[Operand], settings: Settings, **fields: Any) -> list[OperatorCase]:
    settings.expect_all(call.group)
    if settings.ranks == 1 or len({each.dtype for each in tensors}) != 1 or any(each.on_host for each in tensors):
        raise NotThere("nothing of one type between processes, or on the host")
    total_bytes = sum(each.elements * numpy_dtype(each.dtype).itemsize for each in tensors)
    common = {"bytes": total_bytes, "ranks": settings.ranks, "dtype": tensors[0].dtype}
    return [OperatorCase(Collective.primitive, common | fields)]
