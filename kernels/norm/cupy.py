"""Normalisation on CuPy arrays, by primbench's own CUDA kernels: norm.cu, backward.cu, batch.cu."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from primbench.kernels.norm._operands import EPSILON, named_inputs
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.norm.problem import Norm


@kernel("norm", "cupy")
def cupy_norm(backend: Any, problem: Norm, *inputs: Any) -> Step:
    """The step's ``algorithm`` says how threads share it."""
    if problem.kind == "batch":
        from primbench.kernels.norm import _batch

        compiled = _compiled("batch.cu", *_batch.options(problem, _batch.plan_of(problem)))
        return _batch.batch_norm(backend, problem, inputs, compiled)
    if problem.direction == "backward":
        from primbench.kernels.norm import _row_gradients as of_rows

        plan = of_rows.plan_of(problem.features, problem.dtype)
        compiled = _compiled("backward.cu", *of_rows.options(problem, plan))
        return of_rows.row_gradients(backend, problem, inputs, compiled)
    return _rows(backend, problem, inputs)


def _rows(backend: Any, problem: Norm, inputs: tuple[Any, ...]) -> Step:
    """A row is read once, and held in registers until its mean and variance are known."""
    import numpy as np

    from primbench.cuda import rows

    named, shape = named_inputs(problem, inputs), rows.shape_of(problem.features, problem.dtype)
    bias = named["weight"] if named["bias"] is None else named["bias"]  # which rms does not read
    y = backend.empty(problem.shape, problem.dtype)
    is_rms = f"-DRMS={int(problem.kind == 'rms')}"
    options = (f"-DSTORED={rows.STORED[problem.dtype]}", *shape.options, is_rms)
    launch = _compiled("norm.cu", *options).get_function("normalise")
    sizes = np.uint32(problem.rows), np.uint32(problem.features), np.float32(EPSILON)
    arguments, (grid, block) = (named["x"], named["weight"], bias, y, *sizes), shape.launch(problem.rows)

    def step() -> Any:
        launch(grid, block, arguments)
        return y

    return described(step, algorithm=f"own CUDA kernel, {shape.threads} threads a row")


@functools.cache
def _compiled(name: str, *options: str) -> Any:
    import cupy

    from primbench.cuda import kernels

    source = kernels.text_of("norm", name)
    return cupy.RawModule(code=source, options=("-std=c++17", *options))
