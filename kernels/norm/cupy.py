"""Layer and RMS normalisation on CuPy arrays, by primbench's own CUDA kernel, norm.cu."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.norm._operands import EPSILON, named_inputs
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.norm.problem import Norm


@kernel("norm", "cupy")
def cupy_norm(backend: Any, problem: Norm, *inputs: Any) -> Step:
    """Forward of layer and rms: a row is read once, and held in registers until its mean and variance are known."""
    import numpy as np

    from primbench.cuda import rows

    if problem.kind == "batch" or problem.direction == "backward":
        raise UnsupportedCase("norm on cupy: kind=layer and rms, direction=forward: ask for these, or backend=torch")
    named, shape = named_inputs(problem, inputs), rows.shape_of(problem.features, problem.dtype)
    bias = named["weight"] if named["bias"] is None else named["bias"]  # which rms does not read
    y = backend.empty(problem.shape, problem.dtype)
    is_rms = f"-DRMS={int(problem.kind == 'rms')}"
    launch = _compiled(f"-DSTORED={rows.STORED[problem.dtype]}", *shape.options, is_rms).get_function("normalise")
    sizes = np.uint32(problem.rows), np.uint32(problem.features), np.float32(EPSILON)
    arguments, (grid, block) = (named["x"], named["weight"], bias, y, *sizes), shape.launch(problem.rows)

    def step() -> Any:
        launch(grid, block, arguments)
        return y

    return described(step, algorithm=f"own CUDA kernel, {shape.threads} threads a row")


@functools.cache
def _compiled(*options: str) -> Any:
    import importlib.resources

    import cupy

    source = importlib.resources.files("primbench.kernels.norm").joinpath("norm.cu").read_text()
    return cupy.RawModule(code=source, options=("-std=c++17", *options))
