"""Of the Fathom suite (rdadolf/fathom, 2016) those of which a step is mostly launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from primbench.problem.examples import Csv, Idx
from primbench.problem.network import Network

if TYPE_CHECKING:
    from collections.abc import Iterable

    from primbench.dtypes import Array

PIXELS, LATENT = 784, 200
WORDS, DIMENSION, SENTENCES, LENGTH, HOPS = 20, 20, 10, 6, 3
SIDE, FRAMES, ACTIONS = 84, 4, 4


class _Variational(nn.Module):
    def __init__(self, *, draws: bool) -> None:
        super().__init__()
        self.mean, self.log_variance = nn.Linear(PIXELS, LATENT), nn.Linear(PIXELS, LATENT)
        self.reconstruction = nn.Linear(LATENT, PIXELS)
        self._draws = draws

    def forward(self, x: Any) -> tuple[Any, Any, Any]:
        mean, log_variance = self.mean(x), self.log_variance(x)
        noise = torch.randn_like(mean) if self._draws else torch.ones_like(mean)
        z = mean + torch.sqrt(torch.exp(log_variance)) * noise
        return self.reconstruction(z), mean, log_variance


class Autoenc(Network, name="fathom_autoenc"):
    """A variational autoencoder of three dense layers for MNIST, without activations."""

    batch_size = 128
    original = "rdadolf/fathom autoenc: half the squared error and KL, summed over the batch; Adam with a rate of 0.001"
    on_disk = Idx(mean=0.5, sd=0.29)

    def module(self) -> Any:
        return _Variational(draws=self.draws)

    def inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """float32[batch, 784], standardised."""
        return (rng.standard_normal((batch_size, PIXELS), np.float32),)

    def predict(self, module: Any, *inputs: Any) -> Any:
        return module(inputs[0])[0]

    def loss(self, module: Any, *inputs: Any) -> Any:
        (x,) = inputs
        made, mean, log_variance = module(x)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return 0.5 * (made - x).square().sum() + divergence

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.Adam(parameters, lr=1e-3)

    def flop(self, batch_size: int) -> int:
        return 2 * batch_size * 3 * PIXELS * LATENT


class _Memories(nn.Module):
    """Three hops over the sentences of a story, with one matrix for all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.A, self.B = (nn.Embedding(WORDS, DIMENSION, padding_idx=0) for _ in range(2))
        self.time = nn.Parameter(0.1 * torch.randn(SENTENCES, DIMENSION))
        self.H = nn.Linear(DIMENSION, DIMENSION, bias=False)
        self.W = nn.Linear(DIMENSION, WORDS, bias=False)
        word, unit = torch.arange(1, LENGTH + 1)[:, None] / LENGTH, torch.arange(1, DIMENSION + 1) / DIMENSION
        self.register_buffer("position", 1 + 4 * (word - 0.5) * (unit - 0.5))

    def forward(self, stories: Any, queries: Any) -> Any:
        u = (self.B(queries) * self.position).sum(1)
        memory = (self.A(stories) * self.position).sum(2) + self.time
        for _ in range(HOPS):
            share = torch.softmax((memory * u[:, None]).sum(2), 1)
            u = self.H(u) + (memory * share[:, :, None]).sum(1)
        return self.W(u)


class Memnet(Network, name="fathom_memnet"):
    """An end-to-end memory network for bAbI's first task: everything is tiny."""

    batch_size = 32
    original = (
        "rdadolf/fathom memnet: summed cross-entropy, Adam with a rate of 0.01, each gradient clipped to a norm of 40 "
        "and noise of 0.001 added to it, but for the word 0; weights begin as torch draws them, not with N(0, 0.1)"
    )
    classes = WORDS
    on_disk = Csv(words=WORDS)

    def module(self) -> Any:
        return _Memories()

    def inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """int64[batch, 10, 6], int64[batch, 6], int64[batch]. Stories have 2, 4, ... 10 sentences, the rest is 0."""
        stories = rng.integers(1, WORDS, (batch_size, SENTENCES, LENGTH))
        sentences = rng.choice([2, 4, 6, 8, 10], batch_size)
        stories[np.arange(SENTENCES) >= sentences[:, None]] = 0
        return stories, rng.integers(1, WORDS, (batch_size, LENGTH)), rng.integers(1, WORDS, batch_size)

    def predict(self, module: Any, *inputs: Any) -> Any:
        return module(*inputs[:2])

    def loss(self, module: Any, *inputs: Any) -> Any:
        return nn.functional.cross_entropy(module(*inputs[:2]), inputs[2], reduction="sum")

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.Adam(parameters, lr=0.01)

    def after_backward(self, module: Any) -> None:
        """The word that fills stories up stays zero: its rows have no gradient, and get no noise, either."""
        padded = [each.weight for each in module.modules() if isinstance(each, nn.Embedding)]
        for parameter in module.parameters():
            gradient = parameter.grad
            gradient.mul_((40 / gradient.norm().clamp(min=1e-12)).clamp(max=1))
            if self.draws:
                noisy = gradient[1:] if any(parameter is each for each in padded) else gradient
                noisy.add_(torch.randn_like(noisy), alpha=1e-3)

    def flop(self, batch_size: int) -> int:
        """The hops' own products are element-wise and sums in the original, which are not counted."""
        return 2 * batch_size * (HOPS * DIMENSION**2 + DIMENSION * WORDS)


class Deepq(Network, name="fathom_deepq"):
    """The update of a Q-network for Breakout, of 84 x 84 frames."""

    batch_size = 32
    original = (
        "rdadolf/fathom deepq: Huber's loss summed over the batch, RMSProp with a rate of 0.00025; only the update, "
        "without the target network's forward pass and the emulator"
    )

    def module(self) -> Any:
        return nn.Sequential(
            nn.Conv2d(FRAMES, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
            nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, ACTIONS),
        )  # fmt: skip

    def inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """float32[batch, 4, 84, 84] frames, int64[batch] actions, float32[batch] targets."""
        frames = rng.integers(0, 256, (batch_size, FRAMES, SIDE, SIDE), np.uint8) / np.float32(255)
        return frames, rng.integers(0, ACTIONS, batch_size), rng.uniform(-1, 1, batch_size).astype(np.float32)

    def predict(self, module: Any, *inputs: Any) -> Any:
        return module(inputs[0])

    def loss(self, module: Any, *inputs: Any) -> Any:
        frames, actions, targets = inputs
        values = module(frames).gather(1, actions[:, None]).squeeze(1)
        return nn.functional.huber_loss(values, targets, reduction="sum")

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.RMSprop(parameters, lr=2.5e-4, alpha=0.95, eps=0.01)

    def flop(self, batch_size: int) -> int:
        convolutions = 400 * 64 * FRAMES * 32 + 81 * 16 * 32 * 64 + 49 * 9 * 64 * 64
        return 2 * batch_size * (convolutions + 3136 * 512 + 512 * ACTIONS)
