"""Gradients of layer and RMS normalisation on CuPy arrays, by primbench's own CUDA kernels, backward.cu."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.cuda import driver, rows
from primbench.dtypes import itemsize_bytes
from primbench.kernels.norm._launch import in_turn, launch_of
from primbench.kernels.norm._operands import EPSILON, named_inputs
from primbench.kernels.norm.problem import VECTORS
from primbench.problem import Outputs, described

if TYPE_CHECKING:
    from primbench.kernels.norm.problem import Norm
    from primbench.problem import Step

BLOCK = 512  # threads, as in backward.cu
HELD_BYTES = 32  # of a row of x that a thread holds at most, in registers of REGISTER_BYTES
REGISTER_BYTES = 4
LONG_THREADS, LONG_BLOCKS = 256, 4  # of a row that no block holds, and blocks for each multiprocessor


class Plan(NamedTuple):
    """pack elements a load, held loads a thread or 0 where a block cannot hold a row, threads a row."""

    pack: int
    held: int
    threads: int

    @property
    def rows(self) -> int:
        """Of a block."""
        return BLOCK // self.threads

    def slices(self, problem: Norm, multiprocessors: int) -> int:
        """Parts of the rows, whose sums are made apart: as many as blocks that run at once, or rows of blocks."""
        if self.held:
            return min(problem.rows, multiprocessors * (2 if self.held == 1 else 1))
        return min(problem.rows, -(-LONG_BLOCKS * multiprocessors // self.across(problem)))

    def across(self, problem: Norm) -> int:
        """Blocks beside each other that a long row takes."""
        return -(-problem.features // (self.pack * self.threads))


def plan_of(features: int, dtype: str) -> Plan:
    pack = math.gcd(features, rows.LOAD_BYTES // itemsize_bytes(dtype))
    loads, most = features // pack, HELD_BYTES // max(REGISTER_BYTES, pack * itemsize_bytes(dtype))
    threads = rows.WARP
    while threads < BLOCK and threads * most < loads:
        threads *= 2
    held = -(-loads // threads)
    return Plan(pack, held, threads) if held <= most else Plan(pack, 0, LONG_THREADS)


def options(problem: Norm, plan: Plan) -> tuple[str, ...]:
    """The compiler's."""
    return (
        f"-DSTORED={rows.STORED[problem.dtype]}", f"-DPACK={plan.pack}", f"-DHELD={max(1, plan.held)}",
        f"-DTHREADS={plan.threads}", f"-DRMS={int(problem.kind == 'rms')}",
    )  # fmt: skip


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
        launches = [launch("gradients", (slices,), block, *read, dx, sums, *sizes)]
    else:
        across = plan.across(problem), slices
        launches = [
            launch("sums_of_rows", each_row, block, *read, of_rows, *sizes),
            launch("gradients_of_long_rows", across, (plan.threads,), *read, of_rows, dx, sums, *sizes),
        ]
    grid, threads = (-(-problem.features // rows.WARP), len(of_vectors)), (rows.WARP, BLOCK // rows.WARP)
    launches.append(launch("total", grid, threads, sums, of_vectors[0], of_vectors[-1], slices, problem.features))
    algorithm = f"own CUDA kernels, {len(launches)} launches, rows in {slices} slices"
    return described(in_turn(launches, Outputs(backend, (dx, *of_vectors))), algorithm=algorithm)
