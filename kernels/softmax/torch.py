"""Softmax on torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched
from primbench.backends._triton import need_short_rows, need_triton
from primbench.backends.torch import compiled
from primbench.errors import UnsupportedCase
from primbench.kernels.softmax.problem import named_inputs
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.softmax.problem import Softmax


@kernel("softmax", "torch")
def torch_softmax(backend: Any, problem: Softmax, *inputs: Any) -> Step:
    """What torch's functions return they allocate; cross_entropy is log_softmax and the loss of it, two operators."""
    import torch

    x, target, dy = named_inputs(problem, inputs)
    algorithm = "log_softmax and nll_loss, 2 operators" if problem.is_loss else None

    def forward() -> Any:
        if target is not None:
            return torch.nn.functional.cross_entropy(x, target, reduction="none")
        return (torch.softmax if problem.kind == "softmax" else torch.log_softmax)(x, 1)

    if problem.direction == "forward":
        return described(forward, algorithm=algorithm)
    x.requires_grad_()
    kept = forward()
    return described(lambda: torch.autograd.grad(kept, x, dy, retain_graph=True)[0], algorithm=algorithm)


@kernel("softmax", "torch", name="compiled")
def compiled_softmax(backend: Any, problem: Softmax, *inputs: Any) -> Step:
    """The operators of the forward pass as torch.compile fuses them."""
    if problem.direction != "forward":
        raise UnsupportedCase("compiled: of the forward pass alone")
    return compiled(torch_softmax(backend, problem, *inputs))


@kernel("softmax", "torch", name="triton")
def triton_softmax(backend: Any, problem: Softmax, *inputs: Any) -> Step:
    """A row a program of Triton, which reads and writes it once."""
    need_triton(backend)
    if problem.direction != "forward" or problem.is_loss:
        raise UnsupportedCase("triton: of the forward pass of softmax and log_softmax alone")
    need_short_rows(problem.classes)
    from primbench.kernels.softmax._triton import softmax

    (x,) = inputs
    y = backend.empty(problem.output_shape, problem.dtype)
    return launched("triton", lambda: softmax(x, y, logarithm=problem.kind == "log_softmax"))
