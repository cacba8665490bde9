"""Functions of torch, Triton, torch.compile and CuPy on a GPU, each with what makes its arguments.

Of those that `more` has, a copy that does so much more is given that share of its arguments, or of its cycles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple


class OnGpu(NamedTuple):
    """function: called with what setup returns. more: the one that does 3 % more, with the same arguments; or None."""

    function: Callable[..., Any]
    setup: Callable[[], tuple[Any, ...]]
    more: Callable[..., Any] | None = None


def by_name() -> dict[str, OnGpu]:
    """From some 1 us to 5 ms. Compiled ones are compiled at their first call."""
    import cupy
    import torch

    from primbench.kernels.elementwise._triton import swiglu

    def normal(*sizes: int, dtype: Any = torch.bfloat16) -> Callable[[], tuple[Any, ...]]:
        return lambda: (torch.randn(*sizes, device="cuda").to(dtype),)

    def two(*sizes: int, dtype: Any = torch.bfloat16) -> Callable[[], tuple[Any, ...]]:
        return lambda: (*normal(*sizes, dtype=dtype)(), *normal(*sizes, dtype=dtype)())

    def three(n: int) -> tuple[Any, ...]:
        return tuple(torch.rand(round(n * 1.03), device="cuda") for _ in range(3))

    def arrays(n: int) -> Callable[[], tuple[Any, ...]]:
        return lambda: tuple(cupy.ones(round(n * 1.03), cupy.float32) for _ in range(3))

    def gelu(x: Any) -> Any:
        return torch.nn.functional.gelu(x * 2 + 1)

    def perceptron(x: Any, w: Any) -> Any:
        return torch.nn.functional.gelu(x @ w) @ w

    def added(n: int, add: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, y, z: add(x[:n], y[:n], out=z[:n])

    def gated(n: int) -> Callable[..., Any]:
        return lambda x, y, z: swiglu(x[:n], y[:n], z[:n])

    n, more = 1 << 24, round((1 << 24) * 1.03)
    no_arguments: Callable[[], tuple[Any, ...]] = tuple
    return {
        "sleep": OnGpu(partial(torch.cuda._sleep, 100_000), no_arguments, partial(torch.cuda._sleep, 103_000)),
        "torch": OnGpu(added(n, torch.add), partial(three, n), added(more, torch.add)),
        "triton": OnGpu(gated(n), partial(three, n), gated(more)),
        "cupy": OnGpu(added(n, cupy.add), arrays(n), added(more, cupy.add)),
        "torch relu of 8 numbers": OnGpu(torch.relu, normal(8)),
        "torch product of 1024": OnGpu(torch.matmul, two(1024, 1024)),
        "torch product of 8192": OnGpu(torch.matmul, two(8192, 8192)),
        "torch softmax": OnGpu(partial(torch.softmax, dim=-1), normal(8192, 4096)),
        "torch sort": OnGpu(partial(torch.sort, dim=-1), normal(1 << 22, dtype=torch.float32)),
        "compiled gelu": OnGpu(torch.compile(gelu), normal(4096, 4096)),
        "compiled perceptron": OnGpu(torch.compile(perceptron), two(2048, 2048)),
        "CuPy sum": OnGpu(cupy.sum, lambda: (cupy.ones(n, cupy.float32),)),
    }
