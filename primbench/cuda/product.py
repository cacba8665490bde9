"""What a matrix product is, to a library that takes column-major matrices by their addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

ALIGNMENT_BYTES = 256  # of what is allocated by itself


class Sizes(Protocol):
    """C[m,n] is the product of A[m,k] and B[k,n] of a dtype."""

    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def dtype(self) -> str: ...


class Product(Sizes, Protocol):
    """C[m,n] = alpha op(A)[m,k] op(B)[k,n] + beta D[m,n], row-major and contiguous."""

    @property
    def out_dtype(self) -> str: ...
    @property
    def accumulate(self) -> str: ...
    @property
    def math_mode(self) -> str: ...
    @property
    def trans_a(self) -> bool: ...
    @property
    def trans_b(self) -> bool: ...
    @property
    def alpha(self) -> float: ...
    @property
    def beta(self) -> float: ...


@dataclass(frozen=True)
class Scales:
    """Device addresses of float32, by which float8 is multiplied: of A and of B, one in all, or one a row of either.

    kind "block": one for 128 elements of a row of A, [k/128,m]; one for 128 by 128 elements of B, [n/128,k/128].
    """

    kind: str
    a: int
    b: int


@dataclass(frozen=True)
class Addresses:
    """Device addresses of memory that the caller keeps alive, ALIGNMENT_BYTES aligned unless plan() is told else."""

    a: int
    b: int
    d: int
    """Of the result; may be ``c`` where beta is 0."""
    c: int
    workspace: int
    """cublaslt.WORKSPACE_BYTES of scratch, free for every product on the same stream."""


@dataclass(frozen=True)
class ProductOperand:
    """A contiguous column-major matrix, ``rows`` by ``columns``; it enters the product transposed or not."""

    dtype: str
    rows: int
    columns: int
    transposed: bool


def column_major(product: Product) -> tuple[ProductOperand, ProductOperand, ProductOperand]:
    """Left factor (B), right factor (A) and result (C).

    Row-major C is, byte for byte, column-major C^T = op(B)^T op(A)^T.
    """
    m, n, k, dtype = product.m, product.n, product.k, product.dtype
    left_shape = (k, n) if product.trans_b else (n, k)
    right_shape = (m, k) if product.trans_a else (k, m)
    left = ProductOperand(dtype, *left_shape, transposed=product.trans_b)
    right = ProductOperand(dtype, *right_shape, transposed=product.trans_a)
    return left, right, ProductOperand(product.out_dtype, n, m, transposed=False)
