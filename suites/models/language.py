"""Language models: recurrent, and Transformers that encode and decode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from primbench.problem.examples import Tokens
from primbench.problem.network import Network

if TYPE_CHECKING:
    from collections.abc import Iterable

    from primbench.dtypes import Array


CHECKED_LENGTH = 64
CHAIN = 16  # words of the texts that are to be learnt


def tokens(rng: np.random.Generator, batch_size: int, length: int, words: int) -> Array:
    """int64[batch, length], as often as Zipf's law has it: embeddings of common words are read and added to often."""
    ends = np.cumsum(1 / np.arange(1, words + 1))
    return np.searchsorted(ends, rng.uniform(0, ends[-1], (batch_size, length)), side="right")


class _OfTokens(Network):
    """Given a text and what comes next in each place; flops of parts that all of them have."""

    words: int
    length: int

    def inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """int64[batch, length] twice: tokens, and those that follow."""
        return self._texts(rng, batch_size, self.length)

    def checked_inputs(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        return self._texts(rng, batch_size, min(self.length, CHECKED_LENGTH))

    def _texts(self, rng: np.random.Generator, batch_size: int, length: int) -> tuple[Array, ...]:
        text = tokens(rng, batch_size, length + 1, self.words)
        return np.ascontiguousarray(text[:, :-1]), np.ascontiguousarray(text[:, 1:])

    def learnable(self, rng: np.random.Generator, batch_size: int) -> tuple[Array, ...]:
        """As inputs(), in a few words that follow one another always in the same order, from any one of them on."""
        begins = rng.integers(0, CHAIN, batch_size)
        text = (begins[:, None] + np.arange(self.length + 1)) % CHAIN
        return np.ascontiguousarray(text[:, :-1]), np.ascontiguousarray(text[:, 1:])

    def predict(self, module: Any, *inputs: Any) -> Any:
        return module(inputs[0])

    def loss(self, module: Any, *inputs: Any) -> Any:
        ids, targets = inputs
        return functional.cross_entropy(module(ids).flatten(0, 1), targets.flatten())


class _Recurrent(nn.Module):
    def __init__(self, words: int, units: int, dropout: float) -> None:
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(words, units), nn.Dropout(dropout)
        self.lstm = nn.LSTM(units, units, 2, dropout=dropout, batch_first=True)
        self.last = nn.Linear(units, words)

    def forward(self, ids: Any) -> Any:
        hidden, _ = self.lstm(self.dropout(self.embedding(ids)))
        return self.last(self.dropout(hidden))


class LstmLm(_OfTokens, name="lstm_lm"):
    """Two LSTM layers of 650 units over 10,000 words, in 35 steps."""

    batch_size = 20
    original = "Zaremba et al. 2014, the medium model, its states begun anew in each batch; SGD, clipped to a norm of 5"
    words, length, units = 10_000, 35, 650
    on_disk = Tokens(words)

    def module(self) -> Any:
        return _Recurrent(self.words, self.units, 0.5 if self.draws else 0.0)

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.SGD(parameters, lr=1.0)

    def after_backward(self, module: Any) -> None:
        nn.utils.clip_grad_norm_(module.parameters(), 5.0)

    def flop(self, batch_size: int) -> int:
        per_token = 2 * 8 * self.units**2 + self.units * self.words
        return 2 * batch_size * self.length * per_token


class _Attention(nn.Module):
    """Multi-head self-attention of one product for queries, keys and values."""

    def __init__(self, width: int, heads: int, *, is_causal: bool) -> None:
        super().__init__()
        self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self._heads, self._is_causal = heads, is_causal

    def forward(self, x: Any) -> Any:
        q, k, v = (each.unflatten(2, (self._heads, -1)).transpose(1, 2) for each in self.all(x).chunk(3, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self._is_causal)
        return self.out(y.transpose(1, 2).flatten(2))


class _Block(nn.Module):
    """is_causal: as GPT-2 has it, with layer norms before; else as BERT has it, with layer norms after."""

    def __init__(self, width: int, heads: int, dropout: float, *, is_causal: bool) -> None:
        super().__init__()
        self.attention = _Attention(width, heads, is_causal=is_causal)
        gelu = nn.GELU(approximate="tanh" if is_causal else "none")
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), gelu, nn.Linear(4 * width, width))
        self.norms, self.dropout = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)]), nn.Dropout(dropout)
        self._is_first = is_causal

    def forward(self, x: Any) -> Any:
        for norm, layer in zip(self.norms, (self.attention, self.dense), strict=True):
            x = x + self.dropout(layer(norm(x))) if self._is_first else norm(x + self.dropout(layer(x)))
        return x


class _Transformer(nn.Module):
    """The head has the weights of the embedding."""

    def __init__(self, of: _OfTransformer, dropout: float) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(of.words, of.width), nn.Embedding(of.length, of.width)
        blocks = (_Block(of.width, of.heads, dropout, is_causal=of.is_causal) for _ in range(of.layers))
        self.blocks, self.norm, self.dropout = nn.Sequential(*blocks), nn.LayerNorm(of.width), nn.Dropout(dropout)
        self._is_causal = of.is_causal
        for each in (self.words, self.places):
            nn.init.normal_(each.weight, std=0.02)

    def forward(self, ids: Any) -> Any:
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        x = self.dropout(x if self._is_causal else self.norm(x))
        x = self.blocks(x)
        return functional.linear(self.norm(x) if self._is_causal else x, self.words.weight)


class _OfTransformer(_OfTokens):
    width, heads, layers, is_causal = 768, 12, 12, True

    def module(self) -> Any:
        return _Transformer(self, 0.1 if self.draws else 0.0)

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.AdamW(parameters, lr=6e-4, betas=(0.9, 0.95))

    def flop(self, batch_size: int) -> int:
        """Attention counts in full: a causal one may leave half of it out."""
        per_token = self.layers * (12 * self.width**2 + 2 * self.length * self.width) + self.width * self.words
        return 2 * batch_size * self.length * per_token


class Gpt2(_OfTransformer, name="gpt2"):
    """GPT-2 small, 124 million parameters: a decoder over 1024 tokens."""

    batch_size = 8
    learning_batch = 4
    original = (
        "Radford et al. 2019, dropout of 0.1, but none of what attention looks at; AdamW with rate and betas as in "
        "nanoGPT, which trains without dropout, in batches of 12, decays matrices alone, by 0.1, and clips to norm 1"
    )
    words, length = 50_257, 1024
    on_disk = Tokens(words)
    checked_batch = 1


class Encoder(_OfTransformer, name="encoder"):
    """An encoder Transformer of BERT-base's widths over 512 tokens."""

    batch_size = 32
    learning_batch = 4
    original = "Devlin et al. 2018, BERT-base: without segments and pooler, and every place is predicted"
    words, length, is_causal = 30_522, 512, False
    on_disk = Tokens(words)
    checked_batch = 1


class _LlamaLayer(nn.Module):
    """RMSNorm before, rotary positions, grouped queries, SwiGLU."""

    def __init__(self, width: int, heads: int, groups: int, hidden: int) -> None:
        super().__init__()
        own, self._heads, self._groups = width // heads, heads, groups
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * own, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.norms = nn.ModuleList([nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)])

    def forward(self, x: Any, turns: Any) -> Any:
        normed = self.norms[0](x)
        q = self.q(normed).unflatten(2, (self._heads, -1)).transpose(1, 2)
        k, v = self.kv(normed).unflatten(2, (2, self._groups, -1)).permute(2, 0, 3, 1, 4)
        q, k = (_turned(each, turns) for each in (q, k))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        normed = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


def _turned(x: Any, turns: Any) -> Any:
    """Rotary positions: halves of each head turned by an angle that grows with the place."""
    cosine, sine = (each.to(x.dtype) for each in turns)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class _Llama(nn.Module):
    def __init__(self, of: LlamaBlock) -> None:
        super().__init__()
        self.words = nn.Embedding(of.words, of.width)
        layers = (_LlamaLayer(of.width, of.heads, of.groups, of.hidden) for _ in range(of.layers))
        self.layers, self.norm = nn.ModuleList(layers), nn.RMSNorm(of.width, eps=1e-5)
        self.head = nn.Linear(of.width, of.words, bias=False)
        half = of.width // of.heads // 2
        angles = torch.arange(of.length)[:, None] * 500_000.0 ** -(torch.arange(half) / half)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, ids: Any) -> Any:
        x, turns = self.words(ids), (self.cosine[: ids.shape[1]], self.sine[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x, turns)
        return self.head(self.norm(x))


class LlamaBlock(_OfTokens, name="llama_block"):
    """A layer of Llama 3 8B over 2048 tokens: RMSNorm, RoPE, SwiGLU, grouped queries."""

    batch_size = 1
    learning_batch = 1
    original = "Dubey et al. 2024, Llama 3 8B: 1 of its 32 layers, and a vocabulary of 8,192 in place of 128,256"
    words, length, width, heads, groups, hidden, layers = 8_192, 2_048, 4_096, 32, 8, 14_336, 1
    on_disk = Tokens(words)
    checked_batch = 1

    def module(self) -> Any:
        return _Llama(self)

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95))

    def flop(self, batch_size: int) -> int:
        """Attention counts in full."""
        keys_and_values = 2 * self.groups * self.width // self.heads
        products = self.width * (2 * self.width + keys_and_values + 3 * self.hidden)
        per_token = self.layers * (products + 2 * self.length * self.width) + self.width * self.words
        return 2 * batch_size * self.length * per_token
