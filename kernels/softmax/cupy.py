"""Softmax on CuPy arrays, by primbench's own CUDA kernels, softmax.cu."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.softmax.problem import named_inputs
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.softmax.problem import Softmax


@kernel("softmax", "cupy")
def cupy_softmax(backend: Any, problem: Softmax, *inputs: Any) -> Step:
    """Forward: a row is read once, and held in registers until the sum of its powers is known."""
    import numpy as np

    from primbench.cuda import rows

    if problem.direction == "backward":
        raise UnsupportedCase("softmax on cupy: direction=forward: ask for that, or backend=torch")
    x, target, _ = named_inputs(problem, inputs)
    shape = rows.shape_of(problem.classes, problem.dtype)
    output = backend.empty(problem.output_shape, problem.dtype)
    launch = _compiled(f"-DSTORED={rows.STORED[problem.dtype]}", *shape.options).get_function(problem.kind)
    arrays = (x, output) if target is None else (x, target, output)
    arguments = (*arrays, np.uint32(problem.rows), np.uint32(problem.classes))
    grid, block = shape.launch(problem.rows)

    def step() -> Any:
        launch(grid, block, arguments)
        return output

    return described(step, algorithm=f"own CUDA kernel, {shape.threads} threads a row")


@functools.cache
def _compiled(*options: str) -> Any:
    import cupy

    from primbench.cuda import kernels

    source = kernels.text_of("softmax", "softmax.cu")
    return cupy.RawModule(code=source, options=("-std=c++17", *options))
