"""Start-up by the operating system: no framework takes part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.problem import kernel

if TYPE_CHECKING:
    from primbench.kernels.startup.problem import Startup
    from primbench.problem import Step


@kernel("startup", "numpy")
def numpy_startup(backend: Any, problem: Startup) -> Step:
    """Raises UnsupportedCase where what is to be started is not installed, PrimbenchError where it fails."""
    from primbench.kernels.startup._step import step_of

    return step_of(problem)
