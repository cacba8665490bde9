"""All-reduces of small sizes by torch's symmetric memory: GPUs of one host that read each other's buffers.

Multicast stays off (TORCH_SYMM_MEM_DISABLE_MULTICAST=1), and no multimem operation is called.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched
from primbench.distributed.group import ALONE, Group
from primbench.distributed.process_group import connect
from primbench.errors import KernelUnavailable, UnsupportedCase
from primbench.kernels.allreduce._in_place import InPlace
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.allreduce.problem import Allreduce
    from primbench.problem.ranked import Ranked

DTYPES = ("float32", "bfloat16")  # of torch's kernels
ALIGNED_BYTES = 16  # of which they read so many at once


@kernel("allreduce", "torch", name="one_shot")
def one_shot(backend: Any, problem: Allreduce, x: Any, group: Group = ALONE) -> Step:
    """Each rank reads all buffers, and sums: least latency, most traffic. Not tried on several GPUs yet.

    In place it first copies its buffer to where the others read, as engines do whose tensors lie elsewhere. Out of
    place the buffer lies there already.
    """
    ops, shared, name = symmetric(backend, problem, x, group)
    if problem.in_place:
        buffer = x.clone()
        output = InPlace(lambda: buffer.copy_(x), lambda: backend.get(buffer))

        def in_place() -> InPlace:
            ops.one_shot_all_reduce_copy_out(shared, buffer, "sum", name, buffer)
            return output

        return launched("symm_mem.one_shot_all_reduce_copy_out", in_place)
    shared.copy_(x)
    out = backend.empty(x.shape, problem.dtype)
    return launched("symm_mem.one_shot_all_reduce_out", lambda: ops.one_shot_all_reduce_out(shared, "sum", name, out))


@kernel("allreduce", "torch", name="two_shot")
def two_shot(backend: Any, problem: Allreduce, x: Any, group: Group = ALONE) -> Step:
    """Each rank sums a slice of all buffers and writes it to all, in place. Not tried on several GPUs yet."""
    if not problem.in_place:
        raise UnsupportedCase("two_shot sums in place only: ask for in_place=True, or for kernel=one_shot")
    ops, shared, name = symmetric(backend, problem, x, group)
    shared.copy_(x)
    output = InPlace(lambda: shared.copy_(x), lambda: backend.get(shared))

    def step() -> InPlace:
        ops.two_shot_all_reduce_(shared, "sum", name)
        return output

    return launched("symm_mem.two_shot_all_reduce_", step)


def symmetric(backend: Any, problem: Ranked, x: Any, group: Group) -> tuple[Any, Any, str]:
    """torch's operators, a buffer like x that the other ranks map, and the name of their group.

    Raises UnsupportedCase for what these operators do not take.
    """
    import torch
    import torch.distributed as distributed

    group.check_size(problem.ranks)
    if not backend.device.is_gpu:
        raise KernelUnavailable("symmetric memory is that of GPUs: ask for device=cuda, or leave out kernel")
    if problem.dtype not in DTYPES or problem.bytes % ALIGNED_BYTES:
        raise UnsupportedCase(
            f"symmetric memory sums {' or '.join(DTYPES)} of whole {ALIGNED_BYTES} B: "
            f"dtype={problem.dtype} bytes={problem.bytes}"
        )
    if not group.on_one_host():
        raise UnsupportedCase("symmetric memory lies in GPUs of one host, and these ranks are on several")
    os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"  # read when the first buffer is made
    connect(backend.device, group)
    try:
        import torch.distributed._symmetric_memory as memory

        shared = memory.empty(x.shape, dtype=x.dtype, device=x.device)
        world = distributed.group.WORLD
        memory.rendezvous(shared, world)
    except (ImportError, AttributeError, RuntimeError) as error:
        raise KernelUnavailable(f"torch has no symmetric memory here: {' '.join(str(error).split())}") from error
    return torch.ops.symm_mem, shared, str(world.group_name) if world else ""
