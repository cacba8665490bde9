"""Of the Fathom suite (rdadolf/fathom, 2016) the networks for speech and translation, as the code is."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from primbench.problem.examples import Arrays, Csv
from primbench.problem.network import Network
from primbench.problem.patterns import PATTERNS, mixed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from primbench.dtypes import Array

FRAMES, FEATURES, HIDDEN, CLASSES, MOST_LABELS = 1566, 26, 1024, 62, 75
BLANK, MOST = CLASSES - 1, 20.0  # where ReLU is cut off
WORDS, UNITS, LAYERS, SAMPLES = 40_000, 256, 3, 512
PAD, GO, FIRST_WORD = 0, 1, 4


class _Cut(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.clamp(0.0, MOST)


class Speech(Network, name="fathom_speech"):
    """Four dense layers over 1566 frames, and CTC over as many of them as there are labels."""

    batch_size = 32
    learning_batch = 2
    original = (
        "rdadolf/fathom speech: CTC, SGD with a rate of 0.01 and the sum over the batch; the recurrent layers that the "
        "code builds are not connected, logits are cut off as well, and weights begin at random, not at zero"
    )
    on_disk = Arrays()

    def module(self) -> Any:
        sizes = (FEATURES, HIDDEN, HIDDEN, HIDDEN, CLASSES)
        layers = [(nn.Linear(one, other), _Cut()) for one, other in itertools.pairwise(sizes)]
        return nn.Sequential(*(each for pair in layers for each in pair))

    def inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """float32[batch, 1566, 26], int64[batch, 75] of which no neighbours are alike: each label has one frame."""
        steps = rng.integers(1, BLANK, (batch_size, MOST_LABELS))
        return rng.standard_normal((batch_size, FRAMES, FEATURES), np.float32), steps.cumsum(1) % BLANK

    def learnable(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """Each label is spoken in its own frame: features that it alone has, a quarter of them noise."""
        spoken = np.random.default_rng(PATTERNS).standard_normal((BLANK, FEATURES), np.float32)
        features, labels = self.inputs(rng, batch_size)
        features[:, :MOST_LABELS] = mixed(rng, spoken[labels], features[:, :MOST_LABELS])
        return features, labels

    def predict(self, module: Any, *inputs: Any) -> Any:
        return module(inputs[0])

    def loss(self, module: Any, *inputs: Any) -> Any:
        features, labels = inputs
        logits = module(features)[:, :MOST_LABELS].transpose(0, 1)
        shares = functional.log_softmax(logits, 2, dtype=torch.promote_types(logits.dtype, torch.float32))
        lengths = _lengths(len(features))
        return functional.ctc_loss(shares, labels, lengths, lengths, blank=BLANK, reduction="sum")

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.SGD(parameters, lr=0.01)

    def flop(self, batch_size: int) -> int:
        return 2 * batch_size * FRAMES * HIDDEN * (FEATURES + 2 * HIDDEN + CLASSES)


def _lengths(batch_size: int) -> tuple[int, ...]:
    """Of the labels, the same in every batch, so that the host need not be told."""
    drawn = np.random.default_rng(0).normal(38, 10, batch_size)
    return tuple(int(each) for each in np.clip(np.rint(drawn), 20, MOST_LABELS))


class _Cells(nn.Module):
    """Layers of LSTM with one product a step each, as the original unrolls them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2 * UNITS, 4 * UNITS) for _ in range(LAYERS)])

    def forward(self, x: Any, states: list[tuple[Any, Any]]) -> tuple[Any, list[tuple[Any, Any]]]:
        after = []
        for layer, (c, h) in zip(self.layers, states, strict=True):
            i, j, f, o = layer(torch.cat([x, h], 1)).chunk(4, 1)
            c = c * torch.sigmoid(f + 1) + torch.sigmoid(i) * torch.tanh(j)
            x = torch.tanh(c) * torch.sigmoid(o)
            after.append((c, x))
        return x, after


class _Translation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, UNITS), nn.Embedding(WORDS, UNITS)
        self.encoder, self.decoder = _Cells(), _Cells()
        self.key, self.query = nn.Linear(UNITS, UNITS, bias=False), nn.Linear(2 * LAYERS * UNITS, UNITS)
        self.merge, self.out = nn.Linear(2 * UNITS, UNITS), nn.Linear(2 * UNITS, UNITS)
        self.v = nn.Parameter(torch.randn(UNITS) / math.sqrt(UNITS))
        self.weight, self.bias = nn.Parameter(0.05 * torch.randn(WORDS, UNITS)), nn.Parameter(torch.zeros(WORDS))

    def forward(self, source: Any, target: Any) -> list[Any]:
        """What each step of the decoder gives, float[batch, 256]."""
        zero = self.v.new_zeros(len(source), UNITS)
        states, outputs = [(zero, zero)] * LAYERS, []
        for x in self.source(source).unbind(1):
            y, states = self.encoder(x, states)
            outputs.append(y)
        memory = torch.stack(outputs, 1)
        keys, attended, found = self.key(memory), zero, []
        for x in self.target(target).unbind(1):
            y, states = self.decoder(self.merge(torch.cat([x, attended], 1)), states)
            query = self.query(torch.cat([each for state in states for each in state], 1))
            share = torch.softmax((self.v * torch.tanh(keys + query[:, None])).sum(2), 1)
            attended = (share[:, :, None] * memory).sum(1)
            found.append(self.out(torch.cat([y, attended], 1)))
        return found


class Seq2seq(Network, name="fathom_seq2seq"):
    """Translation by three LSTM layers on each side with attention, 40 to 50 words."""

    batch_size = 64
    original = (
        "rdadolf/fathom seq2seq, its largest bucket: softmax over 512 words sampled at each step, SGD with a rate of "
        "0.5 clipped to a norm of 5; words are sampled with replacement, and gradients of embeddings are dense"
    )
    bucket = (40, 50)
    on_disk = Csv(words=WORDS)

    def module(self) -> Any:
        return _Translation()

    def inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """int64[batch, 40] filled up and reversed, int64[batch, 51] from GO on. Words by Zipf's law."""
        source, target = (_sentences(rng, batch_size, length) for length in self.bucket)
        begun = np.concatenate([np.full((batch_size, 1), GO), target], 1)
        return np.ascontiguousarray(source[:, ::-1]), begun

    def predict(self, module: Any, *inputs: Any) -> Any:
        """float[batch]: of each sentence its loss, which is what the original evaluates."""
        source, target = inputs
        losses = [self._step(module, y, target[:, step + 1]) for step, y in enumerate(module(source, target[:, :-1]))]
        weights = (target[:, 1:] != PAD).to(losses[0].dtype)
        return (torch.stack(losses, 1) * weights).sum(1) / weights.sum(1)

    def _step(self, module: Any, y: Any, target: Any) -> Any:
        """Sampled softmax: the right word against those drawn, each less how often it is drawn (Jean et al. 2015)."""
        drawn = self._drawn(target.device)
        right = (y * module.weight[target]).sum(1) + module.bias[target] - _log_expected(target)
        others = y @ module.weight[drawn].T + (module.bias[drawn] - _log_expected(drawn))
        others = others.masked_fill(drawn == target[:, None], -1e4)
        return torch.logsumexp(torch.cat([right[:, None], others], 1), 1) - right

    def _drawn(self, device: Any) -> Any:
        """Log-uniform: the probability of word k is log(1 + 1 / (k + 1)) / log(words + 1)."""
        if not self.draws:
            return torch.arange(SAMPLES, device=device) * (WORDS // SAMPLES)
        drawn = torch.rand(SAMPLES, device=device)
        return (torch.exp(drawn * math.log(WORDS + 1)) - 1).long().clamp(max=WORDS - 1)

    def loss(self, module: Any, *inputs: Any) -> Any:
        return self.predict(module, *inputs).mean()

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.SGD(parameters, lr=0.5)

    def after_backward(self, module: Any) -> None:
        nn.utils.clip_grad_norm_(module.parameters(), 5.0)

    def flop(self, batch_size: int) -> int:
        """The attention's own products are element-wise and sums in the original, which are not counted."""
        source, target = self.bucket
        cells = LAYERS * 8 * UNITS**2
        per_step = cells + 2 * 2 * UNITS**2 + 2 * LAYERS * UNITS**2 + SAMPLES * UNITS
        return 2 * batch_size * (source * (cells + UNITS**2) + target * per_step)


def _sentences(rng: np.random.Generator, batch_size: int, length: int) -> Array:
    """int64[batch, length], of at least half that many words."""
    ends = np.cumsum(1 / np.arange(1, WORDS - FIRST_WORD + 1))
    words = FIRST_WORD + np.searchsorted(ends, rng.uniform(0, ends[-1], (batch_size, length)), side="right")
    words[np.arange(length) >= rng.integers(length // 2, length + 1, batch_size)[:, None]] = PAD
    return words


def _log_expected(words: Any) -> Any:
    return torch.log(SAMPLES * torch.log1p(1 / (words + 1.0)) / math.log(WORDS + 1))
