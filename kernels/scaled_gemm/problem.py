"""Scaled GEMM: matrices of few bits, and the scales that they were quantised by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.dtypes import UNIT_ROUNDOFF, itemsize_bytes, rounding
from primbench.errors import InvalidField
from primbench.kernels.gemm.problem import (
    FLOAT8_SUM_ROUNDOFF,
    FULL_CHECK_FLOP,
    SAMPLED,
    blocks_of,
    exact_product,
    joined,
)
from primbench.problem import Problem, Reference, option, size
from primbench.random import random_array, sample

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

SCALINGS = {
    "float8_e4m3": ("tensor", "row", "block", "mx"),
    "int8": ("row", "tensor"),
    "int4": ("group",),
    "float4_e2m1": ("mx", "nv"),
}
"""Of each dtype, the usual one first."""
PACKED = ("int4", "float4_e2m1")
"""Of which a byte holds two."""
OUTPUT = "bfloat16"
BLOCK = 128
ELEMENTS = {"group": BLOCK, "mx": 32, "nv": 16}
"""Of a row that share a scale."""
# What n and k are multiples of. cuBLAS manual, "8-bit floating point data types usage"; of blocks, the scales of B are
# four blocks of k apart, which versions of torch pad differently.
MULTIPLES = {
    "tensor": (16, 16), "row": (16, 16), "block": (BLOCK, 4 * BLOCK),
    "mx": (16, 32), "nv": (16, 32), "group": (16, BLOCK),
}  # fmt: skip
# Hopper's tensor cores keep about 14 bits of float8 sums, and float4 is multiplied by cores like them; sums of int8 are
# exact, but for the reference's own, which have scales in them; weights of int4 may be rounded to bfloat16 first.
SUM_ROUNDOFF = {
    "float8_e4m3": FLOAT8_SUM_ROUNDOFF,
    "float4_e2m1": FLOAT8_SUM_ROUNDOFF,
    "int8": UNIT_ROUNDOFF["float64"],
    "int4": UNIT_ROUNDOFF["float32"] + UNIT_ROUNDOFF["bfloat16"] / 4,
}


@dataclass(frozen=True)
class ScaledGemm(Problem, name="scaled_gemm"):
    """C = (s_A A) (s_B B)^T: product of matrices of few bits with scales: one in all, one a row, or one a block.

    A is [m,k], B [n,k], C bfloat16 [m,n]. scaling=tensor is one float32 for A, one for B; row one for each row of A and
    of B, which int8 has where scaling is left out; block one for 128 elements of a row of A and one for 128 x 128
    elements of B, as DeepSeek-V3 has them (2024, arXiv 2412.19437, section 3.3.2). mx is a power of two for 32 elements
    of a row of either (OCP Microscaling Formats 1.0, 2023): MXFP8, or MXFP4 with dtype=float4_e2m1; nv a float8_e4m3
    for 16 of them: NVFP4, without its one scale of a whole tensor.

    int4 is of weights alone: A is bfloat16, and for 128 elements of a row of B there is a scale and a zero point, by
    which they are (b - 8) scale + zero; scaling=group. int8 is summed in int32, all others in float32.
    """

    m: int = size("rows of A and C")
    n: int = size("rows of B, columns of C")
    k: int = size("columns of A and B, length of the sums")
    dtype: str = option("float8_e4m3", "storage type of A and B, of int4 that of B", tuple(SCALINGS))
    scaling: str = option("", "what has a scale of its own (default: by dtype)", ("", *MULTIPLES))

    example_sizes = ((64, 128, 512), (36, 256, 1024), (16, 128, 512))

    def settle(self) -> None:
        known = SCALINGS[self.dtype]
        if not self.scaling:
            object.__setattr__(self, "scaling", known[0])
        if self.scaling not in known:
            found = f"scaled_gemm scaling={self.scaling!r} with dtype={self.dtype!r}"
            raise InvalidField(f"{found}: one of {', '.join(known)}")
        n, k = MULTIPLES[self.scaling]
        if self.n % n or self.k % k:
            found = f"scaled_gemm scaling={self.scaling!r} n={self.n} k={self.k}"
            raise InvalidField(f"{found}: n must be a multiple of {n}, k of {k}")

    def flop(self) -> int:
        """2mnk, those of the product, without scaling."""
        return 2 * self.m * self.n * self.k

    def library_calls(self) -> int:
        return 1

    def bytes_moved(self) -> int:
        of_a = self.m * self.k * itemsize_bytes("bfloat16") if self.dtype == "int4" else self._matrix_bytes(self.m)
        of_c = self.m * self.n * itemsize_bytes(OUTPUT)
        return of_a + self._matrix_bytes(self.n) + of_c + self._scale_bytes()

    def _matrix_bytes(self, rows: int) -> int:
        return rows * self.k // 2 if self.dtype in PACKED else rows * self.k * itemsize_bytes(self.dtype)

    def _scale_bytes(self) -> int:
        if self.scaling == "group":
            return self.n * self.k // BLOCK * 2 * itemsize_bytes("bfloat16")
        if self.scaling in ELEMENTS:
            return (self.m + self.n) * self.k // ELEMENTS[self.scaling]
        return sum(rows * columns for rows, columns in self._scale_shapes()) * itemsize_bytes("float32")

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """A, B and their scales, as libraries store them: those of blocks are [k/128,m] for A, [n/128,k/128] for B.

        Of two elements in a byte, [rows,k/2], the first has the lower bits. Scales of mx are the bytes of
        float8_e8m0 [rows,k/32], those of nv float8_e4m3 [rows,k/16]. int4 has scale and zero, bfloat16 [k/128,n,2].
        """
        import numpy as np

        from primbench.kernels.scaled_gemm._quantised import random_scales

        is_of_b_alone = self.dtype == "int4"
        a = random_array(rng, (self.m, self.k), "bfloat16") if is_of_b_alone else self._random_matrix(rng, self.m)
        b = self._random_matrix(rng, self.n)
        if self.scaling == "group":
            return a, b, random_array(rng, (self.k // BLOCK, self.n, 2), "bfloat16")
        if self.scaling in ELEMENTS:
            columns = self.k // ELEMENTS[self.scaling]
            return a, b, *(random_scales(rng, (rows, columns), self.scaling) for rows in (self.m, self.n))
        return a, b, *(rng.random(shape, np.float32) + np.float32(0.5) for shape in self._scale_shapes())

    def _random_matrix(self, rng: np.random.Generator, rows: int) -> Array:
        from primbench.kernels.scaled_gemm._quantised import random_packed

        packed = self.dtype in PACKED
        return random_packed(rng, rows, self.k) if packed else random_array(rng, (rows, self.k), self.dtype)

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

        from primbench.kernels.scaled_gemm._quantised import factors

        index: Any = ...
        rows, columns = np.arange(self.m), np.arange(self.n)
        if self.flop() > FULL_CHECK_FLOP:
            rows, columns = sample(rng, self.m, SAMPLED), sample(rng, self.n, SAMPLED)
            index = np.ix_(rows, columns)
        parts = (factors(self, inputs, rows, block) for block in blocks_of(columns, self.k))
        expected, summed = joined(exact_product(scaled_a, scaled_b.T) for scaled_a, scaled_b in parts)
        scale = SUM_ROUNDOFF[self.dtype] * summed + rounding(OUTPUT, expected) / 4
        return Reference(index, expected, scale)

    def tolerance(self) -> float:
        """8 natural sizes, for the largest of many errors."""
        return 8.0
