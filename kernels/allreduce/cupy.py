"""All-reduce on CuPy arrays by NCCL."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from primbench.distributed.group import ALONE, Group
from primbench.errors import UnsupportedCase
from primbench.kernels.allreduce._in_place import InPlace
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.allreduce.problem import Allreduce


@kernel("allreduce", "cupy")
def cupy_allreduce(backend: Any, problem: Allreduce, x: Any, group: Group = ALONE) -> Step:
    """ncclAllReduce on the backend's stream."""
    from cupy.cuda import nccl

    group.check_size(problem.ranks)
    if not nccl.available:
        raise UnsupportedCase("CuPy finds no NCCL: pip install nvidia-nccl-cu13 (or nvidia-nccl-cu12, as CuPy)")
    out = backend.empty(x.shape, problem.dtype)
    source = out if problem.in_place else x
    output = InPlace(lambda: _refill(out, x), lambda: backend.get(out)) if problem.in_place else out
    if problem.in_place:
        _refill(out, x)
    all_reduce = _communicator(group, backend.device).allReduce
    datatype = getattr(nccl, f"NCCL_{problem.dtype.upper()}")
    arguments = (source.data.ptr, out.data.ptr, problem.count, datatype, nccl.NCCL_SUM, backend.stream_handle)

    kept = (output, x, out)  # NCCL has addresses only: the step must keep the arrays alive

    def step() -> Any:
        all_reduce(*arguments)
        return kept[0]

    return step


def _refill(out: Any, x: Any) -> None:
    """On the current stream, which is the backend's."""
    out.data.copy_from_device_async(x.data, x.nbytes)


@functools.cache
def _communicator(group: Group, device: str) -> Any:
    """Connecting takes 0.1 s or more, so that the cases of a process share one. device: the current one."""
    from cupy.cuda import nccl

    mine = nccl.get_unique_id() if group.rank == 0 else b""
    numbers, kind = group.agree([list(mine), type(mine).__name__])
    identity = bytes(numbers) if kind == "bytes" else tuple(numbers)  # CuPy to version 13 takes a tuple
    return nccl.NcclCommunicator(group.size, identity, group.rank)
