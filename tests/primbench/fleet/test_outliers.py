from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.false_alarms import fleets_told
from bench.fleet import named_slow, of_sessions, of_whole_nodes
from primbench.fleet.outliers import FALSE_ALARMS, Spread, limits

FLEETS = 150
ALLOWED = 14  # alarms: with a share of 5 %, that many or more come in 2 of 100 such tests; the seed is fixed


def alarms(nodes: int, deviations: list[float]) -> int:
    """How many of FLEETS, whose nodes scatter lognormally, have a node above a limit."""
    dice = np.random.default_rng(nodes)
    found = 0
    for _ in range(FLEETS):
        times = [np.exp(dice.normal(0, deviation, nodes)).tolist() for deviation in deviations]
        tests = {case: Spread(of_nodes(each), 0.0, case % 2) for case, each in enumerate(times)}
        found += any(slow(tests))
    return found


def of_nodes(times_s: Sequence[float]) -> dict[str, float]:
    return {str(number): time_s for number, time_s in enumerate(times_s)}


def slow(tests: Mapping[int, Spread]) -> list[str]:
    """Nodes that stand out in anything."""
    found = limits(tests)
    return [
        node
        for case, test in tests.items()
        for node, time_s in test.times_s.items()
        if found[case].is_exceeded(node, time_s)
    ]


@pytest.mark.parametrize("nodes", [3, 5, 8, 24])
def test_a_healthy_fleet_gives_a_false_alarm_no_more_often_than_said(nodes: int) -> None:
    assert FALSE_ALARMS == 0.05
    assert alarms(nodes, [0.01] * 10) <= ALLOWED
    assert alarms(nodes, [0.001, 0.001, 0.3, 0.003, 0.01, 0.03, 0.1, 0.01]) <= ALLOWED


def test_the_limit_is_not_so_high_that_nothing_exceeds_it() -> None:
    """Of nodes that scatter by 1 %, and one that is slower by a fifth."""
    dice = np.random.default_rng(0)
    for nodes in (5, 8, 32, 200):
        cases = {case: [*np.exp(dice.normal(0, 0.01, nodes - 1)), 1.2] for case in range(10)}
        found = limits({case: Spread(of_nodes(times), 0.01, 0) for case, times in cases.items()})
        assert all(limit.ratio is not None and limit.ratio * limit.median_s < 1.2 for limit in found.values()), nodes


@pytest.mark.parametrize(("nodes", "slow"), [(5, 1), (8, 2), (12, 4), (100, 45)])
def test_slow_nodes_do_not_hide_each_other(nodes: int, slow: int) -> None:
    logs = np.random.default_rng(1).normal(0, 0.01, nodes)
    logs[:slow] += 0.5
    limit = limits({0: Spread(of_nodes(np.exp(logs).tolist()), 0.01, 0)})[0]
    assert limit.ratio is not None
    assert slow == sum(time_s > limit.ratio * limit.median_s for time_s in np.exp(logs))


def test_a_margin_keeps_small_differences_from_mattering() -> None:
    times = [1.0] * 9 + [1.004]
    (limit,) = limits({0: Spread(of_nodes(times), 0.05, 0)}).values()
    assert (1.0, 0.0, 1.05) == limit[:3]


def test_the_scatter_is_that_of_all_but_the_outliers() -> None:
    logs = np.random.default_rng(2).normal(0, 0.02, 1000)
    found = limits({0: Spread(of_nodes(np.exp(logs).tolist()), 0.01, 0)})[0].scatter
    logs[:100] += 1
    with_slow = limits({0: Spread(of_nodes(np.exp(logs).tolist()), 0.01, 0)})[0].scatter
    assert found == pytest.approx(0.02, rel=0.1)
    assert with_slow == pytest.approx(0.02, rel=0.2)


@pytest.mark.parametrize("nodes", [16, 64])
@pytest.mark.parametrize("kind", [of_sessions, of_whole_nodes])
def test_long_tails_are_no_slow_nodes(nodes: int, kind: Callable[..., NDArray[np.float64]]) -> None:
    """Of Student's t of 5 degrees of freedom; a tenth longer in all cases is found nevertheless."""
    dice = np.random.default_rng(nodes)
    fleets = [0.01 * kind(dice, nodes) for _ in range(FLEETS)]
    assert ALLOWED >= sum(bool(named_slow(each)) for each in fleets)
    for each in fleets[:20]:
        each[:, 0] += 0.095
    assert 18 <= sum("0" in named_slow(each) for each in fleets[:20])


def test_two_nodes_tell_nothing() -> None:
    (limit,) = limits({0: Spread(of_nodes([1.0, 2.0]), 0.01, 0)}).values()
    assert (1.5, None, None) == limit[:3]
    assert {} == limits({})


@pytest.mark.parametrize("nodes", [3, 4, 8, 16])
def test_a_fleet_beside_itself_is_rarely_slower(nodes: int) -> None:
    """By a bare interval of 95 % a metric, of which there are 60, 33 to 62 % of such fleets were."""
    dice = np.random.default_rng(nodes)
    assert fleets_told(dice, 100, nodes).at_all <= 0.09  # two standard errors above 5 %
    if nodes >= 8:
        assert fleets_told(dice, 20, nodes, longer=1.1).whole >= 0.9
