"""Copies within the host, by the backend's own means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.numa.buffers import host_buffer
from primbench.problem import described

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.problem import Array, Step


def host_step(backend: Any, problem: Any, x: Any) -> Step:
    """problem: a Memcpy. The step says its ``algorithm``, what copies in how many threads, and
    ``host_buffers``."""
    if problem.direction != "h2h":
        raise UnsupportedCase(f"{problem.direction} needs a GPU: ask for direction=h2h")
    nodes = [None if node < 0 else node for node in (problem.src_node, problem.dst_node)]
    source, destination = (host_buffer(problem.bytes, node) for node in nodes)
    source[:] = backend.get(x)
    step = _STEPS[backend.name](source, destination)
    return described(step, host_buffers=list(zip((source, destination), nodes, strict=True)))


def _numpy_step(source: Array, destination: Array) -> Step:
    import numpy as np

    def step() -> Any:
        np.copyto(destination, source)
        return destination

    return described(step, algorithm="numpy.copyto, 1 thread")


def _torch_step(source: Array, destination: Array) -> Step:
    import torch

    origin, copy = torch.from_numpy(source), torch.from_numpy(destination).copy_

    def step() -> Any:
        return copy(origin)

    return described(step, algorithm=f"torch.Tensor.copy_, up to {torch.get_num_threads()} threads")


def _numba_step(source: Array, destination: Array) -> Step:
    """The step, which has been called once, so that no later call compiles."""
    import numba

    from primbench.kernels.memcpy._numba_cpu import copy

    threads = numba.get_num_threads()
    copy(source, destination, threads)

    def step() -> Any:
        copy(source, destination, threads)
        return destination

    return described(step, algorithm=f"compiled loop, {threads} threads")


_STEPS: dict[str, Callable[[Array, Array], Step]] = {"numpy": _numpy_step, "torch": _torch_step, "numba": _numba_step}
