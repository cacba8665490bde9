"""Batch normalisation and its gradients on CuPy arrays, by primbench's own CUDA kernels, batch.cu."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.cuda import rows
from primbench.dtypes import itemsize_bytes
from primbench.errors import UnsupportedCase
from primbench.kernels.norm._launch import Launch, in_turn, launch_of
from primbench.kernels.norm._operands import EPSILON, MOMENTUM, named_inputs
from primbench.problem import Outputs, described

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
        """Of apply() and apply_to_dy()."""
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
    named, plan, launch = named_inputs(problem, inputs), plan_of(problem), functools.partial(launch_of, compiled)
    y, by = backend.empty(problem.shape, problem.dtype), backend.empty((4, problem.features), "float32")
    sums = backend.empty((2, plan.slices, problem.features), "float32")
    sizes, x, dy = (problem.rows, problem.features, problem.h * problem.w), named["x"], named["dy"]
    each_channel, warps = (-(-problem.features // WARPS),), (rows.WARP, WARPS)
    vectors = (named[name] for name in ("weight", "bias", "running_mean", "running_var"))
    constants = plan.slices, EPSILON, MOMENTUM
    launches = [launch("factors", each_channel, warps, x, sums, *vectors, by, *sizes, *constants)]
    if not problem.running_statistics:
        launches.insert(0, launch("moments", plan.grid, plan.block, x, sums, *sizes))
    if problem.direction == "forward":
        launches.append(launch("apply", (plan.blocks,), (THREADS,), x, by, y, plan.packs, *sizes[1:]))
        return _described(plan, launches, y)
    for each in launches:
        each()
    kept, of_dx = by[2:], backend.empty((3, problem.features), "float32")
    dweight, dbias = (backend.empty((problem.features,), "float32") for _ in range(2))
    of_factors = (sums, named["weight"], kept, of_dx, dweight, dbias, *sizes, plan.slices)
    launches = [
        launch("sums_of_dy", plan.grid, plan.block, x, dy, kept, sums, *sizes),
        launch("factors_of_dx", each_channel, warps, *of_factors),
        launch("apply_to_dy", (plan.blocks,), (THREADS,), x, dy, of_dx, y, plan.packs, *sizes[1:]),
    ]
    return _described(plan, launches, Outputs(backend, (y, dweight, dbias)))


def _described(plan: Plan, launches: list[Launch], output: Any) -> Step:
    slices = f", channels in {plan.slices} slices" if len(launches) == 3 else ""  # but by running means
    return described(in_turn(launches, output), algorithm=f"own CUDA kernels, {len(launches)} launches{slices}")
