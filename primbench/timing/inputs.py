"""The steps that a case calls: on one set of inputs, or on as many as it takes to find the cache cold at every call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from primbench.errors import UnsupportedCase
from primbench.registry import setup_of
from primbench.system import memory
from primbench.timing.feasibility import check_memory
from primbench.timing.pages import extents_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.backends import Backend
    from primbench.numa.pages import Extent
    from primbench.problem import Array, Problem, Step
    from primbench.spec.method import Method

MAX_SETS = 4096


def set_up(
    backend: Backend, problem: Problem, inputs: Sequence[Array], method: Method
) -> tuple[list[Step], list[Extent]]:
    """The steps of every input set, and where the host memory lies that they were given."""
    kernel = setup_of(problem.primitive, backend.name)
    sets = input_sets(backend, problem, method)
    if sets > 1:
        check_memory(backend, problem, sets)
    steps, extents = [], []
    for _ in range(sets):
        arrays = [backend.put(each) for each in inputs]
        extents += extents_of(backend, arrays)
        steps.append(kernel(backend, problem, *arrays))
    return steps, extents


def first_calls(backend: Backend, steps: Sequence[Step]) -> list[Extent]:
    """Call every step once, which loads and tunes what is lazy. Returns where in host memory the outputs lie."""
    extents = [extent for step in steps for extent in extents_of(backend, [step()])]
    backend.synchronize()
    return extents


def input_sets(backend: Backend, problem: Problem, method: Method) -> int:
    """One when hot, enough to exceed twice the last-level cache when cold. Raises UnsupportedCase for too many."""
    sets = 1 if method.cache == "hot" else cold_sets(problem.memory_bytes(), last_level_cache_bytes(backend))
    if sets > MAX_SETS:
        raise UnsupportedCase(f"a cold cache would need {sets} sets of inputs, {MAX_SETS} are the limit: a larger size")
    return sets


def cold_sets(set_bytes: int, cache_bytes: int) -> int:
    """Input sets that together exceed twice the cache: between two uses of one, all the others pass through."""
    return math.ceil(2 * cache_bytes / set_bytes) + 1


def last_level_cache_bytes(backend: Backend) -> int:
    """Size of the cache nearest to memory: a GPU's L2, or the largest cache that sysfs names for the host."""
    if backend.device == "cpu":
        return memory.last_level_cache_bytes()
    from primbench.cuda import driver

    return driver.l2_cache_bytes()
