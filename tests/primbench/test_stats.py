from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from primbench import stats

samples = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=300)


@given(samples, st.floats(0, 1))
def test_quantile_is_numpys_default(values: list[float], q: float) -> None:
    assert stats.quantile(values, q) == pytest.approx(float(np.quantile(values, q)), rel=1e-12)


def test_a_quantile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        stats.quantile([], 0.5)


@pytest.mark.parametrize("n", [6, 7, 9, 20, 50, 100])
def test_the_rank_is_the_binomials(n: int) -> None:
    from scipy.stats import binom

    rank = stats._median_rank(n)
    assert rank is not None
    assert 2 * binom.cdf(rank - 1, n, 0.5) <= 0.05
    assert 2 * binom.cdf(rank, n, 0.5) > 0.05


def test_below_six_samples_no_interval_exists() -> None:
    assert stats.median_interval([1.0] * 5) is None
    assert stats.relative_noise([1.0] * 5) is None
    assert stats.median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == (1.0, 6.0)


@pytest.mark.parametrize("n", [15, 150])
def test_the_interval_holds_the_true_median_at_least_94_times_in_100(n: int) -> None:
    rng = np.random.default_rng(1)
    true_median = math.log(2)
    intervals = [stats.median_interval(list(rng.exponential(size=n))) for _ in range(2000)]
    held = sum(1 for interval in intervals if interval and interval[0] <= true_median <= interval[1])
    assert held / 2000 >= 0.94


def test_noise_is_the_half_width_over_the_median() -> None:
    assert stats.relative_noise([9.0, 9.0, 9.0, 11.0, 11.0, 11.0]) == pytest.approx(0.1)
    assert stats.relative_noise([0.0] * 6) is None
