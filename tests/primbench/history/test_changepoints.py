"""Steps are found, and drift, outliers and sessions are none: `bench/history.py` has a longer table."""

from __future__ import annotations

import numpy as np
import pytest

from bench.history import World, false_per_1000, made, steps_found
from primbench.history.changepoints import can_be_told, changepoints, units_of


def units(logs: list[float], sessions: list[int] | None = None, codes: list[str] | None = None) -> list[int]:
    """The first points after changes."""
    numbers = sessions or [*range(len(logs))]
    found = units_of([*map(float, np.exp(logs))], numbers, codes or [""] * len(logs))
    return [each.first for each in changepoints(found)]


@pytest.mark.parametrize("world", [World(), World(most_runs=3), World(tails="heavy")])
def test_unchanged_series_are_rarely_called_changed(world: World) -> None:
    assert false_per_1000(np.random.default_rng(3), world, 100) <= 1


def test_a_step_is_found_where_it_is() -> None:
    found = steps_found(np.random.default_rng(4), World(), 60)
    assert found.near >= 0.9
    assert found.after_4 >= 0.7
    assert steps_found(np.random.default_rng(4), World(), 20, step=1.2).near == 1.0


def test_a_step_has_its_size_and_its_place_has_a_range() -> None:
    series = made(np.random.default_rng(5), World(), at=30, step=1.2)
    (found,) = changepoints(units_of(series.times_s, series.sessions, [""] * 60))
    assert found.earliest <= 30 <= found.latest
    assert found.interval[0] < 1.2 < found.interval[1]
    assert found.before[1] == found.first - 1
    assert found.after[0] == found.first


def test_there_and_back_are_two_changes() -> None:
    dice = np.random.default_rng(6)
    logs = dice.normal(scale=0.01, size=60)
    logs[20:35] += 0.1
    assert [20, 35] == units([*logs])


def test_outliers_are_no_change_not_even_two_in_a_row() -> None:
    logs = np.random.default_rng(7).normal(scale=0.01, size=40)
    logs[[10, 11, 25, 36, 37]] += 0.3
    assert [] == units([*logs])


def test_what_goes_up_slowly_is_no_change() -> None:
    logs = np.random.default_rng(8).normal(scale=0.01, size=60) + np.linspace(0, 0.08, 60)
    assert [] == units([*logs])


def test_two_sessions_that_differ_tell_nothing_while_their_scatter_is_unknown() -> None:
    """Thirty runs of each of two days: what differs may be the day."""
    logs = [*np.random.default_rng(9).normal(scale=0.002, size=60)]
    logs[30:] = [each + 0.1 for each in logs[30:]]
    sessions = [0] * 30 + [1] * 30
    codes = [str(each) for each in range(60)]
    assert [] == units(logs, sessions, codes)
    assert [30] == units(logs, [0] * 60, codes), "of one session it is the code"
    assert [] == units(logs, [0] * 60), "one session and code is one unit"


def test_few_points_tell_nothing() -> None:
    logs = [0.0, 0.01, -0.01, 0.0, 0.5, 0.51, 0.49]
    assert [] == units(logs)
    assert not can_be_told(units_of([1.0] * 7, [*range(7)], [""] * 7))
    assert can_be_told(units_of([1.0] * 8, [*range(8)], [""] * 8))
    assert [4] == units([*logs, 0.5])


def test_times_that_are_all_alike_have_no_change() -> None:
    assert [] == units([0.0] * 20)
    assert [] == units([])
