"""Collectives on CuPy arrays by NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.distributed.group import ALONE, Group
from primbench.kernels.allreduce._nccl import communicator, datatype
from primbench.kernels.collective._buffers import Buffers, buffers
from primbench.kernels.collective.problem import ROOT
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.collective.problem import Collective

_Calls = list[tuple[Any, tuple[Any, ...]]]


@kernel("collective", "cupy")
def cupy_collective(backend: Any, problem: Collective, x: Any, group: Group = ALONE) -> Step:
    """NCCL's calls on the backend's stream; all_to_all is a group of sends and receives, as in nccl-tests."""
    group.check_size(problem.ranks)
    made = buffers(backend, problem, x, group.rank)
    calls = _calls(problem, made, communicator(group, backend.device), group, backend.stream_handle)

    def step() -> Buffers:
        for call, arguments in calls:
            call(*arguments)
        return made

    return step


def _calls(problem: Collective, made: Buffers, nccl: Any, group: Group, stream: int) -> _Calls:
    from cupy.cuda.nccl import NCCL_SUM

    ends, kind = (made.sent.data.ptr, made.received.data.ptr), datatype(problem.dtype)
    match problem.operation:
        case "all_gather":
            return [(nccl.allGather, (*ends, problem.share, kind, stream))]
        case "reduce_scatter":
            return [(nccl.reduceScatter, (*ends, problem.share, kind, NCCL_SUM, stream))]
        case "broadcast":
            return [(nccl.broadcast, (*ends, problem.count, kind, ROOT, stream))]
        case "all_to_all":
            count, peers = problem.share, [(each, each) for each in range(group.size)]
        case _:
            count, peers = problem.count, [((group.rank + 1) % group.size, (group.rank - 1) % group.size)]
    return _exchange(nccl, ends, peers, (count, kind, stream), count * made.sent.itemsize)


def _exchange(
    nccl: Any, ends: tuple[int, int], peers: list[tuple[int, int]], what: tuple[int, int, int], apart_bytes: int
) -> _Calls:
    """Sends and receives of one group: for each pair of peers the next stretch of either buffer.

    what: elements, their type, the stream.
    """
    from cupy.cuda.nccl import groupEnd, groupStart

    calls: _Calls = [(groupStart, ())]
    for number, (to, of) in enumerate(peers):
        sent, received = (end + number * apart_bytes for end in ends)
        calls += [(nccl.send, (sent, *what[:2], to, what[2])), (nccl.recv, (received, *what[:2], of, what[2]))]
    return [*calls, (groupEnd, ())]
