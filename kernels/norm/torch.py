"""Normalisation on torch: cuDNN or its own kernels on a GPU, its own on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched
from primbench.backends._triton import need_short_rows, need_triton
from primbench.backends.torch import compiled
from primbench.errors import UnsupportedCase
from primbench.kernels.norm._operands import EPSILON, MOMENTUM, named_inputs
from primbench.problem import Outputs, Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.norm.problem import Norm


@kernel("norm", "torch")
def torch_norm(backend: Any, problem: Norm, *inputs: Any) -> Step:
    """What torch.nn's functions return they allocate: its caching allocator serves every call from the same blocks.

    The step's ``algorithm`` is torch's own name of what a gradient goes back through.
    """
    import torch

    if problem.kind == "rms" and not hasattr(torch, "rms_norm"):
        raise UnsupportedCase(f"torch {torch.__version__} has no rms_norm: 2.4 has")
    named = named_inputs(problem, inputs)
    asked = [named[name] for name in ("x", "weight", "bias") if named[name] is not None]
    for array in asked:
        array.requires_grad_()
    kept = _forward(torch, problem, named)
    algorithm = type(kept.grad_fn).__name__

    def forward() -> Any:
        y = _forward(torch, problem, named)
        return y.permute(0, 2, 3, 1) if problem.layout == "nhwc" else y

    def backward() -> Any:
        return Outputs(backend, torch.autograd.grad(kept, asked, dy, retain_graph=True))

    if problem.direction == "backward":
        dy = as_nchw(problem, named["dy"])
        return described(backward, algorithm=algorithm)
    for array in asked:
        array.requires_grad_(requires_grad=False)
    return described(forward, algorithm=algorithm)


@kernel("norm", "torch", name="compiled")
def compiled_norm(backend: Any, problem: Norm, *inputs: Any) -> Step:
    """The operators of the forward pass as torch.compile fuses them."""
    if problem.direction != "forward":
        raise UnsupportedCase("compiled: of the forward pass alone")
    return compiled(torch_norm(backend, problem, *inputs))


@kernel("norm", "torch", name="triton")
def triton_norm(backend: Any, problem: Norm, *inputs: Any) -> Step:
    """A row a program of Triton, which reads and writes it once."""
    need_triton(backend)
    if problem.direction != "forward" or problem.kind == "batch":
        raise UnsupportedCase("triton: of the forward pass of layer and RMS normalisation alone")
    need_short_rows(problem.features)
    from primbench.kernels.norm._triton import norm

    named, y = named_inputs(problem, inputs), backend.empty(problem.shape, problem.dtype)
    x, weight, bias = named["x"], named["weight"], named["bias"]
    return launched("triton", lambda: norm(x, weight, bias, y, EPSILON))


def as_nchw(problem: Norm, array: Any) -> Any:
    """A view whose axes are in torch's order."""
    return array.permute(0, 3, 1, 2) if problem.layout == "nhwc" else array


def _forward(torch: Any, problem: Norm, named: dict[str, Any]) -> Any:
    x, weight, bias = as_nchw(problem, named["x"]), named["weight"], named["bias"]
    if problem.kind == "layer":
        return torch.layer_norm(x, (problem.features,), weight, bias, EPSILON)
    if problem.kind == "rms":
        return torch.rms_norm(x, (problem.features,), weight, EPSILON)
    means, variances, is_training = named["running_mean"], named["running_var"], not problem.running_statistics
    cudnn_enabled = torch.backends.cudnn.enabled
    return torch.batch_norm(x, weight, bias, means, variances, is_training, MOMENTUM, EPSILON, cudnn_enabled)
