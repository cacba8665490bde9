"""Ratios of designs that were measured in the same pairs, with intervals that a few wild processes do not move."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from primbench.stats import LogRatio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.dtypes import Array
    from primbench.experiments.why.evidence import Row
    from primbench.experiments.why.rounds import Subset

MOST_DEVIATIONS = 4.0
"""From the middle, in robust standard deviations: values beyond are drawn in to there."""
LEAST_DEVIATION = 0.002
"""Of logarithms, of one process: fewer pairs than it takes may agree by chance."""
MOST_BORROWED = 6.0
"""Degrees of freedom, of the scatter of all designs, that the scatter of one contrast is eked out with."""

OFFSET = 0.0025
"""Of logarithms, of one place: what all of its processes are off by where nothing in it acts, however many pairs there
are. Of eight places that differed in harmless settings 0.0035 by a call, another time 0.0027, 0 and 0.0029 by small
files and two calls; of eight equal ones 0 (eight pairs each on two busy CPUs; a process scattered by 0.008 to 0.01).
"""


def reach(ratio: LogRatio, level: float) -> tuple[float, float]:
    """The logarithms between which the true one lies in ``level`` of all cases; infinite where a single pair tells."""
    found = ratio.interval(level)
    if found is None:
        return -math.inf, math.inf
    low, high = found
    return math.log(low) if low > 0 else -math.inf, math.log(high)


def with_offsets(ratio: LogRatio) -> LogRatio:
    """The same of two places that are off by that; freedom by Satterthwaite (1946), Biometrics Bulletin 2, 110."""
    if ratio.error is None or ratio.freedom is None:
        return ratio
    own, total = ratio.error**2, ratio.error**2 + 2 * OFFSET**2
    return LogRatio(ratio.log, math.sqrt(total), ratio.freedom * (total / own) ** 2 if own else math.inf)


class Contrasts:
    """Pairs in which the same designs ran.

    Logarithms less their pair's and their design's middle are drawn in to MOST_DEVIATIONS. A contrast's variance is
    that of its own differences, with that of a process in all designs as if it had been found with up to MOST_BORROWED
    degrees of freedom before: Smyth (2004), Statistical Applications in Genetics and Molecular Biology 3, 3.
    """

    def __init__(self, rows: Sequence[Row], designs: Sequence[Subset]) -> None:
        import numpy as np

        self.designs = {design: place for place, design in enumerate(dict.fromkeys(designs))}
        kept = [row for row in rows if self.designs.keys() <= row.keys()]
        self.table = _drawn_in(np.array([[row[design] for design in self.designs] for row in kept], float))
        self.pairs = len(kept)
        self.freedom = (self.pairs - 1) * (len(self.designs) - 1)
        self.variance = float((_centred(self.table) ** 2).sum()) / self.freedom if self.freedom > 0 else math.inf

    @property
    def scatter(self) -> float | None:
        """Standard deviation of one process; None where nothing tells."""
        return math.sqrt(self.variance) if math.isfinite(self.variance) else None

    def of(self, above: Sequence[Subset], below: Sequence[Subset]) -> LogRatio:
        """The mean of the first designs' logarithms less that of the others'."""
        weights = [above.count(each) / len(above) - below.count(each) / len(below) for each in self.designs]
        values = self.table @ weights
        if self.pairs < 2:
            return LogRatio(float(values.mean()) if self.pairs else 0.0)
        own, freedom = float(values.var(ddof=1)), self.pairs - 1
        borrowed = min(max(self.freedom - freedom, 0.0), MOST_BORROWED)
        size = sum(weight**2 for weight in weights)
        variance = (freedom * own + borrowed * size * self.variance) / (freedom + borrowed)
        variance = max(variance, size * LEAST_DEVIATION**2)
        return LogRatio(float(values.mean()), math.sqrt(variance / self.pairs), freedom + borrowed)


def _centred(table: Array) -> Array:
    import numpy as np

    return np.asarray(table - table.mean(0) - table.mean(1, keepdims=True) + table.mean())


def _drawn_in(table: Array) -> Array:
    """With the values that lie far from what their pair and their design let expect drawn in."""
    import numpy as np

    pairs, designs = table.shape if table.size else (0, 0)
    if pairs < 4 or designs < 2:
        return table
    middle = np.median(table, axis=0) + np.zeros_like(table)
    for _ in range(2):
        middle = middle + np.median(table - middle, axis=1, keepdims=True)
        middle = middle + np.median(table - middle, axis=0)
    left = table - middle
    shrunk = math.sqrt(pairs * designs / ((pairs - 1) * (designs - 1)))
    far = MOST_DEVIATIONS * max(1.4826 * float(np.median(np.abs(left))) * shrunk, LEAST_DEVIATION)
    return np.asarray(middle + np.clip(left, -far, far))
