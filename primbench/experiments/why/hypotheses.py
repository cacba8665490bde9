"""What may be the cause: sparse sets of terms, each of a difference, or of two that act only together."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.dtypes import Array

MOST_IN_PAIRS = 40
"""Differences that two are looked for among, the likeliest ones: of more there are too many pairs."""
MOST_IN_THREES = 20

Term = tuple[int, int]
"""Two differences that are needed both; twice the same: it is enough by itself."""


class Kind(NamedTuple):
    """Hypotheses with as many terms each."""

    terms: Array
    """Each hypothesis's terms, as indices of Hypotheses.terms."""
    log_prior: Array


class Hypotheses:
    """All that are looked at.

    Their priors: one difference 0.55, two that add 0.2, three 0.08, two that act only together 0.1, two and something
    that they do together besides 0.04, one and what another does only with it 0.03; each kind's share is spread over
    all of the kind by the product of its differences' weights.
    """

    def __init__(self, weights: Sequence[float], likeliest: Sequence[int]) -> None:
        import numpy as np

        self.n = len(weights)
        self._weights = np.array(weights, float)
        inner = sorted(likeliest[:MOST_IN_PAIRS])
        pairs = list(itertools.combinations(inner, 2))
        threes = list(itertools.combinations(sorted(likeliest[:MOST_IN_THREES]), 3))
        self.terms: list[Term] = [*((i, i) for i in range(self.n)), *pairs]
        of_pairs = range(self.n, len(self.terms))
        one, two, three = self._masses()
        kinds: list[tuple[float, Sequence[Sequence[int]], Sequence[Sequence[int]]]] = [
            (0.55 / one, singles := [(i,) for i in range(self.n)], singles),
            (0.2 / two, pairs, pairs),
            (0.08 / three, threes, threes),
            (0.1 / two, pairs, [(both,) for both in of_pairs]),
            (0.04 / two, pairs, [(*pair, both) for pair, both in zip(pairs, of_pairs, strict=True)]),
            (0.015 / two, pairs, [(i, both) for (i, _), both in zip(pairs, of_pairs, strict=True)]),
            (0.015 / two, pairs, [(j, both) for (_, j), both in zip(pairs, of_pairs, strict=True)]),
        ]
        self.kinds = [self._kind(share, sets, terms) for share, sets, terms in kinds if sets]

    def _masses(self) -> tuple[float, float, float]:
        """The sums over all sets of one, two and three differences of the products of their weights (Newton)."""
        p1, p2, p3 = (float((self._weights**power).sum()) for power in (1, 2, 3))
        two, three = (p1**2 - p2) / 2, (p1**3 - 3 * p1 * p2 + 2 * p3) / 6
        return p1, two if self.n > 1 else math.inf, three if self.n > 2 else math.inf

    def _kind(self, share: float, sets: Sequence[Sequence[int]], terms: Sequence[Sequence[int]]) -> Kind:
        """share: the prior of a set over the product of its weights."""
        import numpy as np

        log_prior = np.log(self._weights)[np.array(sets, int)].sum(1) + math.log(share)
        return Kind(np.array(terms, int), log_prior)

    def columns(self, there: Array) -> Array:
        """(designs, terms) 0 or 1: whether a term acts, of (designs, differences) whether each is there."""
        import numpy as np

        first, second = np.array(self.terms, int).T
        return np.asarray(there[:, first] * there[:, second])
