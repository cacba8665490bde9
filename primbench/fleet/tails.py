"""How far the tails of a fleet's times reach, and how far beyond the others a healthy node may lie by that.

Nodes and sessions scatter with longer tails than lognormal times have. These are taken to be those of Student's t of
USUAL degrees of freedom, unless the fleet's own times show shorter or longer ones. Only times below the median are
asked, among which no slow node is.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

FREEDOMS = (3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0, 100.0)
USUAL = 5.0
CERTAIN = 1.6448536269514722  # 95 % point of the standard normal
SIMULATED = 100_000  # values, of which the sets of so many nodes are made
FEWEST_SETS = 1000
_PRECISION = 1e-4


class Simulated(NamedTuple):
    """Sets of healthy nodes with one more, which is above all of them: of each set the median, and the scatter."""

    medians: Numbers
    scatters: Numbers


def tightest(n: int) -> int:
    """How many of n nodes are taken to be healthy whatever the others are."""
    return n - max(1, (n - 4) // 2)


def scatters(logs: Numbers, kept: int) -> Numbers:
    """Of each row its least standard deviation of so many values, as the minimum covariance determinant has it:
    Rousseeuw (1985), in Mathematical Statistics and Applications B, 283. Rows are in order.
    """
    import numpy as np

    away = logs - logs[:, :1]
    sums, squares = (np.pad(np.cumsum(each, axis=1), ((0, 0), (1, 0))) for each in (away, away**2))
    both = squares[:, kept:] - squares[:, :-kept] - (sums[:, kept:] - sums[:, :-kept]) ** 2 / kept
    found: Numbers = np.sqrt(np.maximum(0.0, both.min(axis=1)) / (kept - 1))
    return found


@functools.cache
def _simulated(n: int, freedom: float) -> Simulated:
    """Of n nodes; the same ones each time."""
    import numpy as np

    count = max(FEWEST_SETS, SIMULATED // n)
    logs = np.sort(np.random.default_rng(0).standard_t(freedom, (count, n - 1)), axis=1)
    beside = np.pad(logs, ((0, 0), (0, 1)), constant_values=np.inf)
    medians = (beside[:, (n - 1) // 2] + beside[:, n // 2]) / 2
    return Simulated(medians, scatters(logs, tightest(n)))


@functools.cache
def times(n: int, freedom: float, share: float) -> float:
    """So many times the scatter of the tightest a healthy node of n is above the median in this share of fleets.

    Exact but for the number of simulated sets: in each the share is Student's t above what scatter and median of the
    set allow. A node that is above all others has no part in them.
    """
    import numpy as np
    from scipy.special import stdtr

    medians, found = _simulated(n, freedom)
    low, high = math.log(1e-3), math.log(1e12)
    while high - low > _PRECISION:
        middle = (low + high) / 2
        exceeded = float(np.mean(stdtr(freedom, -(medians + math.exp(middle) * found))))
        low, high = (middle, high) if exceeded > share else (low, middle)
    return math.exp(high)


@functools.cache
def of_all(n: int, freedom: float) -> float:
    """How many times the scatter of the tightest the standard deviation of all is."""
    import numpy as np

    return math.sqrt(freedom / (freedom - 2)) / float(np.median(_simulated(n, freedom).scatters))


def freedom_of(below: Numbers, nodes: NDArray[np.int64]) -> float:
    """Degrees of freedom of the Student's t that the distances follow by which nodes are below their medians.

    below: above 0, in scatters. nodes: the number of each one's node. From USUAL it goes on to shorter tails as long as
    each is likelier, by the test of Vuong (1989), Econometrica 57, 307, at 5 %, with a node as one observation, since
    what is slow in one case is slow in others; else in the same way to longer ones.
    """
    if not len(below):
        return USUAL
    shorter, longer = [each for each in FREEDOMS if each >= USUAL], [each for each in FREEDOMS[::-1] if each <= USUAL]
    found = _followed(shorter, below, nodes)
    return found if found > USUAL else _followed(longer, below, nodes)


def _followed(freedoms: list[float], below: Numbers, nodes: NDArray[np.int64]) -> float:
    """The last one up to which each is likelier than the one before."""
    import numpy as np

    before = _likelihoods(below, freedoms[0])
    for one, other in itertools.pairwise(freedoms):
        after = _likelihoods(below, other)
        gains = np.bincount(nodes, after - before)
        if gains.sum() <= CERTAIN * math.sqrt(float((gains**2).sum())):
            return one
        before = after
    return freedoms[-1]


def _likelihoods(below: Numbers, freedom: float) -> Numbers:
    """The logarithm of Student's density for each, with the scale that makes all of them likeliest."""
    import numpy as np
    from scipy.special import gammaln

    squares, scale = below**2, float(np.mean(below**2))
    for _ in range(100):  # by expectation and maximization: Lange, Little, Taylor (1989), JASA 84, 881
        last, scale = scale, float(np.mean((freedom + 1) / (freedom + squares / scale) * squares))
        if abs(scale - last) <= _PRECISION * last:
            break
    peak = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - 0.5 * math.log(freedom * math.pi * scale)
    found: Numbers = peak - (freedom + 1) / 2 * np.log1p(squares / scale / freedom)
    return found
