"""The chase on a GPU, by our own kernel on CuPy's stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.kernels.chase._cuda import cuda_step
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.chase.problem import Chase


@kernel("chase", "cupy")
def cupy_chase(backend: Any, problem: Chase, following: Any) -> Step:
    return cuda_step(backend, problem, following)
