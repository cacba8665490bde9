"""How Numba's GPU product brings tiles of A and B from memory to registers, and on to shared memory.

Numba is imported at the top, as in _numba_cuda.py, which says why indices are uint32.
"""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import cuda, types
from numba import uint32 as u32

if TYPE_CHECKING:
    from primbench.kernels.gemm._tiles import Variant


class Copies(NamedTuple):
    """How a tile gets from memory to shared memory."""

    fetch: Any
    """Device function from memory to registers."""
    put: Any
    """Device function from registers to shared memory, as [block_k, block]."""
    staged: Any
    """Type of the registers."""
    staged_shape: int
    """How many registers."""
    shared_shape: tuple[int, int, int]
    """Shape of two tiles in shared memory."""


def copies(variant: Variant, block: int, *, along_k: bool) -> Copies:
    """Of A or B. block: of m or n. along_k: k is the index that runs along memory."""
    return (_in_pairs if variant.in_pairs else _one_by_one)(variant, block, along_k=along_k)


def _shared_shape(variant: Variant, block: int) -> tuple[int, int, int]:
    """A row is a vector longer than the tile, so that writing along k does not meet one bank of shared memory."""
    return 2, variant.tile.block_k, block + variant.group


def _one_by_one(variant: Variant, block: int, *, along_k: bool) -> Copies:
    """Any size, type and edge."""
    tile, whole, stored = variant.tile, variant.whole, getattr(types, variant.dtype)
    accumulated = getattr(types, variant.accumulate)
    run = tile.block_k if along_k else block
    each, apart = block * tile.block_k // tile.threads, u32(tile.threads // run)
    run, one = u32(run), u32(1)

    @cuda.jit(device=True)
    def fetch(x: Any, outer0: Any, k0: Any, thread: Any, staged: Any) -> None:
        outer_end, k_end = u32(x.shape[0 if along_k else 1]), u32(x.shape[1 if along_k else 0])
        for e in range(each):
            slow, fast = thread // run + u32(e) * apart, thread % run
            outer = outer0 + (slow if along_k else fast)
            inner = k0 + (fast if along_k else slow)
            if not whole and outer >= outer_end:
                outer = outer_end - one  # any valid one: its products are not written
            if whole or inner < k_end:
                staged[u32(e)] = x[outer, inner] if along_k else x[inner, outer]
            else:
                staged[u32(e)] = stored(0)

    @cuda.jit(device=True)
    def put(staged: Any, thread: Any, shared: Any) -> None:
        for e in range(each):
            slow, fast = thread // run + u32(e) * apart, thread % run
            if along_k:
                shared[fast, slow] = accumulated(staged[u32(e)])
            else:
                shared[slow, fast] = accumulated(staged[u32(e)])

    return Copies(fetch, put, stored, each, _shared_shape(variant, block))


def _in_pairs(variant: Variant, block: int, *, along_k: bool) -> Copies:
    """Two float32 a load, as the bits of one float64: Numba has no vectors, and half the loads and addresses remain."""
    tile = variant.tile
    pairs = (tile.block_k if along_k else block) // 2
    each, apart = block * tile.block_k // tile.threads // 2, u32(tile.threads // pairs)
    run, one, two = u32(pairs), u32(1), u32(2)

    @cuda.jit(device=True)
    def fetch(x: Any, outer0: Any, k0: Any, thread: Any, staged: Any) -> None:
        for e in range(each):
            slow, fast = thread // run + u32(e) * apart, thread % run
            if along_k:
                staged[u32(e)] = x[outer0 + slow, k0 // two + fast]
            else:
                staged[u32(e)] = x[k0 + slow, outer0 // two + fast]

    @cuda.jit(device=True)
    def put(staged: Any, thread: Any, shared: Any) -> None:
        for e in range(each):
            slow, fast = thread // run + u32(e) * apart, thread % run * two
            bits = staged[u32(e)].view(np.int64)
            low, high = np.int32(bits).view(np.float32), np.int32(bits >> 32).view(np.float32)
            if along_k:
                shared[fast, slow] = low
                shared[fast + one, slow] = high
            else:
                shared[slow, fast] = low
                shared[slow, fast + one] = high

    return Copies(fetch, put, types.float64, each, _shared_shape(variant, block))
