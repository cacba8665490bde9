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
SUSPECTED = 0.02
"""The probability from which on a difference is varied by itself in half of the tries."""


def choose(posterior: Posterior, evidence: Evidence, *, count: int, pairs: int, seed: str) -> list[Subset]:
    """So many designs, each with the base; none that ran before or is known to fail. [] where none is left."""
    dice = random.Random(seed)
    suspected = _suspected(posterior)
    drawn = [_draw(posterior, dice, count, suspected if number % 2 else FAST) for number in range(TRIES)]
    taken = evidence.failed.keys() | evidence.ran
    drawn = [each for each in drawn if len(set(each)) == count and not taken & set(each)]
    if not drawn:
        return _remaining(posterior, taken, count)
    needs = evidence.needs()
    told = information(posterior, drawn, pairs)
    scores = [  # rounded, so that the last digits of a library of linear algebra choose nothing
        round(value * _mean([evidence.chance_to_run(design, needs) for design in each]), 6)
        for value, each in zip(told, drawn, strict=True)
    ]
    return drawn[max(range(len(drawn)), key=scores.__getitem__)]


def _draw(posterior: Posterior, dice: random.Random, count: int, suspected: Subset) -> list[Subset]:
    """Random subsets; where some are suspected, each of the others is there by a coin."""
    found = []
    for _ in range(count):
        share = dice.choice((0.5, 0.5, 0.35, 0.25))
        there = {
            i for i in posterior.differences if dice.random() < (0.5 if suspected and i not in suspected else share)
        }
        found.append(posterior.base | there)
    return found


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


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
