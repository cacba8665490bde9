"""Launch on torch: its smallest operations, its graphs, and the driver on its stream."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.launch._cuda import Replay, cuda_step, refuse_what_cpus_do
from primbench.kernels.launch._sealed import sealable
from primbench.problem import Step, kernel

if TYPE_CHECKING:
    from primbench.kernels.launch.problem import Launch


@kernel("launch", "torch")
@sealable
def torch_launch(backend: Any, problem: Launch, *inputs: Any) -> Step:
    """torch.add, or zero_ where an empty kernel is asked for, each of one element."""
    import torch

    on_cpu = backend.device == "cpu"
    if on_cpu and (problem.call != "dispatch" or problem.nodes):
        from primbench.kernels.launch._host import host_step

        return host_step(problem)
    refuse_what_cpus_do(problem)
    if problem.call in ("driver", "ctypes"):
        from primbench.kernels.launch._driver import driver_step

        return driver_step(backend, problem)
    if problem.parameter_bytes:
        raise UnsupportedCase("torch launches no kernels with parameters of one's own: ask for call=driver")
    y = backend.empty((1,), "float32")
    launch: Any = functools.partial(torch.add, inputs[0], 1, out=y) if inputs else functools.partial(y.zero_)
    launch.algorithm = "torch.add" if inputs else "torch.Tensor.zero_"
    if on_cpu:
        return launch  # type: ignore[no-any-return]

    def capture(enqueue: Callable[[], None]) -> Replay:
        graph = backend.capture(enqueue)
        replay = graph.replay

        def step() -> Any:
            replay()
            return y

        return graph.nodes, step

    return cuda_step(backend, problem, [launch] * max(1, problem.nodes), capture)
