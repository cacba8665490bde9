"""All-reduce on CuPy arrays by NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.distributed.group import ALONE, Group
from primbench.kernels.allreduce._in_place import InPlace
from primbench.kernels.allreduce._nccl import communicator, datatype
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.allreduce.problem import Allreduce


@kernel("allreduce", "cupy")
def cupy_allreduce(backend: Any, problem: Allreduce, x: Any, group: Group = ALONE) -> Step:
    """ncclAllReduce on the backend's stream."""
    group.check_size(problem.ranks)
    all_reduce = communicator(group, backend.device).allReduce
    from cupy.cuda.nccl import NCCL_SUM

    out = backend.empty(x.shape, problem.dtype)
    source = out if problem.in_place else x
    output = InPlace(lambda: _refill(out, x), lambda: backend.get(out)) if problem.in_place else out
    if problem.in_place:
        _refill(out, x)
    arguments = (source.data.ptr, out.data.ptr, problem.count, datatype(problem.dtype), NCCL_SUM, backend.stream_handle)

    kept = (output, x, out)  # NCCL has addresses only: the step must keep the arrays alive

    def step() -> Any:
        all_reduce(*arguments)
        return kept[0]

    return step


def _refill(out: Any, x: Any) -> None:
    """On the current stream, which is the backend's."""
    out.data.copy_from_device_async(x.data, x.nbytes)
