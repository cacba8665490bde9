"""Random inputs in every dtype, fast enough for gigabytes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from primbench.dtypes import numpy_dtype

if TYPE_CHECKING:
    import numpy as np

    from primbench.dtypes import Array

# A prime, so that the rows of a matrix never line up with the repeats.
POOL_SIZE = 262_139
FILLED_BY_ONE = 1 << 20  # elements, below which threads would not pay


def generator_of(rank: int, seed: int) -> np.random.Generator:
    """What one of the ranks of a collective draws from."""
    import numpy as np

    return np.random.default_rng((seed, rank))


def zipf_counts(total: int, parts: int) -> list[int]:
    """How many of ``total`` each of the parts has: the k-th 1/k times as many as the first (Zipf 1949, "Human Behavior
    and the Principle of Least Effort").

    Between each share of the sum of all and the next, rounded, so that they add up; the last ones may have none.
    """
    sums = list(itertools.accumulate(1 / rank for rank in range(1, parts + 1)))
    ends = [0, *(round(total * each / sums[-1]) for each in sums)]
    return [end - start for start, end in itertools.pairwise(ends)]


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Uniform in [-1, 1), or every int8 value but -128. Zeros and constants would let a GPU run cooler and faster.

    Beyond some 10^5 elements the draw repeats: drawing 10^8 numbers takes seconds, copying them does not.
    """
    import numpy as np

    total = int(np.prod(shape, dtype=np.int64))
    drawn = min(total, POOL_SIZE)
    if dtype in ("int8", "int32"):
        pool = rng.integers(-127, 128, drawn, dtype=np.int32).astype(numpy_dtype(dtype))
    else:
        # Drawn as float64 where that is wanted: a float32 would leave half of each significand zero.
        wide = rng.random(drawn, np.float64 if dtype == "float64" else np.float32)
        wide *= 2
        wide -= 1
        pool = wide.astype(numpy_dtype(dtype), copy=False)
    return repeated(pool, shape)


def repeated(pool: Array, shape: tuple[int, ...]) -> Array:
    """An array of this shape that holds the pool over and over, as np.resize() gives it.

    Threads fill it where it is large: most of the time goes into touching new memory.
    """
    import numpy as np

    total = int(np.prod(shape, dtype=np.int64))
    if total <= FILLED_BY_ONE:
        return np.resize(pool, shape)
    from concurrent.futures import ThreadPoolExecutor  # takes 5 ms, which workers of small cases need not wait for

    flat = np.empty(total, pool.dtype)

    def fill(first: int) -> None:
        part = flat[first : first + len(pool)]
        part[:] = pool[: len(part)]

    with ThreadPoolExecutor() as threads:
        list(threads.map(fill, range(0, total, len(pool))))
    return flat.reshape(shape)


def sample(rng: np.random.Generator, size: int, count: int) -> Array:
    """``count`` indices below ``size``, one from each of as many equal strips, always the last index; all if fewer.

    One a strip, because what a faulty kernel leaves out is a tile or an edge, not a random element.
    """
    import numpy as np

    if size <= count:
        return np.arange(size)
    edges = np.linspace(0, size, count + 1).astype(np.int64)
    return np.append(rng.integers(edges[:-2], edges[1:-1]), size - 1)
