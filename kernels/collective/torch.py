"""Collectives by torch.distributed: NCCL between GPUs, gloo between CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.distributed.group import ALONE, Group
from primbench.distributed.process_group import connect
from primbench.errors import UnsupportedCase
from primbench.kernels.collective._buffers import Buffers, buffers
from primbench.kernels.collective.problem import ROOT
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.collective.problem import Collective


@kernel("collective", "torch")
def torch_collective(backend: Any, problem: Collective, x: Any, group: Group = ALONE) -> Step:
    """The operations of torch.distributed on one tensor; send_recv is an isend and an irecv in one batch."""
    group.check_size(problem.ranks)
    if problem.operation == "broadcast" and not problem.in_place:
        raise UnsupportedCase("torch.distributed broadcasts in place only: ask for in_place=True")
    if problem.operation == "send_recv" and problem.ranks == 1:
        raise UnsupportedCase("torch.distributed sends to other ranks only: ask for 2 ranks")
    made = buffers(backend, problem, x, group.rank)
    connect(backend.device, group)
    call = _call(problem, made, group)

    def step() -> Buffers:
        call()
        return made

    return step


def _call(problem: Collective, made: Buffers, group: Group) -> Callable[[], object]:
    import torch.distributed as distributed

    sent, received = made.sent, made.received
    match problem.operation:
        case "all_gather":
            gather = _either(distributed, "all_gather_single", "all_gather_into_tensor")
            return lambda: gather(received, sent)
        case "reduce_scatter":
            scatter = _either(distributed, "reduce_scatter_single", "reduce_scatter_tensor")
            return lambda: scatter(received, sent)
        case "broadcast":
            return lambda: distributed.broadcast(received, ROOT)
        case "all_to_all":
            if problem.split == "even":
                return lambda: distributed.all_to_all_single(received, sent)
            splits = [problem.shares[group.rank]] * group.size, problem.shares
            return lambda: distributed.all_to_all_single(received, sent, *splits)
    to, of = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    both = [distributed.P2POp(distributed.isend, sent, to), distributed.P2POp(distributed.irecv, received, of)]

    def send_recv() -> None:
        for under_way in distributed.batch_isend_irecv(both):
            under_way.wait()

    return send_recv


def _either(distributed: Any, name: str, before: str) -> Any:
    """A function of torch 2.13, by the name it had before where that is all there is."""
    return getattr(distributed, name, None) or getattr(distributed, before)
