"""Layer and RMS normalisation on NumPy: a call of its functions for each operation, in one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.norm._operands import EPSILON, named_inputs
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.norm.problem import Norm
    from primbench.problem import Array


@kernel("norm", "numpy")
def numpy_norm(backend: Any, problem: Norm, *inputs: Array) -> Step:
    """Forward of layer and rms in float32."""
    import numpy as np

    if (problem.direction, problem.dtype) != ("forward", "float32") or problem.kind == "batch":
        raise UnsupportedCase("norm on numpy: kind=layer and rms, forward, float32: ask for these, or backend=torch")
    named = named_inputs(problem, inputs)
    x, weight, bias = (named[name] for name in ("x", "weight", "bias"))
    y, squares = (backend.empty(problem.shape, problem.dtype) for _ in range(2))

    def step() -> Any:
        from_mean = x if bias is None else np.subtract(x, x.mean(axis=1, keepdims=True), out=y)
        deviation = np.sqrt(np.square(from_mean, out=squares).mean(axis=1, keepdims=True) + np.float32(EPSILON))
        np.divide(from_mean, deviation, out=y)
        np.multiply(y, weight, out=y)
        return y if bias is None else np.add(y, bias, out=y)

    return step
