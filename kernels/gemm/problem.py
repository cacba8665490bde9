"""GEMM, the general matrix-matrix product: sizes, counts, inputs, reference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from primbench.dtypes import TF32_ROUNDOFF, UNIT_ROUNDOFF, itemsize_bytes, rounding
from primbench.errors import InvalidField
from primbench.problem import Problem, Reference, option, size
from primbench.random import random_array, sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np

    from primbench.problem import Array

DTYPES = ("float64", "float32", "float16", "bfloat16", "int8", "float8_e4m3")
ACCUMULATE = {
    "float64": ("float64",),
    "float32": ("float32",),
    "float16": ("float32", "float16"),
    "bfloat16": ("float32",),
    "int8": ("int32",),
    "float8_e4m3": ("float32",),
}
OUTPUT = {"int8": "int32", "float8_e4m3": "bfloat16"}
# Hopper's tensor cores keep about 14 bits of float8 sums: DeepSeek-V3 (2024), arXiv 2412.19437, section 3.3.2.
FLOAT8_SUM_ROUNDOFF = 2.0**-14
FULL_CHECK_FLOP = 2**28
SAMPLED = 64
BLOCK = 2**18  # elements of a factor in float64 at a time, which a cache holds: new memory costs five times as much
CUT_OFF = ("bfloat16", "float16")  # what tensor cores take whole, and sum in float32 without rounding


@dataclass(frozen=True)
class Gemm(Problem, name="gemm"):
    """C = alpha op(A) op(B) + beta D: general matrix product, C[m,n] summed over k.

    All row-major; D[m,n] is an input of its own. With ``bias``, as in a linear layer, C = op(A) op(B) + d: the same n
    numbers are added to each row.

    A is stored [m,k], or [k,m] with trans_a; B [k,n], or [n,k] with trans_b. int8 gives an int32 C, float8_e4m3
    a bfloat16 C. ``accumulate`` is the type of the sums; left empty it becomes float32 for the 8- and 16-bit
    types, int32 for int8, and the dtype itself otherwise.
    """

    m: int = size("rows of C")
    n: int = size("columns of C")
    k: int = size("length of the sums")
    dtype: str = option("float32", "storage type of A and B", DTYPES)
    trans_a: bool = option(False, "A is stored transposed")
    trans_b: bool = option(False, "B is stored transposed")
    math_mode: str = option("ieee", "tf32 rounds float32 inputs to 10 bits for the tensor cores", ("ieee", "tf32"))
    accumulate: str = option("", "type of the sums (default: by dtype)", ("", "float64", "float32", "float16", "int32"))
    alpha: float = option(1.0, "factor of the product")
    beta: float = option(0.0, "factor of the added matrix")
    bias: bool = option(False, "a row of n numbers is added to each row, as in a linear layer")

    before = MappingProxyType({"bias": lambda device: False})

    def settle(self) -> None:
        allowed = ACCUMULATE[self.dtype]
        if not self.accumulate:
            object.__setattr__(self, "accumulate", allowed[0])
        if self.accumulate not in allowed:
            raise InvalidField(
                f"gemm accumulate={self.accumulate!r} with dtype={self.dtype!r}: one of {', '.join(allowed)}"
            )
        if self.math_mode == "tf32" and self.dtype != "float32":
            raise InvalidField(f"gemm math_mode='tf32' with dtype={self.dtype!r}: tf32 is a mode of float32")
        if self.dtype == "int8" and (self.alpha, self.beta) != (1.0, 0.0):
            raise InvalidField("gemm dtype='int8': only alpha=1 and beta=0")
        if self.bias and ((self.alpha, self.beta) != (1.0, 0.0) or self.dtype in OUTPUT):
            raise InvalidField("gemm bias: only alpha=1 and beta=0, and neither int8 nor float8_e4m3")

    @property
    def out_dtype(self) -> str:
        return OUTPUT.get(self.dtype, self.dtype)

    @property
    def a_shape(self) -> tuple[int, int]:
        return (self.k, self.m) if self.trans_a else (self.m, self.k)

    @property
    def b_shape(self) -> tuple[int, int]:
        return (self.n, self.k) if self.trans_b else (self.k, self.n)

    def flop(self) -> int:
        """2mnk, a multiply-add counted as two: LAPACK Working Note 41, section 3 (what is added is left out)."""
        return 2 * self.m * self.n * self.k

    def library_calls(self) -> int:
        return 1

    def bytes_moved(self) -> int:
        inputs = (self.m * self.k + self.k * self.n) * itemsize_bytes(self.dtype)
        outputs = self.m * self.n * itemsize_bytes(self.out_dtype)
        biases = self.n * itemsize_bytes(self.dtype) if self.bias else 0
        return inputs + biases + outputs * (2 if self.beta else 1)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """A, B and, where beta is not 0, D; or the biases, [n]."""
        a, b = random_array(rng, self.a_shape, self.dtype), random_array(rng, self.b_shape, self.dtype)
        added = (self.n,) if self.bias else (self.m, self.n)
        return (a, b, random_array(rng, added, self.out_dtype)) if self.bias or self.beta else (a, b)

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """All of C, or 64 of its rows times 64 of its columns where all of it costs more than 2^28 flop.

        The scale is the size that rounding errors have: u |alpha| |A||B| of the sums, for inputs of mean zero, whose
        partial sums stay far below |A||B| (Higham & Mary 2020, SIAM J. Sci. Comput. 42(5) A3427), and the rounding
        of the output. Tensor cores cut off what others round (Fasi et al. 2021, PeerJ Comput. Sci. 7:e330), so that the
        errors of 16-bit inputs' sums point one way: u / 16 times all partial sums, which grow as the root of their
        length does, comes to 0.05 sqrt(k) times as much.
        """
        import numpy as np

        a, b = inputs[:2]
        index: Any = ...
        if self.flop() > FULL_CHECK_FLOP:
            rows, columns = sample(rng, self.m, SAMPLED), sample(rng, self.n, SAMPLED)
            index = np.ix_(rows, columns)
            # From the arrays as they are stored: through a transposed view each element would miss the cache.
            a, b = a.take(rows, axis=int(self.trans_a)), b.take(columns, axis=int(not self.trans_b))
        product, of_sizes = exact_product(*oriented(self, a, b))
        expected, summed = self.alpha * product, abs(self.alpha) * of_sizes
        if self.bias or self.beta:
            factor = 1.0 if self.bias else self.beta
            added = factor * np.broadcast_to(inputs[2], (self.m, self.n))[index].astype(np.float64)
            expected, summed = expected + added, summed + np.abs(added)
        rounded_inputs = TF32_ROUNDOFF if self.math_mode == "tf32" else 0.0
        sums = FLOAT8_SUM_ROUNDOFF if self.dtype == "float8_e4m3" else UNIT_ROUNDOFF[self.accumulate]
        if self.dtype in CUT_OFF:
            sums *= max(1.0, 0.05 * self.k**0.5)
        scale = (sums + rounded_inputs / 4) * summed
        return Reference(index, expected, scale + rounding(self.out_dtype, expected) / 4)

    def tolerance(self) -> float:
        """8 natural sizes, for the largest of many errors. Integers have none: their scale is 0."""
        return 8.0

    def probe(self, flop: int) -> Gemm | None:
        side = round((flop / 2) ** (1 / 3))
        small = replace(self, m=min(self.m, side), n=min(self.n, side), k=min(self.k, side))
        return small if 2 * small.flop() < self.flop() else None


def exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    """A[m,k] B[k,n] and |A||B|, float64. The sums run backwards: no library's product is compared with itself."""
    import numpy as np

    a = a[:, ::-1].astype(np.float64)
    sizes = np.abs(a)
    found = []
    for columns in blocks_of(np.arange(b.shape[1]), len(b)):
        block = b[::-1, columns[0] : columns[-1] + 1].astype(np.float64)
        found.append((a @ block, sizes @ np.abs(block, out=block)))
    return joined(found)


def blocks_of(columns: Array, k: int) -> Iterator[Array]:
    """Columns of B, of which so many at a time as BLOCK allows that have k elements each."""
    count = max(1, BLOCK // k)
    return (columns[start : start + count] for start in range(0, len(columns), count))


def joined(blocks: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Of products of blocks of columns, as exact_product() gives them, that of all."""
    import numpy as np

    product, of_sizes = (np.concatenate(parts, axis=1) for parts in zip(*blocks, strict=True))
    return product, of_sizes


class Transposed(Protocol):
    @property
    def trans_a(self) -> bool: ...
    @property
    def trans_b(self) -> bool: ...


def oriented(problem: Transposed, a: Any, b: Any) -> tuple[Any, Any]:
    """Views of A as [...,m,k] and B as [...,k,n], for arrays and tensors."""
    return (a.swapaxes(-2, -1) if problem.trans_a else a), (b.swapaxes(-2, -1) if problem.trans_b else b)
