"""Embedding: sizes, counts, inputs, reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.dtypes import itemsize_bytes, rounding
from primbench.problem import MEMORY, Bound, Exact, Problem, Reference, option, size
from primbench.random import random_array, sample

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

INDEX_BYTES = 8  # int64, as data sets and torch have them
CHECKED_ROWS = 64


@dataclass(frozen=True)
class Embedding(Problem, name="embedding"):
    """Rows of a table, one for each token, and the gradient of the table, which memory bounds.

    y[tokens,embedding_dim] is table[num_embeddings,embedding_dim] at index[tokens]. backward is the gradient of all of
    the table, 0 where no token is, from dy. Tokens with the same index are added up there, which costs the more the
    more there are: distribution=zipf draws them as words come in a text, the k-th most frequent 1/k times as often as
    the first (Zipf 1949, "Human Behavior and the Principle of Least Effort").
    """

    example_sizes = ((96, 50, 32), (133, 20, 19), (1, 1, 1))
    tokens_field = "tokens"

    tokens: int = size("rows that are taken")
    num_embeddings: int = size("rows of the table")
    embedding_dim: int = size("elements of a row")
    direction: str = option("forward", "y, or the gradient of the table", ("forward", "backward"))
    distribution: str = option("uniform", "how often each index comes", ("uniform", "zipf"))
    dtype: str = option("float32", "storage type", ("float32", "float16", "bfloat16"))

    def bytes_moved(self) -> int:
        """Of each token its row, read and written, or dy and all of the gradient; and the indices."""
        rows = 2 * self.tokens if self.direction == "forward" else self.tokens + self.num_embeddings
        return rows * self.embedding_dim * itemsize_bytes(self.dtype) + self.tokens * INDEX_BYTES

    def bound(self) -> Bound:
        return MEMORY

    def memory_bytes(self) -> int:
        rows = self.tokens + self.num_embeddings
        return rows * self.embedding_dim * itemsize_bytes(self.dtype) + self.tokens * INDEX_BYTES

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """The table or dy, then int64[tokens]."""
        rows = self.num_embeddings if self.direction == "forward" else self.tokens
        return random_array(rng, (rows, self.embedding_dim), self.dtype), self._indices(rng)

    def _indices(self, rng: np.random.Generator) -> Array:
        import numpy as np

        if self.distribution == "uniform":
            return rng.integers(0, self.num_embeddings, self.tokens)
        often = np.cumsum(1 / np.arange(1, self.num_embeddings + 1))
        drawn = np.searchsorted(often, rng.random(self.tokens) * often[-1])
        words: Array = rng.permutation(self.num_embeddings)[drawn]  # a number says nothing of how frequent a word is
        return words

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference | Exact:
        """Of backward 64 rows that have tokens, and 64 of all. A sum may be rounded at each of its terms."""
        import numpy as np

        array, indices = inputs
        if self.direction == "forward":
            return Exact(array[indices])
        used = np.unique(indices)
        rows = np.unique(
            np.append(used[sample(rng, len(used), CHECKED_ROWS)], sample(rng, self.num_embeddings, CHECKED_ROWS))
        )
        parts = [array[indices == row].astype(np.float64) for row in rows]
        expected, summed = (np.stack([f(part).sum(axis=0) for part in parts]) for f in (np.positive, np.abs))
        return Reference(rows, expected, rounding(self.dtype, summed))

    def tolerance(self) -> float:
        """8 natural sizes, for the largest of many errors; a copy has none."""
        return 8.0
