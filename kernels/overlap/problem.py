"""A product beside an all-reduce: what ranks bring and receive, and how much of the communication is hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench import stats
from primbench.dtypes import UNIT_ROUNDOFF, itemsize_bytes, numpy_dtype
from primbench.problem import Reference, option, size
from primbench.problem.ranked import Ranked, SummedPart
from primbench.random import POOL_SIZE, repeated, sample

if TYPE_CHECKING:
    import numpy as np

    from primbench.measurement import Measurement
    from primbench.problem import Array

SAMPLED = 64  # rows and columns of the product that are compared


@dataclass(frozen=True)
class Overlap(Ranked, name="overlap"):
    """C[m,n] = A[m,k] B[k,n] on every rank, while y[i] = x_0[i] + x_1[i] + ... is under way between them.

    A call begins the all-reduce, computes the product, and waits for both. Beside it each is timed alone, the three by
    turns: hidden = (product + collective - together) / collective, the share of the communication that costs nothing,
    with its 95 % interval. Below 0, both at once take longer than one after the other.

    x are integers whose sums are exact; of A and B the elements are -1, 0 and 1. What a step of tensor parallelism
    overlaps are the sums of one half of the tokens and the products of the other.
    """

    example_sizes = ((4096, 1, 64, 48, 80), (1008, 1, 17, 33, 5), (8, 1, 1, 1, 1))

    dtype: str = option("bfloat16", "of the buffer and of the product", ("float32", "float16", "bfloat16"))
    m: int = size("rows of A and C", default=2048)
    n: int = size("columns of B and C", default=4096)
    k: int = size("length of the products' sums", default=4096)

    def stretches(self, rank: int) -> list[SummedPart]:
        return [SummedPart(range(self.ranks), 0, self.count)]

    def busbw_factor(self) -> float:
        return 2 * (self.ranks - 1) / self.ranks

    def flop(self) -> int:
        return 2 * self.m * self.n * self.k

    def memory_bytes(self) -> int:
        elements = self.m * self.k + self.k * self.n + self.m * self.n
        return 2 * self.bytes + itemsize_bytes(self.dtype) * elements

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """x, which is drawn first, as count_wrong() draws it, A and B."""
        (x,) = super().inputs(rng)
        pools = (rng.integers(-1, 2, POOL_SIZE).astype(numpy_dtype(self.dtype)) for _ in range(2))
        a, b = (repeated(pool, shape) for pool, shape in zip(pools, ((self.m, self.k), (self.k, self.n)), strict=True))
        return x, a, b

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """Of one rank alone: its x, and behind it the product."""
        import numpy as np

        x, a, b = inputs
        places, exact = self._product(rng, a, b)
        expected = np.concatenate([x.astype(np.float64), exact])
        scale = np.concatenate([np.ones(x.size), np.maximum(1.0, abs(exact))])
        return Reference(np.concatenate([np.arange(x.size), x.size + places]), expected, scale)

    def tolerance(self) -> float:
        """x is exact; of a product that is shared out, partial sums and the sum are rounded."""
        return 4 * UNIT_ROUNDOFF[self.dtype]

    def told_of(self, output: Array, rank: int, seed: int) -> list[float]:
        """How many elements are wrong, of the sums and of those of the product that are compared, of how many."""
        import numpy as np

        sums, product = output[: self.count], output[self.count :]
        _, a, b = self.inputs_of(rank, seed)
        places, exact = self._product(np.random.default_rng(seed), a, b)
        apart = abs(product[places].astype(np.float64) - exact)
        wrong = ~(apart <= self.tolerance() * np.maximum(1.0, abs(exact)))  # what is no number is wrong, too
        return [self.count_wrong(sums, rank, seed) + int(wrong.sum()), sums.size + places.size]

    def _product(self, rng: np.random.Generator, a: Array, b: Array) -> tuple[Array, Array]:
        """Where in C, flat, and what is there: sums of so few ones are exact in float32."""
        import numpy as np

        rows, columns = sample(rng, self.m, SAMPLED), sample(rng, self.n, SAMPLED)
        exact = a[rows].astype(np.float32) @ b[:, columns].astype(np.float32)
        return (rows[:, None] * self.n + columns).ravel(), exact.astype(np.float64).ravel()

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        """The three times, and the hidden share with its 95 % interval, of rounds in which each was timed once."""
        names = ("together_s", "product_s", "collective_s")
        taken = {name: measured.others[name] for name in names if name in measured.others}
        hidden = _hidden(*(each.samples_s for each in taken.values()))
        least, most = stats.median_interval(hidden) or (None, None)
        return {
            **{name: taken[name].median_s if name in taken else None for name in names},
            "hidden_fraction": stats.quantile(hidden, 0.5) if hidden else None,
            "hidden_least_fraction": least,
            "hidden_most_fraction": most,
            "#wrong": 0 if measured.verified else None,
        }


def _hidden(*rounds: list[float]) -> list[float]:
    """Of each round; none unless all three were timed."""
    if len(rounds) != 3:
        return []
    return [(product + alone - together) / alone for together, product, alone in zip(*rounds, strict=True)]
