"""The small and the large network of a study of Singularity on a cluster, which did not publish their widths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from primbench.problem.examples import Idx
from primbench.problem.network import Network

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from primbench.dtypes import Array

CHANNELS, SIDE, CLASSES = 2, 256, 5


class _Pooled(Network):
    """Convolutions of 3 x 3, each followed by ReLU, in groups that end with a pool; then dense layers."""

    classes = CLASSES
    on_disk = Idx()
    widths: Sequence[Sequence[int]]
    dense: Sequence[int]

    def module(self) -> Any:
        layers, channels, dropout = list[Any](), CHANNELS, 0.5 if self.draws else 0.0
        for group in self.widths:
            for width in group:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2))
        layers.append(nn.Flatten())
        features = channels * (SIDE >> len(self.widths)) ** 2
        for width in self.dense:
            layers += [nn.Dropout(dropout), nn.Linear(features, width), nn.ReLU()]
            features = width
        return nn.Sequential(*layers[:-1])

    def inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """float32[batch, 2, 256, 256] of grey values, and classes."""
        images = rng.integers(0, 256, (batch_size, CHANNELS, SIDE, SIDE), np.uint8) / np.float32(255)
        return images, rng.integers(0, CLASSES, batch_size)

    def predict(self, module: Any, *inputs: Any) -> Any:
        return module(inputs[0])

    def loss(self, module: Any, *inputs: Any) -> Any:
        return nn.functional.cross_entropy(module(inputs[0]), inputs[1])

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.Adam(parameters, lr=1e-3)

    def flop(self, batch_size: int) -> int:
        counted, channels = 0, CHANNELS
        for pools, group in enumerate(self.widths):
            for width in group:
                counted += (SIDE >> pools) ** 2 * 9 * channels * width
                channels = width
        features = channels * (SIDE >> len(self.widths)) ** 2
        for width in self.dense:
            counted += features * width
            features = width
        return 2 * batch_size * counted


class Snn(_Pooled, name="snn"):
    """Small: three convolutions and two dense layers for two grey channels of 256 x 256."""

    batch_size = 301
    original = (
        "a study of Singularity (HPEC 2019), 10 layers: their number and kinds are published, "
        "widths of 32, 64, 64 and 128, loss and optimiser are assumed"
    )
    widths = ((32,), (64,), (64,))
    dense = (128, CLASSES)


class Lnn(_Pooled, name="lnn"):
    """Large: eight convolutions and four dense layers for two grey channels of 256 x 256."""

    batch_size = 301
    original = (
        "a study of Singularity (HPEC 2019), 28 layers: their number and kinds are published, "
        "widths of 32 to 256 and 512, loss and optimiser are assumed"
    )
    widths = ((32, 32), (64, 64), (128, 128), (256, 256))
    dense = (512, 512, 128, CLASSES)
