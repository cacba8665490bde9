"""Scaled GEMM: float8 matrices, and the scales that they were quantised by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.dtypes import UNIT_ROUNDOFF, itemsize_bytes
from primbench.errors import InvalidField
from primbench.kernels.gemm.problem import FLOAT8_SUM_ROUNDOFF, FULL_CHECK_FLOP, SAMPLED, Gemm, exact_product
from primbench.problem import Problem, Reference, option, size
from primbench.random import random_array, sample

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

DTYPES = ("float8_e4m3",)
OUTPUT = "bfloat16"
BLOCK = 128
# What the libraries want: cuBLAS manual, "8-bit floating point data types usage"; of blocks, the scales of B are four
# blocks of k apart, which versions of torch pad differently.
MULTIPLES = {"tensor": (16, 16), "row": (16, 16), "block": (BLOCK, 4 * BLOCK)}


@dataclass(frozen=True)
class ScaledGemm(Problem, name="scaled_gemm"):
    """C = (s_A A) (s_B B)^T: product of float8 matrices with scales, one in all, one a row, or one a block.

    A is [m,k], B [n,k], C bfloat16 [m,n]; scales are float32. tensor: one for A, one for B. row: one for each row of A
    and of B. block: one for 128 elements of a row of A and one for 128 x 128 elements of B, as DeepSeek-V3 has them
    (2024, arXiv 2412.19437, section 3.3.2).
    """

    m: int = size("rows of A and C")
    n: int = size("rows of B, columns of C")
    k: int = size("columns of A and B, length of the sums")
    dtype: str = option("float8_e4m3", "storage type of A and B", DTYPES)
    scaling: str = option("tensor", "what has a scale of its own", tuple(MULTIPLES))

    example_sizes = ((64, 128, 512), (36, 256, 1024), (16, 128, 512))

    def settle(self) -> None:
        n, k = MULTIPLES[self.scaling]
        if self.n % n or self.k % k:
            found = f"scaled_gemm scaling={self.scaling!r} n={self.n} k={self.k}"
            raise InvalidField(f"{found}: n must be a multiple of {n}, k of {k}")

    @property
    def product(self) -> Gemm:
        """The same without scales."""
        return Gemm(self.m, self.n, self.k, self.dtype, trans_b=True)

    def flop(self) -> int:
        """Those of the product, without scaling."""
        return self.product.flop()

    def library_calls(self) -> int:
        return 1

    def bytes_moved(self) -> int:
        scales = sum(rows * columns for rows, columns in self._scale_shapes())
        return self.product.bytes_moved() + scales * itemsize_bytes("float32")

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """A, B and their scales, as libraries store them: those of blocks are [k/128,m] for A, [n/128,k/128] for B."""
        import numpy as np

        a, b = random_array(rng, (self.m, self.k), self.dtype), random_array(rng, (self.n, self.k), self.dtype)
        return a, b, *(rng.random(shape, np.float32) + np.float32(0.5) for shape in self._scale_shapes())

    def _scale_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        blocks = self.k // BLOCK
        return {
            "tensor": ((1, 1), (1, 1)),
            "row": ((1, self.m), (1, self.n)),
            "block": ((blocks, self.m), (self.n // BLOCK, blocks)),
        }[self.scaling]

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """The product of the scaled matrices in float64; 64 rows by 64 columns where all costs more than 2^28 flop."""
        import numpy as np

        a, b, scale_a, scale_b = inputs
        index: Any = ...
        rows, columns = np.arange(self.m), np.arange(self.n)
        if self.flop() > FULL_CHECK_FLOP:
            rows, columns = sample(rng, self.m, SAMPLED), sample(rng, self.n, SAMPLED)
            index = np.ix_(rows, columns)
        of_a = np.broadcast_to(scale_a.T, (self.m, scale_a.shape[0]))[rows]
        of_b = scale_b.T if self.scaling == "row" else np.repeat(scale_b, self.n // scale_b.shape[0], axis=0)
        scaled_a, scaled_b = (
            part.astype(np.float64) * np.repeat(scale, self.k // scale.shape[1], axis=1)
            for part, scale in ((a[rows], of_a), (b[columns], of_b[columns]))
        )
        expected, summed = exact_product(scaled_a, scaled_b.T)
        return Reference(index, expected, FLOAT8_SUM_ROUNDOFF * summed + UNIT_ROUNDOFF[OUTPUT] / 4 * np.abs(expected))

    def tolerance(self) -> float:
        return self.product.tolerance()
