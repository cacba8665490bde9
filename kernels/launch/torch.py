"""Launch on torch: its smallest operations, its graphs, and the driver on its stream."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.launch._cuda import Replay, cuda_step
from primbench.kernels.launch._first import first_timed
from primbench.kernels.launch._no_framework import step_without_framework
from primbench.kernels.launch._sealed import sealable
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.kernels.launch.problem import Launch


@kernel("launch", "torch")
@first_timed
@sealable
def torch_launch(backend: Any, problem: Launch, *inputs: Any) -> Step:
    """torch.add by itself or in a layer above it, Triton's addition, or zero_ for an empty kernel: of one element."""
    if (step := step_without_framework(backend, problem)) is not None:
        return step
    if problem.parameter_bytes:
        raise UnsupportedCase("torch launches no kernels with parameters of one's own: ask for call=driver")
    y = backend.empty((1,), "float32")
    launch = _ADDITIONS[problem.call](backend, inputs[0], y) if inputs else _zeroing(y)
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


def _addition(backend: Any, x: Any, y: Any) -> Step:
    import torch

    return described(functools.partial(torch.add, x, 1, out=y), algorithm="torch.add")


def _module(backend: Any, x: Any, y: Any) -> Step:
    import torch

    def forward(self: Any, x: Any, y: Any) -> Any:
        return torch.add(x, 1, out=y)

    module = type("AddOne", (torch.nn.Module,), {"forward": forward})()
    return described(functools.partial(module, x, y), algorithm="torch.nn.Module")


def _custom_op(backend: Any, x: Any, y: Any) -> Step:
    add_one = _registered()

    def step() -> Any:
        add_one(x, y)
        return y

    return described(step, algorithm="torch.library.custom_op")


@functools.cache
def _registered() -> Any:
    """The operator, which a process can define once."""
    import torch

    def add_one(x: Any, y: Any) -> None:
        torch.add(x, 1, out=y)

    return torch.library.custom_op(
        "primbench::add_one", add_one, mutates_args=("y",), schema="(Tensor x, Tensor(a!) y) -> ()"
    )


def _compiled(backend: Any, x: Any, y: Any) -> Step:
    from primbench.backends.torch import compiled

    return compiled(_addition(backend, x, y))


def _triton(backend: Any, x: Any, y: Any) -> Step:
    from primbench.backends._triton import need_triton

    need_triton(backend)
    from primbench.kernels.launch._triton import add_one

    return described(functools.partial(add_one, x, y), algorithm="triton")


def _zeroing(y: Any) -> Step:
    return described(functools.partial(y.zero_), algorithm="torch.Tensor.zero_")


_ADDITIONS: dict[str, Callable[[Any, Any, Any], Step]] = {
    "dispatch": _addition,
    "module": _module,
    "custom_op": _custom_op,
    "compiled": _compiled,
    "triton": _triton,
}
