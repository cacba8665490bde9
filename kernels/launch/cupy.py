"""Launch on CuPy: a RawKernel, its ufunc, its graphs, and the driver on its stream."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from primbench.kernels.launch._cuda import Replay, cuda_step, parameters
from primbench.kernels.launch._first import first_timed
from primbench.kernels.launch._no_framework import step_without_framework
from primbench.kernels.launch._sealed import sealable
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.launch.problem import Launch

_ONE = (1,)  # grid and block


@kernel("launch", "cupy")
@first_timed
@sealable
def cupy_launch(backend: Any, problem: Launch, *inputs: Any) -> Step:
    if (step := step_without_framework(backend, problem)) is not None:
        return step
    launches, output = _addition(backend, problem, *inputs) if inputs else _raw_kernels(backend, problem)
    return cuda_step(backend, problem, launches, lambda enqueue: _replay(backend, enqueue, output))


def _addition(backend: Any, problem: Launch, x: Any) -> tuple[list[Step], Any]:
    import cupy

    y = backend.empty((1,), "float32")
    return [functools.partial(cupy.add, x, 1, out=y)] * max(1, problem.nodes), y


def _raw_kernels(backend: Any, problem: Launch) -> tuple[list[Step], Any]:
    """One kernel for each node, and their output; without parameters they write nothing, and it is None."""
    import cupy

    from primbench.cuda import kernels

    source = kernels.text_of("launch", "launch.cu")
    if not problem.parameter_bytes:
        empty = cupy.RawKernel(source, "empty")
        return [functools.partial(empty, _ONE, _ONE, ())] * max(1, problem.nodes), None
    last_word = cupy.RawKernel(source, "last_word", (f"-DPARAMETER_BYTES={problem.parameter_bytes}",))
    output = backend.empty((max(1, problem.nodes),), "int32")

    def launch_of(words: Any) -> Step:
        # CuPy passes an array of NumPy by value if it has one element.
        arguments = (words.view(f"V{words.nbytes}"),)

        def launch() -> Any:
            last_word(_ONE, _ONE, arguments)
            return output

        return launch

    return [launch_of(words) for words in parameters(problem, output)], output


def _replay(backend: Any, enqueue: Callable[[], None], output: Any) -> Replay:
    from primbench.gpu.nvidia import driver

    backend.stream.begin_capture()
    try:
        enqueue()
        nodes = driver.nodes_being_captured(backend.stream_handle)
    finally:
        graph = backend.stream.end_capture()

    def step() -> Any:
        graph.launch()
        return output

    return nodes, step
