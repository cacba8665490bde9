"""A cache of keys and values on torch: how new tokens are written, and what is read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.kernels.attention._cache import by_heads, slots

if TYPE_CHECKING:
    from primbench.kernels.attention.problem import Attention


class TorchCache:
    """What prefill and decode are given, and where its parts are.

    In pages it is read as an engine does that has no kernel for them: the tokens that are seen are gathered.
    """

    def __init__(self, backend: Any, problem: Attention, inputs: tuple[Any, ...]) -> None:
        self.problem = problem
        self.given = problem.cached(inputs)
        self.q = self.given.q
        self.kv_len = max(map(problem.seen_len, problem.kv_lens))
        """Keys that read() gives of each sequence: the last ones."""
        self.lengths: Any = None
        """Where some have fewer: int32[batch_size]."""
        self._written: Any = None
        self._read: Any = None
        if problem.page_size:
            self._find(backend)

    def _find(self, backend: Any) -> None:
        """Which tokens of the pages are written and which are read; what is in front of a sequence is its first one."""
        import numpy as np

        problem, given = self.problem, self.given
        table, lengths = backend.get(given.table), backend.get(given.lengths)
        last = lengths.astype(np.int64)[:, None]

        def last_slots(count: int) -> Any:
            places = np.maximum(last - count + np.arange(count), 0)
            return backend.put(slots(table, places, problem.page_size).ravel())

        self._written, self._read = last_slots(problem.seq_len), last_slots(self.kv_len)
        if lengths.min() < self.kv_len:
            self.lengths = given.lengths

    def write(self) -> None:
        """The new tokens, behind the others."""
        given, old = self.given, self.problem.kv_len - self.problem.seq_len
        for cache, new in ((given.k, given.new_k), (given.v, given.new_v)):
            if new is None:
                continue
            if self.problem.page_size:
                cache.view(-1, *cache.shape[2:]).index_copy_(0, self._written, new.view(-1, *new.shape[2:]))
            else:
                by_heads(self.problem.layout, cache)[:, :, old:].copy_(by_heads(self.problem.layout, new))

    def read(self) -> tuple[Any, Any]:
        """K and V in the order in memory, of what is seen."""
        k = self._seen(self.given.k)
        v = k if self.problem.latent_dim else self._seen(self.given.v)
        return k, v[..., : self.problem.value_dim]

    def _seen(self, cache: Any) -> Any:
        problem = self.problem
        if problem.page_size:
            found = cache.view(-1, *cache.shape[2:]).index_select(0, self._read)
            return found.view(problem.batch_size, self.kv_len, *cache.shape[2:])
        if self.kv_len == problem.kv_len:
            return cache
        return by_heads(problem.layout, by_heads(problem.layout, cache)[:, :, -self.kv_len :])
