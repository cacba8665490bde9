"""The file of a problem, and the call that loads it."""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import TYPE_CHECKING, Any

from primbench.kernels.files.problem import TMPDIR
from primbench.kernels.weights._file import layout, write
from primbench.problem import Step, described
from primbench.system.page_cache import write_back
from primbench.timing.files import DataFolder, cooling, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.weights.problem import Weights
    from primbench.problem import Array

    Load = Callable[[str], object]
    """Brings the tensors of the file of a name to their place."""


def step_of(problem: Weights, period: Array, load: Load, output: Any, by: str) -> Step:
    """The file is there until the step is not. by: what brings tensors to ``output``, in words.

    Raises UnsupportedCase where the file system lacks what is asked for, PrimbenchError where the folder cannot be
    written to.
    """
    with contextlib.ExitStack() as opened:
        folder = DataFolder("" if problem.path == TMPDIR else problem.path)
        opened.callback(folder.remove)
        path = os.path.join(folder.path, "model.safetensors")
        with said(folder.path):
            folder.check_space(1, problem.bytes_moved())
            with open(path, "xb", buffering=0) as file:
                write(file, layout(problem.tensors, problem.bytes), period.data.cast("B"))
            write_back(folder.path)
            load(path)
            before = cooling(folder.where, [path]) if problem.page_cache == "cold" else None
        kept = opened.pop_all()

    def step() -> Any:
        load(path)
        return output

    weakref.finalize(step, kept.close)
    return described(
        step,
        algorithm=f"{by}, {folder.where}",
        host_buffers=[],
        before=before,
        waits="a call ends when the GPU has the tensors: what the host does to load them is part of it",
    )
