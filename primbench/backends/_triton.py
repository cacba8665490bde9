"""What is launched by Triton, on tensors of torch."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from primbench.errors import KernelUnavailable, UnsupportedCase

if TYPE_CHECKING:
    from primbench.backends import Backend

LONGEST_ROW = 131_072
"""Elements that a program holds, twice what fits in registers: a vocabulary of 128,256 words is less."""


def need_triton(backend: Backend) -> None:
    """Raises KernelUnavailable where nothing of Triton's can be launched."""
    if not (backend.device.is_gpu or is_interpreted()):
        raise KernelUnavailable("triton needs a GPU; with TRITON_INTERPRET=1 in the environment it computes by NumPy")
    if find_spec("triton") is None:
        raise KernelUnavailable("triton is not installed: a torch for CUDA brings it, else pip install triton")


def is_interpreted() -> bool:
    """Whether Triton computes by NumPy, on any device."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def need_short_rows(elements: int) -> None:
    """Raises UnsupportedCase where no program holds a row."""
    if elements > LONGEST_ROW:
        raise UnsupportedCase(f"triton: a row has {elements} elements, a program holds {LONGEST_ROW} at most")


def warps_of(elements: int) -> int:
    """Of a program that holds a row of so many: 16 elements a thread, 1 to 32 warps."""
    return max(1, min(32, elements // 512))
