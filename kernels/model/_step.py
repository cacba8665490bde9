"""A network on a device, and one step of it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from primbench.kernels.model._values import gradients, module_of, values_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from primbench.kernels.model.problem import Model
    from primbench.problem import Array
    from primbench.problem.network import Network


def autocast(problem: Model, device: str) -> AbstractContextManager[None]:
    import torch

    if problem.dtype == "float32":
        return nullcontext()
    context: AbstractContextManager[None] = torch.autocast(device.partition(":")[0], getattr(torch, problem.dtype))
    return context


class Inference:
    """Calls return the predictions."""

    def __init__(self, network: Network, problem: Model, device: str, inputs: tuple[Any, ...]) -> None:
        self.module = module_of(network, device).eval()
        self._network, self._problem, self._device, self._inputs = network, problem, device, inputs

    def __call__(self) -> Any:
        import torch

        with torch.no_grad(), autocast(self._problem, self._device):
            return self._network.predict(self.module, *self._inputs)


class Training:
    """Calls return this object, which has the loss and the gradients of the last one."""

    def __init__(self, network: Network, problem: Model, device: str, inputs: tuple[Any, ...]) -> None:
        self.module = module_of(network, device).train()
        self._network, self._problem, self._device, self._inputs = network, problem, device, inputs
        self._optimiser = network.optimiser(self.module.parameters())
        self._initial = {name: value.detach().clone() for name, value in self.module.state_dict().items()}
        self._loss: Any = None

    def __call__(self) -> Any:
        self._optimiser.zero_grad(set_to_none=True)
        with autocast(self._problem, self._device):
            self._loss = self._network.loss(self.module, *self._inputs)
        self._loss.backward()
        self._network.after_backward(self.module)
        self._optimiser.step()
        return self

    def poison(self) -> None:
        """Back to the weights of the beginning, where the reference is; the optimiser's moments do not matter there."""
        import torch

        self.module.load_state_dict(self._initial)
        with torch.no_grad():
            for written in (self._loss, *gradients(self.module)):
                (written.coalesce().values() if written.is_sparse else written).fill_(float("nan"))

    def get(self) -> Array:
        return values_of(self._loss, self.module)
