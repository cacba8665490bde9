"""What items hold, how they are decoded, and the sums by which they are known again."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from primbench.problem import Array

LEVEL = 1  # of deflate, which says little of the time to inflate


def encoded(item: Array) -> bytes:
    """Deflated. item: int8, differences of neighbours."""
    return zlib.compress(item.tobytes(), LEVEL)


def inflated(item: bytes) -> Array:
    """What encoded() was given, as it is to be added up."""
    import numpy as np

    return decoded(np.frombuffer(zlib.decompress(item), np.int8))


def decoded(differences: Array) -> Array:
    """Along the last axis each byte the sum of those before it, modulo 256: PNG specification, 9.2, filter type Sub."""
    import numpy as np

    found: Array = np.cumsum(differences, axis=-1, dtype=np.int8)
    return found


def sums(items: Array) -> Array:
    """int64[items, 2]: of the bytes of an item, and of the bytes times their places."""
    import numpy as np

    wide = items.astype(np.int64)
    return np.stack([wide.sum(axis=-1), wide @ np.arange(1, items.shape[-1] + 1)], axis=-1)
