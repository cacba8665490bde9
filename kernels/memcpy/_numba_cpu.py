"""The copy that Numba compiles for the CPU: every thread a piece.

Numba is imported at the top: import this file only where a kernel is set up.
"""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from typing import Any

from numba import njit, prange


@njit(parallel=True)
def copy(source: Any, destination: Any, pieces: int) -> None:
    """``pieces`` equal pieces, but for the last, side by side."""
    length = -(-source.size // pieces)
    for piece in prange(pieces):
        first = piece * length
        destination[first : first + length] = source[first : first + length]
