"""Optimizers on torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.optimizer.problem import BETAS, EPSILON, LEARNING_RATE, MOMENTUM, STEPS_BEFORE, WEIGHT_DECAY
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.optimizer.problem import Optimizer
    from primbench.problem import Array

MOMENTS = {"sgd": ("momentum_buffer",), "adam": ("exp_avg", "exp_avg_sq"), "adamw": ("exp_avg", "exp_avg_sq")}


@kernel("optimizer", "torch")
def torch_optimizer(backend: Any, problem: Optimizer, *inputs: Any) -> Step:
    """torch.optim's own step(). On a GPU Adam counts its steps there (capturable), as a graph of it has to."""
    import torch

    on_gpu = backend.device.is_gpu
    if not on_gpu and (problem.method, problem.algo, problem.dtype) == ("sgd", "fused", "bfloat16"):
        # From 16 elements on, torch 2.13's momentum is off by as much as it is: found by the check.
        raise UnsupportedCase("torch's fused sgd on a CPU is wrong in bfloat16: ask for algo=foreach or dtype=float32")
    given, gradients, *moments = inputs
    parameters = [torch.nn.Parameter(each.clone()) for each in given]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    try:
        optimizer = _made(torch, problem, parameters, on_gpu=on_gpu)
    except (RuntimeError, TypeError) as error:
        raise UnsupportedCase(
            f"torch {torch.__version__} has no {problem.algo} {problem.method} here: {error}"
        ) from None
    updated = Updated(backend, problem, optimizer, [given, *moments])
    updated.poison()

    def step() -> Any:
        optimizer.step()
        return updated

    capturable = ", capturable" if problem.method != "sgd" and on_gpu else ""
    return described(step, algorithm=f"torch.optim, {problem.algo}{capturable}")


def _made(torch: Any, problem: Optimizer, parameters: list[Any], *, on_gpu: bool) -> Any:
    how = {"foreach": problem.algo == "foreach", "fused": problem.algo == "fused"}
    if problem.method == "sgd":
        return torch.optim.SGD(parameters, LEARNING_RATE, MOMENTUM, **how)
    decay = WEIGHT_DECAY if problem.method == "adamw" else 0.0
    made = torch.optim.AdamW if problem.method == "adamw" else torch.optim.Adam
    return made(parameters, LEARNING_RATE, BETAS, EPSILON, decay, capturable=on_gpu, **how)


@dataclass(frozen=True)
class Updated:
    """Parameters and moments that a call updates in place, as the output of a step."""

    backend: Any
    problem: Optimizer
    optimizer: Any
    given: list[Any]
    """What they are before the first call: an array of each kind, a row for each parameter."""

    def poison(self) -> None:
        """As before the first call: an element that the next call leaves out is no update."""
        import torch

        names, steps_there = MOMENTS[self.problem.method], self.problem.algo == "fused" or self.backend.device.is_gpu
        with torch.no_grad():
            for number, parameter in enumerate(self._parameters):
                parameter.copy_(self.given[0][number])
                state = self.optimizer.state[parameter]
                for name, moments in zip(names, self.given[1:], strict=True):
                    state.setdefault(name, torch.empty_like(parameter)).copy_(moments[number])
                if self.problem.method != "sgd":
                    where = str(self.backend.device) if steps_there else "cpu"
                    state.setdefault("step", torch.empty((), dtype=torch.float32, device=where)).fill_(STEPS_BEFORE)

    def get(self) -> Array:
        """float32: all parameters, then all of each moment."""
        import numpy as np

        kinds = [self._parameters]
        for name in MOMENTS[self.problem.method]:
            kinds.append([self.optimizer.state[parameter][name] for parameter in self._parameters])
        arrays = (self.backend.get(array.detach()) for kind in kinds for array in kind)
        return np.concatenate([array.astype(np.float32) for array in arrays])

    @property
    def _parameters(self) -> list[Any]:
        found: list[Any] = self.optimizer.param_groups[0]["params"]
        return found
