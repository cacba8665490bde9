"""Any operator on torch, by torch.ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.aten._call import Call, memory
from primbench.kernels.aten._in_place import calls_in_a_row
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.aten.problem import Aten


@kernel("aten", "torch")
def torch_aten(backend: Any, problem: Aten, *inputs: Any) -> Step:
    """Its outputs are new ones at every call, as they were in the step: torch's allocator has their memory at hand."""
    import torch

    operands, on_gpu = problem.called.operands, backend.device.is_gpu
    _set_precision(torch, problem, on_gpu=on_gpu)
    placed = [(one, each.cpu() if one.on_host else each) for one, each in zip(operands, inputs, strict=True)]
    is_undone = problem.is_checkable or not on_gpu
    call = Call(problem.called, str(backend.device), [memory(*each) for each in placed], is_undone=is_undone)

    # A CPU takes longer where a number has become infinite, or has next to none left.
    known = {"launches_nothing": problem.host_only, "touched_bytes": call.touched_bytes}
    again = {} if on_gpu or not call.changed() else {"undo": call.poison, "most_calls": calls_in_a_row(call)}
    known["stream_only"] = on_gpu and call.has_seed_on_host()
    return described(call, host_buffers=[], **known, **again)


def _set_precision(torch: Any, problem: Aten, *, on_gpu: bool) -> None:
    if on_gpu:
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = problem.math_mode == "tf32"
        torch.backends.cudnn.benchmark = problem.cudnn_benchmark
    elif problem.math_mode == "tf32":
        raise UnsupportedCase("torch on a CPU has no tf32 mode")
    elif problem.cudnn_benchmark:
        raise UnsupportedCase("torch on a CPU has no cuDNN to try algorithms")
