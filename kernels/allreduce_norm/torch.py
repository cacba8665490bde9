"""An all-reduce of torch.distributed and torch's normalisation, one after the other, or one kernel of Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched
from primbench.backends._triton import need_short_rows, need_triton
from primbench.distributed.group import ALONE, Group
from primbench.distributed.process_group import connect
from primbench.kernels.allreduce import symmetric
from primbench.kernels.norm._operands import EPSILON
from primbench.problem import Outputs, Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.allreduce_norm.problem import AllreduceNorm


@kernel("allreduce_norm", "torch")
def torch_allreduce_norm(backend: Any, problem: AllreduceNorm, *inputs: Any, group: Group = ALONE) -> Step:
    """all_reduce in place, then torch.add, then torch.rms_norm: three kernels at least.

    A later call sums what an earlier one left in the buffer, as of ``allreduce``: poisoning puts x back.
    """
    import torch
    import torch.distributed as distributed

    group.check_size(problem.ranks)
    x, residual, weight = inputs
    buffer, h = x.clone(), backend.empty(x.shape, problem.dtype)
    connect(backend.device, group)

    def step() -> Restored:
        distributed.all_reduce(buffer)
        torch.add(buffer, residual, out=h)
        y = torch.rms_norm(h, (problem.features,), weight, EPSILON)
        return Restored(backend, (h, y), buffer, x)

    return described(step, algorithm=f"all_reduce over {distributed.get_backend()}, torch.add, torch.rms_norm")


@kernel("allreduce_norm", "torch", name="one_shot")
def one_shot(backend: Any, problem: AllreduceNorm, *inputs: Any, group: Group = ALONE) -> Step:
    """Each rank reads all buffers through symmetric memory, sums, adds and normalises in one kernel of Triton.

    The buffer lies in symmetric memory already, as where a product writes there. A barrier of torch before the kernel
    waits until all buffers are written, one behind it until all have read them: three launches. Triton's interpreter
    has computed it on buffers of one process, and it is compiled for an H100; not tried on several GPUs yet.
    """
    need_triton(backend)
    need_short_rows(problem.features)
    x, residual, weight = inputs
    _, shared, name = symmetric.symmetric(backend, problem, x, group)
    import torch
    import torch.distributed._symmetric_memory as memory

    from primbench.kernels.allreduce_norm._triton import summed_norm

    of_ranks = memory.rendezvous(shared, name)
    shared.copy_(x)
    buffers = torch.tensor(of_ranks.buffer_ptrs, dtype=torch.int64, device=x.device)
    output = Outputs(backend, (backend.empty(x.shape, problem.dtype), backend.empty(x.shape, problem.dtype)))

    def step() -> Outputs:
        of_ranks.barrier(channel=0)
        summed_norm(buffers, residual, weight, output.arrays, EPSILON)
        of_ranks.barrier(channel=1)
        return output

    return launched("triton, symm_mem", step)


class Restored(Outputs):
    """Outputs of a call that sums in place: where they are poisoned, its buffer is given x again."""

    def __init__(self, backend: Any, arrays: tuple[Any, ...], buffer: Any, x: Any) -> None:
        super().__init__(backend, arrays)
        self._buffer, self._x = buffer, x

    def poison(self) -> None:
        super().poison()
        self._buffer.copy_(self._x)
