"""How likely each hypothesis is by what was measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from primbench.experiments.why.hypotheses import Hypotheses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.dtypes import Array
    from primbench.experiments.why.evidence import Row
    from primbench.experiments.why.rounds import Subset

LOOKED_AT = 400
"""Hypotheses, the likeliest ones, that have a say in which set is."""
NEGLIGIBLE = 1e-4
"""Of the likeliest one's probability: hypotheses below have no say."""
PRIOR_SCATTER = 0.015
"""Of a process, worth PRIOR_FREEDOM degrees of freedom."""
PRIOR_FREEDOM = 4.0
DRIFTS = 0.03
"""Of the logarithms between pairs: from here on designs are compared within their pair alone."""
NOT_ADDED_UP = 0.08
"""Of the whole effect, that a subset may be off what its terms come to."""
STUDENT = 4.0
"""Degrees of freedom of the noise: Lange, Little & Taylor (1989), J. American Statistical Association 84, 881."""
SCALES = (("excess", 0.7), ("log", 0.3))
"""What terms add up in, with prior: excess time, of which five pairs of causes in six were, or the logarithm."""


class Data(NamedTuple):
    """Observations of the designs that have all of a base."""

    logs: Array
    """Logarithms of seconds."""
    pair: Array
    """Number of each observation's pair."""
    design: Array
    """Number of each observation's design."""
    designs: list[Subset]

    @classmethod
    def of(cls, rows: Sequence[Row], base: Subset) -> Data:
        import numpy as np

        designs: dict[Subset, int] = {base: 0}
        found = [
            (log, pair, designs.setdefault(design, len(designs)))
            for pair, row in enumerate(rows)
            for design, log in row.items()
            if base <= design
        ]
        logs, pairs, numbers = (np.array(each) for each in zip(*found, strict=True))
        return cls(logs, pairs, numbers, list(designs))


class Scaled(NamedTuple):
    """Observations on one scale."""

    name: str
    values: Array
    noise: Array
    """What a process's relative scatter is on it, observation by observation."""
    effect: float
    log_jacobian: float


class Scatter(NamedTuple):
    """Relative standard deviations."""

    process: float
    pair: float
    own: Array
    """How many times as large each observation's variance is."""
    shared: Array
    """How many times as large each pair's variance is."""


class Lead(NamedTuple):
    """A likely hypothesis."""

    share: float
    """Its share of the probability."""
    terms: tuple[int, ...]
    means: tuple[float, ...]
    """What its terms are thought to do, on a scale."""
    scale: str
    causes: Subset


class Posterior:
    """Of hypotheses about what SLOW does beyond a base, by pairs of designs."""

    def __init__(
        self, rows: Sequence[Row], base: Subset, slow: Subset, weights: Sequence[float], margin: float
    ) -> None:
        import numpy as np

        self.base, self.slow, self.margin = base, slow, margin
        self.differences = sorted(slow - base)
        self._weights = [weights[i] for i in self.differences]
        self.data = Data.of(rows, base)
        there = np.array([[i in design for i in self.differences] for design in self.data.designs], float)
        self.noise = self._first_noise(len(rows))
        scales = [self._scaled(name) for name, _ in SCALES]
        self.effect = scales[0].effect
        self.hypotheses = Hypotheses(self._weights, self._likeliest(there, scales[0]))
        columns = self.hypotheses.columns(there)[self.data.design]
        self.leads: list[Lead] = []
        self._fit(columns, scales)

    # --- noise

    def _first_noise(self, pairs: int) -> Scatter:
        """Of a process, by designs that were measured again, and of pairs, by the base."""
        import numpy as np

        data = self.data
        reference = np.full(pairs, math.nan)
        reference[data.pair[data.design == 0]] = data.logs[data.design == 0]
        ratios = data.logs - reference[data.pair]
        total, freedom = PRIOR_FREEDOM * 2 * PRIOR_SCATTER**2, PRIOR_FREEDOM
        for number in range(1, len(data.designs)):
            each = ratios[(data.design == number) & ~np.isnan(ratios)]
            if len(each) > 1:
                off = np.abs(each - np.median(each))
                total += float((np.minimum(off, max(3 * float(np.median(off)), 3 * PRIOR_SCATTER)) ** 2).sum())
                freedom += len(each) - 1
        process = math.sqrt(total / freedom / 2)
        bases = reference[~np.isnan(reference)]
        middle = 1.4826 * float(np.median(np.abs(bases - np.median(bases)))) if len(bases) > 2 else process
        between = max(middle**2 - process**2, 0.0)
        pair = math.sqrt((PRIOR_FREEDOM * process**2 + len(bases) * between) / (PRIOR_FREEDOM + len(bases)))
        self._reference = reference - np.median(bases)
        self._first = float(np.median(bases))
        if drifts := pair > DRIFTS:
            pair = 1.0
        self._shift = np.where(np.isnan(self._reference), 0.0, self._reference) if drifts else np.zeros(pairs)
        return Scatter(process, pair, np.ones(len(data.logs)), np.ones(pairs))

    def _scaled(self, name: str) -> Scaled:
        import numpy as np

        data = self.data
        logs = data.logs - self._first - self._shift[data.pair]
        middles = np.array([np.median(logs[data.design == number]) for number in range(len(data.designs))])
        effect = float(middles[data.designs.index(self.slow)])
        if name == "log":
            return Scaled(name, logs, np.ones(len(logs)), effect, 0.0)
        return Scaled(name, np.expm1(logs), np.exp(middles)[data.design], math.expm1(effect), float(logs.sum()))

    # --- evidence

    def _covariance(self, scaled: Scaled, noise: Scatter) -> Array:
        import numpy as np

        data = self.data
        same_pair = data.pair[:, None] == data.pair[None]
        relative = np.diag(noise.process**2 * noise.own)
        relative = relative + same_pair * (noise.pair**2 * noise.shared[data.pair])[:, None]
        relative += PRIOR_SCATTER**2 + noise.process**2  # of the base's time itself
        is_same = (data.design[:, None] == data.design[None]) & (data.design[:, None] != 0)
        off = self.off(scaled.effect) ** 2 * is_same
        return np.asarray(relative * np.outer(scaled.noise, scaled.noise) + off)

    @staticmethod
    def off(effect: float) -> float:
        return max(0.004, NOT_ADDED_UP * abs(effect))

    def _likeliest(self, there: Array, scaled: Scaled) -> list[int]:
        """Differences by how likely each alone is."""
        import numpy as np

        whitened = _whitened(self._covariance(scaled, self.noise), np.c_[there[self.data.design], scaled.values])
        columns, values = whitened[:, :-1], whitened[:, -1]
        size = max(abs(scaled.effect), 0.05) ** 2
        weight = 1 + size * (columns**2).sum(0)
        log = np.log(self._weights) - np.log(weight) / 2 + size * (columns.T @ values) ** 2 / weight / 2
        return [int(i) for i in np.argsort(-log, kind="stable")]

    def _fit(self, columns: Array, scales: Sequence[Scaled]) -> None:
        """Student's noise by weights that all hypotheses share, from what the likeliest leave on the first scale."""
        import numpy as np

        for again in range(3):
            found = self._evidence(columns, scales[0])
            if again == 2 or len(self.data.logs) < 5:
                break
            self._reweigh(columns, scales[0], found)
        both = [found, *(self._evidence(columns, scaled) for scaled in scales[1:])]
        priors = [scaled.log_jacobian + math.log(prior) for scaled, (_, prior) in zip(scales, SCALES, strict=True)]
        logs = np.concatenate([each.log + prior for each, prior in zip(both, priors, strict=True)])
        shares = np.exp(logs - logs.max())
        shares /= shares.sum()
        likeliest = np.argsort(-shares, kind="stable")[:LOOKED_AT]
        for k in likeliest[shares[likeliest] > NEGLIGIBLE * shares.max()]:
            which, place = divmod(int(k), len(found.log))
            terms, means = both[which].at(place)
            causes = self._causes(terms, means, scales[which].effect)
            self.leads.append(Lead(float(shares[k]), terms, means, scales[which].name, causes))

    def _reweigh(self, columns: Array, scaled: Scaled, found: Found) -> None:
        import numpy as np

        data, noise = self.data, self.noise
        left = (scaled.values - found.predicted(columns)) / scaled.noise
        pairs = len(noise.shared)
        common = np.array([np.median(np.append(left[data.pair == pair], 0.0)) for pair in range(pairs)])
        own = left - common[data.pair]
        scale = 1.4826 * float(np.median(np.abs(own[own != 0]))) if (own != 0).any() else noise.process
        count = len(own)
        process = math.sqrt((PRIOR_FREEDOM * PRIOR_SCATTER**2 + count * scale**2) / (PRIOR_FREEDOM + count))
        self.noise = Scatter(
            process,
            noise.pair,
            (1 + (own / process) ** 2 / STUDENT) / (1 + 1 / STUDENT),
            (1 + (common / math.hypot(noise.pair, process)) ** 2 / STUDENT) / (1 + 1 / STUDENT),
        )

    def _evidence(self, columns: Array, scaled: Scaled) -> Found:
        import numpy as np

        covariance = self._covariance(scaled, self.noise)
        whitened = _whitened(covariance, np.c_[columns, scaled.values])
        gram, values = whitened.T @ whitened[:, :-1], whitened[:, -1]
        size = max(abs(scaled.effect), 0.05) ** 2
        constant = -float(np.linalg.slogdet(covariance)[1] + values @ values) / 2
        logs, means = [], []
        for kind in self.hypotheses.kinds:
            inner = gram[kind.terms[:, :, None], kind.terms[:, None, :]]
            outer = gram[-1][kind.terms]
            weight = np.eye(kind.terms.shape[1]) + size * inner
            mean = np.linalg.solve(weight, outer[:, :, None])[:, :, 0] * size
            logs.append(kind.log_prior - np.linalg.slogdet(weight)[1] / 2 + (outer * mean).sum(1) / 2)
            means.append(mean)
        return Found(np.concatenate(logs) + constant, [kind.terms for kind in self.hypotheses.kinds], means)

    def _causes(self, terms: Sequence[int], means: Sequence[float], effect: float) -> Subset:
        """The differences of the terms that matter."""
        least = max(self.margin / 2, 0.12 * abs(effect))
        acting = [self.hypotheses.terms[term] for term, mean in zip(terms, means, strict=True) if abs(mean) >= least]
        return frozenset(self.differences[i] for term in acting for i in term)

    # --- what it comes to

    def sets(self) -> list[tuple[Subset, float]]:
        """Sets of differences that act, beyond the base, each with its probability, the likeliest first."""
        found: dict[Subset, float] = {}
        for lead in self.leads:
            found[lead.causes] = found.get(lead.causes, 0.0) + lead.share
        return sorted(found.items(), key=lambda each: (-each[1], sorted(each[0])))


class Found(NamedTuple):
    """What is known of all hypotheses, kind by kind, on one scale."""

    log: Array
    """Logarithm of a multiple of the probability."""
    terms: list[Array]
    """Terms of hypotheses, by kind."""
    means: list[Array]
    """What these terms are thought to do, by kind."""

    def at(self, place: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
        for terms, means in zip(self.terms, self.means, strict=True):
            if place < len(terms):
                return tuple(int(term) for term in terms[place]), tuple(float(mean) for mean in means[place])
            place -= len(terms)
        raise IndexError(place)

    def predicted(self, columns: Array) -> Array:
        """The mean of what the 60 likeliest say of each observation."""
        import numpy as np

        lead = np.argsort(-self.log, kind="stable")[:60]
        shares = np.exp(self.log[lead] - self.log[lead[0]])
        lead, shares = lead[shares > NEGLIGIBLE], shares[shares > NEGLIGIBLE]
        total = np.zeros(len(columns))
        for k, share in zip(lead, shares / shares.sum(), strict=True):
            terms, means = self.at(int(k))
            total += share * (columns[:, list(terms)] @ means)
        return total


def _whitened(covariance: Array, values: Array) -> Array:
    import numpy as np
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(np.linalg.cholesky(covariance), values, lower=True, check_finite=False))
