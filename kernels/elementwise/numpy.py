"""Element by element on NumPy: a call of its functions for each operation, in one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.elementwise.problem import Elementwise
    from primbench.problem import Array


@kernel("elementwise", "numpy")
def numpy_elementwise(backend: Any, problem: Elementwise, *inputs: Array) -> Step:
    """float32 forward, without rope and the gelu that tanh approximates."""
    import numpy as np
    from scipy.special import expit, ndtr

    y = backend.empty((problem.elements,), problem.dtype)

    def swiglu(gate: Array, up: Array) -> None:
        np.multiply(expit(gate, out=y), gate, out=y)
        np.multiply(y, up, out=y)

    calls: dict[str, Callable[..., Any]] = {
        "copy": lambda x: np.copyto(y, x),
        "add": lambda a, b: np.add(a, b, out=y),
        "mul": lambda a, b: np.multiply(a, b, out=y),
        "relu": lambda x: np.maximum(x, 0, out=y),
        "gelu": lambda x: np.multiply(ndtr(x, out=y), x, out=y),
        "silu": lambda x: np.multiply(expit(x, out=y), x, out=y),
        "swiglu": swiglu,
    }
    if problem.dtype != "float32" or problem.direction == "backward" or problem.op not in calls:
        raise UnsupportedCase(f"NumPy computes {', '.join(calls)} of float32, forward: ask for these, or backend=torch")
    call = calls[problem.op]

    def step() -> Any:
        call(*inputs)
        return y

    return step
