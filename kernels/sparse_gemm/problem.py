"""Sparse GEMM, a CSR matrix times a dense one: sizes, counts, inputs, reference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from primbench.dtypes import UNIT_ROUNDOFF, itemsize_bytes, rounding
from primbench.errors import InvalidField
from primbench.problem import Problem, Reference, option, size
from primbench.random import random_array, sample

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

DTYPES = ("float64", "float32", "float16", "bfloat16")
SUMS = {"float64": "float64"}  # the 16-bit types are summed in float32
INDEX = "int32"
INDEX_LIMIT = 2**31
DRAW = 2**22
FULL_CHECK_FLOP = 2**28
SAMPLED = 64


@dataclass(frozen=True)
class SparseGemm(Problem, name="sparse_gemm"):
    """C = A B with A sparse: A[m,k] in CSR with 32-bit indices, B[k,n] and C[m,n] dense and row-major.

    A has round(m k (1 - sparsity)) non-zeros, at least one, at random places. FLOP/s are effective: the zeros that
    are not multiplied do not count.
    """

    m: int = size("rows of A and C")
    n: int = size("columns of B and C")
    k: int = size("columns of A, rows of B")
    sparsity: float = option(0.9, "fraction of A that is zero", least=0, most=1)
    dtype: str = option("float32", "storage type of A, B and C", DTYPES)

    def settle(self) -> None:
        if self.sparsity == 1:
            raise InvalidField(f"sparse_gemm sparsity={self.sparsity}: below 1, or A has nothing to multiply")
        if max(self.m, self.k) >= INDEX_LIMIT or self.nonzeros >= INDEX_LIMIT:
            raise InvalidField(
                f"sparse_gemm m={self.m}, k={self.k}, sparsity={self.sparsity}: 32-bit indices reach 2^31 rows, "
                "columns and non-zeros: ask for smaller sizes or more sparsity"
            )

    @property
    def nonzeros(self) -> int:
        return max(1, round(self.m * self.k * (1 - self.sparsity)))

    def flop(self) -> int:
        """A multiply and an add for every non-zero of A and column of B: 2mnk (1 - sparsity)."""
        return 2 * self.nonzeros * self.n

    def bytes_moved(self) -> int:
        index_bytes = itemsize_bytes(INDEX) * (self.nonzeros + self.m + 1)
        elements = self.nonzeros + self.k * self.n + self.m * self.n
        return index_bytes + elements * itemsize_bytes(self.dtype)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """A's values[nonzeros], its columns[nonzeros], ascending in each row, its row_starts[m+1]; then B.

        They are CSR from the start: as a dense matrix, A would take 10 or 20 times the memory of the problem.
        """
        import numpy as np

        places = _places(rng, self.m * self.k, self.nonzeros)
        columns = (places % self.k).astype(INDEX)
        row_starts = np.searchsorted(places, np.arange(self.m + 1) * self.k).astype(INDEX)
        values = random_array(rng, (self.nonzeros,), self.dtype)
        return values, columns, row_starts, random_array(rng, (self.k, self.n), self.dtype)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """A dense product: all of C, or 64 of its rows times 64 of its columns where all takes more than 2^28 flop.

        Writing A out as a dense matrix counts as a product with 64 columns. The scale is the size that rounding errors
        have: u |A||B| of the sums, for values of mean zero (Higham & Mary 2020, SIAM J. Sci. Comput. 42(5) A3427), and
        the rounding of the output.
        """
        import numpy as np
        from scipy.sparse import csr_array

        values, columns, row_starts, b = inputs
        a = csr_array((values.astype(np.float64), columns, row_starts), shape=(self.m, self.k))
        index: Any = ...
        if 2 * self.m * self.k * max(self.n, SAMPLED) > FULL_CHECK_FLOP:
            rows, of_b = sample(rng, self.m, SAMPLED), sample(rng, self.n, SAMPLED)
            index, a, b = np.ix_(rows, of_b), a[rows], b[:, of_b]
        dense_a, b = a.toarray(), b.astype(np.float64)
        expected, summed = dense_a @ b, np.abs(dense_a) @ np.abs(b)
        of_sums = UNIT_ROUNDOFF[SUMS.get(self.dtype, "float32")]
        return Reference(index, expected, of_sums * summed + rounding(self.dtype, expected) / 4)

    def tolerance(self) -> float:
        """8 times the natural size of the errors, for the largest of many."""
        return 8.0

    def probe(self, flop: int) -> SparseGemm | None:
        side = round((flop / 2 / (1 - self.sparsity)) ** (1 / 3))
        small = replace(self, m=min(self.m, side), n=min(self.n, side), k=min(self.k, side))
        return small if self.flop() > 2 * flop else None


def _places(rng: np.random.Generator, total: int, count: int) -> Array:
    """``count`` different whole numbers below ``total``, ascending.

    Every 4 million numbers give their share: a draw without repeats takes 8 bytes for each number it draws from,
    which for all of a large matrix at once would exceed the memory of the problem many times.
    """
    import numpy as np

    starts = range(0, total, DRAW)
    shares = [start * count // total for start in (*starts, total)]
    drawn = (
        start + np.sort(rng.choice(min(DRAW, total - start), end - begin, replace=False, shuffle=False))
        for start, begin, end in zip(starts, shares, shares[1:], strict=False)
    )
    return np.concatenate(list(drawn))
