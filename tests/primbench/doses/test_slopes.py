"""Slopes of a step's time in a dose, and what they foretell: their intervals hold what was put in."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest

from primbench.doses.slopes import DosePoint, HarmTerm, Scattered, foretold, line, mean
from primbench.doses.telling import _harmful

if TYPE_CHECKING:
    from primbench.doses.factors import FactorId

DOSES = (1.0, 2.0, 4.0)


def points(rng: random.Random, slope: float, scatter: float, pairs: int) -> list[DosePoint]:
    """Of undosed and dosed processes that scatter alike."""
    found = []
    for pair in range(pairs):
        base = rng.gauss(1, scatter)
        found += [DosePoint(pair, 0.0, 1.0)]
        found += [DosePoint(pair, dose, (1 + slope * dose) * rng.gauss(1, scatter) / base) for dose in DOSES]
    return found


def test_points_on_a_line_give_that_line() -> None:
    found = line([DosePoint(pair, dose, 1 + 0.25 * dose) for pair in (3, 8) for dose in (0.0, *DOSES)])
    assert found is not None
    assert found.slope.value == pytest.approx(0.25)
    assert 5 == found.slope.freedom
    assert found.residual.value == pytest.approx(0, abs=1e-12)


def test_a_dose_of_one_process_tells_of_no_scatter_and_none_of_no_slope() -> None:
    found = line([DosePoint(0, 0.0, 1.0), DosePoint(0, 1.0, 1.5)])
    assert found is not None
    assert (0.5, None) == (found.slope.value, found.slope.interval())
    assert line([DosePoint(0, 0.0, 1.0), DosePoint(0, 0.0, 1.5)]) is None


@pytest.mark.parametrize("slope", [0.0, 0.02])
def test_intervals_hold_the_slope_in_95_of_100_studies(slope: float) -> None:
    rng, held, studies = random.Random(1), 0, 400
    for _ in range(studies):
        found = line(points(rng, slope, 0.01, pairs=3))
        assert found is not None
        low, high = found.slope.interval() or (math.nan, math.nan)
        held += low <= slope <= high
    assert 0.9 < held / studies <= 1


def test_places_are_foretold_as_often_as_the_interval_says() -> None:
    """Two harms at once, of which each has its own slope, and one dose is known by three pairs alone."""
    rng, held, studies = random.Random(2), 0, 300
    for _ in range(studies):
        quota, calls = (line(points(rng, slope, 0.01, pairs=3)) for slope in (0.9, 0.05))
        assert quota is not None
        assert calls is not None
        dose = mean([rng.gauss(1.5, 0.1) for _ in range(3)])
        log = foretold(
            [HarmTerm(quota.slope, Scattered(1.0, 0.0)), HarmTerm(calls.slope, dose)], quota.residual, pairs=3
        )
        low, high = (log and log.interval()) or (math.nan, math.nan)
        times = [math.log(1.9 * 1.075 * rng.gauss(1, 0.01) / rng.gauss(1, 0.01)) for _ in range(3)]
        held += low <= sum(times) / 3 <= high
    assert 0.9 < held / studies <= 1


def test_nothing_is_foretold_by_what_has_no_error() -> None:
    scatter = Scattered(0.01, freedom=5)
    assert foretold([HarmTerm(Scattered(0.5), Scattered(1.0, 0.0))], scatter, 3) is None
    assert foretold([HarmTerm(Scattered(0.5, 0.1, 3), mean([2.0]))], scatter, 3) is None
    assert foretold([HarmTerm(Scattered(-2.0, 0.1, 3), Scattered(1.0, 0.0))], scatter, 3) is None
    alike = foretold([], scatter, 4)
    assert alike is not None
    assert (0.0, 0.005) == (alike.value, alike.error)
    with pytest.raises(ValueError, match="mean of nothing"):
        mean([])


def test_a_hair_less_than_a_step_uses_is_no_harm_and_what_scatters_may_be_one() -> None:
    """A step of one thread can use a hair more than one CPU, of which no slope is known."""
    doses: dict[FactorId, Scattered] = {
        "cpus": Scattered(0.0003, 0.0), "quota": Scattered(0.5, 0.0), "calls": Scattered(0.0, 0.1),
    }  # fmt: skip
    assert ["quota", "calls"] == [*_harmful(doses)]
