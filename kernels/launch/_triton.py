"""The addition in Triton. Import this file only where a kernel is set up."""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-incomplete-defs=False
# Triton reads each name in an annotation of a kernel's as one that it computes by.

from __future__ import annotations

from typing import Any

import triton
from triton import language as tl


@triton.jit
def _add_one(x, y):
    tl.store(y, tl.load(x) + 1)


def add_one(x: Any, y: Any) -> Any:
    """x + 1 of one element, written to y, which is returned."""
    _add_one[(1,)](x, y)
    return y
