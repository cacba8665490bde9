"""Gradients of layer and RMS normalisation on CuPy arrays, by primbench's own CUDA kernels, backward.cu."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.cuda import rows
from primbench.dtypes import itemsize_bytes
from primbench.gpu.nvidia import driver
from primbench.kernels.norm._launch import in_turn, launch_of
from primbench.kernels.norm._operands import EPSILON, named_inputs
from primbench.kernels.norm.problem import VECTORS
from primbench.problem import Outputs, described

if TYPE_CHECKING:
    from primbench.kernels.norm.problem import Norm
    from primbench.problem import Step

MOST_THREADS = 1024  # of a multiprocessor, for which there are registers
HELD_BYTES = 16  # of a row of x that a thread holds at most
MOST_ROWS = 15  # of several warps in a block, each with a barrier of its own
SUMS_BYTES = 8
LONG_THREADS, LONG_BLOCK, LONG_BLOCKS = 256, 512, 4  # of a row that no block holds; blocks for each multiprocessor
ASYNCHRONOUS = 80  # compute capability from which a GPU loads into shared memory while it computes


class Plan(NamedTuple):
    """pack elements a load, held loads a thread or 0 where a block cannot hold a row, threads a row and a block."""

    pack: int
    held: int
    threads: int
    block: int

    @property
    def rows(self) -> int:
        """Of a block."""
        return self.block // self.threads

    def shared_bytes(self, stages: int, itemsize_bytes: int) -> int:
        """Of a block that holds rows: those of x and dy that are on their way; later half of the rows' sums."""
        passed_bytes = self.held * self.pack * self.block // 2 * SUMS_BYTES
        return max(2 * stages * self.held * self.pack * self.block * itemsize_bytes, passed_bytes)

    def slices(self, problem: Norm, multiprocessors: int) -> int:
        """Parts of the rows, whose sums are made apart: as many as blocks that run at once, or rows of blocks."""
        if self.held:
            return min(problem.rows, multiprocessors * (MOST_THREADS // self.block))
        return min(problem.rows, -(-LONG_BLOCKS * multiprocessors // self.across(problem)))

    def across(self, problem: Norm) -> int:
        """Blocks beside each other that a long row takes."""
        return -(-problem.features // (self.pack * self.threads))


def plan_of(features: int, dtype: str) -> Plan:
    pack = math.gcd(features, rows.LOAD_BYTES // itemsize_bytes(dtype))
    loads, most = features // pack, HELD_BYTES // (pack * itemsize_bytes(dtype))
    threads = rows.WARP
    while threads < MOST_THREADS and threads * most < loads:
        threads *= 2
    held = -(-loads // threads)
    if held > most:
        return Plan(pack, 0, LONG_THREADS, LONG_BLOCK)
    block = MOST_THREADS
    while threads > rows.WARP and block // threads > MOST_ROWS:
        block //= 2
    return Plan(pack, held, threads, block)


def options(problem: Norm, plan: Plan) -> tuple[str, ...]:
    """The compiler's."""
    return (
        f"-DSTORED={rows.STORED[problem.dtype]}", f"-DPACK={plan.pack}", f"-DHELD={max(1, plan.held)}",
        f"-DTHREADS={plan.threads}", f"-DBLOCK={plan.block}", f"-DSTAGES={stages()}",
        f"-DRMS={int(problem.kind == 'rms')}",
    )  # fmt: skip


def stages() -> int:
    """Rows of each thread that are in shared memory at once."""
    return 2 if driver.compute_capability() >= ASYNCHRONOUS else 1


def row_gradients(backend: Any, problem: Norm, inputs: tuple[Any, ...], compiled: Any) -> Step:
    """compiled: backward.cu with options()."""
    named, plan = named_inputs(problem, inputs), plan_of(problem.features, problem.dtype)
    launch = functools.partial(launch_of, compiled)
    slices = plan.slices(problem, driver.device_attribute(driver.MULTIPROCESSORS))
    shapes = [problem.shape, *[(problem.features,)] * VECTORS[problem.kind]]
    dx, *of_vectors = (backend.empty(shape, problem.dtype) for shape in shapes)
    moments, of_rows = (backend.empty((problem.rows, 2), "float32") for _ in range(2))
    sums = backend.empty((len(of_vectors), slices, problem.features), "float32")
    sizes, read = (problem.rows, problem.features), (named["x"], named["dy"], named["weight"], moments)
    each_row, block = (-(-problem.rows // plan.rows),), (plan.threads, plan.rows)
    launch("keep", each_row, block, named["x"], moments, *sizes, EPSILON)()
    if plan.held:
        shared_bytes = plan.shared_bytes(stages(), itemsize_bytes(problem.dtype))
        launches = [launch("gradients", (slices,), block, *read, dx, sums, *sizes, shared_bytes=shared_bytes)]
    else:
        across = plan.across(problem), slices
        launches = [
            launch("sums_of_rows", each_row, block, *read, of_rows, *sizes),
            launch("gradients_of_long_rows", across, (plan.threads,), *read, of_rows, dx, sums, *sizes),
        ]
    grid, threads = (-(-problem.features // rows.WARP), len(of_vectors)), (rows.WARP, plan.block // rows.WARP)
    launches.append(launch("total", grid, threads, sums, of_vectors[0], of_vectors[-1], slices, problem.features))
    algorithm = f"own CUDA kernels, {len(launches)} launches, rows in {slices} slices"
    return described(in_turn(launches, Outputs(backend, (dx, *of_vectors))), algorithm=algorithm)
