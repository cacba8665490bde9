"""Element by element on CuPy arrays, by primbench's own CUDA kernels, elementwise.cu: one launch whatever the op."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.elementwise.problem import Elementwise

THREADS, AT_ONCE = 256, 4  # of a block; loads of each array that a thread makes at once, as in elementwise.cu
ROPE_LIMIT = 2**32  # rope counts its threads in 32 bits


@kernel("elementwise", "cupy")
def cupy_elementwise(backend: Any, problem: Elementwise, *inputs: Any) -> Step:
    import numpy as np

    y = backend.empty((problem.elements,), problem.dtype)
    if problem.op == "rope":
        launch, blocks = _rope(problem)
        arguments = (*inputs, y, *map(np.uint32, (problem.tokens, problem.heads, problem.head_dim // 2)))
    else:
        name = f"{problem.op}_backward" if problem.direction == "backward" else problem.op
        launch = _compiled(problem.dtype, f"-DOP={name}", f"-DREADS={problem.reads}").get_function("elementwise")
        blocks = -(-problem.elements // (THREADS * AT_ONCE * _elements_a_load(problem.dtype)))
        arguments = (inputs[0], inputs[-1], y, np.uint64(problem.elements))
    grid, block = (blocks,), (THREADS,)

    def step() -> Any:
        launch(grid, block, arguments)
        return y

    return described(step, algorithm="own CUDA kernel, 1 launch")


def _elements_a_load(dtype: str) -> int:
    from primbench.cuda import rows
    from primbench.dtypes import itemsize_bytes

    return rows.LOAD_BYTES // itemsize_bytes(dtype)


def _rope(problem: Elementwise) -> tuple[Any, int]:
    """The kernel and its blocks."""
    pack = math.gcd(_elements_a_load(problem.dtype), problem.head_dim // 2)
    threads = problem.elements // 2 // pack
    if threads >= ROPE_LIMIT:
        raise UnsupportedCase(
            f"elementwise op='rope' counts threads in 32 bits, and these are {threads}: fewer elements"
        )
    return _compiled(problem.dtype, f"-DROPE_PACK={pack}").get_function("rope"), -(-threads // THREADS)


@functools.cache
def _compiled(dtype: str, *options: str) -> Any:
    import cupy

    from primbench.cuda import kernels, rows

    source = kernels.text_of("elementwise", "elementwise.cu")
    return cupy.RawModule(code=source, options=("-std=c++17", f"-DSTORED={rows.STORED[dtype]}", *options))
