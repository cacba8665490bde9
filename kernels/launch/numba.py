"""Launch in Numba: a compiled function, a kernel of its CUDA target, and the driver on its stream."""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.launch._cuda import Replay, cuda_step
from primbench.kernels.launch._first import first_timed
from primbench.kernels.launch._no_framework import step_without_framework
from primbench.kernels.launch._sealed import sealable
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.launch.problem import Launch


@kernel("launch", "numba")
@first_timed
@sealable
def numba_launch(backend: Any, problem: Launch, *inputs: Any) -> Step:
    """The step, which has been called once, so that no later call compiles."""
    if (step := step_without_framework(backend, problem)) is not None:
        return step
    if not backend.device.is_gpu:
        return _function(backend, *inputs)
    if problem.parameter_bytes:
        raise UnsupportedCase("a kernel of Numba takes scalars and arrays only: ask for call=driver")
    return cuda_step(backend, problem, [_kernel(backend, *inputs)], _no_graph)


def _function(backend: Any, x: Any) -> Step:
    import numba

    y = backend.empty((1,), "float32")

    @numba.njit
    def add_one(x: Any, y: Any) -> None:
        y[0] = x[0] + 1

    def step() -> Any:
        add_one(x, y)
        return y

    step()
    return step


def _kernel(backend: Any, x: Any = None) -> Step:
    """The addition where there is an input, else the empty kernel, which writes nothing and has no output."""
    from numba import cuda

    @cuda.jit
    def empty() -> None:
        pass

    @cuda.jit
    def add_one(x: Any, y: Any) -> None:
        y[0] = x[0] + 1

    with warnings.catch_warnings():
        # Of fewer than 128 blocks; but one is what was asked for.
        warnings.filterwarnings("ignore", message=".*under-utilization")
        launch = (empty if x is None else add_one)[1, 1, backend.stream]
    if x is None:
        return functools.partial(launch)
    y = backend.empty((1,), "float32")

    def step() -> Any:
        launch(x, y)
        return y

    return step


def _no_graph(enqueue: Callable[[], None]) -> Replay:
    raise UnsupportedCase("Numba has no graphs: ask for call=driver")
