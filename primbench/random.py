"""Random inputs in every dtype, fast enough for gigabytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.dtypes import numpy_dtype

if TYPE_CHECKING:
    import numpy as np

    from primbench.problem import Array

# A prime, so that the rows of a matrix never line up with the repeats.
POOL_SIZE = 4_194_301


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Uniform in [-1, 1), or every int8 value but -128. Zeros and constants would let a GPU run cooler and faster.

    Beyond 4 million elements the draw repeats: drawing 10^8 numbers takes seconds, copying them does not.
    """
    import numpy as np

    total = int(np.prod(shape, dtype=np.int64))
    drawn = min(total, POOL_SIZE)
    if dtype in ("int8", "int32"):
        pool = rng.integers(-127, 128, drawn, dtype=np.int32).astype(numpy_dtype(dtype))
    else:
        pool = (rng.random(drawn, dtype=np.float32) * 2 - 1).astype(numpy_dtype(dtype))
    return np.resize(pool, shape)
