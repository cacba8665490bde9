"""What the networks for images have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn
from torch.nn import functional

from primbench.problem.network import Network

if TYPE_CHECKING:
    from primbench.dtypes import Array


class OfImages(Network):
    """Given images and the class of each. multiply_adds: of a forward pass of one image, by weights alone."""

    side: int = 224
    classes = 1000
    multiply_adds: int

    def inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """float32[batch, 3, side, side] of -1 to 1, and int64[batch]."""
        images = rng.random((batch_size, 3, self.side, self.side), np.float32) * 2 - 1
        return images, rng.integers(0, self.classes, batch_size)

    def predict(self, module: Any, *inputs: Any) -> Any:
        return module(inputs[0])

    def loss(self, module: Any, *inputs: Any) -> Any:
        return functional.cross_entropy(module(inputs[0]), inputs[1])

    def dropout(self, share: float) -> nn.Dropout:
        return nn.Dropout(share if self.draws else 0.0)

    def flop(self, batch_size: int) -> int:
        return 2 * batch_size * self.multiply_adds
