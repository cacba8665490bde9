"""Grouped GEMM: products that share n and k, each with rows of its own number."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from primbench.dtypes import UNIT_ROUNDOFF, itemsize_bytes, rounding
from primbench.kernels.gemm.problem import SAMPLED, exact_product
from primbench.problem import Problem, Reference, option, size
from primbench.random import random_array, sample, zipf_counts

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

DTYPES = ("float64", "float32", "float16", "bfloat16")
INDEX = "int32"


@dataclass(frozen=True)
class GroupedGemm(Problem, name="grouped_gemm"):
    """C[t] = A[t] B_g(t): tokens sorted by group, each group with a matrix of its own, as in a mixture of experts.

    A is [tokens,k], of which each group has the rows that follow the previous group's; B is [groups,k,n], or
    [groups,n,k] with trans_b; C is [tokens,n]. An even split gives groups the same number of tokens, or one more;
    a random one sends each token to a group drawn uniformly. zipf is skewed, as experts that a router prefers: the k-th
    busiest group has 1/k times as many tokens as the busiest (Zipf 1949, "Human Behavior and the Principle of Least
    Effort"), in an order by seed; with few tokens some groups have none, whose B is not read. float16 and bfloat16 are
    summed in float32.
    """

    groups: int = size("matrices B, such as experts")
    tokens: int = size("rows of A and C, of all groups together")
    n: int = size("columns of C")
    k: int = size("length of the sums")
    dtype: str = option("float32", "storage type", DTYPES)
    split: str = option("random", "how many tokens each group has", ("random", "even", "zipf"))
    trans_b: bool = option(False, "each B is stored transposed")

    example_sizes = ((4, 96, 64, 80), (5, 33, 17, 11), (1, 1, 1, 1))

    trans_a = False

    def flop(self) -> int:
        """Every token has one product with a matrix, whatever its group."""
        return 2 * self.tokens * self.n * self.k

    def bytes_moved(self) -> int:
        """Of B the matrices of groups that have tokens: of a random split as many as have some on average."""
        return self._bytes_of(self._used_groups())

    def memory_bytes(self) -> int:
        return self._bytes_of(self.groups)

    def _bytes_of(self, groups: int) -> int:
        elements = self.tokens * (self.k + self.n) + groups * self.k * self.n
        return elements * itemsize_bytes(self.dtype) + self.groups * itemsize_bytes(INDEX)

    def _used_groups(self) -> int:
        if self.split == "zipf":
            return sum(map(bool, zipf_counts(self.tokens, self.groups)))
        if self.split == "even":
            return min(self.groups, self.tokens)
        return round(self.groups * (1 - (1 - 1 / self.groups) ** self.tokens))

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """A, B, and int32[groups]: where in A each group ends."""
        import numpy as np

        if self.split == "even":
            counts = (self.tokens + np.arange(self.groups)) // self.groups
        elif self.split == "zipf":
            counts = rng.permutation(zipf_counts(self.tokens, self.groups))
        else:
            counts = rng.multinomial(self.tokens, np.full(self.groups, 1 / self.groups))
        b_shape = (self.n, self.k) if self.trans_b else (self.k, self.n)
        a = random_array(rng, (self.tokens, self.k), self.dtype)
        return a, random_array(rng, (self.groups, *b_shape), self.dtype), np.cumsum(counts).astype(INDEX)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """64 rows, with the first and the last of every group, times 64 columns. The scale is that of a GEMM."""
        import numpy as np

        a, b, ends = inputs
        edges = np.concatenate([[0], ends])
        rows = np.unique(np.concatenate([sample(rng, self.tokens, SAMPLED), edges[:-1] % self.tokens, ends - 1]))
        rows, columns = rows[rows >= 0], sample(rng, self.n, SAMPLED)
        parts = [
            exact_product(a[rows[(first <= rows) & (rows < end)]], self._columns(b[group], columns))
            for group, (first, end) in enumerate(zip(edges, ends, strict=False))
        ]
        expected, summed = map(np.concatenate, zip(*parts, strict=True))
        sums = UNIT_ROUNDOFF["float64" if self.dtype == "float64" else "float32"]
        scale = sums * summed + rounding(self.dtype, expected) / 4
        return Reference(np.ix_(rows, columns), expected, scale)

    def _columns(self, b: Array, columns: Array) -> Array:
        return b[columns].T if self.trans_b else b[:, columns]

    def tolerance(self) -> float:
        """8 natural sizes, for the largest of many errors."""
        return 8.0

    def probe(self, flop: int) -> GroupedGemm | None:
        small = replace(self, tokens=max(1, min(self.tokens, flop // (2 * self.n * self.k))))
        return small if 2 * small.flop() < self.flop() else None


def slices(ends: Any) -> list[tuple[int, slice]]:
    """The groups that have tokens, and which. ends: as in the inputs, on the host."""
    starts = [0, *ends.tolist()]
    return [(group, slice(start, end)) for group, (start, end) in enumerate(itertools.pairwise(starts)) if end > start]
