"""Batch normalisation on CuPy arrays, by primbench's own CUDA kernels, batch.cu."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.cuda import rows
from primbench.dtypes import itemsize_bytes
from primbench.errors import UnsupportedCase
from primbench.kernels.norm._operands import EPSILON, MOMENTUM, named_inputs
from primbench.problem import described

if TYPE_CHECKING:
    from primbench.kernels.norm.problem import Norm
    from primbench.problem import Step

THREADS, AT_ONCE = 256, 4  # of a block, and loads of a thread at once, as in batch.cu
WARPS = 8  # of a block that has a warp for each channel
WANTED_BLOCKS = 1024  # for any GPU to be busy
LIMIT = 2**31  # elements are counted in 32 bits


@dataclass(frozen=True)
class Plan:
    """How threads share the images: pack elements a load, slices of each channel, and the blocks of moments()."""

    pack: int
    slices: int
    grid: tuple[int, int]
    block: tuple[int, int]
    packs: int

    @property
    def blocks(self) -> int:
        """Of apply()."""
        return -(-self.packs // (THREADS * AT_ONCE))


def plan_of(problem: Norm) -> Plan:
    """Raises UnsupportedCase where there are too many elements to be counted."""
    area, most = problem.h * problem.w, rows.LOAD_BYTES // itemsize_bytes(problem.dtype)
    is_last = problem.layout == "nhwc"
    pack = math.gcd(problem.features if is_last else area, most)
    if problem.elements >= LIMIT:
        raise UnsupportedCase(f"norm kind=batch on cupy counts elements in 32 bits: {problem.elements} are too many")
    columns = problem.features // pack if is_last else problem.features
    width = min(THREADS, 1 << (columns - 1).bit_length()) if is_last else THREADS
    across = -(-columns // width) if is_last else columns
    tall = THREADS // width
    reads = problem.members if is_last else problem.members // pack
    slices = max(1, min(-(-WANTED_BLOCKS // across), reads // (tall if is_last else THREADS)))
    return Plan(pack, slices, (across, slices), (width, tall), problem.elements // pack)


def options(problem: Norm, plan: Plan) -> tuple[str, ...]:
    """The compiler's."""
    is_last, is_running = int(problem.layout == "nhwc"), int(problem.running_statistics)
    return (
        f"-DSTORED={rows.STORED[problem.dtype]}", f"-DPACK={plan.pack}", f"-DNHWC={is_last}", f"-DRUNNING={is_running}"
    )  # fmt: skip


def batch_norm(backend: Any, problem: Norm, inputs: tuple[Any, ...], compiled: Any) -> Step:
    """compiled: batch.cu with options()."""
    import numpy as np

    named, plan = named_inputs(problem, inputs), plan_of(problem)
    y, by = backend.empty(problem.shape, problem.dtype), backend.empty((2, problem.features), "float32")
    sums = backend.empty((2, plan.slices, problem.features), "float32")
    images, channels, area = map(np.uint32, (problem.rows, problem.features, problem.h * problem.w))
    moments, factors, apply = (compiled.get_function(name) for name in ("moments", "factors", "apply"))
    vectors = (named[name] for name in ("weight", "bias", "running_mean", "running_var"))
    constants = np.uint32(plan.slices), np.float32(EPSILON), np.float32(MOMENTUM)
    of_moments = (named["x"], sums, images, channels, area)
    of_factors = (named["x"], sums, *vectors, by, images, channels, area, *constants)
    of_apply = (named["x"], by, y, np.uint32(plan.packs), channels, area)
    each_channel, warps = (-(-problem.features // WARPS),), (rows.WARP, WARPS)

    def inference() -> Any:
        factors(each_channel, warps, of_factors)
        apply((plan.blocks,), (THREADS,), of_apply)
        return y

    def training() -> Any:
        moments(plan.grid, plan.block, of_moments)
        return inference()

    if problem.running_statistics:
        return described(inference, algorithm="own CUDA kernels, 2 launches")
    return described(training, algorithm=f"own CUDA kernels, 3 launches, channels in {plan.slices} slices")
