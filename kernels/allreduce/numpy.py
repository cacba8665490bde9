"""All-reduce on NumPy, over memory that the processes share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.distributed.group import ALONE, Group
from primbench.kernels.allreduce._in_place import InPlace
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.allreduce.problem import Allreduce


@kernel("allreduce", "numpy")
def numpy_allreduce(backend: Any, problem: Allreduce, x: Any, group: Group = ALONE) -> Step:
    """Each rank sums a slice of all buffers into shared memory, then copies all slices (reduce-scatter, all-gather)."""
    import numpy as np

    from primbench.kernels.allreduce._shared import share

    group.check_size(problem.ranks)
    shared = share(group, problem.bytes)
    buffers = [part.view(x.dtype) for part in shared.buffers]
    summed, mine = shared.summed.view(x.dtype), _slice(problem.count, group)
    first, *others = (buffer[mine] for buffer in buffers)
    partial, meet = summed[mine], shared.barrier
    buffer = buffers[group.rank]
    buffer[:] = x
    out = buffer if problem.in_place else backend.empty(x.shape, problem.dtype)

    def step() -> Any:
        meet()  # all inputs are there, and nobody copies the sums of the call before
        np.copyto(partial, first)
        for other in others:
            np.add(partial, other, out=partial)
        meet()
        np.copyto(out, summed)
        return out

    if not problem.in_place:
        return step
    output = InPlace(lambda: np.copyto(buffer, x), lambda: buffer)

    def step_in_place() -> InPlace:
        with np.errstate(over="ignore", invalid="ignore"):  # sums of sums grow from call to call
            step()
        return output

    return step_in_place


def _slice(count: int, group: Group) -> slice:
    """The elements that a rank sums: equal shares, the first ones larger by one where they cannot be equal."""
    share, left = divmod(count, group.size)
    start = group.rank * share + min(group.rank, left)
    return slice(start, start + share + (group.rank < left))
