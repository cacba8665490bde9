"""Softmax in Triton: a program holds a row. Import this file only where a kernel is set up."""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
# Triton reads each name in an annotation of a kernel's as one that it computes by.

from __future__ import annotations

from typing import Any

import triton
from triton import language as tl

from primbench.backends._triton import warps_of


@triton.jit
def _softmax(x, y, classes, LOGARITHM: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * classes
    at = tl.arange(0, BLOCK)
    inside = at < classes
    shifted = tl.load(x + row + at, mask=inside, other=-float("inf")).to(tl.float32)
    shifted -= tl.max(shifted, axis=0)
    terms = tl.exp(shifted)
    total = tl.sum(terms, axis=0)
    found = shifted - tl.log(total) if LOGARITHM else terms / total
    tl.store(y + row + at, found.to(y.dtype.element_ty), mask=inside)


def softmax(x: Any, y: Any, *, logarithm: bool) -> Any:
    """Of the rows of x[rows,classes], written to y, which is returned."""
    rows, classes = x.shape
    block = triton.next_power_of_2(classes)
    _softmax[(rows,)](x, y, classes, LOGARITHM=logarithm, BLOCK=block, num_warps=warps_of(block))
    return y
