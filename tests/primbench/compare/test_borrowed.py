"""OwnScatter that is borrowed: the formulas beside computations of their own, and when nothing is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special
from scipy import stats as reference

from primbench import stats
from primbench.compare.borrowed import LEAST_CASES, OwnScatter, independent, moderated, prior_of

Pairs = Any
"""An array, of each case and pair."""


def of_pairs(logs: Pairs) -> list[tuple[stats.LogRatio, dict[int, float]]]:
    """logs: of each case and pair."""
    return [(stats.paired(list(np.exp(each)), [1.0] * len(each)), dict(enumerate(map(float, each)))) for each in logs]


def scatters(logs: Pairs) -> list[OwnScatter]:
    return [OwnScatter(float(np.var(each, ddof=1)), len(each) - 1, dict(enumerate(map(float, each)))) for each in logs]


def drawn(cases: int, pairs: int, freedom: float, deviation: float = 0.01, seed: int = 1) -> Pairs:
    """Whose variances are draws of the prior: s0^2 d0 / chi-square of d0."""
    dice = np.random.default_rng(seed)
    variances = deviation**2 * freedom / dice.chisquare(freedom, cases) if math.isfinite(freedom) else deviation**2
    return np.sqrt(np.broadcast_to(variances, cases))[:, None] * dice.normal(size=(cases, pairs))


@pytest.mark.parametrize("freedom", [2.0, 6.0])
def test_the_prior_is_what_variances_were_drawn_of(freedom: float) -> None:
    found = prior_of(scatters(drawn(20_000, 4, freedom)))
    assert found is not None
    assert found.freedom == pytest.approx(freedom, rel=0.1)
    assert found.variance == pytest.approx(1e-4, rel=0.05)
    assert found.lent == pytest.approx(freedom, rel=0.1), "less than is known by all"


def test_its_moments_are_those_of_the_logarithm_of_f() -> None:
    """Integrated, where the code has digamma and trigamma: twelve cases whose logarithms have just these moments."""
    freedom, own, variance = 5.0, 3.0, 4e-4

    def moment(power: int, about: float) -> float:
        density = reference.f(own, freedom).pdf
        return float(integrate.quad(lambda z: (z - about) ** power * density(math.exp(z)) * math.exp(z), -40, 40)[0])

    mean = moment(1, 0.0)
    spread = moment(2, mean)
    steps = np.linspace(-1, 1, LEAST_CASES)
    logs = math.log(variance) + mean + steps / np.std(steps, ddof=1) * math.sqrt(spread)
    apart = np.random.default_rng(5).normal(size=(LEAST_CASES, 4))
    cases = [
        OwnScatter(math.exp(log), own, dict(enumerate(row))) for log, row in zip(logs, apart.tolist(), strict=True)
    ]
    found = prior_of(cases)
    assert found is not None
    assert found.freedom == pytest.approx(freedom, rel=1e-6)
    assert found.variance == pytest.approx(variance, rel=1e-6)
    others = independent(cases) - 1
    wider = spread * (1 + math.sqrt(2 / others)) - float(special.polygamma(1, own / 2))
    surely = 2 * _root(wider)
    assert found.lent == pytest.approx(1 / (1 / surely + 1 / (others * own)), rel=1e-6)


def _root(variance: float) -> float:
    """By halving, where the code has Newton's steps."""
    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if float(special.polygamma(1, middle)) > variance else (low, middle)
    return low


def test_a_case_has_the_posterior_s_variance_and_degrees_of_freedom() -> None:
    logs = drawn(30, 3, 6.0)
    prior, own = prior_of(scatters(logs)), scatters(logs)
    assert prior is not None
    for before, (ratio, _), after in zip(own, of_pairs(logs), moderated(of_pairs(logs)), strict=True):
        assert 0 < after.borrowed <= prior.lent * (1 + 1e-9)
        assert after.freedom == 2 + after.borrowed
        both = (after.borrowed * prior.variance + 2 * before.variance) / after.freedom
        assert ratio.log == after.log
        assert after.error == pytest.approx(math.sqrt(both / 3))


def test_what_scatters_far_more_than_the_others_keeps_its_own() -> None:
    logs = drawn(30, 5, math.inf)
    logs[3] *= 50
    before, after = of_pairs(logs)[3][0], moderated(of_pairs(logs))
    assert after[3].borrowed < 0.1 * after[4].borrowed
    assert after[3].error == pytest.approx(before.error, rel=0.02)
    assert after[3].freedom == pytest.approx(before.freedom, rel=0.02)


def test_nothing_is_borrowed_of_few_cases_of_two_pairs_or_of_what_all_have_in_common() -> None:
    common = np.outer(np.exp(np.random.default_rng(2).normal(0, 0.2, 30)), drawn(1, 5, math.inf)[0])
    for logs in (drawn(LEAST_CASES - 1, 5, 6.0), drawn(30, 2, 6.0), common, np.zeros((30, 5))):
        assert [ratio for ratio, _ in of_pairs(logs)] == moderated(of_pairs(logs))


def test_cases_that_scatter_together_count_as_few() -> None:
    alone = drawn(60, 6, math.inf)
    assert independent(scatters(alone)) > 30
    together = math.sqrt(0.5) * (alone + drawn(1, 6, math.inf, seed=3))
    assert 1 < independent(scatters(together)) < 10
    assert [row.borrowed for row in moderated(of_pairs(together))] < [
        row.borrowed for row in moderated(of_pairs(alone))
    ]


def test_a_clock_s_steps_are_no_certainty() -> None:
    """Three pairs of one number each: its own interval has no width."""
    logs = drawn(30, 3, 6.0)
    logs[0] = 0.0
    (first, *_) = moderated(of_pairs(logs))
    assert first.error is not None
    assert first.error > 0
