"""Pooling on torch."""

from __future__ import annotations

from typing import Any

from primbench.errors import UnsupportedCase
from primbench.kernels.pool.problem import Pool, as_nchw
from primbench.problem import Step, kernel


@kernel("pool", "torch")
def torch_pool(backend: Any, problem: Pool, x: Any, dy: Any = None) -> Step:
    """What torch.nn's functions return they allocate; of max torch also writes the places, which training keeps."""
    from torch import autograd
    from torch.nn.functional import avg_pool2d, max_pool2d

    if backend.device.is_gpu and _is_wrong_on_gpus(problem):
        raise UnsupportedCase("torch's gradient of average on a GPU is wrong for layout=nhwc with pads: ask for nchw")
    call = max_pool2d if problem.kind == "max" else avg_pool2d
    window, stride, pad = (problem.r, problem.s), (problem.stride_h, problem.stride_w), (problem.pad_h, problem.pad_w)

    def forward() -> Any:
        return call(as_nchw(problem, x), window, stride, pad)

    def in_memory() -> Any:
        y = forward()
        return y if problem.layout == "nchw" else y.permute(0, 2, 3, 1)

    if dy is None:
        return in_memory
    x.requires_grad_()
    kept, given = forward(), as_nchw(problem, dy)
    return lambda: autograd.grad(kept, x, given, retain_graph=True)[0]


def _is_wrong_on_gpus(problem: Pool) -> bool:
    """torch 2.11's avg_pool2d_backward_out_cuda_frame_nhwc looks for windows without the pads, unlike that of nchw."""
    has_pads = problem.pad_h > 0 or problem.pad_w > 0
    return has_pads and (problem.kind, problem.direction, problem.layout) == ("average", "backward", "nhwc")
