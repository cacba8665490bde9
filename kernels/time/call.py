"""A call of the function, on whichever backend its arrays are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.kernels.time._named import call_of, expected_of, refuse_borrowed
from primbench.problem import Step, kernel
from primbench.timing.function import comparable

if TYPE_CHECKING:
    from primbench.kernels.time.problem import Function


@kernel("time", "cupy", "numba", "numpy", "torch")
def call(backend: Any, problem: Function) -> Step:
    """The function itself. Raises UnsupportedCase where its output is of another framework, and is to be compared."""
    step = call_of(problem.function, problem.setup, problem.arguments)
    if not problem.like:
        return step
    expected_of(problem.like, problem.setup, problem.arguments)  # here, and not beside calls that are timed
    found = comparable(backend, step)
    refuse_borrowed(problem.function, problem.like, problem.setup, problem.arguments)
    return found
