"""Element by element on torch: its operators, of which SwiGLU and rotary embeddings take several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.backends._packages import launched
from primbench.backends._triton import need_triton
from primbench.backends.torch import compiled
from primbench.errors import UnsupportedCase
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.elementwise.problem import Elementwise


@kernel("elementwise", "torch")
def torch_elementwise(backend: Any, problem: Elementwise, *inputs: Any) -> Step:
    """One operator, most of them into an array that is there; the step's ``algorithm`` names several."""
    if problem.op == "rope":
        return _rope(problem, inputs)
    y = backend.empty((problem.elements,), problem.dtype)
    if problem.op == "swiglu":
        return _swiglu(inputs, y)
    return (_backward if problem.direction == "backward" else _forward)(problem.op, y, inputs)


@kernel("elementwise", "torch", name="compiled")
def compiled_elementwise(backend: Any, problem: Elementwise, *inputs: Any) -> Step:
    """What takes several operators, as torch.compile fuses them."""
    import torch

    if problem.op == "rope":
        return compiled(_rope(problem, inputs))
    if problem.op == "swiglu":
        gate, up = inputs
        return compiled(lambda: torch.nn.functional.silu(gate) * up)
    raise UnsupportedCase(f"compiled: {problem.op} is one operator, of which there is nothing to fuse")


@kernel("elementwise", "torch", name="triton")
def triton_elementwise(backend: Any, problem: Elementwise, *inputs: Any) -> Step:
    """SwiGLU in one kernel of Triton."""
    need_triton(backend)
    if problem.op != "swiglu":
        raise UnsupportedCase(f"triton: swiglu alone, which torch has no operator for, not {problem.op}")
    from primbench.kernels.elementwise._triton import swiglu

    gate, up = inputs
    y = backend.empty((problem.elements,), problem.dtype)
    return launched("triton", lambda: swiglu(gate, up, y))


def _forward(op: str, y: Any, inputs: tuple[Any, ...]) -> Step:
    import torch

    aten = torch.ops.aten
    calls: dict[str, Callable[..., Any]] = {
        "copy": lambda x: y.copy_(x),
        "add": lambda a, b: torch.add(a, b, out=y),
        "mul": lambda a, b: torch.mul(a, b, out=y),
        "relu": torch.relu,  # whose form with out= copies what it has allocated
        "gelu": lambda x: aten.gelu.out(x, out=y),
        "gelu_tanh": lambda x: aten.gelu.out(x, approximate="tanh", out=y),
        "silu": lambda x: aten.silu.out(x, out=y),
    }
    call = calls[op]
    return lambda: call(*inputs)


def _backward(op: str, dx: Any, inputs: tuple[Any, ...]) -> Step:
    import torch

    aten = torch.ops.aten
    calls: dict[str, Callable[..., Any]] = {
        "relu": lambda dy, x: aten.threshold_backward.grad_input(dy, x, 0, grad_input=dx),
        "gelu": lambda dy, x: aten.gelu_backward.grad_input(dy, x, grad_input=dx),
        "gelu_tanh": lambda dy, x: aten.gelu_backward.grad_input(dy, x, approximate="tanh", grad_input=dx),
        "silu": lambda dy, x: aten.silu_backward.grad_input(dy, x, grad_input=dx),
    }
    call = calls[op]
    return lambda: call(*inputs)


def _swiglu(inputs: tuple[Any, ...], y: Any) -> Step:
    import torch

    gate, up = inputs
    silu = torch.ops.aten.silu.out

    def step() -> Any:
        return torch.mul(silu(gate, out=y), up, out=y)

    return described(step, algorithm="silu and mul, 2 operators")


def _rope(problem: Elementwise, inputs: tuple[Any, ...]) -> Step:
    """As Transformers' models have it (rotate_half): both halves by the cosine, and exchanged by the sine."""
    import torch

    x, cos, sin = inputs
    x = x.view(problem.tokens, problem.heads, problem.head_dim)
    cos, sin = (torch.cat((table, table), 1)[:, None] for table in (cos, sin))

    def step() -> Any:
        first, second = x.chunk(2, dim=-1)
        return (x * cos + torch.cat((-second, first), dim=-1) * sin).view(-1)

    return described(step, algorithm="neg, cat, 2 mul and add, 5 operators")
