"""A call of the function, on whichever backend its arrays are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.time._named import call_of, expected_of
from primbench.problem import Outputs, Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.time.problem import Function


@kernel("time", "cupy", "numba", "numpy", "torch")
def call(backend: Any, problem: Function) -> Step:
    """The function itself; where several arrays are compared, a call more around it, of some 0.2 us.

    Raises UnsupportedCase where its output is of another framework than the backend, and is to be compared.
    """
    step = call_of(problem.function, problem.setup, problem.arguments)
    if not problem.like:
        return step
    expected_of(problem.like, problem.setup, problem.arguments)  # here, and not beside calls that are timed
    output = step()
    arrays = tuple(output) if isinstance(output, tuple | list) else (output,)
    for array in arrays:
        check_owner(backend, array)
    return (lambda: Outputs(backend, tuple(step()))) if isinstance(output, tuple | list) else step


def check_owner(backend: Any, array: Any) -> None:
    """Raises UnsupportedCase where an array is of another framework than the backend, NumPy's aside."""
    owner = type(array).__module__.partition(".")[0]
    if owner not in ("numpy", backend.name):
        raise UnsupportedCase(f"an output of {owner}: measure it by --backend {owner}")
