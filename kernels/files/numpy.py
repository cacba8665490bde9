"""Files by the operating system: no framework takes part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.problem import kernel

if TYPE_CHECKING:
    from primbench.kernels.files.problem import Files
    from primbench.problem import Array, Step


@kernel("files", "numpy")
def numpy_files(backend: Any, problem: Files, contents: Array) -> Step:
    """Raises UnsupportedCase where the file system, the kernel or a filter lacks what is asked for.

    PrimbenchError where the folder cannot be written to.
    """
    from primbench.kernels.files._step import step_of

    return step_of(problem, contents)
