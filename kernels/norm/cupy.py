"""Layer and RMS normalisation on CuPy arrays, by primbench's own CUDA kernel, norm.cu."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.dtypes import itemsize_bytes
from primbench.errors import UnsupportedCase
from primbench.kernels.norm._operands import EPSILON, named_inputs
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.norm.problem import Norm

STORED = {"float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}  # as the CUDA source names them
LOAD_BYTES = 16
WARP, MOST_THREADS, BLOCK = 32, 1024, 256  # threads
WANTED, MOST_HELD, MOST_HELD_BYTES = 2, 32, 128  # loads that a thread holds, for which there are registers


class Shape(NamedTuple):
    """How threads share a row: pack elements a load, held loads a thread, threads a row, rows a block."""

    pack: int
    held: int
    threads: int
    rows: int


@kernel("norm", "cupy")
def cupy_norm(backend: Any, problem: Norm, *inputs: Any) -> Step:
    """Forward of layer and rms: a row is read once, and held in registers until its mean and variance are known."""
    import numpy as np

    if problem.kind == "batch" or problem.direction == "backward":
        raise UnsupportedCase("norm on cupy: kind=layer and rms, direction=forward: ask for these, or backend=torch")
    named, shape = named_inputs(problem, inputs), shape_of(problem.features, problem.dtype)
    bias = named["weight"] if named["bias"] is None else named["bias"]  # which rms does not read
    y = backend.empty(problem.shape, problem.dtype)
    launch = _compiled(options(problem.kind, problem.dtype, shape)).get_function("normalise")
    sizes = np.uint32(problem.rows), np.uint32(problem.features), np.float32(EPSILON)
    arguments = (named["x"], named["weight"], bias, y, *sizes)
    grid, block = (-(-problem.rows // shape.rows),), (shape.threads, shape.rows)

    def step() -> Any:
        launch(grid, block, arguments)
        return y

    return described(step, algorithm=f"own CUDA kernel, {shape.threads} threads a row")


def shape_of(features: int, dtype: str) -> Shape:
    """Raises UnsupportedCase where a row is too long to be held."""
    pack = math.gcd(features, LOAD_BYTES // itemsize_bytes(dtype))
    loads = features // pack
    threads = WARP
    while threads < MOST_THREADS and threads * WANTED < loads:
        threads *= 2
    held = -(-loads // threads)
    most = min(MOST_HELD, MOST_HELD_BYTES // (pack * itemsize_bytes(dtype)))
    if held > most:
        raise UnsupportedCase(
            f"norm features={features} on cupy: {MOST_THREADS} threads hold {most} loads of {pack} elements each"
        )
    return Shape(pack, held, threads, max(1, BLOCK // threads))


def options(kind: str, dtype: str, shape: Shape) -> tuple[str, ...]:
    """The compiler's."""
    sizes = f"-DPACK={shape.pack}", f"-DHELD={shape.held}", f"-DTHREADS={shape.threads}"
    return ("-std=c++17", f"-DSTORED={STORED[dtype]}", *sizes, f"-DRMS={int(kind == 'rms')}")


@functools.cache
def _compiled(options: tuple[str, ...]) -> Any:
    import importlib.resources

    import cupy

    source = importlib.resources.files("primbench.kernels.norm").joinpath("norm.cu").read_text()
    return cupy.RawModule(code=source, options=options)
