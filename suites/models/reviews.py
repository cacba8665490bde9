"""A recurrent network for the sentiment of reviews."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from primbench.problem.examples import Csv
from primbench.problem.network import Network
from primbench.problem.patterns import PATTERNS, mixed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from primbench.dtypes import Array

WORDS, PADDING = 202, 1  # 200, one for all others, and one that fills up
EMBEDDED, HIDDEN, LENGTH = 20, 40, 100


class _Sentiment(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, EMBEDDED)
        self.rnn = nn.RNN(EMBEDDED, HIDDEN)
        self.last = nn.Linear(HIDDEN, 1)

    def forward(self, ids: Any) -> Any:
        _, hidden = self.rnn(self.embedding(ids))
        return self.last(hidden[0]).squeeze(1)


class ImdbRnn(Network, name="imdb_rnn"):
    """A recurrent network of 40 units over the first 100 words of a review."""

    batch_size = 64
    original = "SRSinha/NYU_cmlProject rnn: binary cross-entropy, SGD with a rate of 0.001; time comes before batch"
    classes = 2
    on_disk = Csv(words=WORDS, axes=(1, 0))

    def module(self) -> Any:
        return _Sentiment()

    def inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """int64[words, batch], float32[batch]. Words as often as Zipf's law has it, lengths as of the reviews."""
        shares = 1 / np.arange(1, WORDS - 1)
        ids = rng.choice(np.arange(2, WORDS), (LENGTH, batch_size), p=shares / shares.sum())
        lengths = rng.lognormal(np.log(170), 0.5, batch_size)
        ids[np.arange(LENGTH)[:, None] >= lengths[None, :]] = PADDING
        return ids, rng.integers(0, 2, batch_size).astype(np.float32)

    def learnable(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """Reviews of a class have words of its own, a quarter of them others."""
        (own, _), (others, _) = self.inputs(np.random.default_rng(PATTERNS), 2), self.inputs(rng, batch_size)
        chosen = rng.integers(0, 2, batch_size)
        return mixed(rng, own[:, chosen], others), chosen.astype(np.float32)

    def right(self, predictions: Any, *inputs: Any) -> Any:
        return (predictions > 0) == (inputs[1] > 0.5)

    def predict(self, module: Any, *inputs: Any) -> Any:
        return module(inputs[0])

    def loss(self, module: Any, *inputs: Any) -> Any:
        return nn.functional.binary_cross_entropy_with_logits(module(inputs[0]), inputs[1])

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.SGD(parameters, lr=1e-3)

    def flop(self, batch_size: int) -> int:
        return 2 * batch_size * (LENGTH * HIDDEN * (EMBEDDED + HIDDEN) + HIDDEN)
