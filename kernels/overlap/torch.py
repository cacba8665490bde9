"""A product beside an all-reduce of torch.distributed: NCCL between GPUs, on a stream of its own, gloo between CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.distributed.group import ALONE, Group
from primbench.distributed.process_group import connect
from primbench.kernels.allreduce._in_place import InPlace
from primbench.problem import Step, described, kernel
from primbench.timing.alternation import in_alternation

if TYPE_CHECKING:
    from primbench.kernels.overlap.problem import Overlap
    from primbench.problem import Array


@kernel("overlap", "torch")
def torch_overlap(backend: Any, problem: Overlap, *inputs: Any, group: Group = ALONE) -> Step:
    """all_reduce(async_op=True), then torch.mm, then wait. Not tried on several GPUs yet."""
    import numpy as np
    import torch
    import torch.distributed as distributed

    group.check_size(problem.ranks)
    x, a, b = inputs
    buffer, c = x.clone(), backend.empty((problem.m, problem.n), problem.dtype)
    connect(backend.device, group)

    def poison() -> None:
        buffer.copy_(x)
        backend.poison(c)

    def get() -> Array:
        found: Array = np.concatenate([backend.get(buffer).ravel(), backend.get(c).ravel()])
        return found

    output = InPlace(poison, get)

    def together() -> InPlace:
        under_way = distributed.all_reduce(buffer, async_op=True)
        torch.mm(a, b, out=c)
        under_way.wait()
        return output

    taken = in_alternation(backend, together, lambda: torch.mm(a, b, out=c), lambda: distributed.all_reduce(buffer))
    return described(
        together,
        algorithm=f"torch.mm beside all_reduce over {distributed.get_backend()}",
        others={
            "together_s": lambda method, pace: taken(method, pace)[0],
            "product_s": lambda method, pace: taken(method, pace)[1],
            "collective_s": lambda method, pace: taken(method, pace)[2],
        },
    )
