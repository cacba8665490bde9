"""A network that several ranks train together, and the same step without what they do for each other."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from primbench.kernels.model._step import Training, autocast
from primbench.kernels.model._values import gradients
from primbench.timing.calls import CallLoop
from primbench.timing.sampling import Pace, collect, main_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.backends import Backend
    from primbench.devices import Device
    from primbench.distributed.group import Group
    from primbench.kernels.model.problem import Model
    from primbench.measurement import Samples
    from primbench.problem import Step
    from primbench.problem.network import Network
    from primbench.spec.method import Method

SAMPLE_S = 10e-3  # of steps one behind the other, so that a GPU waits for the first alone


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


def in_alternation(backend: Backend, step: Step, other: Step) -> Callable[[Method, Pace], tuple[Samples, Samples]]:
    """What times both, as often as one needs, by turns: whatever slows the machine meanwhile is to slow both."""

    @functools.cache
    def taken(method: Method, pace: Pace) -> tuple[Samples, Samples]:
        (call_s,) = _timed(backend, step, 1, pace)()
        count = math.ceil(SAMPLE_S / call_s)
        take, take_other = (_timed(backend, each, count, pace) for each in (step, other))
        samples_of_other: list[float] = []

        def take_both() -> list[float]:
            samples_of_other.extend(take_other())
            return take()

        samples = collect(take_both, main_rule(method), pace, calls_per_sample=count, taken_by="host clock")
        return samples, replace(samples, samples_s=samples_of_other)

    return taken


def _timed(backend: Backend, step: Step, count: int, pace: Pace) -> Callable[[], list[float]]:
    """Seconds a call, of ``count`` that are waited for together."""
    calls = CallLoop([step])

    def calls_and_wait() -> None:
        calls(count)
        backend.synchronize()

    take = pace.host_timed(CallLoop([calls_and_wait]), 1)
    return lambda: [each / count for each in take()]
