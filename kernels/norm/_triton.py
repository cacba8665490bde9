"""Layer and RMS normalisation in Triton: a program holds a row. Import this file only where a kernel is set up."""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
# Triton reads each name in an annotation of a kernel's as one that it computes by.

from __future__ import annotations

from typing import Any

import triton
from triton import language as tl

from primbench.backends._triton import warps_of


@triton.jit
def _norm(  # noqa: PLR0917 - Triton takes them by position
    x, weight, bias, y, features, epsilon, IS_LAYER: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * features
    at = tl.arange(0, BLOCK)
    inside = at < features
    found = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    if IS_LAYER:
        found = tl.where(inside, found - tl.sum(found, axis=0) / features, 0.0)
    found *= tl.rsqrt(tl.sum(found * found, axis=0) / features + epsilon)
    found *= tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    if IS_LAYER:
        found += tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row + at, found.to(y.dtype.element_ty), mask=inside)


def norm(x: Any, weight: Any, bias: Any, y: Any, epsilon: float) -> Any:
    """Of the rows of x[rows,features], written to y, which is returned. bias: None where it is RMS normalisation."""
    rows, features = x.shape
    block = triton.next_power_of_2(features)
    is_layer = bias is not None
    _norm[(rows,)](x, weight, bias, y, features, epsilon, IS_LAYER=is_layer, BLOCK=block, num_warps=warps_of(block))
    return y
