"""Attention: sizes, counts, inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from primbench.dtypes import itemsize_bytes
from primbench.errors import InvalidField
from primbench.problem import MEMORY, Bound, Problem, Reference, option, size
from primbench.random import random_array, sample

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

# Products of as many operations as QK' has: with PV, two forward; backward QK' once more and four with the gradients,
# 2.5 times as many (Dao 2023, arXiv 2307.08691, section 4.1).
PRODUCTS = {"forward": 2, "prefill": 2, "decode": 2, "backward": 5, "train": 7}
CACHED = ("prefill", "decode")
FULL_CHECK_PAIRS = 2**18  # of queries and keys
CHECKED_ROWS = 8


@dataclass(frozen=True)
class Attention(Problem, name="attention"):
    """Scaled dot-product attention: forward, backward, in training, and with a cache of keys and values.

    O = softmax(Q K' / sqrt(head_dim)) V for each head (Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1). Q and O
    are [batch_size,seq_len,heads,head_dim], as projections leave them, or [batch_size,heads,seq_len,head_dim] with
    layout=bhsd; K and V have kv_len and kv_heads, each of which as many heads share (Ainslie et al. 2023, arXiv
    2305.13245). causal lets a query see the keys up to its own place; the last query is at the last key.

    backward is dQ, dK and dV from dO; train is a forward pass and its backward one. prefill and decode, always causal,
    write the keys and values of seq_len new tokens to the end of a cache of kv_len, and attend to all of it: prefill
    many of them, of a prompt or a part of one, decode one or a few. auto takes the fastest of torch's backends.
    """

    example_sizes = ((2, 4, 16, 16), (1, 5, 33, 24), (1, 1, 1, 8))

    batch_size: int = size("sequences")
    heads: int = size("of queries")
    seq_len: int = size("queries of a sequence")
    head_dim: int = size("elements of a head")
    kv_heads: int = option(0, "heads of keys and values; 0 is heads", least=0)
    kv_len: int = option(0, "keys of a sequence, those of a cache among them; 0 is seq_len", least=0)
    mode: str = option("forward", "what is computed", tuple(PRODUCTS))
    causal: bool = option(False, "a query sees the keys up to its own place")
    dtype: str = option("bfloat16", "storage type, which sums in float32", ("float32", "float16", "bfloat16"))
    layout: str = option("bshd", "order in memory of batch, sequence, heads, elements", ("bshd", "bhsd"))
    algo: str = option("auto", "torch's backend", ("auto", "flash", "cudnn", "efficient", "math"))

    def settle(self) -> None:
        for name, value in (("kv_heads", self.heads), ("kv_len", self.seq_len)):
            if not getattr(self, name):
                object.__setattr__(self, name, value)
        if self.mode in CACHED:
            object.__setattr__(self, "causal", True)
        if self.heads % self.kv_heads:
            raise InvalidField(f"attention kv_heads={self.kv_heads}: heads={self.heads} is no multiple of it")
        if self.causal and self.kv_len < self.seq_len:
            raise InvalidField(f"attention kv_len={self.kv_len}: causal needs one for each of seq_len={self.seq_len}")

    @property
    def has_gradients(self) -> bool:
        return self.mode in ("backward", "train")

    @property
    def pairs(self) -> int:
        """Of a query and a key that it sees, of one head: seq_len kv_len, half of seq_len^2 fewer where it is causal.

        So published figures count (Dao 2023, arXiv 2307.08691, section 4.1); exactly seq_len / 2 fewer are left out.
        """
        unseen = self.seq_len**2 // 2 if self.causal and self.seq_len > 1 else 0
        return self.seq_len * self.kv_len - unseen

    def flop(self) -> int:
        """2 head_dim for each pair, head and product: 4 b h s^2 d forward, half of it causal, 2.5 times backward."""
        return 2 * PRODUCTS[self.mode] * self.batch_size * self.heads * self.pairs * self.head_dim

    def bytes_moved(self) -> int:
        """Q and O, K and V; where there are gradients theirs, too; of new tokens K and V before and after."""
        times = 2 if self.has_gradients else 1
        tokens = 2 * times * (self.heads * self.seq_len + self.kv_heads * self.kv_len)
        new = 2 * self.kv_heads * self.seq_len if self.mode in CACHED else 0
        return self.batch_size * self.head_dim * (tokens + new) * itemsize_bytes(self.dtype)

    def bound(self) -> Bound | None:
        """Of decoding the memory: each key that is read takes part in few products."""
        return MEMORY if self.mode == "decode" else super().bound()

    def shape(self, length: int, heads: int) -> tuple[int, ...]:
        """Of an array, in the order in memory."""
        b, d = self.batch_size, self.head_dim
        return (b, length, heads, d) if self.layout == "bshd" else (b, heads, length, d)

    @property
    def query_shape(self) -> tuple[int, ...]:
        return self.shape(self.seq_len, self.heads)

    @property
    def key_shape(self) -> tuple[int, ...]:
        return self.shape(self.kv_len, self.kv_heads)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """Q, K and V; where there are gradients dO; with a cache K and V of the new tokens, then both caches.

        The new V is sqrt(kv_len) times as large as the old one: else rounding would hide one token among thousands.
        """
        shapes = [self.query_shape, self.key_shape, self.key_shape]
        if self.has_gradients:
            shapes.append(self.query_shape)
        elif self.mode in CACHED:
            shapes[1:1] = [self.shape(self.seq_len, self.kv_heads)] * 2
        arrays = [random_array(rng, each, self.dtype) for each in shapes]
        if self.mode in CACHED:
            arrays[2] = (arrays[2] * math.isqrt(self.kv_len)).astype(arrays[2].dtype)
        return tuple(arrays)

    @property
    def _is_checked_in_full(self) -> bool:
        return self.batch_size * self.heads * self.seq_len * self.kv_len <= FULL_CHECK_PAIRS

    def check_inputs(self, rng: np.random.Generator, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """Where gradients are many, dO is 0 but for some queries, which alone are then in the sums of dK and dV."""
        import numpy as np

        if not self.has_gradients or self._is_checked_in_full:
            return inputs
        rows = sample(rng, self.seq_len, CHECKED_ROWS)
        gradient = np.zeros_like(inputs[3])
        by_heads(self.layout, gradient)[:, :, rows] = by_heads(self.layout, inputs[3])[:, :, rows]
        return (*inputs[:3], gradient)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """All of the output, or some queries of some heads, and of dK and dV these heads."""
        from primbench.kernels.attention._reference import reference_of

        return reference_of(self, rng, inputs, is_full=self._is_checked_in_full)

    def tolerance(self) -> float:
        """8 natural sizes, for the largest of many errors."""
        return 8.0

    def probe(self, flop: int) -> Attention | None:
        """Shorter sequences: both lengths, or of a decoded token the cache."""
        share = flop / self.flop()
        shorter = share if self.mode == "decode" else math.sqrt(share)
        kv_len = max(1, round(self.kv_len * shorter))
        seq_len = self.seq_len if self.mode == "decode" else max(1, round(self.seq_len * shorter))
        small = replace(self, seq_len=min(seq_len, kv_len) if self.causal else seq_len, kv_len=kv_len)
        return small if 2 * small.flop() < self.flop() else None


def by_heads(layout: str, array: Any) -> Any:
    """A view [batch, heads, sequence, elements], of NumPy or torch."""
    return array.swapaxes(1, 2) if layout == "bshd" else array
