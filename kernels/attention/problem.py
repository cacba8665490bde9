"""Attention: sizes, counts, inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from primbench.dtypes import itemsize_bytes
from primbench.errors import InvalidField
from primbench.kernels.attention._cache import CACHED, LENGTHS, Cache, by_heads, paged
from primbench.problem import MEMORY, Bound, Problem, Reference, option, size
from primbench.random import random_array, sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from primbench.problem import Array

# Products of as many operations as QK' has: with PV, two forward; backward QK' once more and four with the gradients,
# 2.5 times as many (Dao 2023, arXiv 2307.08691, section 4.1).
PRODUCTS = {"forward": 2, "prefill": 2, "decode": 2, "backward": 5, "train": 7}
INDEX_BYTES = 4  # int32, as engines have tables and lengths
FULL_CHECK_PAIRS = 2**18  # of queries and keys
CHECKED_ROWS = 8


@dataclass(frozen=True)
class Attention(Problem, name="attention"):
    """Scaled dot-product attention: forward, backward, in training, and with a cache of keys and values.

    O = softmax(Q K' / sqrt(head_dim)) V for each head (Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1). Q and O
    are [batch_size,seq_len,heads,head_dim], as projections leave them, or [batch_size,heads,seq_len,head_dim] with
    layout=bhsd; K and V have kv_len and kv_heads, each of which as many heads share (Ainslie et al. 2023, arXiv
    2305.13245). causal lets a query see the keys up to its own place; the last query is at the last key.

    window lets a causal query see the newest keys alone, its own among them (Beltagy et al. 2020, arXiv 2004.05150).

    backward is dQ, dK and dV from dO; train is a forward pass and its backward one. prefill and decode, always causal,
    write the keys and values of seq_len new tokens to the end of a cache of kv_len, and attend to all of it: prefill
    many of them, of a prompt or a part of one, decode one or a few. auto takes the fastest of torch's backends.

    page_size cuts that cache into pages [page_size,kv_heads,head_dim], which lie in any order and of which a table has
    those of each sequence (Kwon et al. 2023, arXiv 2309.06180). Their sequences may differ in length: i of batch_size
    has kv_len i / batch_size with lengths=uniform, kv_len / i with zipf, in an order by seed, so that every seed has as
    much to read. The first shared_len tokens are the same pages of all sequences. latent_dim is multi-head latent
    attention with its projections absorbed (DeepSeek-V2 2024, arXiv 2405.04434, section 2.1.2): one key of head_dim for
    all heads, of which the first latent_dim elements are the value, too: 576 and 512 in DeepSeek-V3.
    """

    example_sizes = ((2, 4, 16, 16), (1, 5, 33, 24), (1, 1, 1, 8))

    batch_size: int = size("sequences")
    heads: int = size("of queries")
    seq_len: int = size("queries of a sequence")
    head_dim: int = size("elements of a head")
    kv_heads: int = option(0, "heads of keys and values; 0 is heads, or 1 of latents", least=0)
    kv_len: int = option(0, "keys of a sequence, those of a cache among them; 0 is seq_len", least=0)
    mode: str = option("forward", "what is computed", tuple(PRODUCTS))
    causal: bool = option(False, "a query sees the keys up to its own place")
    dtype: str = option("bfloat16", "storage type, which sums in float32", ("float32", "float16", "bfloat16"))
    layout: str = option("bshd", "order in memory of batch, sequence, heads, elements", ("bshd", "bhsd"))
    algo: str = option("auto", "torch's backend", ("auto", "flash", "cudnn", "efficient", "math"))
    window: int = option(0, "newest keys that a query sees; 0 is all up to its own", least=0)
    page_size: int = option(0, "tokens of a page of the cache; 0 is one piece for each sequence", least=0)
    lengths: str = option("equal", "tokens of the sequences in pages: all kv_len, or up to it", tuple(LENGTHS))
    shared_len: int = option(0, "tokens at the start that all sequences have in the same pages", least=0)
    latent_dim: int = option(0, "elements of a key that are its value, too; 0: values are apart", least=0)

    def settle(self) -> None:
        for name, value in (("kv_heads", 1 if self.latent_dim else self.heads), ("kv_len", self.seq_len)):
            if not getattr(self, name):
                object.__setattr__(self, name, value)
        if self.mode in CACHED:
            object.__setattr__(self, "causal", True)
        for wrong in self._clashes():
            raise InvalidField(f"attention {wrong}")

    def _clashes(self) -> Iterator[str]:
        """What is wrong with fields beside each other, a line each."""
        if self.heads % self.kv_heads:
            yield f"kv_heads={self.kv_heads}: heads={self.heads} is no multiple of it"
        if self.causal and self.kv_len < self.seq_len:
            yield f"kv_len={self.kv_len}: causal needs one for each of seq_len={self.seq_len}"
        if self.window and not self.causal:
            yield f"window={self.window}: only of causal attention: ask for causal=True, mode=prefill or mode=decode"
        yield from self._clashes_of_a_cache()
        yield from self._clashes_of_pages()

    def _clashes_of_a_cache(self) -> Iterator[str]:
        for name in ("page_size", "latent_dim"):
            if getattr(self, name) and (self.mode not in CACHED or self.layout != "bshd"):
                found = f"with mode={self.mode!r} layout={self.layout!r}"
                yield f"{name}={getattr(self, name)} {found}: only of a cache, mode=prefill or decode, in layout=bshd"
        if self.latent_dim and (self.kv_heads, self.latent_dim) > (1, self.head_dim):
            yield f"latent_dim={self.latent_dim}: of one kv_heads, and at most head_dim={self.head_dim}"

    def _clashes_of_pages(self) -> Iterator[str]:
        if not self.page_size and (self.lengths != "equal" or self.shared_len):
            name = "shared_len" if self.shared_len else "lengths"
            yield f"{name}={getattr(self, name)!r}: only of a cache in pages: ask for page_size=16 or so"
        elif self.shared_len and (self.shared_len % self.page_size or self.shared_len + self.seq_len > self.kv_len):
            most = f"at most kv_len={self.kv_len} without seq_len={self.seq_len}"
            yield f"shared_len={self.shared_len}: a multiple of page_size={self.page_size}, and {most}"

    @property
    def has_gradients(self) -> bool:
        return self.mode in ("backward", "train")

    @property
    def value_dim(self) -> int:
        """Elements of a value, and of an output of a head."""
        return self.latent_dim or self.head_dim

    @property
    def kv_lens(self) -> tuple[int, ...]:
        """Keys of each sequence, the longest of which has kv_len; inputs() has them in an order by seed."""
        least, count = self.shared_len + self.seq_len, self.batch_size
        of = LENGTHS[self.lengths]
        return tuple(max(least, of(self.kv_len, rank, count)) for rank in range(1, count + 1))

    def seen_len(self, kv_len: int) -> int:
        """How many of the keys of a sequence any of its queries sees; all where they have gradients."""
        return min(kv_len, self.window + self.seq_len - 1) if self.window and not self.has_gradients else kv_len

    @property
    def flash_window(self) -> tuple[int, int]:
        """Keys to the left and right of its own that a query sees, as FlashAttention has them; -1 is all."""
        return self.window - 1, 0 if self.window else -1

    @property
    def pairs(self) -> int:
        """Of a query and a key that it sees, of one head of all sequences: seq_len kv_len of each sequence.

        Half of seq_len^2 fewer where it is causal, as published figures count (Dao 2023, arXiv 2307.08691, section
        4.1); exactly seq_len / 2 fewer are left out. With a window those in it, exactly.
        """
        if self.window:
            return sum(self._pairs_in_window(kv_len) for kv_len in self.kv_lens)
        unseen = self.seq_len**2 // 2 if self.causal and self.seq_len > 1 else 0
        return self.seq_len * sum(self.kv_lens) - unseen * self.batch_size

    def _pairs_in_window(self, kv_len: int) -> int:
        """Queries of places before the window is full see as many keys as there are: 1, 2, and so on."""
        first = kv_len - self.seq_len
        filling = max(0, min(kv_len, self.window) - first)
        return filling * (2 * first + filling + 1) // 2 + (self.seq_len - filling) * self.window

    def flop(self) -> int:
        """2 head_dim for each pair, head and product: 4 b h s^2 d forward, half of it causal, 2.5 times backward."""
        elements = PRODUCTS[self.mode] * self.head_dim - (self.head_dim - self.value_dim)
        return 2 * self.heads * self.pairs * elements

    @property
    def _token_elements(self) -> int:
        """Of one token in the cache: its key and its value."""
        return self.kv_heads * (self.head_dim if self.latent_dim else 2 * self.head_dim)

    def bytes_moved(self) -> int:
        """Q and O, K and V; where there are gradients theirs, too; of new tokens K and V before and after.

        Of a cache what is read of it: keys in the window, shared ones once, and the table of its pages.
        """
        times = 2 if self.has_gradients else 1
        firsts = [kv_len - self.seen_len(kv_len) for kv_len in self.kv_lens]
        tokens = sum(kv_len - max(first, self.shared_len) for kv_len, first in zip(self.kv_lens, firsts, strict=True))
        tokens += max(0, self.shared_len - min(firsts))
        return self._bytes_of(times * tokens, times)

    def memory_bytes(self) -> int:
        """As bytes_moved(), with all that the cache holds."""
        tokens = self.batch_size * self.kv_len
        if self.page_size:
            tokens = self.page_size * self._shared_pages + self.page_size * sum(map(self._own_pages, self.kv_lens))
        times = 2 if self.has_gradients else 1
        return self._bytes_of(times * tokens, times)

    def _bytes_of(self, tokens: int, times: int) -> int:
        """Of the tokens of K and V, so often Q and O, new tokens, and a table."""
        queries = times * self.batch_size * self.heads * self.seq_len * (self.head_dim + self.value_dim)
        new = self.batch_size * self.seq_len if self.mode in CACHED else 0
        table = INDEX_BYTES * self.batch_size * (self.table_pages + 1) if self.page_size else 0
        return (queries + (tokens + new) * self._token_elements) * itemsize_bytes(self.dtype) + table

    @property
    def _shared_pages(self) -> int:
        return self.shared_len // self.page_size

    def _own_pages(self, kv_len: int) -> int:
        return -(-(kv_len - self.shared_len) // self.page_size)

    @property
    def table_pages(self) -> int:
        """Of the longest sequence."""
        return -(-max(self.kv_lens) // self.page_size)

    def bound(self) -> Bound | None:
        """Of decoding the memory: each key that is read takes part in few products."""
        return MEMORY if self.mode == "decode" else super().bound()

    def shape(self, length: int, heads: int, elements: int = 0) -> tuple[int, ...]:
        """Of an array, in the order in memory."""
        b, d = self.batch_size, elements or self.head_dim
        return (b, length, heads, d) if self.layout == "bshd" else (b, heads, length, d)

    @property
    def query_shape(self) -> tuple[int, ...]:
        return self.shape(self.seq_len, self.heads)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return self.shape(self.seq_len, self.heads, self.value_dim)

    @property
    def key_shape(self) -> tuple[int, ...]:
        return self.shape(self.kv_len, self.kv_heads)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """Q, K and V; where there are gradients dO; with a cache those of ``Cache``, but for what it lacks.

        The new V is sqrt(kv_len) times as large as the old one: else rounding would hide one token among thousands.
        New latents are up to 4 times as large, as they are keys, too.
        """
        if self.mode not in CACHED:
            gradient = [self.query_shape] if self.has_gradients else []
            shapes = [self.query_shape, self.key_shape, self.key_shape, *gradient]
            return tuple(random_array(rng, each, self.dtype) for each in shapes)
        caches = 1 if self.latent_dim else 2
        q = random_array(rng, self.query_shape, self.dtype)
        new = [random_array(rng, self.shape(self.seq_len, self.kv_heads), self.dtype) for _ in range(caches)]
        times = math.isqrt(self.kv_len)
        new[-1] = (new[-1] * min(times, 4 if self.latent_dim else times)).astype(new[-1].dtype)
        if not self.page_size:
            return q, *new, *(random_array(rng, self.key_shape, self.dtype) for _ in range(caches))
        table, lengths, pages = paged(rng, self.kv_lens, self.page_size, self._shared_pages)
        shape = (pages, self.page_size, self.kv_heads, self.head_dim)
        return q, *new, *(random_array(rng, shape, self.dtype) for _ in range(caches)), table, lengths

    def cached(self, inputs: tuple[Any, ...]) -> Cache:
        """The inputs of prefill and decode by name."""
        caches = 1 if self.latent_dim else 2
        q, *rest = inputs
        new, old, table = rest[:caches], rest[caches : 2 * caches], rest[2 * caches :]
        return Cache(q, new[0], new[1] if caches == 2 else None, old[0], old[-1], *table)

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
        seq_len = min(seq_len, kv_len) if self.causal else seq_len
        shared_len = min(self.shared_len, kv_len - seq_len) // self.page_size * self.page_size if self.page_size else 0
        small = replace(self, seq_len=seq_len, kv_len=kv_len, shared_len=shared_len)
        return small if 2 * small.flop() < self.flop() else None
