"""Launch on NumPy, which is the CPU's operating system and a ufunc."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from primbench.kernels.launch._first import first_timed
from primbench.kernels.launch._no_framework import step_without_framework
from primbench.kernels.launch._sealed import sealable
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.launch.problem import Launch


@kernel("launch", "numpy")
@first_timed
@sealable
def numpy_launch(backend: Any, problem: Launch, *inputs: Any) -> Step:
    if (step := step_without_framework(backend, problem)) is not None:
        return step
    import numpy as np

    return functools.partial(np.add, inputs[0], np.float32(1), backend.empty((1,), "float32"))
