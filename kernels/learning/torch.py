"""Trainings by torch."""

from __future__ import annotations

import itertools
import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase, VerificationError
from primbench.kernels.model._step import Training, autocast
from primbench.kernels.model.torch import refuse, set_precision
from primbench.measurement.learnt import Learnt, first_unlike
from primbench.problem import Step, described, kernel
from primbench.registry.networks import network

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.devices import Device
    from primbench.kernels.learning.problem import Learning
    from primbench.problem import Array
    from primbench.problem.network import Network

Batch = tuple[Any, ...]
CUBLAS = "CUBLAS_WORKSPACE_CONFIG"
REPEATABLE = (":4096:8", ":16:8")  # of cuBLAS's workspaces, the two of which it says that sums have one order


@kernel("learning", "torch")
def torch_learning(backend: Any, problem: Learning, *inputs: Any) -> Step:
    """Makes every training once, which the calls then repeat.

    Raises UnsupportedCase for what a CPU cannot do, or the network cannot, or not always in the same way.
    """
    import torch

    found = network(problem.network)
    on_gpu = backend.device.is_gpu
    refuse(problem.step, found, on_gpu=on_gpu)
    if on_gpu:
        set_precision(torch, problem.step)
        _refuse_workspace(problem)
    trainings = _Trainings(found, problem, backend.device, inputs)
    # stream_only: weights are brought to a GPU while it goes, and losses back, which no graph can hold.
    # waits: else it would be tried behind a kernel that holds the stream, for a second in vain.
    waits = "a training reads its losses, and waits for the GPU"
    return described(trainings, learnt=trainings.learnt, host_buffers=[], stream_only=True, waits=waits)


def _refuse_workspace(problem: Learning) -> None:
    if problem.deterministic and os.environ.get(CUBLAS) not in REPEATABLE:
        raise UnsupportedCase(
            f"learning deterministic=True on a GPU: cuBLAS needs {CUBLAS}={REPEATABLE[0]} in the environment from the "
            f"start, and it is {os.environ.get(CUBLAS, 'not set')}: export it before primbench is called"
        )


class _Trainings:
    """Calls train from the next of the seeds and return this object, which says whether they have learnt."""

    def __init__(self, found: Network, problem: Learning, device: Device, inputs: Sequence[Any]) -> None:
        self._network, self._problem, self._device = found, problem, device
        parts = len(inputs) // (1 if found.classes is None else 2)
        self._batches, held_out = _batches(inputs[:parts]), _batches(inputs[parts:])
        self._seeds = itertools.cycle(range(problem.seeds))
        self._losses: list[list[float | None]] = []
        right = []
        for seed in range(problem.seeds):
            losses, module = self._train(seed)
            self._losses.append(losses)
            right.append(self._right(module, held_out))
        self._again, self._unlike = 0, list[int]()
        self._right_about = right if held_out else None
        self._held_out = len(held_out) * problem.batch_size

    def __call__(self) -> Any:
        seed = next(self._seeds)
        losses, _ = self._train(seed)
        self._again += 1
        if (step := first_unlike(self._losses[seed], losses)) is not None:
            self._unlike.append(step)
        return self

    def poison(self) -> None:
        """Nothing is left of a call but its losses, which have been compared."""

    def get(self) -> Array:
        """int32[1]. Raises VerificationError where it has not learnt."""
        import numpy as np

        found = self.learnt()
        if not found.loss_fell or found.beats_chance is False:
            raise VerificationError(f"{_words(found)}: it has not learnt in {self._problem.steps} steps")
        return np.ones(1, np.int32)

    def learnt(self) -> Learnt:
        classes = self._network.classes
        return Learnt(
            losses=self._losses,
            right=self._right_about,
            held_out=self._held_out,
            chance=None if classes is None else 1 / self._network.kinds,
            deterministic=self._problem.deterministic,
            again=self._again,
            first_unlike=min(self._unlike, default=None),
            missing={} if classes else {"right": f"{self._problem.network} has no classes to be right about"},
        )

    def _train(self, seed: int) -> tuple[list[float | None], Any]:
        """The loss of every step, and the network that they made."""
        import torch

        problem = self._problem
        with _drawing_from(seed, self._device), _repeatable(wanted=problem.deterministic):
            training = Training(self._network, problem.step, self._device, self._batches[0], seed=seed)
            losses = []
            for batch in itertools.islice(itertools.cycle(self._batches), problem.steps):
                training.inputs = batch
                losses.append(training().loss.detach())
            found = torch.stack(losses).double().cpu()
        return [float(each) if each.isfinite() else None for each in found], training.module

    def _right(self, module: Any, held_out: Sequence[Batch]) -> int:
        import torch

        with torch.no_grad(), autocast(self._problem.step, self._device):
            _renormed(module, self._predict, self._batches)
            module.eval()
            asked = (self._network.right(self._predict(module, each), *each) for each in held_out)
            return sum(int(each.sum()) for each in asked)

    def _predict(self, module: Any, batch: Batch) -> Any:
        return self._network.predict(module, *batch)


def _batches(parts: Sequence[Any]) -> list[Batch]:
    return list(zip(*parts, strict=True))


def _renormed(module: Any, predict: Callable[[Any, Batch], Any], batches: Sequence[Batch]) -> None:
    """With the means and variances that its batch norms see under its last weights.

    Those that it has kept are of all steps, the first ones too: a momentum of 0.001 takes thousands of steps to forget.
    """
    from torch.nn.modules.batchnorm import _BatchNorm

    norms = [each for each in module.modules() if isinstance(each, _BatchNorm)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a mean over all batches
    if norms:
        for batch in batches:
            predict(module, batch)


@contextmanager
def _drawing_from(seed: int, device: Device) -> Iterator[None]:
    """Random numbers of this seed, on the host and the device; those of the process go on afterwards."""
    import torch

    with torch.random.fork_rng(devices=[torch.device(str(device))] if device.is_gpu else []):
        torch.manual_seed(seed)
        yield


@contextmanager
def _repeatable(*, wanted: bool) -> Iterator[None]:
    """Raises UnsupportedCase for an operation that torch has no such algorithm of."""
    import torch

    cudnn = torch.backends.cudnn
    before = torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark
    with ExitStack() as undone:
        undone.callback(_choose, *before)
        if wanted:
            _choose(always_the_same=True, by_cudnn=True, by_trying=False)
        try:
            yield
        except RuntimeError as error:
            if not wanted or "deterministic" not in str(error):
                raise
            raise UnsupportedCase(f"learning deterministic=True: {str(error).partition('.')[0]}") from error


def _choose(always_the_same: bool, by_cudnn: bool, by_trying: bool) -> None:  # noqa: FBT001
    import torch

    torch.use_deterministic_algorithms(always_the_same)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = by_cudnn, by_trying


def _words(found: Learnt) -> str:
    first, last = (sum(each) / len(each) for each in (found.first_losses, found.last_losses))
    losses = f"loss {first:.4g} at first, {last:.4g} at last"
    if found.right is None or found.chance is None:
        return losses
    asked = len(found.right) * found.held_out
    return (
        f"{losses}, right about {sum(found.right)} of {asked} held-out examples, {asked * found.chance:.0f} by guessing"
    )
