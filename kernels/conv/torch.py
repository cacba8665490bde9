"""Convolution on torch: cuDNN on a GPU, oneDNN on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.conv.problem import refuse_choices
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.devices import Device
    from primbench.kernels.conv.problem import Conv

NHWC_AS_NCHW, NCHW_AS_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


@kernel("conv", "torch")
def torch_conv(backend: Any, problem: Conv, first: Any, second: Any) -> Step:
    """torch.nn.functional.conv2d, and the operator that autograd calls for each of its gradients.

    cuDNN tries its algorithms at the first call and keeps the fastest, unless algo=heuristic; it may be one whose sums
    change their order.
    torch takes no output: its allocator hands every call the block that the last one's result gave back. The step's
    ``algorithm`` is the library that torch chose.
    """
    import torch

    refuse_choices(problem, "torch")
    if problem.dtype == "int8":
        raise UnsupportedCase("torch has no int8 convolution of plain tensors: ask for backend=cupy")
    _set_precision(torch, problem, backend.device)
    # The gradients take X or W for its shape alone, but torch wants a tensor with memory behind it.
    x, w, _ = problem.roles(first, second, None)
    x = backend.empty(problem.image_shape, problem.dtype) if x is None else x
    w = backend.empty(problem.filter_shape, problem.dtype) if w is None else w
    last = problem.layout == "nhwc"
    x, w, dy = (tensor.permute(NHWC_AS_NCHW) if last else tensor for tensor in (x, w, first))
    strides, pads, dilations = (
        tuple(getattr(axis, name) for axis in problem.axes) for name in ("stride", "pad", "dilation")
    )
    compute = _compute(torch, problem, (x, w, dy), (strides, pads, dilations))

    # The result of channels-last inputs is channels-last in memory, but n c h w by shape.
    return described(
        (lambda: compute().permute(NCHW_AS_NHWC)) if last else compute,
        algorithm=_library(torch, (x, w), (strides, pads, dilations), problem.groups),
    )


def _compute(torch: Any, problem: Conv, tensors: tuple[Any, ...], geometry: tuple[tuple[int, ...], ...]) -> Step:
    x, w, dy = tensors
    strides, pads, dilations = geometry
    groups, transposed = problem.groups, False
    if problem.direction == "forward":
        conv2d = torch.nn.functional.conv2d
        return lambda: conv2d(x, w, None, strides, pads, dilations, groups)
    backward, wanted = torch.ops.aten.convolution_backward, problem.direction == "bwd_data"
    which, mask = (0, (True, False, False)) if wanted else (1, (False, True, False))
    return lambda: backward(dy, x, w, None, strides, pads, dilations, transposed, (0, 0), groups, mask)[which]


def _set_precision(torch: Any, problem: Conv, device: Device) -> None:
    """Say explicitly what torch would otherwise take from the process: tf32 and autotuning."""
    if not device.is_gpu:
        if problem.math_mode == "tf32":
            raise UnsupportedCase("torch on a CPU has no tf32 mode")
        return
    torch.backends.cudnn.allow_tf32 = problem.math_mode == "tf32"
    torch.backends.cudnn.benchmark = problem.algo != "heuristic"
    torch.backends.cudnn.deterministic = False


def _library(torch: Any, tensors: tuple[Any, Any], geometry: tuple[tuple[int, ...], ...], groups: int) -> str | None:
    """What torch itself computes by, such as Cudnn, CudaDepthwise2d, Mkldnn or Slow2d; None where it does not say."""
    select = getattr(torch._C, "_select_conv_backend", None)  # noqa: SLF001 - nothing public tells
    if select is None:
        return None
    (strides, pads, dilations), transposed = geometry, False
    return str(select(*tensors, None, strides, pads, dilations, transposed, (0, 0), groups, None).name)
