"""The chain of loads that Numba compiles for the CPU.

Numba is imported at the top: import this file only where a kernel is set up.
"""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit
def walk(chain: Any, loads: int, end: Any) -> None:
    """Unsigned numbers, because a signed one would be compared with 0 between any two loads."""
    at = np.uint64(0)
    for _ in range(loads):
        at = chain[at]
    end[0] = at
