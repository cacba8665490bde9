"""Batched GEMM: so many products of one size in one call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from primbench.errors import InvalidField
from primbench.kernels.gemm.problem import FULL_CHECK_FLOP, Gemm
from primbench.problem import Problem, Reference, option, size
from primbench.random import random_array, sample

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

DTYPES = ("float64", "float32", "float16", "bfloat16")
CHECKED = 8  # products of those whose whole output costs too much


@dataclass(frozen=True)
class BatchedGemm(Problem, name="batched_gemm"):
    """C_i = op(A_i) op(B_i): a batch of matrix products of one size, one behind the other in memory.

    As the products of attention and of experts with equally many tokens are. A is stored [batch,m,k], or [batch,k,m]
    with trans_a; B [batch,k,n], or [batch,n,k] with trans_b; C is [batch,m,n]. float16 and bfloat16 are summed in
    float32.
    """

    batch: int = size("products")
    m: int = size("rows of each C")
    n: int = size("columns of each C")
    k: int = size("length of the sums")
    dtype: str = option("float32", "storage type", DTYPES)
    trans_a: bool = option(False, "each A is stored transposed")
    trans_b: bool = option(False, "each B is stored transposed")
    math_mode: str = option("ieee", "tf32 rounds float32 inputs to 10 bits for the tensor cores", ("ieee", "tf32"))

    example_sizes = ((6, 64, 48, 80), (5, 33, 17, 11), (1, 1, 1, 1))

    def settle(self) -> None:
        if self.math_mode == "tf32" and self.dtype != "float32":
            raise InvalidField(f"batched_gemm math_mode='tf32' with dtype={self.dtype!r}: tf32 is a mode of float32")

    @property
    def product(self) -> Gemm:
        """One of them."""
        return Gemm(self.m, self.n, self.k, self.dtype, self.trans_a, self.trans_b, self.math_mode)

    def flop(self) -> int:
        return self.batch * self.product.flop()

    def bytes_moved(self) -> int:
        return self.batch * self.product.bytes_moved()

    def library_calls(self) -> int:
        return 1

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """A and B."""
        product = self.product
        return tuple(
            random_array(rng, (self.batch, *shape), self.dtype) for shape in (product.a_shape, product.b_shape)
        )

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """Those of single products, of all of them or 8: the first strip's, ..., the last."""
        import numpy as np

        product, (a, b) = self.product, inputs
        affordable = max(CHECKED, FULL_CHECK_FLOP // product.flop())
        chosen = sample(rng, self.batch, affordable)
        found = [product.reference(rng, a[each], b[each]) for each in chosen]
        expected, scale = (np.stack([getattr(each, name) for each in found]) for name in ("expected", "scale"))
        if found[0].index is ...:
            return Reference(chosen, expected, scale)
        rows, columns = map(np.stack, zip(*(each.index for each in found), strict=True))
        return Reference((chosen[:, None, None], rows, columns), expected, scale)

    def tolerance(self) -> float:
        return self.product.tolerance()

    def probe(self, flop: int) -> BatchedGemm | None:
        small = replace(self, batch=max(1, min(self.batch, flop // self.product.flop())))
        return small if 2 * small.flop() < self.flop() else None
