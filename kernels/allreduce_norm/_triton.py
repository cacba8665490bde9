"""Sums of buffers of several ranks, normalised, in Triton. Import this file only where a kernel is set up."""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
# Triton reads each name in an annotation of a kernel's as one that it computes by.

from __future__ import annotations

from typing import Any

import triton
from triton import language as tl

from primbench.backends._triton import warps_of


@triton.jit
def _summed_norm(  # noqa: PLR0917 - Triton takes them by position
    buffers, residual, weight, h, y, features, epsilon, RANKS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """A program has a row. buffers: int64[RANKS], addresses of what each rank brings, of y's type."""
    row = tl.program_id(0).to(tl.int64) * features
    at = tl.arange(0, BLOCK)
    inside = at < features
    found = tl.load(residual + row + at, mask=inside, other=0.0).to(tl.float32)
    for rank in tl.static_range(RANKS):
        x = tl.load(buffers + rank).to(tl.pointer_type(y.dtype.element_ty))
        found += tl.load(tl.multiple_of(x, 16) + row + at, mask=inside, other=0.0).to(tl.float32)
    summed = found.to(h.dtype.element_ty)
    tl.store(h + row + at, summed, mask=inside)
    found = summed.to(tl.float32)
    found *= tl.rsqrt(tl.sum(found * found, axis=0) / features + epsilon)
    found *= tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row + at, found.to(y.dtype.element_ty), mask=inside)


def summed_norm(buffers: Any, residual: Any, weight: Any, outputs: tuple[Any, Any], epsilon: float) -> None:
    """outputs: h[rows,features], residual and all buffers, added in float32, and y, h normalised and times weight.

    buffers: int64[ranks], the address of each rank's x, as residual is.
    """
    h, y = outputs
    rows, features = h.shape
    block = triton.next_power_of_2(features)
    _summed_norm[(rows,)](
        buffers, residual, weight, h, y, features, epsilon, RANKS=len(buffers), BLOCK=block, num_warps=warps_of(block)
    )
