"""A network that several ranks train together, and the same step without what they do for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from primbench.kernels.model._step import Training, autocast
from primbench.kernels.model._values import gradients

if TYPE_CHECKING:
    from primbench.devices import Device
    from primbench.distributed.group import Group
    from primbench.kernels.model.problem import Model
    from primbench.problem.network import Network


class _Loss(nn.Module):
    """The loss as a module's output: DistributedDataParallel sees to what is called through it, and some losses read
    weights themselves."""

    def __init__(self, network: Network, module: Any) -> None:
        super().__init__()
        self.module = module
        self._network = network

    def forward(self, *inputs: Any) -> Any:
        return self._network.loss(self.module, *inputs)


class OnRanks(Training):
    """Calls have the loss of this rank's batch, and the mean of all ranks' gradients.

    DistributedDataParallel is as scripts have it by default: gradients are summed in buckets while others are still
    computed, buffers such as batch norm's are those of rank 0.

    gradient_bytes: what a rank brings to the all-reduce of a step.
    """

    def __init__(
        self, network: Network, problem: Model, device: Device, inputs: tuple[Any, ...], *, group: Group
    ) -> None:
        super().__init__(network, problem, device, inputs)
        with autocast(problem, device):
            loss = network.loss(self.module, *inputs)
        loss.backward()
        found = gradients(self.module)
        trained = [each for each in self.module.parameters() if each.requires_grad]
        self.gradient_bytes = sum(map(_bytes, found))
        # Else it waits for gradients that never come; to look for them takes a pass over the graph in each step, and
        # ranks tell each other.
        is_one_left_out = group.agree(len(found) < len(trained), any)
        self._together = DistributedDataParallel(_Loss(network, self.module), find_unused_parameters=is_one_left_out)

    def __call__(self) -> Any:
        return self.step(self._together)

    def alone(self) -> Any:
        """A step past DistributedDataParallel, with the gradients of this rank's batch; weights of ranks then differ.

        As within its no_sync(), which would leave buffers to be sent or not by what the step before was.
        """
        return self.step(self.loss_of)


def _bytes(gradient: Any) -> int:
    """Of one that is sparse, what it holds."""
    parts = [gradient._indices(), gradient._values()] if gradient.is_sparse else [gradient]  # noqa: SLF001
    return sum(each.numel() * each.element_size() for each in parts)
