"""A cache of keys and values: in one piece, or in pages as serving engines keep it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from primbench.problem import Array

CACHED = ("prefill", "decode")
"""Modes that have one."""
LENGTHS: dict[str, Callable[[int, int, int], int]] = {
    "equal": lambda kv_len, rank, count: kv_len,
    "uniform": lambda kv_len, rank, count: math.ceil(kv_len * (count + 1 - rank) / count),
    "zipf": lambda kv_len, rank, count: math.ceil(kv_len / rank),
}
"""Keys of the sequence of a rank among so many, from 1 on; the first has kv_len."""


class Cache(NamedTuple):
    """What prefill and decode are given: of NumPy or of torch."""

    q: Any
    """[batch_size,seq_len,heads,head_dim]; so are all of layout=bshd."""
    new_k: Any
    """[batch_size,seq_len,kv_heads,head_dim]: keys of new tokens, or their latents."""
    new_v: Any | None
    """As new_k; None of latents."""
    k: Any
    """[batch_size,kv_len,kv_heads,head_dim], the new tokens last; or [pages,page_size,kv_heads,head_dim]."""
    v: Any
    """As k; of latents k itself, of which the first latent_dim elements are values."""
    table: Any = None
    """int32[batch_size,pages]: the pages of each sequence in their order, 0 behind its last one; None without pages."""
    lengths: Any = None
    """int32[batch_size]: keys of each sequence, new ones among them; None without pages."""


def paged(
    rng: np.random.Generator, kv_lens: Sequence[int], page_size: int, shared_pages: int
) -> tuple[Array, Array, int]:
    """A table and lengths as ``Cache`` has them, and how many pages there are, each of which is some sequence's."""
    import numpy as np

    lengths = rng.permutation(np.array(kv_lens, np.int32))
    counts = -(-lengths.astype(np.int64) // page_size)
    pages = shared_pages + int((counts - shared_pages).sum())
    free = rng.permutation(pages).astype(np.int32)
    table = np.zeros((len(counts), int(counts.max())), np.int32)
    table[:, :shared_pages] = free[:shared_pages]
    own = np.split(free[shared_pages:], np.cumsum(counts - shared_pages)[:-1])
    for row, taken in zip(table, own, strict=True):
        row[shared_pages : shared_pages + len(taken)] = taken
    return table, lengths, pages


def slots(table: Array, places: Array, page_size: int) -> Array:
    """int64, as places[batch_size,...]: which token of all pages, one behind the other, is that of a sequence."""
    import numpy as np

    of_pages = np.take_along_axis(table.astype(np.int64), places.reshape(len(table), -1) // page_size, axis=1)
    found: Array = of_pages.reshape(places.shape) * page_size + places % page_size
    return found


def by_heads(layout: str, array: Any) -> Any:
    """A view [batch, heads, sequence, elements], of NumPy or torch."""
    return array.swapaxes(1, 2) if layout == "bshd" else array
