"""Launch on torch: its smallest operations, its graphs, and the driver on its stream."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.launch._cuda import Replay, cuda_step
from primbench.kernels.launch._no_framework import step_without_framework
from primbench.kernels.launch._sealed import sealable
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.launch.problem import Launch


@kernel("launch", "torch")
@sealable
def torch_launch(backend: Any, problem: Launch, *inputs: Any) -> Step:
    """torch.add, or zero_ where an empty kernel is asked for, each of one element."""
    if (step := step_without_framework(backend, problem)) is not None:
        return step
    if problem.parameter_bytes:
        raise UnsupportedCase("torch launches no kernels with parameters of one's own: ask for call=driver")
    y = backend.empty((1,), "float32")
    launch = _addition(inputs[0], y) if inputs else _zeroing(y)
    if not backend.device.is_gpu:
        return launch

    def capture(enqueue: Callable[[], None]) -> Replay:
        graph = backend.capture(enqueue)
        replay = graph.replay

        def step() -> Any:
            replay()
            return y

        return graph.nodes, step

    return cuda_step(backend, problem, [launch] * max(1, problem.nodes), capture)


def _addition(x: Any, y: Any) -> Step:
    import torch

    return described(functools.partial(torch.add, x, 1, out=y), algorithm="torch.add")


def _zeroing(y: Any) -> Step:
    return described(functools.partial(y.zero_), algorithm="torch.Tensor.zero_")
