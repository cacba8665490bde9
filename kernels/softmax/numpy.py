"""Softmax on NumPy: a call of its functions for each operation, in one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.softmax.problem import named_inputs
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.softmax.problem import Softmax
    from primbench.problem import Array


@kernel("softmax", "numpy")
def numpy_softmax(backend: Any, problem: Softmax, *inputs: Array) -> Step:
    """Forward in float32."""
    import numpy as np

    if (problem.direction, problem.dtype) != ("forward", "float32"):
        raise UnsupportedCase("softmax on numpy: direction=forward, dtype=float32: ask for these, or backend=torch")
    x, target, _ = named_inputs(problem, inputs)
    powers = backend.empty(x.shape, problem.dtype)
    output = backend.empty(problem.output_shape, problem.dtype)

    def softmax() -> Any:
        np.exp(np.subtract(x, x.max(axis=1, keepdims=True), out=output), out=output)
        return np.divide(output, output.sum(axis=1, keepdims=True), out=output)

    def log_softmax() -> Any:
        np.subtract(x, x.max(axis=1, keepdims=True), out=output)
        return np.subtract(output, np.log(np.exp(output, out=powers).sum(axis=1, keepdims=True)), out=output)

    def cross_entropy() -> Any:
        largest = x.max(axis=1)
        np.exp(np.subtract(x, largest[:, None], out=powers), out=powers)
        np.add(np.log(powers.sum(axis=1)), largest, out=output)
        return np.subtract(output, np.take_along_axis(x, target[:, None], axis=1)[:, 0], out=output)

    return {"softmax": softmax, "log_softmax": log_softmax, "cross_entropy": cross_entropy}[problem.kind]
