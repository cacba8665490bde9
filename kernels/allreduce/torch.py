"""All-reduce by torch.distributed: NCCL between GPUs, gloo between CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.distributed.group import ALONE, Group
from primbench.distributed.process_group import connect
from primbench.errors import UnsupportedCase
from primbench.kernels.allreduce._in_place import InPlace
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.allreduce.problem import Allreduce


@kernel("allreduce", "torch")
def torch_allreduce(backend: Any, problem: Allreduce, x: Any, group: Group = ALONE) -> Step:
    """torch.distributed.all_reduce, which sums in place."""
    import torch.distributed as distributed

    group.check_size(problem.ranks)
    if not problem.in_place:
        raise UnsupportedCase("torch.distributed reduces in place only: ask for in_place=True")
    buffer = x.clone()
    connect(backend.device, group)
    output = InPlace(lambda: buffer.copy_(x), lambda: backend.get(buffer))
    all_reduce = distributed.all_reduce

    def step() -> InPlace:
        all_reduce(buffer)
        return output

    return step
