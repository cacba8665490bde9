"""A convolutional network for handwritten digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from primbench.problem.examples import Idx
from primbench.problem.network import Network

if TYPE_CHECKING:
    from collections.abc import Iterable

    from primbench.dtypes import Array


class MnistCnn(Network, name="mnist_cnn"):
    """Two convolutions and two dense layers for MNIST, as in pytorch/examples."""

    batch_size = 64
    original = "pytorch/examples mnist: NLL, Adadelta with a rate of 1"
    classes = 10
    on_disk = Idx(mean=0.1307, sd=0.3081)

    def module(self) -> Any:
        kept = 1.0 if self.draws else 0.0
        return nn.Sequential(
            nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25 * kept),
            nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5 * kept), nn.Linear(128, 10), nn.LogSoftmax(1),
        )  # fmt: skip

    def inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        images = rng.standard_normal((batch_size, 1, 28, 28), np.float32)
        return images, rng.integers(0, 10, batch_size)

    def predict(self, module: Any, *inputs: Any) -> Any:
        return module(inputs[0])

    def loss(self, module: Any, *inputs: Any) -> Any:
        return nn.functional.nll_loss(module(inputs[0]), inputs[1])

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.Adadelta(parameters, lr=1.0)

    def flop(self, batch_size: int) -> int:
        return 2 * batch_size * (26 * 26 * 9 * 32 + 24 * 24 * 9 * 32 * 64 + 9216 * 128 + 128 * 10)
