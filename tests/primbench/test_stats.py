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


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.975])
@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_paired_ratio_is_scipys_paired_t_on_logarithms(n: int, confidence: float) -> None:
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(n)
    a, b = rng.lognormal(0.3, 0.1, n), rng.lognormal(0, 0.1, n)
    expected = ttest_rel(np.log(a), np.log(b)).confidence_interval(confidence)
    found = stats.paired_ratio(list(a), list(b), confidence)
    assert np.exp(np.mean(np.log(a / b))) == pytest.approx(found.ratio, rel=1e-12)
    assert (np.exp(expected.low), np.exp(expected.high)) == pytest.approx((found.low, found.high), rel=1e-9)


def test_one_pair_has_a_ratio_and_no_interval() -> None:
    found = stats.paired_ratio([3.0], [2.0])
    assert found.ratio == pytest.approx(1.5)
    assert (None, None) == (found.low, found.high)


def test_pairs_are_complete() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        stats.paired_ratio([], [])
    with pytest.raises(ValueError, match="shorter"):
        stats.paired_ratio([1.0, 2.0], [1.0])


@pytest.fixture(scope="module")
def pairs() -> tuple[list[float], list[float]]:
    rng = np.random.default_rng(8)
    return list(rng.lognormal(0.02, 0.01, 8)), list(rng.lognormal(0, 0.01, 8))


def test_paired_is_scipys_paired_t_on_logarithms(pairs: tuple[list[float], list[float]]) -> None:
    from scipy.stats import ttest_rel

    expected, found = ttest_rel(*np.log(pairs)), stats.paired(*pairs)
    assert found.p() == pytest.approx(float(expected.pvalue), rel=1e-9)
    for confidence in (0.9, 0.95):
        interval = expected.confidence_interval(confidence)
        assert (np.exp(interval.low), np.exp(interval.high)) == pytest.approx(found.interval(confidence), rel=1e-9)


def test_unpaired_is_scipys_welch_on_logarithms(pairs: tuple[list[float], list[float]]) -> None:
    from scipy.stats import ttest_ind

    a, b = pairs[0][:5], pairs[1]
    expected, found = ttest_ind(np.log(a), np.log(b), equal_var=False), stats.unpaired(a, b)
    interval = expected.confidence_interval(0.95)
    assert found.p() == pytest.approx(float(expected.pvalue), rel=1e-9)
    assert found.freedom == pytest.approx(float(expected.df))
    assert (np.exp(interval.low), np.exp(interval.high)) == pytest.approx(found.interval(), rel=1e-9)


@pytest.mark.parametrize("margin", [0.01, 0.02, 0.03, 0.05])
def test_equivalence_is_two_one_sided_tests(pairs: tuple[list[float], list[float]], margin: float) -> None:
    from scipy.stats import ttest_1samp

    logs, edge = np.log(pairs[0]) - np.log(pairs[1]), math.log1p(margin)
    below = ttest_1samp(logs, edge, alternative="less").pvalue
    above = ttest_1samp(logs, -edge, alternative="greater").pvalue
    assert stats.paired(*pairs).is_within(margin) is bool(max(below, above) < 0.05)


def test_what_is_not_seen_is_the_end_of_clopper_and_pearsons_interval() -> None:
    from scipy.stats import binomtest

    for count in (1, 3, 5, 16):
        expected = binomtest(0, count, alternative="less").proportion_ci(0.95, method="exact").high
        assert stats.unseen_share(count) == pytest.approx(float(expected), rel=1e-9)


def test_pooled_is_scipys_t_of_two_samples_on_logarithms(pairs: tuple[list[float], list[float]]) -> None:
    from scipy.stats import ttest_ind

    a, b = pairs[0][:3], pairs[1]
    expected, found = ttest_ind(np.log(a), np.log(b)), stats.pooled(a, b)
    assert found.p() == pytest.approx(float(expected.pvalue), rel=1e-9)
    one = stats.pooled(a[:1], b)
    assert (7, True) == (one.freedom, one.error is not None), "one value beside several"
    assert [None, None] == list(stats.pooled([3.0], [2.0])[1:3])


def test_adjusted_as_scipy_does() -> None:
    from scipy.stats import false_discovery_control

    ps = list(np.random.default_rng(3).random(40) ** 3)
    assert stats.benjamini_hochberg(ps) == pytest.approx(list(false_discovery_control(ps)), rel=1e-12)
    assert [] == stats.benjamini_hochberg([])
    assert [1.0, None, 0.03] == stats.benjamini_hochberg([1.0, None, 0.015]), "what is not known is no test"


def test_the_p_of_a_mean_is_that_of_scipys_t() -> None:
    from scipy.stats import ttest_1samp

    values = list(np.random.default_rng(5).normal(0.5, 1.0, 7))
    assert stats.mean_p(values) == pytest.approx(float(ttest_1samp(values, 0.0).pvalue), rel=1e-9)
    assert [None, 1.0, 0.0] == [stats.mean_p(each) for each in ([3.0], [0.0, 0.0], [1.0, 1.0])]


def test_a_single_value_tells_of_no_scatter() -> None:
    for found in (stats.paired([3.0], [2.0]), stats.unpaired([3.0], [2.0, 2.0])):
        assert found.ratio == pytest.approx(1.5)
        assert [None] * 4 == [found.interval(), found.p(), found.is_within(1.0), found.minimum_detectable()]
    with pytest.raises(ValueError, match="nothing"):
        stats.unpaired([], [1.0])


def test_values_without_scatter_are_certain() -> None:
    assert (0.0, 1.0) == (stats.paired([2.0] * 3, [1.0] * 3).p(), stats.paired([2.0] * 3, [2.0] * 3).p())
    same = stats.unpaired([2.0] * 3, [2.0] * 3)
    assert ((1.0, 1.0), 1.0, True) == (same.interval(), same.p(), same.is_within(0.01))


def process_medians(
    rng: np.random.Generator, sessions: int, pairs: int, scatter: float, drift: float, order: str
) -> tuple[np.ndarray, np.ndarray]:
    """Medians of the processes of two identical sides, (sessions, pairs) each, by the model of the design's notes.

    A process has its own speed, and a session drifts. Within it 100 samples scatter by 0.5 %, 2 % of them in a tail
    of 10 to 50 %; the median of so many scatters as a normal of 1.2533 x 0.5 % / 10.
    """
    times = np.linspace(0, 1, 2 * pairs)
    speeds = 1 + drift * times + rng.normal(0, scatter, (sessions, 2 * pairs))
    medians = speeds * np.exp(rng.normal(0, 1.2533 * 0.005 / 10, speeds.shape))
    sides = np.array({"A then B": [0] * pairs + [1] * pairs, "ABBA": ([0, 1, 1, 0] * pairs)[: 2 * pairs]}[order])
    return medians[:, sides == 0], medians[:, sides == 1]


SESSIONS = 1500
FOUR_SIGMA = 4 * math.sqrt(0.05 * 0.95 / SESSIONS)


@pytest.mark.parametrize(("scatter", "drift"), [(0.003, 0.0), (0.01, 0.0), (0.003, 0.01)])
def test_identical_sides_in_turns_are_called_different_as_often_as_said(scatter: float, drift: float) -> None:
    a, b = process_medians(np.random.default_rng(1), SESSIONS, 10, scatter, drift, "ABBA")
    called = sum((stats.paired(list(x), list(y)).p() or 0) < 0.05 for x, y in zip(b, a, strict=True)) / SESSIONS
    assert abs(called - 0.05) < FOUR_SIGMA


def test_one_side_after_the_other_is_called_different_by_drift_alone() -> None:
    a, b = process_medians(np.random.default_rng(2), SESSIONS, 10, 0.003, 0.01, "A then B")
    called = sum((stats.paired(list(x), list(y)).p() or 0) < 0.05 for x, y in zip(b, a, strict=True)) / SESSIONS
    assert called > 0.9


# Scatter of processes, margin, pairs, how often equal sides are shown to be equivalent.
POWER = [(0.003, 0.01, 5, 0.99), (0.005, 0.01, 5, 0.66), (0.005, 0.01, 8, 0.94), (0.01, 0.01, 10, 0.35),
         (0.01, 0.01, 20, 0.83), (0.02, 0.02, 15, 0.65)]  # fmt: skip


@pytest.mark.parametrize(("scatter", "margin", "count", "power"), POWER)
def test_equal_sides_are_shown_to_be_equivalent_as_often_as_said(
    scatter: float, margin: float, count: int, power: float
) -> None:
    logs = np.random.default_rng(count).normal(0, scatter * math.sqrt(2), (SESSIONS, count))
    shown = sum(stats.paired(list(np.exp(each)), [1.0] * count).is_within(margin) or False for each in logs) / SESSIONS
    assert abs(shown - power) < 4 * math.sqrt(power * (1 - power) / SESSIONS) + 0.005  # which is rounded to 1 %


@pytest.mark.parametrize(("deviation", "margin"), [(0.01, 0.01), (0.02, 0.01), (0.03, 0.02)])
def test_so_many_pairs_show_equivalence_in_four_of_five_tries(deviation: float, margin: float) -> None:
    needed = stats.pairs_needed(deviation, margin)
    assert needed is not None
    logs = np.random.default_rng(4).normal(0, deviation, (SESSIONS, needed))
    shown = sum(stats.paired(list(np.exp(each)), [1.0] * needed).is_within(margin) or False for each in logs)
    assert 0.77 < shown / SESSIONS < 0.9


def test_nearer_to_the_margin_needs_more_pairs() -> None:
    edge = math.log1p(0.01)
    counts = [stats.pairs_needed(0.01, 0.01, log) for log in (0.0, edge / 2, 0.9 * edge)]
    assert counts == sorted(counts, key=lambda count: count or 0)
    assert counts[0] == stats.pairs_needed(0.01, 0.01, 2 * edge)
    assert None is stats.pairs_needed(0.01, 0.01, edge)


@pytest.mark.parametrize("count", [5, 10, 20])
def test_the_minimum_detectable_ratio_is_found_in_four_of_five_tries(count: int) -> None:
    """At the scatter that is really there; a sample's own deviation is a little off."""
    rng = np.random.default_rng(6)
    error = 0.01 / math.sqrt(count)
    least = stats.LogRatio(0.0, error, count - 1).minimum_detectable()
    assert least is not None
    logs = rng.normal(math.log(least), 0.01, (SESSIONS, count))
    found = sum((stats.paired(list(np.exp(each)), [1.0] * count).p() or 0) < 0.05 for each in logs) / SESSIONS
    assert 0.77 < found < 0.87


def test_what_differs_by_orders_of_magnitude_leaves_the_ratio_open() -> None:
    found = stats.paired([1e9, 1e-300, 5e-324], [1e-300, 1e9, 1e9])
    assert (0.0, math.inf) == found.interval()
    assert math.inf == found.minimum_detectable()


@pytest.mark.parametrize(
    ("weighted", "expected"),
    [([(7, 1)], 7), ([(1, 10), (100, 11)], 100), ([(100, 1), (1, 1)], 1), ([(5, 1), (9, 3), (6, 1)], 9), ([(3, 0)], 3)],
)
def test_half_of_the_weight_lies_up_to_a_weighted_median(weighted: list[tuple[int, int]], expected: int) -> None:
    assert expected == stats.weighted_median(weighted)
