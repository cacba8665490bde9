"""Warm-up, stopping and batching, on a clock that only moves when told."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.problem import described
from primbench.registry import build
from primbench.spec.method import Method
from primbench.timing import sampling
from primbench.timing.calls import CallLoop
from primbench.timing.case import rules_of
from primbench.timing.cpu_probe import Loop
from primbench.timing.sampling import (
    MIN_SAMPLES,
    Pace,
    StoppingRule,
    collect,
    garbage_kept,
    host_timed,
    main_rule,
    secondary_rule,
    tail_rule,
    warm_up,
)


class FakeClock:
    def __init__(self) -> None:
        self.now_ns = 1_000

    def __call__(self) -> int:
        return self.now_ns

    def spend(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


def taker(clock: FakeClock, durations: Callable[[], float]) -> Callable[[], list[float]]:
    def take() -> list[float]:
        duration = durations()
        clock.spend(duration)
        return [duration]

    return take


def test_quiet_samples_stop_at_the_minimum_time() -> None:
    clock = FakeClock()
    rule = StoppingRule(max_noise=0.005, min_time_s=0.1, max_time_s=10)
    found = collect(taker(clock, lambda: 1e-3), rule, Pace(clock), calls_per_sample=4, taken_by="host clock")
    assert found.stopped == "noise"
    assert found.calls_per_sample == 4
    assert 100 <= len(found.samples_s) <= 111


def test_noisy_samples_stop_at_the_maximum_time_and_all_are_kept() -> None:
    clock = FakeClock()
    noisy = itertools.cycle([1e-3, 2e-3]).__next__
    found = collect(
        taker(clock, noisy), StoppingRule(0.005, 0.0, 0.3), Pace(clock), calls_per_sample=1, taken_by="host clock"
    )
    assert found.stopped == "max time"
    assert sum(found.samples_s) == pytest.approx(0.3, abs=2e-3)
    assert set(found.samples_s) == {1e-3, 2e-3}


def test_the_speed_of_the_cpu_is_kept_beside_the_samples() -> None:
    clock = FakeClock()
    loop = Loop()
    found = collect(
        taker(clock, lambda: 1e-3),
        StoppingRule(0.005, 0.1, 1.0),
        Pace(clock),
        calls_per_sample=1,
        taken_by="host clock",
        loop=loop,
    )
    assert found.loops_s[0][0] == 0
    assert all(0 < loop_s and 0 <= sample < len(found.samples_s) for sample, loop_s in found.loops_s)


def test_a_change_of_level_keeps_sampling_although_the_interval_is_narrow() -> None:
    clock = FakeClock()
    slowed = itertools.chain([1e-3] * 40, itertools.repeat(1.008e-3)).__next__
    found = collect(
        taker(clock, slowed), StoppingRule(0.005, 0.1, 10.0), Pace(clock), calls_per_sample=1, taken_by="host clock"
    )
    assert found.noise == 0
    assert 150 < len(found.samples_s) < 250


def test_a_slow_call_still_gets_six_samples() -> None:
    clock = FakeClock()
    found = collect(
        taker(clock, lambda: 5.0), StoppingRule(0.005, 0.1, 1.0), Pace(clock), calls_per_sample=1, taken_by="host clock"
    )
    assert len(found.samples_s) == MIN_SAMPLES
    assert found.noise == 0


@pytest.mark.parametrize(("call_s", "samples"), [(5.0, 1), (0.4, 3), (0.15, MIN_SAMPLES + 1)])
def test_where_processes_are_what_counts_a_slow_call_is_not_made_six_times(call_s: float, samples: int) -> None:
    clock, method = FakeClock(), Method(max_noise=0.001, min_time_s=0.1, max_time_s=1.0, unit="process")
    slowing = itertools.count(call_s, call_s / 100).__next__
    for rule in (main_rule(method), secondary_rule(method)):
        found = collect(taker(clock, slowing), rule, Pace(clock), calls_per_sample=1, taken_by="host clock")
        assert min(samples, MIN_SAMPLES) <= len(found.samples_s) <= samples
        assert found.stopped == "max time"


def test_warm_up_waits_for_the_halves_to_agree() -> None:
    clock = FakeClock()
    falling = itertools.chain([1.0 - 0.05 * i for i in range(10)], itertools.repeat(0.5)).__next__
    taken: list[float] = []

    def durations() -> float:
        taken.append(falling())
        return taken[-1]

    apart = warm_up(taker(clock, durations), clock, window_s=0.0, max_time_s=1e6)
    assert apart is not None
    assert apart <= 0.01
    assert taken[-5:] == [0.5] * 5
    assert len(taken) > 10


def test_warm_up_sees_a_slow_drift_through_its_window() -> None:
    """A board that slows down by 15 % over 0.1 s, sampled every 0.2 ms: neighbouring samples agree all the way."""
    clock = FakeClock()

    def durations() -> float:
        return 0.2e-3 * (1 + 0.15 * min(1.0, (clock.now_ns - 1_000) / 0.1e9))

    warm_up(taker(clock, durations), clock, window_s=0.1, max_time_s=10.0)
    assert 0.13 <= clock.now_ns / 1e9 <= 0.25


def test_warm_up_that_never_settles_ends_at_its_cap() -> None:
    clock = FakeClock()
    growing = (1.1**i for i in itertools.count()).__next__
    apart = warm_up(taker(clock, growing), clock, window_s=0.0, max_time_s=50.0)
    assert apart is not None
    assert apart > 0.01, "it came to no rest"
    assert clock.now_ns / 1e9 < 150


@pytest.mark.parametrize("max_time_s", [1e6, 5.0], ids=["warm before", "never warm"])
def test_warm_up_goes_on_until_what_is_done_meanwhile_is_done(max_time_s: float) -> None:
    clock = FakeClock()
    durations = itertools.repeat(0.5) if max_time_s == 1e6 else itertools.accumulate(itertools.repeat(0.1))
    warm_up(
        taker(clock, durations.__next__),
        clock,
        window_s=0.0,
        max_time_s=max_time_s,
        is_enough=lambda: clock.now_ns >= 20e9,
    )
    assert 20 <= clock.now_ns / 1e9 <= 23


def test_calls_go_round_the_input_sets() -> None:
    made: list[int] = []
    calls = CallLoop([lambda number=number: made.append(number) for number in range(3)])  # type: ignore[misc]
    calls(2)
    calls(5)
    assert made == [0, 1, 2, 0, 1, 2, 0]
    calls.of_one_set()(2)
    calls(1)
    assert made[7:] == [0, 0, 1]


def test_host_timed_divides_by_the_calls_at_5_us() -> None:
    clock = FakeClock()
    calls = CallLoop([lambda: clock.spend(5e-6)])
    assert host_timed(calls, 10, clock)() == [pytest.approx(5e-6)]


def test_what_comes_before_a_call_is_not_timed() -> None:
    clock = FakeClock()
    steps = [
        described(lambda: clock.spend(5e-6), before=lambda: clock.spend(1.0)),
        described(lambda: clock.spend(7e-6), before=lambda: clock.spend(2.0)),
    ]
    take = host_timed(CallLoop(steps), 1, clock)
    assert [pytest.approx(5e-6), pytest.approx(7e-6), pytest.approx(5e-6)] == [*take(), *take(), *take()]
    assert 4.0 == pytest.approx((clock() - 1000) / 1e9, rel=1e-4)


def test_secondary_metrics_get_a_percent_of_the_time() -> None:
    method = Method(min_time_s=0.2, max_time_s=3.0)
    assert main_rule(method) == StoppingRule(0.005, 0.2, 3.0)
    assert secondary_rule(method).max_time_s == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("unit", "wander", "is_under_quota", "samples"),
    [
        ("process", 0.0005, False, 6),
        ("process", 0.004, False, 100),
        ("sample", 0.0005, False, 100),
        ("process", 0.0005, True, 100),
    ],
)
def test_where_processes_are_what_counts_six_samples_that_agree_are_enough(
    monkeypatch: pytest.MonkeyPatch, unit: Any, wander: float, is_under_quota: bool, samples: int
) -> None:
    """Before the least time is over, unless a quota may stop it later."""
    monkeypatch.setattr(sampling, "has_quota", lambda: is_under_quota)
    clock, method = FakeClock(), Method(min_time_s=0.1, max_time_s=0.5, unit=unit)
    turns = itertools.cycle([1e-3, 1e-3 * (1 + wander)]).__next__
    found = collect(taker(clock, turns), main_rule(method), Pace(clock), calls_per_sample=1, taken_by="host clock")
    assert len(found.samples_s) == pytest.approx(samples, rel=0.05)


def test_what_a_case_is_judged_by_is_sampled_longest_unless_tails_are_asked_for() -> None:
    method = Method(min_time_s=0.02, max_time_s=0.1, unit="process")
    rule_of = rules_of(build("launch", {}), replace(method, tails=False))
    assert main_rule(method) == rule_of("enqueue_s")
    assert secondary_rule(method) == rule_of("wall_s") == rule_of("stream_s")
    assert {tail_rule(method)} == {rules_of(build("launch", {}), method)(each) for each in ("enqueue_s", "wall_s")}
    assert secondary_rule(method) == rules_of(build("gemm", {"m": 8, "n": 8, "k": 8}), method)("enqueue_s")


def test_tails_get_ten_thousand_samples_where_calls_are_quick_and_a_quarter_of_a_second_where_they_are_not() -> None:
    for call_s, samples, stopped in ((1e-6, 10_000, "count"), (20e-6, 10_000, "count"), (1e-3, 250, "noise")):
        clock = FakeClock()
        take = taker(clock, lambda call_s=call_s: call_s)  # type: ignore[misc]
        found = collect(take, tail_rule(Method()), Pace(clock), calls_per_sample=1, taken_by="host clock")
        assert samples == pytest.approx(len(found.samples_s), rel=0.1)
        assert stopped == found.stopped


def test_tails_take_no_longer_than_the_maximum_time() -> None:
    assert 0.01 == tail_rule(Method(min_time_s=0.01, max_time_s=0.01)).min_time_s


def test_the_garbage_collector_rests_inside_and_comes_back() -> None:
    assert gc.isenabled()
    with garbage_kept():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with garbage_kept():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
