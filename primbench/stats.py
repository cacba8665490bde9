"""Quantiles and the interval of a median. Plain Python, so that reading a result needs no NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence

_Z95 = 1.959963984540054  # 97.5 % point of the standard normal


def quantile(samples: Sequence[float], q: float) -> float:
    """The q-quantile by linear interpolation: Hyndman & Fan (1996) type 7, NumPy's default.

    Raises ValueError on an empty sequence: a quantile of nothing is not 0.
    """
    if not samples:
        raise ValueError("quantile of no samples")
    ordered = sorted(samples)
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def median_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """A 95 % interval of the median from order statistics; None below 6 samples, where none exists.

    The j-th smallest and j-th largest of n samples hold the median with probability
    1 - 2 P(Binomial(n, 1/2) < j) whatever the distribution: Conover, Practical Nonparametric Statistics,
    3rd ed., 3.2; Le Boudec, Performance Evaluation of Computer and Communication Systems, Theorem 2.1.
    """
    rank = _median_rank(len(samples))
    if rank is None:
        return None
    ordered = sorted(samples)
    return ordered[rank - 1], ordered[-rank]


def _median_rank(n: int) -> int | None:
    """The largest j with 2 P(Binomial(n, 1/2) < j) <= 0.05; the normal approximation above n = 100."""
    if n > 100:
        return math.floor((n - _Z95 * math.sqrt(n)) / 2)
    tail, rank = 0.0, 0
    while True:
        tail += math.comb(n, rank) / 2**n
        if 2 * tail > 0.05:
            return rank or None
        rank += 1


def relative_noise(samples: Sequence[float]) -> float | None:
    """Half-width of the 95 % interval of the median over the median; None below 6 samples."""
    interval = median_interval(samples)
    if interval is None:
        return None
    median = quantile(samples, 0.5)
    return (interval[1] - interval[0]) / 2 / median if median > 0 else None
