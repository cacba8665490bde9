"""Collectives on NumPy, over memory that the processes share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.distributed.group import ALONE, Group
from primbench.kernels.collective._buffers import Buffers
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.kernels.collective.problem import Collective
    from primbench.problem import Array


@kernel("collective", "numpy")
def numpy_collective(backend: Any, problem: Collective, x: Any, group: Group = ALONE) -> Step:
    """Once all ranks have come, each copies or sums what it receives out of the memory of the others.

    No rank writes what another reads: in place, it receives into shares that no other takes from it.
    """
    import numpy as np

    from primbench.kernels.allreduce._shared import share

    group.check_size(problem.ranks)
    shared, rank = share(group, problem.bytes), group.rank
    memory = [each.view(x.dtype) for each in shared.buffers]
    sent = [problem.sent_in(buffer, of) for of, buffer in enumerate(memory)]
    place = (
        memory[rank]
        if problem.in_place
        else backend.empty((max(problem.count, problem.received_count(rank)),), problem.dtype)
    )
    output = Buffers(backend, x, sent[rank], problem.received_in(place, rank))
    output.fill()
    meet, sums = shared.barrier, list(_sums(problem, sent, output.received, rank))

    def step() -> Buffers:
        meet()
        for target, terms in sums:
            if terms[0] is not target:
                np.copyto(target, terms[0])
            for term in terms[1:]:
                np.add(target, term, out=target)
        return output

    def step_in_place() -> Buffers:
        with np.errstate(over="ignore", invalid="ignore"):  # sums of sums grow from call to call
            return step()

    return step_in_place if problem.in_place else step


def _sums(problem: Collective, sent: list[Array], received: Array, rank: int) -> Iterator[tuple[Array, list[Array]]]:
    """Where each stretch is received, and its terms, views of what ranks send; the first is the target itself where
    that holds it already."""
    end = 0
    for stretch in problem.stretches(rank):
        target = received[end : end + stretch.length]
        own_first = sorted(stretch.ranks, key=lambda of: of != rank)
        terms = [sent[of][stretch.start : stretch.start + stretch.length] for of in own_first]
        yield target, [target if term.ctypes.data == target.ctypes.data else term for term in terms]
        end += stretch.length
