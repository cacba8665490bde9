"""A network on a device, and one step of it."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from primbench.kernels.model._values import SEED, gradients, module_of, values_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from primbench.devices import Device
    from primbench.kernels.model.problem import Model
    from primbench.problem import Array
    from primbench.problem.network import Network


def autocast(problem: Model, device: Device) -> AbstractContextManager[None]:
    import torch

    if problem.dtype == "float32":
        return nullcontext()
    context: AbstractContextManager[None] = torch.autocast(device.kind, getattr(torch, problem.dtype))
    return context


class Inference:
    """Calls return the predictions. inputs: which later calls are given."""

    def __init__(self, network: Network, problem: Model, device: Device, inputs: tuple[Any, ...]) -> None:
        self.module = module_of(network, str(device)).eval()
        self._network, self._problem, self._device, self.inputs = network, problem, device, inputs

    def __call__(self) -> Any:
        import torch

        with torch.no_grad(), autocast(self._problem, self._device):
            return self._network.predict(self.module, *self.inputs)


class Training:
    """Calls return this object, which has the loss and the gradients of the last one. inputs: of the next call."""

    def __init__(
        self, network: Network, problem: Model, device: Device, inputs: tuple[Any, ...], *, seed: int = SEED
    ) -> None:
        self._first = partial(module_of, network, str(device), seed)
        self.module = self._first().train()
        self.inputs = inputs
        self._network, self._problem, self._device = network, problem, device
        self._optimiser = network.optimiser(self.module.parameters())
        for group in self._optimiser.param_groups:
            if "capturable" in group:  # Adam and others count their steps; in a GPU's memory, a graph can do so
                group["capturable"] = device.is_gpu
        self.loss: Any = None
        self.loss_of = partial(network.loss, self.module)

    def __call__(self) -> Any:
        return self.step(self.loss_of)

    def step(self, loss_of: Callable[..., Any]) -> Any:
        """A call, of which the loss of the inputs is computed so."""
        self._optimiser.zero_grad(set_to_none=True)
        with autocast(self._problem, self._device):
            self.loss = loss_of(*self.inputs)
        self.loss.backward()
        self._network.after_backward(self.module)
        self._optimiser.step()
        return self

    def poison(self) -> None:
        """Back to the weights of the beginning, where the reference is; the optimiser's moments do not matter there."""
        import torch

        self.module.load_state_dict(self._first().state_dict())
        with torch.no_grad():
            for written in (self.loss, *gradients(self.module)):
                (written.coalesce().values() if written.is_sparse else written).fill_(float("nan"))

    def get(self) -> Array:
        return values_of(self.loss, self.module)
