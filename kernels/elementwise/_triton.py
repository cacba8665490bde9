"""SwiGLU in Triton. Import this file only where a kernel is set up."""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
# Triton reads each name in an annotation of a kernel's as one that it computes by.

from __future__ import annotations

from typing import Any

import triton
from triton import language as tl

BLOCK = 1024


@triton.jit
def _swiglu(gate, up, y, elements, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < elements
    g = tl.load(gate + at, mask=inside).to(tl.float32)
    u = tl.load(up + at, mask=inside).to(tl.float32)
    tl.store(y + at, (g * tl.sigmoid(g) * u).to(y.dtype.element_ty), mask=inside)


def swiglu(gate: Any, up: Any, y: Any) -> Any:
    """gate sigmoid(gate) up, written to y, which is returned."""
    elements = y.numel()
    _swiglu[(triton.cdiv(elements, BLOCK),)](gate, up, y, elements, BLOCK=BLOCK)
    return y
