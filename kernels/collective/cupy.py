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
            peers = [(each, count, each, problem.shares[group.rank]) for each, count in enumerate(problem.shares)]
        case _:
            peers = [((group.rank + 1) % group.size, problem.count, (group.rank - 1) % group.size, problem.count)]
    return _exchange(nccl, ends, peers, (kind, stream), made.sent.itemsize)


def _exchange(
    nccl: Any, ends: tuple[int, int], peers: list[tuple[int, int, int, int]], what: tuple[int, int], item_bytes: int
) -> _Calls:
    """Sends and receives of one group: for each pair of peers the next stretch of either buffer.

    peers: to whom, how many elements, from whom, how many. what: the type of elements, the stream.
    """
    from cupy.cuda.nccl import groupEnd, groupStart

    calls: _Calls = [(groupStart, ())]
    sent, received = ends
    kind, stream = what
    for to, sends, of, receives in peers:
        calls += [(nccl.send, (sent, sends, kind, to, stream)), (nccl.recv, (received, receives, kind, of, stream))]
        sent, received = sent + sends * item_bytes, received + receives * item_bytes
    return [*calls, (groupEnd, ())]
