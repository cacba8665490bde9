"""Which subsets to measure next: those that tell the likeliest hypotheses apart best."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from primbench.dtypes import Array
    from primbench.experiments.why.evidence import Evidence
    from primbench.experiments.why.posterior import Lead, Posterior
    from primbench.experiments.why.rounds import Subset

FAST: Subset = frozenset()
TRIES = 160
"""Random choices of designs, the best of which is taken."""
TOLD_APART = 150
"""Hypotheses, the likeliest ones, that designs are to tell apart."""
NEGLIGIBLE = 1e-3
"""Of the likeliest one's probability: hypotheses below are not told apart."""
MOST_REDRAWN = 10
"""Times that a subset which may not run is drawn anew."""
SUSPECTED = 0.02
"""The probability from which on a difference is varied by itself in half of the tries."""


def choose(posterior: Posterior, evidence: Evidence, *, count: int, pairs: int, seed: str) -> list[Subset]:
    """So many designs, each with the base; none that ran before or is known to fail. [] where none is left."""
    dice = random.Random(seed)
    suspected, needs = _suspected(posterior), evidence.needs()

    def draw(suspected: Subset) -> Subset:
        """One that is likely to run: by what failed, told apart by a coin."""
        designs = (_draw(posterior, dice, suspected) for _ in range(MOST_REDRAWN))
        return next((each for each in designs if dice.random() < evidence.chance_to_run(each, needs)), posterior.slow)

    drawn = [[draw(suspected if number % 2 else FAST) for _ in range(count)] for number in range(TRIES)]
    taken = evidence.failed.keys() | evidence.ran
    drawn = [each for each in drawn if len(set(each)) == count and not taken & set(each)]
    if not drawn:
        return _remaining(posterior, taken, count)
    # Rounded, so that the last digits of a library of linear algebra choose nothing.
    scores = [round(told, 6) for told in information(posterior, drawn, pairs)]
    return drawn[max(range(len(drawn)), key=scores.__getitem__)]


def _draw(posterior: Posterior, dice: random.Random, suspected: Subset) -> Subset:
    """A random subset; where some are suspected, each of the others is there by a coin."""
    share = dice.choice((0.5, 0.5, 0.35, 0.25))
    others = 0.5 if suspected else share
    return posterior.base | {i for i in posterior.differences if dice.random() < (share if i in suspected else others)}


def _told_apart(posterior: Posterior) -> list[Lead]:
    return [lead for lead in posterior.leads[:TOLD_APART] if lead.share > NEGLIGIBLE * posterior.leads[0].share]


def _suspected(posterior: Posterior) -> Subset:
    shares = dict.fromkeys(posterior.differences, 0.0)
    for lead in _told_apart(posterior):
        for i in lead.causes:
            shares[i] += lead.share
    return frozenset(i for i, share in shares.items() if share > SUSPECTED)


def _remaining(posterior: Posterior, taken: Collection[Subset], count: int) -> list[Subset]:
    """Of few differences: subsets that are left, by what each differs from FAST in."""
    if len(posterior.differences) > 12:
        return []
    every = (
        posterior.base | {each for k, each in enumerate(posterior.differences) if number >> k & 1}
        for number in range(1, 2 ** len(posterior.differences) - 1)
    )
    return [design for design in every if design not in taken][:count]


def information(posterior: Posterior, choices: list[list[Subset]], pairs: int) -> list[float]:
    """Of each choice, nats that it tells of the hypotheses at least.

    A lower bound of the mutual information of a mixture of Gaussians and its member, by Chernoff's distances at 1/2:
    Kolchinsky & Tracey (2017), Entropy 19, 361. On the logarithm, of hypotheses' means.
    """
    import numpy as np

    leads = _told_apart(posterior)
    shares = np.array([lead.share for lead in leads])
    shares /= shares.sum()
    count = len(choices[0])
    there = np.array([[i in each for i in posterior.differences] for designs in choices for each in designs], float)
    means = _predicted(posterior, there).reshape(len(leads), len(choices), count)
    whitener = np.linalg.inv(np.linalg.cholesky(_covariance(posterior, count, pairs)))
    means = np.einsum("hca,ba->chb", means, whitener)
    found = []
    for each in means:
        squares = (each**2).sum(1)
        distances = np.maximum(squares[:, None] + squares[None] - 2 * each @ each.T, 0.0)
        found.append(-float(shares @ np.log(np.exp(-distances / 8) @ shares)))
    return found


def _predicted(posterior: Posterior, there: Array) -> Array:
    """(hypotheses, designs): logarithms."""
    import numpy as np

    columns = posterior.hypotheses.columns(there)
    found = []
    for lead in _told_apart(posterior):
        sums = columns[:, list(lead.terms)] @ lead.means
        found.append(np.log1p(np.maximum(sums, -0.8)) if lead.scale == "excess" else sums)
    return np.array(found)


def _covariance(posterior: Posterior, count: int, pairs: int) -> Array:
    """Of the logarithms of a round beside the base's, which is measured in the same pairs and was before."""
    import numpy as np

    noise = posterior.noise
    process, pair = noise.process**2, noise.pair**2
    before = max(int((posterior.data.design == 0).sum()), 1)
    shared = process * pair / (process + pair) / pairs + process / before
    off = posterior.off(posterior.effect) ** 2
    return np.asarray(np.eye(count) * (process / pairs + off) + shared)
